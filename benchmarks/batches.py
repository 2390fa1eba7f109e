"""Many dialogues at once against one at a time, in pair · states per second.

    python -m benchmarks.batches [--size 1024x15x4] [--counts 8,64] [--json FILE]

`dialogues`: N beliefs, each with its own tables (a server, an evaluation). `beliefs`: N beliefs
over one table (looking ahead, simulations). Both are one call of `score_many`; the loop calls
`score` N times and waits for all of them.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from balar_core import BalarError, Belief, LikelihoodTables, score, score_many
from llm_oracles.store import write_whole

from .machine import describe, use_device
from .mutual_information import check_writable, positive
from .timing import Run, interleave, median_ms
from .worlds import KINDS, Size, World


def stack(*trees: Any) -> Any:
    """The same tree with one more axis in front of every array."""
    return jax.tree.map(lambda *leaves: jax.device_put(np.stack(leaves)), *trees)


def programs(size: Size, count: int, kind: str, seed: int) -> dict[str, Run]:
    """Both batches and their loops, set up and ready to run."""
    worlds = [World.make(size, kind, seed + i).engine(bucketed=True) for i in range(count)]
    many_beliefs, many_tables = (stack(*part) for part in zip(*worlds, strict=True))
    tables = worlds[0][1]

    def loop(pairs: list[tuple[Belief, LikelihoodTables]]) -> Run:
        return lambda: jax.block_until_ready([score(b, t).information for b, t in pairs])

    return {
        "dialogues": lambda: jax.block_until_ready(
            score_many(many_beliefs, many_tables).information
        ),
        "dialogues_loop": loop(worlds),
        "beliefs": lambda: jax.block_until_ready(score_many(many_beliefs, tables).information),
        "beliefs_loop": loop([(belief, tables) for belief, _ in worlds]),
    }


def run_count(size: Size, count: int, options: argparse.Namespace) -> dict[str, Any]:
    """Throughputs of one batch size."""
    seconds = interleave(programs(size, count, options.tables, options.seed), options.repeats)
    work = count * size.pairs * size.states
    rates = {name: work / median_ms(s) * 1e3 for name, s in seconds.items()}
    return {
        "count": count,
        "pair_states_per_s": rates,
        "gain": {n: rates[n] / rates[f"{n}_loop"] for n in ("dialogues", "beliefs")},
    }


def text(size: Size, results: Sequence[dict[str, Any]]) -> str:
    """The results for a reader at a terminal."""
    lines = [
        f"{size.states} states x {size.pairs} pairs x {size.choices} choices, pair·states/s",
        f"  {'N':>5}{'':<3}{'':<12}{'batch':>10}{'loop':>10}{'gain':>8}",
    ]
    for result in results:
        for name, gain in result["gain"].items():
            rates = result["pair_states_per_s"]
            lines.append(
                f"  {result['count']:>5}   {name:<12}{rates[name]:>10.2e}"
                f"{rates[f'{name}_loop']:>10.2e}{gain:>8.2f}"
            )
    return "\n".join(lines)


def counts(listed: str) -> list[int]:
    """Whole numbers separated by commas, for argparse."""
    return [positive(part) for part in listed.split(",")]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code: 2 if an option cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.batches",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--size", default="1024x15x4", help="STATESxPAIRSxCHOICES")
    parser.add_argument("--counts", type=counts, default=[8, 64], help="N, separated by commas")
    parser.add_argument("--tables", choices=list(KINDS), default="labels", help="kind of tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--repeats", type=positive, default=20, help="timed runs, at least")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers")
    options = parser.parse_args(arguments)
    try:
        size = Size.parse(options.size)
        check_writable(options.json)
        machine = describe(use_device(options.device))
        results = [run_count(size, count, options) for count in options.counts]
        print(text(size, results))
        if options.json is not None:
            data = {"machine": machine, "size": size._asdict(), "batches": results}
            write_whole(options.json, json.dumps(data, indent=2, allow_nan=False) + "\n")
    except BalarError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
