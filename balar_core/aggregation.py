r"""From losses of tokens to the loss of a batch, as a sum and what to divide it by.

A mean of means is not the mean of the whole. So nothing is divided here that differs between parts
of a batch: add the sums and the denominators of all micro-batches and devices (gradients of the
sums likewise), and divide once.

| name | a token counts | used by |
|---|---|---|
| `token_mean` | 1 / tokens of the batch | DAPO as trainers have it |
| `group_token_mean` | 1 / tokens of its group, groups alike | DAPO as published |
| `sequence_mean_token_mean` | 1 / tokens of its sequence, sequences alike | GRPO |
| `sequence_mean_token_scale` | 1 / a constant length, sequences alike | Dr.GRPO |

Masked entries are selected away, not multiplied by 0: they may hold anything. Sequences (and
groups) without a token do not count.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from .groups import check_shape, group_members
from .numerics import divide

__all__ = [
    "Loss",
    "group_token_mean",
    "sequence_mean_token_mean",
    "sequence_mean_token_scale",
    "token_mean",
]


class Loss(NamedTuple):
    """A loss that is not divided yet.

    Attributes:
        total: the numerator.
        denominator: what to divide the total by, once all parts of the batch are added up.
    """

    total: Float[Array, ""]
    denominator: Float[Array, ""]

    @property
    def mean(self) -> Float[Array, ""]:
        """The loss; 0 if nothing counted."""
        quotient: Array = divide(self.total, self.denominator)
        return quotient


def token_mean(values: Float[Array, "batch tokens"], mask: Bool[Array, "batch tokens"]) -> Loss:
    """The mean over all tokens of the batch.

    >>> values, mask = [[1.0, 2.0], [6.0, jnp.nan]], [[True, True], [True, False]]
    >>> total, denominator = token_mean(jnp.array(values), jnp.array(mask))
    >>> total.item(), denominator.item()
    (9.0, 3.0)
    """
    sums, counts = _by_sequence(values, mask)
    return Loss(jnp.sum(sums), jnp.sum(counts))


def group_token_mean(
    values: Float[Array, "batch tokens"],
    mask: Bool[Array, "batch tokens"],
    *,
    num_generations: int | None = None,
    group_ids: Int[Array, " batch"] | None = None,
) -> Loss:
    """The mean over the tokens of a group, averaged over groups (DAPO, equation 8).

    A group must not be divided between parts of a batch.

    Args:
        values: one value per token.
        mask: the tokens that count.
        num_generations: the size of a group, if the rows of a group stand next to each other.
        group_ids: the number of the group of every row, otherwise.

    Raises:
        InvalidSetting: groups that are not named in exactly one way.
    """
    sums, counts = _by_sequence(values, mask)
    totals, belongs = group_members(counts, num_generations, group_ids)
    tokens = jnp.sum(jnp.where(belongs, totals, 0), axis=1)
    filled = jnp.sum(belongs & (totals > 0), axis=1, dtype=values.dtype)
    one = jnp.where(counts > 0, divide(jnp.ones_like(filled), filled), 0)
    return Loss(jnp.sum(divide(sums, tokens)), jnp.sum(one))


def sequence_mean_token_mean(
    values: Float[Array, "batch tokens"], mask: Bool[Array, "batch tokens"]
) -> Loss:
    """The mean over the tokens of a sequence, averaged over sequences."""
    sums, counts = _by_sequence(values, mask)
    return Loss(jnp.sum(divide(sums, counts)), jnp.sum(counts > 0, dtype=values.dtype))


def sequence_mean_token_scale(
    values: Float[Array, "batch tokens"], mask: Bool[Array, "batch tokens"], length: ArrayLike
) -> Loss:
    """The sum over the tokens of a sequence by a constant, averaged over sequences.

    Args:
        values: one value per token.
        mask: the tokens that count.
        length: the constant, such as the longest length that is allowed. Not the padded width,
            which differs between batches.
    """
    sums, counts = _by_sequence(values, mask)
    sequences = jnp.sum(counts > 0, dtype=values.dtype)
    return Loss(jnp.sum(sums), sequences * jnp.asarray(length, values.dtype))


def _by_sequence(
    values: Float[Array, "batch tokens"], mask: Bool[Array, "batch tokens"]
) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
    """The sum and the number of the entries of every row that count."""
    check_shape("mask", mask, values.shape)
    return (
        jnp.sum(jnp.where(mask, values, 0), axis=1),
        jnp.sum(mask, axis=1, dtype=values.dtype),
    )
