"""The shape of a problem: what a problem file may say (docs/problems.md is its reference).

These models check structure alone; `problem_checks` finds what does not fit together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator
from pydantic_core import PydanticCustomError

from balar_core.dialogue import Settings, Setup
from balar_core.errors import InvalidSetting
from balar_core.labels import DEFAULT_LABELS, LabelMap, Row, Table
from balar_core.questions import Question, User
from balar_core.space import Dimension

__all__ = [
    "AnswerEntry",
    "AnswersEntry",
    "DimensionEntry",
    "ExpansionEntry",
    "Problem",
    "QuestionEntry",
    "UserEntry",
    "ValueEntry",
    "parse_setting",
    "rows_of",
    "setting_types",
]


def _plain(field: str) -> BeforeValidator:
    """Let a plain text stand for a mapping that says only `field`."""
    return BeforeValidator(lambda data: {field: data} if isinstance(data, str) else data)


def _cell(cell: object) -> str | float:
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return float(cell)
    if isinstance(cell, str):
        try:
            return float(cell)
        except ValueError:
            return cell
    raise PydanticCustomError(
        "cell", "an entry is a label or a number, not {it}", {"it": repr(cell)}
    )


def _row(data: object) -> Row:
    if not isinstance(data, list | tuple):
        message = "a row is a list of labels or of numbers, such as [likely, unlikely]"
        raise PydanticCustomError("row", message)
    cells = tuple(_cell(cell) for cell in data)
    return cells  # type: ignore[return-value]  # mixed rows are found by the checks


def rows_of(table: "TableEntry | None", dimension: Dimension) -> Table | None:
    """The rows of a table in the order of the values of its dimension."""
    return None if table is None else tuple(table[value] for value in dimension.values)


RowEntry = Annotated[Row, PlainValidator(_row)]
TableEntry = dict[str, RowEntry]
"""Value of a dimension -> its row: one label or number per choice."""
TablesEntry = dict[str, TableEntry]
"""Name of a dimension -> its table; a dimension that is left out does not matter."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class UserEntry(_Entry):
    """Somebody who can be asked."""

    name: str
    public: str = ""

    @property
    def core(self) -> User:
        """The user as the engine knows it."""
        return User(self.name, self.public)


class ValueEntry(_Entry):
    """A value of a dimension, with a word of explanation."""

    value: str
    note: str = ""


class DimensionEntry(_Entry):
    """Something that is not yet known, its values, and how likely they are at first."""

    name: str
    note: str = ""
    values: tuple[Annotated[ValueEntry, _plain("value")], ...]
    prior: RowEntry | None = None

    @property
    def value_names(self) -> tuple[str, ...]:
        """The values, without their notes."""
        return tuple(entry.value for entry in self.values)

    @property
    def core(self) -> Dimension:
        """The dimension as the engine knows it; the notes of its values are lines of its note."""
        notes = (f"{entry.value}: {entry.note}" for entry in self.values if entry.note)
        note = "\n".join(filter(None, (self.note, *notes)))
        return Dimension(self.name, self.value_names, note)

    @property
    def prior_row(self) -> Row:
        """The prior; equal probabilities if none is given."""
        return self.prior or (1 / len(self.values),) * len(self.values)


class QuestionEntry(_Entry):
    """A question, whom it may be put to, and what its answers tell."""

    text: str
    note: str = ""
    choices: tuple[str, ...]
    ask: Annotated[
        tuple[str, ...] | None, BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)
    ] = None
    given: TablesEntry = {}
    given_for: dict[str, TablesEntry] = {}

    @property
    def core(self) -> Question:
        """The question as the engine knows it."""
        return Question(self.text, self.choices, self.note)

    def tables_for(self, user: str) -> TablesEntry:
        """The tables that hold for a user; none if the user is not to be asked."""
        if self.ask is not None and user not in self.ask:
            return {}
        return {**self.given, **self.given_for.get(user, {})}


