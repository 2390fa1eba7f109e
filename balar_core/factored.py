r"""The factored form of the mutual information: sums over states from small matrix products.

Input are the log products of experts of the two groups of dimensions, \(\log K_A[a, y]\) and
\(\log K_B[b, y]\), and the belief \(\pi[a, b]\). With reference answer distributions u and v (about
the means of K_A and K_B under the belief), \(g_A = K_A/u\), \(g_B = K_B/v\), \(r \propto uv\),

$$Z = \sum_y r\, g_A g_B, \qquad W = \pi / Z, \qquad P = W g_B, \qquad T = W\,(g_B \log g_B),$$
$$p(y) = r \sum_a g_A P, \qquad
  I = \sum_y r \sum_a (g_A \log g_A\, P + g_A T) - \sum_\theta \pi \log Z
      - \mathrm{KL}(p \,\|\, r).$$

One logarithm and one division per state and pair. The states are visited in tiles that stay in the
cache, so that nothing as large as the belief is made.

There are two evaluations, chosen pair by pair:

- *plain*: Z as one product; its rounding is invisible in all but small informations.
- *careful*: where Z is near one, \(Z - 1\) is summed from \(g_A - 1\) and \(g_B - 1\), so that
  small informations keep their digits.

Tables so sharp that products of them could underflow, and zeros that could contradict each other,
are not for this form: `Factors.sharp` says which pairs these are (see `statewise`).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .branches import cond
from .fused import factored_sums
from .numerics import divide, log_tiny, normalise, reciprocal_and_log, xlogx
from .rows import Rows, Shards, map_blocks
from .sweeps import sum_states

__all__ = ["EXACT", "FactoredSums", "Factors", "factor", "sweep"]

MIXING = 2.0**-20
"""Share of the plain mean in the reference distributions; it bounds the ratios K/u."""
EXPECT_LITTLE = 1e-3
"""Nats; where less is expected the careful evaluation is used at once."""
BLOCK_CELLS = 2**14
"""A block of pairs in a small space has about this many cells."""
EXACT = jax.lax.Precision.HIGHEST
"""Some accelerators round the factors of float32 products to 10 bits unless told not to."""


class Factors(eqx.Module):
    """What a sweep needs of some pairs; the leading axis of every array counts them.

    Attributes:
        rows: g_A.
        columns: g_B and g_B log g_B side by side.
        reference: r.
        weak: the pairs that are expected to tell little.
        sharp: the pairs that this form is not made for.
    """

    rows: Float[Array, "pairs rows choices"]
    columns: Float[Array, "pairs columns two_choices"]
    reference: Float[Array, "pairs choices"]
    weak: Bool[Array, " pairs"]
    sharp: Bool[Array, " pairs"]


class FactoredSums(eqx.Module):
    """What a sweep adds up over the states.

    Attributes:
        relative: sum of pi K log(K / r), in nats.
        size: the same with absolute values of the parts.
        predictive: sum of pi K.
    """

    relative: Float[Array, " pairs"]
    size: Float[Array, " pairs"]
    predictive: Float[Array, "pairs choices"]


class _Swept(eqx.Module):
    """The pairs of a sweep; their rows travel apart from this, because they are cut into tiles."""

    columns: Float[Array, "pairs columns two_choices"]
    reference: Float[Array, "pairs choices"]
    active: Bool[Array, " pairs"]
    careful: Bool[Array, " pairs"]


def factor(
    pi: Float[Array, "rows columns"],
    row_mask: Bool[Array, " rows"],
    column_mask: Bool[Array, " columns"],
    log_rows: Float[Array, "pairs rows choices"],
    log_columns: Float[Array, "pairs columns choices"],
) -> Factors:
    """Take the reference distributions out of the likelihoods of some pairs.

    Args:
        pi: the belief; sums to one.
        row_mask: False for padding.
        column_mask: False for padding.
        log_rows: log product of experts of the row group; -inf for padded choices.
        log_columns: the same of the column group.
    """
    row_p, column_p = jnp.sum(pi, axis=1), jnp.sum(pi, axis=0)
    rows, u = _relative(log_rows, _weights(row_p, row_mask))
    columns, v = _relative(log_columns, _weights(column_p, column_mask))
    reference = normalise(u * v, axis=1)
    # Second moments: about the information, if rows and columns were independent.
    moments = _mean(row_p, (rows - 1) ** 2) + _mean(column_p, (columns - 1) ** 2)
    expected = 0.5 * jnp.sum(reference * moments, axis=1)
    row_range, row_zeros = _range(log_rows, reference)
    column_range, column_zeros = _range(log_columns, reference)
    widest = -0.7 * log_tiny(pi)
    return Factors(
        rows=rows,
        columns=jnp.concatenate([columns, xlogx(columns)], axis=2),
        reference=reference,
        weak=expected < EXPECT_LITTLE,
        sharp=(row_range + column_range > widest) | (row_zeros & column_zeros),
    )


def sweep(
    pi: Float[Array, "rows columns"],
    factors: Factors,
    active: Bool[Array, " pairs"],
    careful: Bool[Array, " pairs"],
    shards: Shards | None = None,
) -> FactoredSums:
    """Sum over all states: on a GPU in one kernel, elsewhere tile by tile.

    Args:
        pi: the belief; sums to one.
        factors: of the pairs.
        active: the pairs to evaluate; the others may be 0 or not, and cost next to nothing.
        careful: those to evaluate carefully; others in the same block are treated alike.
        shards: how the rows are spread over devices, if they are.
    """
    whole = _Swept(factors.columns, factors.reference, active, careful)
    return sum_states(_sweep_tile, _sweep_kernel, (pi, factors.rows), whole, shards)


def _weights(p: Float[Array, " cells"], mask: Bool[Array, " cells"]) -> Float[Array, " cells"]:
    return (1 - MIXING) * p + MIXING * normalise(mask.astype(p.dtype))


def _mean(
    weights: Float[Array, " cells"], x: Float[Array, "pairs cells choices"]
) -> Float[Array, "pairs choices"]:
    return jnp.einsum("a,pay->py", weights, x, precision=EXACT)


def _relative(
    log_k: Float[Array, "pairs cells choices"], weights: Float[Array, " cells"]
) -> tuple[Float[Array, "pairs cells choices"], Float[Array, "pairs choices"]]:
    """The likelihoods of one group relative to their mean u, and u."""
    top = jnp.max(log_k, axis=-1, keepdims=True)
    k = jnp.exp(log_k - jnp.where(top == -jnp.inf, 0, top))
    u = _mean(weights, k)
    return divide(k, jnp.broadcast_to(u[:, None, :], k.shape)), u


def _range(
    log_k: Float[Array, "pairs cells choices"], reference: Float[Array, "pairs choices"]
) -> tuple[Float[Array, " pairs"], Bool[Array, " pairs"]]:
    """How far apart two possible choices can be, in nats; whether some row has a zero.

    Infinitely far where a row leaves no choice at all.
    """
    zero = log_k == -jnp.inf
    top = jnp.max(log_k, axis=-1)
    low = jnp.min(jnp.where(zero, jnp.inf, log_k), axis=-1)
    widest = jnp.max(jnp.where(top == -jnp.inf, jnp.inf, top - low), axis=-1)
    return widest, jnp.any(zero & (reference > 0)[:, None, :], axis=(1, 2))


def _sweep_kernel(rows: Rows, pairs: _Swept) -> FactoredSums:
    """The same by a kernel of `fused`, which is always careful."""
    pi, of_rows = rows
    columns = pairs.columns[:, :, : pairs.reference.shape[1]]
    return FactoredSums(*factored_sums(pi, of_rows, columns, pairs.reference, pairs.active))


def _sweep_tile(rows: Rows, pairs: _Swept) -> FactoredSums:
    """Sum over the states of a tile, a block of pairs at a time."""
    pi, of_rows = rows

    def step(block: tuple[Array, _Swept]) -> FactoredSums:
        rows, pairs = block
        return cond(
            jnp.any(pairs.active),
            lambda: cond(
                jnp.any(pairs.active & pairs.careful),
                lambda: _evaluate(pi, rows, pairs, careful=True),
                lambda: _evaluate(pi, rows, pairs, careful=False),
            ),
            lambda: _nothing(pairs),
        )

    return map_blocks(step, (of_rows, pairs), size=BLOCK_CELLS // pi.size)


def _evaluate(
    pi: Float[Array, "rows columns"],
    rows: Float[Array, "pairs rows choices"],
    pairs: _Swept,
    *,
    careful: bool,
) -> FactoredSums:
    reference = pairs.reference
    columns = pairs.columns[:, :, : reference.shape[1]]
    r = reference[:, None, :]
    z = _product(r * rows, columns)
    excess = None
    if careful:
        occurs = r > 0
        row_excess = jnp.where(occurs, rows - 1, 0)
        column_excess = jnp.where(occurs, columns - 1, 0)
        # The two sums over one group ride along in the product as two more columns.
        row_mean = jnp.sum(r * row_excess, axis=2, keepdims=True)
        column_mean = jnp.sum(r * column_excess, axis=2, keepdims=True)
        excess = _product(
            jnp.concatenate([r * row_excess, row_mean, jnp.ones_like(row_mean)], axis=2),
            jnp.concatenate([column_excess, jnp.ones_like(column_mean), column_mean], axis=2),
        )
    inverse, log_z = reciprocal_and_log(z, excess)
    weighted = jnp.matmul(pi[None] * inverse, pairs.columns, precision=EXACT)
    through, through_log = jnp.split(weighted, 2, axis=2)
    normaliser = jnp.sum(pi[None] * log_z, axis=(1, 2))
    of_rows, of_columns = r * xlogx(rows) * through, r * rows * through_log
    return FactoredSums(
        relative=jnp.sum(of_rows + of_columns, axis=(1, 2)) - normaliser,
        size=jnp.sum(jnp.abs(of_rows) + jnp.abs(of_columns), axis=(1, 2)) + jnp.abs(normaliser),
        predictive=reference * jnp.sum(rows * through, axis=1),
    )


def _product(
    rows: Float[Array, "pairs rows choices"], columns: Float[Array, "pairs columns choices"]
) -> Float[Array, "pairs rows columns"]:
    return jnp.matmul(rows, jnp.swapaxes(columns, 1, 2), precision=EXACT)


def _nothing(pairs: _Swept) -> FactoredSums:
    # Made from the input, so that it is spread over devices and batches as that is.
    zero = jnp.sum(pairs.reference, axis=1) * 0
    return FactoredSums(zero, zero, pairs.reference * 0)
