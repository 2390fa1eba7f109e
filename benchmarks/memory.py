"""Peak memory of one run beyond its inputs, measured in a process of its own.

    python -m benchmarks.memory CONTESTANT --size 49152x200x4 [--tables KIND]

The program runs once, so that everything is compiled; then the kernel's high-water mark of the
process is reset and the program runs again. Freed blocks go back to the system at once (the parent
sets the thresholds of malloc), so that the first run leaves nothing that hides the second.
Linux only; elsewhere nothing is measured.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import rivals
from .rivals import own
from .worlds import KINDS, Size, World

ROOT = Path(__file__).resolve().parents[1]
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
OURS = "kernel"
SECONDS = 300


def measure(contestant: str, world: World, memory_limit: int, seed: int) -> int | None:
    """The peak of one contestant on the CPU, in bytes; None where it cannot be measured.

    Args:
        contestant: `OURS` or one of `rivals.NAMES`.
        world: made again in the other process, from its size, kind and seed.
        memory_limit: bytes that a rival may need.
        seed: the seed of the world.
    """
    if not RESET.exists():
        return None
    command = [sys.executable, "-m", "benchmarks.memory", contestant]
    command += ["--size", str(world.size), "--tables", world.kind]
    command += ["--memory-limit", str(memory_limit), "--seed", str(seed)]
    thresholds = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    environment = {**os.environ, **thresholds, "JAX_PLATFORMS": "cpu"}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            check=True,
            encoding="utf-8",
            timeout=SECONDS,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    return int(json.loads(done.stdout.splitlines()[-1])["peak_bytes"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure one contestant and print `{"peak_bytes": ...}`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory")
    parser.add_argument("contestant", choices=[OURS, *rivals.NAMES])
    parser.add_argument("--size", type=Size.parse, required=True)
    parser.add_argument("--tables", choices=list(KINDS), default="labels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory-limit", type=int, default=rivals.MEMORY_LIMIT)
    options = parser.parse_args(arguments)
    world = World.make(options.size, options.tables, options.seed)
    if options.contestant == OURS:
        run = own.prepare(world)
    else:
        inputs = rivals.Inputs(world, memory_limit=options.memory_limit)
        try:
            run = rivals.prepare(options.contestant, inputs)
        except rivals.LeftOut as reason:
            print(reason, file=sys.stderr)
            return 2
    run()
    RESET.write_text("5", encoding="ascii")
    before = _kilobytes("VmRSS")
    run()
    print(json.dumps({"peak_bytes": 1024 * max(_kilobytes("VmHWM") - before, 0)}))
    return 0


def _kilobytes(field: str) -> int:
    for line in STATUS.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise LookupError(f"{STATUS} has no {field}")


if __name__ == "__main__":
    sys.exit(main())
