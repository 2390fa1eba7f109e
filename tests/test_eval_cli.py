"""`balar eval` as it is typed: tables, JSON, pictures, and errors without tracebacks."""

import json
from pathlib import Path

import pytest

from .commands import Balar

SMALL = ("eval", "implicit-intent", "--towns", "1", "--per-kind", "1", "--policy", "fixed-1")


@pytest.mark.slow
def test_policies_are_compared_in_a_table_a_picture_and_json(balar: Balar, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / "pareto.svg"
    code, out, err = balar(*SMALL, "--reference", "none", "--plot", str(plot))
    assert (code, err) == (0, "")
    assert out.startswith("20 queries\n\npolicy ")
    assert "differences from none" in out
    assert "second_order" in out
    assert "town 0, evening" in out
    assert plot.read_text(encoding="utf-8").startswith("<?xml")
    code, out, err = balar(*SMALL, "--json", "--unenforced")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert data["reference"] == "fixed-3"
    assert [s["policy"] for s in data["summaries"]] == ["fixed-3", "fixed-1"]
    assert data["summaries"][0]["violated"]["successes"] == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--policy", "magic"), "There is no policy 'magic'"),
        (("--reference", "magic"), "There is no policy 'magic'"),
        (("--plot", "pareto.gif"), "it ends in .png or .svg"),
        (("--towns", "0"), "towns is 0"),
        (("--data", "nowhere.json"), "nowhere.json cannot be read"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_at_once(
    balar: Balar, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = balar("eval", "implicit-intent", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert words in err


def test_figures_stand_beside_their_claims_and_missing_files_are_named(
    balar: Balar, tmp_path: Path
) -> None:
    summary = {"per_budget": {"0": {"avg_ga_mean": 0.85}, "1": {"avg_ga_mean": 0.5}}}
    seeds = {
        str(seed): {"per_budget": {"0": {"avg_ga": ga}, "1": {"avg_ga": 0.7}}}
        for seed, ga in enumerate((0.8, 0.9))
    }
    path = tmp_path / "rq6_probe_budget_pareto_multiseed.json"
    path.write_text(json.dumps({"statistics": summary, "per_seed": seeds}), encoding="utf-8")
    code, out, err = balar("eval", "aura-report", "--results", str(tmp_path))
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "budget 0 0.8500 claimed 0.85: holds" in lines
    assert "budget 1 0.7000 claimed 0.5: does not hold" in lines
    assert sum("is not under" in line for line in lines) == 11
    code, out, _ = balar("eval", "aura-report", "--results", str(tmp_path), "--json")
    assert code == 0
    assert json.loads(out)["figures"][-1]["holds"] is False
    code, out, err = balar("eval", "aura-report", "--results", str(tmp_path / "nowhere"))
    assert (code, out) == (2, "")
    assert "holds no JSON files" in err
