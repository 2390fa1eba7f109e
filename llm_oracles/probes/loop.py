"""Whoever answers what a probe loop needs, and the driver that lets them.

probing = await explore(Probing.start(setup), Crew(infer, plan, toolbox.run, answer))
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from balar_core.probing import (
    AnsweredQuery,
    AnswerQuery,
    CallTool,
    InferIntent,
    InferredIntent,
    Need,
    PlanProbe,
    Probing,
    Reply,
    RunTool,
    StopProbing,
    ToolFailed,
    ToolRejected,
    ToolReturned,
)

__all__ = ["Answer", "Crew", "Infer", "OnReply", "Plan", "Prober", "Run", "explore"]

Infer = Callable[[InferIntent], InferredIntent | Awaitable[InferredIntent]]
"""Infers intents: a function or a coroutine function, like the other parts of a `Crew`."""
Plan = Callable[[PlanProbe], CallTool | StopProbing | Awaitable[CallTool | StopProbing]]
"""Plans probes."""
Ran = ToolReturned | ToolFailed | ToolRejected
Run = Callable[[RunTool], Ran | Awaitable[Ran]]
"""Runs tools."""
Answer = Callable[[AnswerQuery], AnsweredQuery | Awaitable[AnsweredQuery]]
"""Words the answer."""
OnReply = Callable[[Probing, Need, Reply], None]
"""Called after each reply with the loop that has been told it, the need, and the reply."""


class Prober(Protocol):
    """Answers the needs of a probe loop."""

    async def fulfil(self, need: Need) -> Reply:
        """The reply to a need; `StopProbing` ends the probes."""
        ...


@dataclass(frozen=True)
class Crew:
    """A prober of four parts, each of which may come from somewhere else.

    Attributes:
        infer: infers the intent frame.
        plan: plans probes.
        run: runs tools.
        answer: words the answer.
    """

    infer: Infer
    plan: Plan
    run: Run
    answer: Answer

    async def fulfil(self, need: Need) -> Reply:
        """The reply of the part whose business the need is."""
        reply: Reply | Awaitable[Reply]
        match need:
            case InferIntent():
                reply = self.infer(need)
            case PlanProbe():
                reply = self.plan(need)
            case RunTool():
                reply = self.run(need)
            case AnswerQuery():
                reply = self.answer(need)
        return await reply if inspect.isawaitable(reply) else reply


async def explore(probing: Probing, prober: Prober, *, on_reply: OnReply | None = None) -> Probing:
    """Let a prober answer whatever a probe loop needs, until the query is answered.

    Args:
        probing: where to begin.
        prober: who answers.
        on_reply: called after each reply, for example to save the loop.

    Returns:
        The finished loop.

    Raises:
        Exception: whatever the prober raises, or `UnexpectedReply` for a reply that does not fit.
    """
    while (need := probing.need) is not None:
        reply = await prober.fulfil(need)
        probing = probing.tell(reply)
        if on_reply is not None:
            on_reply(probing, need, reply)
    return probing
