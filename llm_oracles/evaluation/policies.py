"""Ways to decide how many probes a query is worth, and which.

A policy is a gap (where the budget comes from), the map from gaps to budgets, and a way to choose:
either down the list that the words suggest, or by information per cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from balar_core.errors import InvalidSetting
from balar_core.probing import (
    CallTool,
    InferIntent,
    InferredIntent,
    IntentFrame,
    PlanProbe,
    Probing,
    Settings,
    StopProbing,
)

from .cases import Case, hold

__all__ = ["POLICIES", "ProbePolicy", "find_policies", "probe", "was_bound"]

ALL = 1000
"""More probes than any query has calls."""


@dataclass(frozen=True)
class ProbePolicy:
    """One policy.

    Attributes:
        name: its name.
        words: what it does.
        settings: the map from gaps to budgets, and its cap.
        gap: where the gap comes from: `reported` from the words, `belief` from inference.
        by_information: whether calls are chosen by information per cost, not down the list.
        min_information: nats about the needed facts; a call that is expected to tell less is not
            made. Only for a choice by information.
        updates: whether the probes also end once the gap that is left is worth none.
        family: policies that differ in one number alone belong to one family; empty for none.
    """

    name: str
    words: str
    settings: Settings
    gap: str = "reported"
    by_information: bool = False
    min_information: float = 0.0
    updates: bool = False
    family: str = ""

    def infer(self, case: Case, need: InferIntent) -> InferredIntent:
        """The frame that sets the budget."""
        gap = case.planner.gap() if self.gap == "belief" else case.reported_gap
        allowed = {tool.name for tool in need.tools}
        tools = dict.fromkeys(call.tool for call in case.listed if call.tool in allowed)
        needs = tuple(map(str, case.facts))
        return InferredIntent(
            IntentFrame(need.query, needs, gap=gap, recommended_probes=tuple(tools))
        )

    def plan(self, case: Case, need: PlanProbe) -> CallTool | StopProbing:
        """The next call, or none."""
        if self.updates and self.settings.steps.budget(case.planner.gap(need.trace)) == 0:
            return StopProbing("what is left unknown is worth no probe")
        if self.by_information:
            return replace(case.planner, min_information=self.min_information).plan(need)
        made = {probe.call for probe in need.trace}
        allowed = {tool.name for tool in need.tools}
        open_calls = (c for c in case.listed if c.tool in allowed and c not in made)
        call = next(open_calls, None)
        return StopProbing("the list is at its end") if call is None else CallTool(call)


def probe(policy: ProbePolicy, case: Case, *, enforce: bool = True) -> Probing:
    """Hold the probe loop of a policy about a case."""
    infer, plan = partial(policy.infer, case), partial(policy.plan, case)
    return hold(case, policy.settings, infer, plan, enforce=enforce)


def was_bound(policy: ProbePolicy, case: Case, probing: Probing) -> bool:
    """Whether the budget, and nothing else, kept the policy from one more call."""
    if probing.ended not in ("budget_spent", "no_budget") or probing.frame is None:
        return False
    setup = probing.setup
    need = PlanProbe(
        setup.query, setup.context, setup.allowed, probing.frame, probing.trace, left=1
    )
    return isinstance(policy.plan(case, need), CallTool)


def _always(probes: int) -> Settings:
    return Settings(thresholds=(), budgets=(probes,), max_probes=probes)


def _listed(name: str, probes: int) -> ProbePolicy:
    words = "the whole list" if probes == ALL else f"{probes} down the list, always"
    return ProbePolicy(name, words, _always(probes), family="fixed, down the list")


def _informed(probes: int) -> ProbePolicy:
    return ProbePolicy(
        f"fixed-{probes}-mi",
        f"{probes} by information per cost, as long as any is left",
        _always(probes),
        by_information=True,
        family="fixed, by information",
    )


def _worthwhile(name: str, nats: float) -> ProbePolicy:
    return ProbePolicy(
        name,
        f"up to 5 by information per cost, each worth {nats:g} nats",
        _always(5),
        "belief",
        by_information=True,
        min_information=nats,
        family="while worth it",
    )


ENOUGH, FRUGAL = 0.1, 0.5
"""Nats that a call has to promise about the facts that may be needed."""

POLICIES = (
    _listed("none", 0),
    _listed("fixed-1", 1),
    _listed("fixed-3", 3),
    _listed("fixed-5", 5),
    _listed("all", ALL),
    _informed(1),
    _informed(3),
    _informed(5),
    ProbePolicy("aura", "B(g) of the reported gap, down the list", Settings()),
    ProbePolicy(
        "belief",
        "B(g) of the gap of the belief, down the list, until what is left is worth none",
        Settings(),
        "belief",
        updates=True,
    ),
    ProbePolicy(
        "belief-mi",
        f"B(g) of the gap of the belief, by information per cost, each worth {ENOUGH:g} nats",
        Settings(),
        "belief",
        by_information=True,
        min_information=ENOUGH,
    ),
    _worthwhile("mi", ENOUGH),
    _worthwhile("mi-frugal", FRUGAL),
)


def find_policies(names: Sequence[str]) -> tuple[ProbePolicy, ...]:
    """The policies of some names, in the order given.

    Raises:
        InvalidSetting: no such policy, or one that is named twice.
    """
    known = {policy.name: policy for policy in POLICIES}
    for i, name in enumerate(names):
        if name not in known:
            raise InvalidSetting(
                f"There is no policy {name!r}; the policies are {', '.join(known)}."
            )
        if name in names[:i]:
            raise InvalidSetting(f"The policy {name!r} is named twice.")
    return tuple(known[name] for name in names)
