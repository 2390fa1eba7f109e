"""The gap-to-budget map: exact at every boundary, closed on bad input, and learnable."""

import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import (
    AURA_STEPS,
    Belief,
    StepMap,
    agreement,
    belief_gap,
    fit_thresholds,
    probe_budget,
    smooth_budget,
)
from balar_core.errors import InvalidGap, InvalidSetting

from . import reference
from .strategies import build, make_world, space_of

GOLDEN = [
    (0, 0),
    (0.19999999999999998, 0),
    (0.2, 1),
    (0.39999999999999997, 1),
    (0.4, 2),
    (0.5999999999999999, 2),
    (0.6, 3),
    (0.3 + 0.3, 3),
    (0.2 * 3, 3),
    (0.7999999999999999, 3),
    (0.8, 5),
    (1, 5),
    (1.0, 5),
]
BAD = [math.nan, math.inf, -math.inf, 1.0000001, -1e-30, 2, -1]


class TestStepMap:
    @pytest.mark.parametrize(("gap", "budget"), GOLDEN)
    def test_budgets_of_the_paper_are_exact_in_double_precision(
        self, gap: float, budget: int
    ) -> None:
        assert AURA_STEPS.budget(gap) == budget
        assert AURA_STEPS.budget(np.float64(gap)) == budget

    def test_every_threshold_is_exact_in_single_and_in_double_precision(self, x64: bool) -> None:
        steps = StepMap((0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9), range(9))
        for kind in (np.float32, np.float64) if x64 else (np.float32,):
            at = np.array(steps.thresholds, dtype=kind)
            below, above = np.nextafter(at, kind(0)), np.nextafter(at, kind(1))
            for gaps, level in ((below, 0), (at, 1), (above, 1)):
                found = probe_budget(gaps, steps)
                assert found.budget.tolist() == [k + level for k in range(8)]
                assert bool(found.valid.all())
                batched = jax.vmap(lambda g: probe_budget(g, steps))(jnp.asarray(gaps))
                assert batched.budget.tolist() == found.budget.tolist()

    def test_written_gaps_reach_written_thresholds(self, x64: bool) -> None:
        gaps = [0.0, 0.2, 0.4, 0.6, 0.8, 1]
        assert probe_budget(gaps).budget.tolist() == [0, 1, 2, 3, 5, 5]
        assert probe_budget(0.6).budget.item() == 3
        assert probe_budget(1).budget.item() == 5

    @given(data=st.data())
    def test_budget_is_monotone_capped_and_what_a_linear_scan_finds(self, data: st.DataObject):
        unit = st.floats(0, 1)
        thresholds = sorted(data.draw(st.lists(unit, max_size=5)))
        rises = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=1)) + data.draw(
            st.lists(st.integers(0, 3), min_size=len(thresholds), max_size=len(thresholds))
        )
        steps = StepMap(thresholds, np.cumsum(rises).tolist())
        gaps = sorted([*data.draw(st.lists(unit, max_size=5)), *thresholds])
        cap = data.draw(st.integers(0, 12))
        budgets = []
        for gap in gaps:
            budget = rises[0]
            for threshold, rise in zip(thresholds, rises[1:], strict=True):
                if gap >= threshold:
                    budget += rise
            assert steps.budget(gap) == budget
            assert steps.budget(gap, cap) == min(budget, cap)
            budgets.append(budget)
        assert budgets == sorted(budgets)

    def test_cap_may_be_traced_and_changes_nothing_below_it(self, x64: bool) -> None:
        capped = jax.jit(lambda cap: probe_budget([0.1, 0.5, 0.9], cap=cap).budget)
        assert capped(3).tolist() == [0, 2, 3]
        assert capped(0).tolist() == [0, 0, 0]
        assert capped(9).tolist() == [0, 2, 5]
        assert capped(-1).tolist() == [0, 0, 0]

    @pytest.mark.parametrize("bad", BAD)
    def test_bad_gap_gets_budget_zero_and_a_flag_in_compiled_code(
        self, x64: bool, bad: float
    ) -> None:
        for found in (probe_budget([0.9, bad]), jax.jit(probe_budget)(jnp.array([0.9, bad]))):
            assert found.budget.tolist() == [5, 0]
            assert found.valid.tolist() == [True, False]

    @pytest.mark.parametrize("bad", BAD)
    def test_bad_gap_gets_nothing_from_a_map_that_always_gives_something(self, bad: float) -> None:
        steps = StepMap((0.5,), (2, 4))
        assert probe_budget([0.1, bad], steps).budget.tolist() == [2, 0]

    @pytest.mark.parametrize("bad", [*BAD, True, False, "0.5", None, [0.5], np.bool_(True), 0.5j])
    def test_bad_gap_is_an_error_on_the_host(self, bad: object) -> None:
        with pytest.raises(InvalidGap, match="from 0 to 1"):
            AURA_STEPS.budget(bad)

    @pytest.mark.parametrize(
        "bad", [True, "0.5", [0.5, True], ["a"], np.array([True]), np.array(["a"]), [None]]
    )
    def test_what_is_no_number_is_an_error_for_arrays_too(self, bad: object) -> None:
        with pytest.raises(InvalidGap, match="from 0 to 1"):
            probe_budget(bad)  # type: ignore[arg-type]

    @pytest.mark.parametrize("cap", [2.9, "3", [1, 2], True])
    def test_cap_has_to_be_a_whole_number(self, cap: object) -> None:
        with pytest.raises(InvalidSetting, match="whole number"):
            probe_budget(0.5, cap=cap)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("thresholds", "budgets", "match"),
        [
            ((0.4, 0.2), (0, 1, 2), "do not fall"),
            ((0.2, math.nan), (0, 1, 2), "from 0 to 1"),
            ((-0.1,), (0, 1), "from 0 to 1"),
            ((1.1,), (0, 1), "from 0 to 1"),
            (("x",), (0, 1), "numbers"),
            ((0.2,), (0, 1, 2), "2 budgets"),
            ((0.2,), (2, 1), "do not fall"),
            ((0.2,), (-1, 1), "from 0 to"),
            ((0.2,), (0, 2**40), "from 0 to"),
            ((0.2,), (0, 1.5), "whole numbers"),
        ],
    )
    def test_map_that_is_not_monotone_is_refused(
        self, thresholds: tuple[float, ...], budgets: tuple[int, ...], match: str
    ) -> None:
        with pytest.raises(InvalidSetting, match=match):
            StepMap(thresholds, budgets)


class TestLearning:
    def test_smooth_map_tends_to_the_step_map(self, x64: bool) -> None:
        gaps = np.array([0.05, 0.3, 0.5, 0.7, 0.95])
        assert smooth_budget(gaps, width=0.01).tolist() == pytest.approx([0, 1, 2, 3, 5], abs=1e-3)
        assert smooth_budget(0.2, width=1e-4).item() == pytest.approx(0.5, abs=1e-3)

    def test_slopes_are_those_of_finite_differences(self) -> None:
        with jax.enable_x64(True):
            gaps = jnp.array([0.15, 0.42, 0.6, 0.99])

            def total(thresholds: jax.Array) -> jax.Array:
                steps = StepMap(thresholds, (0, 1, 2, 3, 5))
                return jnp.sum(smooth_budget(gaps, steps, width=0.1) ** 2)

            at = jnp.array([0.2, 0.4, 0.6, 0.8])
            slope = jax.grad(total)(at)
            for k in range(4):
                h = 1e-6 * jnp.eye(4)[k]
                numeric = (total(at + h) - total(at - h)) / 2e-6
                assert slope[k].item() == pytest.approx(numeric.item(), rel=1e-6)

    def test_slopes_are_finite_far_from_every_threshold_and_at_them(self, x64: bool) -> None:
        slope = jax.vmap(jax.grad(lambda g: smooth_budget(g, width=1e-6)))(
            jnp.array([0.0, 0.2, 0.5, 1.0])
        )
        assert bool(jnp.isfinite(slope).all())
        assert slope[1] > 0

    def test_thresholds_are_learned_from_the_probes_that_were_needed(self, x64: bool) -> None:
        true = StepMap((0.15, 0.5, 0.55, 0.9), (0, 1, 2, 3, 5))
        gaps = np.linspace(0, 1, 201)
        needed = np.array([true.budget(gap) for gap in gaps])
        before = agreement_share(AURA_STEPS, gaps, needed)
        learned = fit_thresholds(gaps, needed)
        assert agreement_share(learned, gaps, needed) > 0.95 > before
        assert np.all(np.diff(learned.thresholds) >= 0)
        assert learned.budgets.tolist() == [0, 1, 2, 3, 5]

    def test_constant_map_has_nothing_to_learn(self) -> None:
        steps = StepMap((), (2,))
        assert fit_thresholds([0.1, 0.9], [1, 3], steps) is steps

    def test_fit_refuses_what_it_cannot_use(self) -> None:
        with pytest.raises(InvalidGap):
            fit_thresholds([0.5, math.nan], [1, 2])
        with pytest.raises(InvalidSetting, match="one entry for each query"):
            fit_thresholds([0.5], [1, 2])
        with pytest.raises(InvalidSetting, match="one entry for each query"):
            fit_thresholds([], [])


def agreement_share(steps: StepMap, gaps: np.ndarray, needed: np.ndarray) -> float:
    return float(np.mean([steps.budget(gap) == n for gap, n in zip(gaps, needed, strict=True)]))


