"""What the probe loop needs next, and what it can be told: frozen, typed, JSON-able values.

    InferIntent -> InferredIntent             RunTool     -> ToolReturned, ToolFailed, ToolRejected
    PlanProbe   -> CallTool, StopProbing      AnswerQuery -> AnsweredQuery

and `StopProbing` may be told at any time before the answer.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from ..codec import Json
from ..errors import InvalidFrame
from ..text import check_text
from .values import IntentFrame, Probe, Tool, ToolCall

__all__ = [
    "REPLIES_TO",
    "AnswerQuery",
    "AnsweredQuery",
    "CallTool",
    "InferIntent",
    "InferredIntent",
    "Need",
    "PlanProbe",
    "Reply",
    "RunTool",
    "StopProbing",
    "ToolFailed",
    "ToolRejected",
    "ToolReturned",
]


# --- needs ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InferIntent:
    """Say what the query asks, what it is likely to need, and how far the two are apart.

    Attributes:
        query: what the user said.
        context: what is publicly known.
        tools: the tools that may be recommended: those that the policy allows.
    """

    kind: ClassVar[str] = "infer_intent"
    query: str
    context: str
    tools: tuple[Tool, ...]


@dataclass(frozen=True)
class PlanProbe:
    """Choose the next probe, or stop.

    Attributes:
        query: what the user said.
        context: what is publicly known.
        tools: the tools that may be called.
        frame: the intent frame.
        trace: the probes so far, refused ones included.
        left: how many more may be run; 1 or more.
    """

    kind: ClassVar[str] = "plan_probe"
    query: str
    context: str
    tools: tuple[Tool, ...]
    frame: IntentFrame
    trace: tuple[Probe, ...]
    left: int


@dataclass(frozen=True)
class RunTool:
    """Run a tool that the policy allows, and say what came of it."""

    kind: ClassVar[str] = "run_tool"
    call: ToolCall


@dataclass(frozen=True)
class AnswerQuery:
    """Answer the query from what was found.

    Attributes:
        query: what the user said.
        context: what is publicly known.
        frame: the intent frame; None if it was invalid: then answer literally.
        trace: all probes.
        reason: why the probes ended.
    """

    kind: ClassVar[str] = "answer_query"
    query: str
    context: str
    frame: IntentFrame | None
    trace: tuple[Probe, ...]
    reason: str


# --- replies -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InferredIntent:
    """Reply to `InferIntent`: a frame, or why there is none.

    Without a frame the budget is 0: a failure never buys probes.
    """

    kind: ClassVar[str] = "inferred_intent"
    frame: IntentFrame | None
    problem: str = ""

    def __post_init__(self) -> None:
        check_text(self.problem, "the problem with a frame", empty=True)

    @classmethod
    def of(cls, data: object) -> Self:
        """The frame in JSON data that somebody else wrote; invalid data become the problem.

        >>> InferredIntent.of({"literal_need": "the time", "gap": float("nan")}).problem
        'frame.gap is nan; a finite number is needed.'
        """
        try:
            return cls(IntentFrame.from_data(data))
        except InvalidFrame as error:
            return cls(None, str(error).encode(errors="replace").decode())


@dataclass(frozen=True)
class CallTool:
    """Reply to `PlanProbe`: make this call."""

    kind: ClassVar[str] = "call_tool"
    call: ToolCall
    reason: str = ""

    def __post_init__(self) -> None:
        check_text(self.reason, "the reason of a call", empty=True)


@dataclass(frozen=True)
class StopProbing:
    """Reply to `PlanProbe`, or told at any time before the answer: no more probes."""

    kind: ClassVar[str] = "stop_probing"
    reason: str = ""

    def __post_init__(self) -> None:
        check_text(self.reason, "the reason to stop", empty=True)


@dataclass(frozen=True)
class ToolReturned:
    """Reply to `RunTool`: the tool ran, and this came out (frozen into `Json`)."""

    kind: ClassVar[str] = "tool_returned"
    output: Json

    def __post_init__(self) -> None:
        object.__setattr__(self, "output", Json.of(self.output))


@dataclass(frozen=True)
class ToolFailed:
    """Reply to `RunTool`: the tool ran and failed."""

    kind: ClassVar[str] = "tool_failed"
    error: str

    def __post_init__(self) -> None:
        check_text(self.error, "the error of a tool", empty=True)


@dataclass(frozen=True)
class ToolRejected:
    """Reply to `RunTool`: the arguments do not fit, so that the tool was not run."""

    kind: ClassVar[str] = "tool_rejected"
    error: str

    def __post_init__(self) -> None:
        check_text(self.error, "the error of a tool", empty=True)


@dataclass(frozen=True)
class AnsweredQuery:
    """Reply to `AnswerQuery`.

    Attributes:
        text: the answer.
        alert: a word about the implicit need, unasked; empty for none. It rests on the evidence of
            the probes, since it is written after them.
    """

    kind: ClassVar[str] = "answered_query"
    text: str
    alert: str = ""

    def __post_init__(self) -> None:
        check_text(self.text, "the answer", empty=True)
        check_text(self.alert, "the alert", empty=True)


Need = InferIntent | PlanProbe | RunTool | AnswerQuery
Reply = (
    InferredIntent
    | CallTool
    | StopProbing
    | ToolReturned
    | ToolFailed
    | ToolRejected
    | AnsweredQuery
)

REPLIES_TO: dict[type[Need], tuple[type[Reply], ...]] = {
    InferIntent: (InferredIntent,),
    PlanProbe: (CallTool, StopProbing),
    RunTool: (ToolReturned, ToolFailed, ToolRejected),
    AnswerQuery: (AnsweredQuery,),
}
"""Which replies answer which need."""
