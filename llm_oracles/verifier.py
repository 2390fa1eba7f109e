"""Verifier: a second look at every table, which may correct it once."""

from collections.abc import Mapping

from pydantic import BaseModel, Field

from balar_core.dialogue import Need, Reply
from balar_core.errors import InvalidTable
from balar_core.labels import Table

from .elicitation import (
    TABLES,
    Asker,
    OnProgress,
    Preset,
    Progress,
    Sampling,
    Sheet,
    Task,
    instruction,
    schema_of,
    table_of,
    together,
)
from .models import Model
from .oracle import Oracle

__all__ = ["Verifier"]


class Correction(BaseModel):
    """A cell and the label that it should have."""

    cell: str
    label: str


class VerifierReply(BaseModel):
    """What is wrong in a table."""

    reason: str = Field("", max_length=300)
    corrections: list[Correction]


class Verifier:
    """Lets a model check the tables of labels that another oracle fills, and correct each once.

    Proposals, answers of people and tables of numbers are passed on as they are. A table costs one
    call, whatever is wrong with it.

    Args:
        oracle: who fills the tables.
        model: who checks them; another model than the one that filled them sees more.
        preset: the kind of problem, or its name.
        sampling: how replies are drawn.
        repairs: how often to ask again if the reply cannot be used.
        on_progress: called whenever a call begins or ends.
    """

    def __init__(
        self,
        oracle: Oracle,
        model: Model,
        *,
        preset: Preset | str = "general",
        sampling: Sampling | None = None,
        repairs: int = 2,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._oracle = oracle
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
        """The other oracle's reply, checked if it is made of tables.

        Raises:
            UnusableReply: the verifier's replies could not be used, repairs included.
            ModelError: the verifier gave no reply.
        """
        reply = await self._oracle.fulfil(need)
        elicitation = TABLES.get(type(need))
        if elicitation is None:
            return reply
        pairs = zip(elicitation.sheets(need), elicitation.tables(reply), strict=True)
        tables = await together(self._checked(sheet, table) for sheet, table in pairs)
        checked: Reply = elicitation.reply(need, tables)
        return checked

    async def _checked(self, sheet: Sheet, table: Table | None) -> Table | None:
        given = _labels(sheet, table)
        if given is None:
            return table
        corrections = await self._asker.ask(
            self._task(sheet, given), lambda data: _corrections(sheet, data)
        )
        return table_of(sheet, {**given, **corrections})

    def _task(self, sheet: Sheet, given: Mapping[str, str]) -> Task:
        filling = sheet.task(self._asker)
        quoted = filling.instruction.removeprefix(self._asker.preset.role).strip()
        return Task(
            "verify",
            instruction(
                self._asker.preset,
                "verify",
                instruction=quoted.replace("\n", "\n> "),
                labels=", ".join(sheet.labels),
            ),
            {**filling.data, "given": dict(given)},
            schema_of(
                VerifierReply,
                most={"corrections": len(sheet.cells)},
                one_of={"cell": list(sheet.cells), "label": sheet.labels},
            ),
        )


def _labels(sheet: Sheet, table: Table | None) -> dict[str, str] | None:
    """The labels in a table by cell; None if there are none."""
    cells = [cell for row in table or () for cell in row]
    if not cells or not all(isinstance(cell, str) for cell in cells):
        return None
    return dict(zip(sheet.cells, map(str, cells), strict=True))


def _corrections(sheet: Sheet, data: object) -> dict[str, str]:
    """The corrections in a reply.

    Raises:
        InvalidTable: one is about a cell or a label that does not exist, or a cell comes twice.
    """
    found: dict[str, str] = {}
    for correction in VerifierReply.model_validate(data).corrections:
        cell, label = correction.cell, correction.label
        if cell not in sheet.cells or label not in sheet.labels:
            raise InvalidTable(
                f"There is no cell {cell!r}, or no label {label!r}; the labels are "
                f"{', '.join(sheet.labels)}."
            )
        if cell in found:
            raise InvalidTable(f"There are two corrections of {cell}; give one.")
        found[cell] = label
    return found
