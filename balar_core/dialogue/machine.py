"""`Dialogue`: a state machine without input or output.

A dialogue never calls a model and never asks anybody. It says what it needs next (`needs`) and is
told what came back (`tell`). It is a frozen value: telling it something gives a new dialogue and
leaves the old one as it was, so that forking is free. It is the fold of its replies, so that its
log is a checkpoint, a trajectory, a test fixture and a replay.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

import numpy as np

from ..belief import Belief
from ..errors import (
    BalarError,
    CorruptDialogue,
    InvalidInput,
    UnexpectedReply,
)
from ..questions import Question
from ..space import Dimension, StateSpace
from ..tables import LikelihoodTables
from . import state as _state
from .codec import dumps, from_data, loads, read, to_data
from .explain import Explanation, explain
from .needs import (
    REPLY_TO,
    Answered,
    Conclude,
    Concluded,
    Exchange,
    Need,
    Reply,
    Stopped,
)
from .setup import Setup
from .state import Outcome, State
from .told import HANDLERS

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
    ...     CellTable, Dimension, ElicitedLikelihoods, ElicitedPriors, ProposedDimensions,
    ...     ProposedQuestions, Question, Setup
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
            need = next((n for n in self.needs if REPLY_TO[type(n)] is type(reply)), None)
            if need is None:
                raise UnexpectedReply(self._unexpected(reply))
            state = HANDLERS[type(reply)](self.setup, self._state, need, reply)
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
        wanted = " or ".join(repr(REPLY_TO[type(need)].kind) for need in self.needs)
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

    def explain(self, *, about: bool = True) -> Explanation:
        """Why the next step is what it is: numbers in nats and words.

        Args:
            about: whether to work out what the best question tells about each dimension.

        Raises:
            UnexpectedReply: there is no belief yet.
        """
        self._known_turn()
        return explain(self.setup, self._state, about=about)

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
    if not isinstance(value, (*REPLY_TO.values(), Stopped)):
        raise InvalidInput(f"Reply {number} is a need ({value.kind}), not a reply.")
    return cast(Reply, value)
