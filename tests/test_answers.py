"""The posterior over a closed answer set, in both readings of the product of experts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from balar_core import AnswerTables, Belief, answer_posterior, update
from balar_core.errors import InvalidDistribution, InvalidTable

from . import reference
from .compilation import compilations
from .strategies import KINDS, build, build_answers, evidence, make_world, space_of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("per_state", [False, True], ids=["once", "per state"])
def test_posterior_over_answers_agrees_with_brute_force(
    x64: bool, kind: str, per_state: bool
) -> None:
    world = make_world(2, kind, (2, 3, 4), (3,), answers=4)
    _, belief, tables = build(world)
    weights = np.array([0.5, 0.3, 0.2])
    belief = update(belief, tables, 0, 0, evidence(tables, weights)).belief
    pi, _ = reference.update(world.prior(), world.likelihood((0, 0)), weights)
    expected = reference.answer_posterior(
        pi, world.sizes, world.answer_tables, 4, per_state=per_state
    )
    found = answer_posterior(belief, build_answers(world), per_state=per_state)
    np.testing.assert_allclose(found, expected, atol=1e-12 if x64 else 2e-5)


def test_two_readings_differ_where_states_leave_different_weight() -> None:
    space = space_of((2, 2))
    belief = Belief.from_priors(space, [[0.5, 0.5]] * 2)
    table = [[0.9, 0.1], [0.5, 0.5]]
    answers = AnswerTables.build(space, 2, [table, table])
    once = answer_posterior(belief, answers)
    each = answer_posterior(belief, answers, per_state=True)
    # Once: (.9 + .5)^2 against (.1 + .5)^2. Per state: the mean of the normalised products.
    assert once[0] == pytest.approx(1.96 / (1.96 + 0.36), abs=1e-6)
    assert each[0] == pytest.approx((0.81 / 0.82 + 2 * 0.9 + 0.5) / 4, abs=1e-6)


def test_answers_that_depend_on_nothing_are_equally_likely(x64: bool) -> None:
    space = space_of((2, 3))
    belief = Belief.from_priors(space, [[0.8, 0.2], [0.5, 0.3, 0.2]], bucketed=True)
    answers = AnswerTables.build(space, 3, [None, None], bucketed=True)
    np.testing.assert_allclose(answer_posterior(belief, answers), [1 / 3] * 3 + [0], atol=1e-6)


def test_garbage_in_padding_changes_nothing(x64: bool) -> None:
    world = make_world(4, "dense", (2, 3), (2,), answers=3)
    _, belief, _ = build(world)
    answers = build_answers(world)
    dirty = jnp.where(answers.mask[None, None, :], answers.log_tables, jnp.nan)
    spoilt = AnswerTables(dirty.at[2:].set(jnp.nan), answers.mask)
    for per_state in (False, True):
        np.testing.assert_array_equal(
            answer_posterior(belief, answers, per_state=per_state),
            answer_posterior(belief, spoilt, per_state=per_state),
        )


@pytest.mark.parametrize("kind", ["dense", "zeros", "sharp"])
def test_slopes_are_finite_and_right(kind: str) -> None:
    with jax.enable_x64(True):
        world = make_world(5, kind, (2, 3), (2,), answers=3)
        _, belief, _ = build(world)
        answers = build_answers(world)

        def first(logits: jax.Array, log_tables: jax.Array, per_state: bool) -> jax.Array:
            return answer_posterior(
                Belief(logits, belief.layout),
                AnswerTables(log_tables, answers.mask),
                per_state=per_state,
            )[0]

        random = np.random.default_rng(0)
        for per_state in (False, True):
            arguments = [belief.log_joint, answers.log_tables]
            gradients = jax.grad(first, argnums=(0, 1))(*arguments, per_state)
            for which, gradient in enumerate(gradients):
                assert bool(jnp.isfinite(gradient).all())
                finite = np.isfinite(np.asarray(arguments[which]))
                direction = np.where(finite, random.normal(size=finite.shape), 0)
                ends = []
                for sign in (1, -1):
                    moved = list(arguments)
                    moved[which] = moved[which] + sign * 1e-6 * jnp.asarray(direction)
                    ends.append(float(first(*moved, per_state)))
                slope = float(np.sum(np.where(finite, gradient, 0) * direction))
                assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-9)


def test_slopes_are_finite_at_a_corner_of_the_simplex(x64: bool) -> None:
    world = make_world(5, "zeros", (2, 3), (2,), answers=3)
    _, belief, _ = build(world)
    answers = build_answers(world)
    corner = jnp.full_like(belief.log_joint, -jnp.inf).at[0, 0].set(0)

    def largest(logits: jax.Array) -> jax.Array:
        return jnp.max(answer_posterior(Belief(logits, belief.layout), answers))

    assert bool(jnp.isfinite(jax.grad(largest)(corner)).all())


@pytest.mark.parametrize(
    ("tables", "error", "words"),
    [
        ([None], InvalidTable, "1 answer tables for 2 dimensions"),
        ([None, np.full((2, 3), 1 / 3)], InvalidTable, "answer table of dimension 'd1'"),
        ([np.full((3, 2), 1 / 2), None], InvalidTable, "answer table of dimension 'd0'"),
        ([[[0.5, 0.5, 0.5]] * 2, None], InvalidDistribution, "dimension 'd0', row 0"),
        ([np.eye(2, 3), [[0, 0, 1]] * 3], InvalidTable, "every choice is impossible"),
    ],
)
def test_answer_tables_that_do_not_fit_are_refused(
    tables: list[object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        AnswerTables.build(space_of((2, 3)), 3, tables)  # type: ignore[arg-type]


def test_answer_tables_of_another_space_are_refused() -> None:
    belief = Belief.from_priors(space_of((2, 3)), [[0.5, 0.5], [0.5, 0.3, 0.2]])
    answers = AnswerTables.build(space_of((2, 4)), 3, [None, None])
    with pytest.raises(InvalidTable, match="Build both from the same space"):
        answer_posterior(belief, answers)


def test_other_answer_sets_of_the_same_shape_compile_nothing() -> None:
    worlds = [make_world(s, k, (2, 3), (2,), answers=2 + s % 3) for s, k in enumerate(KINDS)]
    made = [(build(world)[1], build_answers(world)) for world in worlds]
    answer_posterior(*made[0]).block_until_ready()
    with compilations() as count:
        for belief, answers in made:
            answer_posterior(belief, answers)
    assert count[0] == 0
