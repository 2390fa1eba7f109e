"""Simulated dialogues: exact, never the same question twice, and the same alone as in a crowd."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from balar_core import Belief, LikelihoodTables
from balar_core.askers import AtRandom, InOrder, MostInformative, Stopping
from balar_core.errors import InvalidInput, InvalidSetting
from balar_core.simulation import (
    Asker,
    Episode,
    World,
    draw_truth,
    simulate_batch,
    stack_worlds,
    take_worlds,
)

from . import reference
from .strategies import build, make_world, space_of

SIZES, CHOICES, TURNS = (3, 2), (2, 3, 2), 5


def engine(world: reference.World) -> World:
    _, belief, tables = build(world, bucketed=False)
    return World(belief, tables)


def crowd(world: World, n: int = 6000) -> Episode:
    """Many dialogues with random questions, in which all there are may be asked."""
    worlds = take_worlds(stack_worlds([world]), jnp.zeros(n, int))
    keys = jax.random.split(jax.random.key(0), (2, n))
    truths = jax.vmap(draw_truth)(worlds, keys[0])
    return simulate_batch(worlds, truths, AtRandom(Stopping()), keys[1], turns=6)


def flat_states(world: World) -> np.ndarray:
    """The flat index of the state in every cell."""
    layout = world.belief.layout
    return np.asarray(layout.row_index[:, None] + layout.column_index[None, :]).ravel()


def test_every_turn_is_what_bayes_and_greedy_information_say(x64: bool) -> None:
    made = make_world(3, "dense", SIZES, CHOICES)
    world = engine(made)
    states = flat_states(world)
    truths = jnp.arange(6)
    worlds = take_worlds(stack_worlds([world]), jnp.zeros(6, int))
    keys = jax.random.split(jax.random.key(1), 6)
    episodes = jax.device_get(
        simulate_batch(worlds, truths, MostInformative(Stopping(enough=0.8)), keys, turns=TURNS)
    )
    tolerance = 1e-10 if x64 else 2e-5
    for n in range(6):
        pi, open_pairs = made.prior(), list(made.pairs)
        state = states[n]
        assert episodes.log_truth[n, 0] == pytest.approx(np.log(pi[state]), rel=tolerance)
        for turn in range(TURNS):
            information = {
                pair: reference.mutual_information(pi, made.likelihood(pair)) for pair in open_pairs
            }
            expected = np.zeros(len(made.pairs))
            for (q, u), value in information.items():
                expected[q * made.users + u] = value
            seen = episodes.situations.information[n, turn]
            np.testing.assert_allclose(seen, expected, atol=tolerance)
            assert episodes.situations.entropy[n, turn] == pytest.approx(
                reference.entropy(pi), abs=10 * tolerance
            )
            assert episodes.situations.left[n, turn] == TURNS - turn
            if pi.max() >= 0.8:
                assert episodes.actions[n, turn] == len(made.pairs)
                assert not episodes.asked[n, turn:].any()
                break
            q, u = max(information, key=lambda pair: information[pair])
            assert episodes.actions[n, turn] == q * made.users + u
            assert episodes.asked[n, turn] and episodes.decided[n, turn]
            answer = np.eye(made.choices[q])[episodes.answers[n, turn]]
            pi, _ = reference.update(pi, made.likelihood((q, u)), answer)
            open_pairs.remove((q, u))
            assert episodes.log_truth[n, turn + 1] == pytest.approx(
                np.log(pi[state]), abs=10 * tolerance
            )
        assert episodes.best[n] == pytest.approx(pi.max(), rel=10 * tolerance)


def test_users_answer_with_the_likelihood_of_their_state_and_gains_average_to_information() -> None:
    made = make_world(5, "dense", SIZES, CHOICES)
    episodes = jax.device_get(crowd(engine(made)))
    pi = made.prior()
    for q, u in made.pairs:
        first = episodes.actions[:, 0] == q * made.users + u
        k = made.likelihood((q, u))
        shares = np.bincount(episodes.answers[first, 0], minlength=k.shape[1]) / first.sum()
        np.testing.assert_allclose(shares, reference.predictive(pi, k), atol=0.06)
        gains = np.asarray(episodes.gains)[first, 0]
        error = 4 * gains.std() / np.sqrt(len(gains))
        assert gains.mean() == pytest.approx(reference.mutual_information(pi, k), abs=error)
    change = episodes.log_truth[:, -1] - episodes.log_truth[:, 0]
    np.testing.assert_allclose(episodes.gains.sum(axis=1), change, atol=1e-5)


def test_no_pair_is_asked_twice_and_none_that_is_closed() -> None:
    made = make_world(7, "labels", SIZES, CHOICES, missing=frozenset({(1, 0)}))
    world = engine(made)
    world = World(world.belief, world.tables.mark_asked(0, 1))
    episodes = jax.device_get(crowd(world))
    actions, asked = episodes.actions, episodes.asked
    assert (asked.sum(axis=1) == 4).all()  # 6 pairs, one missing, one asked before
    for row, was_asked in zip(actions, asked, strict=True):
        assert set(row[was_asked]) == {0, 3, 4, 5}
    assert len(np.unique(actions[:, 0])) == 4
    stop = episodes.decided & ~asked
    assert (actions[stop] == 6).all()
    assert (stop.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(episodes.gains[~asked], 0)


def test_a_world_is_the_same_alone_as_padded_among_larger_ones() -> None:
    small, large = (
        make_world(1, "dense", (3,), (2, 2), users=1),
        make_world(2, "dense", SIZES, CHOICES),
    )
    alone = stack_worlds([engine(small)])
    both = stack_worlds([engine(small), engine(large)])
    assert both.tables.log_tables.shape == (2, 3, 2, 2, 3, 3)
    key = jax.random.split(jax.random.key(0), 1)
    asker = MostInformative(Stopping(min_information=1e-6))
    for cell in range(3):
        one = simulate_batch(alone, jnp.array([cell]), asker, key, turns=4, truthful=True)
        columns = both.belief.layout.shape[-1]
        two = simulate_batch(
            take_worlds(both, jnp.array([0])),
            jnp.array([cell * columns]),
            asker,
            key,
            turns=4,
            truthful=True,
        )
        np.testing.assert_allclose(one.log_truth, two.log_truth, atol=1e-6)
        np.testing.assert_array_equal(one.asked, two.asked)
        np.testing.assert_array_equal(one.answers, two.answers)
        np.testing.assert_allclose(
            one.situations.information[:, 0], two.situations.information[:, 0, [0, 2]], atol=1e-6
        )


def test_a_drawn_user_is_never_padding_and_follows_the_belief() -> None:
    space = space_of((5,))
    belief = Belief.from_priors(space, [(0.1, 0.2, 0.3, 0.4, 0.0)], bucketed=True)
    tables = LikelihoodTables.build(space, [2], {(0, 0): [[[0.8, 0.2]] * 5]}, bucketed=True)
    keys = jax.random.split(jax.random.key(0), 4000)
    drawn = np.asarray(jax.vmap(draw_truth, (None, 0))(World(belief, tables), keys))
    states = flat_states(World(belief, tables))[drawn]
    assert np.asarray(belief.layout.mask).ravel()[drawn].all()
    shares = np.bincount(states, minlength=5) / 4000
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.3, 0.4, 0.0], atol=0.03)
    assert shares[4] == 0


def test_an_order_is_kept_and_what_tells_too_little_is_skipped() -> None:
    eye, flat = np.eye(3), np.full((3, 3), 1 / 3)
    space = space_of((3,))
    belief = Belief.from_priors(space, [(0.2, 0.3, 0.5)])
    tables = LikelihoodTables.build(
        space, [3, 3, 3], {(0, 0): [flat], (1, 0): [eye], (2, 0): [flat]}
    )
    worlds, keys = stack_worlds([World(belief, tables)]), jax.random.split(jax.random.key(0), 1)

    def actions(asker: Asker) -> list[int]:
        episodes = simulate_batch(worlds, jnp.array([1]), asker, keys, turns=4)
        return np.asarray(episodes.actions[0]).tolist()

    def in_order(*order: float, enough: float = 2.0, least: float = 0.0) -> Asker:
        return InOrder(Stopping(enough, least), jnp.array(order))

    assert actions(in_order(0, 1, 2)) == [0, 1, 2, 3]
    assert actions(in_order(1, 2, 0)) == [2, 0, 1, 3]
    assert actions(in_order(0, 1, 2, least=0.1)) == [1, 3, 3, 3]
    assert actions(in_order(1, 0, 2, enough=0.9)) == [1, 3, 3, 3]
    assert actions(MostInformative(Stopping())) == [1, 0, 2, 3]
    assert actions(MostInformative(Stopping(min_information=2.0))) == [3, 3, 3, 3]


def test_what_cannot_be_stacked_or_compared_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        stack_worlds([])
    with pytest.raises(InvalidSetting, match="enough is nan"):
        Stopping(enough=float("nan"))
    with pytest.raises(InvalidSetting, match="min_information is nan"):
        Stopping(min_information=float("nan"))
