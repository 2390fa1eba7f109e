"""`Dialogue`: a state machine without input or output.

A dialogue never calls a model and never asks anybody. It says what it needs next (`needs`) and is
told what came back (`tell`). It is a frozen value: telling it something gives a new dialogue and
leaves the old one as it was, so that forking is free. It is the fold of its replies, so that its
log is a checkpoint, a trajectory, a test fixture and a replay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

import numpy as np

from ..belief import Belief
from ..errors import (
    BalarError,
    CorruptDialogue,
    InvalidDimension,
    InvalidEvidence,
    InvalidInput,
    InvalidQuestion,
    InvalidTable,
    UnexpectedReply,
)
from ..questions import Question
from ..space import Dimension, StateSpace
from ..tables import LikelihoodTables, check_possible, table_array
from ..text import check_distinct
from . import state as _state
from .codec import dumps, from_data, loads, read, to_data
from .explain import Explanation, explain
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
    Exchange,
    Need,
    ProposedDimensions,
    ProposedExpansion,
    ProposeDimensions,
    ProposedQuestions,
    ProposeExpansion,
    ProposeQuestions,
    Reply,
    ScoreAnswer,
    ScoredAnswer,
    Stopped,
)
from .setup import Setup
from .state import Outcome, State, replace

__all__ = ["Dialogue"]

FORMAT, VERSION = "balar-dialogue", 1


@dataclass(frozen=True)
class Dialogue:
    """A dialogue that finds out what is true by asking.

    Make one with `Dialogue.start`; go on with `tell`.

    Attributes:
        setup: what was fixed before the first reply.
        replies: everything it has been told, in order.

    >>> from balar_core.dialogue import (
    ...     CellTable, Dimension, ElicitedLikelihoods, ElicitedPriors, Question, Setup
    ... )
    >>> d = Dialogue.start(Setup("My head hurts. What should I do?"))
    >>> d.need.kind
    'propose_dimensions'
    >>> d = d.tell(ProposedDimensions((Dimension("cause", ("tension", "migraine")),)))
    >>> d = d.tell(ElicitedPriors((("likely", "neutral"),)))
    >>> d = d.tell(ProposedQuestions((Question("Does light hurt?", ("yes", "no")),)))
    >>> table = (("unlikely", "likely"), ("likely", "unlikely"))
    >>> d = d.tell(ElicitedLikelihoods((CellTable(0, "you", "cause", table),)))
    >>> d.need.question.text, round(d.need.information, 3)
    ('Does light hurt?', 0.183)
    >>> d = d.tell(Answered(choice=0))
    >>> {value: round(p, 3) for value, p in d.marginals()["cause"].items()}
    {'tension': 0.286, 'migraine': 0.714}
    """

    setup: Setup
    replies: tuple[Reply, ...] = ()
    _state: State = field(default_factory=State, repr=False, compare=False)

    @classmethod
    def start(cls, setup: Setup) -> Self:
        """A dialogue that has been told nothing yet."""
        return cls(setup, (), _state.begin(setup))

    @classmethod
    def replay(cls, setup: Setup, replies: Sequence[Reply]) -> Self:
        """The dialogue that `setup` and `replies` lead to.

        Raises:
            BalarError: a reply does not fit; the message gives its number and kind.
        """
        dialogue = cls.start(setup)
        for number, reply in enumerate(replies):
            try:
                dialogue = dialogue.tell(reply)
            except BalarError as error:
                kind = getattr(reply, "kind", type(reply).__name__)
                raise type(error)(f"Reply {number} ({kind}): {error}") from None
        return dialogue

    # --- what it needs, what it is told -----------------------------------------------------------

    @property
    def needs(self) -> tuple[Need, ...]:
        """Everything that can be answered now, in any order; empty when finished."""
        return self._state.needs

    @property
    def need(self) -> Need | None:
        """The first need, or None when finished."""
        return self.needs[0] if self.needs else None

    @property
    def finished(self) -> bool:
        """Whether nothing more is needed."""
        return not self.needs

    def tell(self, reply: Reply) -> Self:
        """The dialogue after a reply to one of its needs (or after `Stopped`).

        Raises:
            UnexpectedReply: nothing of this kind is needed now.
            BalarError: the reply is malformed, too large or impossible. Nothing has changed: this
                dialogue needs what it needed before.
        """
        if isinstance(reply, Stopped):
            if self.finished or isinstance(self.need, Conclude):
                raise UnexpectedReply("The questions have ended already; there is nothing to stop.")
            state = _state.finish(self.setup, self._state, "stopped", f"Stop: {reply.reason}.")
        else:
            handler, need_type = _HANDLERS.get(type(reply), (None, None))
            need = next((n for n in self.needs if type(n) is need_type), None)
            if handler is None or need is None:
                raise UnexpectedReply(self._unexpected(reply))
            state = handler(self.setup, self._state, need, reply)
        return type(self)(self.setup, (*self.replies, reply), state)

    def back(self) -> Self:
        """The dialogue as it was before the last answer.

        Raises:
            UnexpectedReply: nothing has been answered yet.
        """
        answers = [i for i, reply in enumerate(self.replies) if isinstance(reply, Answered)]
        if not answers:
            raise UnexpectedReply("Nothing has been answered yet, so there is nothing to undo.")
        return type(self).replay(self.setup, self.replies[: answers[-1]])

    def _unexpected(self, reply: object) -> str:
        kind = getattr(reply, "kind", type(reply).__name__)
        if self.finished:
            return f"The dialogue is finished; it cannot be told {kind!r}."
        wanted = " or ".join(repr(_REPLY_TO[type(need)].kind) for need in self.needs)
        return f"The dialogue is waiting for {wanted}; it was told {kind!r}."

    # --- what it knows ----------------------------------------------------------------------------

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions, those being elicited included."""
        return self._state.dimensions

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions, in the order in which they were proposed."""
        return self._state.questions

    @property
    def conversation(self) -> tuple[Exchange, ...]:
        """What was asked and answered."""
        return self._state.conversation

    @property
    def asked(self) -> tuple[tuple[int, str], ...]:
        """The pairs asked, in order: (position of the question, name of the user)."""
        return tuple((q, self.setup.users[u].name) for q, u in self._state.asked)

    @property
    def space(self) -> StateSpace | None:
        """The space of the belief; None before there is one."""
        known = self._state.dimensions[: self._state.known]
        return _state.space_of(self.setup, known) if known else None

    @property
    def belief(self) -> Belief | None:
        """The belief; None before the first tables are complete."""
        return self._state.belief

    @property
    def tables(self) -> LikelihoodTables | None:
        """The packed likelihood tables that go with the belief."""
        return self._state.packed

    @property
    def entropy(self) -> float:
        """The entropy of the belief, in nats.

        Raises:
            UnexpectedReply: there is no belief yet.
        """
        return float(self._known_turn().decision.entropy)

    @property
    def outcome(self) -> Outcome | None:
        """Why the questions ended; None while they go on."""
        return self._state.outcome

    @property
    def conclusion(self) -> Concluded | None:
        """The final answer; None before it is given."""
        return self._state.conclusion

    def marginals(self) -> dict[str, dict[str, float]]:
        """Dimension -> value -> probability.

        Raises:
            UnexpectedReply: there is no belief yet.
        """
        p = np.asarray(self._known_turn().marginals)
        known = self._state.dimensions[: self._state.known]
        return {
            d.name: {value: float(p[j, v]) for v, value in enumerate(d.values)}
            for j, d in enumerate(known)
        }

    def answer_posterior(self) -> dict[str, float] | None:
        """Answer -> probability, for a closed answer set or a target dimension; else None.

        Raises:
            UnexpectedReply: there is no belief yet.
        """
        self._known_turn()
        pairs = _state.answer_pairs(self.setup, self._state)
        return None if pairs is None else dict(pairs)

    def map_state(self) -> tuple[dict[str, str], float]:
        """The most probable state and its probability.

        Raises:
            UnexpectedReply: there is no belief yet.
        """
        log_probability = self._known_turn().map_state.log_probability
        return dict(_state.map_pairs(self._state)), float(np.exp(log_probability))

    def explain(self) -> Explanation:
        """Why the next step is what it is: numbers in nats and words.

        Raises:
            UnexpectedReply: there is no belief yet.
        """
        self._known_turn()
        return explain(self.setup, self._state)

    def _known_turn(self) -> Any:
        if self._state.turn is None:
            raise UnexpectedReply("There is no belief yet; the first tables are not complete.")
        return self._state.turn

    # --- JSON -------------------------------------------------------------------------------------

    def to_json(self, indent: int | None = None) -> str:
        """The setup and the log of replies as JSON text."""
        data = {
            "format": FORMAT,
            "version": VERSION,
            "setup": to_data(self.setup),
            "replies": [to_data(reply) for reply in self.replies],
        }
        return dumps(data, indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read back what `to_json` wrote, by replaying it.

        Raises:
            CorruptDialogue: not such a text, or a reply that does not fit; the message says where.
        """
        try:
            data = loads(text)
            if not isinstance(data, dict) or data.get("format") != FORMAT:
                raise InvalidInput(f'There is no "format": "{FORMAT}" in it.')
            if data.get("version") != VERSION:
                raise InvalidInput(
                    f"It has version {data.get('version')!r}; this balar reads version {VERSION}."
                )
            setup = read(Setup, data.get("setup"), "setup")
            replies = data.get("replies")
            if not isinstance(replies, list):
                raise InvalidInput("It has no list of replies.")
            return cls.replay(setup, [_read_reply(i, item) for i, item in enumerate(replies)])
        except BalarError as error:
            raise CorruptDialogue(f"This is not a saved dialogue: {error}") from error


def _read_reply(number: int, data: object) -> Reply:
    try:
        value = from_data(data)
    except InvalidInput as error:
        raise InvalidInput(f"Reply {number}: {error}") from None
    if type(value) not in _HANDLERS and not isinstance(value, Stopped):
        raise InvalidInput(f"Reply {number} is a need ({value.kind}), not a reply.")
    return cast(Reply, value)


# --- one handler per reply: validate, then step ---------------------------------------------------


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


_Handler = Callable[[Setup, State, Any, Any], State]
_HANDLERS: dict[type, tuple[_Handler, type]] = {
    ProposedDimensions: (_dimensions, ProposeDimensions),
    ElicitedPriors: (_priors, ElicitPriors),
    ProposedQuestions: (_questions, ProposeQuestions),
    ElicitedLikelihoods: (_likelihoods, ElicitLikelihoods),
    ElicitedAnswers: (_answer_tables, ElicitAnswers),
    Answered: (_answered, Ask),
    ScoredAnswer: (_scored, ScoreAnswer),
    ProposedExpansion: (_expansion, ProposeExpansion),
    Concluded: (_concluded, Conclude),
}
_REPLY_TO: dict[type, Any] = {need: reply for reply, (_, need) in _HANDLERS.items()}
