"""The policy: fair to all pairs, never for closed ones, with clean gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from balar_core.policy import Likeliest, QuestionPolicy
from balar_core.simulation import Situation


def situation(information: list[float], is_open: list[bool]) -> Situation:
    told = jnp.array(information) * jnp.array(is_open)
    return Situation(
        information=told,
        answer_entropy=2 * told,
        open=jnp.array(is_open),
        entropy=jnp.array(1.5),
        best=jnp.array(0.4),
        left=jnp.array(3),
    )


@eqx.filter_jit
def log_probabilities(policy: QuestionPolicy, now: Situation) -> jax.Array:
    return policy.log_probabilities(now)


def random_policy(seed: int = 0) -> QuestionPolicy:
    """A policy whose last layers are not 0."""
    policy = QuestionPolicy.make(jax.random.key(seed), width=8)
    keys = iter(jax.random.split(jax.random.key(seed + 1), 20))

    def shake(leaf: object) -> object:
        if not isinstance(leaf, jax.Array):
            return leaf
        return leaf + jax.random.normal(next(keys), leaf.shape, leaf.dtype)

    shaken: QuestionPolicy = jax.tree.map(shake, policy)
    return shaken


def test_a_new_policy_is_uniform_over_what_it_may_do(x64: bool) -> None:
    policy = QuestionPolicy.make(jax.random.key(3))
    log_p = log_probabilities(policy, situation([0.1, 0.7, 0.2], [True, False, True]))
    np.testing.assert_allclose(np.exp(log_p), [1 / 3, 0, 1 / 3, 1 / 3], rtol=1e-6)
    assert log_p.dtype == (jnp.float64 if x64 else jnp.float32)


def test_pairs_in_another_order_have_their_probabilities_in_that_order() -> None:
    policy, order = random_policy(), np.array([2, 0, 3, 1])
    information, is_open = np.array([0.1, 0.7, 0.2, 0.0]), np.array([True, True, True, False])
    there = log_probabilities(policy, situation(information.tolist(), is_open.tolist()))
    here = log_probabilities(
        policy, situation(information[order].tolist(), is_open[order].tolist())
    )
    np.testing.assert_allclose(here[:-1], there[order], rtol=1e-5)
    np.testing.assert_allclose(here[-1], there[-1], rtol=1e-5)
    assert len(np.unique(there)) == 5
    np.testing.assert_allclose(np.exp(there).sum(), 1, rtol=1e-5)


def test_what_is_drawn_follows_the_probabilities_and_is_never_closed() -> None:
    policy, now = random_policy(), situation([0.1, 0.7, 0.2], [True, False, True])
    drawn = jax.vmap(policy, (None, 0))(now, jax.random.split(jax.random.key(0), 4000))
    shares = np.bincount(np.asarray(drawn), minlength=4) / 4000
    expected = np.exp(log_probabilities(policy, now))
    np.testing.assert_allclose(shares, expected, atol=0.03)
    assert shares[1] == 0
    assert Likeliest(policy)(now, jax.random.key(0)) == expected.argmax()


@pytest.mark.parametrize("is_open", [[True, False, True], [False, False, False]])
def test_gradients_are_finite_with_closed_pairs(is_open: list[bool], x64: bool) -> None:
    now = situation([0.1, 0.7, 0.2], is_open)

    def stop(policy: QuestionPolicy) -> jax.Array:
        return log_probabilities(policy, now)[-1]

    gradients = jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(stop))(random_policy()))
    assert all(np.isfinite(g).all() for g in gradients)
    assert any((np.asarray(g) != 0).any() for g in gradients) == any(is_open)
