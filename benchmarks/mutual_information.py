"""How fast the information of all pairs is found, beside other programs on the same inputs.

    python -m benchmarks.mutual_information [--sizes 49152x200x4,1024x15x4] [--json FILE]

Every contestant starts from inputs at rest and ends with the information of all pairs on the
host. All are warmed up, then timed in turns; times are medians, ratios are rival over ours. Errors
are against float64. Peak memory is taken in a process of its own, beyond the inputs; for the
rivals only with --memory.
The exit code is 0 if everything ran, 2 if an option cannot be used.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

from balar_core import BalarError
from llm_oracles.store import FileTrouble, write_whole

from . import memory, rivals
from .machine import describe, use_device
from .report import Accuracy, Case, Timed, check_can_draw, draw, markdown, text, to_data
from .rivals import own
from .roofline import Rates, Work
from .timing import interleave, median_ms
from .worlds import KINDS, Size, World

SIZES = "1024x15x4,4096x50x4,49152x200x4"


def run_case(size: Size, rates: Rates, options: argparse.Namespace) -> Case:
    """Time all contestants on one size."""
    world = World.make(size, options.tables, options.seed)
    belief, tables = world.engine()
    programs: dict[str, Callable[[], np.ndarray]] = {memory.OURS: own.bind(belief, tables)}
    inputs = rivals.Inputs(world, options.device, options.memory_limit)
    results: dict[str, Timed | str] = {}
    for name in options.rivals:
        try:
            programs[name] = rivals.prepare(name, inputs)
        except rivals.LeftOut as reason:
            results[name] = str(reason)
    found = {name: program() for name, program in programs.items()}
    seconds = interleave(programs, options.repeats)
    exact = world.exact_information()
    timed = {
        name: Timed(
            median_ms(seconds[name]),
            len(seconds[name]),
            Accuracy.of(found[name], exact),
            _peak(name, world, options),
        )
        for name in programs
    }
    analysed = own.analysed_bytes(belief, tables)
    ours = _with_analysis(timed.pop(memory.OURS), analysed)
    results.update(timed)
    work = Work.of(world)
    ordered = {name: results[name] for name in options.rivals}
    return Case(size, ours, ordered, rates.limit_ms(work), rates.milliseconds(work))


def _peak(name: str, world: World, options: argparse.Namespace) -> int | None:
    """The measured peak; None on a GPU, whose memory is not that of a process."""
    if options.device != "cpu" or (name != memory.OURS and not options.memory):
        return None
    return memory.measure(name, world, options.memory_limit, options.seed)


def _with_analysis(ours: Timed, analysed: int | None) -> Timed:
    """The larger of what was measured and what the compiler says."""
    known = [n for n in (ours.peak_bytes, analysed) if n is not None]
    return Timed(ours.ms, ours.runs, ours.accuracy, max(known, default=None))


def parse_sizes(listed: str) -> list[Size]:
    """Read sizes separated by commas.

    Raises:
        UnusableSize: one of them cannot be used.
    """
    return [Size.parse(part) for part in listed.split(",")]


def check_writable(path: Path | None) -> None:
    """Find out before a long run that its results could not be saved.

    Raises:
        FileTrouble: there is no such folder.
    """
    if path is not None and not path.resolve().parent.is_dir():
        raise FileTrouble(f"{path} cannot be written: {path.parent} is no folder.")


def positive(listed: str) -> int:
    """A whole number above 0, for argparse."""
    if not (listed.isascii() and listed.isdecimal() and 0 < len(listed) < 20 and int(listed) > 0):
        raise argparse.ArgumentTypeError(f"{listed!r} is no whole number above 0")
    return int(listed)


def chosen_rivals(listed: str) -> tuple[str, ...]:
    """Names separated by commas, for argparse; nothing means none."""
    names = tuple(n for n in listed.split(",") if n)
    for name in names:
        if name not in rivals.NAMES:
            raise argparse.ArgumentTypeError(
                f"there is no rival {name!r}; the rivals are {', '.join(rivals.NAMES)}"
            )
    return names


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(
        prog="python -m benchmarks.mutual_information",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--sizes", default=SIZES, help="STATESxPAIRSxCHOICES, separated by commas")
    found.add_argument("--tables", choices=list(KINDS), default="labels", help="kind of tables")
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    found.add_argument("--repeats", type=positive, default=20, help="timed runs of each, at least")
    found.add_argument(
        "--rivals", type=chosen_rivals, default=rivals.NAMES, help="names separated by commas"
    )
    found.add_argument(
        "--memory-limit",
        type=positive,
        default=rivals.MEMORY_LIMIT,
        metavar="BYTES",
        help="a rival that needs more is left out (default: %(default)s)",
    )
    found.add_argument("--memory", action="store_true", help="measure the memory of rivals too")
    found.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers")
    found.add_argument("--table", action="store_true", help="also print a Markdown table")
    found.add_argument("--plot", type=Path, metavar="FILE.svg", help="also draw a plot")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(given)
    try:
        sizes = parse_sizes(options.sizes)
        check_writable(options.json)
        if options.plot is not None:
            check_writable(options.plot)
            check_can_draw()
        device = use_device(options.device)
        machine = _machine(device, options, given)
        rates = Rates.measure(device)
        machine["rates_per_second"] = asdict(rates)
        cases = []
        for size in sizes:
            cases.append(run_case(size, rates, options))
            print(text(cases[-1]), flush=True)
        if options.table:
            print("\n" + markdown(machine, cases))
        if options.json is not None:
            data = to_data(machine, cases)
            write_whole(options.json, json.dumps(data, indent=2, allow_nan=False) + "\n")
        if options.plot is not None:
            draw(cases, options.plot)
    except BalarError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _machine(
    device: jax.Device, options: argparse.Namespace, given: Sequence[str]
) -> dict[str, Any]:
    command = ["python", "-m", "benchmarks.mutual_information", *given]
    return {
        **describe(device),
        "tables": options.tables,
        "seed": options.seed,
        "repeats": options.repeats,
        "command": shlex.join(command),
    }


if __name__ == "__main__":
    sys.exit(main())
