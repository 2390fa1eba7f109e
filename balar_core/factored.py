r"""The kernel: mutual information of many pairs from small matrix products.

Input are the log products of experts of the two groups of dimensions, \(\log K_A[a, y]\) and
\(\log K_B[b, y]\), and the belief \(\pi[a, b]\). With reference answer distributions u and v (about
the means of K_A and K_B under the belief), \(g_A = K_A/u\), \(g_B = K_B/v\), \(r \propto uv\),

$$Z = \sum_y r\, g_A g_B, \qquad W = \pi / Z, \qquad P = W g_B, \qquad T = W\,(g_B \log g_B),$$
$$p(y) = r \sum_a g_A P, \qquad
  I = \sum_y r \sum_a (g_A \log g_A\, P + g_A T) - \sum_\theta \pi \log Z
      - \mathrm{KL}(p \,\|\, r).$$

One logarithm and one division per state and pair. The states are visited in tiles that stay in the
cache, so that nothing as large as the belief is made.

There are three evaluations of the same numbers, chosen pair by pair:

- *plain*: Z as one product; its rounding is invisible in all but small informations.
- *careful*: where Z is near one, \(Z - 1\) is summed from \(g_A - 1\) and \(g_B - 1\), so that
  small informations keep their digits. Used where little information is expected, and again where
  what was found is small beside the sums it is the difference of.
- *exact*: the definition, state by state in log space. Used for tables so sharp that products of
  them could underflow, for zeros that could contradict each other, and for the few informations
  that are small differences of large sums even then (a belief that ties rows to columns).

Under `vmap` each choice is made for the whole batch, never by computing all of them.
"""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float

from .fused import covered, exact_sums, factored_sums, on_cuda
from .numerics import divergence, divide, finfo, log_tiny, logsumexp, reciprocal_and_log, xlogx
from .rows import TILE_CELLS, Shards, sum_shards, sum_tiles

__all__ = ["PairScores", "pair_scores", "state_likelihood"]

T = TypeVar("T")

MIXING = 2.0**-20
"""Share of the plain mean in the reference distributions; it bounds the ratios K/u."""
EXPECT_LITTLE = 1e-3
"""Nats; where less is expected the careful evaluation is used at once."""
WEAKEST = 2.0**-20
"""Nats; informations down to here have a relative error below 1e-3 in float32, smaller ones an
absolute error."""
RESOLUTION = 2.0**11
"""An information this many rounding errors of its parts, or less, has lost digits."""
EXACT = jax.lax.Precision.HIGHEST
"""Some accelerators round the factors of float32 products to 10 bits unless told not to."""


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


class _Pairs(eqx.Module):
    """All that a sweep needs of some pairs; the leading axis of every array counts them.

    Attributes:
        active: the pairs to score.
        careful: those to evaluate carefully.
        exact: those to evaluate state by state.
        log_rows: log product of experts of the row group.
        log_columns: the same of the column group.
        rows: g_A.
        columns: g_B and g_B log g_B side by side.
        reference: r.
    """

    active: Bool[Array, " pairs"]
    careful: Bool[Array, " pairs"]
    exact: Bool[Array, " pairs"]
    log_rows: Float[Array, "pairs rows choices"]
    log_columns: Float[Array, "pairs columns choices"]
    rows: Float[Array, "pairs rows choices"]
    columns: Float[Array, "pairs columns two_choices"]
    reference: Float[Array, "pairs choices"]


class _Sums(eqx.Module):
    """What a sweep adds up over the states.

    Attributes:
        relative: sum of pi K log(K / r), or of pi K log(K / p) in an exact sweep.
        size: the same with absolute values of the parts.
        predictive: sum of pi K.
        contradiction: whether a state that has probability has no possible choice.
    """

    relative: Float[Array, " pairs"]
    size: Float[Array, " pairs"]
    predictive: Float[Array, "pairs choices"]
    contradiction: Bool[Array, " pairs"]


_Evaluate = Callable[[Float[Array, "rows columns"], _Pairs], _Sums]


