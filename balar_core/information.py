r"""Mutual information of every (question, user) pair with the state (BALAR, section 5).

$$I(q, u) = \sum_\theta \pi(\theta) \sum_y K(y \mid \theta)
  \log \frac{K(y \mid \theta)}{p(y)}, \qquad p(y) = \sum_\theta \pi(\theta) K(y \mid \theta).$$

**The factored form.** With the dimensions divided into rows a and columns b the product of experts
is \(K_A[a, y]\, K_B[b, y] / Z[a, b]\), and everything that is summed over states is a product of
small matrices; the (pairs, states, choices) table never exists.

**The accurate form.** \(K_A\) and \(K_B\) are taken relative to reference answer distributions u
and v (about their means under the belief), \(g_A = K_A/u\), \(g_B = K_B/v\), with
\(r \propto u v\). Then \(K = r\, g_A g_B / Z'\) and

$$\sum_\theta \pi \sum_y K \log\frac{K}{r} = \sum_y r\,(g_A \log g_A) \cdot (W g_B)
  + r\, g_A \cdot (W\, g_B \log g_B) - \sum_\theta \pi \log Z', \qquad W = \pi / Z',$$

from which \(\mathrm{KL}(p \,\|\, r)\) is subtracted. All logarithms are of numbers near one when
the question tells little, so small informations keep their digits; and since r is close to p, the
rounding of p enters only in second order. One logarithm and one division per state and pair.

Pairs whose tables are so sharp that products of them could underflow are evaluated state by state
in log space instead (same result, more logarithms). So are the few whose information is a small
difference of large sums, which takes a belief that ties rows to columns.
"""

import math
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .belief import Belief, choice_log_likelihoods, marginals, scatter_cells
from .numerics import (
    divergence,
    divide,
    finfo,
    logsumexp,
    normalise,
    reciprocal_and_log,
    xlogx,
)
from .status import Status
from .tables import LikelihoodTables, check_fit, group_log_likelihood

__all__ = [
    "Scores",
    "dimension_information",
    "mutual_information",
    "predictive",
    "score",
]

EXACT = jax.lax.Precision.HIGHEST
"""Some accelerators round the factors of float32 products to 10 bits unless told not to."""

WEAKEST = 2.0**-20
"""Nats; informations down to here have a relative error below 1e-3 in float32, smaller ones an
absolute error."""

MIXING = 2.0**-20
"""Share of the plain mean in the reference distributions; it bounds the ratios K/u."""


class Scores(eqx.Module):
    """What is known about every pair.

    Attributes:
        information: shape `(questions, users)`; mutual information in nats, 0 or more; 0 for pairs
            that were not scored.
        predictive: shape `(questions, users, choices)`; the predicted answer distribution.
        status: `Status.ok`, or `Status.impossible_state` if some scored pair leaves a state that
            has probability without any possible choice.
    """

    information: Float[Array, "questions users"]
    predictive: Float[Array, "questions users choices"]
    status: Status


@jax.jit
def score(
    belief: Belief,
    tables: LikelihoodTables,
    where: Bool[Array, "questions users"] | None = None,
) -> Scores:
    """Mutual information and predicted answers of all pairs in one call.

    Args:
        belief: the belief.
        tables: the tables.
        where: the pairs to score; all that exist by default. The others cost next to nothing.

    Raises:
        InvalidTable: tables of another space.
    """
    check_fit(belief.layout, tables.log_tables)
    questions, users = tables.valid.shape
    where = tables.valid if where is None else tables.valid & where
    pi = normalise(jnp.exp(belief.log_joint))
    prepared = _Prepared(
        pi=pi,
        row_weights=_reference_weights(jnp.sum(pi, axis=1), belief.layout.row_mask),
        column_weights=_reference_weights(jnp.sum(pi, axis=0), belief.layout.column_mask),
    )
    choices = tables.choice_mask.shape[-1]

    def skip(index: Array) -> tuple[Array, Array, Array]:
        del index
        zero = jnp.zeros((), pi.dtype)
        return zero, jnp.zeros(choices, pi.dtype), jnp.array(False)

    def one(index: Array) -> tuple[Array, Array, Array]:
        question, user = index // users, index % users
        return _pair(belief, tables, prepared, question, user)

    def step(carry: None, index: Array) -> tuple[None, tuple[Array, Array, Array]]:
        return carry, jax.lax.cond(where.ravel()[index], one, skip, index)

    _, (information, predicted, contradiction) = jax.lax.scan(
        step, None, jnp.arange(questions * users)
    )
    status = Status.where(jnp.any(contradiction), Status.impossible_state, Status.ok)
    return Scores(
        information.reshape(questions, users),
        predicted.reshape(questions, users, choices),
        status,
    )


