"""The results of the benchmark: as text, as a Markdown table, as JSON and as a plot."""

import importlib.util
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from balar_core import BalarError
from llm_oracles.store import FileTrouble

from .rivals import NAMES
from .worlds import Size

TARGET = Size(49_152, 200, 4)
"""The case that the targets are about."""
SMALLEST = 1e-6
"""Nats; relative errors of informations below are not looked at."""


class NoPlot(BalarError):
    """The plot cannot be drawn."""


@dataclass(frozen=True)
class Accuracy:
    """How far informations are from float64.

    Attributes:
        absolute: the largest absolute error, in nats.
        relative: the largest relative error among informations of at least `SMALLEST` nats.
        same_winner: whether the best pair is the right one (or ties with it in float64).
    """

    absolute: float
    relative: float
    same_winner: bool

    @classmethod
    def of(cls, found: np.ndarray, exact: np.ndarray) -> "Accuracy":
        """Compare the informations of all pairs, in nats."""
        errors = np.abs(found.astype(np.float64) - exact)
        errors = np.where(np.isfinite(errors), errors, math.inf)
        telling = exact >= SMALLEST
        relative = errors[telling] / exact[telling]
        best = exact[int(np.argmax(found))]
        return cls(
            float(errors.max()),
            float(relative.max(initial=0)),
            bool(exact.max() - best <= 1e-12),
        )


@dataclass(frozen=True)
class Timed:
    """One contestant that ran."""

    ms: float
    runs: int
    accuracy: Accuracy
    peak_bytes: int | None


@dataclass(frozen=True)
class Case:
    """One size.

    Attributes:
        size: states, pairs, choices.
        ours: the kernel.
        rivals: name -> result, or the reason why it was left out.
        limit_ms: the roofline.
        parts_ms: the times that make it up.
    """

    size: Size
    ours: Timed
    rivals: dict[str, Timed | str]
    limit_ms: float
    parts_ms: dict[str, float]

    @property
    def share(self) -> float:
        """How much of the roofline is reached."""
        return self.limit_ms / self.ours.ms

    @property
    def throughput(self) -> float:
        """Pair · states per second."""
        return self.size.pairs * self.size.states / self.ours.ms * 1e3

    def ratio(self, name: str) -> float | None:
        """Time of a rival over ours; None if it did not run."""
        rival = self.rivals.get(name)
        return rival.ms / self.ours.ms if isinstance(rival, Timed) else None


def to_data(machine: dict[str, Any], cases: list[Case]) -> dict[str, Any]:
    """The results as JSON-able values."""
    return {"machine": machine, "cases": [_case_data(case) for case in cases]}


def _case_data(case: Case) -> dict[str, Any]:
    rivals: dict[str, Any] = {}
    for name, rival in case.rivals.items():
        if isinstance(rival, Timed):
            rivals[name] = {"ms": rival.ms, "ratio": case.ratio(name)}
        else:
            rivals[name] = {"ms": None, "ratio": None, "reason": rival}
    error = case.ours.accuracy.absolute
    return {
        "states": case.size.states,
        "pairs": case.size.pairs,
        "choices": case.size.choices,
        "kernel_ms": case.ours.ms,
        "rivals": rivals,
        "peak_memory_bytes": case.ours.peak_bytes,
        "roofline_share": case.share,
        "max_abs_error": error if math.isfinite(error) else None,
    }


def text(case: Case) -> str:
    """One case for a reader at a terminal."""
    lines = [
        f"{case.size.states} states x {case.size.pairs} pairs x {case.size.choices} choices",
        f"  {'':<28}{'ms':>10}{'ratio':>9}{'runs':>6}{'peak MB':>9}{'abs error':>11}{'rel':>9}"
        "  winner",
        _line("balar", case.ours, 1.0),
    ]
    for name, rival in case.rivals.items():
        if isinstance(rival, Timed):
            lines.append(_line(name, rival, rival.ms / case.ours.ms))
        else:
            lines.append(f"  {name:<28}{'-':>10}  {rival}")
    parts = ", ".join(f"{name.replace('_', '-')} {ms:.3g}" for name, ms in case.parts_ms.items())
    lines.append(f"  {case.throughput:.3g} pair·states/s")
    lines.append(f"  roofline {case.limit_ms:.3g} ms ({parts}); {100 * case.share:.0f} % reached")
    if case.size == TARGET:
        verdicts = {True: "met", False: "MISSED", None: "not measured"}
        lines += [f"  {verdicts[met]:<14}{what}" for what, met in targets(case)]
    return "\n".join(lines)


def _line(name: str, result: Timed, ratio: float) -> str:
    peak = "-" if result.peak_bytes is None else f"{result.peak_bytes / 1e6:.1f}"
    accuracy = result.accuracy
    return (
        f"  {name:<28}{result.ms:>10.3f}{ratio:>9.1f}{result.runs:>6}{peak:>9}"
        f"{accuracy.absolute:>11.1e}{accuracy.relative:>9.0e}"
        f"  {'right' if accuracy.same_winner else 'wrong'}"
    )


