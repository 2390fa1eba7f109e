"""The information-gain reward: its identities on made-up worlds, and dialogues of any length."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import (
    Belief,
    DialogueRewards,
    Exchanges,
    LikelihoodTables,
    StateSpace,
    Status,
    Truth,
    batch_rewards,
    dialogue_rewards,
    expected_gain,
    joint,
    log_probability,
    mutual_information,
    pointwise_gain,
    true_answer,
    true_state,
    true_value,
    update,
)
from balar_core.errors import InvalidEvidence, UnknownPair

from . import reference
from .reference import World
from .strategies import build, build_answers, evidence, make_world, soft, space_of, worlds

INF = math.inf
SEEDS = st.integers(0, 2**32 - 1)
FULL = ("labels", "dense", "irrelevant", "weak")
STATES, CHOICES = 16, 4
"""Worlds of two dimensions have at most so many states and choices."""


def tolerance(x64: bool) -> float:
    return 1e-9 if x64 else 2e-5


@jax.jit
def all_gains(
    belief: Belief, tables: LikelihoodTables
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Of question 0, user 0: gains by state and choice, their means, information, posteriors."""
    truths = jax.vmap(true_state, in_axes=(None, 0))(belief.layout, jnp.arange(STATES))

    def gain(truth: Truth, answer: jax.Array) -> jax.Array:
        return pointwise_gain(belief, tables, 0, 0, answer, truth).gain

    one_hot = jnp.eye(tables.choice_mask.shape[1])
    gains = jax.vmap(jax.vmap(gain, (None, 0)), (0, None))(truths, one_hot)
    means = jax.vmap(lambda truth: expected_gain(belief, tables, truth)[0, 0])(truths)
    posteriors = jax.vmap(lambda answer: update(belief, tables, 0, 0, answer).belief.log_joint)
    return gains, means, mutual_information(belief, tables)[0, 0], posteriors(one_hot)


