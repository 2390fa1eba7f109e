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
rounding of p enters only in second order, so that products in reduced precision cost nothing. One
logarithm and one division per state and pair.

Pairs whose tables are so sharp that products of them could underflow are evaluated state by state
in log space instead (same result, more logarithms).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .belief import Belief, choice_log_likelihoods, marginals, scatter_cells
from .numerics import divide, logsumexp, safe_log, xlogx
from .status import Status
from .tables import LikelihoodTables, group_log_likelihood

__all__ = [
    "Scores",
    "dimension_information",
    "mutual_information",
    "predictive",
    "score",
]

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
    """
    questions, users = tables.valid.shape
    where = tables.valid if where is None else tables.valid & where
    pi = jnp.exp(belief.log_joint)
    pi = pi / jnp.sum(pi)
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
    return score(belief, tables).information


def predictive(belief: Belief, tables: LikelihoodTables) -> Float[Array, "questions users choices"]:
    """The predicted answer distribution of every pair; 0 in padding."""
    return score(belief, tables).predictive


@jax.jit
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
    """
    pi = jnp.exp(belief.log_joint)
    pi = pi / jnp.sum(pi)
    k = _state_likelihood(belief, tables, question, user)
    layout = belief.layout
    shape = (*layout.value_mask.shape, k.shape[0])
    counts = scatter_cells(
        scatter_cells(
            jnp.zeros(shape, pi.dtype), layout.row_digits, jnp.einsum("ab,yab->ay", pi, k)
        ),
        layout.column_digits,
        jnp.einsum("ab,yab->by", pi, k),
    )
    p = jnp.sum(counts, axis=-1, keepdims=True)
    independent = p * jnp.einsum("ab,yab->y", pi, k)[None, None, :]
    ratio = divide(counts, independent)
    return jnp.maximum(jnp.sum(independent * xlogx(ratio), axis=(1, 2)), 0)


class _Prepared(eqx.Module):
    """What all pairs share."""

    pi: Float[Array, "rows columns"]
    row_weights: Float[Array, " rows"]
    column_weights: Float[Array, " columns"]


def _reference_weights(p: Float[Array, " cells"], mask: Bool[Array, " cells"]) -> Array:
    flat = mask / jnp.sum(mask, dtype=p.dtype)
    return (1 - MIXING) * p + MIXING * flat


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
    widest = 0.7 * -jnp.log(jnp.finfo(rows.dtype).tiny)
    sharp = _range(rows) + _range(columns) > widest
    return jax.lax.cond(
        sharp,
        lambda: _by_state(belief, tables, prepared.pi, question, user),
        lambda: _factored(prepared, rows, columns),
    )


def _range(log_k: Float[Array, "cells choices"]) -> Float[Array, ""]:
    """How far apart two possible choices of one row can be, in nats."""
    top = jnp.max(log_k, axis=1)
    low = jnp.min(jnp.where(log_k > -jnp.inf, log_k, jnp.inf), axis=1)
    return jnp.max(jnp.where(jnp.isfinite(top), top - low, 0))


def _relative(
    log_k: Float[Array, "cells choices"], weights: Float[Array, " cells"]
) -> tuple[Float[Array, "cells choices"], Float[Array, " choices"]]:
    """The likelihoods of one group relative to their mean: `(K / u, u)`."""
    shift = logsumexp(log_k, axis=1)[:, None]
    fine = shift > -jnp.inf
    k = jnp.where(fine, jnp.exp(log_k - jnp.where(fine, shift, 0)), 0)
    u = weights @ k
    return divide(k, jnp.broadcast_to(u, k.shape)), u


def _factored(
    prepared: _Prepared,
    rows: Float[Array, "rows choices"],
    columns: Float[Array, "columns choices"],
) -> tuple[Array, Array, Array]:
    exact = jax.lax.Precision.HIGHEST
    pi = prepared.pi
    ga, u = _relative(rows, prepared.row_weights)
    gb, v = _relative(columns, prepared.column_weights)
    r = u * v
    r = r / jnp.sum(r)
    occurs = r[None, :] > 0
    ea, eb = jnp.where(occurs, ga - 1, 0), jnp.where(occurs, gb - 1, 0)
    # Z' - 1 without cancellation where it is small, Z' itself elsewhere.
    excess = (
        (ea @ r)[:, None] + (eb @ r)[None, :] + jnp.matmul(r[None, :] * ea, eb.T, precision=exact)
    )
    plain = jnp.matmul(r[None, :] * ga, gb.T, precision=exact)
    near = jnp.abs(excess) < 0.5
    z = jnp.where(near, 1 + excess, plain)
    possible = z > 0
    inverse = divide(jnp.ones_like(z), z)
    lost = jnp.where(near, excess - (z - 1), 0)  # log1p(x) = log(1 + x) + (x - ((1 + x) - 1)) / x
    log_z = jnp.where(possible, jnp.log(jnp.where(possible, z, 1)) + lost * inverse, 0)
    w = pi * inverse
    products = jnp.matmul(w, jnp.concatenate([gb, xlogx(gb)], axis=1), precision=exact)
    through, through_log = jnp.split(products, 2, axis=1)
    p = r * jnp.sum(ga * through, axis=0)
    p = p / jnp.sum(p)
    relative = jnp.sum(r[None, :] * (xlogx(ga) * through + ga * through_log)) - jnp.sum(pi * log_z)
    correction = jnp.sum(jnp.where(p > 0, p * jnp.log(divide(p, r, 1.0)), 0))
    return (
        jnp.maximum(relative - correction, 0),
        p,
        jnp.any(~possible & (pi > 0)),
    )


def _state_likelihood(
    belief: Belief,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
) -> Float[Array, "choices rows columns"]:
    log_k = choice_log_likelihoods(belief.layout, tables, question, user)
    log_z = logsumexp(log_k, axis=0)
    fine = log_z > -jnp.inf
    return jnp.where(fine[None], jnp.exp(log_k - jnp.where(fine, log_z, 0)[None]), 0)


def _by_state(
    belief: Belief,
    tables: LikelihoodTables,
    pi: Float[Array, "rows columns"],
    question: Array,
    user: Array,
) -> tuple[Array, Array, Array]:
    log_k = choice_log_likelihoods(belief.layout, tables, question, user)
    log_z = logsumexp(log_k, axis=0)
    fine = log_z > -jnp.inf
    log_k = log_k - jnp.where(fine, log_z, 0)[None]
    k = jnp.where(fine[None], jnp.exp(log_k), 0)
    p = jnp.einsum("ab,yab->y", pi, k)
    p = p / jnp.sum(p)
    log_p = safe_log(p)[:, None, None]
    occurs = (k > 0) & (log_p > -jnp.inf)
    terms = jnp.where(occurs, k * jnp.where(occurs, log_k - log_p, 0), 0)
    information = jnp.sum(pi * jnp.sum(terms, axis=0))
    return jnp.maximum(information, 0), p, jnp.any(~fine & (pi > 0))


def dimension_entropies(belief: Belief) -> Float[Array, " dimensions"]:
    """The entropy of every marginal, in nats; 0 in padding."""
    return -jnp.sum(xlogx(marginals(belief)), axis=-1)
