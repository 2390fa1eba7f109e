"""What merging the states that questions cannot tell apart saves.

    python -m benchmarks.structure [--sizes 16384x60x4,49152x200x4] [--json FILE]

Tables of labels, twice: `structured` (half of the dimensions do not matter to a question, the
values of the others fall into two classes) and `labels` (every cell drawn by itself, so that
next to nothing is equal). `merged` is `score` as anyone calls it; `plain` is the same scoring of
all states. Both run in turns, and both are compared with float64.

`look` is the search for structure, once per table set. `classes` are the states that the questions
tell apart, in percent of all.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from balar_core import BalarError, Structure, score
from llm_oracles.store import write_whole

from .machine import describe, use_device
from .mutual_information import check_writable, parse_sizes, positive
from .report import Accuracy
from .timing import Run, interleave, median_ms
from .worlds import KINDS, Size, World

plain_score = jax.jit(score)
"""Inside `jit` the values of tables are not known, and all states are scored."""


def run_case(size: Size, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Times, ratio and errors of one size and one kind of tables."""
    world = World.make(size, kind, options.seed)
    belief, tables = world.engine(bucketed=True)
    found = Structure.of(belief.layout, tables)
    runs: dict[str, Run] = {
        "plain": lambda: jax.block_until_ready(plain_score(belief, tables)),
        "merged": lambda: jax.block_until_ready(score(belief, tables)),
        "look": lambda: Structure.of(belief.layout, tables),
    }
    ms = {name: median_ms(s) for name, s in interleave(runs, options.repeats).items()}
    exists = np.asarray(tables.valid)
    exact = world.exact_information()
    errors = {
        name: Accuracy.of(np.asarray(scoring(belief, tables).information)[exists], exact).absolute
        for name, scoring in (("plain", plain_score), ("merged", score))
    }
    return {
        **size._asdict(),
        "tables": kind,
        "merged_pairs": 0 if found is None else int(found.merged.sum()),
        "classes_share": world.distinct_states() / (size.states * size.pairs),
        "ms": ms,
        "ratio": ms["plain"] / ms["merged"],
        "max_abs_error": errors,
    }


def text(cases: Sequence[dict[str, Any]]) -> str:
    """The results for a reader at a terminal."""
    lines = [
        f"{'size':<16}{'tables':<12}{'classes':>9}{'merged':>8}{'plain ms':>10}{'merged ms':>11}"
        f"{'ratio':>7}{'look ms':>9}{'error':>9}"
    ]
    for case in cases:
        ms = case["ms"]
        lines.append(
            f"{case['states']}x{case['pairs']}x{case['choices']:<4}".ljust(16)
            + f"{case['tables']:<12}{case['classes_share']:>9.2%}{case['merged_pairs']:>8}"
            f"{ms['plain']:>10.2f}{ms['merged']:>11.2f}{case['ratio']:>7.1f}{ms['look']:>9.2f}"
            f"{case['max_abs_error']['merged']:>9.0e}"
        )
    return "\n".join(lines)


def kinds(listed: str) -> list[str]:
    """Kinds of tables separated by commas, for argparse."""
    names = listed.split(",")
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}"
        )
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code: 2 if an option cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.structure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--sizes",
        default="16384x60x4,49152x200x4,262144x100x4",
        help="STATESxPAIRSxCHOICES, comma-separated",
    )
    parser.add_argument(
        "--tables", type=kinds, default=["structured", "labels"], help="kinds, comma-separated"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--repeats", type=positive, default=10, help="timed runs, at least")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers")
    options = parser.parse_args(arguments)
    try:
        sizes = parse_sizes(options.sizes)
        check_writable(options.json)
        machine = describe(use_device(options.device))
        cases = [run_case(size, kind, options) for size in sizes for kind in options.tables]
        print(text(cases))
        if options.json is not None:
            data = {"machine": machine, "cases": cases}
            write_whole(options.json, json.dumps(data, indent=2, allow_nan=False) + "\n")
    except BalarError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
