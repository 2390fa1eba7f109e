"""Advantages: right, exactly zero where nothing differs, and blind to what is masked."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import group_advantages, group_keep_mask, soft_overlong, turn_advantages
from balar_core.errors import InvalidSetting

from . import policy_reference as reference

SEEDS = st.integers(0, 2**32 - 1)
GROUPS, SIZE = 3, 4
IDS = [i // SIZE for i in range(GROUPS * SIZE)]


def tolerance(x64: bool) -> float:
    return 1e-9 if x64 else 2e-4


@given(
    seed=SEEDS,
    scale=st.sampled_from(["group", "batch", "none"]),
    ddof=st.sampled_from([0, 1]),
    size=st.sampled_from([1e-3, 1.0, 30.0]),
)
def test_advantages_agree_with_the_formula(
    x64: bool, seed: int, scale: str, ddof: int, size: float
) -> None:
    random = np.random.default_rng(seed)
    rewards = size * random.normal(size=GROUPS * SIZE)
    order = random.permutation(len(rewards))
    expected = reference.advantages(rewards, IDS, scale=scale, ddof=ddof)
    settings = {"scale": scale, "ddof": ddof}
    found = group_advantages(jnp.asarray(rewards), num_generations=SIZE, **settings)
    atol = tolerance(x64) * (size if scale == "none" else 1)
    np.testing.assert_allclose(found, expected, atol=atol)
    shuffled = group_advantages(
        jnp.asarray(rewards[order]), group_ids=jnp.asarray(IDS)[order], **settings
    )
    np.testing.assert_allclose(shuffled, expected[order], atol=atol)


@pytest.mark.parametrize("size", [2, 6, 7, 13])
@pytest.mark.parametrize("reward", [0.35, 0.1, -1 / 3, 1e6, 0.0])
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_group_whose_rewards_are_all_the_same_has_advantage_zero_exactly(
    x64: bool, size: int, reward: float, scale: str
) -> None:
    rewards = jnp.array([reward] * size + list(range(size)), float)
    for eps in (1e-6, 0.0):
        found = group_advantages(rewards, num_generations=size, scale=scale, eps=eps)
        assert found[:size].tolist() == [0] * size
        assert bool(jnp.isfinite(found).all())
        assert found[size:].any()


def test_rewards_that_differ_by_rounding_alone_are_the_same(x64: bool) -> None:
    rewards = jnp.array([0.1 + 0.2, 0.3, 1 - 0.7], float)
    assert group_advantages(rewards, num_generations=3).tolist() == [0, 0, 0]
    assert group_advantages(rewards + jnp.array([0, 0, 1e-3]), num_generations=3).any()


def test_small_gains_are_scaled_to_full_size(x64: bool) -> None:
    """Gains per token of a goal differ by little; neither `eps` nor a floor must swallow that."""
    rewards = jnp.array([1e-4, 2e-4, 3e-4, 4e-4])
    found = group_advantages(rewards, num_generations=4)
    assert jnp.std(found, ddof=1).item() == pytest.approx(1, rel=0.01)


def test_group_of_one_has_nothing_to_compare_with(x64: bool) -> None:
    for scale in ("group", "batch", "none"):
        found = group_advantages(jnp.array([2.0, 3.0]), num_generations=1, scale=scale)
        assert found.tolist() == [0, 0]


@pytest.mark.parametrize("garbage", [math.nan, math.inf, 1e30])
def test_rollouts_that_do_not_count_change_nothing(x64: bool, garbage: float) -> None:
    rewards = np.array([1.0, garbage, 2.0, 4.0, 5.0, garbage], jnp.result_type(float))
    where = np.array([True, False, True, True, True, False])
    for scale in ("group", "batch", "none"):
        found = np.asarray(group_advantages(rewards, num_generations=3, where=where, scale=scale))
        alone = group_advantages(rewards[where], num_generations=2, scale=scale)
        assert found[~where].tolist() == [0, 0]
        np.testing.assert_allclose(found[where], alone, rtol=1e-6)
    nobody = group_advantages(rewards, num_generations=3, where=~where & where)
    assert nobody.tolist() == [0] * 6


def test_reward_that_counts_and_is_not_a_number_shows(x64: bool) -> None:
    found = group_advantages(jnp.array([1.0, math.nan, 1.0, 2.0]), num_generations=2)
    assert bool(jnp.isnan(found[:2]).all()) and bool(jnp.isfinite(found[2:]).all())


@given(seed=SEEDS)
def test_prior_of_the_truth_cancels_within_a_group(x64: bool, seed: int) -> None:
    """Gains, and the final log probability of the truth (abstaining keeps the first one)."""
    random = np.random.default_rng(seed)
    prior = np.repeat(np.log(random.uniform(0.01, 0.5, GROUPS)), SIZE)
    final = np.log(random.uniform(0.01, 1, GROUPS * SIZE))
    final[::SIZE] = prior[::SIZE]
    for scale in ("group", "none"):
        gains, scores = (
            group_advantages(jnp.asarray(x), num_generations=SIZE, scale=scale)
            for x in (final - prior, final)
        )
        np.testing.assert_allclose(gains, scores, atol=tolerance(x64))


def test_length_of_the_goal_cancels_only_where_advantages_are_scaled(x64: bool) -> None:
    gains = jnp.array([0.5, 1.0, 0.2, 0.7])
    per_token = gains / jnp.array([10.0, 10.0, 40.0, 40.0])
    found = {
        (scale, name): group_advantages(x, num_generations=2, scale=scale)
        for scale in ("group", "none")
        for name, x in (("sum", gains), ("mean", per_token))
    }
    np.testing.assert_allclose(found["group", "sum"], found["group", "mean"], rtol=1e-3)
    assert abs(found["none", "mean"][1] / found["none", "mean"][3]).item() == pytest.approx(4)
    assert abs(found["none", "sum"][1] / found["none", "sum"][3]).item() == pytest.approx(1)


@pytest.mark.parametrize(
    "wrong",
    [{}, {"num_generations": 5}, {"num_generations": 0}, {"num_generations": 2, "scale": "std"}],
)
def test_groups_that_cannot_be_told_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting):
        group_advantages(jnp.zeros(4), **wrong)


# --- dynamic sampling and length ----------------------------------------------------------------


def test_dynamic_sampling_keeps_groups_in_which_the_outcome_differs(x64: bool) -> None:
    outcome = jnp.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    shaped = outcome + jnp.array([0.0, -0.3, 0.0, -0.1, -0.2, 0.0])
    kept = group_keep_mask(outcome, num_generations=2)
    assert kept.tolist() == [False] * 4 + [True] * 2
    assert group_keep_mask(shaped, num_generations=2).all()  # why the outcome is to be given
    abstained = jnp.zeros(6)
    assert not group_keep_mask(abstained, num_generations=3).any()


def test_dynamic_sampling_of_gains_has_a_tolerance_and_leaves_out_what_does_not_count() -> None:
    gains = jnp.array([0.5, 0.50001, 0.5, 0.9, 0.1, math.nan])
    kept = group_keep_mask(gains[:4], num_generations=2, tolerance=1e-3)
    assert kept.tolist() == [False, False, True, True]
    where = jnp.arange(6) < 5
    kept = group_keep_mask(gains, group_ids=jnp.array([0, 0, 1, 1, 2, 2]), where=where)
    assert kept.tolist() == [True, True, True, True, False, False]


def test_overlong_answers_are_penalised_along_the_published_line(x64: bool) -> None:
    lengths = jnp.array([0, 16384, 16385, 18432, 20480, 20481, 30000])
    found = soft_overlong(lengths, 20480, 4096)
    expected = [0, 0, -1 / 4096, -0.5, -1, -1, -1]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_overlong_penalty_without_a_cache_is_a_step(x64: bool) -> None:
    assert soft_overlong(jnp.array([9, 10, 11]), 10, 0).tolist() == [0, 0, -1]


# --- turns --------------------------------------------------------------------------------------


def test_turns_are_compared_before_they_are_discounted(x64: bool) -> None:
    rewards = np.array([[0.3, 0.1, 0.0], [0.0, -0.2, 0.5], [0.4, 0.0, 0.0], [0.1, 0.1, 0.1]])
    where = np.array([[1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]], bool)
    expected = np.zeros_like(rewards)
    for group in (slice(0, 2), slice(2, 4)):
        real = rewards[group][where[group]]
        scores = (rewards[group] - real.mean()) / (real.std(ddof=1) + 1e-6)
        for i, t in np.ndindex(*scores.shape):
            later = range(t, 3)
            expected[group][i, t] = where[group][i, t] * sum(
                0.9 ** (k - t) * scores[i, k] for k in later if where[group][i, k]
            )
    spoilt = jnp.where(jnp.asarray(where), jnp.asarray(rewards), jnp.nan)
    settings = {"discount": 0.9}
    found = turn_advantages(spoilt, jnp.asarray(where), num_generations=2, **settings)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    ids = jnp.array([5, 5, 1, 1])
    by_id = turn_advantages(spoilt, jnp.asarray(where), group_ids=ids, **settings)
    np.testing.assert_allclose(by_id, expected, atol=1e-5)
