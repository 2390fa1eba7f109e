"""Merged states: the same numbers, found without being asked for, with few compiled programs."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax.sharding import Mesh

from balar_core import (
    Belief,
    Layout,
    LikelihoodTables,
    Rule,
    Scores,
    Status,
    Structure,
    find_structure,
    respond,
    score,
    structure,
    update,
)
from balar_core.dialogue import Dialogue, Settings, Setup
from balar_core.errors import InvalidSetting, InvalidTable
from balar_core.sharding import shard

from . import reference
from .compilation import compilations
from .scripted_world import ScriptedWorld
from .strategies import USERS, build, evidence, make_world, rows, space_of, worlds

SIDES = (4, 16)
LARGE = (4,) * 7
"""16,384 states, the fewest for which merging is thought of."""

Tables = dict[tuple[int, int], list[np.ndarray | None]]


def merge(belief: Belief, tables: LikelihoodTables, sides: tuple[int, ...] = SIDES) -> Structure:
    found = Structure.of(belief.layout, tables, sides)
    assert found is not None
    return found


def classes(sizes: tuple[int, ...], seed: int, count: int) -> Tables:
    """Tables of labels in which the values of a dimension fall into one or two classes."""
    random = np.random.default_rng(seed)

    def table(size: int) -> np.ndarray | None:
        two = rows(random, "labels", 2, 3)
        return two[random.integers(2, size=size)] if random.random() < 0.6 else None

    return {(q, 0): [table(size) for size in sizes] for q in range(count)}


def world_of(sizes: tuple[int, ...], tables: Tables) -> reference.World:
    """A world with these tables and a flat prior; of the shapes that all small worlds share."""
    priors = tuple(np.full(size, 1 / size) for size in sizes)
    given_tables = {pair: tuple(given_pair) for pair, given_pair in tables.items()}
    return reference.World(sizes, priors, (3,) * len(tables), USERS, given_tables)


def large(seed: int, count: int = 6) -> tuple[Belief, LikelihoodTables]:
    pi = np.random.default_rng(seed).dirichlet(np.ones(4**7))
    tables = LikelihoodTables.build(space_of(LARGE), [3] * count, classes(LARGE, seed, count))
    return Belief.from_joint(space_of(LARGE), pi), tables


def check_scores(
    scores: Scores, pi: np.ndarray, sizes: tuple[int, ...], tables: Tables, x64: bool
) -> None:
    """Compare with the enumeration of all states."""
    atol = 1e-12 if x64 else 1e-6
    for (q, u), given_pair in tables.items():
        width = next((t.shape[1] for t in given_pair if t is not None), 3)
        k = reference.likelihood(sizes, given_pair, width)
        assert scores.information[q, u] == pytest.approx(
            reference.mutual_information(pi, k), abs=atol, rel=1e-10 if x64 else 1e-3
        )
        if any(t is not None for t in given_pair):
            np.testing.assert_allclose(
                scores.predictive[q, u, :width], reference.predictive(pi, k), atol=atol
            )


@given(world=worlds())
def test_merged_states_score_what_all_states_score(x64: bool, world: reference.World) -> None:
    _, belief, tables = build(world)
    scores = score(belief, tables, structure=merge(belief, tables))
    assert bool(scores.status == Status.ok)
    check_scores(scores, world.prior(), world.sizes, world.tables, x64)


def test_pairs_that_do_not_fit_are_scored_beside_those_that_do() -> None:
    sizes = (4, 4, 4, 3)
    tables = classes(sizes, 0, 7) | {(7, 0): list(make_world(0, "dense", sizes, (3,)).tables[0, 0])}
    world = world_of(sizes, tables)
    _, belief, packed = build(world)
    found = merge(belief, packed, (2, 4))
    merged = found.merged.reshape(packed.valid.shape)[:8, 0]
    assert merged.any() and not merged.all()
    scores = score(belief, packed, structure=found)
    check_scores(scores, world.prior(), sizes, tables, x64=False)
    assert jnp.all(scores.information[:, 1] == 0)  # the pairs that do not exist


def test_a_pair_has_as_many_classes_as_states_it_tells_apart() -> None:
    sizes = (4, 3, 2, 4)
    tables = classes(sizes, 1, 6)
    _, belief, packed = build(world_of(sizes, tables))
    level = merge(belief, packed, (16,)).levels[0]
    number = jnp.sum(level.row >= 0, -1) * jnp.sum(level.column >= 0, -1)
    found = {
        divmod(pair, USERS): count
        for pair, count in zip(level.pair.ravel().tolist(), number.ravel().tolist(), strict=True)
        if pair >= 0
    }
    assert found == {
        pair: np.prod([1 if t is None else len(np.unique(t, axis=0)) for t in given_pair])
        for pair, given_pair in tables.items()
    }


def test_large_tables_of_labels_are_merged_unasked() -> None:
    belief, tables = large(0)
    found = find_structure(belief.layout, tables)
    assert found is not None
    assert found.merged.all()
    pi = np.random.default_rng(0).dirichlet(np.ones(4**7))
    check_scores(score(belief, tables), pi, LARGE, classes(LARGE, 0, 6), x64=False)


def test_a_turn_on_merged_states_asks_what_tells_most() -> None:
    belief, tables = large(1)
    given_tables = classes(LARGE, 1, 6)
    marked = tables.mark_asked(0, 0)
    answer = np.eye(3)[0]
    taken = respond(belief, marked, 0, 0, evidence(tables, answer), Rule(), questions_left=3).turn
    channels = [reference.likelihood(LARGE, given_tables[q, 0], 3) for q in range(6)]
    prior = np.random.default_rng(1).dirichlet(np.ones(4**7))
    pi, _ = reference.update(prior, channels[0], answer)
    expected = [reference.mutual_information(pi, k) for k in channels[1:]]
    assert int(taken.decision.question) == 1 + int(np.argmax(expected))
    assert taken.decision.information == pytest.approx(max(expected), abs=1e-6)


@pytest.mark.parametrize("kind", ["dense", "sharp", "weak"])
def test_tables_without_structure_and_small_spaces_are_left_alone(kind: str) -> None:
    _, belief, tables = build(make_world(0, kind, LARGE, (3, 4)), bucketed=False)
    assert find_structure(belief.layout, tables) is None
    _, belief, tables = build(make_world(0, "irrelevant", (2, 3), (3, 4)))
    assert find_structure(belief.layout, tables) is None


def test_structure_is_looked_for_once_per_table_set_and_forgotten_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[LikelihoodTables] = []
    of = Structure.of

    def look(layout: Layout, tables: LikelihoodTables) -> Structure | None:
        looked.append(tables)
        return of(layout, tables)

    monkeypatch.setattr(Structure, "of", look)
    belief, tables = large(2)
    before = len(structure._memories)
    first = find_structure(belief.layout, tables)
    moved = update(belief, tables, 0, 0, evidence(tables, np.eye(3)[0])).belief
    assert find_structure(moved.layout, tables.mark_asked(0, 0)) is first
    assert len(looked) == 1
    turned = Belief.from_priors(space_of((2,) * 14), [(0.5, 0.5)] * 14)
    with pytest.raises(InvalidTable):
        find_structure(turned.layout, tables)
    other = LikelihoodTables(
        tables.log_tables, tables.choice_mask, tables.valid.at[0, 0].set(False), tables.asked
    )
    found = find_structure(belief.layout, other)
    assert found is not None and first is not None
    assert (first.merged & ~found.merged).ravel().tolist() == [True] + [False] * 5
    looked.clear()
    del tables, other
    gc.collect()
    assert len(structure._memories) == before


def test_arrays_whose_values_are_not_known_are_not_merged() -> None:
    belief, tables = large(3)
    seen: list[Structure | None] = []

    @jax.jit
    def traced(tables: LikelihoodTables) -> jax.Array:
        seen.append(find_structure(belief.layout, tables))
        return tables.log_tables

    traced(tables)
    writable = jax.tree.map(np.array, tables)
    seen.append(find_structure(belief.layout, writable))
    mesh = Mesh(np.array(jax.devices()[:1]), ("states",))
    seen.append(find_structure(shard(belief, mesh).layout, tables))
    assert seen == [None, None, None]


def test_slopes_on_merged_states_agree_with_finite_differences() -> None:
    with jax.enable_x64(True):
        _, belief, tables = build(make_world(4, "irrelevant", (3, 2, 4), (3, 2)))
        found = merge(belief, tables)

        def total(log_joint: jax.Array) -> jax.Array:
            scores = score(Belief(log_joint, belief.layout), tables, structure=found)
            return jnp.sum(scores.information) + jnp.sum(scores.predictive**2)

        slopes = np.asarray(jax.grad(total)(belief.log_joint))
        assert np.isfinite(slopes).all()
        inside = np.asarray(belief.layout.mask)
        step = 1e-6 * np.where(inside, np.random.default_rng(0).normal(size=inside.shape), 0)
        change = float(total(belief.log_joint + step) - total(belief.log_joint - step))
        assert change == pytest.approx(2 * np.sum(slopes * step), rel=1e-5)


def test_many_beliefs_over_one_table_share_its_structure() -> None:
    made = [make_world(seed, "irrelevant", (2, 3, 4), (3, 4)) for seed in range(3)]
    built = [build(world) for world in made]
    tables, layout = built[0][2], built[0][1].layout
    found = merge(built[0][1], tables)
    joints = jnp.stack([belief.log_joint for _, belief, _ in built])
    batch = jax.vmap(lambda j: score(Belief(j, layout), tables, structure=found))(joints)
    for i, world in enumerate(made):
        alone = jax.tree.map(lambda x, i=i: x[i], batch)
        check_scores(alone, world.prior(), world.sizes, made[0].tables, x64=False)


def test_question_that_tells_nothing_apart_tells_nothing() -> None:
    alike = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    tables: Tables = {(0, 0): [None, None], (1, 0): [np.full((3, 3), 1 / 3), None]}
    tables[2, 0] = [alike[[0, 1, 0]], np.array([[0.2, 0.3, 0.5]] * 4)]
    _, belief, packed = build(world_of((3, 4), tables))
    scores = score(belief, packed, structure=merge(belief, packed))
    np.testing.assert_allclose(scores.information[:3, 0], 0, atol=1e-9)


def broken_tables(log_probability: float) -> tuple[Belief, LikelihoodTables]:
    """Two equal pairs; in the second, two values of a dimension have another log table."""
    pair = [np.array([[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]])[[0, 1, 0, 0]], np.full((3, 3), 1 / 3)]
    _, belief, tables = build(world_of((4, 3), {(0, 0): pair, (1, 0): pair}))
    logs = tables.log_tables.at[1, 0, 0, 2:, :3].set(log_probability)
    return belief, LikelihoodTables(logs, tables.choice_mask, tables.valid, tables.asked)


def test_table_that_is_not_a_number_is_not_merged_and_shows_in_its_own_pair() -> None:
    belief, tables = broken_tables(float("nan"))
    found = merge(belief, tables)
    users = tables.valid.shape[1]
    assert found.merged[0] and not found.merged[users]
    information = score(belief, tables, structure=found).information
    assert jnp.isnan(information[:2, 0]).tolist() == [False, True]


def test_contradictory_tables_are_a_status_on_merged_states_too() -> None:
    belief, tables = broken_tables(-np.inf)
    scores = score(belief, tables, structure=merge(belief, tables))
    assert bool(scores.status == Status.impossible_state)
    assert not bool(jnp.isnan(scores.information).any() | jnp.isnan(scores.predictive).any())
    valid = tables.valid.at[1, 0].set(False)
    first = LikelihoodTables(tables.log_tables, tables.choice_mask, valid, tables.asked)
    alone = score(belief, first, structure=merge(belief, first))
    assert bool(alone.status == Status.ok)
    assert alone.information[0, 0] == scores.information[0, 0] > 0


def test_garbage_in_padding_changes_no_structure() -> None:
    _, belief, tables = build(make_world(0, "irrelevant", (2, 3), (2, 3)))
    spoilt = jnp.where(tables.choice_mask[:, None, None, None, :], tables.log_tables, jnp.nan)
    spoilt = jnp.where(belief.layout.value_mask[:, :, None], spoilt, jnp.nan)
    other = LikelihoodTables(spoilt, tables.choice_mask, tables.valid, tables.asked)
    for a, b in zip(
        jax.tree.leaves(merge(belief, tables)), jax.tree.leaves(merge(belief, other)), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("sides", [(), (0, 4), (4, 4), (8, 2)])
def test_capacities_that_are_not_positive_and_ascending_are_refused(sides: tuple[int, ...]) -> None:
    _, belief, tables = build(make_world(0, "labels", (2, 3), (2,)))
    with pytest.raises(InvalidSetting, match="smallest first"):
        Structure.of(belief.layout, tables, sides)


def test_structure_of_other_tables_is_refused() -> None:
    _, belief, tables = build(make_world(0, "labels", (2, 3), (2,)))
    _, _, exact = build(make_world(0, "labels", (2, 3), (2,)), bucketed=False)
    with pytest.raises(InvalidTable):
        Structure.of(belief.layout, exact)
    _, other_belief, other_tables = build(make_world(0, "labels", (2, 3), (2,) * 20))
    with pytest.raises(InvalidSetting, match="find_structure"):
        score(belief, tables, structure=merge(other_belief, other_tables))


def test_other_tables_of_the_same_shape_compile_nothing() -> None:
    score(*large(4)).information.block_until_ready()
    with compilations() as count:
        for seed in range(5, 9):
            belief, tables = large(seed)
            assert find_structure(belief.layout, tables) is not None
            score(belief, tables.mark_asked(seed - 4, 0)).information.block_until_ready()
    assert count[0] == 0


class ManyIrrelevant(ScriptedWorld):
    """Questions that most dimensions do not matter to."""

    def _table(self, values: int, choices: int) -> tuple[tuple[str, ...], ...] | None:
        return super()._table(values, choices) if self.random.random() < 0.4 else None


@pytest.mark.slow
def test_second_dialogue_about_a_large_space_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Structure | None] = []
    of = Structure.of

    def look(layout: Layout, tables: LikelihoodTables) -> Structure | None:
        found.append(of(layout, tables))
        return found[-1]

    monkeypatch.setattr(Structure, "of", look)
    setup = Setup("What now?", settings=Settings(max_questions=3, max_dimensions=7))
    ManyIrrelevant(0, sizes=LARGE).play(Dialogue.start(setup))
    with compilations() as count:
        ManyIrrelevant(1, sizes=LARGE).play(Dialogue.start(setup))
    assert len(found) == 2
    assert None not in found
    assert count[0] == 0
