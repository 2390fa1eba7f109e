"""Going through rows in tiles changes no result."""

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from balar_core.rows import TILE_CELLS, map_tiles, sum_tiles, tile_height

COLUMNS = 2**12
HEIGHT = TILE_CELLS // COLUMNS


@pytest.mark.parametrize("count", [1, HEIGHT, HEIGHT + 1, 3 * HEIGHT, 3 * HEIGHT + 5])
def test_tiles_give_what_the_whole_gives(count: int) -> None:
    random = np.random.default_rng(0)
    x = jnp.asarray(random.integers(100, size=(count, COLUMNS)))
    y = jnp.asarray(random.integers(100, size=(3, count)))
    shift = jnp.asarray(7)

    def each(x: Array, shift: Array) -> tuple[Array, Array]:
        return x + shift, jnp.any(x > 98, axis=1)

    shifted, any_large = map_tiles(each, (x,), (shift,), columns=COLUMNS)
    np.testing.assert_array_equal(shifted, x + 7)
    np.testing.assert_array_equal(any_large, (x > 98).any(axis=1))

    def total(rows: tuple[Array, ...], factor: Array) -> tuple[Array, Array]:
        return factor * jnp.matmul(rows[1], rows[0]), jnp.any(rows[0] == 99)

    product, found = sum_tiles(total, (x, y), shift, axes=(0, 1), columns=COLUMNS)
    np.testing.assert_array_equal(product, 7 * (np.asarray(y) @ np.asarray(x)))
    assert bool(found) == bool((x == 99).any())


def test_a_row_longer_than_a_tile_is_a_tile_of_its_own() -> None:
    assert tile_height(5, 10 * TILE_CELLS) == 1
