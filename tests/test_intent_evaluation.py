"""Policies on queries whose needs are known: fair, bounded, and counted right."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core.errors import InvalidSetting
from llm_oracles.evaluation.aura_files import ReleaseError
from llm_oracles.evaluation.cases import Case, reported_gap
from llm_oracles.evaluation.intent import (
    Outcome,
    compare_policies,
    evaluate,
    points,
    summarise,
    to_data,
)
from llm_oracles.evaluation.pareto import MissingExtra, Point, draw, frontier
from llm_oracles.evaluation.policies import POLICIES, find_policies, probe
from llm_oracles.evaluation.public_cases import public_cases
from llm_oracles.evaluation.town_cases import town_cases
from llm_oracles.report import dumps

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return town_cases(seed=3, towns=1, per_kind=1)


@pytest.fixture(scope="module")
def outcomes(cases: list[Case]) -> dict[str, list[Outcome]]:
    found = evaluate(cases, POLICIES)
    return {policy.name: [o for o in found if o.policy == policy.name] for policy in POLICIES}


def test_towns_give_cases_of_every_kind_and_scene_again_and_again(cases: list[Case]) -> None:
    assert len(cases) == len({case.name for case in cases}) == 20
    assert {case.kind for case in cases} == set(
        ["availability", "mood", "appropriateness", "latent_goal", "second_order"]
    )
    again = town_cases(seed=3, towns=1, per_kind=1)
    assert [(c.query, c.needed, c.listed) for c in again] == [
        (c.query, c.needed, c.listed) for c in cases
    ]


def test_no_policy_spends_more_than_its_budget_and_fixed_ones_spend_it_all(
    outcomes: dict[str, list[Outcome]],
) -> None:
    for rows in outcomes.values():
        assert all(row.probes <= row.budget for row in rows)
    assert {row.probes for row in outcomes["none"]} == {0}
    assert {row.probes for row in outcomes["fixed-3"]} == {3}
    assert all(row.bound for row in outcomes["none"])
    assert not any(row.bound for row in outcomes["all"])


def test_everything_is_covered_once_everything_was_looked_up(
    outcomes: dict[str, list[Outcome]],
) -> None:
    assert all(row.coverage == row.evidence == 1 for row in outcomes["all"])
    assert all(row.evidence == 0 for row in outcomes["none"])


def test_a_policy_sees_nothing_of_what_is_needed_or_true(cases: list[Case]) -> None:
    for policy in POLICIES:
        for case in cases[::6]:
            blind = replace(case, needed=frozenset(), truth={}, guesses={}, kind="")
            assert probe(policy, blind).trace == probe(policy, case).trace


def test_forbidden_tools_are_never_run_unless_let_and_then_they_are_counted(
    cases: list[Case], outcomes: dict[str, list[Outcome]]
) -> None:
    assert not any(row.violations for rows in outcomes.values() for row in rows)
    found = evaluate(cases, find_policies(["fixed-3", "mi"]), enforce=False)
    for row in found:
        pries = row.policy == "fixed-3" and row.kind == "second_order"
        assert bool(row.violations) == pries


def test_a_summary_is_the_mean_of_its_rows(outcomes: dict[str, list[Outcome]]) -> None:
    rows = [row for found in outcomes.values() for row in found]
    for summary in summarise(rows):
        mine = outcomes[summary.policy]
        assert summary.queries == len(mine)
        assert summary.coverage == pytest.approx(sum(r.coverage for r in mine) / len(mine))
        assert summary.probes == pytest.approx(sum(r.probes for r in mine) / len(mine))
        assert summary.bound.successes == sum(row.bound for row in mine)
    by_kind = summarise(rows, lambda row: row.kind)
    assert len(by_kind) == 5 * len(POLICIES)
    assert sum(s.queries for s in by_kind if s.policy == "aura") == 20
    assert all(s.coverage_by_scene is not None for s in by_kind)


def test_comparisons_pair_the_same_queries_and_the_same_scenes(
    outcomes: dict[str, list[Outcome]],
) -> None:
    rows = [*outcomes["fixed-1"], *reversed(outcomes["fixed-3"])]
    found = compare_policies(rows, "fixed-1")["fixed-3"]
    assert found["probes, query"].difference == 2
    assert found["probes, query"].units == 20
    assert found["coverage, scene"].units == 4
    with pytest.raises(InvalidSetting, match="not among the policies"):
        compare_policies(rows, "aura")
    with pytest.raises(InvalidSetting, match="One query"):
        compare_policies([rows[0]], "fixed-1")


def test_everything_can_be_written_as_json(outcomes: dict[str, list[Outcome]]) -> None:
    policies = find_policies(["fixed-1", "fixed-3"])
    rows = [*outcomes["fixed-1"], *outcomes["fixed-3"]]
    data = json.loads(dumps(to_data(rows, policies, "fixed-1")))
    assert data["comparisons"]["fixed-3"]["probes, query"]["effect"] is None  # infinite
    assert len(data["outcomes"]) == 40


def test_a_belief_covers_as_much_as_larger_fixed_budgets_with_fewer_probes() -> None:
    policies = find_policies(["fixed-3", "fixed-5", "all", "aura", "belief-mi"])
    found = {s.policy: s for s in summarise(evaluate(town_cases(), policies))}
    belief = found.pop("belief-mi")
    for other in found.values():
        assert belief.coverage >= other.coverage
        assert belief.probes < other.probes - 0.5


def test_policies_are_found_by_name() -> None:
    assert [p.name for p in find_policies(["mi", "none"])] == ["mi", "none"]
    with pytest.raises(InvalidSetting, match="no policy 'magic'; the policies are none, fixed-1"):
        find_policies(["magic"])
    with pytest.raises(InvalidSetting, match="named twice"):
        find_policies(["mi", "mi"])


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"towns": 0}, {"per_kind": 0}, {"seed": 99_999}])
def test_towns_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(wrong))):
        town_cases(**wrong)


def test_words_never_seen_get_the_gap_of_all_kinds() -> None:
    assert reported_gap({}) == pytest.approx(0.601)
    assert reported_gap({"mood": 0.5, "latent_goal": 0.5}) == pytest.approx(0.575)


# --- the frontier and its picture -----------------------------------------------------------------

planes = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda xy: (xy[0] / 2, xy[1] / 4)),
    min_size=1,
    max_size=8,
).map(lambda plane: [Point(str(i), x, y) for i, (x, y) in enumerate(plane)])


@given(planes)
def test_the_frontier_dominates_all_others_and_nobody_in_it(plane: list[Point]) -> None:
    best = frontier(plane)

    def dominated(p: Point) -> bool:
        return any(
            (q.probes <= p.probes and q.coverage > p.coverage)
            or (q.probes < p.probes and q.coverage >= p.coverage)
            for q in plane
            if q.name in best
        )

    assert best
    assert all(dominated(p) != (p.name in best) for p in plane)


def test_pictures_are_drawn_whole_in_two_formats(
    tmp_path: Path, outcomes: dict[str, list[Outcome]]
) -> None:
    pytest.importorskip("matplotlib")
    plane = points(summarise(r for rows in outcomes.values() for r in rows), POLICIES)
    for name, start in {"a.png": b"\x89PNG", "a.SVG": b"<?xml"}.items():
        draw(plane, tmp_path / name, title="title", coverage="coverage")
        assert (tmp_path / name).read_bytes().startswith(start)
    svg = (tmp_path / "a.SVG").read_bytes()
    assert b"fixed-5-mi" in svg
    draw(plane, tmp_path / "a.SVG", title="title", coverage="coverage")
    assert (tmp_path / "a.SVG").read_bytes() == svg
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.SVG", "a.png"]


def test_pictures_that_cannot_be_drawn_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidSetting, match=r"ends in \.png or \.svg"):
        draw([], tmp_path / "a.gif", title="", coverage="")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'balar\[eval\]'"):
        draw([], tmp_path / "a.png", title="", coverage="")


# --- the public queries ---------------------------------------------------------------------------


def scene(mood: str) -> dict[str, object]:
    def private(x: str) -> dict[str, str]:
        return {"availability": x, "emotional_state": f"{mood} {x}", "unspoken_goal": f"go {x}"}

    people = ("Ann Lee", "Bob Ray")
    return {
        "summary": "Two people.",
        "public_state": {name: {"location": "hall", "action": "sits"} for name in people},
        "private_state": {name: private(name[:3]) for name in people},
        "beliefs_about_others": {
            "Ann Lee": {"Bob Ray": {"availability": "free", "emotional_state": "calm"}},
            "Bob Ray": {"Ann Lee": {"availability": "busy", "emotional_state": "tired"}},
        },
    }


def query(number: int, scene: str, kind: str, text: str, *paths: str) -> dict[str, object]:
    subject = next((name for name in ("Ann Lee", "Bob Ray") if name in text), None)
    forbidden = ["get_agent_private_state"] if kind == "second_order" else []
    return {
        "id": number, "scene": scene, "subcategory": kind, "query": text, "agent_subject": subject,
        "implicit_requires": paths, "forbidden_tools": forbidden,
    }  # fmt: skip


def release() -> dict[str, object]:
    texts = {
        "mood": ("How is Ann Lee?", "emotional_state"),
        "availability": ("Who is there?", "availability"),
        "second_order": (
            "Does Ann Lee think Bob Ray is free?",
            "beliefs_about_others.Bob Ray.availability",
        ),
        "appropriateness": ("Should I ask Bob Ray?", "availability", "emotional_state", "secrets"),
    }
    return {
        "scenes": {"one": scene("very"), "two": scene("not")},
        "queries": [
            query(100 * s + k, name, kind, *texts[kind])
            for s, name in enumerate(("one", "two"), start=1)
            for k, kind in enumerate(texts)
        ],
    }


def write(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_public_queries_are_probed_with_no_look_at_their_labels(tmp_path: Path) -> None:
    cases = public_cases(write(tmp_path / "q.json", release()))
    rows = evaluate(cases, find_policies(["none", "all", "belief-mi"]))
    assert all(row.coverage == row.evidence == 1 for row in rows if row.policy == "all")
    probes = [row.probes for row in rows if row.policy == "belief-mi"]
    assert probes == [1, 2, 1, 1] * 2  # everybody's state where nobody is named
    data = release()
    for item in data["queries"][:4]:  # type: ignore[index]
        item.update(implicit_requires=["unspoken_goal"], subcategory="mood", forbidden_tools=[])
    changed = public_cases(write(tmp_path / "r.json", data))
    assert [c.facts for c in changed[:4]] == [c.facts for c in cases[:4]]
    assert [c.listed for c in changed] == [c.listed for c in cases]
    assert [c.facts for c in changed[4:]] != [c.facts for c in cases[4:]]


@pytest.mark.parametrize("data", [[], {"scenes": {}, "queries": [{}]}, {"queries": []}])
def test_files_of_another_kind_are_refused(tmp_path: Path, data: object) -> None:
    with pytest.raises(ReleaseError, match=r"q\.json does not hold implicit-intent queries"):
        public_cases(write(tmp_path / "q.json", data))
    with pytest.raises(ReleaseError, match="cannot be read as JSON"):
        public_cases(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": None}, r"queries\.0\.id"),
        ({"id": 101}, "two queries 101"),
        ({"scene": "three"}, "scene 'three', which is not there"),
        ({"agent_subject": "Eve"}, "'Eve', who is not in its scene"),
        ({"forbidden_tools": "get_agent_private_state"}, r"queries\.0\.forbidden_tools"),
        ({"implicit_requires": None}, r"queries\.0\.implicit_requires"),
        ({"query": " "}, r"queries\.0\.query"),
        ({"subcategory": 3}, r"queries\.0\.subcategory"),
    ],
)
def test_a_wrong_field_of_a_query_is_named(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    data = release()
    data["queries"][0].update(change)  # type: ignore[index]
    with pytest.raises(ReleaseError, match=words):
        public_cases(write(tmp_path / "q.json", data))


@pytest.mark.parametrize("text", ["", '{"scenes":', "[" * 100_000, '{"scenes": NaN}'])
def test_text_that_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "q.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReleaseError, match="cannot be read as JSON"):
        public_cases(path)


def test_crowded_places_leave_out_what_no_belief_could_hold() -> None:
    # At some moment of this town ten people are at one place: 3^10 states would be too many.
    cases = town_cases(seed=102, towns=1, per_kind=3)
    assert max(len(case.facts) for case in cases) == 8


def test_the_public_file_has_a_hundred_queries_that_some_policy_can_cover(
    shared_dir: Path,
) -> None:
    path = shared_dir / "data" / "aura" / "benchmarks" / "implicit_intent_queries_v2.json"
    cases = public_cases(path)
    assert len(cases) == 100
    rows = evaluate(cases, find_policies(["all"]))
    assert sum(row.evidence for row in rows) / 100 > 0.98
    assert not any(row.violations for row in rows)
