"""Laws of exact Bayesian inference, on made-up worlds and against brute force."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from balar_core import (
    Belief,
    Dimension,
    LikelihoodTables,
    Status,
    answer_posterior,
    dimension_information,
    entropy,
    expand,
    joint,
    map_state,
    marginals,
    score,
    update,
)

from .. import reference
from ..reference import World
from ..strategies import KINDS, build, build_answers, evidence, make_world, soft, worlds

SEEDS = st.integers(0, 2**32 - 1)
SMOOTH = ("labels", "dense", "irrelevant", "weak")


def tolerance(x64: bool) -> float:
    """Absolute, for probabilities and nats; sharp tables have logarithms of a few hundred."""
    return 1e-10 if x64 else 5e-5


def close(found: object, expected: object, atol: float) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=0, atol=atol)


def ask(
    belief: Belief, tables: LikelihoodTables, pair: tuple[int, int], weights: np.ndarray
) -> Belief:
    result = update(belief, tables, *pair, evidence(tables, weights))
    assert bool(result.status == Status.ok)
    return result.belief


def leaves_are_numbers(*values: object) -> bool:
    arrays = jax.tree.leaves(eqx.filter(values, eqx.is_inexact_array))
    return not any(bool(jnp.isnan(a).any()) for a in arrays)


def shown(marginal: jax.Array, world: World) -> list[np.ndarray]:
    return [np.asarray(marginal)[j, :size] for j, size in enumerate(world.sizes)]


@given(world=worlds(), seed=SEEDS)
def test_engine_agrees_with_brute_force(x64: bool, world: World, seed: int) -> None:
    atol = tolerance(x64)
    random = np.random.default_rng(seed)
    space, belief, tables = build(world)
    answers = build_answers(world)
    pi = world.prior()
    for step in range(3):
        scores = score(belief, tables)
        for (q, u), _ in world.tables.items():
            k = world.likelihood((q, u))
            close(scores.information[q, u], reference.mutual_information(pi, k), atol)
            close(scores.predictive[q, u, : k.shape[1]], reference.predictive(pi, k), atol)
            shares = dimension_information(belief, tables, q, u)[: len(world.sizes)]
            close(shares, reference.dimension_information(pi, k, world.sizes), atol)
        close(joint(belief, space).ravel(), pi, atol)
        for found, expected in zip(
            shown(marginals(belief), world), reference.marginals(pi, world.sizes), strict=True
        ):
            close(found, expected, atol)
        close(entropy(belief), reference.entropy(pi), atol)
        best = map_state(belief)
        close(np.exp(best.log_probability), pi.max(), atol)
        close(pi.reshape(world.sizes)[tuple(best.digits[: len(world.sizes)])], pi.max(), atol)
        for per_state in (False, True):
            close(
                answer_posterior(belief, answers, per_state=per_state)[: world.answers],
                reference.answer_posterior(
                    pi, world.sizes, world.answer_tables, world.answers, per_state=per_state
                ),
                atol,
            )
        if step < 2:
            pair = list(world.tables)[int(random.integers(len(world.tables)))]
            weights = soft(random, world.choices[pair[0]])
            pi, probability = reference.update(pi, world.likelihood(pair), weights)
            result = update(belief, tables, *pair, evidence(tables, weights))
            close(np.exp(result.log_evidence), probability, atol)
            belief = result.belief


@given(world=worlds(), seed=SEEDS)
def test_everything_that_is_a_distribution_sums_to_one(x64: bool, world: World, seed: int) -> None:
    atol = 1e-12 if x64 else 1e-5
    _, belief, tables = build(world)
    pair = next(iter(world.tables))
    belief = ask(belief, tables, pair, soft(np.random.default_rng(seed), world.choices[pair[0]]))
    close(jnp.exp(belief.log_joint).sum(), 1, atol)
    close(marginals(belief)[: len(world.sizes)].sum(axis=1), 1, atol)
    predicted = score(belief, tables).predictive
    close(predicted.sum(axis=-1), np.asarray(tables.valid, dtype=float), atol)
    close(answer_posterior(belief, build_answers(world)).sum(), 1, atol)


@given(world=worlds(), seed=SEEDS)
def test_order_of_evidence_does_not_matter(x64: bool, world: World, seed: int) -> None:
    random = np.random.default_rng(seed)
    space, belief, tables = build(world)
    steps = [(pair, soft(random, world.choices[pair[0]])) for pair in world.tables]
    forth, back = belief, belief
    for pair, weights in steps:
        forth = ask(forth, tables, pair, weights)
    for pair, weights in reversed(steps):
        back = ask(back, tables, pair, weights)
    close(joint(forth, space), joint(back, space), tolerance(x64))


@given(world=worlds(), choice=st.integers(0, 3))
def test_hard_answer_is_bayes_rule(x64: bool, world: World, choice: int) -> None:
    space, belief, tables = build(world)
    pair = next(iter(world.tables))
    one_hot = np.zeros(world.choices[pair[0]])
    one_hot[choice % len(one_hot)] = 3.0  # only proportions count
    column = world.likelihood(pair)[:, choice % len(one_hot)]
    joint_probability = world.prior() * column
    assume(joint_probability.sum() > 1e-15)
    result = update(belief, tables, *pair, evidence(tables, one_hot))
    expected = joint_probability / joint_probability.sum()
    close(joint(result.belief, space).ravel(), expected, tolerance(x64))
    close(result.log_evidence, np.log(joint_probability.sum()), 1e-3 if not x64 else 1e-10)


@given(world=worlds(), level=st.floats(1e-3, 1e3))
def test_uniform_evidence_changes_nothing_at_all(x64: bool, world: World, level: float) -> None:
    _, belief, tables = build(world)
    for pair in world.tables:
        weights = np.full(world.choices[pair[0]], level)
        result = update(belief, tables, *pair, evidence(tables, weights))
        np.testing.assert_array_equal(result.belief.log_joint, belief.log_joint)
        close(result.log_evidence, -np.log(len(weights)), 1e-6)


@given(world=worlds(SMOOTH), seed=SEEDS)
def test_order_of_dimensions_values_and_choices_does_not_matter(
    x64: bool, world: World, seed: int
) -> None:
    random = np.random.default_rng(seed)
    order = random.permutation(len(world.sizes))
    value_order = [random.permutation(size) for size in world.sizes]
    choice_order = [random.permutation(count) for count in world.choices]
    turned = World(
        sizes=tuple(world.sizes[j] for j in order),
        priors=tuple(world.priors[j][value_order[j]] for j in order),
        choices=world.choices,
        users=world.users,
        tables={
            (q, u): tuple(
                None if (t := tables[j]) is None else t[value_order[j]][:, choice_order[q]]
                for j in order
            )
            for (q, u), tables in world.tables.items()
        },
    )
    _, belief, tables = build(world)
    _, other, other_tables = build(turned)
    pair = next(iter(world.tables))
    weights = soft(random, world.choices[pair[0]])
    belief = ask(belief, tables, pair, weights)
    other = ask(other, other_tables, pair, weights[choice_order[pair[0]]])
    atol = tolerance(x64)
    close(score(belief, tables).information, score(other, other_tables).information, atol)
    before, after = shown(marginals(belief), world), shown(marginals(other), turned)
    for position, j in enumerate(order):
        close(after[position], before[j][value_order[j]], atol)


@given(world=worlds(), seed=SEEDS, size=st.integers(2, 4))
def test_expansion_leaves_old_marginals_and_old_informations_alone(
    x64: bool, world: World, seed: int, size: int
) -> None:
    random = np.random.default_rng(seed)
    space, belief, tables = build(world)
    pair = next(iter(world.tables))
    belief = ask(belief, tables, pair, soft(random, world.choices[pair[0]]))
    fresh = random.dirichlet(np.ones(size))
    larger, new_space = expand(
        belief, space, Dimension("new", ("a", "b", "c", "d")[:size]), fresh, bucketed=True
    )
    wider = LikelihoodTables.build(
        new_space,
        world.choices,
        {p: (*t, None) for p, t in world.tables.items()},
        users=world.users,
        bucketed=True,
    )
    exact = 1e-12 if x64 else 2e-6
    for old, new in zip(
        shown(marginals(belief), world), shown(marginals(larger), world), strict=True
    ):
        close(new, old, exact)
    close(marginals(larger)[len(world.sizes), :size], fresh, exact)
    close(score(larger, wider).information, score(belief, tables).information, tolerance(x64))
    close(entropy(larger), reference.entropy(fresh) + float(entropy(belief)), tolerance(x64))


@given(world=worlds())
def test_information_is_between_zero_and_what_there_is_to_know(x64: bool, world: World) -> None:
    slack = 1e-12 if x64 else 2e-6
    _, belief, tables = build(world)
    scores = score(belief, tables)
    own = float(entropy(belief))
    for (q, u), _ in world.tables.items():
        information = float(scores.information[q, u])
        predicted = np.asarray(scores.predictive[q, u], dtype=np.float64)
        assert 0 <= information <= min(own, reference.entropy(predicted)) + slack
        shares = dimension_information(belief, tables, q, u)
        assert bool(jnp.all((shares >= 0) & (shares <= information + slack)))


@given(world=worlds(SMOOTH))
def test_information_is_the_expected_fall_of_entropy(x64: bool, world: World) -> None:
    _, belief, tables = build(world)
    scores = score(belief, tables)
    for (q, u), _ in world.tables.items():
        expected = 0.0
        for y in range(world.choices[q]):
            after = update(belief, tables, q, u, evidence(tables, np.eye(world.choices[q])[y]))
            expected += float(scores.predictive[q, u, y]) * float(entropy(after.belief))
        close(float(entropy(belief)) - expected, scores.information[q, u], tolerance(x64))


@given(world=worlds(SMOOTH), seed=SEEDS)
def test_two_answers_tell_the_same_in_either_order(x64: bool, world: World, seed: int) -> None:
    """The chain rule: I(A) + E I(B | A) = I(B) + E I(A | B)."""
    random = np.random.default_rng(seed)
    _, belief, tables = build(world)
    pairs = list(world.tables)
    a, b = pairs[0], pairs[int(random.integers(len(pairs)))]

    def together(first: tuple[int, int], second: tuple[int, int]) -> float:
        scores = score(belief, tables)
        total = float(scores.information[first])
        for y in range(world.choices[first[0]]):
            after = ask(belief, tables, first, np.eye(world.choices[first[0]])[y])
            weight = float(scores.predictive[first][y])
            total += weight * float(score(after, tables).information[second])
        return total

    close(together(a, b), together(b, a), tolerance(x64))


@given(seed=SEEDS, kind=st.sampled_from(KINDS))
def test_bucketed_and_exact_shapes_give_the_same(x64: bool, seed: int, kind: str) -> None:
    # One exact shape is enough: every other shape would be another compilation.
    world = make_world(seed, kind, (2, 3, 4), (2, 4), answers=3)
    atol = tolerance(x64)
    space, padded, padded_tables = build(world)
    _, exact, exact_tables = build(world, bucketed=False)
    assert padded.log_joint.shape != exact.log_joint.shape
    weights = np.array([0.2, 0.5, 0.2, 0.1])
    padded = ask(padded, padded_tables, (1, 1), weights)
    exact = ask(exact, exact_tables, (1, 1), weights)
    close(joint(padded, space), joint(exact, space), atol)
    information = score(padded, padded_tables).information[:2, :2]
    close(information, score(exact, exact_tables).information, atol)
    close(
        answer_posterior(padded, build_answers(world))[:3],
        answer_posterior(exact, build_answers(world, bucketed=False)),
        atol,
    )


@settings(max_examples=10)
@given(seed=SEEDS, kind=st.sampled_from(["dense", "sharp", "zeros"]))
def test_batch_of_beliefs_gives_what_a_loop_gives(x64: bool, seed: int, kind: str) -> None:
    made = [build(make_world(seed + i, kind, (3, 2, 4), (3, 2))) for i in range(3)]
    beliefs = jax.tree.map(lambda *x: jnp.stack(x), *[m[1] for m in made])
    tables = jax.tree.map(lambda *x: jnp.stack(x), *[m[2] for m in made])
    weights = evidence(made[0][2], np.array([0.5, 0.3, 0.2]))
    updated = jax.vmap(lambda b, t: update(b, t, 0, 1, weights))(beliefs, tables)
    scores = jax.vmap(score)(updated.belief, tables)
    for i, (_, belief, own) in enumerate(made):
        single = update(belief, own, 0, 1, weights)
        alone = score(single.belief, own)
        close(jnp.exp(updated.belief.log_joint[i]), jnp.exp(single.belief.log_joint), 1e-6)
        close(scores.information[i], alone.information, tolerance(x64))
        close(scores.predictive[i], alone.predictive, tolerance(x64))


@given(world=worlds(SMOOTH), seed=SEEDS)
def test_dimension_with_equal_rows_is_not_learned_about(x64: bool, world: World, seed: int) -> None:
    random = np.random.default_rng(seed)
    pair = next(iter(world.tables))
    j = int(random.integers(len(world.sizes)))
    tables = list(world.tables[pair])
    tables[j] = np.tile(random.dirichlet(np.ones(world.choices[pair[0]])), (world.sizes[j], 1))
    world.tables[pair] = tuple(tables)
    _, belief, packed = build(world)
    atol = 1e-12 if x64 else 2e-6
    close(dimension_information(belief, packed, *pair)[j], 0, atol)
    after = ask(belief, packed, pair, soft(random, world.choices[pair[0]]))
    close(marginals(after)[j], marginals(belief)[j], atol)


@given(world=worlds(("dense", "labels")), seed=SEEDS)
def test_values_with_equal_rows_keep_their_odds(x64: bool, world: World, seed: int) -> None:
    random = np.random.default_rng(seed)
    pair = next(iter(world.tables))
    first = world.tables[pair][0]
    assert first is not None
    first[1] = first[0]
    _, belief, tables = build(world)
    after = ask(belief, tables, pair, soft(random, world.choices[pair[0]]))
    before, now = np.asarray(marginals(belief))[0], np.asarray(marginals(after))[0]
    close(now[0] * before[1], now[1] * before[0], 1e-12 if x64 else 1e-6)


@given(world=worlds(), seed=SEEDS)
def test_score_of_a_pair_does_not_depend_on_other_pairs(x64: bool, world: World, seed: int) -> None:
    _, belief, tables = build(world)
    pair = list(world.tables)[seed % len(world.tables)]
    alone = jnp.zeros_like(tables.valid).at[pair].set(True)
    one, all_ = score(belief, tables, alone), score(belief, tables)
    close(one.information[pair], all_.information[pair], 1e-12 if x64 else 1e-7)
    assert float(jnp.sum(jnp.where(alone, 0, one.information))) == 0


@given(world=worlds(("zeros", "sharp")), seed=SEEDS)
def test_nothing_is_ever_not_a_number(x64: bool, world: World, seed: int) -> None:
    """Also after answers that are impossible in most states, or in all of them."""
    random = np.random.default_rng(seed)
    _, belief, tables = build(world)
    answers = build_answers(world)
    for pair in world.tables:
        count = world.choices[pair[0]]
        one_hot = np.eye(count)[int(random.integers(count))]
        result = update(belief, tables, *pair, evidence(tables, one_hot))
        if bool(result.status == Status.impossible_evidence):
            np.testing.assert_array_equal(result.belief.log_joint, belief.log_joint)
            assert float(result.log_evidence) == -np.inf
        else:
            assert bool(result.status == Status.ok)
        belief = result.belief
        assert leaves_are_numbers(
            result,
            score(belief, tables),
            marginals(belief),
            map_state(belief),
            answer_posterior(belief, answers),
            entropy(belief),
            dimension_information(belief, tables, *pair),
        )


@given(world=worlds(("zeros",)), choice=st.integers(1, 3))
def test_evidence_is_impossible_exactly_where_bayes_divides_zero_by_zero(
    x64: bool, world: World, choice: int
) -> None:
    _, belief, tables = build(world)
    for pair in world.tables:
        count = world.choices[pair[0]]
        one_hot = np.eye(count)[choice % count]
        probability = float(world.prior() @ world.likelihood(pair) @ one_hot)
        result = update(belief, tables, *pair, evidence(tables, one_hot))
        assert bool(result.status == Status.impossible_evidence) == (probability == 0)
