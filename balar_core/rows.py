"""Going through the rows of a belief: in tiles that stay in the cache, and spread over devices.

Everything as large as the belief is made a tile of rows at a time. Where the rows are spread over
the devices of a mesh (see `sharding`), every device goes through its own rows, and only sums
travel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Shaped

__all__ = [
    "TILE_CELLS",
    "Shards",
    "map_blocks",
    "map_tiles",
    "sum_shards",
    "sum_tiles",
    "tile_height",
]

T = TypeVar("T")
W = TypeVar("W")
Rows = tuple[Shaped[Array, "rows *rest"], ...]

TILE_CELLS = 2**16
"""A tile of states, or a block of small pairs, has about this many cells."""


@dataclass(frozen=True)
class Shards:
    """How the rows of a layout are spread: in equal blocks over one axis of a device mesh.

    Attributes:
        mesh: the devices.
        axis: the axis of the mesh; the belief is repeated along the others.
    """

    mesh: Mesh
    axis: str

    @property
    def count(self) -> int:
        """The number of blocks of rows."""
        return int(self.mesh.shape[self.axis])

    def by_rows(self, position: int = 0) -> P:
        """The partition of an array whose axis `position` counts rows."""
        return P(*(None,) * position, self.axis)

    def sharding(self, spec: P) -> NamedSharding:
        """The sharding of one partition."""
        return NamedSharding(self.mesh, spec)

    def total(self, sums: T) -> T:
        """Add up what the devices found, inside a `local` function; for booleans, whether any."""

        def add(x: Array) -> Array:
            summed: Array = jax.lax.psum(x.astype(jnp.int32) if x.dtype == bool else x, self.axis)
            return summed.astype(x.dtype)

        added: T = jax.tree.map(add, sums)
        return added

    def local(
        self, function: Callable[..., T], in_specs: object, out_specs: object
    ) -> Callable[..., T]:
        """Run `function` on every device with its own blocks of the arguments."""
        spread: Callable[..., T] = jax.shard_map(
            function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )
        return spread


def tile_height(rows: int, columns: int) -> int:
    """The rows of one tile.

    >>> tile_height(4096, 4096), tile_height(64, 64)
    (16, 64)
    """
    return max(1, min(rows, TILE_CELLS // columns))


def map_blocks(function: Callable[[W], T], items: W, *, size: int) -> T:
    """`function` of all items, of a block of them at a time.

    Args:
        function: takes a block of items; each of its results depends on the same item alone.
        items: arrays whose first axes count items; the last block is padded with zeros.
        size: the items of one block, at most.

    Returns:
        The results; their first axes count items.

    >>> map_blocks(lambda x: 2 * x, jnp.arange(5), size=2).tolist()
    [0, 2, 4, 6, 8]
    """
    number = jax.tree.leaves(items)[0].shape[0]
    size = max(1, min(number, size))
    count = -(-number // size)
    if count == 1:
        return function(items)

    def cut(x: Array) -> Array:
        padding = [(0, count * size - number)] + [(0, 0)] * (x.ndim - 1)
        return jnp.pad(x, padding).reshape(count, size, *x.shape[1:])

    found = jax.lax.map(function, jax.tree.map(cut, items))
    joined: T = jax.tree.map(lambda x: x.reshape(count * size, *x.shape[2:])[:number], found)
    return joined


def map_tiles(
    function: Callable[..., T],
    rows: Rows,
    whole: tuple[Array, ...],
    *,
    columns: int,
    shards: Shards | None = None,
) -> T:
    """`function(*rows, *whole)` without making its intermediates for all rows at once.

    Args:
        function: each row of its results depends on the same row of `rows` alone.
        rows: arrays whose first axis counts rows.
        whole: the other arguments, seen by every tile.
        columns: cells of a row, for the height of a tile.
        shards: how the rows are spread over devices, if they are.

    Returns:
        The results; their first axes count rows.
    """

    def tiled(rows: Rows, whole: tuple[Array, ...]) -> T:
        count = rows[0].shape[0]
        height = tile_height(count, columns)
        if height == count:
            return function(*rows, *whole)
        tiles, rest = divmod(count, height)

        def cut(x: Array) -> Array:
            return x[: tiles * height].reshape(tiles, height, *x.shape[1:])

        found: T = jax.lax.map(lambda tile: function(*tile, *whole), tuple(map(cut, rows)))
        found = jax.tree.map(lambda x: x.reshape(tiles * height, *x.shape[2:]), found)
        if not rest:
            return found
        last = function(*(x[tiles * height :] for x in rows), *whole)
        joined: T = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), found, last)
        return joined

    if shards is None:
        return tiled(rows, whole)
    return shards.local(tiled, (shards.by_rows(), P()), shards.by_rows())(rows, whole)


def sum_tiles(
    function: Callable[[Rows, W], T],
    rows: Rows,
    whole: W,
    *,
    axes: tuple[int, ...],
    columns: int,
    shards: Shards | None = None,
) -> T:
    """The sum of `function(tile, whole)` over tiles of rows; of booleans, whether any holds.

    Args:
        function: what it returns is a sum over the rows of the tile; rows of zeros add nothing.
        rows: the arrays to cut into tiles.
        whole: what every tile sees whole.
        axes: the axis of each of `rows` that counts rows.
        columns: cells of a row, for the height of a tile.
        shards: how the rows are spread over devices, if they are.
    """

    def summed(rows: Rows, whole: W) -> T:
        count = rows[0].shape[axes[0]]
        height = tile_height(count, columns)
        tiles = -(-count // height)
        if tiles == 1:
            return function(rows, whole)

        def cut(x: Array, axis: int) -> Array:
            padding = [(0, 0)] * x.ndim
            padding[axis] = (0, tiles * height - count)
            shape = (*x.shape[:axis], tiles, height, *x.shape[axis + 1 :])
            return jnp.moveaxis(jnp.pad(x, padding).reshape(shape), axis, 0)

        def step(sums: T, tile: Rows) -> tuple[T, None]:
            return jax.tree.map(_add, sums, function(tile, whole)), None

        cuts = tuple(map(cut, rows, axes))
        shapes = jax.eval_shape(function, tuple(x[0] for x in cuts), whole)
        nothing: T = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        sums, _ = jax.lax.scan(step, nothing, cuts)
        return sums

    return sum_shards(summed, rows, whole, axes=axes, shards=shards)


def sum_shards(
    function: Callable[[Rows, W], T],
    rows: Rows,
    whole: W,
    *,
    axes: tuple[int, ...],
    shards: Shards | None = None,
) -> T:
    """`function(rows, whole)`, or its sum over the devices among which the rows are divided.

    Args:
        function: what it returns is a sum over the rows that it is given.
        rows: the arrays that are divided.
        whole: what every device sees whole.
        axes: the axis of each of `rows` that counts rows.
        shards: how the rows are spread over devices, if they are.
    """
    if shards is None:
        return function(rows, whole)
    specs = tuple(map(shards.by_rows, axes)), P()
    return shards.local(lambda *given: shards.total(function(*given)), specs, P())(rows, whole)


def _add(a: Array, b: Array) -> Array:
    return a | b if a.dtype == bool else a + b
