"""Policy objectives: clipped the right way, averaged over the right things, clean where masked."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import (
    Loss,
    clip_fraction,
    dapo_loss,
    dr_grpo_loss,
    grpo_loss,
    kl_penalty,
    sequence_mean_token_mean,
    token_losses,
    token_mean,
)
from balar_core.errors import InvalidSetting

from . import policy_reference as reference
from .compilation import compilations

SEEDS = st.integers(0, 2**32 - 1)
BATCH, TOKENS, GENERATIONS = 6, 5, 3
LENGTH = 16


OBJECTIVES: dict[str, Callable[..., Loss]] = {
    "grpo": grpo_loss,
    "dr_grpo": lambda *a, **k: dr_grpo_loss(*a, max_completion_length=LENGTH, **k),
    "dapo": dapo_loss,
    "dapo by group": lambda *a, **k: dapo_loss(*a, num_generations=GENERATIONS, **k),
}


def slopes_of(objective: Callable[..., Loss]) -> Callable[..., tuple[Loss, jax.Array]]:
    """The loss of an objective and the slope of its total, compiled once."""

    def total(logps: jax.Array, *rest: jax.Array) -> tuple[jax.Array, Loss]:
        loss = objective(logps, *rest)
        return loss.total, loss

    def run(*arrays: jax.Array) -> tuple[Loss, jax.Array]:
        (_, loss), slope = jax.value_and_grad(total, has_aux=True)(*arrays)
        return loss, slope

    return jax.jit(run)


SLOPES = {name: slopes_of(OBJECTIVES[name]) for name in ("grpo", "dr_grpo", "dapo")}


class Draw:
    """A batch of rollouts of a policy that has moved away from the one that wrote them."""

    def __init__(self, seed: int, *, full: bool = False) -> None:
        random = np.random.default_rng(seed)
        shape = BATCH, TOKENS
        self.old = np.log(random.uniform(0.05, 0.95, shape))
        self.new = self.old + 0.4 * random.normal(size=shape)
        self.ref = self.old + 0.4 * random.normal(size=shape)
        self.advantages = random.normal(size=shape)
        lengths = random.integers(1 if full else 0, TOKENS + 1, BATCH)
        self.mask = np.arange(TOKENS)[None, :] < lengths[:, None]

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(jnp.result_type(float))

    def arrays(self) -> tuple[np.ndarray, ...]:
        arrays = self.new, self.old, self.advantages
        return (*(x.astype(self.dtype) for x in arrays), self.mask)


def tolerance(x64: bool) -> float:
    return 1e-12 if x64 else 1e-5


# --- clipping -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("advantage", "ratio", "gain", "slope"),
    [
        (1.0, 1.5, 1.28, 0.0),
        (1.0, 0.5, 0.5, 0.5),
        (-1.0, 1.5, -1.5, -1.5),
        (-1.0, 0.5, -0.8, 0.0),
        (0.0, 1.5, 0.0, 0.0),
        (0.0, 0.5, 0.0, 0.0),
        (2.0, 1.0, 2.0, 2.0),
        (-2.0, 1.0, -2.0, -2.0),
    ],
)
def test_ratio_is_clipped_on_the_side_where_the_advantage_pulls(
    x64: bool, advantage: float, ratio: float, gain: float, slope: float
) -> None:
    def total(logps: jax.Array) -> jax.Array:
        old, mask = jnp.zeros((1, 1)), jnp.ones((1, 1), bool)
        return dapo_loss(logps, old, jnp.full(1, advantage), mask).total

    value, gradient = jax.value_and_grad(total)(jnp.full((1, 1), math.log(ratio)))
    assert value.item() == pytest.approx(-gain, rel=1e-6, abs=1e-12)
    assert gradient.item() == pytest.approx(-slope, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("advantage", "ratio", "gain", "slope"),
    [(-1.0, 5.0, -3.0, 0.0), (-1.0, 2.0, -2.0, -2.0), (1.0, 5.0, 1.2, 0.0), (1.0, 0.1, 0.1, 0.1)],
)
def test_dual_clip_touches_negative_advantages_alone(
    x64: bool, advantage: float, ratio: float, gain: float, slope: float
) -> None:
    def total(logps: jax.Array) -> jax.Array:
        old, mask = jnp.zeros((1, 1)), jnp.ones((1, 1), bool)
        return grpo_loss(logps, old, jnp.full(1, advantage), mask, delta=3.0).total

    value, gradient = jax.value_and_grad(total)(jnp.full((1, 1), math.log(ratio)))
    assert value.item() == pytest.approx(-gain, rel=1e-6)
    assert gradient.item() == pytest.approx(-slope, rel=1e-6)


def test_policy_that_has_not_moved_is_never_clipped_and_a_moved_one_is(x64: bool) -> None:
    new, old, advantages, mask = Draw(0, full=True).arrays()

    def total(logps: jax.Array) -> jax.Array:
        return token_mean(*token_losses(logps, old, advantages, mask, epsilon=0.01)).total

    at_old = jax.grad(total)(old)
    np.testing.assert_allclose(at_old, jnp.where(mask, -advantages, 0), rtol=1e-6)
    assert clip_fraction(old, old, advantages, mask, epsilon=0.01).mean.item() == 0
    assert clip_fraction(new, old, advantages, mask, epsilon=0.01).mean.item() > 0.3
    assert jnp.sum(jax.grad(total)(new) == 0) > jnp.sum(at_old == 0)


SETTINGS: dict[str, float] = {"epsilon": 0.2, "epsilon_high": 0.3, "delta": 2.0, "beta": 0.1}


@jax.jit
def losses_and_slopes(
    new: jax.Array, old: jax.Array, advantages: jax.Array, mask: jax.Array, ref: jax.Array
) -> tuple[jax.Array, jax.Array]:
    def total(logps: jax.Array) -> tuple[jax.Array, jax.Array]:
        losses, _ = token_losses(logps, old, advantages, mask, ref_per_token_logps=ref, **SETTINGS)
        return jnp.sum(losses), losses

    gradient, losses = jax.grad(total, has_aux=True)(new)
    return losses, gradient


@given(seed=SEEDS)
def test_losses_and_slopes_agree_with_the_formula(x64: bool, seed: int) -> None:
    draw = Draw(seed)
    losses, gradient = losses_and_slopes(*draw.arrays(), np.asarray(draw.ref, draw.dtype))
    step = 1e-6
    expected, up, down = (
        reference.token_losses(draw.new + h, draw.old, draw.advantages, ref=draw.ref, **SETTINGS)
        for h in (0, step, -step)
    )
    np.testing.assert_allclose(losses, np.where(draw.mask, expected, 0), atol=tolerance(x64))
    ratio = np.exp(draw.new - draw.old)
    smooth = np.min([np.abs(ratio - kink) for kink in (0.8, 1.3, 2.0)], axis=0) > 1e-4
    slope = np.where(draw.mask, (up - down) / (2 * step), 0)
    error = np.where(smooth, np.asarray(gradient) - slope, 0)
    np.testing.assert_allclose(error, 0, atol=1e-7 if x64 else 1e-5)


def test_enormous_ratios_stay_finite_with_their_slopes(x64: bool) -> None:
    new = jnp.array([[0.0, -2000.0, 0.0, -jnp.inf]])
    old = jnp.array([[-2000.0, 0.0, -jnp.inf, -1.0]])
    for sign in (1.0, -1.0):
        for delta in (None, 3.0):

            def total(
                logps: jax.Array, sign: float = sign, delta: float | None = delta
            ) -> jax.Array:
                mask = jnp.ones(logps.shape, bool)
                return grpo_loss(logps, old, jnp.full(1, sign), mask, delta=delta).total

            value, gradient = jax.value_and_grad(total)(new)
            assert bool(jnp.isfinite(value))
            assert bool(jnp.isfinite(gradient).all())


def test_half_precision_is_widened_before_it_is_subtracted() -> None:
    exact = np.array([[-100.5, -3.25]])
    coarse = jnp.asarray(exact, jnp.bfloat16)
    losses, _ = token_losses(
        coarse, jnp.asarray(exact - 0.125, jnp.float32), jnp.ones(1), jnp.ones((1, 2), bool)
    )
    assert losses.dtype == jnp.float32
    expected = -np.exp(np.asarray(coarse, np.float64) - (exact - 0.125))
    np.testing.assert_allclose(losses, np.maximum(expected, -1.2), rtol=1e-6)


def test_advantages_and_old_and_reference_policies_are_constants(x64: bool) -> None:
    new, old, advantages, mask = Draw(1).arrays()

    def total(old: jax.Array, advantages: jax.Array, ref: jax.Array) -> jax.Array:
        return grpo_loss(new, old, advantages, mask, ref_per_token_logps=ref).total

    for gradient in jax.grad(total, argnums=(0, 1, 2))(old, advantages, old - 0.1):
        assert not gradient.any()


# --- the KL term --------------------------------------------------------------------------------


def test_without_a_reference_policy_there_is_no_penalty(x64: bool) -> None:
    arrays = Draw(2).arrays()
    assert grpo_loss(*arrays, beta=5.0) == grpo_loss(*arrays, beta=0.0)


def test_penalty_averages_to_the_divergence_of_the_policies(x64: bool) -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    logps, ref = jnp.log(jnp.array(p))[None, :], jnp.log(jnp.array(q))[None, :]
    penalty = kl_penalty(logps, ref, jnp.ones((1, 3), bool))
    assert bool((penalty >= 0).all()) and penalty[0, 1].item() == 0
    assert (penalty[0] @ jnp.array(p)).item() == pytest.approx((p * np.log(p / q)).sum(), rel=1e-6)


# --- what a token counts ------------------------------------------------------------------------


@given(seed=SEEDS)
def test_objectives_agree_with_their_formulas(x64: bool, seed: int) -> None:
    draw = Draw(seed)
    ids = np.random.default_rng(seed).permutation(np.arange(BATCH) // GENERATIONS)
    found = {
        **{name: objective(*draw.arrays()).mean for name, objective in OBJECTIVES.items()},
        "ids": dapo_loss(*draw.arrays(), group_ids=jnp.asarray(ids)).mean,
    }
    symmetric = reference.token_losses(draw.new, draw.old, draw.advantages)
    higher = reference.token_losses(draw.new, draw.old, draw.advantages, epsilon_high=0.28)
    expected = {
        "grpo": reference.grpo(symmetric, draw.mask),
        "dr_grpo": reference.dr_grpo(symmetric, draw.mask, LENGTH),
        "dapo": reference.dapo_batch(higher, draw.mask),
        "dapo by group": reference.dapo_groups(
            higher, draw.mask, [i // GENERATIONS for i in range(BATCH)]
        ),
        "ids": reference.dapo_groups(higher, draw.mask, ids.tolist()),
    }
    for name, value in expected.items():
        assert found[name].item() == pytest.approx(value, abs=tolerance(x64)), name


def part(arrays: Sequence[np.ndarray], rows: np.ndarray, width: int) -> list[np.ndarray]:
    """Some rows, padded with empty rows to the whole batch and with garbage to `width` tokens."""
    padded = []
    for x in arrays:
        whole = np.full((BATCH, width), False if x.dtype == bool else np.nan, x.dtype)
        whole[: len(rows), : x.shape[1]] = x[rows]
        padded.append(whole)
    return padded


@pytest.mark.parametrize("name", SLOPES)
@given(seed=SEEDS, cut=st.integers(0, BATCH))
def test_parts_of_a_batch_add_up_to_the_whole_however_cut_padded_and_shuffled(
    x64: bool, name: str, seed: int, cut: int
) -> None:
    arrays = Draw(seed).arrays()
    order = np.random.default_rng(seed).permutation(BATCH)
    whole, gradient = SLOPES[name](*arrays)
    total, denominator, slopes = 0.0, 0.0, np.zeros(gradient.shape)
    for rows in (order[:cut], order[cut:]):
        loss, slope = SLOPES[name](*part(arrays, rows, TOKENS + 2))
        total, denominator = total + loss.total.item(), denominator + loss.denominator.item()
        slopes[rows] = slope[: len(rows), :TOKENS]
        assert not np.asarray(slope)[len(rows) :].any()
    assert denominator == whole.denominator.item()
    assert total == pytest.approx(whole.total.item(), abs=10 * tolerance(x64))
    np.testing.assert_allclose(slopes, gradient, atol=tolerance(x64))


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 1e30])
def test_masked_entries_change_neither_value_nor_slope(
    x64: bool, name: str, garbage: float
) -> None:
    draw = Draw(3)
    new, old, advantages, mask = draw.arrays()
    extra = {} if name.startswith("dapo") else {"ref_per_token_logps": jnp.asarray(draw.ref, float)}

    def total(logps: jax.Array, spoilt: float | None) -> jax.Array:
        def spoil(x: jax.Array) -> jax.Array:
            return x if spoilt is None else jnp.where(mask, x, spoilt)

        more = {key: spoil(x) for key, x in extra.items()}
        return OBJECTIVES[name](spoil(logps), spoil(old), spoil(advantages), mask, **more).total

    clean = jax.value_and_grad(total)(new, None)
    spoilt = jax.value_and_grad(total)(jnp.where(mask, new, garbage), garbage)
    assert clean[0] == spoilt[0]
    np.testing.assert_array_equal(clean[1], spoilt[1])
    assert not spoilt[1][~mask].any()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_batch_without_a_token_has_loss_zero_and_no_slope(x64: bool, name: str) -> None:
    new, old, advantages, mask = Draw(4).arrays()

    def mean(logps: jax.Array) -> jax.Array:
        return OBJECTIVES[name](logps, old, advantages, jnp.zeros_like(mask)).mean

    value, gradient = jax.value_and_grad(mean)(new)
    assert value.item() == 0
    assert not gradient.any()


def test_empty_sequences_do_not_count_in_a_mean_over_sequences() -> None:
    values, mask = jnp.array([[2.0, 4.0], [9.0, 9.0]]), jnp.array([[True, True], [False, False]])
    assert sequence_mean_token_mean(values, mask).mean.item() == 3


def test_constant_of_dr_grpo_is_not_the_padded_width(x64: bool) -> None:
    arrays = Draw(5).arrays()
    wider = part(arrays, np.arange(BATCH), TOKENS + 3)
    narrow = OBJECTIVES["dr_grpo"](*arrays)
    assert narrow.mean.item() == pytest.approx(OBJECTIVES["dr_grpo"](*wider).mean.item(), rel=1e-6)
    rows = int(arrays[-1].any(axis=1).sum())
    assert narrow.denominator.item() == rows * LENGTH


def test_token_mean_of_batch_and_of_groups_differ_for_two_groups_and_not_for_one(x64: bool) -> None:
    draw = Draw(6, full=True)
    draw.mask[:GENERATIONS] = np.arange(TOKENS) < 1
    arrays = draw.arrays()
    whole = dapo_loss(*arrays).mean.item()
    one = dapo_loss(*arrays, num_generations=BATCH).mean.item()
    two = dapo_loss(*arrays, num_generations=GENERATIONS).mean.item()
    assert one == pytest.approx(whole, rel=1e-6)
    assert abs(two - whole) > 0.01


def test_rows_that_are_not_kept_have_no_part_in_loss_penalty_or_denominator(x64: bool) -> None:
    draw = Draw(7, full=True)
    new, old, advantages, mask = draw.arrays()
    advantages[:3] = 0  # a group without spread
    ref = jnp.asarray(draw.ref, float)
    keep = jnp.arange(BATCH) >= 3

    def total(logps: jax.Array, keep: jax.Array | None) -> tuple[jax.Array, Loss]:
        loss = grpo_loss(logps, old, advantages, mask, ref_per_token_logps=ref, keep=keep)
        return loss.total, loss

    run = jax.value_and_grad(total, has_aux=True)
    (_, kept), gradient = run(new, keep)
    (_, published), pulled = run(new, None)
    assert (kept.denominator, published.denominator) == (3, 6)
    assert not gradient[:3].any()
    assert pulled[:3].any()  # the penalty pulls where the advantage does not
    rest = grpo_loss(new[3:], old[3:], advantages[3:], mask[3:], ref_per_token_logps=ref[3:])
    assert kept.mean.item() == pytest.approx(rest.mean.item(), rel=1e-6)


def test_one_advantage_per_sequence_is_the_same_as_one_for_each_of_its_tokens(x64: bool) -> None:
    new, old, advantages, mask = Draw(8).arrays()
    per_token = jnp.broadcast_to(advantages[:, :1], advantages.shape)
    assert dapo_loss(new, old, advantages[:, 0], mask) == dapo_loss(new, old, per_token, mask)


def test_objectives_can_be_mapped_over(x64: bool) -> None:
    draws = [Draw(9).arrays(), Draw(10).arrays()]
    stacked = [jnp.stack(x) for x in zip(*draws, strict=True)]
    found = jax.vmap(dapo_loss)(*stacked)
    for i, arrays in enumerate(draws):
        assert found.total[i].item() == pytest.approx(dapo_loss(*arrays).total.item(), rel=1e-5)


def test_other_thresholds_compile_nothing(x64: bool) -> None:
    arrays = Draw(11).arrays()
    dapo_loss(*arrays, epsilon=0.1, epsilon_high=0.2, delta=3.0)
    with compilations() as counter:
        dapo_loss(*arrays, epsilon=0.2, epsilon_high=0.3, delta=10.0)
    assert counter == [0]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"old_per_token_logps": jnp.zeros((BATCH, 1))}, "old_per_token_logps"),
        ({"advantages": jnp.zeros(TOKENS)}, "advantages"),
        ({"advantages": jnp.zeros((1, TOKENS))}, "advantages"),
        ({"completion_mask": jnp.ones((BATCH, 1), bool)}, "completion_mask"),
        ({"keep": jnp.ones((BATCH, 1), bool)}, "keep"),
        ({"num_generations": 4}, "num_generations=4"),
        ({"num_generations": 2, "group_ids": jnp.zeros(BATCH, int)}, "not by both"),
        ({"group_ids": jnp.zeros(2, int)}, "group_ids"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_by_name(changed: dict[str, Any], named: str) -> None:
    names = ("per_token_logps", "old_per_token_logps", "advantages", "completion_mask")
    given = dict(zip(names, Draw(12).arrays(), strict=True)) | changed
    with pytest.raises(InvalidSetting, match=named):
        dapo_loss(**given)