def pair_scores(
    pi: Float[Array, "rows columns"],
    row_mask: Bool[Array, " rows"],
    column_mask: Bool[Array, " columns"],
    log_rows: Float[Array, "pairs rows choices"],
    log_columns: Float[Array, "pairs columns choices"],
    active: Bool[Array, " pairs"],
    shards: Shards | None = None,
) -> PairScores:
    """Score all active pairs; the others are 0.

    Args:
        pi: the belief; sums to one.
        row_mask: False for padding.
        column_mask: False for padding.
        log_rows: log product of experts of the row group; -inf for padded choices.
        log_columns: the same of the column group.
        active: the pairs to score.
        shards: how the rows are spread over devices, if they are.
    """
    pairs = _prepare(pi, row_mask, column_mask, log_rows, log_columns, active)
    if pi.size <= TILE_CELLS // 4:  # many pairs together: a second look would cost more
        sums = _sweep(pi, pairs, _careful, shards)
    else:
        sums = _sweep(pi, pairs, _plain_or_careful, shards)
        lost = _information(pairs, sums) < _resolution(pairs, sums)
        again = active & ~pairs.careful & ~pairs.exact & lost
        second = _change(pairs, active=again)
        sums = _cond(
            jnp.any(again),
            lambda: _choose(again, _sweep(pi, second, _careful, shards), sums),
            lambda: sums,
        )
    information = _information(pairs, sums)
    lost = (information > WEAKEST) & (information < _resolution(pairs, sums))
    exact = active & (pairs.exact | lost)
    predictive = _distribution(sums.predictive)
    third = eqx.tree_at(lambda p: p.reference, _change(pairs, active=exact), predictive)
    information = _cond(
        jnp.any(exact),
        lambda: jnp.where(exact, _sweep(pi, third, _exact, shards).relative, information),
        lambda: information,
    )
    return PairScores(
        jnp.where(active, jnp.maximum(information, 0), 0),
        jnp.where(active[:, None], predictive, 0),
        active & sums.contradiction,
    )


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


def _prepare(
    pi: Float[Array, "rows columns"],
    row_mask: Bool[Array, " rows"],
    column_mask: Bool[Array, " columns"],
    log_rows: Float[Array, "pairs rows choices"],
    log_columns: Float[Array, "pairs columns choices"],
    active: Bool[Array, " pairs"],
) -> _Pairs:
    row_p, column_p = jnp.sum(pi, axis=1), jnp.sum(pi, axis=0)
    rows, u = _relative(log_rows, _weights(row_p, row_mask))
    columns, v = _relative(log_columns, _weights(column_p, column_mask))
    reference = _distribution(u * v)
    # Second moments: about the information, if rows and columns were independent.
    moments = _mean(row_p, (rows - 1) ** 2) + _mean(column_p, (columns - 1) ** 2)
    expected = 0.5 * jnp.sum(reference * moments, axis=1)
    row_range, row_zeros = _range(log_rows, reference)
    column_range, column_zeros = _range(log_columns, reference)
    widest = -0.7 * log_tiny(pi)
    return _Pairs(
        active=active,
        careful=expected < EXPECT_LITTLE,
        exact=(row_range + column_range > widest) | (row_zeros & column_zeros),
        log_rows=log_rows,
        log_columns=log_columns,
        rows=rows,
        columns=jnp.concatenate([columns, xlogx(columns)], axis=2),
        reference=reference,
    )


def _weights(p: Float[Array, " cells"], mask: Bool[Array, " cells"]) -> Float[Array, " cells"]:
    flat = mask.astype(p.dtype)
    return (1 - MIXING) * p + MIXING * divide(flat, jnp.broadcast_to(jnp.sum(flat), flat.shape))


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