class Channel:
    """Prior p, likelihood L and answer distribution m of a world, and what the engine makes of it.

    The probabilities are the doubled ones of the world, of the shape (states, choices).
    """

    def __init__(self, world: World) -> None:
        self.p = world.prior()
        self.likelihood = world.likelihood((0, 0))
        self.m = self.p @ self.likelihood
        states, choices = self.likelihood.shape
        space, belief, tables = build(world)
        gains, means, information, posteriors = all_gains(belief, tables)
        self.gains = np.asarray(gains, np.float64)[:states, :choices]
        self.means = np.asarray(means)[:states]
        self.information = float(information)
        self.posteriors = np.stack(
            [joint(Belief(x, belief.layout), space).ravel() for x in posteriors[:choices]], axis=1
        )
        self.occurs = (self.p[:, None] > 0) & (self.m[None, :] > 0)
        self.possible = self.occurs & (self.likelihood > 0)
        self.exact = np.where(self.occurs, -INF, 0)
        ratio = np.divide(
            self.likelihood, self.m[None, :], out=np.ones_like(self.exact), where=self.possible
        )
        self.exact[self.possible] = np.log(ratio[self.possible])

    def mean(self, weights: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Sums over states and choices that may occur together."""
        return np.where(self.possible, weights * np.where(self.possible, values, 0), 0)


# --- one exchange -------------------------------------------------------------------------------


@given(world=worlds(dimensions=2))
def test_gains_satisfy_the_identities_of_information(x64: bool, world: World) -> None:
    channel = Channel(world)
    p, k, m, gains = channel.p[:, None], channel.likelihood, channel.m[None, :], channel.gains
    atol = tolerance(x64)
    with np.errstate(divide="ignore"):
        log_p, log_m = np.log(p), np.log(m)
    big = 1 + np.abs(np.where(np.isfinite(channel.exact), channel.exact, 0))
    np.testing.assert_array_equal(np.isneginf(gains), np.isneginf(channel.exact))
    finite = np.isfinite(gains)
    assert (np.abs(gains[finite] - channel.exact[finite]) <= 10 * atol * big[finite]).all()

    # Averaged over both: mutual information, three ways.
    both = channel.mean(p * k, gains).sum()
    assert both == pytest.approx(channel.information, abs=atol)
    prior_less_posterior = reference.entropy(channel.p) - reference.expected_posterior_entropy(
        channel.p, k
    )
    assert both == pytest.approx(prior_less_posterior, abs=atol)
    rows = sum(pi * reference.entropy(row) for pi, row in zip(channel.p, k, strict=True))
    assert both == pytest.approx(reference.entropy(channel.m) - rows, abs=atol)

    # Over states given an answer, and over answers given a state: divergences.
    posterior = np.divide(p * k, m, out=np.zeros_like(k), where=channel.occurs)
    by_answer = channel.mean(posterior, gains).sum(axis=0)
    for a in np.flatnonzero(channel.m > 0):
        seen = channel.posteriors[:, a]
        kl = (
            reference.plogp(seen).sum()
            - np.where(seen > 0, seen * np.maximum(log_p[:, 0], -1e9), 0).sum()
        )
        assert by_answer[a] == pytest.approx(kl, abs=10 * atol)
    assert (by_answer >= -atol).all()
    by_state = channel.mean(k, gains).sum(axis=1)
    np.testing.assert_allclose(by_state, channel.means, atol=10 * atol)
    assert (channel.means >= 0).all()

    # Exponential means and the tail.
    assert channel.mean(p * m, np.exp(gains)).sum() == pytest.approx(1, abs=10 * atol)
    backwards = channel.mean(p * k, np.exp(-np.where(finite, gains, 0))).sum()
    full = channel.possible[channel.occurs].all() and channel.occurs.all()
    assert backwards == pytest.approx(1, abs=10 * atol) if full else backwards <= 1 + 10 * atol
    for t in (0.5, 1.0, 2.0):
        assert np.where(gains <= -t, p * k, 0).sum() <= math.exp(-t)

    # Bounds.
    bound = np.minimum(-log_p, -log_m)
    assert (gains - bound <= atol * big)[channel.occurs].all()
    assert channel.information <= math.log(min(k.shape)) + atol


@given(world=worlds(kinds=FULL, dimensions=2), seed=SEEDS)
def test_under_another_world_than_the_belief_the_mean_gain_loses_what_is_believed_wrongly(
    x64: bool, world: World, seed: int
) -> None:
    """E*[gain] = I* - (mean KL of the posteriors - KL of the priors), and may be negative."""
    channel = Channel(world)
    random = np.random.default_rng(seed)
    states, choices = channel.likelihood.shape
    true_p = random.dirichlet(np.ones(states))
    true_k = random.dirichlet(np.ones(choices), states)
    true_m = true_p @ true_k
    true_posterior = (true_p[:, None] * true_k / true_m).T
    believed = (channel.p[:, None] * channel.likelihood / channel.m).T

    def kl(p: np.ndarray, q: np.ndarray) -> float:
        return float((p * np.log(p / q)).sum())

    mean = (true_p[:, None] * true_k * channel.gains).sum()
    lost = sum(
        weight * kl(p, q) for weight, p, q in zip(true_m, true_posterior, believed, strict=True)
    )
    information = reference.mutual_information(true_p, true_k)
    expected = information - (lost - kl(true_p, channel.p))
    assert mean == pytest.approx(expected, abs=100 * tolerance(x64))


def test_misleading_world_makes_an_informative_question_lose(x64: bool) -> None:
    belief, tables = pair([[0.9, 0.1], [0.1, 0.9]])
    gains = [
        pointwise_gain(belief, tables, 0, 0, evidence(tables, answer), truth(belief, 0)).gain.item()
        for answer in ([1, 0], [0, 1])
    ]
    assert 0.1 * gains[0] + 0.9 * gains[1] < -1  # the world answers the other way round


def pair(
    table: list[list[float]], prior: tuple[float, float] = (0.5, 0.5)
) -> tuple[Belief, LikelihoodTables]:
    space = space_of((2,))
    belief = Belief.from_priors(space, [prior], bucketed=True)
    return belief, LikelihoodTables.build(space, [2], {(0, 0): [table]}, bucketed=True)


def truth(belief: Belief, index: int) -> Truth:
    return true_state(belief.layout, index)


@given(seed=SEEDS, kind=st.sampled_from(["labels", "dense", "sharp", "zeros", "weak"]))
def test_answer_that_all_possible_states_give_alike_gains_exactly_nothing(
    x64: bool, seed: int, kind: str
) -> None:
    world = make_world(seed, kind, (3, 4), (3,), users=2)
    random = np.random.default_rng(seed)
    row = random.dirichlet(np.ones(3))
    useless = (np.tile(row, (3, 1)), np.tile(random.dirichlet(np.ones(3)), (4, 1)))
    world.tables[0, 1] = useless
    _, belief, tables = build(world)
    answer = evidence(tables, np.eye(3)[int(random.integers(3))])
    possible = int(np.flatnonzero(world.prior())[0])
    assert pointwise_gain(belief, tables, 0, 1, answer, truth(belief, possible)).gain.item() == 0
    flat = evidence(tables, np.full(3, 0.7))
    assert pointwise_gain(belief, tables, 0, 0, flat, truth(belief, possible)).gain.item() == 0


def test_truthful_answer_without_noise_never_loses_and_tells_nothing_twice(x64: bool) -> None:
    space = space_of((4,))
    table = np.eye(2)[[0, 0, 0, 1]]
    belief = Belief.from_priors(space, [(0.1, 0.2, 0.3, 0.4)], bucketed=True)
    tables = LikelihoodTables.build(space, [2], {(0, 0): [table]}, bucketed=True)
    for state, m in enumerate([0.6, 0.6, 0.6, 0.4]):
        answer = evidence(tables, table[state])
        once = pointwise_gain(belief, tables, 0, 0, answer, truth(belief, state))
        assert once.gain.item() == pytest.approx(-math.log(m), rel=1e-5)
        again = pointwise_gain(once.update.belief, tables, 0, 0, answer, truth(belief, state))
        assert again.gain.item() == 0


def test_small_gains_keep_their_digits_in_single_precision() -> None:
    for weak in (1e-3, 1e-5, 1e-6):
        shift = float(np.float32(0.5 + weak)) - 0.5
        belief, tables = pair([[0.5 + shift, 0.5 - shift], [0.5, 0.5]], (0.25, 0.75))
        found = pointwise_gain(belief, tables, 0, 0, evidence(tables, [1, 0]), truth(belief, 0))
        exact = math.log((0.5 + shift) / (0.25 * (0.5 + shift) + 0.75 * 0.5))
        assert found.gain.item() == pytest.approx(exact, rel=0.07 if weak < 1e-5 else 0.02)
    assert exact < 1.6e-6  # a difference of log probabilities would be rounding alone


def test_enormous_evidence_is_weighed_in_log_space(x64: bool) -> None:
    tiny = 1e-36
    belief, tables = pair([[1 - tiny, tiny], [0.5, 0.5]], (1 - 1e-30, 1e-30))
    answer = evidence(tables, [0, 1])
    exact = math.log(tiny / (tiny + 1e-30 * 0.5))
    for state, expected in ((0, exact), (1, math.log(0.5 / (tiny + 1e-30 * 0.5)))):
        found = pointwise_gain(belief, tables, 0, 0, answer, truth(belief, state))
        assert found.gain.item() == pytest.approx(expected, rel=1e-5)


def test_what_cannot_be_is_told_and_never_a_nan(x64: bool) -> None:
    belief, tables = pair([[1.0, 0.0], [0.0, 1.0]], (1.0, 0.0))
    no, yes = evidence(tables, [1, 0]), evidence(tables, [0, 1])
    impossible = pointwise_gain(belief, tables, 0, 0, yes, truth(belief, 0))
    assert (impossible.gain.item(), bool(impossible.possible)) == (0, True)
    assert bool(impossible.update.status == Status.impossible_evidence)
    for index in (1, 2, -1):  # excluded by the prior; no such state
        excluded = pointwise_gain(belief, tables, 0, 0, no, truth(belief, index))
        assert (excluded.gain.item(), bool(excluded.possible)) == (0, False)
    belief, tables = pair([[1.0, 0.0], [0.5, 0.5]])
    ruled_out = pointwise_gain(belief, tables, 0, 0, yes, truth(belief, 0))
    assert (ruled_out.gain.item(), bool(ruled_out.possible)) == (-INF, True)
    assert expected_gain(*pair([[1.0, 0.0], [0.0, 1.0]], (1.0, 0.0)), truth(belief, 1))[0, 0] == 0


# --- other truths -------------------------------------------------------------------------------


@given(world=worlds(kinds=FULL, dimensions=2), seed=SEEDS)
def test_gain_of_a_value_or_an_answer_is_the_change_of_its_log_probability(
    x64: bool, world: World, seed: int
) -> None:
    random = np.random.default_rng(seed)
    _, belief, tables = build(world)
    answers = build_answers(world)
    weights = soft(random, world.choices[0])
    pi, k = world.prior(), world.likelihood((0, 0))
    after, _ = reference.update(pi, k, weights)

    def marginal(p: np.ndarray) -> np.ndarray:
        return reference.marginals(p, world.sizes)[1]

    def answered(p: np.ndarray, per_state: bool) -> np.ndarray:
        return reference.answer_posterior(
            p, world.sizes, world.answer_tables, world.answers, per_state=per_state
        )

    value = int(random.integers(world.sizes[1]))
    answer = int(random.integers(world.answers))
    cases = [(true_value(belief.layout, 1, value), marginal(pi)[value], marginal(after)[value])]
    for per_state in (False, True):
        one = true_answer(belief.layout, answers, answer, per_state=per_state)
        cases.append((one, answered(pi, per_state)[answer], answered(after, per_state)[answer]))
    for given_truth, before, then in cases:
        found = pointwise_gain(belief, tables, 0, 0, evidence(tables, weights), given_truth)
        assert found.gain.item() == pytest.approx(math.log(then / before), abs=tolerance(x64))
        prior = log_probability(belief, given_truth).item()
        assert prior == pytest.approx(math.log(before), abs=tolerance(x64))
        posterior = log_probability(found.update.belief, given_truth).item()
        assert posterior == pytest.approx(math.log(then), abs=tolerance(x64))


def test_answers_and_values_that_do_not_exist_have_no_probability(x64: bool) -> None:
    world = make_world(0, "dense", (2, 3), (2,), answers=3)
    _, belief, _ = build(world)
    layout, answers = belief.layout, build_answers(world)
    nothing = [true_value(layout, 0, 2), true_value(layout, 1, -1)]
    nothing += [true_answer(layout, answers, i) for i in (3, -1)]
    assert [log_probability(belief, one).item() for one in nothing] == [-INF] * 4


# --- dialogues ----------------------------------------------------------------------------------

WORLD = make_world(7, "dense", (3, 2), (2, 3, 4))
TALKS = [
    [(0, 0, 1), (2, 1, [0.1, 0.2, 0.3, 0.4]), None, (1, 0, 2)],
    [],
    [(1, 1, 0), (1, 1, 0)],
]
TRUTHS = [4, 0, 2]


def told(rewards: DialogueRewards, dialogue: int) -> DialogueRewards:
    return jax.tree.map(lambda x: x[dialogue], rewards)


def setting() -> tuple[Belief, LikelihoodTables, Exchanges, Truth]:
    _, belief, tables = build(WORLD)
    truths = jax.vmap(true_state, in_axes=(None, 0))(belief.layout, jnp.array(TRUTHS))
    return belief, tables, Exchanges.of(tables, TALKS), truths


def test_batch_of_ragged_dialogues_agrees_with_brute_force(x64: bool) -> None:
    cost = 0.05
    found = batch_rewards(*setting(), cost=cost)
    atol = tolerance(x64)
    for i, (talk, state) in enumerate(zip(TALKS, TRUTHS, strict=True)):
        pi = WORLD.prior()
        logs, gains, costs = [math.log(pi[state])], [], []
        for exchange in [*talk, *[None] * (4 - len(talk))]:
            costs.append(0.0 if exchange is None else cost)
            if exchange is not None:
                q, u, answer = exchange
                weights = answer if isinstance(answer, list) else np.eye(WORLD.choices[q])[answer]
                pi, _ = reference.update(pi, WORLD.likelihood((q, u)), np.asarray(weights))
            logs.append(math.log(pi[state]))
            gains.append(logs[-1] - logs[-2])
        one = told(found, i)
        np.testing.assert_allclose(one.gain, gains, atol=atol)
        np.testing.assert_allclose(one.reward, np.subtract(gains, costs), atol=atol)
        np.testing.assert_allclose(one.cumulative, np.cumsum(np.subtract(gains, costs)), atol=atol)
        np.testing.assert_allclose(one.log_truth, logs, atol=atol)
        assert one.gain.sum().item() == pytest.approx(logs[-1] - logs[0], abs=atol)
        silent = [t for t in range(4) if t >= len(talk) or talk[t] is None]
        assert not np.asarray(one.gain)[silent].any() and not np.asarray(one.reward)[silent].any()
    assert bool(jnp.all(found.status == Status.ok))


@jax.jit
def total_and_slope(
    belief: Belief, tables: LikelihoodTables, exchanges: Exchanges, truths: Truth
) -> tuple[jax.Array, jax.Array]:
    """The sum of all rewards, and its slope with respect to the log tables."""

    def total(log_tables: jax.Array) -> jax.Array:
        changed = LikelihoodTables(log_tables, tables.choice_mask, tables.valid, tables.asked)
        return batch_rewards(belief, changed, exchanges, truths).reward.sum()

    return jax.value_and_grad(total)(tables.log_tables)


def test_padding_may_hold_anything_and_reaches_no_slope(x64: bool) -> None:
    belief, tables, exchanges, truths = setting()
    silent = ~np.asarray(exchanges.asked)
    spoilt = Exchanges(
        np.where(silent, np.int32(10**6), exchanges.question),
        np.where(silent, np.int32(-5), exchanges.user),
        np.where(silent[..., None], np.nan, exchanges.evidence).astype(exchanges.evidence.dtype),
        exchanges.asked,
    )
    value, slope = total_and_slope(belief, tables, exchanges, truths)
    assert value == total_and_slope(belief, tables, spoilt, truths)[0]
    np.testing.assert_array_equal(slope, total_and_slope(belief, tables, spoilt, truths)[1])
    assert bool(jnp.isfinite(slope).all()) and bool(slope.any())


def test_slopes_agree_with_finite_differences() -> None:
    with jax.enable_x64(True):
        belief, tables, exchanges, truths = setting()

        def total(log_tables: jax.Array) -> float:
            changed = LikelihoodTables(log_tables, tables.choice_mask, tables.valid, tables.asked)
            return total_and_slope(belief, changed, exchanges, truths)[0].item()

        _, gradient = total_and_slope(belief, tables, exchanges, truths)
        random = np.random.default_rng(0)
        for _ in range(3):
            direction = random.normal(size=gradient.shape) * 1e-6
            up, down = total(tables.log_tables + direction), total(tables.log_tables - direction)
            slope = float(np.sum(np.asarray(gradient) * direction))
            assert slope == pytest.approx((up - down) / 2, rel=1e-5)


def test_slopes_stay_finite_where_tables_and_priors_have_zeros(x64: bool) -> None:
    belief, tables = pair([[1.0, 0.0], [0.5, 0.5]], (1.0, 0.0))

    def gain(log_joint: jax.Array, log_tables: jax.Array) -> jax.Array:
        changed = LikelihoodTables(log_tables, tables.choice_mask, tables.valid, tables.asked)
        prior = Belief(log_joint, belief.layout)
        return pointwise_gain(prior, changed, 0, 0, evidence(tables, [1, 0]), truth(prior, 0)).gain

    slopes = jax.grad(gain, argnums=(0, 1))(belief.log_joint, tables.log_tables)
    assert all(bool(jnp.isfinite(slope).all()) for slope in slopes)


def test_order_of_exchanges_does_not_matter_to_their_sum(x64: bool) -> None:
    belief, tables, _, truths = setting()
    talk = [e for e in TALKS[0] if e is not None]
    forth, back = Exchanges.of(tables, [talk] * 3), Exchanges.of(tables, [talk[::-1]] * 3)
    a, b = (batch_rewards(belief, tables, e, truths) for e in (forth, back))
    np.testing.assert_allclose(a.gain.sum(axis=1), b.gain.sum(axis=1), atol=tolerance(x64))
    assert not np.allclose(a.gain, b.gain[:, ::-1], atol=1e-3)


def test_information_of_two_questions_is_the_mean_of_the_summed_gains(x64: bool) -> None:
    """Also where the second question depends on the first answer."""
    belief, tables, _, _ = setting()
    pi, first = WORLD.prior(), WORLD.likelihood((0, 0))
    followed = {0: (1, 0), 1: (2, 1)}
    talks, states, weights = [], [], []
    for state, a in np.ndindex(*first.shape):
        second = WORLD.likelihood(followed[a])
        for b in range(second.shape[1]):
            talks.append([(0, 0, a), (*followed[a], b)])
            states.append(state)
            weights.append(pi[state] * first[state, a] * second[state, b])
    truths = jax.vmap(true_state, in_axes=(None, 0))(belief.layout, jnp.array(states))
    gains = batch_rewards(belief, tables, Exchanges.of(tables, talks), truths).gain
    leaves = [np.eye(2)[a][None, :] * first[:, a, None] for a in (0, 1)]
    whole = np.concatenate(
        [first[:, [a]] * WORLD.likelihood(followed[a]) for a, _ in enumerate(leaves)], axis=1
    )
    expected = reference.mutual_information(pi, whole)
    found = float(np.asarray(gains.sum(axis=1), np.float64) @ np.array(weights))
    assert found == pytest.approx(expected, abs=tolerance(x64))
    chained = reference.mutual_information(pi, first)
    for a in (0, 1):
        posterior, m = reference.update(pi, first, np.eye(2)[a])
        chained += m * reference.mutual_information(posterior, WORLD.likelihood(followed[a]))
    assert chained == pytest.approx(expected, abs=1e-12)


def test_noise_on_the_answers_never_makes_a_question_tell_more(x64: bool) -> None:
    space = space_of(WORLD.sizes)
    belief = Belief.from_priors(space, WORLD.priors, bucketed=True)

    def informed(noise: float) -> np.ndarray:
        given = {key: (*WORLD.tables[key][:1], None) for key in WORLD.pairs}
        tables = LikelihoodTables.build(
            space, WORLD.choices, given, users=2, noise=noise, bucketed=True
        )
        mean = jax.vmap(lambda t: expected_gain(belief, tables, t), out_axes=-1)(
            jax.vmap(true_state, in_axes=(None, 0))(belief.layout, jnp.arange(6))
        )
        return np.asarray(mean) @ joint(belief, space).ravel()

    levels = [informed(noise) for noise in (0.0, 0.1, 0.5, 1.0)]
    for less, more in zip(levels[1:], levels[:-1], strict=True):
        assert (less <= more + 1e-7).all()
    assert levels[0].max() > 0.01 and abs(levels[-1]).max() < 1e-6


def test_belief_is_kept_and_the_turn_marked_where_an_answer_is_impossible(x64: bool) -> None:
    belief, tables = pair([[1.0, 0.0], [0.0, 1.0]])
    exchanges = Exchanges.of(tables, [[(0, 0, 0), (0, 0, 1), (0, 0, 0)]])
    found = dialogue_rewards(
        belief, tables, jax.tree.map(lambda x: x[0], exchanges), truth(belief, 0)
    )
    np.testing.assert_allclose(found.gain, [math.log(2), 0, 0], atol=1e-6)
    assert (found.status == Status.impossible_evidence).tolist() == [False, True, False]


def test_worlds_can_be_mapped_over(x64: bool) -> None:
    worlds = [make_world(seed, "dense", (3, 2), (2, 2)) for seed in (1, 2)]
    built = [build(world)[1:] for world in worlds]
    beliefs, tables = jax.tree.map(lambda *x: jnp.stack(x), *built)
    exchanges = Exchanges.of(built[0][1], [[(0, 0, 1)], [(1, 1, 0)]])
    truths = jax.vmap(true_state, in_axes=(None, 0))(built[0][0].layout, jnp.array([5, 0]))
    found = jax.vmap(dialogue_rewards)(beliefs, tables, exchanges, truths)
    for i, (world, key, answer, state) in enumerate(
        zip(worlds, [(0, 0), (1, 1)], [1, 0], [5, 0], strict=True)
    ):
        k = world.likelihood(key)
        exact = math.log(k[state, answer] / (world.prior() @ k)[answer])
        assert found.gain[i, 0].item() == pytest.approx(exact, abs=tolerance(x64))


def test_space_that_is_gone_through_in_tiles_gives_the_same_gain() -> None:
    world = make_world(3, "dense", (4,) * 9, (3,), users=1)
    values = [f"v{i}" for i in range(4)]
    space = StateSpace.of(max_states=4**9, **{f"d{j}": values for j in range(9)})
    belief = Belief.from_priors(space, world.priors)
    tables = LikelihoodTables.build(space, world.choices, world.tables)
    state = 123_456
    k = world.likelihood((0, 0))
    m = world.prior() @ k
    for answer in range(3):
        one = evidence(tables, np.eye(3)[answer])
        found = pointwise_gain(belief, tables, 0, 0, one, truth(belief, state)).gain
        assert found.item() == pytest.approx(math.log(k[state, answer] / m[answer]), abs=1e-5)


@pytest.mark.parametrize(
    ("exchange", "error", "named"),
    [
        ((0, 0, 2), InvalidEvidence, "the answer of turn 0 of dialogue 1 is choice 2"),
        ((0, 0, -1), InvalidEvidence, "choice -1"),
        ((0, 0, [0.5]), InvalidEvidence, "turn 0 of dialogue 1 has 1 entries"),
        ((99, 0, 0), UnknownPair, "question 99"),
    ],
)
def test_exchange_that_cannot_be_is_refused_by_its_place(
    exchange: tuple[int, int, object], error: type[Exception], named: str
) -> None:
    _, _, tables = build(WORLD)
    with pytest.raises(error, match=named):
        Exchanges.of(tables, [[], [exchange]])  # type: ignore[list-item]
