r"""How good probabilities were, once it is known what came: log score, Brier score, calibration.

What came is given by weights over the choices: one-hot, or soft evidence that sums to one.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .errors import InvalidSetting
from .groups import check_shape
from .numerics import divide, safe_log

__all__ = ["ForecastScores", "forecast_scores"]


class ForecastScores(eqx.Module):
    r"""Means over forecasts.

    Attributes:
        log_score: \(\log \sum_y p(y) s(y)\) in nats; 0 at best, `-inf` if something came that had
            been called impossible.
        brier: \(\sum_y (p(y) - s(y))^2\); 0 at best, 2 at worst.
        calibration_error: the expected calibration error: how far the probability of the likeliest
            choice is from how often that choice came, forecasts being taken together in bins of
            equal width by that probability, and bins being weighted by their forecasts.
        count: the number of forecasts; without any, all scores are 0.
    """

    log_score: Float[Array, ""]
    brier: Float[Array, ""]
    calibration_error: Float[Array, ""]
    count: Float[Array, ""]


@partial(jax.jit, static_argnames="bins")
def forecast_scores(
    forecasts: Float[Array, "n choices"],
    outcomes: Float[Array, "n choices"],
    where: Bool[Array, " n"] | None = None,
    *,
    bins: int = 10,
) -> ForecastScores:
    """Score forecasts of what came.

    Args:
        forecasts: probabilities; every row that counts sums to one, padding being 0.
        outcomes: what came, as weights that sum to one.
        where: the rows that count.
        bins: into how many bins the probabilities of the likeliest choices, 0 to 1, are cut.

    Raises:
        InvalidSetting: fewer than one bin, or shapes that differ.

    >>> p, came = jnp.array([[0.9, 0.1], [0.6, 0.4]]), jnp.array([[1.0, 0.0], [0.0, 1.0]])
    >>> scores = forecast_scores(p, came)
    >>> [round(x.item(), 3) for x in (scores.log_score, scores.brier, scores.calibration_error)]
    [-0.511, 0.37, 0.35]
    """
    if bins < 1:
        raise InvalidSetting(f"bins is {bins!r}; it is a whole number of 1 or more.")
    if where is None:
        where = jnp.ones(forecasts.shape[:1], bool)
    check_shape("outcomes", outcomes, forecasts.shape)
    check_shape("where", where, forecasts.shape[:1])
    rows = where[:, None]
    p, came = jnp.where(rows, forecasts, 1), jnp.where(rows, outcomes, 1)
    count = jnp.sum(where, dtype=p.dtype)

    def mean(values: Float[Array, " n"]) -> Float[Array, ""]:
        return divide(jnp.sum(jnp.where(where, values, 0)), count)

    first = jnp.argmax(p, axis=1)[:, None]
    sure, right = (jnp.take_along_axis(x, first, axis=1)[:, 0] for x in (p, came))
    bin_of = jnp.clip(jnp.floor(sure * bins), 0, bins - 1).astype(int)
    excess = jax.ops.segment_sum(jnp.where(where, sure - right, 0), bin_of, bins)
    return ForecastScores(
        log_score=mean(safe_log(jnp.sum(p * came, axis=1))),
        brier=mean(jnp.sum((p - came) ** 2, axis=1)),
        calibration_error=divide(jnp.sum(jnp.abs(excess)), count),
        count=count,
    )