def _sweep(
    pi: Float[Array, "rows columns"], pairs: _Pairs, evaluate: _Evaluate, shards: Shards | None
) -> _Sums:
    """Sum over all states: on a GPU in one kernel, elsewhere tile by tile."""
    axes = (0, 1, 1)

    def part(sweep: Callable[..., _Sums]) -> Callable[[tuple[Array, ...], _Pairs], _Sums]:
        def of_part(rows: tuple[Array, ...], pairs: _Pairs) -> _Sums:
            part_pi, *kernels = rows
            whole = eqx.tree_at(_of_rows, pairs, kernels, is_leaf=lambda x: x is None)
            return sweep(part_pi, whole, evaluate)

        return of_part

    def in_tiles(rows: tuple[Array, ...], pairs: _Pairs) -> _Sums:
        tile, columns = part(_sweep_tile), rows[0].shape[1]
        return sum_tiles(tile, rows, pairs, axes=axes, columns=columns, shards=shards)

    def in_kernel(rows: tuple[Array, ...], pairs: _Pairs) -> _Sums:
        return sum_shards(part(_sweep_kernel), rows, pairs, axes=axes, shards=shards)

    sweep = on_cuda(in_kernel, in_tiles) if covered(pi, pairs.reference) else in_tiles
    return sweep((pi, *_of_rows(pairs)), eqx.tree_at(_of_rows, pairs, (None, None)))


def _sweep_kernel(pi: Float[Array, "rows columns"], pairs: _Pairs, evaluate: _Evaluate) -> _Sums:
    """The same by the kernels of `fused`; both run, because a choice would cost more."""
    exact = pairs.active & (pairs.exact | (evaluate is _exact))
    gains, predictive, contradiction = exact_sums(
        pi, pairs.log_rows, pairs.log_columns, pairs.reference, exact
    )
    of_exact = _Sums(gains, gains, predictive, contradiction)
    if evaluate is _exact:
        return of_exact
    factored = pairs.active & ~exact
    columns = pairs.columns[:, :, : pairs.reference.shape[1]]
    gains, size, predictive = factored_sums(pi, pairs.rows, columns, pairs.reference, factored)
    of_factored = _Sums(gains, size, predictive, jnp.zeros_like(exact))
    return _choose(exact, of_exact, of_factored)


def _of_rows(pairs: _Pairs) -> tuple[Array, Array]:
    return pairs.rows, pairs.log_rows


