r"""A belief over states that are listed one by one, each with its weight.

Objects of a table, variants in stock, samples of anything: few combinations of values are possible,
and nothing factorises. Which belief to use:

- `Belief.from_priors`: independent dimensions, tables that are products of experts.
- `Belief.from_joint`: the same tables, but the dimensions depend on each other and *all* their
  combinations fit into memory.
- `ListedBelief`: any dependence at all among any number of variables, if the possible combinations
  can be listed. Memory grows with states x variables, never with the product of the sizes.

It asks for one variable at a time (`channels`).
"""

from collections.abc import Sequence
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .channels import Channels, QuestionScores, question_scores
from .errors import InvalidDimension, InvalidDistribution, InvalidTable
from .numerics import as_array, log_normalise
from .status import Status

__all__ = ["ListedBelief", "ListedUpdate", "Target"]


class Target(eqx.Module):
    """What is to be found out: some variables of the listed states.

    Attributes:
        group: shape `(states,)`; which of the possible targets each state has.
        digits: shape `(targets, variables)`; the values of the variables of each possible target.
    """

    group: Int[Array, " states"]
    digits: Int[Array, "targets variables"]


class ListedBelief(eqx.Module):
    """A distribution over listed states.

    Attributes:
        log_p: shape `(states,)`; normalised log probabilities.
        digits: shape `(states, variables)`; the value of every variable in every state.
    """

    log_p: Float[Array, " states"]
    digits: Int[Array, "states variables"]

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        states: Sequence[Sequence[int]] | np.ndarray,
        weights: Sequence[float] | np.ndarray | None = None,
    ) -> Self:
        """A belief from states and weights.

        Args:
            sizes: the number of values of every variable.
            states: one row per state, with the position of each variable's value. Equal rows are
                one state: their weights are added.
            weights: one per state, not negative; equal ones if not given. Only proportions matter.

        Raises:
            InvalidDimension: no variable, or a size below 1.
            InvalidTable: no state, rows of the wrong length, or a value that does not exist.
            InvalidDistribution: weights that are negative, infinite, not numbers, or all zero.

        >>> belief = ListedBelief.of([2, 2], [(0, 0), (1, 1), (1, 0)], [2, 1, 1])
        >>> channels = Channels.build([2, 2], [1])
        >>> scores = belief.scores(channels, belief.target([0]))
        >>> round(scores.whole.item(), 4), round(scores.about.item(), 4)
        (0.5623, 0.2158)
        """
        if len(sizes) == 0 or min(sizes) < 1:
            raise InvalidDimension(
                f"The sizes of the variables are {list(sizes)!r}; give one each."
            )
        rows = np.asarray(states)
        if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] != len(sizes):
            raise InvalidTable(
                f"The states have shape {rows.shape}; they need one row per state and one column "
                f"for each of the {len(sizes)} variables."
            )
        if not np.issubdtype(rows.dtype, np.integer):
            raise InvalidTable(f"The states hold {rows.dtype}; give positions of values, integers.")
        wrong = np.argwhere((rows < 0) | (rows >= np.asarray(sizes)))
        if len(wrong):
            i, j = wrong[0]
            raise InvalidTable(
                f"State {i} has value {rows[i, j]} of variable {j}, which has values 0 to "
                f"{sizes[j] - 1}."
            )
        p = _weights(weights, len(rows))
        kept, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        summed = np.bincount(inverse.ravel(), p, minlength=len(kept))[order]
        with np.errstate(divide="ignore"):
            log_p = np.log(summed / summed.sum())
        return cls(as_array(log_p, float), as_array(kept[order]))

    def target(self, variables: Sequence[int]) -> Target:
        """The target made of some variables; its possible values are those of the states.

        Raises:
            InvalidDimension: no variable, or one that does not exist.
        """
        count = self.digits.shape[1]
        if len(variables) == 0 or not all(0 <= j < count for j in variables):
            raise InvalidDimension(
                f"The target is made of the variables {list(variables)!r}; give at least one of 0 "
                f"to {count - 1}."
            )
        part = np.asarray(self.digits)[:, list(variables)]
        digits, group = np.unique(part, axis=0, return_inverse=True)
        return Target(as_array(group.ravel()), as_array(digits))

    def marginals(self, values: int) -> Float[Array, "variables values"]:
        """The marginal of every variable, padded to this many values."""
        one = Target(jnp.zeros_like(self.digits[:, 0]), self.digits[:1])
        return _joints(self, one, values)[0]

    def update(
        self,
        channels: Channels,
        question: Int[Array, ""] | int,
        evidence: Float[Array, " choices"],
        strength: Float[Array, ""] | float = 1.0,
    ) -> "ListedUpdate":
        """Bayes' rule for soft evidence over the choices of a question (BALAR, section 4).

        Args:
            channels: the questions.
            question: the one that was asked.
            evidence: one weight per choice, padding included.
            strength: see `Channels.log_weights`.

        Returns:
            The posterior. Impossible evidence is a status and leaves the belief as it is.
        """
        told: ListedUpdate = _update(self, channels, question, evidence, strength)
        return told

    def probabilities(self, target: Target) -> Float[Array, " targets"]:
        """The distribution of the target."""
        zeros = jnp.zeros(target.digits.shape[0], self.log_p.dtype)
        return zeros.at[target.group].add(jnp.exp(self.log_p))

    def scores(self, channels: Channels, target: Target) -> QuestionScores:
        """Information of every question about the state and about the target, in one call."""
        found: QuestionScores = _scores(self, channels, target)
        return found


