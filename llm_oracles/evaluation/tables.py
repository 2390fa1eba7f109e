"""Evaluations and recomputed figures as lines of text."""

from collections.abc import Iterator, Sequence

from .aura_report import Figure
from .intent import Outcome, Summary, compare_policies, points, summarise
from .pareto import frontier
from .policies import ProbePolicy
from .statistics import Interval

__all__ = ["figure_lines", "intent_lines"]


def intent_lines(
    outcomes: Sequence[Outcome],
    summaries: Sequence[Summary],
    policies: Sequence[ProbePolicy],
    reference: str,
) -> Iterator[str]:
    """All policies on all queries, then by kind and scene, then against the reference."""
    best = frontier(points(summaries, policies))
    head = ["policy", "right", "95 %", "shown", "probes", "cost", "bound", "violated", "refused"]
    yield f"{summaries[0].queries} queries"
    yield ""
    yield from columns([[*head, ""], *(_row(s, s.policy in best) for s in summaries)])
    yield ""
    yield "right: needed facts answered right; shown: needed facts that a probe showed for certain;"
    yield "bound: queries in which the budget kept the policy from one more call;"
    yield "violated: queries with a forbidden call; *: no other has as much right for fewer probes."
    for name, by in {"kind": _kind, "scene": _scene}.items():
        yield ""
        yield f"right / probes by {name}"
        yield from columns(_crossed(summarise(outcomes, by)))
    yield ""
    yield f"differences from {reference}, queries taken to be independent (scenes: see --json)"
    yield from columns(_compared(outcomes, reference))
    yield ""
    width = max(len(policy.name) for policy in policies)
    yield from (f"{policy.name:<{width}}  {policy.words}" for policy in policies)


def figure_lines(figures: Sequence[Figure]) -> Iterator[str]:
    """Recomputed figures beside their claims, topic by topic."""
    topic = ""
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        if figure.topic != topic:
            topic = figure.topic
            yield ""
            yield topic
        value = "-" if figure.value is None else _number(figure.value)
        claim = ""
        if figure.holds is not None:
            claim = f"claimed {figure.claim}: {'holds' if figure.holds else 'does not hold'}"
        parts = [part for part in (claim, figure.note) if part]
        yield f"  {figure.name:<{width}}  {value:>9}  {'; '.join(parts)}".rstrip()


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of cells as lines, the first column to the left and the others to the right.

    >>> list(columns([["a", "bb"], ["ccc", "d"]]))
    ['a    bb', 'ccc   d']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join([f"{first:<{widths[0]}}", *cells]).rstrip()


def _row(summary: Summary, best: bool) -> list[str]:
    return [
        summary.policy,
        f"{summary.coverage:.3f}",
        _shown(summary.coverage_interval),
        f"{summary.evidence:.3f}",
        f"{summary.probes:.2f}",
        f"{summary.cost:.2f}",
        f"{summary.bound.value:.0%}",
        f"{summary.violated.value:.0%}",
        str(summary.refused),
        "*" if best else "",
    ]


def _crossed(summaries: Sequence[Summary]) -> list[list[str]]:
    """Policies down, groups across."""
    groups = list(dict.fromkeys(summary.group for summary in summaries))
    cells = {(s.policy, s.group): f"{s.coverage:.2f} / {s.probes:.1f}" for s in summaries}
    names = dict.fromkeys(summary.policy for summary in summaries)
    return [["policy", *groups], *([n, *(cells[n, group] for group in groups)] for n in names)]


def _compared(outcomes: Sequence[Outcome], reference: str) -> list[list[str]]:
    head = ["policy", "of", "mean", "t: p", "flips: p", "ranks: p"]
    rows = [[*head, "95 % (t)", "95 % (bootstrap)", "d_z"]]
    for policy, comparisons in compare_policies(outcomes, reference).items():
        for name, found in comparisons.items():
            if found.level != "query":
                continue
            rows.append(
                [
                    policy,
                    name.split(",")[0],
                    f"{found.difference:+.3f}",
                    _number(found.t_p),
                    _number(found.sign_flip_p),
                    _number(found.wilcoxon_p),
                    _shown(found.t_interval),
                    _shown(found.bootstrap_interval),
                    f"{found.effect:+.2f} {_shown(found.effect_interval)}",
                ]
            )
    return rows


def _shown(interval: Interval | None) -> str:
    return "" if interval is None else f"[{interval.low:.2f}, {interval.high:.2f}]"


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.4f}" if abs(value) >= 1e-3 else f"{value:.1e}"


def _kind(outcome: Outcome) -> str:
    return outcome.kind


def _scene(outcome: Outcome) -> str:
    return outcome.scene