def _sweep_tile(pi: Float[Array, "rows columns"], pairs: _Pairs, evaluate: _Evaluate) -> _Sums:
    """Sum over the states of a tile, a block of pairs at a time."""
    number = pairs.active.shape[0]
    size = max(1, min(number, TILE_CELLS // pi.size))
    count = -(-number // size)

    def cut(x: Array) -> Array:
        padding = [(0, count * size - number)] + [(0, 0)] * (x.ndim - 1)
        return jnp.pad(x, padding).reshape(count, size, *x.shape[1:])

    def step(block: _Pairs) -> _Sums:
        return _cond(jnp.any(block.active), lambda: evaluate(pi, block), lambda: _nothing(block))

    found = jax.lax.map(step, jax.tree.map(cut, pairs))
    sums: _Sums = jax.tree.map(lambda x: x.reshape(count * size, *x.shape[2:])[:number], found)
    return sums


def _plain_or_careful(pi: Float[Array, "rows columns"], block: _Pairs) -> _Sums:
    return _cond(
        jnp.any(block.careful & block.active),
        lambda: _careful(pi, block),
        lambda: _unless_exact(pi, block, _factored(pi, block, careful=False)),
    )


def _careful(pi: Float[Array, "rows columns"], block: _Pairs) -> _Sums:
    return _unless_exact(pi, block, _factored(pi, block, careful=True))


def _unless_exact(pi: Float[Array, "rows columns"], block: _Pairs, sums: _Sums) -> _Sums:
    """For pairs to be evaluated exactly the predicted answers come from the states."""
    return _cond(
        jnp.any(block.exact & block.active),
        lambda: _choose(block.exact, _exact(pi, block), sums),
        lambda: sums,
    )


def _factored(pi: Float[Array, "rows columns"], block: _Pairs, *, careful: bool) -> _Sums:
    rows, reference = block.rows, block.reference
    columns = block.columns[:, :, : reference.shape[1]]
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
    weighted = jnp.matmul(pi[None] * inverse, block.columns, precision=EXACT)
    through, through_log = jnp.split(weighted, 2, axis=2)
    normaliser = jnp.sum(pi[None] * log_z, axis=(1, 2))
    of_rows, of_columns = r * xlogx(rows) * through, r * rows * through_log
    return _Sums(
        relative=jnp.sum(of_rows + of_columns, axis=(1, 2)) - normaliser,
        size=jnp.sum(jnp.abs(of_rows) + jnp.abs(of_columns), axis=(1, 2)) + jnp.abs(normaliser),
        predictive=reference * jnp.sum(rows * through, axis=1),
        contradiction=jnp.zeros_like(block.active),
    )


def _product(
    rows: Float[Array, "pairs rows choices"], columns: Float[Array, "pairs columns choices"]
) -> Float[Array, "pairs rows columns"]:
    return jnp.matmul(rows, jnp.swapaxes(columns, 1, 2), precision=EXACT)


def _exact(pi: Float[Array, "rows columns"], block: _Pairs) -> _Sums:
    """The definition, state by state, relative to the reference (the predicted answers)."""

    def one(pair: tuple[Array, Array, Array]) -> _Sums:
        log_rows, log_columns, p = pair
        k, possible = state_likelihood(log_rows, log_columns)
        gains = divergence(k, jnp.broadcast_to(p[:, None, None], k.shape))
        relative = jnp.sum(pi * jnp.sum(gains, axis=0))
        predictive = jnp.sum(pi[None] * k, axis=(1, 2))
        return _Sums(relative, relative, predictive, jnp.any(~possible & (pi > 0)))

    sums: _Sums = jax.lax.map(one, (block.log_rows, block.log_columns, block.reference))
    return sums


def _distribution(x: Float[Array, "pairs choices"]) -> Float[Array, "pairs choices"]:
    return divide(x, jnp.broadcast_to(jnp.sum(x, axis=1, keepdims=True), x.shape))


def _distance(pairs: _Pairs, sums: _Sums) -> Float[Array, " pairs"]:
    """The divergence of the predicted answers from the reference."""
    return jnp.sum(divergence(_distribution(sums.predictive), pairs.reference), axis=1)


def _information(pairs: _Pairs, sums: _Sums) -> Float[Array, " pairs"]:
    return sums.relative - _distance(pairs, sums)


def _resolution(pairs: _Pairs, sums: _Sums) -> Float[Array, " pairs"]:
    """Informations below this may have lost digits."""
    return RESOLUTION * finfo(sums.size).eps * (sums.size + _distance(pairs, sums))


def _change(pairs: _Pairs, **changes: Bool[Array, " pairs"]) -> _Pairs:
    changed: _Pairs = eqx.tree_at(
        lambda p: [getattr(p, name) for name in changes], pairs, list(changes.values())
    )
    return changed


def _choose(mask: Bool[Array, " pairs"], yes: T, no: T) -> T:
    def pick(a: Array, b: Array) -> Array:
        return jnp.where(mask.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    chosen: T = jax.tree.map(pick, yes, no)
    return chosen


def _nothing(pairs: _Pairs) -> _Sums:
    zero = jnp.sum(pairs.reference, axis=1) * 0
    return _Sums(zero, zero, pairs.reference * 0, jnp.zeros_like(pairs.active))


@custom_vmap
def _anywhere(predicate: Bool[Array, ""]) -> Bool[Array, ""]:
    """The predicate itself; under `vmap`, whether it holds anywhere in the batch.

    So a branch on it stays a branch under `vmap`.
    """
    return predicate


@_anywhere.def_vmap
def _anywhere_in_batch(
    axis_size: int, in_batched: list[bool], predicate: Bool[Array, "..."]
) -> tuple[Array, bool]:
    del axis_size
    return (jnp.any(predicate, axis=0) if in_batched[0] else predicate), False


def _cond(predicate: Bool[Array, ""], yes: Callable[[], T], no: Callable[[], T]) -> T:
    found: T = jax.lax.cond(_anywhere(predicate), yes, no)
    return found