class ListedUpdate(eqx.Module):
    """What `ListedBelief.update` returns.

    Attributes:
        belief: the posterior; the prior itself if the status is not fine.
        log_evidence: the log predictive probability of the evidence; `-inf` if not fine.
        status: `Status.ok`, or what went wrong.
    """

    belief: ListedBelief
    log_evidence: Float[Array, ""]
    status: Status


@jax.jit
def _update(
    belief: ListedBelief,
    channels: Channels,
    question: Int[Array, ""] | int,
    evidence: Float[Array, " choices"],
    strength: Float[Array, ""] | float,
) -> ListedUpdate:
    by_value = channels.log_weights(question, evidence, strength)
    by_state = by_value[belief.digits[:, channels.variable[question]]]
    posterior, log_evidence, ok = log_normalise(belief.log_p + by_state)
    bad = jnp.isnan(log_evidence)
    status = Status.where(
        bad, Status.not_a_number, Status.where(ok, Status.ok, Status.impossible_evidence)
    )
    same = jnp.all(by_value == 0)
    log_p = jnp.where(ok & ~bad & ~same, posterior, belief.log_p)
    return ListedUpdate(
        ListedBelief(log_p, belief.digits), jnp.where(bad, -jnp.inf, log_evidence), status
    )


@jax.jit
def _scores(belief: ListedBelief, channels: Channels, target: Target) -> QuestionScores:
    joints = _joints(belief, target, channels.table.shape[1])
    return question_scores(jnp.sum(joints, axis=0), joints, channels)


def _joints(
    belief: ListedBelief, target: Target, values: int
) -> Float[Array, "targets variables values"]:
    """The probability of every value of every variable together with every target."""
    count = belief.digits.shape[1]
    zeros = jnp.zeros((target.digits.shape[0], count, values), belief.log_p.dtype)
    p = jnp.broadcast_to(jnp.exp(belief.log_p)[:, None], belief.digits.shape)
    found: Array = zeros.at[target.group[:, None], jnp.arange(count)[None, :], belief.digits].add(p)
    return found


def _weights(weights: Sequence[float] | np.ndarray | None, count: int) -> np.ndarray:
    """Weights of states, checked."""
    if weights is None:
        return np.ones(count)
    try:
        p = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidDistribution(f"The weights are {weights!r}; give one number each.") from None
    if p.shape != (count,):
        raise InvalidDistribution(f"{p.shape} weights for {count} states; give one each.")
    wrong = np.flatnonzero(~(np.isfinite(p) & (p >= 0)))
    if len(wrong):
        raise InvalidDistribution(
            f"The weight of state {wrong[0]} is {p[wrong[0]]}; weights are finite, 0 or more."
        )
    if not p.any():
        raise InvalidDistribution("All weights are zero; at least one state must be possible.")
    scaled: np.ndarray = p / p.max()
    return scaled
