"""Coverage against probes: which policies no other beats in both, and a picture of it."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from balar_core.errors import BalarError, InvalidSetting

from ..pictures import save_picture

__all__ = ["FORMATS", "MissingExtra", "Point", "check_plot", "draw", "frontier"]

FORMATS = (".png", ".svg")


class MissingExtra(BalarError):
    """Something needs a library that only an extra of balar installs."""


@dataclass(frozen=True)
class Point:
    """A policy in the plane of probes and coverage.

    Attributes:
        name: the policy.
        probes: the mean number of probes; fewer is better.
        coverage: the mean coverage, from 0 to 1; more is better.
        family: policies of one family are joined by a line; empty for none.
        low: the lower end of the interval of the coverage.
        high: its upper end.
    """

    name: str
    probes: float
    coverage: float
    family: str = ""
    low: float = 0.0
    high: float = 1.0


def frontier(points: Sequence[Point]) -> frozenset[str]:
    """The names of the points that no other dominates.

    A point dominates another if it is no worse in both and better in one.

    >>> sorted(frontier([Point("a", 1, 0.5), Point("b", 2, 0.5), Point("c", 2, 0.9)]))
    ['a', 'c']
    """
    return frozenset(p.name for p in points if not any(_dominates(q, p) for q in points))


def _dominates(one: Point, other: Point) -> bool:
    no_worse = one.probes <= other.probes and one.coverage >= other.coverage
    return no_worse and (one.probes < other.probes or one.coverage > other.coverage)


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be drawn, before anything is computed for it.

    Raises:
        InvalidSetting: another ending than .png or .svg.
        MissingExtra: matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise InvalidSetting(f"{path} is no name of a picture; it ends in {' or '.join(FORMATS)}.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "A picture needs matplotlib, which is not installed: pip install 'balar[eval]'."
        ) from None


def draw(points: Sequence[Point], path: Path, *, title: str, coverage: str) -> None:
    """Draw coverage against probes into a PNG or SVG file.

    Args:
        points: the policies; those on the frontier are filled.
        path: the file; its ending says which format.
        title: the title.
        coverage: what the vertical axis shows.

    Raises:
        InvalidSetting: another ending than .png or .svg.
        MissingExtra: matplotlib is not installed.
        FileTrouble: the file cannot be written.
    """
    check_plot(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot()
    best = frontier(points)
    markers = itertools.cycle("osD^vP*Xhd<>8p")
    for number, family in enumerate(dict.fromkeys(point.family for point in points)):
        members = sorted((p for p in points if p.family == family), key=lambda p: p.probes)
        colour = f"C{number}"
        if family:
            axes.plot([p.probes for p in members], [p.coverage for p in members], colour, lw=1)
        for point in members:
            below, above = point.coverage - point.low, point.high - point.coverage
            axes.errorbar(
                point.probes,
                point.coverage,
                yerr=[[max(0.0, below)], [max(0.0, above)]],
                color=colour,
                marker=next(markers),
                markerfacecolor=colour if point.name in best else "white",
                capsize=2,
                elinewidth=0.6,
                linestyle="none",
                label=point.name,
            )
    axes.set(title=title, xlabel="probes per query", ylabel=coverage)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8, title="filled: on the frontier")
    save_picture(figure, path, dpi=150)
