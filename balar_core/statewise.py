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
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .branches import choose, cond
from .fused import exact_sums
from .numerics import divergence, entropy, log_tiny, logsumexp, normalise, reciprocal_and_log
from .rows import Rows, Shards
from .sweeps import sum_states

__all__ = ["Entropies", "divergences", "entropies", "state_likelihood"]

T = TypeVar("T")


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


_OfPair = Callable[[Float[Array, "rows columns"], Array, _Pairs], T]
"""What one pair adds up over the states of a tile: the belief, the row factors, the rest."""


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

    def kernel(rows: Rows, pairs: _Pairs) -> Entropies:
        gains, predictive, contradiction = exact_sums(
            *rows, pairs.log_columns, pairs.reference, pairs.active
        )
        most = entropy(pairs.reference, axis=1) * jnp.sum(predictive, axis=1)
        return Entropies(most - gains, predictive, contradiction)

    pairs = _Pairs(log_columns, flat, active)
    return sum_states(_each(_entropies), kernel, (pi, log_rows), pairs, shards)


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

    def kernel(rows: Rows, pairs: _Pairs) -> Float[Array, " pairs"]:
        gains: Array = exact_sums(*rows, pairs.log_columns, pairs.reference, pairs.active)[0]
        return gains

    pairs = _Pairs(log_columns, predictive, active)
    information: Array = sum_states(_each(_divergences), kernel, (pi, log_rows), pairs, shards)
    return information


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


def _each(of_pair: _OfPair[T]) -> Callable[[Rows, _Pairs], T]:
    """The sums of a tile, pair by pair; 0 for pairs that are not active."""

    def of_tile(rows: Rows, pairs: _Pairs) -> T:
        pi, log_rows = rows

        def one(pair: tuple[Array, _Pairs]) -> T:
            shapes = jax.eval_shape(of_pair, pi, *pair)
            nothing: T = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
            return cond(pair[1].active, lambda: of_pair(pi, *pair), lambda: nothing)

        found: T = jax.lax.map(one, (log_rows, pairs))
        # Under `vmap` a pair is evaluated if it is active anywhere in the batch.
        kept: T = choose(pairs.active, found, jax.tree.map(jnp.zeros_like, found))
        return kept

    return of_tile


def _entropies(
    pi: Float[Array, "rows columns"], log_rows: Float[Array, "rows choices"], pair: _Pairs
) -> Entropies:
    log_k = log_rows.T[:, :, None] + pair.log_columns.T[:, None, :]
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
    pi: Float[Array, "rows columns"], log_rows: Float[Array, "rows choices"], pair: _Pairs
) -> Float[Array, ""]:
    k, _ = state_likelihood(log_rows, pair.log_columns)
    gains = divergence(k, jnp.broadcast_to(pair.reference[:, None, None], k.shape))
    return jnp.sum(jax.lax.optimization_barrier(pi * jnp.sum(gains, axis=0)))
