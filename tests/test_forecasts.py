"""Scores of forecasts, against sums that are written out."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import forecast_scores
from balar_core.errors import InvalidSetting


def by_hand(
    p: np.ndarray, came: np.ndarray, bins: int
) -> tuple[float, float, float]:  # log score, Brier score, calibration error
    log_score = float(np.log((p * came).sum(axis=1)).mean())
    brier = float(((p - came) ** 2).sum(axis=1).mean())
    sure, error = p.max(axis=1), 0.0
    right = came[np.arange(len(p)), p.argmax(axis=1)]
    for b in range(bins):
        inside = (sure >= b / bins) & ((sure < (b + 1) / bins) | (b == bins - 1))
        if inside.any():
            error += inside.mean() * abs(sure[inside].mean() - right[inside].mean())
    return log_score, brier, error


@given(seed=st.integers(0, 2**32 - 1), bins=st.sampled_from([1, 3, 10]))
def test_scores_agree_with_sums_by_hand(x64: bool, seed: int, bins: int) -> None:
    random = np.random.default_rng(seed)
    kind = np.float64 if x64 else np.float32
    p = random.dirichlet(np.ones(3), 20).astype(kind).astype(float)
    came = np.where(
        random.random((20, 1)) < 0.7,
        np.eye(3)[random.integers(3, size=20)],
        random.dirichlet([1] * 3),
    )
    where = random.random(20) < 0.8
    where[0] = True
    spoilt = np.where(where[:, None], p, np.nan)
    found = forecast_scores(jnp.array(spoilt), jnp.array(came), jnp.array(where), bins=bins)
    log_score, brier, error = by_hand(p[where], came[where], bins)
    atol = 1e-12 if x64 else 1e-5
    assert found.log_score.item() == pytest.approx(log_score, abs=atol)
    assert found.brier.item() == pytest.approx(brier, abs=atol)
    assert found.calibration_error.item() == pytest.approx(error, abs=atol)
    assert found.count.item() == where.sum()


def test_forecasts_that_come_true_as_often_as_they_say_are_calibrated(x64: bool) -> None:
    p = jnp.array([[0.75, 0.25]] * 4)
    came = jnp.eye(2)[jnp.array([0, 0, 0, 1])]
    found = forecast_scores(p, came)
    assert found.calibration_error.item() == pytest.approx(0, abs=1e-7)
    assert forecast_scores(p, 1 - came).calibration_error.item() == pytest.approx(0.5)


def test_what_was_called_impossible_costs_everything_and_no_forecast_nothing(x64: bool) -> None:
    p, came = jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 1.0]])
    found = forecast_scores(p, came)
    assert (found.log_score.item(), found.brier.item()) == (-math.inf, 2)
    assert found.calibration_error.item() == 1
    nothing = forecast_scores(p, came, jnp.array([False]))
    assert [x.item() for x in jax.tree.leaves(nothing)] == [0, 0, 0, 0]
    slope = jax.grad(lambda p: forecast_scores(p, came).log_score)(p)
    assert bool(jnp.isfinite(slope).all())


def test_shapes_and_bins_are_checked() -> None:
    p = jnp.ones((2, 2)) / 2
    with pytest.raises(InvalidSetting, match="bins is 0"):
        forecast_scores(p, p, bins=0)
    with pytest.raises(InvalidSetting, match="outcomes"):
        forecast_scores(p, p[:1])
    with pytest.raises(InvalidSetting, match="where"):
        forecast_scores(p, p, jnp.ones(3, bool))
