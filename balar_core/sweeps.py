"""Sums over all states of a belief, in the way that suits the device."""

from collections.abc import Callable
from typing import TypeVar

from .fused import covered, on_cuda
from .rows import Rows, Shards, sum_shards, sum_tiles

__all__ = ["sum_states"]

T = TypeVar("T")
W = TypeVar("W")


def sum_states(
    of_tile: Callable[[Rows, W], T],
    of_kernel: Callable[[Rows, W], T],
    rows: Rows,
    whole: W,
    shards: Shards | None,
) -> T:
    """Sum over all states: on a GPU in one kernel, elsewhere tile by tile.

    Args:
        of_tile: the sums over the rows that it is given.
        of_kernel: the same by a kernel of `fused`.
        rows: the belief and the row factors of the pairs: what is cut when rows are.
        whole: what else belongs to the pairs.
        shards: how the rows are spread over devices, if they are.
    """
    axes, columns = (0, 1), rows[0].shape[1]

    def in_tiles(rows: Rows, whole: W) -> T:
        return sum_tiles(of_tile, rows, whole, axes=axes, columns=columns, shards=shards)

    def in_kernel(rows: Rows, whole: W) -> T:
        return sum_shards(of_kernel, rows, whole, axes=axes, shards=shards)

    go = on_cuda(in_kernel, in_tiles) if covered(*rows) else in_tiles
    sums: T = go(rows, whole)
    return sums
