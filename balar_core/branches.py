"""Choices between ways of computing: one for a whole batch, or one by one.

Under `vmap` a plain `jax.lax.cond` computes both sides whenever its predicate is batched. Here the
choice is made for the whole batch, so that what is not needed anywhere is not computed.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool

__all__ = ["choose", "cond"]

T = TypeVar("T")


def cond(predicate: Bool[Array, ""], yes: Callable[[], T], no: Callable[[], T]) -> T:
    """`yes()` if the predicate holds, else `no()`.

    Under `vmap` it is `yes()` for the whole batch if the predicate holds anywhere in it, so `yes`
    has to be right also where the predicate does not hold.
    """
    found: T = jax.lax.cond(_anywhere(predicate), yes, no)
    return found


def choose(mask: Bool[Array, " n"], yes: T, no: T) -> T:
    """Item by item along the first axis of all arrays: `yes` where the mask holds, else `no`.

    >>> choose(jnp.array([True, False]), jnp.ones((2, 1)), jnp.zeros((2, 1))).tolist()
    [[1.0], [0.0]]
    """

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(mask.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    chosen: T = jax.tree.map(pick, yes, no)
    return chosen


@custom_vmap
def _anywhere(predicate: Bool[Array, ""]) -> Bool[Array, ""]:
    """The predicate itself; under `vmap`, whether it holds anywhere in the batch."""
    return predicate


@_anywhere.def_vmap
def _anywhere_in_batch(
    axis_size: int, in_batched: list[bool], predicate: Bool[Array, "..."]
) -> tuple[Array, bool]:
    del axis_size
    return (jnp.any(predicate, axis=0) if in_batched[0] else predicate), False
