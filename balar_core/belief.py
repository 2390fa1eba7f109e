r"""The belief: a joint distribution over all states, in log space (BALAR, sections 1, 4 and 9).

The joint is kept whole. The normaliser of the state likelihoods couples the dimensions, so that a
product of marginals would be an approximation, never the exact posterior.
"""

import math
from collections.abc import Sequence
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from .errors import (
    ImpossibleEvidence,
    InvalidSetting,
    InvalidTable,
    NumericFailure,
)
from .evidence import offered
from .labels import DEFAULT_LABELS, LabelMap, Row
from .numerics import (
    as_array,
    finfo,
    log_entropy,
    log_normalise,
    logsumexp,
    safe_log,
)
from .rows import map_tiles
from .space import Dimension, Layout, StateSpace
from .status import Status, code_name, help_text
from .tables import LikelihoodTables, check_fit, group_log_likelihood

__all__ = [
    "Belief",
    "MapState",
    "Update",
    "entropy",
    "expand",
    "joint",
    "map_state",
    "marginals",
    "update",
]


class Belief(eqx.Module):
    """A distribution over the states of a space.

    Attributes:
        log_joint: shape `(rows, columns)`; normalised log probabilities, `-inf` in padding.
        layout: where each state sits.
    """

    log_joint: Float[Array, "rows columns"]
    layout: Layout

    @classmethod
    def from_priors(
        cls,
        space: StateSpace,
        priors: Sequence[Row | np.ndarray],
        *,
        labels: LabelMap = DEFAULT_LABELS,
        bucketed: bool = False,
    ) -> Self:
        """The product prior.

        Args:
            space: the state space.
            priors: one row of labels or probabilities per dimension.
            labels: the label map.
            bucketed: pad to capacities, to share compiled programs.

        Raises:
            InvalidTable, InvalidLabel, InvalidDistribution: a bad row.

        >>> space = StateSpace.of(cause=["a", "b"], place=["x", "y", "z"])
        >>> belief = Belief.from_priors(space, [("neutral", "likely"), (0.5, 0.3, 0.2)])
        >>> print(np.asarray(marginals(belief)).round(2))
        [[0.38 0.62 0.  ]
         [0.5  0.3  0.2 ]]
        """
        if len(priors) != len(space.dimensions):
            raise InvalidTable(
                f"{len(priors)} priors for {len(space.dimensions)} dimensions; give one each."
            )
        layout = space.layout(bucketed=bucketed)
        log_priors = np.zeros(layout.value_mask.shape)
        with np.errstate(divide="ignore"):
            for j, (row, dimension) in enumerate(zip(priors, space.dimensions, strict=True)):
                p = labels.distribution(
                    row, f"the prior of dimension {dimension.name!r}", length=dimension.size
                )
                log_priors[j, : dimension.size] = np.log(p)
        return cls(log_product(as_array(log_priors, float), layout), layout)

    @classmethod
    def from_joint(
        cls, space: StateSpace, weights: np.ndarray | Array, *, bucketed: bool = False
    ) -> Self:
        """A belief with the given joint probabilities.

        Args:
            space: the state space.
            weights: shape `space.sizes` (or flat, C order); probabilities that sum to one.
            bucketed: pad to capacities.

        Raises:
            InvalidTable: the wrong number of entries.
            InvalidDistribution: a bad entry or sum.
        """
        array = np.asarray(weights)
        if array.ndim > 1 and array.shape != space.sizes:
            raise InvalidTable(
                f"The joint prior has shape {array.shape}; {space.sizes} is needed, one axis per "
                f"dimension ({', '.join(map(repr, space.names))})."
            )
        p = DEFAULT_LABELS.distribution(array.ravel(), "the joint prior", length=space.size)
        layout = space.layout(bucketed=bucketed)
        index = np.asarray(layout.row_index)[:, None] + np.asarray(layout.column_index)[None, :]
        mask = np.asarray(layout.row_mask)[:, None] & np.asarray(layout.column_mask)[None, :]
        with np.errstate(divide="ignore"):
            log_p = np.where(mask, np.log(p[index]), -np.inf)
        return cls(as_array(log_p, float), layout)


class Update(eqx.Module):
    """What `update` returns.

    Attributes:
        belief: the posterior; the prior itself if the status is not fine.
        log_evidence: the log predictive probability of the evidence, in nats; `-inf` if the
            status is not fine.
        status: `Status.ok`, or what went wrong.
    """

    belief: Belief
    log_evidence: Float[Array, ""]
    status: Status


