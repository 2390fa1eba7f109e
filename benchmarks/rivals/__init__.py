"""The programs that the kernel is compared with, one file each.

All get the same `World` and give the information of every pair in nats. Tables that are handed
over ready-made are made once, in float64, and shared; making them is not part of the time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.worlds import World

NAMES = (
    "torch_dense_score",
    "torch_dense_build_and_score",
    "jax_dense",
    "numpy_dense",
    "pymdp",
    "pyagrum",
)
"""All rivals, in the order of the reports."""

Program = Callable[[], np.ndarray]
"""One run: the information of all pairs, shape `(pairs,)`, on the host."""

MEMORY_LIMIT = 4 * 10**9
"""Bytes that a rival may need, unless told otherwise."""


class LeftOut(Exception):
    """A rival that does not run here; the message says why."""


@dataclass(frozen=True)
class Inputs:
    """What a rival starts from.

    Attributes:
        world: the world.
        device: `"cpu"` or `"gpu"`.
        memory_limit: bytes that a rival may need.
    """

    world: World
    device: str = "cpu"
    memory_limit: int = MEMORY_LIMIT

    @cached_property
    def table(self) -> np.ndarray:
        """The dense float32 table, shape `(pairs, states, choices)`."""
        return self.world.dense_table()

    @cached_property
    def pi(self) -> np.ndarray:
        """The belief in float32, shape `(states,)`."""
        return self.world.pi.astype(np.float32)

    def require(self, tables: int, cell: int = 4) -> None:
        """Leave the rival out if it needs too much memory.

        Args:
            tables: how many arrays of the size of the dense table exist at the same time.
            cell: bytes of one entry.

        Raises:
            LeftOut: it would pass the limit.
        """
        need = tables * self.world.size.dense_bytes // 4 * cell
        if need > self.memory_limit:
            raise LeftOut(
                f"needs {need / 1e9:.1f} GB for dense tables, "
                f"above the limit of {self.memory_limit / 1e9:.1f} GB"
            )


def prepare(name: str, inputs: Inputs) -> Program:
    """Set one rival up.

    Raises:
        LeftOut: it is not installed, or would need too much memory or time.
    """
    if name == "torch_dense_score":
        from . import dense_torch

        return dense_torch.prepare(inputs)
    if name == "torch_dense_build_and_score":
        from . import dense_torch

        return dense_torch.prepare_with_build(inputs)
    if name == "jax_dense":
        from . import dense_jax

        return dense_jax.prepare(inputs)
    if name == "numpy_dense":
        from . import dense_numpy

        return dense_numpy.prepare(inputs)
    if name == "pymdp":
        from . import pymdp_gain

        return pymdp_gain.prepare(inputs)
    from . import pyagrum_information

    return pyagrum_information.prepare(inputs)


def missing(package: str) -> LeftOut:
    """The reason for a rival whose package is not there."""
    return LeftOut(f"{package} is not installed; pip install 'balar[bench]'")
