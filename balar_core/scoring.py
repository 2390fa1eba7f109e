r"""The scores of many pairs: which evaluation each pair needs, and in which order they are made.

The active pairs come first and are taken a chunk at a time, so that the memory does not grow with
their number and pairs that are not scored cost next to nothing. In a chunk the factored form (see
`factored`) scores all that it is made for: first plainly, then again carefully what was found to be
small beside the sums it is the difference of. Sharp tables and contradictory zeros are evaluated
state by state (see `statewise`), and so are the few small informations that have lost digits even
so (a belief that ties rows to columns).

Under `vmap` each choice is made for the whole batch, never by computing all of them.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .branches import choose, cond
from .factored import FactoredSums, Factors, factor, sweep
from .fused import covered
from .numerics import divergence, entropy, finfo, normalise
from .rows import TILE_CELLS, Shards, map_blocks
from .statewise import divergences, entropies

__all__ = ["Likelihoods", "PairScores", "pair_scores"]

Likelihoods = Callable[
    [Int[Array, " some"]],
    tuple[Float[Array, "some rows choices"], Float[Array, "some columns choices"]],
]
"""The log products of experts of both groups for some pairs, by position; -inf for padded
choices."""

WEAKEST = 2.0**-20
"""Nats; informations down to here have a relative error below 1e-3 in float32, smaller ones an
absolute error."""
RESOLUTION = 2.0**11
"""An information this many rounding errors of its parts, or less, has lost digits."""
CHUNK_CELLS = 2**16
"""The likelihoods of a chunk of pairs have about this many entries."""


class PairScores(eqx.Module):
    """The results, pair by pair.

    Attributes:
        information: shape `(pairs,)`, in nats, 0 or more.
        predictive: shape `(pairs, choices)`.
        contradiction: shape `(pairs,)`; whether a state that has probability has no possible
            choice.
    """

    information: Float[Array, " pairs"]
    predictive: Float[Array, "pairs choices"]
    contradiction: Bool[Array, " pairs"]

    @classmethod
    def none(cls, pairs: int, like: Float[Array, " choices"]) -> "PairScores":
        """The scores of pairs that are not scored: 0.

        Args:
            pairs: how many.
            like: as many entries as choices, of the right type.
        """
        zero = jnp.zeros_like(like)
        predictive = jnp.broadcast_to(zero[None], (pairs, *like.shape))
        return cls(jnp.zeros(pairs, like.dtype), predictive, jnp.zeros(pairs, bool))


def pair_scores(
    pi: Float[Array, "rows columns"],
    row_mask: Bool[Array, " rows"],
    column_mask: Bool[Array, " columns"],
    likelihoods: Likelihoods,
    active: Bool[Array, " pairs"],
    shards: Shards | None = None,
) -> PairScores:
    """Score all active pairs; the others are 0.

    Args:
        pi: the belief; sums to one.
        row_mask: False for padding.
        column_mask: False for padding.
        likelihoods: gives the likelihoods of pairs.
        active: the pairs to score.
        shards: how the rows are spread over devices, if they are.
    """
    number = active.shape[0]
    one = jax.eval_shape(likelihoods, jnp.zeros(1, int))
    choices = one[0].shape[2]

    def chunk(of: tuple[Array, Array]) -> PairScores:
        positions, active = of
        return cond(
            jnp.any(active),
            lambda: _score(pi, row_mask, column_mask, likelihoods(positions), active, shards),
            lambda: PairScores.none(positions.shape[0], jnp.zeros(choices, pi.dtype)),
        )

    # A kernel on a GPU goes through all pairs at once and skips what is not active.
    size = number if covered(pi, one[0]) else CHUNK_CELLS // (sum(pi.shape) * choices)
    order = jnp.argsort(~active, stable=True)
    found = map_blocks(chunk, (order, active[order]), size=size)
    back = jnp.argsort(order, stable=True)
    scores: PairScores = jax.tree.map(lambda x: x[back], found)
    return scores


def _score(
    pi: Float[Array, "rows columns"],
    row_mask: Bool[Array, " rows"],
    column_mask: Bool[Array, " columns"],
    log_k: tuple[Float[Array, "pairs rows choices"], Float[Array, "pairs columns choices"]],
    active: Bool[Array, " pairs"],
    shards: Shards | None,
) -> PairScores:
    factors = factor(pi, row_mask, column_mask, *log_k)
    sharp, smooth = active & factors.sharp, active & ~factors.sharp

    def factored() -> tuple[Array, Array, Array]:
        sums = _factored(pi, factors, smooth, shards)
        predictive = normalise(sums.predictive, axis=1)
        return _information(factors, sums), _resolution(factors, sums), predictive

    information, resolution, predictive = cond(jnp.any(smooth), factored, lambda: _nothing(factors))

    def with_sharp() -> tuple[Array, Array, Array, Array]:
        found = entropies(pi, *log_k, sharp, shards)
        p = normalise(found.predictive, axis=1)
        of_answer = entropy(p, axis=1)
        eps = RESOLUTION * finfo(pi).eps
        chosen = choose(
            sharp,
            (of_answer - found.conditional, eps * of_answer, p),
            (information, resolution, predictive),
        )
        return *chosen, found.contradiction

    information, resolution, predictive, contradiction = cond(
        jnp.any(sharp),
        with_sharp,
        lambda: (information, resolution, predictive, jnp.zeros_like(sharp)),
    )
    lost = active & (information > WEAKEST) & (information < resolution)
    information = cond(
        jnp.any(lost),
        lambda: jnp.where(lost, divergences(pi, *log_k, predictive, lost, shards), information),
        lambda: information,
    )
    return PairScores(
        jnp.where(active, jnp.maximum(information, 0), 0),
        jnp.where(active[:, None], predictive, 0),
        active & contradiction,
    )


def _factored(
    pi: Float[Array, "rows columns"],
    factors: Factors,
    active: Bool[Array, " pairs"],
    shards: Shards | None,
) -> FactoredSums:
    """The sums of the factored form, carefully where it matters."""
    if pi.size <= TILE_CELLS // 4:  # many pairs together: a second look would cost more
        return sweep(pi, factors, active, active, shards)
    sums = sweep(pi, factors, active, factors.weak, shards)
    lost = _information(factors, sums) < _resolution(factors, sums)
    again = active & ~factors.weak & lost
    return cond(
        jnp.any(again),
        lambda: choose(again, sweep(pi, factors, again, again, shards), sums),
        lambda: sums,
    )


def _distance(factors: Factors, sums: FactoredSums) -> Float[Array, " pairs"]:
    """The divergence of the predicted answers from the reference."""
    return jnp.sum(divergence(normalise(sums.predictive, axis=1), factors.reference), axis=1)


def _information(factors: Factors, sums: FactoredSums) -> Float[Array, " pairs"]:
    return sums.relative - _distance(factors, sums)


def _resolution(factors: Factors, sums: FactoredSums) -> Float[Array, " pairs"]:
    """Informations below this may have lost digits."""
    return RESOLUTION * finfo(sums.size).eps * (sums.size + _distance(factors, sums))


def _nothing(factors: Factors) -> tuple[Array, Array, Array]:
    zero = jnp.sum(factors.reference, axis=1) * 0
    return zero, zero, factors.reference * 0