def mutual_information(belief: Belief, tables: LikelihoodTables) -> Float[Array, "questions users"]:
    """The mutual information of every pair's answer with the state, in nats.

    0 <= I <= min(entropy of the belief, log choices) up to rounding; 0 for pairs that do not
    exist. Asked pairs are scored like the others: what the same question would tell if it were
    answered independently once more.

    >>> from balar_core.space import StateSpace
    >>> space = StateSpace.of(cause=["a", "b"], place=["x", "y", "z"])
    >>> belief = Belief.from_priors(space, [(0.8, 0.2), (0.5, 0.3, 0.2)])
    >>> cause, place = [[0.8, 0.2], [0.2, 0.8]], [[0.5, 0.5], [0.8, 0.2], [0.2, 0.8]]
    >>> tables = LikelihoodTables.build(space, [2], {(0, 0): [cause, place]})
    >>> round(mutual_information(belief, tables).item(), 6)
    0.162858
    """
    scores: Scores = score(belief, tables)
    return scores.information


def predictive(belief: Belief, tables: LikelihoodTables) -> Float[Array, "questions users choices"]:
    """The predicted answer distribution of every pair; 0 in padding."""
    scores: Scores = score(belief, tables)
    return scores.predictive


def dimension_information(
    belief: Belief,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
) -> Float[Array, " dimensions"]:
    r"""What one question tells about each dimension alone: \(I(\theta_j; Y)\), in nats.

    Never more than the information about the whole state; the shares need not add up to it.

    Args:
        belief: the belief.
        tables: the tables.
        question: position of the question.
        user: position of the user.

    Returns:
        Shape `(dimensions,)`; 0 in padding.

    Raises:
        UnknownPair: no such question or user.
        InvalidTable: tables of another space.
    """
    tables.check_pair(question, user)
    shares: Array = _dimension_information(belief, tables, question, user)
    return shares


@jax.jit
def _dimension_information(
    belief: Belief,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
) -> Float[Array, " dimensions"]:
    check_fit(belief.layout, tables.log_tables)
    pi = normalise(jnp.exp(belief.log_joint))
    k, _ = _state_likelihood(belief, tables, question, user)
    layout = belief.layout
    by_row = jnp.einsum("ab,yab->ay", pi, k, precision=EXACT)
    by_column = jnp.einsum("ab,yab->by", pi, k, precision=EXACT)
    counts = jnp.zeros((*layout.value_mask.shape, k.shape[0]), pi.dtype)
    counts = scatter_cells(counts, layout.row_digits, by_row)
    counts = scatter_cells(counts, layout.column_digits, by_column)
    p = jnp.sum(counts, axis=-1, keepdims=True)
    independent = p * jnp.sum(by_row, axis=0)[None, None, :]
    return jnp.sum(divergence(counts, independent), axis=(1, 2))


class _Prepared(eqx.Module):
    """What all pairs share."""

    pi: Float[Array, "rows columns"]
    row_weights: Float[Array, " rows"]
    column_weights: Float[Array, " columns"]


def _reference_weights(p: Float[Array, " cells"], mask: Bool[Array, " cells"]) -> Array:
    return (1 - MIXING) * p + MIXING * normalise(mask.astype(p.dtype))


def _pair(
    belief: Belief,
    tables: LikelihoodTables,
    prepared: _Prepared,
    question: Array,
    user: Array,
) -> tuple[Array, Array, Array]:
    """Information, predicted answers and contradiction flag of one pair."""
    log_table = tables.log_tables[question, user]
    present = tables.choice_mask[question]
    rows = group_log_likelihood(log_table, belief.layout.row_digits)
    columns = group_log_likelihood(log_table, belief.layout.column_digits)
    rows = jnp.where(present[None, :], rows, -jnp.inf)
    columns = jnp.where(present[None, :], columns, -jnp.inf)
    widest = -0.7 * math.log(finfo(rows).tiny)
    sharp = _range(rows) + _range(columns) > widest
    nothing = _Result.nothing(rows)
    result = jax.lax.cond(sharp, lambda: nothing, lambda: _factored(prepared, rows, columns))
    lost = (result.information > WEAKEST) & (result.information < result.resolution)
    result = jax.lax.cond(
        sharp | lost,
        lambda: _by_state(belief, tables, prepared.pi, question, user),
        lambda: result,
    )
    return jnp.maximum(result.information, 0), result.predictive, result.contradiction


