"""Check the kernels of a device against XLA in float64 on the same device, before timing them.

    python -m benchmarks.kernel_check [--device gpu] [--sizes 1024x15x4,...] [--json FILE]

For every size and kind of tables the informations in float32 are compared with those that XLA
finds in float64, where no kernel is used, and those with NumPy's; then three beliefs at once with
one at a time. On a GPU a program without a kernel is a failure too. The exit code is 0 within
tolerance, 1 above it, 2 if an option cannot be used.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import numpy as np

from balar_core import BalarError, Belief, Layout, LikelihoodTables, score
from balar_core.numerics import as_array
from llm_oracles.store import write_whole

from .machine import describe, use_device
from .mutual_information import check_writable, parse_sizes
from .report import Accuracy
from .worlds import KINDS, Size, World

SIZES = "72x6x3,1024x15x4,4096x40x2,6912x8x16,49152x40x4"
BELIEFS = 3
ABSOLUTE, RELATIVE = 1e-6, 1e-3
"""Largest errors allowed: in nats, and as a share of informations from 1e-6 nats."""


@dataclass(frozen=True)
class Row:
    """One size and kind of tables.

    Attributes:
        size: states x pairs x choices.
        tables: kind of tables.
        kernel: whether the compiled program has a kernel written by hand.
        absolute: largest error of an information against XLA in float64, in nats.
        relative: the largest as a share, of informations from 1e-6 nats.
        reference: largest difference between XLA in float64 and NumPy, in nats.
        batch: largest difference between beliefs at once and one at a time, in nats.
    """

    size: str
    tables: str
    kernel: bool
    absolute: float
    relative: float
    reference: float
    batch: float

    @property
    def fine(self) -> bool:
        """Whether all is within tolerance."""
        errors = self.absolute, self.reference, self.batch
        return max(errors) <= ABSOLUTE and self.relative <= RELATIVE


@jax.jit
def information(log_joint: jax.Array, layout: Layout, tables: LikelihoodTables) -> jax.Array:
    """The information of every pair, as a function of the belief's numbers."""
    found: jax.Array = score(Belief(log_joint, layout), tables).information
    return found


of_many = jax.jit(jax.vmap(information, in_axes=(0, None, None)))


def check(size: Size, kind: str, seed: int = 0) -> Row:
    """Compare all that can be compared."""
    world = World.make(size, kind, seed)
    with jax.enable_x64(True):
        belief, tables = world.engine()
        exact = np.asarray(information(belief.log_joint, belief.layout, tables)).ravel()
    belief, tables = world.engine()
    log_joint, given = belief.log_joint, (belief.layout, tables)
    found = np.asarray(information(log_joint, *given)).ravel()
    accuracy = Accuracy.of(found, exact)
    noise = np.random.default_rng(seed).normal(size=(BELIEFS, *belief.layout.shape))
    beliefs = log_joint + as_array(noise.astype(np.float32))
    alone = np.stack([np.asarray(information(x, *given)) for x in beliefs])
    return Row(
        str(size),
        kind,
        "triton" in information.lower(log_joint, *given).as_text(),
        accuracy.absolute,
        accuracy.relative,
        _largest(exact - world.exact_information()),
        _largest(np.asarray(of_many(beliefs, *given)) - alone),
    )


def _largest(differences: np.ndarray) -> float:
    """The largest of some differences; infinite if one is not a number."""
    sizes = np.abs(differences)
    return float(np.where(np.isfinite(sizes), sizes, np.inf).max())


def text(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    heads = "absolute", "relative", "reference", "batch"
    lines = [f"{'size':<14}{'tables':<12}{'kernel':<8}" + "".join(f"{h:>11}" for h in heads)]
    for row in rows:
        numbers = "".join(f"{getattr(row, head):>11.1e}" for head in heads)
        verdict = "" if row.fine else "  OUT OF TOLERANCE"
        kernel = "yes" if row.kernel else "no"
        lines.append(f"{row.size:<14}{row.tables:<12}{kernel:<8}{numbers}{verdict}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel_check", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--sizes", default=SIZES, help="STATESxPAIRSxCHOICES, separated by commas")
    parser.add_argument("--tables", choices=list(KINDS), nargs="+", default=list(KINDS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers")
    options = parser.parse_args(arguments)
    try:
        sizes = parse_sizes(options.sizes)
        check_writable(options.json)
        device = use_device(options.device)
        rows = [check(size, kind) for size in sizes for kind in options.tables]
        print(text(rows))
        if options.json is not None:
            data = {"machine": describe(device), "rows": [asdict(row) for row in rows]}
            write_whole(options.json, json.dumps(data, indent=2) + "\n")
    except BalarError as error:
        print(error, file=sys.stderr)
        return 2
    absent = options.device == "gpu" and not all(row.kernel for row in rows)
    wrong = sum(not row.fine for row in rows)
    if absent:
        print("The program has no kernel for this device.", file=sys.stderr)
    print("all within tolerance" if not wrong else f"{wrong} out of tolerance")
    return 1 if wrong or absent else 0


if __name__ == "__main__":
    sys.exit(main())