class MapState(eqx.Module):
    """The most probable state.

    Attributes:
        digits: shape `(dimensions,)`; the index of each dimension's value, -1 in padding.
        index: its flat index; the lowest one among ties.
        log_probability: its log probability.
    """

    digits: Int[Array, " dimensions"]
    index: Int[Array, ""]
    log_probability: Float[Array, ""]


def update(
    belief: Belief,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
    evidence: Float[Array, " choices"],
) -> Update:
    r"""Bayes' rule for soft evidence s over the choices of one pair (BALAR, section 4).

    $$\pi'(\theta) \propto \pi(\theta) \sum_y K_{q,u}(y \mid \theta)\, s(y).$$

    One-hot evidence is Bayes' rule; evidence that is the same for every choice changes nothing,
    exactly. Only the proportions of the evidence matter.

    Args:
        belief: the prior.
        tables: the tables; shapes as `belief.layout`.
        question: position of the question.
        user: position of the user.
        evidence: shape `(choices,)`, not negative; padding is ignored.

    Returns:
        An `Update`. Impossible evidence is a status, never NaN.

    Raises:
        UnknownPair: no such question or user.
        InvalidEvidence: evidence of another length than the choices, padding included.
        InvalidTable: tables of another space.

    >>> space = StateSpace.of(cause=["a", "b"])
    >>> belief = Belief.from_priors(space, [(0.8, 0.2)])
    >>> tables = LikelihoodTables.build(space, [2], {(0, 0): [[[0.8, 0.2], [0.2, 0.8]]]})
    >>> posterior = update(belief, tables, 0, 0, jnp.array([0.0, 1.0])).belief
    >>> marginals(posterior).round(2).tolist()
    [[0.5, 0.5]]
    """
    tables.check_pair(question, user)
    result: Update = _update(belief, tables, question, user, evidence)
    return result


@jax.jit
def _update(
    belief: Belief,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
    evidence: Float[Array, " choices"],
) -> Update:
    return condition(belief, weigh(belief, tables, question, user, evidence))


class Weighed(eqx.Module):
    """What evidence about one pair says of every state.

    Attributes:
        log_likelihood: shape `(rows, columns)`; the log probability of the evidence in every
            state, `-inf` where the state excludes it.
        log_uniform: minus the log number of choices.
        flat: whether the evidence is the same for every choice, and so tells nothing.
        contradicted: whether a state that has probability leaves no choice possible.
    """

    log_likelihood: Float[Array, "rows columns"]
    log_uniform: Float[Array, ""]
    flat: Bool[Array, ""]
    contradicted: Bool[Array, ""]


def weigh(
    belief: Belief,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
    evidence: Float[Array, " choices"],
) -> Weighed:
    """The first half of `update`: what the evidence says of every state."""
    check_fit(belief.layout, tables.log_tables)
    present = tables.choice_mask[question]
    log_s, flat = offered(evidence, present, belief.log_joint.dtype)
    rows, columns = pair_log_likelihood(belief.layout, tables, question, user)
    log_likelihood, contradicted = map_tiles(
        _state_log_likelihood,
        (belief.log_joint, rows),
        (columns, log_s),
        columns=belief.layout.shape[1],
        shards=belief.layout.shards,
    )
    log_uniform = -safe_log(jnp.sum(present, dtype=log_s.dtype))
    return Weighed(log_likelihood, log_uniform, flat, jnp.any(contradicted))


def condition(belief: Belief, weighed: Weighed) -> Update:
    """The second half of `update`: Bayes' rule."""
    posterior, log_evidence, ok = log_normalise(belief.log_joint + weighed.log_likelihood)
    bad = jnp.isnan(log_evidence)
    flat = weighed.flat & ~bad
    log_evidence = jnp.where(flat, weighed.log_uniform, jnp.where(bad, -jnp.inf, log_evidence))
    status = Status.where(
        bad,
        Status.not_a_number,
        Status.where(
            weighed.contradicted,
            Status.impossible_state,
            Status.where(ok | flat, Status.ok, Status.impossible_evidence),
        ),
    )
    keep = flat | ~ok | bad | weighed.contradicted
    log_joint = jnp.where(keep, belief.log_joint, posterior)
    log_evidence = jnp.where(weighed.contradicted, -jnp.inf, log_evidence)
    return Update(Belief(log_joint, belief.layout), log_evidence, status)


