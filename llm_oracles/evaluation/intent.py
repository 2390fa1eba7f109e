"""Policies on the same queries: what they covered, for how many probes, and what stopped them."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from balar_core.errors import InvalidSetting

from ..facts import evidence_coverage
from .cases import Case
from .pareto import Point, frontier
from .policies import ProbePolicy, probe, was_bound
from .statistics import (
    Comparison,
    Interval,
    Rate,
    cluster_bootstrap,
    cluster_means,
    compare,
    rate,
)

__all__ = [
    "Outcome",
    "Summary",
    "compare_policies",
    "evaluate",
    "points",
    "summarise",
    "to_data",
]


@dataclass(frozen=True)
class Outcome:
    """How one policy did on one query.

    Attributes:
        policy: the policy.
        case: the query.
        scene: the moment it is about.
        kind: the kind of need.
        coverage: the share of needed facts that are answered right.
        evidence: the share of needed facts that a probe showed for certain.
        gap: where the budget came from.
        budget: how many probes were allowed.
        probes: how many were run.
        cost: what they cost.
        refused: how many calls were refused by the policy of the tools.
        violations: how many forbidden tools were run; 0 where the policy is enforced.
        bound: whether the budget kept the policy from one more call.
        ended: why the probes ended.
    """

    policy: str
    case: str
    scene: str
    kind: str
    coverage: float
    evidence: float
    gap: float
    budget: int
    probes: int
    cost: float
    refused: int
    violations: int
    bound: bool
    ended: str


@dataclass(frozen=True)
class Summary:
    """How one policy did on all queries, or on those of one scene or kind.

    Attributes:
        policy: the policy.
        group: which queries; empty for all.
        queries: how many.
        coverage: mean share of needed facts that are answered right.
        coverage_interval: its interval, from resampling queries.
        coverage_by_scene: its interval, from resampling whole scenes; None with one scene.
        evidence: mean share of needed facts that a probe showed for certain.
        probes: mean number of probes.
        cost: mean cost.
        violated: share of queries with a forbidden call that was run.
        refused: calls that were refused, in all.
        bound: share of queries in which the budget kept the policy from one more call.
    """

    policy: str
    group: str
    queries: int
    coverage: float
    coverage_interval: Interval | None
    coverage_by_scene: Interval | None
    evidence: float
    probes: float
    cost: float
    violated: Rate
    refused: int
    bound: Rate


def evaluate(
    cases: Sequence[Case], policies: Sequence[ProbePolicy], *, enforce: bool = True
) -> list[Outcome]:
    """Run every policy on every case.

    Args:
        cases: the queries.
        policies: the policies.
        enforce: whether forbidden tools are refused; else they run and are counted.
    """
    return [_outcome(policy, case, enforce) for policy in policies for case in cases]


def _outcome(policy: ProbePolicy, case: Case, enforce: bool) -> Outcome:
    probing = probe(policy, case, enforce=enforce)
    answers = case.answers(probing)
    right = sum(answers[fact] == case.truth[fact] for fact in case.needed)
    return Outcome(
        policy=policy.name,
        case=case.name,
        scene=case.scene,
        kind=case.kind,
        coverage=right / len(case.needed) if case.needed else 1.0,
        evidence=evidence_coverage(case.needed, case.found(probing)),
        gap=0.0 if probing.frame is None else probing.frame.gap,
        budget=probing.budget,
        probes=probing.spent,
        cost=probing.cost,
        refused=probing.counts["denied"],
        violations=sum(p.ran and p.call.tool in case.forbidden for p in probing.trace),
        bound=was_bound(policy, case, probing),
        ended=probing.ended,
    )


def summarise(
    outcomes: Iterable[Outcome], by: Callable[[Outcome], str] = lambda outcome: ""
) -> list[Summary]:
    """Sum up by policy, and within it by some property of the queries."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.policy, by(outcome)), []).append(outcome)
    return [_summary(policy, group, found) for (policy, group), found in groups.items()]


