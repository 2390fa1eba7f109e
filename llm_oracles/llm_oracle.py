"""LLMOracle: a language model that answers the needs of a dialogue."""

from collections.abc import Mapping

from balar_core.dialogue import (
    Ask,
    Conclude,
    Need,
    ProposeDimensions,
    ProposeExpansion,
    ProposeQuestions,
    Reply,
)
from balar_core.errors import BalarError, InvalidSetting
from balar_core.labels import Table

from .elicitation import (
    TABLES,
    Asker,
    OnProgress,
    Preset,
    Progress,
    Sampling,
    Sheet,
    conclude,
    fill,
    propose_dimensions,
    propose_expansion,
    propose_questions,
    table_of,
    together,
)
from .models import Model
from .oracle import Oracle

__all__ = ["LLMOracle", "NobodyToAsk"]

GRANULARITIES = ("table", "row")


class NobodyToAsk(BalarError, LookupError):
    """A question is to be put to somebody who is not there."""


class LLMOracle:
    """Answers every need of a dialogue with a model; questions go to the users.

    All calls that do not wait for each other are made at the same time; how many of them really
    are is the model's business (see the limits of `ChatModel`).

    Args:
        model: the model.
        users: who answers the questions: one oracle for all users, or one for each name.
        preset: the kind of problem, or its name.
        granularity: `"table"` for one call per likelihood or answer table, as in BALAR; `"row"`
            for one call per row of it: values times as many calls, each with a shorter reply. For
            models that lose the thread in long replies. Priors take one call per value either way.
        sampling: how replies are drawn.
        repairs: how often to ask again for what is missing or cannot be used.
        on_progress: called whenever a call begins or ends.

    Raises:
        UnknownPreset: there is no preset of this name.
        InvalidSetting: no such granularity, or a negative number of repairs.
    """

    def __init__(
        self,
        model: Model,
        *,
        users: Oracle | Mapping[str, Oracle] | None = None,
        preset: Preset | str = "general",
        granularity: str = "table",
        sampling: Sampling | None = None,
        repairs: int = 2,
        on_progress: OnProgress | None = None,
    ) -> None:
        if granularity not in GRANULARITIES:
            raise InvalidSetting(
                f"granularity is {granularity!r}; it is one of {', '.join(GRANULARITIES)}."
            )
        self._users = users
        self._granularity = granularity
        self._asker = Asker(
            model,
            preset=preset,
            sampling=sampling,
            repairs=repairs,
            on_progress=on_progress,
        )

    @property
    def progress(self) -> Progress:
        """How far the calls are."""
        return self._asker.progress

    async def fulfil(self, need: Need) -> Reply:
        """The reply to a need.

        Raises:
            UnusableReply: the model's replies could not be used, repairs included.
            ModelError: the model gave no reply.
            NobodyToAsk: the question is for a user who is not there.
        """
        match need:
            case Ask():
                return await self._user(need.user.name).fulfil(need)
            case ProposeDimensions():
                return await propose_dimensions(self._asker, need)
            case ProposeQuestions():
                return await propose_questions(self._asker, need)
            case ProposeExpansion():
                return await propose_expansion(self._asker, need)
            case Conclude():
                return await conclude(self._asker, need)
            case _:
                return await self._tables(need)

    def _user(self, name: str) -> Oracle:
        users = self._users
        user = users.get(name) if isinstance(users, Mapping) else users
        if user is None:
            raise NobodyToAsk(
                f"There is nobody to answer for user {name!r}; give LLMOracle(users=...) an oracle "
                "for everybody who can be asked."
            )
        return user

    async def _tables(self, need: Need) -> Reply:
        """Fill all tables of a need at the same time."""
        elicitation = TABLES[type(need)]
        sheets = elicitation.sheets(need)
        tables = await together(map(self._table, sheets))
        reply: Reply = elicitation.reply(need, tables)
        return reply

    async def _table(self, sheet: Sheet) -> Table:
        parts = sheet.parts(self._size(sheet))
        filled: dict[str, str] = {}
        for part in await together(fill(self._asker, part) for part in parts):
            filled |= part
        return table_of(sheet, filled)

    def _size(self, sheet: Sheet) -> int:
        """How many cells are asked for in one call."""
        match sheet.purpose:
            case "priors":
                return 1
            case "score":
                return len(sheet.cells)
            case _:
                return sheet.width if self._granularity == "row" else len(sheet.cells)
