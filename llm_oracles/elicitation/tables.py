"""Needs that are tables of labels, and the way from a need to its sheets and back to its reply.

| need | one sheet is | cells | one call is |
|---|---|---|---|
| `ElicitPriors` | a dimension | its values | a cell |
| `ElicitLikelihoods` | a (question, user, dimension) | values × choices | a sheet, or a row |
| `ElicitAnswers` | a dimension | values × answers | a sheet, or a row |
| `ScoreAnswer` | a reply | choices | a sheet |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from balar_core.dialogue import (
    CellTable,
    ElicitAnswers,
    ElicitedAnswers,
    ElicitedLikelihoods,
    ElicitedPriors,
    ElicitLikelihoods,
    ElicitPriors,
    Need,
    Reply,
    ScoreAnswer,
    ScoredAnswer,
)
from balar_core.labels import Table
from balar_core.space import Dimension

from . import material
from .sheet import Sheet

__all__ = ["TABLES", "TableElicitation", "TableNeed", "TableReply"]

TableNeed = ElicitPriors | ElicitLikelihoods | ElicitAnswers | ScoreAnswer
TableReply = ElicitedPriors | ElicitedLikelihoods | ElicitedAnswers | ScoredAnswer
N = TypeVar("N", bound=Need)
R = TypeVar("R", bound=Reply)


@dataclass(frozen=True)
class TableElicitation(Generic[N, R]):
    """How a need becomes sheets, and filled sheets its reply.

    Attributes:
        sheets: the sheets of a need, in a fixed order.
        reply: the reply that is made of one table per sheet.
        tables: the tables in a reply, one per sheet.
    """

    sheets: Callable[[N], tuple[Sheet, ...]]
    reply: Callable[[N, Sequence[Table | None]], R]
    tables: Callable[[R], tuple[Table | None, ...]]


# --- priors --------------------------------------------------------------------------------------


def _prior_sheets(need: ElicitPriors) -> tuple[Sheet, ...]:
    return tuple(
        Sheet(
            "priors",
            {
                "request": need.prompt,
                "context": need.context,
                "conversation": material.conversation(need.conversation),
                **material.unknown(dimension),
            },
            {
                f"value_{v}": f"value {value!r} of dimension {dimension.name!r}"
                for v, value in enumerate(dimension.values)
            },
            dimension.size,
            need.labels,
        )
        for dimension in need.dimensions
    )


PRIORS = TableElicitation[ElicitPriors, ElicitedPriors](
    _prior_sheets,
    lambda need, tables: ElicitedPriors(tuple(table[0] for table in tables if table)),
    lambda reply: tuple((row,) for row in reply.priors),
)

# --- likelihoods ---------------------------------------------------------------------------------


def _likelihood_sheets(need: ElicitLikelihoods) -> tuple[Sheet, ...]:
    questions = dict(zip(need.positions, need.questions, strict=True))
    dimensions = {dimension.name: dimension for dimension in need.dimensions}
    users = {user.name: user for user in need.users}
    sheets = []
    for cell in need.cells:
        question, dimension = questions[cell.question], dimensions[cell.dimension]
        data = {
            "request": need.prompt,
            "context": need.context,
            "person": material.person(users[cell.user]),
            **material.question(question),
            **material.unknown(dimension),
        }
        where = f"question {question.text!r}, user {cell.user!r}"
        cells = _cells(dimension, "choice", question.choices, where)
        sheets.append(Sheet("likelihoods", data, cells, len(question.choices), need.labels))
    return tuple(sheets)


def _likelihood_reply(
    need: ElicitLikelihoods, tables: Sequence[Table | None]
) -> ElicitedLikelihoods:
    return ElicitedLikelihoods(
        tuple(
            CellTable(cell.question, cell.user, cell.dimension, table)
            for cell, table in zip(need.cells, tables, strict=True)
        )
    )


LIKELIHOODS = TableElicitation[ElicitLikelihoods, ElicitedLikelihoods](
    _likelihood_sheets,
    _likelihood_reply,
    lambda reply: tuple(given.table for given in reply.tables),
)

# --- answers -------------------------------------------------------------------------------------


def _answer_sheets(need: ElicitAnswers) -> tuple[Sheet, ...]:
    return tuple(
        Sheet(
            "answers",
            {
                "request": need.prompt,
                "context": need.context,
                "answers": material.ids("answer", need.answers),
                **material.unknown(dimension),
            },
            _cells(dimension, "answer", need.answers, "the answer tables"),
            len(need.answers),
            need.labels,
        )
        for dimension in need.dimensions
    )


ANSWERS = TableElicitation[ElicitAnswers, ElicitedAnswers](
    _answer_sheets,
    lambda need, tables: ElicitedAnswers(tuple(tables)),
    lambda reply: reply.tables,
)

# --- the score of a reply ------------------------------------------------------------------------


def _score_sheets(need: ScoreAnswer) -> tuple[Sheet, ...]:
    data = {
        "person": material.person(need.user),
        **material.question(need.question),
        "reply": need.reply,
    }
    cells = {
        f"choice_{c}": f"choice {choice!r} of question {need.question.text!r}"
        for c, choice in enumerate(need.question.choices)
    }
    return (Sheet("score", data, cells, len(cells), need.labels),)


SCORE = TableElicitation[ScoreAnswer, ScoredAnswer](
    _score_sheets,
    lambda need, tables: ScoredAnswer(tables[0][0] if tables[0] else ()),
    lambda reply: ((reply.evidence,),),
)

# -------------------------------------------------------------------------------------------------

TABLES: Mapping[type[Need], TableElicitation[Any, Any]] = {
    ElicitPriors: PRIORS,
    ElicitLikelihoods: LIKELIHOODS,
    ElicitAnswers: ANSWERS,
    ScoreAnswer: SCORE,
}
"""The way of every need that is a table."""


def _cells(dimension: Dimension, kind: str, columns: Sequence[str], where: str) -> dict[str, str]:
    """The cells of a table with a row per value and a column per choice or answer."""
    return {
        f"value_{v}/{kind}_{c}": (
            f"value {value!r} of dimension {dimension.name!r}, {kind} {column!r} ({where})"
        )
        for v, value in enumerate(dimension.values)
        for c, column in enumerate(columns)
    }
