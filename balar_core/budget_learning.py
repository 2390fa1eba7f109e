r"""Learning where the budget steps up: a smooth version of the gap-to-budget map, and its fit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float

from .budget import AURA_STEPS, StepMap, check_gap, gap_array, step_arrays
from .errors import InvalidSetting
from .numerics import as_array, divide, finfo, log_normalise, safe_log

__all__ = ["fit_thresholds", "smooth_budget"]


def smooth_budget(
    gap: ArrayLike, steps: StepMap = AURA_STEPS, *, width: ArrayLike = 0.05
) -> Float[Array, "*shape"]:
    r"""The budget as a smooth function of gap and thresholds, for learning the thresholds.

    $$\tilde B(g) = b_0 + \sum_k (b_k - b_{k-1})\, \sigma\big((g - t_k) / w\big),$$

    which tends to the step map as the width w shrinks (to the middle of the step at a threshold).

    Args:
        gap: any shape.
        steps: the map; its thresholds may be traced.
        width: w, in units of the gap; above 0.

    >>> round(smooth_budget(0.5, width=0.01).item(), 3)
    2.0
    """
    smooth: Array = _smooth_budget(gap_array(gap), step_arrays(steps), as_array(width, float))
    return smooth


@jax.jit
def _smooth_budget(
    gap: Float[Array, "*shape"], steps: StepMap, width: Float[Array, ""]
) -> Float[Array, "*shape"]:
    thresholds = jnp.asarray(steps.thresholds, gap.dtype)
    budgets = jnp.asarray(steps.budgets, gap.dtype)
    shape = (*gap.shape, thresholds.shape[0])
    distance = jnp.broadcast_to(gap[..., None], shape) - jnp.broadcast_to(thresholds, shape)
    reached = jax.nn.sigmoid(divide(distance, jnp.broadcast_to(width.astype(gap.dtype), shape)))
    return budgets[0] + jnp.einsum("...k,k->...", reached, jnp.diff(budgets))


def fit_thresholds(
    gaps: ArrayLike,
    needed: ArrayLike,
    steps: StepMap = AURA_STEPS,
    *,
    iterations: int = 300,
    learning_rate: float = 0.1,
) -> StepMap:
    """Learn the thresholds under which the budgets come closest to the probes that were needed.

    Adam on the mean squared error of `smooth_budget`, whose width shrinks from 0.2 to 0.01 on the
    way. The thresholds are kept in order by construction; the budgets of the steps stay as given.

    Args:
        gaps: shape `(queries,)`; from 0 to 1.
        needed: shape `(queries,)`; how many probes each query turned out to need.
        steps: the budgets, and the thresholds to begin with.
        iterations: steps of the optimiser.
        learning_rate: of Adam.

    Raises:
        InvalidGap: gaps outside [0, 1].
        InvalidSetting: not as many needs as gaps, or none.
    """
    x, y = np.asarray(gaps, dtype=np.float64), np.asarray(needed, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or not x.size:
        raise InvalidSetting(
            f"gaps has shape {x.shape} and needed {y.shape}; both need one entry for each query."
        )
    for value in x:
        check_gap(value)
    if not len(steps.thresholds):
        return steps
    widths = np.geomspace(0.2, 0.01, iterations)
    learned = _fit(
        as_array(x, float),
        as_array(y, float),
        step_arrays(steps),
        as_array(widths, float),
        as_array(learning_rate, float),
    )
    return StepMap(np.clip(np.asarray(learned, dtype=np.float64), 0, 1), np.asarray(steps.budgets))


@jax.jit
def _fit(
    gaps: Float[Array, " queries"],
    needed: Float[Array, " queries"],
    steps: StepMap,
    widths: Float[Array, " iterations"],
    learning_rate: Float[Array, ""],
) -> Float[Array, " steps"]:
    def thresholds(log_shares: Float[Array, " levels"]) -> Float[Array, " steps"]:
        # The distances between 0, the thresholds and 1 are shares of 1.
        return jnp.cumsum(jnp.exp(log_normalise(log_shares)[0]))[:-1]

    def loss(log_shares: Float[Array, " levels"], width: Float[Array, ""]) -> Float[Array, ""]:
        trial = eqx.tree_at(lambda s: s.thresholds, steps, thresholds(log_shares))
        return jnp.mean(jnp.square(_smooth_budget(gaps, trial, width) - needed))

    optimiser = optax.adam(learning_rate)

    def step(
        carry: tuple[Array, optax.OptState], width: Float[Array, ""]
    ) -> tuple[tuple[Array, optax.OptState], None]:
        log_shares, state = carry
        slope = jax.grad(loss)(log_shares, width)
        change, state = optimiser.update(slope, state)
        return (optax.apply_updates(log_shares, change), state), None

    begin = jnp.asarray(steps.thresholds, gaps.dtype)
    ends = jnp.array([0, 1], gaps.dtype)
    shares = jnp.diff(jnp.concatenate([ends[:1], begin, ends[1:]]))
    log_shares = safe_log(jnp.maximum(shares, finfo(gaps).eps))
    (log_shares, _), _ = jax.lax.scan(step, (log_shares, optimiser.init(log_shares)), widths)
    return thresholds(log_shares)
