r"""The mutual information from its definition, state by state in log space.

For tables that the factored form is not made for: probabilities so small that products of them
underflow, zeros that may contradict each other, and the few informations that are small
differences of large sums even when evaluated carefully. Every state's likelihoods are scaled by
their largest, so nothing underflows that matters; it takes one exponential per state and choice.

Two sums give the information: \(I = H(p) - \sum_\theta \pi H(K_\theta)\) from the entropies, which
is accurate to the rounding of an entropy, and
\(I = \sum_\theta \pi\, \mathrm{KL}(K_\theta \,\|\, p)\) from the divergences, which keeps the
digits of small informations but needs p first.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .branches import choose, cond
from .fused import covered, exact_sums, on_cuda
from .numerics import divergence, entropy, log_tiny, logsumexp, normalise, reciprocal_and_log
from .rows import Shards, sum_shards, sum_tiles

__all__ = ["Entropies", "divergences", "entropies", "state_likelihood"]


class Entropies(eqx.Module):
    """What the first pass adds up over the states.

    Attributes:
        conditional: sum of pi H(K), in nats.
        predictive: sum of pi K.
        contradiction: whether a state that has probability has no possible choice.
    """

    conditional: Float[Array, " pairs"]
    predictive: Float[Array, "pairs choices"]
    contradiction: Bool[Array, " pairs"]


class _Pairs(eqx.Module):
    """Some pairs; their row factors travel apart from this, because they are cut into tiles.

    Attributes:
        log_columns: log product of experts of the column group.
        reference: a distribution over the choices.
        active: the pairs to evaluate.
    """

    log_columns: Float[Array, "pairs columns choices"]
    reference: Float[Array, "pairs choices"]
    active: Bool[Array, " pairs"]


_OfTile = Callable[[Float[Array, "rows columns"], Array, Array, Array], Entropies]
_OfKernel = Callable[[tuple[Array, ...], _Pairs], Entropies]


def entropies(
    pi: Float[Array, "rows columns"],
    log_rows: Float[Array, "pairs rows choices"],
    log_columns: Float[Array, "pairs columns choices"],
    active: Bool[Array, " pairs"],
    shards: Shards | None = None,
) -> Entropies:
    """The conditional entropies and predicted answers of the active pairs; 0 for the others.

    Args:
        pi: the belief; sums to one.
        log_rows: log product of experts of the row group; -inf for padded choices.
        log_columns: the same of the column group.
        active: the pairs to evaluate.
        shards: how the rows are spread over devices, if they are.
    """
    possible = jnp.any(log_columns > -jnp.inf, axis=1) & jnp.any(log_rows > -jnp.inf, axis=1)
    flat = normalise(possible.astype(pi.dtype), axis=1)

    def kernel(rows: tuple[Array, ...], pairs: _Pairs) -> Entropies:
        gains, predictive, contradiction = exact_sums(
            *rows, pairs.log_columns, pairs.reference, pairs.active
        )
        most = entropy(pairs.reference, axis=1) * jnp.sum(predictive, axis=1)
        return Entropies(most - gains, predictive, contradiction)

    return _sum_states(pi, log_rows, _Pairs(log_columns, flat, active), _entropies, kernel, shards)


def divergences(
    pi: Float[Array, "rows columns"],
    log_rows: Float[Array, "pairs rows choices"],
    log_columns: Float[Array, "pairs columns choices"],
    predictive: Float[Array, "pairs choices"],
    active: Bool[Array, " pairs"],
    shards: Shards | None = None,
) -> Float[Array, " pairs"]:
    """The information of the active pairs, in nats, from their predicted answers; else 0.

    Args:
        pi: the belief; sums to one.
        log_rows: log product of experts of the row group; -inf for padded choices.
        log_columns: the same of the column group.
        predictive: the predicted answers.
        active: the pairs to evaluate.
        shards: how the rows are spread over devices, if they are.
    """

    def kernel(rows: tuple[Array, ...], pairs: _Pairs) -> Entropies:
        return Entropies(*exact_sums(*rows, pairs.log_columns, pairs.reference, pairs.active))

    pairs = _Pairs(log_columns, predictive, active)
    return _sum_states(pi, log_rows, pairs, _divergences, kernel, shards).conditional


def state_likelihood(
    log_rows: Float[Array, "rows choices"], log_columns: Float[Array, "columns choices"]
) -> tuple[Float[Array, "choices rows columns"], Bool[Array, "rows columns"]]:
    """K of one pair, state by state, and where it exists.

    False where every choice is impossible; K is 0 there.
    """
    log_k = log_rows.T[:, :, None] + log_columns.T[:, None, :]
    log_z = logsumexp(log_k, axis=0)
    none = log_z == -jnp.inf
    k = jnp.where(none[None], 0, jnp.exp(log_k - jnp.where(none, 0, log_z)[None]))
    return k, ~none


def _sum_states(
    pi: Float[Array, "rows columns"],
    log_rows: Float[Array, "pairs rows choices"],
    pairs: _Pairs,
    of_tile: _OfTile,
    of_kernel: _OfKernel,
    shards: Shards | None,
) -> Entropies:
    """Sum over all states: on a GPU in one kernel, elsewhere tile by tile and pair by pair."""
    axes = (0, 1)

    def tile(rows: tuple[Array, ...], pairs: _Pairs) -> Entropies:
        pi, log_rows = rows

        def one(pair: tuple[Array, _Pairs]) -> Entropies:
            log_rows, of = pair
            return cond(
                of.active,
                lambda: of_tile(pi, log_rows, of.log_columns, of.reference),
                lambda: _nothing(of),
            )

        found: Entropies = jax.lax.map(one, (log_rows, pairs))
        # Under `vmap` a pair is evaluated if it is active anywhere in the batch.
        kept: Entropies = choose(pairs.active, found, jax.tree.map(jnp.zeros_like, found))
        return kept

    def in_tiles(rows: tuple[Array, ...], pairs: _Pairs) -> Entropies:
        columns = pi.shape[1]
        return sum_tiles(tile, rows, pairs, axes=axes, columns=columns, shards=shards)

    def in_kernel(rows: tuple[Array, ...], pairs: _Pairs) -> Entropies:
        return sum_shards(of_kernel, rows, pairs, axes=axes, shards=shards)

    go = on_cuda(in_kernel, in_tiles) if covered(pi, log_rows) else in_tiles
    sums: Entropies = go((pi, log_rows), pairs)
    return sums


def _entropies(
    pi: Float[Array, "rows columns"],
    log_rows: Float[Array, "rows choices"],
    log_columns: Float[Array, "columns choices"],
    reference: Float[Array, " choices"],
) -> Entropies:
    del reference
    log_k = log_rows.T[:, :, None] + log_columns.T[:, None, :]
    top = jnp.max(log_k, axis=0)
    none = top == -jnp.inf
    # Below this the exponential is exactly 0, and so is its product with the logarithm.
    least = 2 * log_tiny(pi)
    scaled = jnp.maximum(log_k - jnp.where(none, 0, top)[None], least)
    parts = jnp.where(none[None], 0, jnp.exp(scaled))
    # Without fences XLA would make one slow loop of it all.
    scaled, parts = jax.lax.optimization_barrier((scaled, parts))
    inverse, log_z = reciprocal_and_log(jnp.sum(parts, axis=0))
    weighted = jax.lax.optimization_barrier((pi * inverse)[None] * parts)
    predictive = jnp.sum(weighted, axis=(1, 2))
    of_parts = jnp.sum(jax.lax.optimization_barrier(weighted * scaled))
    conditional = jnp.sum(jnp.where(none, 0, pi * log_z)) - of_parts
    return Entropies(conditional, predictive, jnp.any(none & (pi > 0)))


def _divergences(
    pi: Float[Array, "rows columns"],
    log_rows: Float[Array, "rows choices"],
    log_columns: Float[Array, "columns choices"],
    reference: Float[Array, " choices"],
) -> Entropies:
    k, possible = state_likelihood(log_rows, log_columns)
    gains = divergence(k, jnp.broadcast_to(reference[:, None, None], k.shape))
    total = jnp.sum(jax.lax.optimization_barrier(pi * jnp.sum(gains, axis=0)))
    predictive = jnp.sum(jax.lax.optimization_barrier(pi[None] * k), axis=(1, 2))
    return Entropies(total, predictive, jnp.any(~possible & (pi > 0)))


def _nothing(of: _Pairs) -> Entropies:
    # Made from the input, so that it is spread over devices and batches as that is.
    zero = jnp.sum(of.reference) * 0
    return Entropies(zero, of.reference * 0, of.active & False)
