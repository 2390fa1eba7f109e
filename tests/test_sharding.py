"""A belief spread over devices gives what one device gives: in one process and in two."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from balar_core import Belief, Dimension, expand
from balar_core.errors import InvalidSetting
from balar_core.sharding import shard

from .strategies import space_of

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 5e-6
"""Of float32 sums in another order, relative to 1 or to the number, whichever is larger."""


def start(devices: int, *arguments: object) -> subprocess.Popen[str]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, "-m", "tests.sharded_run", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def finish(processes: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """What the processes print; none outlives the test."""
    try:
        ended = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, ended, strict=True):
        assert process.returncode == 0, errors[-3000:]
    return [json.loads(output.splitlines()[-1]) for output, _ in ended]


def check(found: dict[str, Any], devices: int) -> None:
    assert found["devices"] == devices
    wrong = {k: v for k, v in found["differences"].items() if v > TOLERANCE}
    assert not wrong
    # Sides of a layout may come together, the joint never.
    assert not {k: v for k, v in found["gathered"].items() if v >= 0.5}


@pytest.mark.slow
def test_eight_devices_find_what_one_finds_and_never_gather_the_belief() -> None:
    (found,) = finish([start(8)])
    check(found, 8)


@pytest.mark.slow
def test_two_processes_find_what_one_device_finds() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for found in finish([start(1, address, 2, number) for number in range(2)]):
        check(found, 2)


def belief() -> Belief:
    return Belief.from_priors(space_of((2, 3)), [(0.8, 0.2), (0.5, 0.3, 0.2)])


def test_one_device_holds_the_same_states() -> None:
    mesh = Mesh(np.array(jax.devices()[:1]), ("states",))
    spread = shard(belief(), mesh)
    np.testing.assert_array_equal(spread.log_joint, belief().log_joint)
    assert spread.layout.shards is not None


def test_an_unknown_axis_is_refused() -> None:
    mesh = Mesh(np.array(jax.devices()[:1]), ("states",))
    with pytest.raises(InvalidSetting, match="no axis 'rows'; its axes are 'states'"):
        shard(belief(), mesh, "rows")


def test_a_belief_that_is_spread_is_not_spread_again() -> None:
    mesh = Mesh(np.array(jax.devices()[:1]), ("states",))
    with pytest.raises(InvalidSetting, match="already"):
        shard(shard(belief(), mesh), mesh)


def test_a_belief_that_is_spread_is_not_expanded() -> None:
    mesh = Mesh(np.array(jax.devices()[:1]), ("states",))
    with pytest.raises(InvalidSetting, match="expand it before that"):
        expand(shard(belief(), mesh), space_of((2, 3)), Dimension("new", ("x", "y")), (0.5, 0.5))
