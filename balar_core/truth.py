r"""What is true: a state, the value of one dimension, or an answer of a closed set.

A truth G is given by the weight \(P(G \mid \theta)\) that it has in every state, so that

$$P(G) = \sum_\theta \pi(\theta) P(G \mid \theta) \Big/ \sum_\theta \pi(\theta) T(\theta).$$

The total T, the weight of everything that could be true, is 1 but for answers under the paper's
rule, which normalises once over the answers and not in every state (see `answers`).
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .answers import AnswerTables
from .belief import Belief
from .numerics import log_normalise, logsumexp
from .rows import map_tiles
from .space import Layout
from .tables import check_fit, group_log_likelihood

__all__ = ["Truth", "log_probability", "true_answer", "true_state", "true_value"]


class Truth(eqx.Module):
    """The weight of a truth in every state; make one by `true_state` and the like.

    Attributes:
        log_given: shape `(rows, columns)`; the log weight of the truth, `-inf` where it is false.
        log_total: shape `(rows, columns)`; the log weight of everything that could be true.
    """

    log_given: Float[Array, "rows columns"]
    log_total: Float[Array, "rows columns"]


@jax.jit
def true_state(layout: Layout, index: Int[Array, ""] | int) -> Truth:
    """One state is true.

    Args:
        layout: `Belief.layout`.
        index: the flat index of the state (`StateSpace.index`, `MapState.index`).

    >>> from balar_core import Belief, StateSpace
    >>> space = StateSpace.of(cause=["a", "b"], place=["x", "y"])
    >>> belief = Belief.from_priors(space, [(0.5, 0.5), (0.8, 0.2)])
    >>> truth = true_state(belief.layout, space.index({"cause": "b", "place": "y"}))
    >>> round(float(jnp.exp(log_probability(belief, truth))), 6)
    0.1
    """
    return _of_cells(layout, layout.row_index[:, None] + layout.column_index[None, :] == index)


@jax.jit
def true_value(
    layout: Layout, dimension: Int[Array, ""] | int, value: Int[Array, ""] | int
) -> Truth:
    """One dimension has a value.

    Args:
        layout: `Belief.layout`.
        dimension: the position of the dimension.
        value: the position of its value.
    """
    digits = jnp.maximum(
        layout.row_digits[:, dimension][:, None], layout.column_digits[:, dimension][None, :]
    )
    return _of_cells(layout, digits == value)


def _of_cells(layout: Layout, cells: Bool[Array, "rows columns"]) -> Truth:
    log_given = jnp.where(cells & layout.mask, 0.0, -jnp.inf)
    return Truth(log_given, jnp.zeros_like(log_given))


@partial(jax.jit, static_argnames="per_state")
def true_answer(
    layout: Layout, answers: AnswerTables, answer: Int[Array, ""] | int, *, per_state: bool = False
) -> Truth:
    """One answer of a closed set is true.

    Args:
        layout: `Belief.layout`.
        answers: the answer tables.
        answer: the position of the answer.
        per_state: as in `answer_posterior`.

    Raises:
        InvalidTable: tables of another space.
    """
    check_fit(layout, answers.log_tables)
    rows = group_log_likelihood(answers.log_tables, layout.row_digits)
    columns = group_log_likelihood(answers.log_tables, layout.column_digits)
    exists = (answer >= 0) & answers.mask[answer]
    log_given = rows[:, answer][:, None] + columns[:, answer][None, :]
    log_given = jnp.where(layout.mask & exists, log_given, -jnp.inf)
    log_total = map_tiles(
        _log_total,
        (rows,),
        (columns, answers.mask),
        columns=layout.shape[1],
        shards=layout.shards,
    )
    if not per_state:
        return Truth(log_given, log_total)
    log_given = log_given - jnp.where(log_total > -jnp.inf, log_total, 0)
    return Truth(log_given, jnp.zeros_like(log_given))


def _log_total(
    log_rows: Float[Array, "rows answers"],
    log_columns: Float[Array, "columns answers"],
    mask: Bool[Array, " answers"],
) -> Float[Array, "rows columns"]:
    log_k = log_rows.T[:, :, None] + log_columns.T[:, None, :]
    return logsumexp(log_k, axis=0, where=mask[:, None, None])


@jax.jit
def log_probability(belief: Belief, truth: Truth) -> Float[Array, ""]:
    """The log probability of a truth under a belief, in nats; `-inf` if it is excluded."""
    _, log_true, _ = given_truth(belief, truth)
    return log_true


def given_truth(
    belief: Belief, truth: Truth
) -> tuple[Float[Array, "rows columns"], Float[Array, ""], Float[Array, "rows columns"]]:
    """The belief given the truth, the log probability of the truth, and the belief without it.

    The first is `-inf` everywhere if the truth is excluded. The last is the belief itself, unless
    the total weight of what could be true depends on the state.
    """
    given, log_true, _ = log_normalise(belief.log_joint + truth.log_given)
    total, log_all, ok = log_normalise(belief.log_joint + truth.log_total)
    return given, jnp.where(ok, log_true - jnp.where(ok, log_all, 0), -jnp.inf), total
