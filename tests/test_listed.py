"""Beliefs over listed states, against sums in plain float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import Belief, LikelihoodTables, StateSpace, mutual_information, update
from balar_core.channels import Channels, noisy_channel
from balar_core.errors import (
    InvalidDimension,
    InvalidDistribution,
    InvalidEvidence,
    InvalidQuestion,
    InvalidSetting,
    InvalidTable,
    UnknownPair,
)
from balar_core.listed import ListedBelief
from balar_core.status import code_name

from . import reference

SIZES = (3, 2, 4)
STATES = 7


def made(seed: int, sharp: bool) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """States, weights and channels from a seed; the same shapes every time."""
    random = np.random.default_rng(seed)
    every = reference.states(SIZES)
    states = random.permutation(every)[:STATES]
    weights = 10.0 ** (-20 * random.random(STATES)) if sharp else random.random(STATES)
    weights[0] = 1
    tables = [random.dirichlet(np.ones(3), size) for size in SIZES]
    tables[1][0] = [1, 0, 0]
    return states, weights, tables


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_information_of_every_question_is_the_enumerated_one(x64, seed, sharp):
    states, weights, tables = made(seed, sharp)
    belief = ListedBelief.of(SIZES, states, weights)
    target = [0, 2]
    scores = belief.scores(Channels.build(SIZES, [0, 1, 2], tables), belief.target(target))
    p = weights / weights.sum()
    atol = 1e-12 if x64 else 1e-6
    for q in range(3):
        whole = reference.listed_information(p, states, q, tables[q], range(3))
        about = reference.listed_information(p, states, q, tables[q], target)
        assert scores.whole[q] == pytest.approx(whole, abs=atol, rel=1e-4)
        assert scores.about[q] == pytest.approx(about, abs=atol, rel=1e-4)
        predicted = (p[:, None] * tables[q][states[:, q]]).sum(axis=0)
        np.testing.assert_allclose(scores.predictive[q], predicted, atol=atol)


@given(st.integers(0, 2**32 - 1))
def test_updates_are_bayes_rule_whatever_their_order(x64, seed):
    states, weights, tables = made(seed, False)
    channels = Channels.build(SIZES, [0, 1, 2], tables)
    evidence = np.random.default_rng(seed).random((3, 3)) + 0.01
    first = ListedBelief.of(SIZES, states, weights)
    there, back, log_evidence = first, first, 0.0
    expected = weights / weights.sum()
    for q in range(3):
        told = there.update(channels, q, jnp.asarray(evidence[q]))
        there, log_evidence = told.belief, log_evidence + told.log_evidence
        back = back.update(channels, 2 - q, jnp.asarray(evidence[2 - q])).belief
        s = evidence[q] / evidence[q].sum()
        expected = expected * (tables[q][states[:, q]] @ s)
    atol = 1e-12 if x64 else 1e-6
    np.testing.assert_allclose(jnp.exp(there.log_p), expected / expected.sum(), atol=atol)
    np.testing.assert_allclose(jnp.exp(back.log_p), expected / expected.sum(), atol=atol)
    np.testing.assert_allclose(log_evidence, np.log(expected.sum()), atol=10 * atol, rtol=1e-5)


def test_on_all_combinations_it_is_the_dense_belief():
    space = StateSpace.of(a=["x", "y"], b=["p", "q", "r"])
    weights = np.array([0.1, 0.2, 0.05, 0.25, 0.1, 0.3])
    table = noisy_channel(3, 0.3)
    dense = Belief.from_joint(space, weights)
    tables = LikelihoodTables.build(space, [3], {(0, 0): [None, table]})
    listed = ListedBelief.of([2, 3], reference.states([2, 3]), weights)
    channels = Channels.build([2, 3], [1], [table])
    target = listed.target([0, 1])
    scores = listed.scores(channels, target)
    np.testing.assert_allclose(scores.whole, mutual_information(dense, tables)[0], atol=1e-6)
    np.testing.assert_allclose(scores.about, scores.whole, atol=1e-6)
    evidence = jnp.array([0.2, 0.5, 0.3])
    after = update(dense, tables, 0, 0, evidence).belief
    np.testing.assert_allclose(
        listed.update(channels, 0, evidence).belief.log_p,
        np.asarray(after.log_joint).ravel()
        if after.layout.row_index.size == 2
        else np.asarray(after.log_joint).T.ravel(),
        atol=1e-6,
    )


def test_equal_states_are_one_and_impossible_ones_stay_impossible():
    belief = ListedBelief.of([2, 2], [(1, 0), (0, 0), (1, 0), (0, 1)], [1, 2, 1, 0])
    np.testing.assert_allclose(jnp.exp(belief.log_p), [0.5, 0.5, 0], atol=1e-7)
    assert belief.digits.tolist() == [[1, 0], [0, 0], [0, 1]]
    np.testing.assert_allclose(belief.marginals(2), [[0.5, 0.5], [1, 0]], atol=1e-7)


def test_flat_evidence_and_strength_zero_change_nothing_and_impossible_evidence_is_a_status():
    belief = ListedBelief.of([2, 2], [(0, 0), (1, 0)], [0.3, 0.7])
    channels = Channels.build([2, 2], [0, 1])
    for evidence, strength in (([1.0, 1.0], 1.0), ([1.0, 0.0], 0.0)):
        told = belief.update(channels, 0, jnp.array(evidence), strength)
        assert told.belief.log_p.tolist() == belief.log_p.tolist()
        assert code_name(told.status) == "ok"
    told = belief.update(channels, 1, jnp.array([0.0, 1.0]))
    assert code_name(told.status) == "impossible_evidence"
    assert told.belief.log_p.tolist() == belief.log_p.tolist()
    told = belief.update(channels, 0, jnp.array([jnp.nan, 1.0]))
    assert code_name(told.status) != "ok"
    assert np.isfinite(told.belief.log_p).all()


def test_an_answer_told_twice_at_half_strength_counts_once():
    belief = ListedBelief.of([2], [(0,), (1,)])
    channels = Channels.build([2], [0, 0], [noisy_channel(2, 0.4)] * 2)
    yes = jnp.array([1.0, 0.0])
    once = belief.update(channels, 0, yes).belief
    halves = belief.update(channels, 0, yes, 0.5).belief.update(channels, 1, yes, 0.5).belief
    np.testing.assert_allclose(halves.log_p, once.log_p, atol=1e-6)


def test_a_thousand_certain_answers_leave_no_nan(x64):
    belief = ListedBelief.of([2], [(0,), (1,)])
    channels = Channels.build([2], [0], [noisy_channel(2, 1e-6)])
    step = jax.jit(lambda b, s: (b.update(channels, 0, s).belief, None))
    belief, _ = jax.lax.scan(step, belief, jnp.tile(jnp.array([[1.0, 0.0]]), (1000, 1)))
    scores = belief.scores(channels, belief.target([0]))
    assert np.isfinite(scores.whole).all() and (scores.about >= 0).all()
    assert jnp.exp(belief.log_p[0]) == 1


def test_beliefs_can_be_mapped_over():
    channels = Channels.build([2, 2], [0, 1])
    belief = ListedBelief.of([2, 2], [(0, 0), (1, 1), (1, 0)])
    target = belief.target([0])
    many = jax.vmap(lambda y: belief.update(channels, 1, y).belief.scores(channels, target).about)
    np.testing.assert_allclose(many(jnp.eye(2))[:, 0], [np.log(2), 0], atol=1e-6)


@pytest.mark.parametrize(
    ("error", "sizes", "states", "weights", "said"),
    [
        (InvalidDimension, [], [[]], None, "sizes"),
        (InvalidDimension, [2, 0], [(0, 0)], None, "sizes"),
        (InvalidTable, [2], np.zeros((0, 1), int), None, "one row per state"),
        (InvalidTable, [2, 2], [(0,)], None, "2 variables"),
        (InvalidTable, [2], [(0.5,)], None, "integers"),
        (InvalidTable, [2, 3], [(0, 0), (1, 3)], None, "State 1 has value 3 of variable 1"),
        (InvalidTable, [2], [(-1,)], None, "State 0 has value -1"),
        (InvalidDistribution, [2], [(0,), (1,)], [1], "2 states"),
        (InvalidDistribution, [2], [(0,), (1,)], [1, np.nan], "state 1 is nan"),
        (InvalidDistribution, [2], [(0,), (1,)], [-1, np.inf], "state 0 is -1"),
        (InvalidDistribution, [2], [(0,), (1,)], [0, 0], "All weights are zero"),
        (InvalidDistribution, [2], [(0,), (1,)], ["a", "b"], "one number each"),
    ],
)
def test_what_cannot_be_a_belief_is_named(error, sizes, states, weights, said):
    with pytest.raises(error, match=said):
        ListedBelief.of(sizes, states, weights)


def test_huge_weights_do_not_overflow():
    belief = ListedBelief.of([2], [(0,), (1,)], [1e308, 1e308])
    np.testing.assert_allclose(jnp.exp(belief.log_p), [0.5, 0.5])


def test_what_cannot_be_questions_is_named():
    with pytest.raises(InvalidQuestion, match="no question"):
        Channels.build([2], [])
    with pytest.raises(InvalidQuestion, match="variable 1"):
        Channels.build([2], [1])
    with pytest.raises(InvalidTable, match="2 channels for 1"):
        Channels.build([2], [0], [None, None])
    with pytest.raises(InvalidTable, match="has 1 rows"):
        Channels.build([2], [0], [[[0.5, 0.5]]])
    with pytest.raises(InvalidTable, match="1 choice"):
        Channels.build([2], [0], [[[1.0], [1.0]]])
    with pytest.raises(InvalidDistribution, match="row 1 of the channel of question 0"):
        Channels.build([2], [0], [[[0.5, 0.5], [0.5, 0.6]]])
    with pytest.raises(InvalidSetting, match="noise"):
        noisy_channel(2, 1.5)
    with pytest.raises(InvalidSetting, match="unknown"):
        noisy_channel(2, unknown=float("nan"))
    with pytest.raises(InvalidSetting, match="1 value"):
        noisy_channel(1)


def test_evidence_that_does_not_fit_and_questions_that_do_not_exist_are_refused():
    belief = ListedBelief.of([2], [(0,), (1,)])
    channels = Channels.build([2], [0])
    with pytest.raises(InvalidEvidence, match="shape"):
        belief.update(channels, 0, jnp.ones(3))
    with pytest.raises(UnknownPair, match="question 1"):
        channels.log_weights(1, jnp.ones(2))
    with pytest.raises(InvalidDimension, match="target"):
        belief.target([1])
    with pytest.raises(InvalidDimension, match="target"):
        belief.target([])
