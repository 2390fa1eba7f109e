"""What a dialogue knows at one moment, and the steps from one moment to the next.

A `State` is a frozen value. Every step is a pure function `(setup, state, ...) -> State` that
validates first, so that a wrong reply changes nothing.

Elicitation (first tables and every expansion) is one mechanism: `fresh` dimensions and questions
are complete when every prior, every answer table and every likelihood table that they call for is
there; only then do they enter the belief.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import jax
import numpy as np

from ..answers import AnswerTables
from ..belief import Belief, expand, raise_for_status
from ..decision import Rule, Turn, respond
from ..errors import AlreadyAsked, InvalidSetting, UnknownPair
from ..labels import Row, evidence_weights
from ..numerics import as_array
from ..questions import Question
from ..space import Dimension, StateSpace
from ..status import Action, code_name, help_text
from ..tables import LikelihoodTables
from .needs import (
    Answered,
    Ask,
    Cell,
    Conclude,
    Concluded,
    ElicitAnswers,
    ElicitLikelihoods,
    ElicitPriors,
    Exchange,
    Need,
    ProposeDimensions,
    ProposeExpansion,
    ProposeQuestions,
)
from .setup import Setup

__all__ = ["Outcome", "State", "begin"]

Pair = tuple[int, int]

SETTLED = ("answer_settled", "dimensions_settled", "nothing_informative")
"""Reasons to end after which no question is missed."""


@dataclass(frozen=True)
class Outcome:
    """Why the questions ended.

    Attributes:
        reason: a code: `answer_settled`, `dimensions_settled`, `question_budget`, `round_budget`,
            `nothing_informative`, `failed` or `stopped`.
        words: the reason as a sentence.
    """

    reason: str
    words: str

    @property
    def settled(self) -> bool:
        """Whether the questions that are left were not needed, rather than cut short.

        >>> Outcome("stopped", "That is enough.").settled
        False
        """
        return self.reason in SETTLED


@dataclass(frozen=True)
class State:
    """Everything that a dialogue has been told and has worked out.

    Attributes:
        dimensions: all dimensions, those being elicited included.
        known: how many of them are part of the belief.
        priors: one distribution per dimension that has one.
        questions: all questions.
        questions_due: whether a proposal of questions is being waited for.
        questions_known: how many of them are part of the packed tables.
        tables: (question, user, dimension) -> array `(values, choices)`, None = does not matter.
        answer_tables: one array per dimension that has one.
        belief: the belief; None until the first tables are complete.
        packed: the tables that belong to it.
        answers: the packed answer tables, with a closed answer set.
        asked: the pairs asked, in order.
        conversation: the exchanges so far.
        expansions: how often a dimension was added.
        no_expansion: whether a proposal came back with nothing to add.
        turn: the last decision, on the host.
        outcome: why the questions ended.
        conclusion: the final answer.
        needs: what is needed now.
    """

    dimensions: tuple[Dimension, ...] = ()
    known: int = 0
    priors: tuple[np.ndarray, ...] = ()
    questions: tuple[Question, ...] = ()
    questions_due: bool = True
    questions_known: int = 0
    tables: Mapping[tuple[int, int, int], np.ndarray | None] = field(default_factory=dict)
    answer_tables: tuple[np.ndarray | None, ...] = ()
    belief: Belief | None = None
    packed: LikelihoodTables | None = None
    answers: AnswerTables | None = None
    asked: tuple[Pair, ...] = ()
    conversation: tuple[Exchange, ...] = ()
    expansions: int = 0
    no_expansion: bool = False
    turn: Turn | None = None
    outcome: Outcome | None = None
    conclusion: Concluded | None = None
    needs: tuple[Need, ...] = ()

    @property
    def rounds(self) -> int:
        """Questions and expansions so far."""
        return len(self.asked) + self.expansions


@dataclass(frozen=True)
class Learned:
    """Evidence about one pair.

    Attributes:
        pair: positions of the question and the user.
        weights: shape `(choices,)`; normalised.
        what: the evidence in words, for messages.
    """

    pair: Pair
    weights: np.ndarray
    what: str


def replace(state: State, **changes: object) -> State:
    """A copy with some fields changed."""
    return dataclasses.replace(state, **changes)  # type: ignore[arg-type]


def space_of(setup: Setup, dimensions: tuple[Dimension, ...]) -> StateSpace:
    """The space of some dimensions under the cap of the settings."""
    return StateSpace(dimensions, setup.settings.max_states)


def begin(setup: Setup) -> State:
    """The first state: nothing is known, dimensions are needed."""
    settings = setup.settings
    need = ProposeDimensions(
        prompt=setup.prompt,
        context=setup.context,
        users=setup.users,
        answers=setup.answers,
        max_dimensions=settings.max_dimensions,
        max_values=settings.max_values,
    )
    return State(needs=(need,))


def elicit(setup: Setup, state: State) -> State:
    """Ask for what is still missing; when nothing is, let it enter the belief and go on."""
    labels = setup.settings.labels.names
    fresh = state.dimensions[len(state.priors) :]
    unanswered = state.dimensions[len(state.answer_tables) :]
    needs: list[Need] = []
    if fresh:
        needs.append(ElicitPriors(setup.prompt, setup.context, fresh, labels, state.conversation))
    if state.questions_due:
        needs.append(_propose_questions(setup, state))
    if setup.answers is not None and unanswered:
        needs.append(ElicitAnswers(setup.prompt, setup.context, unanswered, setup.answers, labels))
    if not state.questions_due:
        cells = missing_cells(setup, state)
        if cells:
            needs.append(_elicit_likelihoods(setup, state, cells))
    if needs:
        return replace(state, needs=tuple(needs))
    return decide(setup, absorb(setup, state))


def missing_cells(setup: Setup, state: State) -> tuple[Cell, ...]:
    """The (question, user, dimension) tables that are still needed."""
    return tuple(
        Cell(q, user.name, dimension.name)
        for q in range(len(state.questions))
        for u, user in enumerate(setup.users)
        for j, dimension in enumerate(state.dimensions)
        if (q, u, j) not in state.tables
    )


def absorb(setup: Setup, state: State) -> State:
    """Let everything that was elicited enter the belief and the packed tables."""
    space = space_of(setup, state.dimensions)
    if state.belief is None:
        belief = Belief.from_priors(space, state.priors, bucketed=True)
    else:
        belief = state.belief
        for j in range(state.known, len(state.dimensions)):
            belief, _ = expand(
                belief,
                space_of(setup, state.dimensions[:j]),
                state.dimensions[j],
                state.priors[j],
                bucketed=True,
            )
    packed = LikelihoodTables.build(
        space,
        [len(q.choices) for q in state.questions],
        {
            (q, u): [state.tables[q, u, j] for j in range(len(state.dimensions))]
            for q in range(len(state.questions))
            for u in range(len(setup.users))
        },
        users=len(setup.users),
        asked=state.asked,
        noise=setup.settings.noise,
        bucketed=True,
        names=tuple(q.text for q in state.questions),
        user_names=tuple(u.name for u in setup.users),
    )
    answers = None
    if setup.answers is not None:
        answers = AnswerTables.build(space, len(setup.answers), state.answer_tables, bucketed=True)
    return replace(
        state,
        belief=belief,
        packed=packed,
        answers=answers,
        known=len(state.dimensions),
        questions_known=len(state.questions),
    )


def decide(setup: Setup, state: State, learned: Learned | None = None) -> State:
    """Take in what was learned, score all open pairs and say what is needed next.

    All of it is one compiled call, also where nothing was learned, so that it is compiled once.
    """
    assert state.belief is not None and state.packed is not None
    settings = setup.settings
    rounds_left = settings.max_rounds - state.rounds
    questions_left = settings.max_questions - len(state.asked)
    may_ask = questions_left > 0 and rounds_left > 0
    may_expand = may_ask and room_to_expand(setup, state)
    question, user = learned.pair if learned else (0, 0)
    evidence = np.ones(state.packed.choice_mask.shape[1])
    if learned:
        evidence[:] = 0
        evidence[: len(learned.weights)] = learned.weights
    response = respond(
        state.belief,
        state.packed,
        question,
        user,
        as_array(evidence, float),
        Rule(settings.alpha, settings.beta, settings.expand_multiplier, settings.min_information),
        questions_left=questions_left if settings.horizon == "questions" else rounds_left,
        may_ask=may_ask,
        may_expand=may_expand,
        answers=state.answers,
        target=target_position(setup, state.dimensions),
    )
    status, result = jax.device_get((response.update.status, response.turn))
    if learned:
        raise_for_status(status, learned.what)
    state = replace(state, belief=response.update.belief, turn=result)
    action = code_name(result.decision.action)
    if action == "ask":
        return replace(state, needs=(_ask(setup, state, result),))
    if action == "expand":
        return replace(state, needs=(_propose_expansion(setup, state),))
    if action == "question_budget" and rounds_left <= 0:
        action, words = "round_budget", help_text(Action.round_budget)
    else:
        words = help_text(result.decision.action)
    return finish(setup, state, action, words.replace("1 - alpha", f"{1 - settings.alpha:g}"))


def room_to_expand(setup: Setup, state: State) -> bool:
    """Whether another dimension would stay under the cap (and may exist at all)."""
    settings = setup.settings
    size = space_of(setup, state.dimensions).size
    return not state.no_expansion and size * settings.max_values <= settings.max_states


def finish(setup: Setup, state: State, reason: str, words: str) -> State:
    """End the questions; a final answer is needed if there is a belief to draw it from."""
    outcome = Outcome(reason, words)
    if state.turn is None:
        return replace(state, outcome=outcome, needs=(), conclusion=Concluded(None, words))
    need = Conclude(
        prompt=setup.prompt,
        context=setup.context,
        state=map_pairs(state),
        probability=float(np.exp(state.turn.map_state.log_probability)),
        answers=answer_pairs(setup, state),
        reason=reason,
        conversation=state.conversation,
    )
    return replace(state, outcome=outcome, needs=(need,))


def learn(setup: Setup, state: State, pair: Pair, weights: np.ndarray, reply: str) -> State:
    """Take in evidence about a pair, and go on."""
    assert state.belief is not None and state.packed is not None
    q, u = pair
    question, user = state.questions[q], setup.users[u]
    said = reply or ", ".join(
        choice for choice, weight in zip(question.choices, weights, strict=True) if weight > 0
    )
    learned = Learned(pair, weights, f"Question {question.text!r}, answer {said!r}")
    exchange = Exchange(
        question.text, question.choices, user.name, reply, tuple(float(w) for w in weights)
    )
    return decide(
        setup,
        replace(
            state,
            packed=state.packed.mark_asked(q, u),
            asked=(*state.asked, (q, u)),
            conversation=(*state.conversation, exchange),
        ),
        learned,
    )


def evidence_for(setup: Setup, question: Question, row: Row) -> np.ndarray:
    """Validated evidence over the choices of a question."""
    return evidence_weights(
        row,
        len(question.choices),
        setup.settings.labels,
        f"the evidence for question {question.text!r}",
    )


def pair_for(setup: Setup, state: State, need: Ask, reply: Answered) -> Pair:
    """The pair that an answer belongs to.

    Raises:
        UnknownPair: no such question or user.
        AlreadyAsked: it has been answered before.
    """
    name = need.user.name if reply.user is None else reply.user
    names = [user.name for user in setup.users]
    position = need.position if reply.position is None else reply.position
    if name not in names:
        raise UnknownPair(f"There is no user {name!r}; the users are {', '.join(names)}.")
    whole = isinstance(position, int) and not isinstance(position, bool)
    if not whole or not 0 <= position < state.questions_known:
        raise UnknownPair(
            f"There is no question {position!r}; there are {state.questions_known} questions, "
            "counted from 0."
        )
    pair = position, names.index(name)
    if pair in state.asked:
        said = state.conversation[state.asked.index(pair)]
        raise AlreadyAsked(
            f"{name!r} has answered {said.question!r} already"
            + (f" ({said.reply!r})" if said.reply else "")
            + "; take it back first if the answer was wrong."
        )
    return pair


def target_position(setup: Setup, dimensions: tuple[Dimension, ...]) -> int | None:
    """The position of the target dimension.

    Raises:
        InvalidSetting: there is no dimension of that name.
    """
    if setup.target is None:
        return None
    names = [d.name for d in dimensions]
    if setup.target not in names:
        raise InvalidSetting(
            f"The target dimension {setup.target!r} is not among the dimensions "
            f"{', '.join(map(repr, names))}."
        )
    return names.index(setup.target)


def map_pairs(state: State) -> tuple[tuple[str, str], ...]:
    """The MAP state as (dimension, value) pairs."""
    assert state.turn is not None
    digits = np.asarray(state.turn.map_state.digits)
    known = state.dimensions[: state.known]
    return tuple((d.name, d.values[int(v)]) for d, v in zip(known, digits, strict=False))


def answer_pairs(setup: Setup, state: State) -> tuple[tuple[str, float], ...] | None:
    """The answer posterior as (answer, probability) pairs; None without an answer set."""
    assert state.turn is not None
    if state.turn.answers is None:
        return None
    if setup.answers is not None:
        names = setup.answers
    else:
        position = target_position(setup, state.dimensions)
        assert position is not None
        names = state.dimensions[position].values
    return tuple((n, float(p)) for n, p in zip(names, state.turn.answers, strict=False))


def _ask(setup: Setup, state: State, result: Turn) -> Ask:
    q, u = int(result.decision.question), int(result.decision.user)
    question = state.questions[q]
    expected = np.asarray(result.scores.predictive)[q, u, : len(question.choices)]
    return Ask(
        question=question,
        position=q,
        user=setup.users[u],
        information=float(result.decision.information),
        expected=tuple(float(p) for p in expected),
    )


def _propose_questions(setup: Setup, state: State) -> ProposeQuestions:
    settings = setup.settings
    first = state.belief is None
    return ProposeQuestions(
        prompt=setup.prompt,
        context=setup.context,
        users=setup.users,
        dimensions=state.dimensions,
        targets=() if first else _targets(setup, state),
        existing=state.questions,
        max_questions=settings.max_initial_questions if first else settings.max_new_questions,
        max_choices=settings.max_choices,
        conversation=state.conversation,
    )


def _propose_expansion(setup: Setup, state: State) -> ProposeExpansion:
    return ProposeExpansion(
        prompt=setup.prompt,
        context=setup.context,
        users=setup.users,
        dimensions=state.dimensions,
        uncertain=_uncertain(setup, state),
        max_values=setup.settings.max_values,
        conversation=state.conversation,
    )


def _elicit_likelihoods(setup: Setup, state: State, cells: tuple[Cell, ...]) -> ElicitLikelihoods:
    positions = tuple(sorted({cell.question for cell in cells}))
    named = {cell.dimension for cell in cells}
    return ElicitLikelihoods(
        prompt=setup.prompt,
        context=setup.context,
        users=setup.users,
        dimensions=tuple(d for d in state.dimensions if d.name in named),
        questions=tuple(state.questions[q] for q in positions),
        positions=positions,
        cells=cells,
        labels=setup.settings.labels.names,
    )


def _targets(setup: Setup, state: State) -> tuple[str, ...]:
    """The new dimensions and the most uncertain old ones (BALAR, section 9)."""
    new = tuple(d.name for d in state.dimensions[state.known :])
    return (*new, *_uncertain(setup, state))


def _uncertain(setup: Setup, state: State) -> tuple[str, ...]:
    """The known dimensions of highest marginal entropy, ties to the lowest position."""
    assert state.turn is not None
    p = np.asarray(state.turn.marginals, dtype=np.float64)[: state.known]
    entropies = -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), axis=1)
    order = np.argsort(-entropies.round(9), kind="stable")
    return tuple(
        state.dimensions[int(j)].name for j in order[: setup.settings.uncertain_dimensions]
    )
