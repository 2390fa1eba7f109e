"""Mutual information: right to the last digits, for strong, weak, sharp and useless questions."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from balar_core import (
    Belief,
    Layout,
    LikelihoodTables,
    Scores,
    Status,
    dimension_information,
    mutual_information,
    predictive,
    score,
    score_many,
    update,
)
from balar_core.errors import InvalidSetting, UnknownPair

from . import reference
from .compilation import compilations
from .strategies import KINDS, build, evidence, make_world, space_of

PRIORS = [[0.8, 0.2], [0.5, 0.3, 0.2]]
T1 = [[0.8, 0.2], [0.2, 0.8]]
T2 = [[0.5, 0.5], [0.8, 0.2], [0.2, 0.8]]
USELESS = [[[0.5, 0.5]] * 2, [[0.5, 0.5]] * 3]


def example(*pairs: list[object]) -> tuple[Belief, LikelihoodTables]:
    space = space_of((2, 3))
    belief = Belief.from_priors(space, PRIORS, bucketed=True)
    tables = LikelihoodTables.build(
        space,
        [2] * len(pairs),
        {(q, 0): pair for q, pair in enumerate(pairs)},  # type: ignore[misc]
        bucketed=True,
    )
    return belief, tables


score_batch = jax.jit(jax.vmap(score))


def softmax(x: np.ndarray) -> np.ndarray:
    p = np.exp(x)
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


def doubled(belief: Belief) -> np.ndarray:
    """The probabilities that the engine holds, in double precision and C order."""
    layout = belief.layout
    flat = np.asarray(layout.row_index)[:, None] + np.asarray(layout.column_index)[None, :]
    mask = np.asarray(layout.mask)
    pi = np.empty(int(mask.sum()))
    pi[flat[mask]] = np.exp(np.asarray(belief.log_joint, dtype=np.float64))[mask]
    return pi / pi.sum()


def test_information_and_answers_of_the_running_example(x64: bool) -> None:
    belief, tables = example([T1, T2])
    atol = 1e-12 if x64 else 1e-7
    assert mutual_information(belief, tables)[0, 0] == pytest.approx(0.1628578414917986, abs=atol)
    np.testing.assert_allclose(
        predictive(belief, tables)[0, 0, :2], [0.6782352941, 0.3217647059], atol=1e-6
    )


def test_useless_questions_tell_exactly_nothing(x64: bool) -> None:
    belief, tables = example(USELESS, USELESS, [None, None], [[[0.3, 0.7]] * 2, None])
    assert mutual_information(belief, tables)[:4, 0].tolist() == [0, 0, 0, 0]


def test_deterministic_question_tells_the_entropy_of_its_dimension(x64: bool) -> None:
    belief, tables = example([np.eye(2), [[0.5, 0.5]] * 3])
    found = mutual_information(belief, tables)[0, 0]
    assert found == pytest.approx(0.5004024235381879, abs=1e-12 if x64 else 1e-7)


def test_identical_questions_tell_the_same_to_the_last_bit(x64: bool) -> None:
    belief, tables = example([T1, T2], [T1, T2], [T1, T2])
    found = mutual_information(belief, tables)[:3, 0].tolist()
    assert found == [found[0]] * 3


def test_certain_belief_has_nothing_to_learn(x64: bool) -> None:
    space = space_of((2,))
    belief = Belief.from_priors(space, [[1.0, 0.0]], bucketed=True)
    tables = LikelihoodTables.build(space, [2], {(0, 0): [[[0.9, 0.1], [0.1, 0.9]]]}, bucketed=True)
    scores = score(belief, tables)
    assert scores.information[0, 0] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(scores.predictive[0, 0, :2], [0.9, 0.1], rtol=1e-6)


def test_pairs_that_do_not_exist_score_nothing(x64: bool) -> None:
    belief, tables = example([T1, T2])
    scores = score(belief, tables)
    assert scores.information.sum() == scores.information[0, 0]
    assert scores.predictive.sum() == pytest.approx(1, abs=1e-6)


def test_large_space_of_useless_and_weak_questions_is_scored_in_float32() -> None:
    """16,384 states, 60 questions: within bounds, and within 1e-7 of double precision."""
    random = np.random.default_rng(0)
    sizes, choices = (4,) * 7, 4
    pi = random.dirichlet(np.ones(4**7))
    space = space_of(sizes)
    scales = [0.0] * 10 + [0.02] * 25 + [0.1] * 25
    given = {
        (q, 0): [softmax(scale * random.normal(size=(4, choices))) for _ in sizes]
        for q, scale in enumerate(scales)
    }
    belief = Belief.from_joint(space, pi)
    tables = LikelihoodTables.build(space, [choices] * 60, given)
    scores = score(belief, tables)
    exact = doubled(belief)
    for q in range(60):
        k = reference.likelihood(sizes, given[q, 0], choices)
        expected = reference.mutual_information(exact, k)
        found = float(scores.information[q, 0])
        assert 0 <= found <= math.log(choices)
        assert abs(found - expected) <= 1e-7
        np.testing.assert_allclose(
            scores.predictive[q, 0], reference.predictive(exact, k), atol=1e-6
        )


def test_weak_questions_about_one_large_dimension_are_exact_to_1e7() -> None:
    random = np.random.default_rng(1)
    size = 4096
    space = space_of((size,))
    given = {(q, 0): [softmax(0.01 * random.normal(size=(size, 3)))] for q in range(6)}
    belief = Belief.from_priors(space, [random.dirichlet(np.ones(size))])
    found = mutual_information(belief, LikelihoodTables.build(space, [3] * 6, given))
    for q in range(6):
        expected = reference.mutual_information(doubled(belief), given[q, 0][0])
        assert 1e-6 < expected < 1e-3
        assert abs(float(found[q, 0]) - expected) <= 1e-7
        assert float(found[q, 0]) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("sizes", [(2,), (3, 5), (2, 3, 5, 7), (10, 10, 10, 10, 2)])
def test_small_informations_keep_three_digits_in_float32(sizes: tuple[int, ...]) -> None:
    """Down to 1e-6 nats: weak tables, and beliefs that are almost certain."""
    random = np.random.default_rng(2)
    space = space_of(sizes)
    spreads = np.geomspace(1e-3, 1, 7)
    given = {
        (q, 0): [
            softmax(np.log(random.dirichlet([3] * 3)) + s * random.normal(size=(n, 3)))
            for n in sizes
        ]
        for q, s in enumerate(spreads)
    }
    tables = LikelihoodTables.build(space, [3] * len(spreads), given)
    channels = [reference.likelihood(sizes, given[q, 0], 3) for q in range(len(spreads))]
    small = 0
    for doubt in (0, 1e-2, 1e-4, 1e-6):
        priors = [random.dirichlet(np.ones(n)) for n in sizes]
        if doubt:
            priors = [np.where(np.arange(n) == 1, 1 - doubt, doubt / (n - 1)) for n in sizes]
        belief = Belief.from_priors(space, priors)
        found, pi = mutual_information(belief, tables), doubled(belief)
        for q, k in enumerate(channels):
            expected = reference.mutual_information(pi, k)
            if expected >= 1e-6:
                assert float(found[q, 0]) == pytest.approx(expected, rel=1e-3)
                small += expected < 1e-3
            else:
                assert float(found[q, 0]) == pytest.approx(expected, abs=1e-8)
    assert small >= 5


@pytest.mark.parametrize("sizes", [(3, 2), (2, 3, 4), (4, 4, 4)])
def test_small_informations_keep_three_digits_after_many_answers(sizes: tuple[int, ...]) -> None:
    """A posterior ties dimensions together; sums that cancel are evaluated another way."""
    random = np.random.default_rng(3)
    count, choices = 8, 3
    space = space_of(sizes)
    small = 0
    for _ in range(4):
        given = {
            (q, 0): [softmax(random.normal(size=(n, choices)) * (1 + q % 2)) for n in sizes]
            for q in range(count)
        }
        belief = Belief.from_priors(
            space, [random.dirichlet(np.ones(n)) for n in sizes], bucketed=True
        )
        tables = LikelihoodTables.build(space, [choices] * count, given, bucketed=True)
        channels = [reference.likelihood(sizes, given[q, 0], choices) for q in range(count)]
        truth = int(random.integers(math.prod(sizes)))
        for _ in range(25):
            q = int(random.integers(count))
            said = np.eye(choices)[random.choice(choices, p=channels[q][truth])]
            belief = update(belief, tables, q, 0, evidence(tables, said)).belief
            found, pi = mutual_information(belief, tables), doubled(belief)
            for other, k in enumerate(channels):
                expected = reference.mutual_information(pi, k)
                if expected >= 1e-6:
                    assert float(found[other, 0]) == pytest.approx(expected, rel=1e-3)
                    small += expected < 1e-3
    assert small > 20


@pytest.mark.parametrize(
    "log_tables",
    [
        [[[0.0, -np.inf], [-np.inf, 0.0]], [[-np.inf, 0.0], [0.0, 0.0], [0.0, -np.inf]]],
        [[[0.0, -np.inf], [-np.inf, -np.inf]], [[0.0, 0.0]] * 3],
        [[[0.0, 0.0]] * 2, [[0.0, -np.inf], [-np.inf, -np.inf], [0.0, 0.0]]],
    ],
    ids=["both", "first", "second"],
)
def test_contradictory_tables_are_a_status(x64: bool, log_tables: list[list[list[float]]]) -> None:
    belief, tables = example([None, None])
    packed = tables.log_tables
    for j, table in enumerate(log_tables):
        packed = packed.at[0, 0, j, : len(table), :2].set(jnp.array(table))
    broken = LikelihoodTables(packed, tables.choice_mask, tables.valid, tables.asked)
    scores = score(belief, broken)
    assert bool(scores.status == Status.impossible_state)
    assert not bool(jnp.isnan(scores.information).any() | jnp.isnan(scores.predictive).any())


def test_contradiction_inside_one_group_of_dimensions_is_a_status(x64: bool) -> None:
    sizes = (2, 3, 7)
    space = space_of(sizes)
    belief = Belief.from_priors(space, [np.full(n, 1 / n) for n in sizes])
    packed = np.zeros((1, 1, 3, 7, 2))
    packed[0, 0, 0, 0, 1] = packed[0, 0, 0, 1, 0] = packed[0, 0, 1, 0, 0] = -np.inf
    broken = LikelihoodTables(
        jnp.asarray(packed, float),
        jnp.ones((1, 2), bool),
        jnp.ones((1, 1), bool),
        jnp.zeros((1, 1), bool),
    )
    scores = score(belief, broken)
    assert bool(scores.status == Status.impossible_state)
    assert not bool(jnp.isnan(scores.information).any())


def test_table_that_is_not_a_number_shows_in_its_own_pair_only(x64: bool) -> None:
    belief, tables = example([T1, T2], [T1, T2])
    spoilt = LikelihoodTables(
        tables.log_tables.at[1, 0, 0, 0, 0].set(jnp.nan),
        tables.choice_mask,
        tables.valid,
        tables.asked,
    )
    found = mutual_information(belief, spoilt)[:2, 0]
    assert jnp.isnan(found).tolist() == [False, True]


def test_garbage_in_padding_changes_nothing(x64: bool) -> None:
    belief, tables = example([T1, T2])
    log_tables = (
        jnp.where(tables.choice_mask[:, None, None, None, :], tables.log_tables, jnp.nan)
        .at[:, :, 2:]
        .set(jnp.nan)
    )
    spoilt = LikelihoodTables(log_tables, tables.choice_mask, tables.valid, tables.asked)
    np.testing.assert_array_equal(
        mutual_information(belief, tables), mutual_information(belief, spoilt)
    )
    np.testing.assert_array_equal(
        dimension_information(belief, tables, 0, 0), dimension_information(belief, spoilt, 0, 0)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_batch_over_tables_gives_what_single_calls_give(x64: bool, kind: str) -> None:
    made = [build(make_world(seed, kind, (2, 3, 4), (3, 4))) for seed in range(3)]
    beliefs = jax.tree.map(lambda *x: jnp.stack(x), *[m[1] for m in made])
    tables = jax.tree.map(lambda *x: jnp.stack(x), *[m[2] for m in made])
    batch: Scores = score_batch(beliefs, tables)
    for i, (_, belief, own) in enumerate(made):
        alone = score(belief, own)
        atol = 1e-12 if x64 else 1e-6
        np.testing.assert_allclose(batch.information[i], alone.information, atol=atol)
        np.testing.assert_allclose(batch.predictive[i], alone.predictive, atol=atol)


def total(
    logits: jax.Array, log_tables: jax.Array, layout: Layout, tables: LikelihoodTables
) -> jax.Array:
    """All informations and predicted answers as one number of the logits and the log tables."""
    own = LikelihoodTables(log_tables, tables.choice_mask, tables.valid, tables.asked)
    scores = score(Belief(logits, layout), own)
    return jnp.sum(scores.information) + jnp.sum(scores.predictive**2)


slopes = jax.jit(jax.grad(total, argnums=(0, 1)))
slopes_of_batch = jax.jit(jax.vmap(slopes, in_axes=(0, 0, None, None)))


@pytest.mark.parametrize("kind", ["dense", "sharp", "weak"])
def test_slopes_of_information_agree_with_finite_differences(kind: str) -> None:
    with jax.enable_x64(True):
        _, belief, tables = build(make_world(5, kind, (2, 3), (3, 2)))
        arguments = [belief.log_joint, tables.log_tables]
        gradients = slopes(*arguments, belief.layout, tables)
        random = np.random.default_rng(0)
        for which in (0, 1):
            finite = np.isfinite(np.asarray(arguments[which]))
            direction = np.where(finite, random.normal(size=finite.shape), 0)
            assert bool(jnp.isfinite(gradients[which]).all())
            step = 1e-6
            ends = []
            for sign in (1, -1):
                moved = list(arguments)
                moved[which] = moved[which] + sign * step * jnp.asarray(direction)
                ends.append(float(total(*moved, belief.layout, tables)))
            slope = float(np.sum(np.asarray(gradients[which])[finite] * direction[finite]))
            assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("kind", ["zeros", "sharp", "labels"])
def test_slopes_of_information_are_finite_everywhere(kind: str) -> None:
    """At a corner of the simplex as well as inside, at zeros of tables, alone and in a batch."""
    _, belief, tables = build(make_world(6, kind, (2, 3), (3, 2)))
    inside = belief.log_joint
    corner = jnp.where(jnp.arange(inside.size).reshape(inside.shape) == 0, 0, -jnp.inf)
    for logits in (inside, corner):
        found = slopes(logits, tables.log_tables, belief.layout, tables)
        assert all(bool(jnp.isfinite(gradient).all()) for gradient in found)
    batch = slopes_of_batch(
        jnp.stack([inside, corner]), jnp.stack([tables.log_tables] * 2), belief.layout, tables
    )
    assert all(bool(jnp.isfinite(gradient).all()) for gradient in batch)


@pytest.mark.parametrize("pair", [(16, 0), (0, 5), (-1, 0), (np.int64(16), 0)])
def test_information_of_a_pair_that_does_not_exist_is_refused(pair: tuple[int, int]) -> None:
    belief, tables = example([T1, T2])
    with pytest.raises(UnknownPair):
        dimension_information(belief, tables, *pair)


def test_other_numbers_of_the_same_shape_compile_nothing() -> None:
    worlds = [build(make_world(s, k, (2, 3), (2, 4))) for s, k in enumerate(KINDS)]
    asked = [m[2].mark_asked(0, 1) for m in worlds]
    score(worlds[0][1], worlds[0][2]).information.block_until_ready()
    with compilations() as count:
        for (_, belief, tables), later in zip(worlds, asked, strict=True):
            score(belief, tables)
            score(belief, later)
    assert count[0] == 0


@pytest.mark.parametrize("count", [1, 3, 17])
@pytest.mark.parametrize("shared", [True, False])
def test_many_beliefs_at_once_get_the_scores_of_each_alone(
    count: int, shared: bool, x64: bool
) -> None:
    sizes, choices = (3, 2, 2), (2, 3)
    space = space_of(sizes)
    kinds = ("dense", "zeros", "sharp")
    worlds = [make_world(seed, kinds[seed % 3], sizes, choices) for seed in range(count)]
    beliefs = [Belief.from_priors(space, world.priors) for world in worlds]
    tables = [LikelihoodTables.build(space, w.choices, w.tables, users=2) for w in worlds]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *beliefs)
    given_tables = tables[0] if shared else jax.tree.map(lambda *x: jnp.stack(x), *tables)
    found = score_many(stacked, given_tables)
    for n, (belief, own) in enumerate(zip(beliefs, tables, strict=True)):
        alone = score(belief, tables[0] if shared else own)
        np.testing.assert_allclose(found.information[n], alone.information, atol=1e-6)
        np.testing.assert_allclose(found.predictive[n], alone.predictive, atol=1e-6)


def test_beliefs_that_are_not_stacked_or_too_few_are_refused() -> None:
    space = space_of((2, 2))
    world = make_world(0, "dense", (2, 2), (2,))
    belief = Belief.from_priors(space, world.priors)
    tables = LikelihoodTables.build(space, world.choices, world.tables, users=2)
    with pytest.raises(InvalidSetting, match="call score for one belief"):
        score_many(belief, tables)
    two = jax.tree.map(lambda x: jnp.stack([x, x]), belief)
    three = jax.tree.map(lambda x: jnp.stack([x, x, x]), tables)
    with pytest.raises(InvalidSetting, match="2 beliefs, but 3"):
        score_many(two, three)