def _state_log_likelihood(
    log_joint: Float[Array, "rows columns"],
    log_rows: Float[Array, "rows choices"],
    log_columns: Float[Array, "columns choices"],
    log_s: Float[Array, " choices"],
) -> tuple[Float[Array, "rows columns"], Bool[Array, " rows"]]:
    """The log likelihood of the evidence; rows with a contradicted state."""
    log_k = log_rows.T[:, :, None] + log_columns.T[:, None, :]
    log_z = logsumexp(log_k, axis=0)
    weighted = logsumexp(log_k + log_s[:, None, None], axis=0)
    possible = log_z > -jnp.inf
    found = jnp.where(possible, weighted - jnp.where(possible, log_z, 0), -jnp.inf)
    return found, jnp.any(~possible & (log_joint > -jnp.inf), axis=1)


def pair_log_likelihood(
    layout: Layout,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
) -> tuple[Float[Array, "rows choices"], Float[Array, "columns choices"]]:
    """The log products of experts of one pair, rows and columns; -inf for padded choices."""
    log_table = tables.log_tables[question, user]
    present = tables.choice_mask[question][None, :]
    rows = group_log_likelihood(log_table, layout.row_digits)
    columns = group_log_likelihood(log_table, layout.column_digits)
    return jnp.where(present, rows, -jnp.inf), jnp.where(present, columns, -jnp.inf)


@jax.jit
def entropy(belief: Belief) -> Float[Array, ""]:
    """The entropy of the belief, in nats."""
    return log_entropy(belief.log_joint)


@jax.jit
def marginals(belief: Belief) -> Float[Array, "dimensions values"]:
    """The marginal of every dimension; 0 in padding."""
    p = jnp.exp(belief.log_joint)
    layout = belief.layout
    zeros = jnp.zeros(layout.value_mask.shape, p.dtype)
    return scatter_cells(
        scatter_cells(zeros, layout.row_digits, jnp.sum(p, axis=1)),
        layout.column_digits,
        jnp.sum(p, axis=0),
    )


def scatter_cells(
    into: Float[Array, "dimensions values *rest"],
    digits: Int[Array, "cells dimensions"],
    weights: Float[Array, "cells *rest"],
) -> Float[Array, "dimensions values *rest"]:
    """Add the weight of every row (or column) of a layout to the values it stands for."""
    cells, dims = digits.shape
    values = into.shape[1]
    target = jnp.where(digits >= 0, digits, values)  # out of bounds: dropped
    spread = jnp.broadcast_to(weights[:, None], (cells, dims, *weights.shape[1:]))
    return into.at[jnp.arange(dims)[None, :], target].add(spread, mode="drop")


@jax.jit
def map_state(belief: Belief) -> MapState:
    """The most probable state; the lowest flat index among those that tie within rounding."""
    layout = belief.layout
    best = jnp.max(belief.log_joint)
    least = best - 64 * finfo(best).eps * jnp.maximum(1, jnp.abs(best))
    rows = belief.log_joint, layout.row_index, layout.row_digits, layout.row_mask
    columns = layout.column_index, layout.column_digits, layout.column_mask
    lowest = _lowest_state
    if layout.shards is not None:
        by_rows = layout.shards.by_rows()
        lowest = layout.shards.local(lowest, (by_rows, P(), P()), by_rows)
    blocks = lowest(rows, columns, least)
    first = jnp.argmin(blocks.index)
    state: MapState = jax.tree.map(lambda x: x[first], blocks)
    return state


def _lowest_state(
    rows: tuple[Array, Array, Array, Array], columns: tuple[Array, Array, Array], least: Array
) -> MapState:
    """Of the states with at least this log probability the one of lowest index; leading axis 1."""
    log_joint, row_index, row_digits, row_mask = rows
    column_index, column_digits, column_mask = columns
    index = row_index[:, None] + column_index[None, :]
    tied = (log_joint >= least) & row_mask[:, None] & column_mask[None, :]
    index = jnp.where(tied, index, np.iinfo(index.dtype).max)
    cell = jnp.argmin(index)
    row, column = jnp.divmod(cell, index.shape[1])
    digits = jnp.maximum(row_digits[row], column_digits[column])
    found = MapState(digits, index.ravel()[cell], log_joint[row, column])
    alone: MapState = jax.tree.map(lambda x: x[None], found)
    return alone


def joint(belief: Belief, space: StateSpace) -> np.ndarray:
    """The joint probabilities as a NumPy array of shape `space.sizes`."""
    layout = belief.layout
    rows, columns = np.asarray(layout.row_mask), np.asarray(layout.column_mask)
    index = np.asarray(layout.row_index)[rows][:, None] + np.asarray(layout.column_index)[columns]
    p = np.exp(np.asarray(belief.log_joint))[np.ix_(rows, columns)]
    flat = np.empty(space.size, p.dtype)
    flat[index.ravel()] = p.ravel()
    return flat.reshape(space.sizes)


