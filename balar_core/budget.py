r"""How many probes a query is worth: the gap-to-budget map of AURA (section 3).

The *gap* g, from 0 to 1, says how far what a query needs is from what it literally asks. AURA maps
it to a budget of probes by

$$B(g) = 0, 1, 2, 3, 5 \quad\text{on}\quad [0, .2),\ [.2, .4),\ [.4, .6),\ [.6, .8),\ [.8, 1].$$

The gap may be a self-report of a language model, or come out of inference: `belief_gap` is the
uncertainty that is left about the dimensions that nobody spoke of.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from .belief import Belief, marginals
from .errors import InvalidGap, InvalidSetting
from .numerics import as_array, divide, safe_log, xlogx

__all__ = [
    "AURA_STEPS",
    "Agreement",
    "Allowance",
    "StepMap",
    "agreement",
    "belief_gap",
    "check_gap",
    "gap_array",
    "probe_budget",
    "step_arrays",
]


def check_gap(gap: object, what: str = "the gap") -> float:
    """`gap` as a float, if it is a real number from 0 to 1.

    Raises:
        InvalidGap: a boolean, a string, NaN, an infinity, or a number outside the range.

    >>> check_gap(1)
    1.0
    """
    number = isinstance(gap, int | float | np.integer | np.floating) and not isinstance(gap, bool)
    if not number or not 0 <= gap <= 1:  # type: ignore[operator]
        raise InvalidGap(f"{what} is {gap!r}; it is a number from 0 to 1.")
    return float(gap)  # type: ignore[arg-type]


class StepMap(eqx.Module):
    """A monotone map from gaps to budgets: `budgets[k]` where k thresholds are reached.

    A threshold belongs to the step above it. No threshold at all makes a constant map. The numbers
    are kept in double precision and compared in the precision of the gap, so that a gap written
    `0.6` reaches the threshold written `0.6` in both.

    Attributes:
        thresholds: shape `(steps,)`; from 0 to 1, not falling.
        budgets: shape `(steps + 1,)`; whole numbers from 0 on, not falling.

    Raises:
        InvalidSetting: thresholds or budgets that are not so.

    >>> [AURA_STEPS.budget(gap) for gap in (0, 0.2, 0.3 + 0.3, 0.7999, 0.8, 1)]
    [0, 1, 3, 3, 5, 5]
    >>> AURA_STEPS.budget(0.9, cap=3)
    3
    >>> StepMap(thresholds=(), budgets=(2,)).budget(0.5)
    2
    """

    thresholds: Float[Array, " steps"] | np.ndarray
    budgets: Int[Array, " levels"] | np.ndarray

    def __init__(
        self,
        thresholds: Sequence[float] | np.ndarray | Array = (0.2, 0.4, 0.6, 0.8),
        budgets: Sequence[int] | np.ndarray = (0, 1, 2, 3, 5),
    ) -> None:
        if not isinstance(thresholds, jax.core.Tracer):
            thresholds = _check_thresholds(thresholds)
        self.thresholds = thresholds
        self.budgets = _check_budgets(budgets, steps=len(thresholds))

    def budget(self, gap: object, cap: int | None = None) -> int:
        """The budget of one gap, on the host, in double precision.

        Args:
            gap: a number from 0 to 1.
            cap: the most probes there may be; None for no cap.

        Raises:
            InvalidGap: not a number from 0 to 1.
        """
        reached = int(np.sum(check_gap(gap) >= np.asarray(self.thresholds)))
        budget = int(self.budgets[reached])
        return budget if cap is None else max(0, min(budget, cap))


def _check_thresholds(thresholds: Sequence[float] | np.ndarray | Array) -> np.ndarray:
    try:
        array = np.array(thresholds, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidSetting(f"thresholds is {thresholds!r}; give numbers from 0 to 1.") from None
    fine = array.ndim == 1 and np.all((array >= 0) & (array <= 1)) and np.all(np.diff(array) >= 0)
    if not fine:
        raise InvalidSetting(
            f"thresholds is {array.tolist()}; they are numbers from 0 to 1 that do not fall."
        )
    return array


def _check_budgets(budgets: Sequence[int] | np.ndarray, *, steps: int) -> np.ndarray:
    array = np.asarray(budgets)
    if array.ndim != 1 or len(array) != steps + 1:
        raise InvalidSetting(
            f"budgets is {budgets!r}; {steps} thresholds need {steps + 1} budgets, one for each "
            "step."
        )
    whole = np.issubdtype(array.dtype, np.integer)
    most = np.iinfo(np.int32).max
    if not whole or np.any((array < 0) | (array > most)) or np.any(np.diff(array) < 0):
        raise InvalidSetting(
            f"budgets is {budgets!r}; they are whole numbers from 0 to {most} that do not fall."
        )
    return np.asarray(array, dtype=np.int32)


AURA_STEPS = StepMap()
"""The map of the AURA paper: 0, 1, 2, 3, 5 probes with thresholds at 0.2, 0.4, 0.6 and 0.8."""


class Allowance(eqx.Module):
    """What `probe_budget` returns; both of the shape of the gaps.

    Attributes:
        budget: how many probes are allowed; 0 where the gap is invalid.
        valid: whether the gap is a number from 0 to 1.
    """

    budget: Int[Array, "*shape"]
    valid: Bool[Array, "*shape"]


def probe_budget(
    gap: ArrayLike, steps: StepMap = AURA_STEPS, *, cap: ArrayLike | None = None
) -> Allowance:
    """The budgets of any number of gaps: exact at every threshold, and closed on bad input.

    Nothing is raised for a value: a gap that is NaN, infinite or outside [0, 1] gets budget 0 and
    is marked as invalid, under `jit` as outside of it.

    Args:
        gap: any shape.
        steps: the map.
        cap: the most probes there may be (`explore_max_steps` of the paper); None for no cap.

    Raises:
        InvalidGap: gaps that are not numbers at all (booleans, strings).
        InvalidSetting: a cap that is not a whole number.

    >>> found = probe_budget([0.1, 0.2, 0.59, 0.8, float("nan"), 1.1], cap=3)
    >>> found.budget.tolist(), found.valid.tolist()
    ([0, 1, 2, 3, 0, 0], [True, True, True, True, False, False])
    """
    allowance: Allowance = _probe_budget(gap_array(gap), step_arrays(steps), _cap(cap))
    return allowance


@jax.jit
def _probe_budget(
    gap: Float[Array, "*shape"], steps: StepMap, cap: Int[Array, ""] | None
) -> Allowance:
    valid = (gap >= 0) & (gap <= 1)
    thresholds = jnp.asarray(steps.thresholds, gap.dtype)
    level = jnp.searchsorted(thresholds, gap, side="right", method="compare_all")
    budget = jnp.asarray(steps.budgets)[jnp.where(valid, level, 0)]
    if cap is not None:
        budget = jnp.minimum(budget, jnp.maximum(cap, 0))
    return Allowance(jnp.where(valid, budget, 0), valid)


def step_arrays(steps: StepMap) -> StepMap:
    """The map in the default precision.

    Arrays of the host never enter compiled code: as constants of nested calls they would be kept
    in the precision of the first one.
    """
    thresholds, budgets = as_array(steps.thresholds, float), as_array(steps.budgets)
    moved: StepMap = eqx.tree_at(lambda s: (s.thresholds, s.budgets), steps, (thresholds, budgets))
    return moved


def gap_array(gap: ArrayLike) -> Float[Array, "*shape"]:
    """Gaps as a float array, in their own precision."""
    if not isinstance(gap, jax.Array | np.ndarray):
        for value in np.asarray(gap, dtype=object).ravel():
            if isinstance(value, bool | np.bool_ | str | bytes):
                raise InvalidGap(f"A gap is {value!r}; gaps are numbers from 0 to 1.")
    kind = gap.dtype if isinstance(gap, jax.Array | np.ndarray) else np.asarray(gap).dtype
    if jnp.issubdtype(kind, jnp.floating):
        return as_array(gap)
    if not jnp.issubdtype(kind, jnp.integer):
        raise InvalidGap(f"Gaps of type {kind} are no numbers from 0 to 1.")
    return as_array(gap, float)


def _cap(cap: ArrayLike | None) -> Int[Array, ""] | None:
    if cap is None:
        return None
    array = cap if isinstance(cap, jax.Array) else np.asarray(cap)
    if array.ndim or not jnp.issubdtype(array.dtype, jnp.integer):
        raise InvalidSetting(f"cap is {cap!r}; it is a whole number of probes.")
    return as_array(array)


@jax.jit
def belief_gap(belief: Belief, implicit: Bool[Array, " dimensions"]) -> Float[Array, ""]:
    r"""The gap that follows from a belief: what is left to know about the implicit dimensions.

    $$g = \sum_{j \in I} H(\theta_j) \Big/ \sum_{j \in I} \log |V_j|,$$

    the marginal entropies as a share of the most they could be: 1 where nothing is known, 0 where
    everything is, and 0 without any implicit dimension. Since every answer is expected to lower it
    by the mutual information with each of these dimensions (over the same denominator), budget and
    choice of probes count in one currency.

    Args:
        belief: the belief.
        implicit: shape `(dimensions,)`, padding included; True for what nobody spoke of.

    >>> from balar_core.space import StateSpace
    >>> space = StateSpace.of(place=["cafe", "park"], mood=["calm", "cross"])
    >>> belief = Belief.from_priors(space, [(1.0, 0.0), (0.9, 0.1)])
    >>> round(belief_gap(belief, jnp.array([False, True])).item(), 3)
    0.469
    """
    mask = implicit & jnp.any(belief.layout.value_mask, axis=1)
    p = marginals(belief)
    left = jnp.sum(jnp.where(mask, -jnp.sum(xlogx(p), axis=1), 0))
    most = jnp.sum(jnp.where(mask, _log_sizes(belief), 0))
    # Rounding may carry a flat belief past 1 by a few units in the last place.
    return jnp.clip(divide(left, most), 0, 1)


def _log_sizes(belief: Belief) -> Float[Array, " dimensions"]:
    sizes = jnp.sum(belief.layout.value_mask, axis=1, dtype=belief.log_joint.dtype)
    return safe_log(jnp.maximum(sizes, 1))


class Agreement(eqx.Module):
    """How far two ways to set the gap of the same queries lead to the same budgets.

    Attributes:
        same: the share of queries that get the same budget from both.
        more: the share that gets a larger budget from the first.
        fewer: the share that gets a smaller budget from the first.
        budget_difference: the mean of first minus second, in probes.
        gap_difference: the mean of |first - second|, in units of the gap.
    """

    same: Float[Array, ""]
    more: Float[Array, ""]
    fewer: Float[Array, ""]
    budget_difference: Float[Array, ""]
    gap_difference: Float[Array, ""]


def agreement(
    first: ArrayLike,
    second: ArrayLike,
    steps: StepMap = AURA_STEPS,
    *,
    cap: ArrayLike | None = None,
) -> Agreement:
    """Compare two gaps of the same queries, for example reported ones and those of a belief.

    They agree where both fall on the same step; a cap hides differences above it.

    Args:
        first: shape `(queries,)`.
        second: shape `(queries,)`.
        steps: the map.
        cap: the most probes there may be.

    Raises:
        InvalidGap: no numbers at all.
        InvalidSetting: two different numbers of queries, or none.

    >>> round(agreement([0.1, 0.5, 0.9], [0.1, 0.45, 0.7]).same.item(), 2)
    0.67
    """
    a, b = gap_array(first), gap_array(second)
    if a.ndim != 1 or a.shape != b.shape or not a.size:
        raise InvalidSetting(
            f"The gaps have shapes {a.shape} and {b.shape}; both need one entry for each query."
        )
    found: Agreement = _agreement(a, b, step_arrays(steps), _cap(cap))
    return found


@jax.jit
def _agreement(
    first: Float[Array, " queries"],
    second: Float[Array, " queries"],
    steps: StepMap,
    cap: Int[Array, ""] | None,
) -> Agreement:
    kind = first.dtype
    difference = (
        _probe_budget(first, steps, cap).budget - _probe_budget(second, steps, cap).budget
    ).astype(kind)
    return Agreement(
        same=jnp.mean(difference == 0, dtype=kind),
        more=jnp.mean(difference > 0, dtype=kind),
        fewer=jnp.mean(difference < 0, dtype=kind),
        budget_difference=jnp.mean(difference),
        gap_difference=jnp.mean(jnp.abs(first - second.astype(kind))),
    )