def _summary(policy: str, group: str, found: Sequence[Outcome]) -> Summary:
    count = len(found)
    coverage = [outcome.coverage for outcome in found]
    return Summary(
        policy=policy,
        group=group,
        queries=count,
        coverage=sum(coverage) / count,
        coverage_interval=_interval(coverage, range(count)),
        coverage_by_scene=_interval(coverage, [outcome.scene for outcome in found]),
        evidence=sum(outcome.evidence for outcome in found) / count,
        probes=sum(outcome.probes for outcome in found) / count,
        cost=sum(outcome.cost for outcome in found) / count,
        violated=rate(sum(outcome.violations > 0 for outcome in found), count),
        refused=sum(outcome.refused for outcome in found),
        bound=rate(sum(outcome.bound for outcome in found), count),
    )


def _interval(values: Sequence[float], clusters: Sequence[Hashable]) -> Interval | None:
    return cluster_bootstrap(values, clusters) if len(set(clusters)) > 1 else None


def compare_policies(
    outcomes: Sequence[Outcome], reference: str
) -> dict[str, dict[str, Comparison]]:
    """Every other policy minus the reference: coverage and probes over queries and over scenes.

    Returns:
        By policy, then by `coverage, query`, `probes, query` and, with two scenes or more,
        `coverage, scene` and `probes, scene`.

    Raises:
        InvalidSetting: the reference is not among the policies, or there is only one query.
    """
    by_policy: dict[str, dict[str, Outcome]] = {}
    for outcome in outcomes:
        by_policy.setdefault(outcome.policy, {})[outcome.case] = outcome
    if reference not in by_policy:
        raise InvalidSetting(
            f"The reference {reference!r} is not among the policies: {', '.join(by_policy)}."
        )
    base = by_policy.pop(reference)
    if len(base) < 2:
        raise InvalidSetting("One query allows no comparison; ask for more.")
    scenes = [outcome.scene for outcome in base.values()]
    found: dict[str, dict[str, Comparison]] = {}
    for policy, rows in by_policy.items():
        found[policy] = {}
        for name in ("coverage", "probes"):
            deltas = [getattr(rows[c], name) - getattr(base[c], name) for c in base]
            found[policy][f"{name}, query"] = compare(deltas, "query")
            if len(set(scenes)) > 1:
                means = cluster_means(deltas, scenes)
                found[policy][f"{name}, scene"] = compare(means, "scene")
    return found


def points(summaries: Iterable[Summary], policies: Iterable[ProbePolicy]) -> list[Point]:
    """The summaries of all queries as points of a picture."""
    families = {policy.name: policy.family for policy in policies}
    return [
        Point(
            summary.policy,
            summary.probes,
            summary.coverage,
            families[summary.policy],
            *_ends(summary),
        )
        for summary in summaries
    ]


def _ends(summary: Summary) -> tuple[float, float]:
    interval = summary.coverage_interval
    return (0.0, 1.0) if interval is None else (interval.low, interval.high)


def to_data(
    outcomes: Sequence[Outcome], policies: Sequence[ProbePolicy], reference: str
) -> dict[str, Any]:
    """Everything as JSON-able data."""
    summaries = summarise(outcomes)
    best = frontier(points(summaries, policies))
    return {
        "policies": {
            policy.name: {"words": policy.words, "on_frontier": policy.name in best}
            for policy in policies
        },
        "summaries": [asdict(summary) for summary in summaries],
        "by_kind": [asdict(s) for s in summarise(outcomes, lambda outcome: outcome.kind)],
        "by_scene": [asdict(s) for s in summarise(outcomes, lambda outcome: outcome.scene)],
        "reference": reference,
        "comparisons": {
            policy: {name: asdict(comparison) for name, comparison in comparisons.items()}
            for policy, comparisons in compare_policies(outcomes, reference).items()
        },
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }
