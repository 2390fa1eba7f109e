"""Laws of the information-gain reward over several exchanges, and of worse and better answers."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from balar_core import (
    Belief,
    Exchanges,
    LikelihoodTables,
    Truth,
    batch_rewards,
    expected_gain,
    mutual_information,
    true_state,
    update,
)

from .. import reference
from ..strategies import build, make_world, soft, space_of

SEEDS = st.integers(0, 2**32 - 1)
KINDS = st.sampled_from(["labels", "dense", "irrelevant", "weak"])
SIZES, CHOICES = (3, 4), (3, 3)
STATES = math.prod(SIZES)


@jax.jit
def all_means(belief: Belief, tables: LikelihoodTables, truths: Truth) -> jax.Array:
    """`expected_gain` for every truth."""
    return jax.vmap(expected_gain, in_axes=(None, None, 0))(belief, tables, truths)


def tolerance(x64: bool) -> float:
    return 1e-9 if x64 else 5e-5


@given(seed=SEEDS, kind=KINDS, silent=st.integers(0, 3))
def test_gains_telescope_in_any_order_with_silent_turns_between(
    x64: bool, seed: int, kind: str, silent: int
) -> None:
    world = make_world(seed, kind, SIZES, CHOICES)
    random = np.random.default_rng(seed)
    _, belief, tables = build(world)
    state = int(random.integers(STATES))
    talk = [(int(random.integers(2)), int(random.integers(2)), soft(random, 3)) for _ in range(3)]
    posterior = world.prior()
    for q, u, weights in talk:
        posterior, _ = reference.update(posterior, world.likelihood((q, u)), weights)
    told = [(q, u, tuple(map(float, weights))) for q, u, weights in talk]
    forth = [*told[:silent], None, *told[silent:]]
    exchanges = Exchanges.of(tables, [forth, [None, *told[::-1]]])
    truths = jax.vmap(true_state, in_axes=(None, 0))(belief.layout, jnp.array([state, state]))
    found = batch_rewards(belief, tables, exchanges, truths)
    gains = np.asarray(found.gain, np.float64)
    expected = math.log(posterior[state] / world.prior()[state])
    np.testing.assert_allclose(gains.sum(axis=1), expected, atol=tolerance(x64))
    change = np.asarray(found.log_truth, np.float64)
    np.testing.assert_allclose(change[:, -1] - change[:, 0], expected, atol=tolerance(x64))
    assert gains[0, silent] == 0 and gains[1, 0] == 0


@given(seed=SEEDS)
def test_truthful_answers_without_noise_gain_what_they_were_unexpected(
    x64: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    table = np.eye(3)[random.integers(3, size=4)]
    prior = random.dirichlet(np.ones(4))
    space = space_of((4,))
    belief = Belief.from_priors(space, [prior], bucketed=True)
    tables = LikelihoodTables.build(space, [3], {(0, 0): [table]}, bucketed=True)
    told = [[(0, 0, int(table[k].argmax()))] * 2 for k in range(4)]
    truths = jax.vmap(true_state, in_axes=(None, 0))(belief.layout, jnp.arange(4))
    gains = np.asarray(batch_rewards(belief, tables, Exchanges.of(tables, told), truths).gain)
    unexpected = -np.log(np.minimum(table @ (prior @ table), 1))
    np.testing.assert_allclose(gains[:, 0], unexpected, atol=tolerance(x64))
    assert (gains[:, 0] >= -tolerance(x64) / 100).all()
    assert not gains[:, 1].any()  # asked again it tells nothing


@settings(max_examples=25)
@given(seed=SEEDS, kind=KINDS, follow=st.tuples(*[st.integers(0, 1)] * 3))
def test_information_of_a_policy_is_the_sum_of_what_its_questions_tell(
    x64: bool, seed: int, kind: str, follow: tuple[int, int, int]
) -> None:
    world = make_world(seed, kind, SIZES, CHOICES)
    _, belief, tables = build(world)
    first = world.likelihood((0, 0))
    m = world.prior() @ first
    information = np.asarray(mutual_information(belief, tables), np.float64)
    total, repeated = information[0, 0], np.zeros_like(information)
    gained = np.zeros((STATES, 3))
    truths = jax.vmap(true_state, in_axes=(None, 0))(belief.layout, jnp.arange(STATES))
    one_hot = np.eye(tables.choice_mask.shape[1])
    for a in range(3):
        after = update(belief, tables, 0, 0, jnp.array(one_hot[a])).belief
        left = np.asarray(mutual_information(after, tables), np.float64)
        total += m[a] * left[1, follow[a]]
        repeated += m[a] * left
        means = all_means(after, tables, truths)
        gained[:, a] = np.asarray(means)[:, 1, follow[a]]
    # By enumeration: the information of the first answer and of the one that follows it, at once.
    both = np.concatenate(
        [first[:, [a]] * world.likelihood((1, follow[a])) for a in range(3)], axis=1
    )
    atol = 10 * tolerance(x64)
    assert abs(total - reference.mutual_information(world.prior(), both)) <= atol
    # By rewards: for each truth, the mean gain of the first turn and that of the second.
    begun = all_means(belief, tables, truths)
    summed = np.asarray(begun, np.float64)[:, 0, 0] + (first * gained).sum(axis=1)
    assert abs(world.prior() @ summed - total) <= atol
    # Answers that do not depend on each other but through the state never tell more together.
    assert (repeated <= information + atol).all()


@given(seed=SEEDS, noise=st.floats(0, 1))
def test_answers_through_any_channel_never_tell_more(x64: bool, seed: int, noise: float) -> None:
    random = np.random.default_rng(seed)
    space = space_of((4,))
    belief = Belief.from_priors(space, [random.dirichlet(np.ones(4))], bucketed=True)
    table = random.dirichlet(np.full(3, 0.5), 4)
    channel = (1 - noise) * np.eye(3) + noise * random.dirichlet(np.full(3, 0.3), 3)
    given_tables = {(0, 0): [table], (1, 0): [table @ channel]}
    tables = LikelihoodTables.build(space, [3, 3], given_tables, bucketed=True)
    straight, garbled = np.asarray(mutual_information(belief, tables))[:2, 0]
    assert 0 <= garbled <= straight + tolerance(x64) / 10
