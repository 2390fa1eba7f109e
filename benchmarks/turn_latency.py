"""How long a person waits: one whole turn of a dialogue, and the very first question.

    python -m benchmarks.turn_latency [--sizes 1024x15x4,49152x200x4] [--json FILE]

A turn begins with an answer on the host and ends with the decision, the marginals and the scores on
the host: the pair is marked as asked, then update, marginals, mutual information and decision are
one compiled call. The dense scoring of PyTorch (its table is there already; no update, no
decision) runs beside it, in turns.

The cold start is that of a `Dialogue` of the paper's default size, in fresh processes: the import,
and the way from the first proposal to the first question, with an empty and with a warm
compilation cache.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from balar_core import BalarError, Rule, Turn, respond
from balar_core.numerics import as_array
from llm_oracles.store import write_whole

from . import rivals
from .machine import describe, use_device
from .mutual_information import check_writable, parse_sizes, positive
from .timing import interleave, percentile_ms
from .worlds import KINDS, Size, World

ROOT = Path(__file__).resolve().parents[1]
SIZES = "1024x15x4,49152x200x4"
TORCH = "torch_dense_score"


class BrokenStart(BalarError):
    """A fresh process did not come to its first question."""


def prepare_turn(world: World) -> Callable[[], Turn]:
    """A program that takes the same turn again and again."""
    belief, tables = world.engine(bucketed=True)
    evidence = np.zeros(tables.choice_mask.shape[-1], np.float32)
    evidence[0] = 1
    rule = Rule()

    def run() -> Turn:
        marked = tables.mark_asked(0, 0)
        taken = respond(belief, marked, 0, 0, as_array(evidence), rule, questions_left=9).turn
        on_host: Turn = jax.device_get(taken)
        return on_host

    return run


def time_turns(size: Size, options: argparse.Namespace) -> dict[str, Any]:
    """p50 and p99 of turns of one size, beside PyTorch's scoring."""
    world = World.make(size, options.tables, options.seed)
    runs: dict[str, Callable[[], object]] = {"turn": prepare_turn(world)}
    reason = None
    try:
        runs[TORCH] = rivals.prepare(TORCH, rivals.Inputs(world, options.device))
    except rivals.LeftOut as left_out:
        reason = str(left_out)
    seconds = interleave(runs, options.repeats, least=2.0)
    found: dict[str, dict[str, Any]] = {
        name: {"p50_ms": percentile_ms(s, 50), "p99_ms": percentile_ms(s, 99), "runs": len(s)}
        for name, s in seconds.items()
    }
    if reason is not None:
        found[TORCH] = {"p50_ms": None, "p99_ms": None, "reason": reason}
    return {"states": size.states, "pairs": size.pairs, "choices": size.choices, **found}


def cold_start(starts: int) -> dict[str, float]:
    """Medians over fresh processes, in seconds.

    Raises:
        BrokenStart: a process failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        empty = [_fresh(Path(folder) / f"cache-{i}") for i in range(starts)]
        warm = [_fresh(Path(folder) / "cache-0") for _ in range(starts)]
    return {
        "import_s": statistics.median(r["import_s"] for r in empty + warm),
        "first_question_empty_cache_s": statistics.median(r["question_s"] for r in empty),
        "first_question_warm_cache_s": statistics.median(r["question_s"] for r in warm),
    }


def _fresh(cache: Path) -> dict[str, float]:
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_question"],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode != 0:
        raise BrokenStart(f"A fresh process failed to ask its first question:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def text(results: dict[str, Any]) -> str:
    """The results for a reader at a terminal."""
    lines = []
    for case in results["cases"]:
        lines.append(f"{case['states']} states x {case['pairs']} pairs x {case['choices']} choices")
        for name, label in (("turn", "one whole turn"), (TORCH, "PyTorch, scoring alone")):
            row = case[name]
            if row["p50_ms"] is None:
                lines.append(f"  {label:<24}{row['reason']}")
            else:
                lines.append(
                    f"  {label:<24}p50 {row['p50_ms']:9.3f} ms   p99 {row['p99_ms']:9.3f} ms"
                    f"   {row['runs']} runs"
                )
    cold = results["cold_start"]
    if cold is not None:
        lines += [
            "cold start of a dialogue, 5 dimensions x 4 values, 15 pairs",
            f"  import balar_core                 {cold['import_s']:.2f} s",
            f"  first question, empty cache       {cold['first_question_empty_cache_s']:.2f} s",
            f"  first question, warm cache        {cold['first_question_warm_cache_s']:.2f} s",
        ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code: 2 if an option cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.turn_latency",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sizes", default=SIZES, help="STATESxPAIRSxCHOICES, comma-separated")
    parser.add_argument("--tables", choices=list(KINDS), default="labels", help="kind of tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--repeats", type=positive, default=200, help="turns, at least")
    parser.add_argument("--starts", type=int, default=3, help="fresh processes; 0 for none")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers")
    options = parser.parse_args(arguments)
    try:
        sizes = parse_sizes(options.sizes)
        check_writable(options.json)
        results: dict[str, Any] = {"machine": describe(use_device(options.device))}
        results["cases"] = [time_turns(size, options) for size in sizes]
        results["cold_start"] = cold_start(options.starts) if options.starts > 0 else None
        print(text(results))
        if options.json is not None:
            write_whole(options.json, json.dumps(results, indent=2, allow_nan=False) + "\n")
    except BalarError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
