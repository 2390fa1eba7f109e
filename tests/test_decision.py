"""ASK, EXPAND or STOP: the rule, its limits, and its thresholds as numbers that change freely."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from balar_core import (
    Belief,
    Decision,
    LikelihoodTables,
    Rule,
    Scores,
    Status,
    Turn,
    decide,
    score,
    target_entropy,
    turn,
    update,
)
from balar_core.errors import InvalidSetting
from balar_core.status import code_name

from . import reference
from .compilation import compilations
from .strategies import build, build_answers, evidence, make_world, space_of

NOISY = [[0.8, 0.2], [0.2, 0.8]]


def world_of(
    informations: list[float], *, open_pairs: list[bool] | None = None, prior: float = 0.5
) -> tuple[Belief, Scores, jax.Array]:
    """A belief over two values and invented scores, one user."""
    belief = Belief.from_priors(space_of((2,)), [[prior, 1 - prior]], bucketed=True)
    scores = Scores(
        jnp.array(informations)[:, None], jnp.zeros((len(informations), 1, 2)), Status.ok
    )
    mask = [True] * len(informations) if open_pairs is None else open_pairs
    return belief, scores, jnp.array(mask)[:, None]


def decided(informations: list[float], left: int = 3, **options: object) -> Decision:
    rule = options.pop("rule", Rule())
    names = ("open_pairs", "prior")
    belief, scores, mask = world_of(
        informations,
        **{k: v for k, v in options.items() if k in names},  # type: ignore[arg-type]
    )
    rest = {k: v for k, v in options.items() if k not in names}
    return decide(belief, scores, mask, rule, questions_left=left, **rest)  # type: ignore[no-any-return]


@pytest.mark.parametrize("count", [1, 2, 6, 50_000])
@pytest.mark.parametrize("alpha", [0.0, 1e-9, 0.1, 0.5, 1.0])
def test_target_entropy_is_fanos(x64: bool, alpha: float, count: int) -> None:
    log_others = math.log(count - 1) if count > 1 else -math.inf
    found = target_entropy(alpha, log_others)
    expected = reference.target_entropy(alpha, count)
    assert found.item() == pytest.approx(expected, rel=1e-12 if x64 else 1e-5, abs=1e-7)


@pytest.mark.parametrize("bucketed", [False, True])
def test_layout_counts_its_states_without_the_padding(x64: bool, bucketed: bool) -> None:
    for sizes in ((2,), (2, 3), (3, 4, 5)):
        found = space_of(sizes).layout(bucketed=bucketed).log_states_less_one(jnp.zeros(()).dtype)
        assert found.item() == pytest.approx(math.log(math.prod(sizes) - 1), abs=1e-6)


def test_target_entropy_has_finite_slopes_at_both_ends(x64: bool) -> None:
    for alpha in (0.0, 0.3, 1.0):
        slopes = jax.grad(target_entropy, argnums=(0, 1))(jnp.array(alpha), jnp.array(1.5))
        assert all(bool(jnp.isfinite(slope)) for slope in slopes)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan, math.inf])
def test_alpha_outside_its_range_is_refused(alpha: float) -> None:
    with pytest.raises(InvalidSetting, match=r"alpha is .* from 0 to 1"):
        target_entropy(alpha, 1.0)
    with pytest.raises(InvalidSetting, match="alpha"):
        Rule(alpha=alpha)


@pytest.mark.parametrize(
    "name, value",
    [
        ("beta", 1.5),
        ("beta", -1),
        ("expand_multiplier", -1),
        ("expand_multiplier", math.inf),
        ("min_information", math.nan),
        ("min_information", -1e-9),
    ],
)
def test_thresholds_outside_their_ranges_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidSetting, match=name):
        Rule(**{name: value})


def test_best_open_pair_is_asked(x64: bool) -> None:
    found = decided([0.2, 0.5, 0.4])
    assert code_name(found.action) == "ask"
    assert (int(found.question), int(found.user)) == (1, 0)
    assert float(found.information) == pytest.approx(0.5)
    assert int(decided([0.2, 0.5, 0.4], open_pairs=[True, False, True]).question) == 2


def test_tied_pairs_go_to_the_lowest_question_then_user(x64: bool) -> None:
    assert int(decided([0.4, 0.5, 0.5]).question) == 1
    space = space_of((2, 2))
    belief = Belief.from_priors(space, [[0.5, 0.5]] * 2, bucketed=True)
    same = {(q, u): [NOISY, None] if q else [None, NOISY] for q in range(3) for u in range(2)}
    tables = LikelihoodTables.build(space, [2] * 3, same, users=2, bucketed=True)
    for asked, best in (((), (0, 0)), (((0, 0),), (0, 1)), (((0, 0), (0, 1)), (1, 0))):
        now = tables
        for pair in asked:
            now = now.mark_asked(*pair)
        for run in (decide, jax.jit(decide)):
            found = run(belief, score(belief, now), now.open, Rule(), questions_left=9)
            assert (int(found.question), int(found.user)) == best


def test_questions_that_all_tell_nothing_go_to_the_lowest(x64: bool) -> None:
    found = decided([0.0, 0.0, 0.0], rule=Rule(min_information=0.0), prior=1.0)
    assert (code_name(found.action), int(found.question)) == ("ask", 0)


def test_horizon_is_the_questions_that_are_left(x64: bool) -> None:
    """A gap of about .37 nats and .05 a question: three do not close it, ninety would."""
    few, many = decided([0.05], left=3), decided([0.05], left=90)
    assert few.gap.item() == pytest.approx(math.log(2) - reference.target_entropy(0.1, 2), abs=1e-6)
    assert few.expand_threshold.item() == pytest.approx(0.15, abs=1e-6)
    assert (code_name(few.action), code_name(many.action)) == ("expand", "ask")
    assert bool(few.prefers_expand) and not bool(many.prefers_expand)


def test_multiplier_scales_the_threshold(x64: bool) -> None:
    assert code_name(decided([0.05], rule=Rule(expand_multiplier=3.0)).action) == "ask"
    assert code_name(decided([0.5], rule=Rule(expand_multiplier=0.0)).action) == "expand"


def test_alpha_zero_leaves_expand_switched_on(x64: bool) -> None:
    found = decided([0.05], rule=Rule(alpha=0.0))
    assert found.target_entropy.item() == 0
    assert found.gap.item() == pytest.approx(math.log(2), abs=1e-6)
    assert code_name(found.action) == "expand"


@pytest.mark.parametrize(
    ("may_ask", "may_expand", "informations", "action"),
    [
        (True, True, [0.5], "ask"),
        (True, False, [0.05], "ask"),
        (True, True, [0.05], "expand"),
        (True, True, [1e-6], "expand"),
        (True, False, [1e-6], "nothing_informative"),
        (False, True, [0.5], "question_budget"),
        (False, False, [0.5], "question_budget"),
    ],
)
def test_what_is_neither_allowed_nor_worth_asking_stops(
    x64: bool, may_ask: bool, may_expand: bool, informations: list[float], action: str
) -> None:
    found = decided(informations, may_ask=may_ask, may_expand=may_expand)
    assert code_name(found.action) == action


def test_nothing_left_to_ask_never_names_a_pair_to_ask(x64: bool) -> None:
    found = decided([0.5, 0.4], open_pairs=[False, False], may_expand=False)
    assert code_name(found.action) == "nothing_informative"
    assert found.information.item() == -math.inf
    assert bool(found.prefers_expand)
    assert code_name(decided([0.5], open_pairs=[False]).action) == "expand"


def test_score_that_is_not_a_number_fails_and_names_its_pair(x64: bool) -> None:
    found = decided([0.3, math.nan, 0.9])
    assert code_name(found.action) == "failed"
    assert (int(found.question), int(found.user)) == (1, 0)
    assert bool(found.status == Status.not_a_number)
    assert code_name(decided([0.3, math.nan, 0.9], open_pairs=[True, False, True]).action) == "ask"


def certain(p: float) -> tuple[Belief, LikelihoodTables]:
    space = space_of((2, 2, 2))
    belief = Belief.from_priors(space, [[p, 1 - p], [p, 1 - p], [0.5, 0.5]], bucketed=True)
    tables = LikelihoodTables.build(space, [2], {(0, 0): [NOISY, None, NOISY]}, bucketed=True)
    return belief, tables


def action_of(found: Turn) -> str:
    return code_name(found.decision.action)


def test_settled_dimensions_stop_by_their_share(x64: bool) -> None:
    belief, tables = certain(0.95)
    for beta, stops in ((1.0, False), (0.6, True), (0.7, False)):
        found = turn(belief, tables, Rule(beta=beta), questions_left=5)
        assert (action_of(found) == "dimensions_settled") == stops
    unsure, tables = certain(0.85)
    assert action_of(turn(unsure, tables, Rule(beta=0.6), questions_left=5)) != "dimensions_settled"


def test_settled_target_or_answer_stops(x64: bool) -> None:
    belief, tables = certain(0.95)
    assert action_of(turn(belief, tables, Rule(), questions_left=5, target=0)) == "answer_settled"
    found = turn(belief, tables, Rule(), questions_left=5, target=2)
    assert action_of(found) == "ask"
    np.testing.assert_allclose(found.answers[:2], [0.5, 0.5], atol=1e-6)
    world = make_world(1, "dense", (2, 2, 2), (2,), answers=3)
    answers = build_answers(world)
    found = turn(belief, tables, Rule(alpha=1.0), questions_left=5, answers=answers)
    assert action_of(found) == "answer_settled"
    assert found.answers is not None
    assert found.answers.sum() == pytest.approx(1, abs=1e-6)


def test_turn_scores_only_what_is_open(x64: bool) -> None:
    belief, tables = certain(0.6)
    found = turn(belief, tables.mark_asked(0, 0), Rule(), questions_left=5)
    assert float(jnp.sum(found.scores.information)) == 0
    assert action_of(found) == "expand"


def test_whole_dialogue_with_changing_thresholds_compiles_nothing_new() -> None:
    """Ten answers, three alphas, pairs that close one by one, and a second dialogue."""
    worlds = [make_world(seed, "labels", (2, 3, 4), (2, 3, 4, 2, 3)) for seed in (1, 2)]
    made = [build(world) for world in worlds]
    hard = [evidence(made[0][2], np.eye(4)[y]) for y in (0, 1)]
    rules = [Rule(alpha=a, expand_multiplier=m) for a, m in ((0.05, 1), (0.1, 2), (0.2, 0.5))]

    def play(belief: Belief, tables: LikelihoodTables) -> None:
        for step, pair in enumerate(worlds[0].pairs):
            found = turn(
                belief, tables, rules[step % 3], questions_left=10 - step, may_expand=step > 3
            )
            assert not bool(jnp.isnan(found.decision.gap))
            belief = update(belief, tables, *pair, hard[step % 2]).belief
            tables = tables.mark_asked(*pair)

    play(*made[0][1:])
    with compilations() as count:
        play(*made[1][1:])
    assert count[0] == 0


def test_batch_of_decisions_gives_what_single_calls_give(x64: bool) -> None:
    made = [build(make_world(seed, "dense", (2, 3), (3, 2))) for seed in range(3)]
    beliefs = jax.tree.map(lambda *x: jnp.stack(x), *[m[1] for m in made])
    tables = jax.tree.map(lambda *x: jnp.stack(x), *[m[2] for m in made])
    alphas = jnp.array([0.05, 0.1, 0.3])
    batch = jax.vmap(lambda b, t, a: turn(b, t, Rule(alpha=a), questions_left=4))(
        beliefs, tables, alphas
    )
    for i, (_, belief, own) in enumerate(made):
        single = turn(belief, own, Rule(alpha=alphas[i]), questions_left=4).decision
        assert bool((batch.decision.action == single.action)[i])
        assert int(batch.decision.question[i]) == int(single.question)
        assert float(batch.decision.gap[i]) == pytest.approx(float(single.gap), abs=1e-6)