class ExpansionEntry(DimensionEntry):
    """A dimension, and questions about it, held back until the engine needs a new distinction."""

    questions: tuple[QuestionEntry, ...] = ()


class AnswerEntry(_Entry):
    """One of the possible answers to the prompt."""

    answer: str
    note: str = ""
    conclusion: str = ""


class AnswersEntry(_Entry):
    """The closed answer set: written like a question, for it too has choices and tables."""

    choices: tuple[Annotated[AnswerEntry, _plain("answer")], ...]
    given: TablesEntry = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The answers, without their notes."""
        return tuple(entry.answer for entry in self.choices)


class Problem(_Entry):
    """Everything a dialogue needs, written down beforehand.

    Make one with `llm_oracles.problem.load` or `make_problem`, which also check that its parts
    fit together.
    """

    name: str
    prompt: str
    context: str = ""
    notes: tuple[str, ...] = ()
    users: tuple[Annotated[UserEntry, _plain("name")], ...] = (UserEntry(name="you"),)
    dimensions: tuple[DimensionEntry, ...]
    answers: AnswersEntry | None = None
    target: str | None = None
    questions: tuple[QuestionEntry, ...]
    expansions: tuple[ExpansionEntry, ...] = ()
    labels: dict[str, float] | None = None
    settings: dict[str, Any] = {}

    @property
    def label_map(self) -> LabelMap:
        """The label map: the given one, or likely, neutral and unlikely."""
        return DEFAULT_LABELS if self.labels is None else LabelMap.of(self.labels)

    @property
    def all_dimensions(self) -> tuple[DimensionEntry, ...]:
        """The dimensions there are from the start, then those of the expansions."""
        return self.dimensions + self.expansions

    @property
    def all_questions(self) -> tuple[QuestionEntry, ...]:
        """The questions there are from the start, then those of the expansions."""
        return self.questions + tuple(q for e in self.expansions for q in e.questions)

    @property
    def held(self) -> dict[str, int]:
        """What the problem holds of everything that a setting limits."""
        return {
            "max_dimensions": len(self.dimensions),
            "max_values": max((len(d.values) for d in self.all_dimensions), default=0),
            "max_initial_questions": len(self.questions),
            "max_choices": max((len(q.choices) for q in self.all_questions), default=0),
            "max_new_questions": max((len(e.questions) for e in self.expansions), default=0),
        }

    def setup(self, origin: str = "") -> Setup:
        """What a dialogue about this problem starts from.

        Limits that the problem does not set are what it holds; every other setting that it does
        not set has its default.

        Args:
            origin: where the problem came from, such as the path of its file.
        """
        given = {name: parse_setting(name, value) for name, value in self.settings.items()}
        settings: dict[str, Any] = {**self.held, **given, "labels": self.label_map}
        return Setup(
            prompt=self.prompt,
            context=self.context,
            users=tuple(user.core for user in self.users),
            answers=self.answers.names if self.answers else None,
            target=self.target,
            settings=Settings(**settings),
            origin=origin or self.name,
        )


def setting_types() -> Iterator[tuple[str, type]]:
    """The settings a problem may give, and the type of each."""
    for field in fields(Settings):
        if field.name != "labels":
            yield field.name, type(field.default)


def parse_setting(name: str, value: object) -> int | float | str:
    """The value of a setting, which in a file is a text.

    Raises:
        InvalidSetting: no such setting, or a value it cannot have.

    >>> parse_setting("max_questions", "12")
    12
    """
    types: Mapping[str, type] = dict(setting_types())
    if name not in types:
        raise InvalidSetting(f"There is no setting {name!r}.")
    parsed: Any = value
    if isinstance(value, str):
        try:
            parsed = types[name](value)
        except ValueError:
            what = "a whole number" if types[name] is int else "a number"
            raise InvalidSetting(f"{name} is {value!r}; it is {what}.") from None
    Settings(**{name: parsed})
    return parsed  # type: ignore[no-any-return]
