"""A query whose need is known, with all that a policy may see of it and all that it may not."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from balar_core.belief import marginals
from balar_core.probing import (
    AnsweredQuery,
    AnswerQuery,
    BeliefPlanner,
    CallTool,
    InferIntent,
    InferredIntent,
    PlanProbe,
    Policy,
    Probing,
    RunTool,
    Settings,
    Setup,
    StopProbing,
    Tool,
    ToolCall,
    ToolFailed,
    ToolReturned,
)

from ..facts import Fact

__all__ = ["LIKELY", "Case", "fitting", "hold", "reported_gap"]

REPORTED_GAPS: Mapping[str, float] = {
    "availability": 0.475,
    "mood": 0.556,
    "appropriateness": 0.642,
    "latent_goal": 0.594,
    "second_order": 0.738,
}
"""The mean gap that a model reported for each kind of need, over the released rows of AURA."""

LIKELY = 0.15
"""A field is taken to be needed if its wording needs it at least so often."""

LARGEST = 2**14
"""States of the largest belief; facts that would make it larger are left out."""

Infer = Callable[[InferIntent], InferredIntent]
Plan = Callable[[PlanProbe], CallTool | StopProbing]


@dataclass(frozen=True, eq=False)
class Case:
    """One query of an evaluation.

    A policy sees the query, the context, the tools, and how a stranger reads the query: `planner`,
    `facts`, `listed` and `reported_gap`. What is needed, what is true and what is forbidden are for
    the score alone.

    Attributes:
        name: what it is called in reports.
        scene: which moment it is about.
        kind: the kind of need.
        query: what is asked.
        context: what everybody sees.
        tools: the tools.
        planner: the belief about what the words may need, and what calls would tell about it.
        facts: the facts that the dimensions of the belief stand for.
        listed: calls that may help, in the order in which somebody would try who only reads words.
        reported_gap: what a model would say about the gap, going by the words alone.
        forbidden: tools that must not be called.
        needed: the facts that answer the need.
        truth: their values, and those of `facts`, where a value can be right or wrong.
        guesses: what to answer about needed facts that the belief leaves out.
        call: runs a tool; whatever it raises is a failed probe.
        shows: the facts that a call and its output bring to light for certain, with their values.
    """

    name: str
    scene: str
    kind: str
    query: str
    context: str
    tools: tuple[Tool, ...]
    planner: BeliefPlanner
    facts: tuple[Fact, ...]
    listed: tuple[ToolCall, ...]
    reported_gap: float
    forbidden: tuple[str, ...]
    needed: frozenset[Fact]
    truth: Mapping[Fact, str]
    guesses: Mapping[Fact, str]
    call: Callable[[ToolCall], Any]
    shows: Callable[[ToolCall, Any], Mapping[Fact, str]]

    def setup(self, settings: Settings, *, enforce: bool) -> Setup:
        """What a probe loop starts from; without `enforce` forbidden tools may be called."""
        policy = Policy(deny=self.forbidden) if enforce else Policy()
        return Setup(self.query, self.context, self.tools, policy, settings)

    def answers(self, probing: Probing) -> dict[Fact, str]:
        """What the probes make the likeliest value of every needed fact."""
        belief = self.planner.posterior(probing.trace)
        shares = np.asarray(marginals(belief))
        likeliest = {
            fact: dimension.values[int(np.argmax(row[: dimension.size]))]
            for fact, dimension, row in zip(
                self.facts, self.planner.space.dimensions, shares, strict=False
            )
        }
        known = {**self.guesses, **likeliest, **self.found(probing)}
        return {fact: known[fact] for fact in self.needed}

    def found(self, probing: Probing) -> dict[Fact, str]:
        """The facts that the probes brought to light for certain."""
        return {
            fact: value
            for probe in probing.trace
            if probe.outcome == "returned"
            for fact, value in self.shows(probe.call, probe.output.value).items()
        }


def fitting(facts: Iterable[Fact], size: Callable[[Fact], int]) -> tuple[Fact, ...]:
    """As many of the facts, from the first on, as one belief can hold.

    Args:
        facts: the facts, the most wanted first.
        size: how many values a fact can have.

    >>> people = [Fact(f"person {i}", "mood") for i in range(20)]
    >>> len(fitting(people, lambda fact: 3))  # 3^8 states, where 3^9 would be too many
    8
    """
    chosen: list[Fact] = []
    states = 1
    for fact in facts:
        states *= size(fact)
        if states > LARGEST:
            break
        chosen.append(fact)
    return tuple(chosen)


def reported_gap(meant: Mapping[str, float]) -> float:
    """What a model would say about the gap of a wording: the mean over what it may mean.

    Args:
        meant: how likely each kind of need is meant; empty for words never seen.
    """
    if not meant:
        return sum(REPORTED_GAPS.values()) / len(REPORTED_GAPS)
    return sum(share * REPORTED_GAPS[kind] for kind, share in meant.items())


def hold(
    case: Case, settings: Settings, infer: Infer, plan: Plan, *, enforce: bool = True
) -> Probing:
    """Hold the probe loop about a case to its end; the answer is left to `Case.answers`."""
    probing = Probing.start(case.setup(settings, enforce=enforce))
    while True:
        match probing.need:
            case InferIntent() as need:
                probing = probing.tell(infer(need))
            case PlanProbe() as need:
                probing = probing.tell(plan(need))
            case RunTool(call):
                probing = probing.tell(_run(case, call))
            case AnswerQuery():
                return probing.tell(AnsweredQuery(""))
            case None:
                return probing


def _run(case: Case, call: ToolCall) -> ToolReturned | ToolFailed:
    try:
        return ToolReturned(case.call(call))
    except Exception as error:
        return ToolFailed(str(error))
