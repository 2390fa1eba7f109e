"""Rewards of turns: they telescope where they should, and nothing leaks out of padding."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import discounted_returns, log_differences, probability_differences, to_tokens
from balar_core.errors import InvalidSetting

INF = math.inf
TURNS = 4
PROBABILITIES = st.lists(st.floats(1e-6, 1.0), min_size=TURNS + 1, max_size=TURNS + 1)


@given(p=PROBABILITIES, count=st.integers(0, TURNS))
def test_rewards_of_the_turns_that_took_place_telescope(
    x64: bool, p: list[float], count: int
) -> None:
    log_truth = jnp.log(jnp.array(p, float))
    where = jnp.arange(TURNS) < count
    spoilt = jnp.where(jnp.arange(TURNS + 1) <= count, log_truth, jnp.nan)
    gains = log_differences(spoilt, where)
    shares = probability_differences(spoilt, where)
    atol = 1e-12 if x64 else 1e-4
    assert gains.sum().item() == pytest.approx(math.log(p[count] / p[0]), abs=atol)
    assert shares.sum().item() == pytest.approx(p[count] - p[0], abs=atol)
    assert not gains[count:].any() and not shares[count:].any()
    returns = discounted_returns(gains, where)
    assert returns[0].item() == pytest.approx(gains.sum().item(), abs=atol)


def test_discount_and_cut_off_break_the_telescope() -> None:
    gains = log_differences(jnp.log(jnp.array([0.25, 0.5, 0.25, 1.0])))
    exact = math.log(4)
    assert discounted_returns(gains)[0].item() == pytest.approx(exact, rel=1e-6)
    assert abs(discounted_returns(gains, discount=0.9)[0].item() - exact) > 0.1
    assert abs(jnp.maximum(gains, 0).sum().item() - exact) > 0.1


def test_gain_of_an_impossible_truth_is_finite_by_a_floor_and_honest_without(x64: bool) -> None:
    log_truth = jnp.array([-INF, math.log(0.3), 0.0, -INF, -INF])
    honest = log_differences(log_truth).tolist()
    assert honest[0] == 0 and honest[2:] == [-INF, 0]
    floor = math.log(1e-4)
    gains = log_differences(log_truth, floor=floor)
    expected = [math.log(0.3) - floor, -math.log(0.3), floor, 0]
    np.testing.assert_allclose(gains, expected, rtol=1e-5)
    assert gains.sum().item() == pytest.approx(0, abs=1e-5)  # of the floored ends


@pytest.mark.parametrize("reward", [log_differences, probability_differences])
def test_padding_reaches_no_slope(x64: bool, reward: object) -> None:
    log_truth = jnp.array([-2.0, -1.0, jnp.nan, -INF])
    where = jnp.array([True, False, False])

    def total(x: jax.Array) -> jax.Array:
        return reward(x, where).sum()  # type: ignore[operator]

    gradient = jax.grad(total)(log_truth)
    assert gradient[0].item() < 0 < gradient[1].item()
    assert gradient[2:].tolist() == [0, 0]


def test_returns_pass_over_turns_that_did_not_take_place(x64: bool) -> None:
    rewards = jnp.array([[1.0, jnp.nan, 4.0, jnp.nan], [1.0, 2.0, 4.0, 8.0]])
    where = jnp.array([[True, False, True, False], [True] * 4])
    found = discounted_returns(rewards, where, discount=0.5)
    assert found.tolist() == [[3, 0, 4, 0], [4, 6, 8, 8]]


def test_every_token_of_a_turn_has_its_value_and_what_others_wrote_has_none(x64: bool) -> None:
    """A turn whose last token is a tool's keeps its reward: it lies on the policy's tokens."""
    values = jnp.array([[0.5, -1.0, 2.0], [3.0, 0.0, jnp.nan]])
    turns = jnp.array([[0, 0, -1, 1, -1, 2], [0, -1, -1, 1, 1, -1]])
    found = to_tokens(values, turns)
    assert found.tolist() == [[0.5, 0.5, 0, -1, 0, 2], [3, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("reward", [log_differences, probability_differences])
def test_mask_of_another_number_of_turns_is_refused(reward: object) -> None:
    with pytest.raises(InvalidSetting, match=r"where has shape \(4,\); \(3,\)"):
        reward(jnp.zeros(4), jnp.ones(4, bool))  # type: ignore[operator]