class TestBeliefGap:
    def test_gap_is_the_share_of_uncertainty_that_is_left(self, x64: bool) -> None:
        random = np.random.default_rng(3)
        sizes = (2, 3, 4)
        pi = random.dirichlet(np.ones(24) * 0.3)
        belief = Belief.from_joint(space_of(sizes), pi, bucketed=True)
        marginal = reference.marginals(pi, sizes)
        for implicit in ([0], [1, 2], [0, 1, 2]):
            mask = np.zeros(belief.layout.value_mask.shape[0], dtype=bool)
            mask[implicit] = True
            expected = sum(reference.entropy(marginal[j]) for j in implicit) / sum(
                math.log(sizes[j]) for j in implicit
            )
            found = belief_gap(belief, jnp.asarray(mask)).item()
            assert found == pytest.approx(expected, abs=1e-12 if x64 else 1e-6)

    def test_gap_is_one_when_nothing_is_known_and_zero_when_everything_is(self, x64: bool) -> None:
        space = space_of((3, 4))
        flat = Belief.from_priors(space, [[1 / 3] * 3, [1 / 4] * 4])
        sure = Belief.from_priors(space, [[0, 1, 0], [0, 0, 0, 1]])
        both, none = jnp.array([True, True]), jnp.array([False, False])
        assert belief_gap(flat, both).item() == pytest.approx(1, abs=1e-6)
        assert belief_gap(flat, both) <= 1
        assert belief_gap(sure, both).item() == 0
        assert belief_gap(flat, none).item() == 0
        assert probe_budget(belief_gap(flat, both)).budget.item() == 5

    def test_dimensions_that_are_not_there_do_not_count(self, x64: bool) -> None:
        _, belief, _ = build(make_world(5, "dense", (2, 3), (2,)))
        real = jnp.asarray(np.asarray(belief.layout.value_mask).any(axis=1))
        padded = belief_gap(belief, jnp.ones_like(real))
        assert padded.item() == belief_gap(belief, real).item()

    def test_gap_has_finite_slopes_and_maps_over_beliefs(self, x64: bool) -> None:
        space = space_of((2, 3))
        sure = Belief.from_priors(space, [[1.0, 0.0], [0.5, 0.25, 0.25]])
        mask = jnp.array([True, True])

        def gap(log_joint: jax.Array) -> jax.Array:
            return belief_gap(Belief(log_joint, sure.layout), mask)

        slopes = jax.jit(jax.vmap(jax.grad(gap)))(jnp.stack([sure.log_joint] * 2))
        assert bool(jnp.isfinite(slopes).all())


class TestAgreement:
    def test_agreement_counts_budgets_and_not_gaps(self, x64: bool) -> None:
        found = agreement([0.0, 0.25, 0.5, 0.9], [0.19, 0.39, 0.7, 0.5])
        assert (found.same, found.more, found.fewer) == (0.5, 0.25, 0.25)
        assert found.budget_difference.item() == (0 + 0 - 1 + 3) / 4
        assert found.gap_difference.item() == pytest.approx((0.19 + 0.14 + 0.2 + 0.4) / 4, abs=1e-6)

    def test_cap_hides_what_lies_above_it(self) -> None:
        assert agreement([0.7], [0.9]).same == 0
        assert agreement([0.7], [0.9], cap=3).same == 1

    def test_gaps_come_in_pairs(self) -> None:
        for a, b in (([0.1], [0.1, 0.2]), ([], []), (0.1, 0.1)):
            with pytest.raises(InvalidSetting, match="one entry for each query"):
                agreement(a, b)


class TestReleasedRows:
    """The budgets in the result files that were released with the paper."""

    @pytest.fixture
    def results(self, shared_dir: Path) -> Path:
        folder = shared_dir / "data" / "aura" / "results"
        if not folder.is_dir():
            pytest.skip("needs the released result files, which are not there")
        return folder

    def test_budget_reproduces_all_450_released_routing_rows(self, results: Path) -> None:
        def rows(name: str, *path: str) -> list[dict]:
            data = json.loads((results / name).read_text(encoding="utf-8"))
            found = []
            for seed in data["per_seed"].values():
                for key in path:
                    seed = seed[key]
                found += seed
            return found

        intents = rows("rq_intent_v2_multiseed.json", "tom")
        factual = rows("rq2_aura_gap_routed_multiseed.json", "AURA_GapRouted", "details")
        assert (len(intents), len(factual)) == (300, 150)
        budgets = probe_budget(np.array([row["gap"] for row in intents]), cap=3).budget.tolist()
        for row, budget in zip(intents, budgets, strict=True):
            routed = list(dict.fromkeys(row["intent_frame"]["policy_routed_probes"]))
            assert row["tools_called"] == routed[:budget]
            assert row["probes"] == len(routed[:budget])
            assert budget == AURA_STEPS.budget(row["gap"], cap=3)
        bound = 0
        for row in factual:
            budget = AURA_STEPS.budget(row["gap"], cap=5)
            assert row["actual_probes"] == row["recommended_probes"][:budget]
            bound += len(row["recommended_probes"]) > budget
        assert bound == 11
