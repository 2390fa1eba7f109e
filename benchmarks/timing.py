"""Times that can be compared: warmed up, waited for, and taken turn by turn."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Run = Callable[[], object]
"""One run from inputs at rest to results on the host."""


def interleave(
    runs: Mapping[str, Run], repeats: int, *, least: float = 0.5, budget: float = 30.0
) -> dict[str, list[float]]:
    """Time several programs in turns (a, b, c, a, b, c, ...), so that all meet the same weather.

    Every program runs once before the clock starts, to compile and to touch its memory.

    Args:
        runs: name -> program.
        repeats: runs of each program, at least.
        least: seconds that all runs together take at least; short programs run more often.
        budget: seconds after which a program gets no further runs; the first one always counts.

    Returns:
        name -> seconds of each run.
    """
    for run in runs.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    start = time.perf_counter()
    rounds = 0
    while rounds < repeats or time.perf_counter() - start < least:
        rounds += 1
        for name, run in runs.items():
            if not seconds[name] or sum(seconds[name]) < budget:
                seconds[name].append(timed(run))
    return seconds


def timed(run: Run) -> float:
    """The seconds of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def median_ms(seconds: Sequence[float]) -> float:
    """The median, in milliseconds."""
    return 1e3 * statistics.median(seconds)


def percentile_ms(seconds: Sequence[float], percent: float) -> float:
    """A percentile, in milliseconds."""
    return 1e3 * float(np.percentile(np.asarray(seconds), percent))
