r"""Scores of pairs on merged states (see `structure` for what is merged, and why that is exact).

With matrices of zeros and ones that say which row and which column belongs to which class,

$$\pi'_{q,u} = M_{\text{rows}}^T \, \pi \, M_{\text{columns}}.$$

The first product is made once per belief and shared by all pairs that merge the rows in the same
way; the second is as small as the pair's own classes. What is left is so little that the
definition itself is evaluated, class by class, which is accurate for all tables.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .errors import InvalidSetting
from .factored import EXACT
from .numerics import divergence, normalise
from .scoring import PairScores
from .space import Layout
from .statewise import state_likelihood
from .structure import Level, Structure
from .tables import LikelihoodTables, group_log_likelihood

__all__ = ["merged_scores"]


def merged_scores(
    pi: Float[Array, "rows columns"],
    layout: Layout,
    tables: LikelihoodTables,
    structure: Structure,
    active: Bool[Array, " pairs"],
    otherwise: Callable[[Bool[Array, " pairs"]], PairScores],
) -> PairScores:
    """Score all active pairs; the others are 0.

    Args:
        pi: the belief; sums to one.
        layout: the layout that the structure was found for.
        tables: the tables that it was found for.
        structure: which pairs are merged, and how.
        active: the pairs to score.
        otherwise: scores the pairs that are not merged, given which of them are active.

    Raises:
        InvalidSetting: the structure is that of other tables, as far as shapes can tell.
    """
    pairs, choices = active.shape[0], tables.choice_mask.shape[1]
    if structure.merged.shape != (pairs,) or structure.in_class.shape[-1] != layout.shape[0]:
        raise InvalidSetting(
            f"The structure is one of {structure.merged.shape[0]} pairs and "
            f"{structure.in_class.shape[-1]} rows of states; these tables have {pairs} and "
            f"{layout.shape[0]}. Look for it with find_structure and the tables at hand."
        )
    rest = active & ~structure.merged
    nothing = jnp.zeros(choices, pi.dtype)
    scores: PairScores = jax.lax.cond(
        jnp.any(rest), otherwise, lambda rest: PairScores.none(rest.shape[0], nothing), rest
    )
    row_sums = jax.lax.map(lambda block: _row_sums(block, pi), structure.in_class)
    row_sums = row_sums.reshape(-1, pi.shape[1])

    def score_level(level: Level) -> PairScores:
        def step(chunk: Level) -> PairScores:
            real = active[chunk.pair] & (chunk.pair >= 0)
            found: PairScores = jax.lax.cond(
                jnp.any(real),
                lambda: _score_chunk(chunk, row_sums, layout, tables, real),
                lambda: PairScores.none(real.shape[0], nothing),
            )
            return found

        found: PairScores = jax.lax.map(step, level)
        return found

    for level in structure.levels:
        found = score_level(level)
        target = jnp.where(level.pair >= 0, level.pair, pairs).ravel()

        def put(all_pairs: Array, some: Array, target: Array = target) -> Array:
            return all_pairs.at[target].set(some.reshape(-1, *some.shape[2:]), mode="drop")

        scores = jax.tree.map(put, scores, found)
    return scores


def _row_sums(
    in_class: Bool[Array, "classes rows"], pi: Float[Array, "rows columns"]
) -> Float[Array, "classes columns"]:
    sums: Array = jax.lax.cond(
        jnp.any(in_class),
        lambda: jnp.matmul(in_class.astype(pi.dtype), pi, precision=EXACT),
        lambda: jnp.zeros((in_class.shape[0], pi.shape[1]), pi.dtype),
    )
    return sums


def _score_chunk(
    chunk: Level,
    row_sums: Float[Array, "classes columns"],
    layout: Layout,
    tables: LikelihoodTables,
    active: Bool[Array, " pairs"],
) -> PairScores:
    """The scores of some pairs, each on its own merged states."""
    row_mask, column_mask = chunk.row >= 0, chunk.column >= 0
    sums = jnp.where(row_mask[:, :, None], row_sums[chunk.row_sum], 0)
    of_columns = jax.nn.one_hot(chunk.column_class, column_mask.shape[1], dtype=sums.dtype)
    pi = jnp.matmul(sums, of_columns, precision=EXACT)

    users = tables.valid.shape[1]
    log_tables = tables.log_tables[chunk.pair // users, chunk.pair % users]
    present = tables.choice_mask[chunk.pair // users]

    def group(
        digits: Int[Array, "cells dimensions"], cells: Int[Array, "pairs side"]
    ) -> Float[Array, "pairs side choices"]:
        of_classes = jnp.where((cells >= 0)[:, :, None], digits[cells], -1)
        log_k = jax.vmap(group_log_likelihood)(log_tables, of_classes)
        return jnp.where(present[:, None, :], log_k, -jnp.inf)

    k, possible = jax.vmap(state_likelihood)(
        group(layout.row_digits, chunk.row), group(layout.column_digits, chunk.column)
    )
    occurs = active[:, None, None] & (pi > 0)
    predictive = jnp.einsum("pab,pyab->py", pi, k, precision=EXACT)
    p = normalise(predictive, axis=1)
    gains = divergence(k, jnp.broadcast_to(p[:, :, None, None], k.shape))
    return PairScores(
        jnp.where(active, jnp.sum(pi * jnp.sum(gains, axis=1), axis=(1, 2)), 0),
        jnp.where(active[:, None], p, 0),
        jnp.any(occurs & ~possible, axis=(1, 2)),
    )
