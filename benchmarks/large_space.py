"""The cost of spaces far beyond the default cap: seconds, and memory beyond the inputs.

    python -m benchmarks.large_space [--values 4] [--dimensions 12] [--pairs 50] [--json FILE]

Every operation runs in a program compiled beforehand. "temporaries" is what the compiler reserves
beyond inputs and outputs, as a multiple of the belief; "peak RSS" is that of this process.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from balar_core import (
    AnswerTables,
    BalarError,
    Belief,
    Dimension,
    LikelihoodTables,
    Rule,
    StateSpace,
    answer_posterior,
    dimension_information,
    entropy,
    map_state,
    marginals,
    respond,
    score,
    turn,
    update,
)
from llm_oracles.store import write_whole

from .machine import describe
from .mutual_information import check_writable, positive
from .timing import timed
from .worlds import LABEL_WEIGHTS

CHOICES = 4
STATUS = Path("/proc/self/status")


def label_table(random: np.random.Generator, values: int) -> np.ndarray:
    """A table of random labels, shape `(values, CHOICES)`."""
    weights = random.choice(LABEL_WEIGHTS, (values, CHOICES))
    table: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return table


def make(values: int, dimensions: int, pairs: int) -> tuple[Belief, LikelihoodTables, AnswerTables]:
    """A product prior, and tables of labels for every dimension of every pair."""
    random = np.random.default_rng(0)
    names = tuple(f"value {v}" for v in range(values))
    space = StateSpace(
        tuple(Dimension(f"dimension {j}", names) for j in range(dimensions)),
        max_states=values**dimensions,
    )
    belief = Belief.from_priors(space, list(random.dirichlet(np.full(values, 3.0), dimensions)))
    asked = {(q, 0): [label_table(random, values) for _ in range(dimensions)] for q in range(pairs)}
    tables = LikelihoodTables.build(space, [CHOICES] * pairs, asked)
    answers = AnswerTables.build(
        space, CHOICES, [label_table(random, values) for _ in range(dimensions)]
    )
    return belief, tables, answers


def operations(
    tables: LikelihoodTables, answers: AnswerTables
) -> dict[str, Callable[[Belief], object]]:
    """What is done with a belief."""
    evidence = np.eye(1, CHOICES, dtype=np.float32)[0]
    rule = Rule()
    return {
        "score": lambda b: score(b, tables),
        "update": lambda b: update(b, tables, 0, 0, evidence),
        "marginals": marginals,
        "entropy": entropy,
        "map_state": map_state,
        "answer_posterior": lambda b: answer_posterior(b, answers),
        "dimension_information": lambda b: dimension_information(b, tables, 0, 0),
        "turn": lambda b: turn(b, tables, rule, questions_left=9, answers=answers),
        "respond": lambda b: respond(b, tables, 0, 0, evidence, rule, questions_left=9),
    }


def measure(run: Callable[[Belief], object], belief: Belief, repeats: int) -> dict[str, Any]:
    """The seconds of a run, and the bytes that the compiler reserves."""
    compiled = jax.jit(run).lower(belief).compile()

    def once() -> None:
        jax.block_until_ready(compiled(belief))

    once()
    analysis = compiled.memory_analysis()
    temporaries = None if analysis is None else int(analysis.temp_size_in_bytes)
    return {
        "seconds": statistics.median(timed(once) for _ in range(repeats)),
        "temporary_bytes": temporaries,
        "ratio": None if temporaries is None else temporaries / belief.log_joint.nbytes,
    }


def peak_rss() -> int | None:
    """The most memory that this process has held, in bytes; None where it is not told."""
    if not STATUS.exists():
        return None
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return next(1024 * int(x.split()[1]) for x in lines if x.startswith("VmHWM:"))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_space")
    parser.add_argument("--values", type=positive, default=4, help="of every dimension")
    parser.add_argument("--dimensions", type=positive, default=12)
    parser.add_argument("--pairs", type=positive, default=50)
    parser.add_argument("--repeats", type=positive, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers")
    options = parser.parse_args(arguments)
    try:
        check_writable(options.json)
        belief, tables, answers = make(options.values, options.dimensions, options.pairs)
        size = belief.log_joint.nbytes
        print(
            f"{options.values}^{options.dimensions} = {options.values**options.dimensions:,} "
            f"states, {options.pairs} pairs, {CHOICES} choices; the belief takes {size:,} bytes"
        )
        found = {}
        for name, run in operations(tables, answers).items():
            found[name] = measure(run, belief, options.repeats)
            ratio = found[name]["ratio"]
            told = "-" if ratio is None else f"{ratio:.2f}"
            print(f"  {name:<22}{found[name]['seconds']:>8.3f} s   temporaries {told:>6} x belief")
        rss = peak_rss()
        print("  peak RSS", "-" if rss is None else f"{rss / 2**20:,.0f} MiB")
        if options.json is not None:
            shape = {"values": options.values, "dimensions": options.dimensions}
            shape |= {"pairs": options.pairs, "choices": CHOICES}
            data = {"machine": describe(jax.devices()[0]), **shape}
            data |= {"belief_bytes": size, "operations": found, "peak_rss_bytes": rss}
            write_whole(options.json, json.dumps(data, indent=2) + "\n")
    except BalarError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
