"""The benchmarks there are: how their cases are read, asked about and scored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from balar_core.errors import InvalidInput

from .case import Case
from .clinical import clinical_cases
from .detective import detective_cases
from .puzzles import puzzle_cases

__all__ = ["BENCHMARKS", "Benchmark", "UnknownBenchmark"]


class UnknownBenchmark(InvalidInput):
    """There is no benchmark of this name."""


@dataclass(frozen=True)
class Benchmark:
    """A public set of cases.

    Attributes:
        name: its name.
        words: what it is, in one sentence.
        preset: the kind of problem, for whoever is asked to judge.
        entailment: whether a judge compares explanations; else the answer is one of a closed set
            and has to be the right one.
        load: reads a file; the seed is that of whatever order is drawn anew.
    """

    name: str
    words: str
    preset: str
    entailment: bool
    load: Callable[[Path, int], tuple[Case, ...]]

    @classmethod
    def named(cls, name: str) -> "Benchmark":
        """A benchmark by its name.

        Raises:
            UnknownBenchmark: there is none of this name.

        >>> Benchmark.named("ar-bench-sp").preset
        'puzzle'
        """
        if name not in BENCHMARKS:
            raise UnknownBenchmark(
                f"There is no benchmark {name!r}; there are {', '.join(BENCHMARKS)}."
            )
        return BENCHMARKS[name]


BENCHMARKS: Mapping[str, Benchmark] = {
    found.name: found
    for found in (
        Benchmark(
            "ar-bench-dc",
            "Detective cases of AR-Bench: who of five suspects did it.",
            "detective",
            False,
            lambda path, seed: detective_cases(path, seed=seed),
        ),
        Benchmark(
            "ar-bench-sp",
            "Situation puzzles of AR-Bench: what explains a strange scene.",
            "puzzle",
            True,
            lambda path, seed: puzzle_cases(path),
        ),
        Benchmark(
            "icraft-md",
            "Dermatology cases in the format of MediQ: which of four diagnoses is right.",
            "clinical",
            False,
            lambda path, seed: clinical_cases(path),
        ),
    )
}
