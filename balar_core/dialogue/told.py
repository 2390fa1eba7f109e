"""One handler per kind of reply: validate it against its need, then take the step.

A handler raises before anything is changed; what it returns is the next `State`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InvalidDimension, InvalidEvidence, InvalidInput, InvalidQuestion, InvalidTable
from ..questions import Question
from ..space import Dimension
from ..tables import check_possible, table_array
from ..text import check_distinct
from . import state as _state
from .needs import (
    Answered,
    Ask,
    Cell,
    Conclude,
    Concluded,
    ElicitAnswers,
    ElicitedAnswers,
    ElicitedLikelihoods,
    ElicitedPriors,
    ElicitLikelihoods,
    ElicitPriors,
    ProposedDimensions,
    ProposedExpansion,
    ProposeDimensions,
    ProposedQuestions,
    ProposeExpansion,
    ProposeQuestions,
    ScoreAnswer,
    ScoredAnswer,
)
from .setup import Setup
from .state import State, replace

__all__ = ["HANDLERS"]


def _dimensions(
    setup: Setup, state: State, need: ProposeDimensions, reply: ProposedDimensions
) -> State:
    dimensions = tuple(reply.dimensions)
    if len(dimensions) > need.max_dimensions:
        raise InvalidDimension(
            f"{len(dimensions)} dimensions were proposed; max_dimensions is {need.max_dimensions}."
        )
    for dimension in dimensions:
        _check_values(dimension, need.max_values)
    _state.space_of(setup, dimensions)
    _state.target_position(setup, dimensions)
    return _state.elicit(setup, replace(state, dimensions=dimensions))


def _priors(setup: Setup, state: State, need: ElicitPriors, reply: ElicitedPriors) -> State:
    if len(reply.priors) != len(need.dimensions):
        raise InvalidTable(
            f"{len(reply.priors)} priors for {len(need.dimensions)} dimensions; give one each, in "
            "the order asked."
        )
    rows = tuple(
        setup.settings.labels.distribution(row, f"the prior of dimension {d.name!r}", length=d.size)
        for row, d in zip(reply.priors, need.dimensions, strict=True)
    )
    return _state.elicit(setup, replace(state, priors=(*state.priors, *rows)))


def _questions(
    setup: Setup, state: State, need: ProposeQuestions, reply: ProposedQuestions
) -> State:
    fresh = tuple(reply.questions)
    if len(fresh) > need.max_questions:
        raise InvalidQuestion(
            f"{len(fresh)} questions were proposed; at most {need.max_questions} are wanted now."
        )
    if not fresh and state.belief is None:
        raise InvalidQuestion("No question was proposed; at least one is needed to begin.")
    for question in fresh:
        if not isinstance(question, Question):
            raise InvalidQuestion(f"{question!r} is not a Question.")
        if len(question.choices) > need.max_choices:
            raise InvalidQuestion(
                f"Question {question.text!r} has {len(question.choices)} choices; max_choices is "
                f"{need.max_choices}."
            )
    questions = (*state.questions, *fresh)
    check_distinct((q.text for q in questions), "Questions", error=InvalidQuestion)
    return _state.elicit(setup, replace(state, questions=questions, questions_due=False))


def _likelihoods(
    setup: Setup, state: State, need: ElicitLikelihoods, reply: ElicitedLikelihoods
) -> State:
    users = {user.name: u for u, user in enumerate(setup.users)}
    positions = {d.name: j for j, d in enumerate(state.dimensions)}
    wanted = set(need.cells)
    tables = dict(state.tables)
    seen: set[Cell] = set()
    for given in reply.tables:
        cell = Cell(given.question, given.user, given.dimension)
        if cell not in wanted:
            raise InvalidTable(f"There is a table for {_cell_name(state, cell)}; it was not asked.")
        if cell in seen:
            raise InvalidTable(f"There are two tables for {_cell_name(state, cell)}; give one.")
        seen.add(cell)
        j = positions[cell.dimension]
        key = (cell.question, users[cell.user], j)
        tables[key] = (
            None
            if given.table is None
            else table_array(
                given.table,
                state.dimensions[j].size,
                len(state.questions[cell.question].choices),
                setup.settings.labels,
                f"The table of {_cell_name(state, cell)}",
            )
        )
    missing = [cell for cell in need.cells if cell not in seen]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        names = "; ".join(_cell_name(state, cell) for cell in missing[:3])
        raise InvalidTable(f"{len(missing)} table(s) are missing: {names}{more}.")
    return _state.elicit(setup, replace(state, tables=tables))


def _answer_tables(
    setup: Setup, state: State, need: ElicitAnswers, reply: ElicitedAnswers
) -> State:
    if len(reply.tables) != len(need.dimensions):
        raise InvalidTable(
            f"{len(reply.tables)} answer tables for {len(need.dimensions)} dimensions; give one "
            "each, in the order asked."
        )
    arrays = tuple(
        None
        if table is None
        else table_array(
            table,
            d.size,
            len(need.answers),
            setup.settings.labels,
            f"The answer table of dimension {d.name!r}",
        )
        for table, d in zip(reply.tables, need.dimensions, strict=True)
    )
    both = (*state.answer_tables, *arrays)
    check_possible(_state.space_of(setup, state.dimensions), both, "The answer tables")
    return _state.elicit(setup, replace(state, answer_tables=both))


def _answered(setup: Setup, state: State, need: Ask, reply: Answered) -> State:
    pair = _state.pair_for(setup, state, need, reply)
    question, user = state.questions[pair[0]], setup.users[pair[1]]
    forms = [reply.choice is not None, reply.evidence is not None, reply.unknown]
    if sum(forms) > 1:
        raise InvalidEvidence(
            f"The answer to {question.text!r} gives more than one of choice, evidence and unknown."
        )
    count = len(question.choices)
    if reply.unknown:
        weights = np.full(count, 1 / count)
    elif reply.choice is not None:
        if isinstance(reply.choice, bool) or not isinstance(reply.choice, int):
            raise InvalidEvidence(
                f"The choice is {reply.choice!r}; it is a position, 0 to {count - 1}."
            )
        if not 0 <= reply.choice < count:
            raise InvalidEvidence(
                f"Choice {reply.choice} does not exist; question {question.text!r} has {count} "
                "choices, counted from 0."
            )
        weights = np.eye(count)[reply.choice]
    elif reply.evidence is not None:
        weights = _state.evidence_for(setup, question, reply.evidence)
    elif reply.reply.strip():
        score = ScoreAnswer(question, pair[0], user, reply.reply, setup.settings.labels.names)
        return replace(state, needs=(score,))
    else:
        raise InvalidEvidence(
            f"The answer to {question.text!r} is empty; give a choice, evidence, unknown or words."
        )
    return _state.learn(setup, state, pair, weights, reply.reply)


def _scored(setup: Setup, state: State, need: ScoreAnswer, reply: ScoredAnswer) -> State:
    weights = _state.evidence_for(setup, need.question, reply.evidence)
    pair = need.position, setup.users.index(need.user)
    return _state.learn(setup, state, pair, weights, need.reply)


def _expansion(
    setup: Setup, state: State, need: ProposeExpansion, reply: ProposedExpansion
) -> State:
    if reply.dimension is None:
        return _state.decide(setup, replace(state, no_expansion=True))
    _check_values(reply.dimension, need.max_values)
    dimensions = (*state.dimensions, reply.dimension)
    _state.space_of(setup, dimensions)
    return _state.elicit(
        setup,
        replace(
            state,
            dimensions=dimensions,
            questions_due=setup.settings.max_new_questions > 0,
            expansions=state.expansions + 1,
        ),
    )


def _concluded(setup: Setup, state: State, need: Conclude, reply: Concluded) -> State:
    if need.answers is not None and reply.answer not in {name for name, _ in need.answers}:
        names = ", ".join(repr(name) for name, _ in need.answers[:12])
        raise InvalidInput(f"The final answer is {reply.answer!r}; it is one of {names}.")
    return replace(state, conclusion=reply, needs=())


def _check_values(dimension: Dimension, most: int) -> None:
    if not isinstance(dimension, Dimension):
        raise InvalidDimension(f"{dimension!r} is not a Dimension.")
    if dimension.size > most:
        raise InvalidDimension(
            f"Dimension {dimension.name!r} has {dimension.size} values; max_values is {most}."
        )


def _cell_name(state: State, cell: Cell) -> str:
    known = isinstance(cell.question, int) and 0 <= cell.question < len(state.questions)
    text = repr(state.questions[cell.question].text) if known else f"number {cell.question}"
    return f"question {text}, user {cell.user!r}, dimension {cell.dimension!r}"


HANDLERS: dict[type, Callable[[Setup, State, Any, Any], State]] = {
    ProposedDimensions: _dimensions,
    ElicitedPriors: _priors,
    ProposedQuestions: _questions,
    ElicitedLikelihoods: _likelihoods,
    ElicitedAnswers: _answer_tables,
    Answered: _answered,
    ScoredAnswer: _scored,
    ProposedExpansion: _expansion,
    Concluded: _concluded,
}
"""Reply type -> handler(setup, state, need, reply)."""
