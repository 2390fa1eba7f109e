"""`Probing`: the bounded probe loop of AURA as a state machine without input or output.

First the intent, then at most B probes, then the answer. The loop never runs a tool: it says which
one it needs (`need`) and is told what came back (`tell`). It is a frozen value and the fold of its
replies, so that a saved loop is replayed exactly, without tools and without a model.

Who pays: a tool that ran, whether it returned or failed, is one probe of the budget. A call that
was refused (unknown, denied, repeated, or rejected for its arguments) is recorded and counted, runs
nothing and costs nothing; after `max_refusals` of them the loop ends.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self, assert_never, cast

from ..codec import Json, dumps, loads, read, read_kind, to_data
from ..errors import BalarError, CorruptProbing, InvalidInput, UnexpectedReply
from .needs import (
    REPLIES_TO,
    AnsweredQuery,
    AnswerQuery,
    CallTool,
    InferIntent,
    InferredIntent,
    Need,
    PlanProbe,
    Reply,
    RunTool,
    StopProbing,
    ToolFailed,
    ToolRejected,
    ToolReturned,
)
from .setup import Setup
from .values import NULL, OUTCOMES, IntentFrame, Probe

__all__ = ["END_REASONS", "Probing"]

FORMAT, VERSION = "balar-probing", 1

KINDS: dict[str, type] = {
    cls.kind: cls for cls in (*REPLIES_TO, *(r for replies in REPLIES_TO.values() for r in replies))
}
"""Every kind of need and reply by its name."""

END_REASONS = {
    "budget_spent": "The budget is spent.",
    "no_budget": "The gap is too small to be worth a probe.",
    "invalid_frame": "The intent frame is invalid, so that nothing may be probed.",
    "unsure": "The intent frame is not sure enough of itself to be acted upon.",
    "nothing_allowed": "No tool may be called.",
    "planner": "The planner wants no more probes.",
    "refusals": "Too many calls were refused.",
    "stopped": "The probes were stopped from outside.",
}
"""Why the probes can end, and what that means."""


@dataclass(frozen=True)
class State:
    """What is known at one moment (see the properties of `Probing`)."""

    need: Need | None
    frame: IntentFrame | None = None
    problem: str = ""
    budget: int = 0
    trace: tuple[Probe, ...] = ()
    planned: CallTool | None = None
    ended: str = ""
    answer: AnsweredQuery | None = None

    @property
    def spent(self) -> int:
        """The probes that count against the budget."""
        return sum(probe.ran for probe in self.trace)


def _replace(state: State, **changes: object) -> State:
    return dataclasses.replace(state, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Probing:
    """A query that is probed before it is answered.

    Make one with `Probing.start`; go on with `tell`.

    Attributes:
        setup: what was fixed before the first reply.
        replies: everything it has been told, in order.

    >>> from balar_core.probing import IntentFrame, Json, Setup, Tool, ToolCall
    >>> p = Probing.start(Setup("Where is Ann?", tools=(Tool("mood"), Tool("plan"))))
    >>> p = p.tell(InferredIntent(IntentFrame("where Ann is", ("may I disturb her?",), gap=0.3)))
    >>> p.need.kind, p.budget
    ('plan_probe', 1)
    >>> p = p.tell(CallTool(ToolCall.of("mood", of="Ann"), "she may be busy"))
    >>> p.need.call.tool
    'mood'
    >>> p = p.tell(ToolReturned(Json.of("calm")))
    >>> p.need.kind, p.ended
    ('answer_query', 'budget_spent')
    >>> p.tell(AnsweredQuery("In the cafe, and in a calm mood.")).finished
    True
    """

    setup: Setup
    replies: tuple[Reply, ...] = ()
    _state: State = field(default_factory=lambda: State(None), repr=False, compare=False)

    @classmethod
    def start(cls, setup: Setup) -> Self:
        """A loop that has been told nothing yet."""
        return cls(setup, (), State(InferIntent(setup.query, setup.context, setup.allowed)))

    @classmethod
    def replay(cls, setup: Setup, replies: Sequence[Reply]) -> Self:
        """The loop that `setup` and `replies` lead to.

        Raises:
            UnexpectedReply: a reply does not fit; the message gives its number.
        """
        probing = cls.start(setup)
        for number, reply in enumerate(replies):
            try:
                probing = probing.tell(reply)
            except UnexpectedReply as error:
                raise UnexpectedReply(f"Reply {number}: {error}") from None
        return probing

    def tell(self, reply: Reply) -> Self:
        """The loop after a reply to its need (or after `StopProbing`).

        Raises:
            UnexpectedReply: nothing of this kind is needed now; nothing has changed.
        """
        need = self.need
        stops = isinstance(reply, StopProbing) and not isinstance(need, AnswerQuery)
        if need is None or not (stops or isinstance(reply, REPLIES_TO[type(need)])):
            raise UnexpectedReply(self._unexpected(reply))
        return type(self)(self.setup, (*self.replies, reply), self._after(reply))

    def _after(self, reply: Reply) -> State:
        state = self._state
        match reply:
            case InferredIntent():
                return self._inferred(reply)
            case CallTool():
                return self._planned(reply)
            case ToolReturned():
                return self._ran("returned", output=reply.output)
            case ToolFailed():
                return self._ran("failed", error=reply.error)
            case ToolRejected():
                assert state.planned is not None
                return self._refused(state.planned, "rejected", reply.error)
            case StopProbing():
                return self._stopped()
            case AnsweredQuery():
                return _replace(state, need=None, answer=reply)
            case _:
                assert_never(reply)

    # --- the steps --------------------------------------------------------------------------------

    def _inferred(self, reply: InferredIntent) -> State:
        settings, frame = self.setup.settings, reply.frame
        if frame is None:
            problem = reply.problem or "There is no frame."
            return self._end(_replace(self._state, problem=problem), "invalid_frame")
        names = {tool.name for tool in self.setup.tools}
        alien = [name for name in frame.recommended_probes if name not in names]
        if alien:
            problem = f"There is no tool {alien[0]!r}, which the frame recommends."
            return self._end(_replace(self._state, problem=problem), "invalid_frame")
        budget = settings.steps.budget(frame.gap, settings.max_probes)
        state = _replace(self._state, frame=frame, budget=budget)
        if frame.confidence < settings.min_confidence:
            return self._end(_replace(state, budget=0), "unsure")
        if budget == 0:
            return self._end(state, "no_budget")
        if not self.setup.allowed:
            return self._end(state, "nothing_allowed")
        return self._plan(state)

    def _planned(self, reply: CallTool) -> State:
        name = reply.call.tool
        tool = next((t for t in self.setup.tools if t.name == name), None)
        if tool is None:
            return self._refused(reply, "unknown", f"There is no tool {name!r}.")
        if not self.setup.policy.allows(tool):
            return self._refused(reply, "denied", f"The policy does not allow {name!r}.")
        earlier = next((p for p in self.trace if p.call == reply.call), None)
        if earlier is not None:
            return self._refused(reply, "repeated", f"Step {earlier.step} was the same call.")
        return _replace(self._state, planned=reply, need=RunTool(reply.call))

    def _ran(self, outcome: str, *, output: Json = NULL, error: str = "") -> State:
        planned = self._state.planned
        assert planned is not None
        cost = next(t.cost for t in self.setup.tools if t.name == planned.call.tool)
        probe = Probe(len(self.trace), planned.call, planned.reason, outcome, output, error, cost)
        state = _replace(self._state, trace=(*self.trace, probe), planned=None)
        return (
            self._end(state, "budget_spent") if state.spent >= state.budget else self._plan(state)
        )

    def _refused(self, planned: CallTool, outcome: str, error: str) -> State:
        probe = Probe(len(self.trace), planned.call, planned.reason, outcome, error=error)
        state = _replace(self._state, trace=(*self.trace, probe), planned=None)
        refusals = len(state.trace) - state.spent
        most = self.setup.settings.max_refusals
        return self._end(state, "refusals") if refusals >= most else self._plan(state)

    def _stopped(self) -> State:
        if isinstance(self.need, PlanProbe):
            return self._end(self._state, "planner")
        if isinstance(self.need, RunTool):
            return self._end(self._ran("failed", error="It was stopped."), "stopped")
        return self._end(self._state, "stopped")

    def _plan(self, state: State) -> State:
        setup = self.setup
        assert state.frame is not None
        need = PlanProbe(
            query=setup.query,
            context=setup.context,
            tools=setup.allowed,
            frame=state.frame,
            trace=state.trace,
            left=state.budget - state.spent,
        )
        return _replace(state, need=need)

    def _end(self, state: State, reason: str) -> State:
        setup = self.setup
        need = AnswerQuery(setup.query, setup.context, state.frame, state.trace, reason)
        return _replace(state, need=need, ended=reason)

    def _unexpected(self, reply: object) -> str:
        kind = getattr(reply, "kind", type(reply).__name__)
        if self.need is None:
            return f"The query has been answered; the loop cannot be told {kind!r}."
        wanted = " or ".join(repr(r.kind) for r in REPLIES_TO[type(self.need)])
        return f"The loop is waiting for {wanted}; it was told {kind!r}."

    # --- what it knows ----------------------------------------------------------------------------

    @property
    def need(self) -> Need | None:
        """What is needed now; None when finished."""
        return self._state.need

    @property
    def finished(self) -> bool:
        """Whether the query has been answered."""
        return bool(self.replies) and self.need is None

    @property
    def frame(self) -> IntentFrame | None:
        """The intent frame; None before there is one, or if it was invalid."""
        return self._state.frame

    @property
    def problem(self) -> str:
        """What is wrong with the frame; empty if nothing is."""
        return self._state.problem

    @property
    def budget(self) -> int:
        """How many probes may be run in all; 0 before there is a frame."""
        return self._state.budget

    @property
    def spent(self) -> int:
        """How many probes were run."""
        return self._state.spent

    @property
    def trace(self) -> tuple[Probe, ...]:
        """All probes in order, refused ones included."""
        return self._state.trace

    @property
    def cost(self) -> float:
        """What the probes cost together."""
        return sum(probe.cost for probe in self.trace)

    @property
    def counts(self) -> dict[str, int]:
        """How many probes had each outcome, zeros included."""
        counted = Counter(probe.outcome for probe in self.trace)
        return {outcome: counted[outcome] for outcome in OUTCOMES}

    @property
    def ended(self) -> str:
        """Why the probes ended, a key of `END_REASONS`; empty while they go on."""
        return self._state.ended

    @property
    def answer(self) -> AnsweredQuery | None:
        """The answer; None before it is given."""
        return self._state.answer

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
            CorruptProbing: not such a text, or a reply that does not fit; the message says where.
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
            raise CorruptProbing(f"This is not a saved probe loop: {error}") from error


def from_data(data: object) -> Need | Reply:
    """The need or reply that `balar_core.codec.to_data` wrote.

    Raises:
        InvalidInput: the data are not exactly one need or reply; the message says where.

    >>> from_data({"kind": "stop_probing", "reason": "enough"})
    StopProbing(reason='enough')
    """
    return cast("Need | Reply", read_kind(KINDS, data))


def _read_reply(number: int, data: object) -> Reply:
    try:
        value = from_data(data)
    except InvalidInput as error:
        raise InvalidInput(f"Reply {number}: {error}") from None
    if isinstance(value, InferIntent | PlanProbe | RunTool | AnswerQuery):
        raise InvalidInput(f"Reply {number} is a need ({value.kind}), not a reply.")
    return value
