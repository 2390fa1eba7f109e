r"""Mutual information of every (question, user) pair with the state (BALAR, section 5).

$$I(q, u) = \sum_\theta \pi(\theta) \sum_y K(y \mid \theta)
  \log \frac{K(y \mid \theta)}{p(y)}, \qquad p(y) = \sum_\theta \pi(\theta) K(y \mid \theta).$$

With the dimensions divided into rows and columns everything that is summed over states is a product
of small matrices: the (pairs, states, choices) table never exists (see `factored`).
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .belief import Belief, marginals, pair_log_likelihood, scatter_cells
from .errors import InvalidSetting
from .factored import EXACT
from .merged import merged_scores
from .numerics import divergence, normalise, xlogx
from .rows import sum_tiles
from .scoring import Likelihoods, PairScores, pair_scores
from .space import Layout
from .statewise import state_likelihood
from .status import Status
from .structure import Structure, find_structure
from .tables import LikelihoodTables, check_fit, group_log_likelihood

__all__ = [
    "Scores",
    "dimension_information",
    "information_about",
    "mutual_information",
    "predictive",
    "score",
    "score_many",
]

TOGETHER = 16
"""Beliefs whose pairs are scored side by side; more of them would leave the cache."""


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


def score(
    belief: Belief,
    tables: LikelihoodTables,
    where: Bool[Array, "questions users"] | None = None,
    *,
    structure: Structure | None = None,
) -> Scores:
    """Mutual information and predicted answers of all pairs in one call.

    States that a pair cannot tell apart are merged where that saves time; the results are the same.

    Args:
        belief: the belief.
        tables: the tables.
        where: the pairs to score; all that exist by default. The others cost next to nothing.
        structure: `find_structure` of the belief's layout and these tables; found where needed,
            except inside `jit`, `vmap` or `grad` over the belief or the tables, where the values
            of arrays are not known: there nothing is merged unless it is given.

    Raises:
        InvalidTable: tables of another space.
        InvalidSetting: a structure of other tables, as far as shapes can tell.
    """
    if structure is None:
        structure = find_structure(belief.layout, tables)
    scores: Scores = _score(belief, tables, where, structure)
    return scores


def score_many(
    beliefs: Belief,
    tables: LikelihoodTables,
    where: Bool[Array, "#beliefs questions users"] | None = None,
) -> Scores:
    """The scores of many beliefs in one call: many dialogues, or many beliefs over the same tables.

    A plain `vmap` of `score` gives the same numbers; this one stays in the cache when there are
    many. Nothing is merged (see `find_structure`).

    Args:
        beliefs: every array with one more axis in front, which counts the beliefs.
        tables: the tables of every belief, stacked in the same way; or one set of tables, shared
            by beliefs over one space.
        where: the pairs to score, for each belief; all that exist by default.

    Returns:
        The scores with one more axis in front of every array.

    Raises:
        InvalidTable: tables of another space.
        InvalidSetting: arrays that are not stacked, or not of as many beliefs.

    >>> from balar_core.space import StateSpace
    >>> space = StateSpace.of(cause=["a", "b"])
    >>> tables = LikelihoodTables.build(space, [2], {(0, 0): [[[0.8, 0.2], [0.2, 0.8]]]})
    >>> beliefs = [Belief.from_priors(space, [(p, 1 - p)]) for p in (0.5, 1.0)]
    >>> stacked = jax.tree.map(lambda *x: jnp.stack(x), *beliefs)
    >>> [round(x.item(), 4) for x in score_many(stacked, tables).information.ravel()]
    [0.1927, 0.0]
    """
    number = beliefs.log_joint.shape[0]
    shared = tables.valid.ndim == 2
    if beliefs.log_joint.ndim != 3 or tables.valid.ndim not in (2, 3):
        raise InvalidSetting(
            f"Beliefs are stacked in arrays of 3 axes and tables in masks of 2 or 3; these have "
            f"{beliefs.log_joint.ndim} and {tables.valid.ndim}. Stack them with jax.tree.map and "
            "jnp.stack, or call score for one belief."
        )
    counts = [x.shape[0] for x in (None if shared else tables.valid, where) if x is not None]
    if any(count != number for count in counts):
        raise InvalidSetting(
            f"There are {number} beliefs, but {counts[-1]} of what goes with them."
        )

    scores: Scores = _score_many(beliefs, tables, where, shared)
    return scores


@partial(jax.jit, static_argnames="shared")
def _score_many(
    beliefs: Belief,
    tables: LikelihoodTables,
    where: Bool[Array, "beliefs questions users"] | None,
    shared: bool,
) -> Scores:
    if shared:  # one layout as well, so that what the tables say of rows and columns is shared
        first: Belief = jax.tree.map(lambda x: x[0], beliefs)

        def of_joint(own: tuple[Array, Array | None]) -> Scores:
            belief: Belief = eqx.tree_at(lambda b: b.log_joint, first, own[0])
            scores: Scores = _score(belief, tables, own[1], None)
            return scores

        found: Scores = jax.lax.map(of_joint, (beliefs.log_joint, where), batch_size=TOGETHER)
        return found

    def one(own: tuple[Belief, LikelihoodTables, Array | None]) -> Scores:
        scores: Scores = _score(*own, None)
        return scores

    own = beliefs, tables, where
    scores: Scores = jax.lax.map(one, own, batch_size=TOGETHER)
    return scores


@jax.jit
def _score(
    belief: Belief,
    tables: LikelihoodTables,
    where: Bool[Array, "questions users"] | None,
    structure: Structure | None,
) -> Scores:
    check_fit(belief.layout, tables.log_tables)
    questions, users = tables.valid.shape
    where = tables.valid if where is None else tables.valid & where
    layout = belief.layout
    pi = normalise(jnp.exp(belief.log_joint))

    def state_by_state(active: Bool[Array, " pairs"]) -> PairScores:
        likelihoods = _likelihoods(layout, tables)
        return pair_scores(
            pi, layout.row_mask, layout.column_mask, likelihoods, active, layout.shards
        )

    if structure is None:
        found = state_by_state(where.ravel())
    else:
        found = merged_scores(pi, layout, tables, structure, where.ravel(), state_by_state)
    status = Status.where(jnp.any(found.contradiction), Status.impossible_state, Status.ok)
    return Scores(
        found.information.reshape(questions, users),
        found.predictive.reshape(questions, users, -1),
        status,
    )


def _likelihoods(layout: Layout, tables: LikelihoodTables) -> Likelihoods:
    users = tables.valid.shape[1]

    def of(
        pairs: Int[Array, " some"],
    ) -> tuple[Float[Array, "some rows choices"], Float[Array, "some columns choices"]]:
        log_tables = tables.log_tables[pairs // users, pairs % users]
        present = tables.choice_mask[pairs // users][:, None, :]

        def group(digits: Int[Array, "cells dimensions"]) -> Float[Array, "some cells choices"]:
            log_k = jax.vmap(group_log_likelihood, in_axes=(0, None))(log_tables, digits)
            return jnp.where(present, log_k, -jnp.inf)

        return group(layout.row_digits), group(layout.column_digits)

    return of


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
    layout = belief.layout
    log_rows, log_columns = pair_log_likelihood(layout, tables, question, user)
    nothing = jnp.zeros((*layout.value_mask.shape, log_rows.shape[1]), pi.dtype)

    def tile(rows: tuple[Array, ...], whole: tuple[Array, Array]) -> tuple[Array, Array]:
        tile_pi, tile_log_rows, digits = rows
        log_columns, nothing = whole
        k, _ = state_likelihood(tile_log_rows, log_columns)
        by_row = jnp.einsum("ab,yab->ay", tile_pi, k, precision=EXACT)
        by_column = jnp.einsum("ab,yab->by", tile_pi, k, precision=EXACT)
        return scatter_cells(nothing, digits, by_row), by_column

    counts, by_column = sum_tiles(
        tile,
        (pi, log_rows, layout.row_digits),
        (log_columns, nothing),
        axes=(0, 0, 0),
        columns=layout.shape[1],
        shards=layout.shards,
    )
    counts = scatter_cells(counts, layout.column_digits, by_column)
    p = jnp.sum(counts, axis=-1, keepdims=True)
    independent = p * jnp.sum(by_column, axis=0)[None, None, :]
    return jnp.sum(divergence(counts, independent), axis=(1, 2))


@jax.jit
def information_about(
    belief: Belief, tables: LikelihoodTables, dimensions: Bool[Array, " dimensions"]
) -> Float[Array, "questions users"]:
    r"""What every pair tells about some dimensions: \(\sum_{j \in J} I(\theta_j; Y)\), in nats.

    By so much the sum of the marginal entropies of these dimensions is expected to fall; with one
    dimension it is the mutual information with that dimension. Unlike `mutual_information` it does
    not pay for what a question tells about the others.

    Args:
        belief: the belief.
        tables: the tables.
        dimensions: shape `(dimensions,)`, padding included; True for those that matter.

    Returns:
        Shape `(questions, users)`; 0 for pairs that do not exist.

    Raises:
        InvalidTable: tables of another space.

    >>> from balar_core.space import StateSpace
    >>> space = StateSpace.of(cause=["a", "b"], place=["x", "y"])
    >>> belief = Belief.from_priors(space, [(0.5, 0.5), (0.5, 0.5)])
    >>> tables = LikelihoodTables.build(space, [2], {(0, 0): [[[1, 0], [0, 1]], None]})
    >>> round(information_about(belief, tables, jnp.array([True, False])).item(), 3)
    0.693
    """
    questions, users = tables.valid.shape

    def of(pair: Int[Array, ""]) -> Float[Array, ""]:
        shares = _dimension_information(belief, tables, pair // users, pair % users)
        return jnp.sum(jnp.where(dimensions, shares, 0))

    found = jax.lax.map(of, jnp.arange(questions * users)).reshape(questions, users)
    return jnp.where(tables.valid, found, 0)


def dimension_entropies(belief: Belief) -> Float[Array, " dimensions"]:
    """The entropy of every marginal, in nats; 0 in padding."""
    return -jnp.sum(xlogx(marginals(belief)), axis=-1)
