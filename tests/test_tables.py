"""Likelihood tables: strict shapes, zeros that are legal and zeros that are not."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import AnswerTables, Belief, LikelihoodTables, StateSpace, score, update
from balar_core.errors import (
    AlreadyAsked,
    InvalidDistribution,
    InvalidEvidence,
    InvalidLabel,
    InvalidQuestion,
    InvalidSetting,
    InvalidTable,
    UnknownPair,
)
from balar_core.tables import check_possible

from . import reference
from .strategies import evidence, space_of

SIZES, CHOICES = (2, 3), 5
RANDOM = np.random.default_rng(7)
GOOD = [RANDOM.dirichlet(np.ones(CHOICES), size) for size in SIZES]


def build(tables: Sequence[object], **options: object) -> LikelihoodTables:
    return LikelihoodTables.build(
        space_of(SIZES),
        [CHOICES],
        {(0, 0): tables},
        **options,  # type: ignore[arg-type, dict-item]
    )


@pytest.mark.parametrize("bucketed", [False, True])
def test_tables_are_packed_axis_by_axis(x64: bool, bucketed: bool) -> None:
    space = space_of((2, 3, 4))
    given = {
        (q, u): [RANDOM.dirichlet(np.ones(c), size) for size in space.sizes]
        for q, c in enumerate((5, 7))
        for u in range(6)
    }
    packed = LikelihoodTables.build(space, [5, 7], given, users=6, bucketed=bucketed)
    if not bucketed:
        assert packed.log_tables.shape == (2, 6, 3, 4, 7)
    for (q, u), tables in given.items():
        for j, table in enumerate(tables):
            found = jnp.exp(packed.log_tables[q, u, j, : table.shape[0], : table.shape[1]])
            np.testing.assert_allclose(found, table, rtol=1e-12 if x64 else 1e-5)
    assert packed.valid.sum() == 12 and packed.choice_mask.sum() == 12
    assert not packed.asked.any()


@pytest.mark.parametrize(
    "tables",
    [
        [GOOD[0].T, GOOD[1]],
        [GOOD[1], GOOD[0]],
        [GOOD[0], GOOD[1], GOOD[1]],
        [GOOD[0]],
        [GOOD[0][0], GOOD[1]],
        [GOOD[0][None], GOOD[1]],
        ["likely", GOOD[1]],
        [{0: GOOD[0]}, GOOD[1]],
        [[["likely"] * CHOICES] * 3, None],
    ],
    ids=["transposed", "exchanged", "extra", "missing", "row", "nested", "text", "map", "rows"],
)
def test_tables_of_another_shape_are_refused_and_never_broadcast(tables: Sequence[object]) -> None:
    with pytest.raises(InvalidTable, match="question 0, user 0"):
        build(tables)


def test_bad_rows_are_refused_with_their_place() -> None:
    where = "question 0, user 0, dimension 'd1', row 2"
    rows = [["likely"] * CHOICES, ["likely"] * CHOICES]
    with pytest.raises(InvalidLabel, match=where):
        build([None, [*rows, ["maybe"] * CHOICES]])
    with pytest.raises(InvalidDistribution, match=where):
        build([None, [*rows, [0.5] * CHOICES]])


def test_names_of_questions_and_users_stand_in_messages() -> None:
    with pytest.raises(InvalidTable, match="question 'Does it hurt\\?', user 'Ann'"):
        build([None], names=["Does it hurt?"], user_names=["Ann"])


@pytest.mark.parametrize("noise", [-0.1, 1.5, float("nan")])
def test_noise_outside_its_range_is_refused(noise: float) -> None:
    with pytest.raises(InvalidSetting, match="a share from 0 to 1"):
        build(GOOD, noise=noise)


def test_noise_is_a_share_of_uniformly_random_answers(x64: bool) -> None:
    table = np.eye(2)
    packed = LikelihoodTables.build(space_of((2,)), [2], {(0, 0): [table]}, noise=0.1)
    np.testing.assert_allclose(
        jnp.exp(packed.log_tables[0, 0, 0]), [[0.95, 0.05], [0.05, 0.95]], rtol=1e-6
    )


def test_question_without_two_choices_is_refused() -> None:
    with pytest.raises(InvalidQuestion, match="Question 1 has 1 choice"):
        LikelihoodTables.build(space_of((2,)), [2, 1], {})
    with pytest.raises(InvalidQuestion, match="it needs two"):
        AnswerTables.build(space_of((2,)), 1, [None])


@pytest.mark.parametrize("pair", [(1, 0), (0, 1), (-1, 0)])
def test_pairs_outside_the_questions_and_users_are_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(UnknownPair, match=f"question {pair[0]}, user {pair[1]}"):
        LikelihoodTables.build(space_of(SIZES), [CHOICES], {pair: GOOD})
    with pytest.raises(UnknownPair):
        build(GOOD, asked=[pair])
    tables = build(GOOD)
    with pytest.raises(UnknownPair):
        tables.mark_asked(*pair)
    belief = Belief.from_priors(space_of(SIZES), [("likely",) * n for n in SIZES])
    with pytest.raises(UnknownPair):
        update(belief, tables, *pair, jnp.ones(CHOICES))


def test_pair_is_marked_as_asked_once() -> None:
    tables = LikelihoodTables.build(
        space_of(SIZES), [CHOICES, 2], {(0, 0): GOOD, (1, 1): [None, None]}, users=2
    )
    assert tables.open.tolist() == [[True, False], [False, True]]
    marked = tables.mark_asked(1, 1)
    assert marked.open.tolist() == [[True, False], [False, False]]
    assert tables.open[1, 1]
    with pytest.raises(AlreadyAsked, match="Question 1 was put to user 1 before"):
        marked.mark_asked(1, 1)
    with pytest.raises(UnknownPair, match="no tables"):
        marked.mark_asked(1, 0)


def test_zeros_that_contradict_each_other_are_refused_with_the_states() -> None:
    first = [[1, 0], [0, 1]]
    second = [[0, 1], [0.5, 0.5], [1, 0]]
    space = StateSpace.of(cause=["a", "b"], place=["x", "y", "z"])
    with pytest.raises(InvalidTable, match="every choice is impossible") as caught:
        LikelihoodTables.build(space, [2], {(0, 0): [first, second]})
    words = str(caught.value)
    assert "cause='a', place='x'" in words and "cause='b', place='z'" in words
    assert "cause='a', place='y'" not in words
    noisy = LikelihoodTables.build(space, [2], {(0, 0): [first, second]}, noise=1e-6)
    assert bool(jnp.isfinite(noisy.log_tables).all())


@given(seed=st.integers(0, 2**32 - 1))
def test_contradictions_are_found_exactly_where_there_are_some(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes, choices = (2, 3, 2), 3
    tables = []
    for size in sizes:
        table = random.dirichlet(np.ones(choices), size) * (random.random((size, choices)) < 0.7)
        table[table.sum(axis=1) == 0, 0] = 1
        tables.append(table)
    contradiction = (reference.experts(sizes, tables, choices).sum(axis=1) == 0).any()
    try:
        check_possible(space_of(sizes), tables, "here")
    except InvalidTable:
        assert contradiction
    else:
        assert not contradiction


def test_evidence_of_another_length_is_refused_and_never_broadcast() -> None:
    space = space_of(SIZES)
    belief = Belief.from_priors(space, [("likely",) * n for n in SIZES])
    for length in (1, 3, CHOICES + 1):
        with pytest.raises(InvalidEvidence, match="one weight for each choice"):
            update(belief, build(GOOD), 0, 0, jnp.ones(length))
    with pytest.raises(InvalidEvidence):
        update(belief, build(GOOD), 0, 0, jnp.ones((1, CHOICES)))


@pytest.mark.parametrize("sizes", [(2, 3, 2), (2, 4), (6,)])
def test_tables_of_another_space_are_refused(sizes: tuple[int, ...]) -> None:
    belief = Belief.from_priors(space_of(sizes), [("likely",) * n for n in sizes])
    tables = build(GOOD)
    with pytest.raises(InvalidTable, match="Build both from the same space"):
        score(belief, tables)
    with pytest.raises(InvalidTable, match="Build both from the same space"):
        update(belief, tables, 0, 0, evidence(tables, np.ones(CHOICES)))