def expand(
    belief: Belief,
    space: StateSpace,
    dimension: Dimension,
    prior: Row | np.ndarray,
    *,
    labels: LabelMap = DEFAULT_LABELS,
    bucketed: bool = False,
) -> tuple[Belief, StateSpace]:
    """Add a dimension: the outer product of the belief and the new prior (BALAR, section 9).

    Marginals of the old dimensions are unchanged.

    Args:
        belief: the belief over `space`.
        space: its space.
        dimension: the new dimension; it becomes the last one.
        prior: labels or probabilities of its values.
        labels: the label map.
        bucketed: pad to capacities.

    Returns:
        The new belief and the new space.

    Raises:
        StateSpaceTooLarge: the new space passes the cap of `space`.
        InvalidDimension: the name is taken.
        InvalidTable, InvalidLabel, InvalidDistribution: a bad prior.
        InvalidSetting: the belief is spread over devices.
    """
    if belief.layout.shards is not None:
        raise InvalidSetting(
            "The belief is spread over devices; expand it before that, on one device, and spread "
            "the larger one."
        )
    larger = space.with_dimension(dimension)
    p = labels.distribution(
        prior, f"the prior of dimension {dimension.name!r}", length=dimension.size
    )
    layout = larger.layout(bucketed=bucketed)
    position = len(space.dimensions)
    log_prior = np.full(layout.value_mask.shape[1], -np.inf)
    with np.errstate(divide="ignore"):
        log_prior[: dimension.size] = np.log(p)
    sources = _old_cells(belief.layout, space.sizes)
    row_source, row_digit = _source(layout.row_digits, sources, position)
    column_source, column_digit = _source(layout.column_digits, sources, position)
    log_joint = _outer(
        belief.log_joint,
        as_array(log_prior.astype(belief.log_joint.dtype)),
        layout,
        row_source,
        column_source,
        row_digit,
        column_digit,
    )
    return Belief(log_joint, layout), larger


def _old_cells(layout: Layout, sizes: Sequence[int]) -> np.ndarray:
    """For each dimension, how far one step of its digit moves in the flattened old array."""
    columns = layout.shape[1]
    strides = np.zeros(len(sizes), dtype=np.int64)
    for digits, unit in ((layout.row_digits, columns), (layout.column_digits, 1)):
        group = np.flatnonzero(np.asarray(digits)[0, : len(sizes)] >= 0).tolist()
        for j in group:
            strides[j] = unit * math.prod(sizes[i] for i in group if i > j)
    return strides


def _source(
    digits: Int[Array, "cells dimensions"], strides: np.ndarray, new: int
) -> tuple[Array, Array]:
    """Where each new row (or column) comes from, and its digit in the new dimension."""
    table = np.maximum(np.asarray(digits), 0)
    source = table[:, : len(strides)] @ strides
    return as_array(source.astype(np.int32)), as_array(table[:, new])


@jax.jit
def _outer(
    log_joint: Float[Array, "rows columns"],
    log_prior: Float[Array, " values"],
    layout: Layout,
    row_source: Int[Array, " new_rows"],
    column_source: Int[Array, " new_columns"],
    row_digit: Int[Array, " new_rows"],
    column_digit: Int[Array, " new_columns"],
) -> Float[Array, "new_rows new_columns"]:
    old = log_joint.ravel()[row_source[:, None] + column_source[None, :]]
    fresh = log_prior[jnp.maximum(row_digit[:, None], column_digit[None, :])]
    return jnp.where(layout.mask, old + fresh, -jnp.inf)


@jax.jit
def log_product(
    log_priors: Float[Array, "dimensions values"], layout: Layout
) -> Float[Array, "rows columns"]:
    """The log joint of independent dimensions, normalised."""
    table = log_priors[:, :, None]
    rows = group_log_likelihood(table, layout.row_digits)
    columns = group_log_likelihood(table, layout.column_digits)
    return log_normalise(rows + columns.T, where=layout.mask)[0]


def raise_for_status(status: Status, what: str) -> None:
    """Raise the exception that belongs to a status; do nothing if it is fine.

    Args:
        status: the status of one (unbatched) computation.
        what: what was being done, such as `"question 'Does light hurt?', answer 'no'"`.

    Raises:
        ImpossibleEvidence: `Status.impossible_evidence` or `Status.impossible_state`.
        NumericFailure: `Status.not_a_number`.
    """
    name = code_name(status)
    if name == "ok":
        return
    text = f"{what}: {help_text(status)}"
    if name == "not_a_number":
        raise NumericFailure(text)
    raise ImpossibleEvidence(text)
