"""Probes planned by mutual information per cost, and frames that a belief stands for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from balar_core import (
    Belief,
    Dimension,
    LikelihoodTables,
    Question,
    StateSpace,
    information_about,
    marginals,
    update,
)
from balar_core.errors import (
    ImpossibleEvidence,
    InvalidDimension,
    InvalidSetting,
    InvalidTool,
)
from balar_core.probing import (
    AnsweredQuery,
    BeliefPlanner,
    CallTool,
    InferIntent,
    Json,
    PlanProbe,
    Probing,
    Reading,
    RunTool,
    Setup,
    StopProbing,
    Tool,
    ToolCall,
    ToolFailed,
    ToolReturned,
)

from . import reference
from .compilation import compilations
from .strategies import build, evidence, make_world

SPACE = StateSpace(
    (
        Dimension("place", ("cafe", "park")),
        Dimension("mood", ("calm", "cross")),
        Dimension("time", ("free", "busy")),
    )
)
PRIORS = [(1.0, 0.0), (0.5, 0.5), (0.7, 0.3)]
SURE, ROUGH = ((0.98, 0.02), (0.02, 0.98)), ((0.7, 0.3), (0.3, 0.7))
THREE = ((0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8))
ASK, GLANCE, DIARY = ToolCall.of("ask", who="Ann"), ToolCall.of("glance"), ToolCall.of("diary")


def readings() -> list[Reading]:
    mood = Question("How does Ann feel?", ("calm", "cross"))
    time = Question("Has Ann time?", ("free", "busy"))
    return [
        Reading(ASK, mood, (None, SURE, None), path=("feeling", "now")),
        Reading(ASK, time, (None, None, SURE), path=("hours",)),
        Reading(GLANCE, mood, (None, ROUGH, None)),
        Reading(DIARY, time, (None, None, ROUGH)),
    ]


TOOLS = (Tool("ask", cost=4.0), Tool("glance"), Tool("diary"), Tool("other"))


def planner(**changes: object) -> BeliefPlanner:
    values = {"implicit": ["mood", "time"], **changes}
    return BeliefPlanner.build(SPACE, PRIORS, readings(), **values)  # type: ignore[arg-type]


def information(prior: tuple[float, ...], table: tuple[tuple[float, ...], ...]) -> float:
    return reference.mutual_information(np.array(prior), np.array(table))


class TestInformationAbout:
    @pytest.mark.parametrize("kind", ["dense", "zeros", "labels"])
    def test_it_is_the_sum_over_the_dimensions_that_matter(self, x64: bool, kind: str) -> None:
        world = make_world(11, kind, (2, 3, 4), (2, 3), users=2)
        _, belief, tables = build(world)
        mask = np.zeros(belief.layout.value_mask.shape[0], dtype=bool)
        mask[[0, 2]] = True
        found = np.asarray(information_about(belief, tables, mask))
        for q, u in world.pairs:
            shares = reference.dimension_information(
                world.prior(), world.likelihood((q, u)), world.sizes
            )
            assert found[q, u] == pytest.approx(shares[0] + shares[2], abs=1e-11 if x64 else 1e-6)

    def test_marginal_entropies_are_expected_to_fall_by_it(self) -> None:
        world = make_world(2, "dense", (2, 3), (3,), users=1)
        pi, k = world.prior(), world.likelihood((0, 0))
        after = 0.0
        for y, p in enumerate(reference.predictive(pi, k)):
            posterior = pi * k[:, y] / p
            after += p * sum(map(reference.entropy, reference.marginals(posterior, world.sizes)))
        fall = sum(map(reference.entropy, reference.marginals(pi, world.sizes))) - after
        _, belief, tables = build(world)
        mask = np.asarray(belief.layout.value_mask).any(axis=1)
        assert information_about(belief, tables, mask)[0, 0].item() == pytest.approx(fall, abs=1e-6)

    def test_it_is_differentiable_and_maps_over_beliefs(self) -> None:
        _, belief, tables = build(make_world(4, "zeros", (2, 3), (2,), users=1))
        mask = np.asarray(belief.layout.value_mask).any(axis=1)

        def total(log_joint: jax.Array) -> jax.Array:
            return jnp.sum(information_about(Belief(log_joint, belief.layout), tables, mask))

        twice = jnp.stack([belief.log_joint] * 2)
        slopes = np.asarray(jax.jit(jax.vmap(jax.grad(total)))(twice))
        real = np.asarray(belief.log_joint) > -np.inf
        assert np.isfinite(slopes[:, real]).all()
        assert np.array_equal(slopes[0, real], slopes[1, real])


class TestPlanning:
    def test_second_query_over_a_similar_space_compiles_nothing(self) -> None:
        def ask(planner: BeliefPlanner, output: object) -> None:
            p = Probing.start(Setup("q", tools=TOOLS))
            p = p.tell(planner.infer(p.need))
            p = p.tell(planner.plan(p.need)).tell(ToolReturned(Json.of(output)))
            assert planner.gap(p.trace) < planner.gap()

        ask(planner(), {"feeling": {"now": "calm"}})
        space = StateSpace.of(a=["x", "y", "z"], mood=["calm", "cross", "dull"], c=["u", "v"])
        look = Reading(GLANCE, Question("?", ("calm", "cross", "dull")), (None, THREE, None))
        priors = [(0.2, 0.3, 0.5), (0.2, 0.3, 0.5), (0.5, 0.5)]
        with compilations() as count:
            ask(BeliefPlanner.build(space, priors, [look], implicit=["mood"]), "dull")
        assert count[0] == 0

    def test_worth_is_information_about_what_is_implicit_and_rates_count_the_cost(self) -> None:
        worths = {w.call.tool: w for w in planner().worths(TOOLS)}
        mood, time = PRIORS[1], PRIORS[2]
        both = information(mood, SURE) + information(time, SURE)
        assert worths["ask"].information == pytest.approx(both, abs=1e-6)
        assert worths["ask"].rate == pytest.approx(both / 4, abs=1e-6)
        assert worths["glance"].information == pytest.approx(information(mood, ROUGH), abs=1e-6)
        assert set(worths) == {"ask", "glance", "diary"}
        order = [w.rate for w in planner().worths(TOOLS)]
        assert order == sorted(order, reverse=True)
        assert {w.call.tool for w in planner(implicit=["mood"]).worths(TOOLS) if w.information} == {
            "ask",
            "glance",
        }

    def test_cheap_call_wins_until_the_dear_one_becomes_cheap(self) -> None:
        need = PlanProbe("q", "", TOOLS, planner().infer(InferIntent("q", "", TOOLS)).frame, (), 2)
        dear = planner().plan(need)
        assert isinstance(dear, CallTool)
        assert dear.call == ASK
        assert "nats" in dear.reason
        dearer = (Tool("ask", cost=100.0), *TOOLS[1:])
        cheap = planner().plan(PlanProbe("q", "", dearer, need.frame, (), 2))
        assert isinstance(cheap, CallTool)
        assert cheap.call == GLANCE

    def test_whole_loop_probes_until_nothing_is_worth_it(self) -> None:
        plan = planner(min_information=0.05)
        p = Probing.start(Setup("Where is Ann?", tools=TOOLS))
        p = p.tell(plan.infer(p.need))
        assert p.frame.gap == pytest.approx(
            (np.log(2) + reference.entropy(np.array([0.7, 0.3]))) / (2 * np.log(2)), abs=1e-6
        )
        assert (p.budget, p.frame.recommended_probes) == (5, ("ask", "glance", "diary"))
        outputs = {"ask": {"feeling": {"now": "Cross"}, "hours": "free"}}
        while isinstance(p.need, PlanProbe | RunTool):
            if isinstance(p.need, PlanProbe):
                p = p.tell(plan.plan(p.need))
            else:
                p = p.tell(ToolReturned(Json.of(outputs[p.need.call.tool])))
        assert (p.ended, p.spent) == ("planner", 1)
        marginal = np.asarray(marginals(plan.posterior(p.trace)))
        assert marginal[1, 1] == pytest.approx(0.98, abs=1e-6)
        assert marginal[2, 0] == pytest.approx(0.98 * 0.7 / (0.98 * 0.7 + 0.02 * 0.3), abs=1e-6)
        assert plan.gap(p.trace) < plan.gap()
        assert p.tell(AnsweredQuery("In the cafe, but cross.")).finished

    def test_posterior_is_that_of_the_plain_engine(self, x64: bool) -> None:
        plan = planner()
        p = Probing.start(Setup("q", tools=TOOLS))
        p = p.tell(plan.infer(p.need)).tell(CallTool(GLANCE)).tell(ToolReturned(Json.of("calm")))
        belief = Belief.from_priors(SPACE, PRIORS, bucketed=True)
        tables = LikelihoodTables.build(SPACE, [2], {(0, 0): [None, ROUGH, None]}, bucketed=True)
        expected = update(belief, tables, 0, 0, evidence(tables, np.array([1.0, 0.0]))).belief
        np.testing.assert_allclose(
            plan.posterior(p.trace).log_joint, expected.log_joint, rtol=1e-12 if x64 else 1e-6
        )

    def test_failed_calls_and_strange_outputs_tell_nothing_and_are_not_made_again(self) -> None:
        plan = planner()
        p = Probing.start(Setup("q", tools=TOOLS))
        p = p.tell(plan.infer(p.need)).tell(CallTool(GLANCE)).tell(ToolFailed("dark"))
        p = p.tell(CallTool(DIARY)).tell(ToolReturned(Json.of({"unexpected": 1})))
        p = p.tell(CallTool(ASK)).tell(ToolReturned(Json.of({"feeling": "calm"})))
        assert plan.gap(p.trace) == plan.gap()
        assert plan.worths(TOOLS, p.trace) == ()
        assert isinstance(plan.plan(p.need), StopProbing)

    def test_output_that_the_tables_exclude_is_an_error_with_a_way_out(self) -> None:
        certain = Reading(GLANCE, readings()[0].question, (None, ((1.0, 0.0), (0.0, 1.0)), None))
        priors = [(1.0, 0.0), (1.0, 0.0), (0.5, 0.5)]
        trusting = BeliefPlanner.build(SPACE, priors, [certain], implicit=["mood"])
        p = Probing.start(Setup("q", tools=TOOLS)).tell(
            planner().infer(InferIntent("q", "", TOOLS))
        )
        p = p.tell(CallTool(GLANCE)).tell(ToolReturned(Json.of("cross")))
        with pytest.raises(ImpossibleEvidence, match=r"'glance'.*noise"):
            trusting.posterior(p.trace)
        careful = BeliefPlanner.build(SPACE, priors, [certain], implicit=["mood"], noise=0.1)
        assert careful.gap(p.trace) == 0

    def test_known_state_is_worth_no_probe(self) -> None:
        sure = BeliefPlanner.build(SPACE, [(1.0, 0.0)] * 3, readings(), implicit=["mood", "time"])
        p = Probing.start(Setup("q", tools=TOOLS))
        p = p.tell(sure.infer(p.need))
        assert (p.frame.gap, p.frame.recommended_probes, p.ended) == (0, (), "no_budget")

    def test_what_does_not_fit_is_refused(self) -> None:
        with pytest.raises(InvalidTool, match="no reading"):
            BeliefPlanner.build(SPACE, PRIORS, [], implicit=["mood"])
        with pytest.raises(InvalidDimension, match="'moods'"):
            planner(implicit=["moods"])
        for bad in (-1, float("nan"), float("inf")):
            with pytest.raises(InvalidSetting, match="min_information"):
                planner(min_information=bad)


def test_reading_finds_its_choice_at_the_end_of_its_path() -> None:
    look = Reading(ASK, Question("q", ("1", "true", "Calm")), (None,), path=("a", "b"))
    assert look.choice(Json.of({"a": {"b": " CALM "}})) == 2
    assert look.choice(Json.of({"a": {"b": 1}})) == 0
    assert look.choice(Json.of({"a": {"b": True}})) == 1
    for other in ({"a": {"b": "angry"}}, {"a": "Calm"}, {}, "Calm", None, {"a": {"b": None}}):
        assert look.choice(Json.of(other)) is None