class _Result(eqx.Module):
    """One evaluation; an information below the `resolution` may have lost digits."""

    information: Float[Array, ""]
    predictive: Float[Array, " choices"]
    contradiction: Bool[Array, ""]
    resolution: Float[Array, ""]

    @classmethod
    def nothing(cls, like: Float[Array, "cells choices"]) -> Self:
        zero = jnp.zeros((), like.dtype)
        return cls(zero, jnp.zeros(like.shape[1], like.dtype), jnp.array(False), zero)


def _range(log_k: Float[Array, "cells choices"]) -> Float[Array, ""]:
    """How far apart two possible choices of one row can be, in nats."""
    top = jnp.max(log_k, axis=1)
    low = jnp.min(jnp.where(log_k > -jnp.inf, log_k, jnp.inf), axis=1)
    return jnp.max(jnp.where(jnp.isfinite(top), top - low, 0))


def _scaled(log_k: Float[Array, "cells choices"]) -> Float[Array, "cells choices"]:
    """The likelihoods of one group, every row with sum one; 0 where all are impossible."""
    shift = logsumexp(log_k, axis=1)[:, None]
    return jnp.exp(log_k - jnp.where(shift == -jnp.inf, 0, shift))


def _factored(
    prepared: _Prepared,
    rows: Float[Array, "rows choices"],
    columns: Float[Array, "columns choices"],
) -> _Result:
    """The factored sums (see the module) relative to r, the normalised product of u and v."""
    pi, ka, kb = prepared.pi, _scaled(rows), _scaled(columns)
    u = jnp.matmul(prepared.row_weights, ka, precision=EXACT)
    v = jnp.matmul(prepared.column_weights, kb, precision=EXACT)
    ga, gb = divide(ka, jnp.broadcast_to(u, ka.shape)), divide(kb, jnp.broadcast_to(v, kb.shape))
    r = normalise(u * v)
    occurs = r[None, :] > 0
    ea, eb = jnp.where(occurs, ga - 1, 0), jnp.where(occurs, gb - 1, 0)
    row_mean = jnp.matmul(ea, r, precision=EXACT)
    column_mean = jnp.matmul(eb, r, precision=EXACT)
    together = jnp.matmul(r[None, :] * ea, eb.T, precision=EXACT)
    inverse, log_z, possible = reciprocal_and_log(
        row_mean[:, None] + column_mean[None, :] + together,
        jnp.matmul(r[None, :] * ga, gb.T, precision=EXACT),
    )
    products = jnp.matmul(pi * inverse, jnp.concatenate([gb, xlogx(gb)], axis=1), precision=EXACT)
    through, through_log = jnp.split(products, 2, axis=1)
    p = normalise(r * jnp.sum(ga * through, axis=0))
    parts = r[None, :] * xlogx(ga) * through, r[None, :] * ga * through_log
    normaliser = jnp.sum(pi * log_z)
    distance = jnp.sum(divergence(p, r))
    # Where the belief ties rows to columns, large parts can cancel.
    size = jnp.sum(jnp.abs(parts[0]) + jnp.abs(parts[1])) + jnp.abs(normaliser) + distance
    return _Result(
        information=jnp.sum(parts[0] + parts[1]) - normaliser - distance,
        predictive=p,
        contradiction=jnp.any(~possible & (pi > 0)),
        resolution=2**11 * finfo(pi).eps * size,
    )


def _state_likelihood(
    belief: Belief,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
) -> tuple[Float[Array, "choices rows columns"], Bool[Array, "rows columns"]]:
    """K of one pair, and where it exists: False where every choice is impossible (K = 0 there)."""
    log_k = choice_log_likelihoods(belief.layout, tables, question, user)
    log_z = logsumexp(log_k, axis=0)
    none = log_z == -jnp.inf
    k = jnp.where(none[None], 0, jnp.exp(log_k - jnp.where(none, 0, log_z)[None]))
    return k, ~none


def _by_state(
    belief: Belief,
    tables: LikelihoodTables,
    pi: Float[Array, "rows columns"],
    question: Array,
    user: Array,
) -> _Result:
    """The definition, state by state."""
    k, fine = _state_likelihood(belief, tables, question, user)
    p = normalise(jnp.einsum("ab,yab->y", pi, k, precision=EXACT))
    gains = divergence(k, jnp.broadcast_to(p[:, None, None], k.shape))
    return _Result(
        information=jnp.sum(pi * jnp.sum(gains, axis=0)),
        predictive=p,
        contradiction=jnp.any(~fine & (pi > 0)),
        resolution=jnp.zeros((), pi.dtype),
    )


def dimension_entropies(belief: Belief) -> Float[Array, " dimensions"]:
    """The entropy of every marginal, in nats; 0 in padding."""
    return -jnp.sum(xlogx(marginals(belief)), axis=-1)
