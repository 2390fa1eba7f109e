"""The belief: updates, what they leave alone, growth, and answers that cannot be."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from balar_core import (
    Belief,
    Dimension,
    LikelihoodTables,
    StateSpace,
    Status,
    entropy,
    expand,
    joint,
    map_state,
    marginals,
    mutual_information,
    raise_for_status,
    update,
)
from balar_core.errors import (
    ImpossibleEvidence,
    InvalidDimension,
    InvalidDistribution,
    InvalidTable,
    NumericFailure,
    StateSpaceTooLarge,
)

from . import reference
from .compilation import compilations
from .strategies import build, evidence, make_world, space_of

PRIORS = [[0.8, 0.2], [0.5, 0.3, 0.2]]
T1 = [[0.8, 0.2], [0.2, 0.8]]
T2 = [[0.5, 0.5], [0.8, 0.2], [0.2, 0.8]]


def running_example(bucketed: bool = True) -> tuple[StateSpace, Belief, LikelihoodTables]:
    space = space_of((2, 3))
    belief = Belief.from_priors(space, PRIORS, bucketed=bucketed)
    tables = LikelihoodTables.build(space, [2], {(0, 0): [T1, T2]}, bucketed=bucketed)
    return space, belief, tables


def one_dimension(prior: list[float], table: object) -> tuple[Belief, LikelihoodTables]:
    space = space_of((len(prior),))
    choices = np.shape(table)[1]
    tables = LikelihoodTables.build(space, [choices], {(0, 0): [table]}, bucketed=True)  # type: ignore[dict-item]
    return Belief.from_priors(space, [prior], bucketed=True), tables


def test_hard_answer_in_the_running_example(x64: bool) -> None:
    space, belief, tables = running_example()
    result = update(belief, tables, 0, 0, evidence(tables, np.array([1, 0])))
    np.testing.assert_allclose(
        joint(result.belief, space),
        [[0.471813, 0.333044, 0.117953], [0.029488, 0.044232, 0.003469]],
        atol=1e-6,
    )
    found = marginals(result.belief)
    np.testing.assert_allclose(found[0, :2], [0.92281006, 0.07718994], atol=1e-7)
    np.testing.assert_allclose(found[1, :3], [0.50130095, 0.37727667, 0.12142238], atol=1e-7)
    assert np.exp(result.log_evidence) == pytest.approx(0.6782352941, abs=5e-7)


def test_joint_is_kept_where_marginals_would_not_do() -> None:
    space, belief, tables = running_example()
    after = joint(update(belief, tables, 0, 0, evidence(tables, np.array([1, 0]))).belief, space)
    product = after.sum(axis=1)[:, None] * after.sum(axis=0)[None]
    assert np.abs(after - product).max() > 5e-3


@pytest.mark.parametrize("weights", [[0.5, 0.5], [7.0, 7.0], [1 / 3, 1 / 3]])
def test_an_answer_that_says_nothing_changes_nothing_at_all(
    x64: bool, weights: list[float]
) -> None:
    _, belief, tables = running_example()
    result = update(belief, tables, 0, 0, evidence(tables, np.array(weights)))
    np.testing.assert_array_equal(result.belief.log_joint, belief.log_joint)


def test_only_proportions_of_evidence_count(x64: bool) -> None:
    _, belief, tables = running_example()
    for a, b in (([2, 0], [1, 0]), ([0.7, 0.2], [7 / 9, 2 / 9]), ([1e-30, 3e-30], [0.25, 0.75])):
        first = update(belief, tables, 0, 0, evidence(tables, np.array(a)))
        second = update(belief, tables, 0, 0, evidence(tables, np.array(b)))
        np.testing.assert_allclose(
            jnp.exp(first.belief.log_joint), jnp.exp(second.belief.log_joint), atol=1e-6
        )
        assert first.log_evidence == pytest.approx(float(second.log_evidence), abs=1e-6)


def test_excluded_states_stay_excluded_for_ever(x64: bool) -> None:
    belief, tables = one_dimension([1, 0, 0], [[0.01, 0.99], [0.99, 0.01], [0.5, 0.5]])
    hard = evidence(tables, np.array([1, 0]))
    for _ in range(50):
        belief = update(belief, tables, 0, 0, hard).belief
    assert marginals(belief)[0, :3].tolist() == [1, 0, 0]


def test_long_evidence_can_be_outweighed_again(x64: bool) -> None:
    belief, tables = one_dimension([0.5, 0.5], [[0.2, 0.8], [0.8, 0.2]])
    answers = [evidence(tables, np.eye(2)[y]) for y in (0, 1)]

    def odds(belief: Belief) -> float:
        flat = np.asarray(belief.log_joint).ravel()
        return float(flat[0] - flat[1])

    for count in range(75):
        if count == 65:
            assert odds(belief) == pytest.approx(-90.1091334728, abs=1e-3)
        belief = update(belief, tables, 0, 0, answers[0]).belief
    for _ in range(75):
        belief = update(belief, tables, 0, 0, answers[1]).belief
    np.testing.assert_allclose(marginals(belief)[0, :2], [0.5, 0.5], atol=1e-4)


def test_truth_recovers_from_one_wrong_answer(x64: bool) -> None:
    space = space_of((2, 2, 2))
    noisy = [[0.8, 0.2], [0.2, 0.8]]
    belief = Belief.from_priors(space, [[0.5, 0.5]] * 3, bucketed=True)
    about = [[noisy if i == j else None for i in range(3)] for j in range(3)]
    tables = LikelihoodTables.build(
        space, [2] * 6, {(q, 0): about[q % 3] for q in range(6)}, bucketed=True
    )
    for question in range(6):
        said = np.eye(2)[1 if question == 0 else 0]
        belief = update(belief, tables, question, 0, evidence(tables, said)).belief
    assert float(joint(belief, space)[1, 0, 0] + joint(belief, space)[0, 0, 0]) > 0.5
    assert map_state(belief).index == 0


def test_impossible_evidence_is_a_status_and_changes_nothing(x64: bool) -> None:
    belief, tables = one_dimension([0.5, 0.5, 0.0], [[1, 0], [1, 0], [0, 1]])
    result = update(belief, tables, 0, 0, evidence(tables, np.array([0, 1])))
    assert bool(result.status == Status.impossible_evidence)
    assert float(result.log_evidence) == -np.inf
    np.testing.assert_array_equal(result.belief.log_joint, belief.log_joint)
    with pytest.raises(ImpossibleEvidence, match=r"question 'Sure\?', answer 'no'.*noise floor"):
        raise_for_status(result.status, "question 'Sure?', answer 'no'")


def test_contradictory_tables_are_a_status_where_they_have_probability(x64: bool) -> None:
    table = jnp.log(jnp.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    for prior, status in (
        ([0.5, 0.25, 0.25], Status.impossible_state),
        ([0.5, 0.5, 0.0], Status.ok),
    ):
        space = space_of((3,))
        belief = Belief.from_priors(space, [prior])
        tables = LikelihoodTables(
            table[None, None, None],
            jnp.ones((1, 2), bool),
            jnp.ones((1, 1), bool),
            jnp.zeros((1, 1), bool),
        )
        result = update(belief, tables, 0, 0, evidence(tables, np.array([1, 0])))
        assert bool(result.status == status)
        assert not bool(jnp.isnan(result.belief.log_joint).any())
    with pytest.raises(ImpossibleEvidence, match="every choice of a question is impossible"):
        raise_for_status(Status.impossible_state, "question 0")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_evidence_that_is_not_a_number_is_a_status(x64: bool, bad: float) -> None:
    _, belief, tables = running_example()
    result = update(belief, tables, 0, 0, evidence(tables, np.array([bad, 1.0])))
    assert bool(result.status == Status.not_a_number)
    np.testing.assert_array_equal(result.belief.log_joint, belief.log_joint)
    assert not bool(jnp.isnan(result.log_evidence))
    with pytest.raises(NumericFailure, match="not a number"):
        raise_for_status(result.status, "question 0")


def test_garbage_in_padding_changes_nothing(x64: bool) -> None:
    _, belief, tables = running_example()
    log_tables = (
        jnp.where(tables.choice_mask[:, None, None, None, :], tables.log_tables, jnp.nan)
        .at[:, :, 2:]
        .set(jnp.nan)
    )
    spoilt = LikelihoodTables(log_tables, tables.choice_mask, tables.valid, tables.asked)
    weights = evidence(tables, np.array([0.9, 0.1]))
    clean = update(belief, tables, 0, 0, weights)
    dirty = update(belief, spoilt, 0, 0, weights.at[2:].set(jnp.nan))
    np.testing.assert_array_equal(clean.belief.log_joint, dirty.belief.log_joint)
    assert bool(dirty.status == Status.ok)


def test_status_travels_through_a_batch(x64: bool) -> None:
    belief, tables = one_dimension([1.0, 0.0], [[1, 0], [0, 1]])
    batch = jnp.stack([evidence(tables, np.eye(2)[y]) for y in (0, 1)])
    result = jax.vmap(lambda e: update(belief, tables, 0, 0, e))(batch)
    assert (result.status == Status.impossible_evidence).tolist() == [False, True]
    assert not bool(jnp.isnan(result.belief.log_joint).any())


def test_new_dimension_leaves_the_old_ones_alone(x64: bool) -> None:
    space, belief, tables = running_example()
    for y in (0, 1):
        belief = update(belief, tables, 0, 0, evidence(tables, np.eye(2)[y])).belief
    larger, new_space = expand(
        belief, space, Dimension("new", ("a", "b")), [0.5, 0.5], bucketed=True
    )
    atol = 1e-12 if x64 else 1e-6
    np.testing.assert_allclose(marginals(larger)[:2], marginals(belief)[:2], atol=atol)
    np.testing.assert_allclose(marginals(larger)[2, :2], [0.5, 0.5], atol=atol)
    wider = LikelihoodTables.build(new_space, [2], {(0, 0): [T1, T2, None]}, bucketed=True)
    np.testing.assert_allclose(
        mutual_information(larger, wider), mutual_information(belief, tables), atol=atol
    )


def test_twelve_dimensions_are_followed_exactly(x64: bool) -> None:
    world = make_world(3, "dense", (2,) * 12, (3, 2), users=1)
    space, belief, tables = build(world)
    pi = world.prior()
    for pair, y in (((0, 0), 2), ((1, 0), 0)):
        pi, _ = reference.update(pi, world.likelihood(pair), np.eye(world.choices[pair[0]])[y])
        hard = evidence(tables, np.eye(world.choices[pair[0]])[y])
        belief = update(belief, tables, *pair, hard).belief
    np.testing.assert_allclose(joint(belief, space).ravel(), pi, atol=1e-12 if x64 else 1e-6)
    expected = reference.mutual_information(pi, world.likelihood((0, 0)))
    assert mutual_information(belief, tables)[0, 0] == pytest.approx(expected, abs=1e-6)


def test_expansion_past_the_cap_or_onto_a_name_is_refused() -> None:
    space = StateSpace.of(max_states=7, d0=["a", "b"], d1=["a", "b", "c"])
    belief = Belief.from_priors(space, PRIORS)
    with pytest.raises(StateSpaceTooLarge):
        expand(belief, space, Dimension("d2", ("a", "b")), [0.5, 0.5])
    with pytest.raises(InvalidDimension, match="duplicates"):
        expand(belief, space, Dimension("D1", ("a", "b")), [0.5, 0.5])


def test_belief_from_a_joint_is_that_joint(x64: bool) -> None:
    space = space_of((2, 3, 5))
    weights = np.random.default_rng(0).dirichlet(np.ones(30)).reshape(2, 3, 5)
    for given in (weights, weights.ravel()):
        np.testing.assert_allclose(
            joint(Belief.from_joint(space, given, bucketed=True), space), weights, atol=1e-7
        )


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda s: Belief.from_joint(s, np.full((3, 2), 1 / 6)), InvalidTable),
        (lambda s: Belief.from_joint(s, np.full(5, 1 / 5)), InvalidTable),
        (lambda s: Belief.from_joint(s, np.full((2, 3), 1.0)), InvalidDistribution),
        (lambda s: Belief.from_priors(s, PRIORS[::-1]), InvalidTable),
        (lambda s: Belief.from_priors(s, PRIORS[:1]), InvalidTable),
        (lambda s: Belief.from_priors(s, [[0.5, 0.6], PRIORS[1]]), InvalidDistribution),
    ],
    ids=["swapped", "short", "sum", "exchanged", "missing", "row"],
)
def test_priors_that_do_not_fit_are_refused(
    make: Callable[[StateSpace], Belief], error: type[Exception]
) -> None:
    with pytest.raises(error):
        make(space_of((2, 3)))


def test_tied_states_go_to_the_lowest_index(x64: bool) -> None:
    for sizes in ((4,), (3, 2, 4), (2, 2, 2, 2)):
        belief = Belief.from_priors(
            space_of(sizes), [np.full(n, 1 / n) for n in sizes], bucketed=True
        )
        best = map_state(belief)
        assert int(best.index) == 0
        assert best.digits[: len(sizes)].tolist() == [0] * len(sizes)
        assert (best.digits[len(sizes) :] == -1).all()


@pytest.mark.parametrize("prior", [[0.3, 0.5, 0.2], [1.0, 0.0, 0.0]])
def test_slopes_of_the_evidence_and_the_posterior_are_right(prior: list[float]) -> None:
    """Against central differences, also with zeros in the prior and in the table."""
    with jax.enable_x64(True):
        belief, tables = one_dimension(prior, [[0.7, 0.3], [1.0, 0.0], [0.2, 0.8]])
        logits = jnp.where(jnp.isfinite(belief.log_joint), belief.log_joint, -jnp.inf)

        def scalars(shift: jax.Array, weights: jax.Array) -> jax.Array:
            moved = Belief(
                logits + shift[0] * jnp.arange(logits.size).reshape(logits.shape) * 0.01,
                belief.layout,
            )
            result = update(moved, tables, 0, 0, weights)
            return result.log_evidence + entropy(result.belief) + marginals(result.belief)[0, 0]

        weights = evidence(tables, np.array([0.6, 0.4]))
        shift = jnp.zeros(1)
        by_shift, by_weights = jax.jit(jax.grad(scalars, argnums=(0, 1)))(shift, weights)
        assert bool(jnp.isfinite(by_shift).all() & jnp.isfinite(by_weights).all())
        step = 1e-6
        for gradient, argument, i in ((by_shift, 0, 0), (by_weights, 1, 0), (by_weights, 1, 1)):
            ends = []
            for sign in (1, -1):
                arguments = [shift, weights]
                arguments[argument] = arguments[argument].at[i].add(sign * step)
                ends.append(float(scalars(*arguments)))
            assert float(gradient[i]) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


def test_slope_of_log_evidence_is_finite_at_hard_answers_and_zeros(x64: bool) -> None:
    belief, tables = one_dimension([0.5, 0.5, 0.0], [[1, 0], [0.5, 0.5], [0, 1]])

    def log_evidence(log_joint: jax.Array, log_tables: jax.Array, weights: jax.Array) -> jax.Array:
        own = LikelihoodTables(log_tables, tables.choice_mask, tables.valid, tables.asked)
        return update(Belief(log_joint, belief.layout), own, 0, 0, weights).log_evidence

    for y in (0, 1):
        gradients = jax.grad(log_evidence, argnums=(0, 1, 2))(
            belief.log_joint, tables.log_tables, evidence(tables, np.eye(2)[y])
        )
        assert all(bool(jnp.isfinite(g).all()) for g in gradients)


def test_other_pairs_and_other_answers_compile_nothing() -> None:
    world = make_world(1, "dense", (2, 3), (2, 4, 3))
    _, belief, tables = build(world)
    update(belief, tables, 0, 0, evidence(tables, np.ones(2)))
    weights = [evidence(tables, np.eye(4)[q]) for q in range(3)]
    with compilations() as count:
        for q in range(3):
            for u in range(2):
                update(belief, tables, q, u, weights[q])
    assert count[0] == 0