def targets(case: Case) -> list[tuple[str, bool | None]]:
    """What was aimed at for the size `TARGET` on two cores, and whether it is met.

    None stands for what was not measured.
    """
    score = case.ratio("torch_dense_score")
    build = case.ratio("torch_dense_build_and_score")
    peak, accuracy = case.ours.peak_bytes, case.ours.accuracy
    memory = None if peak is None else peak / case.size.dense_bytes
    return [
        _at_least("25 times the dense scoring of PyTorch", score, 25, ".1f"),
        _at_least("80 times with the build of its table", build, 80, ".1f"),
        _at_least("60 % of the roofline", case.share, 0.6, ".0%"),
        _at_most("3 % of the dense table's memory", memory, 0.03, ".1%"),
        _at_most("1e-6 nats of absolute error", accuracy.absolute, 1e-6, ".1e"),
        _at_most("1e-3 of relative error", accuracy.relative, 1e-3, ".1e"),
        ("the best pair is the right one", accuracy.same_winner),
    ]


def _at_least(what: str, value: float | None, aim: float, form: str) -> tuple[str, bool | None]:
    if value is None:
        return f"at least {what}", None
    return f"at least {what}: {value:{form}}", value >= aim


def _at_most(what: str, value: float | None, aim: float, form: str) -> tuple[str, bool | None]:
    if value is None:
        return f"at most {what}", None
    return f"at most {what}: {value:{form}}", value <= aim


def markdown(machine: dict[str, Any], cases: list[Case]) -> str:
    """The results as a Markdown table, headed by the machine and the command."""
    names = [n for n in NAMES if any(isinstance(c.rivals.get(n), Timed) for c in cases)]
    heads = ["states", "pairs", "choices", "balar, ms", *(f"{n}, ms (ratio)" for n in names)]
    heads += ["pair·states/s", "of the roofline", "peak, MB", "error, nats"]
    rows = [heads, ["---:"] * len(heads)]
    for case in cases:
        peak = case.ours.peak_bytes
        row = [f"{case.size.states:,}", str(case.size.pairs), str(case.size.choices)]
        row += [f"{case.ours.ms:.3g}", *(_cell(case, name) for name in names)]
        row += [f"{case.throughput:.2g}", f"{100 * case.share:.0f} %"]
        row += ["-" if peak is None else f"{peak / 1e6:.1f}", f"{case.ours.accuracy.absolute:.0e}"]
        rows.append(row)
    head = (
        f"{machine['processor']}, {machine['cores']} cores, JAX {machine['versions']['jax']} on "
        f"{machine['device_kind']}; {machine['tables']} tables; load {machine['load_average']} "
        f"at the start; medians.\n\n    {machine['command']}\n"
    )
    return head + "\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(case: Case, name: str) -> str:
    rival = case.rivals.get(name)
    if not isinstance(rival, Timed):
        return "-"
    return f"{rival.ms:.3g} ({rival.ms / case.ours.ms:.3g}×)"


def check_can_draw() -> None:
    """Find out before a long run that its results could not be drawn.

    Raises:
        NoPlot: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise NoPlot("The plot needs matplotlib; pip install 'balar[bench]', or leave --plot out.")


def draw(cases: list[Case], path: Path) -> None:
    """Draw all contestants and the roofline, case by case, and save an SVG.

    Raises:
        NoPlot: matplotlib is not installed.
        FileTrouble: the file cannot be written; nothing is left behind.
    """
    check_can_draw()
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(1.5 + 2.5 * len(cases), 4.5), layout="constrained")
    at = np.arange(len(cases), dtype=float)
    width = 0.9 / (len(NAMES) + 1)
    axes.bar(at, [c.ours.ms for c in cases], width, label="balar")
    for i, name in enumerate(NAMES, start=1):
        results = [(x, case.rivals.get(name)) for x, case in zip(at, cases, strict=True)]
        ran = [(x + i * width, r.ms) for x, r in results if isinstance(r, Timed)]
        if ran:
            axes.bar([x for x, _ in ran], [ms for _, ms in ran], width, label=name)
    limits = [c.limit_ms for c in cases]
    axes.hlines(limits, at - width / 2, at + width / 2, colors="black", label="roofline")
    axes.set_yscale("log")
    axes.set_ylabel("ms per call")
    axes.set_xticks(at + width * len(NAMES) / 2, [str(c.size) for c in cases])
    axes.set_xlabel("states x pairs x choices")
    figure.legend(loc="outside right upper", frameon=False)
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        figure.savefig(draft, format="svg", metadata={"Date": None})
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise FileTrouble(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        pyplot.close(figure)
