"""The reference runner: the engine on the golden cases, and files that it cannot use."""

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

from benchmarks.reference import Tally, compare, main
from benchmarks.reference_cases import MalformedCases, load_cases

from . import reference

PRIOR = [0.8, 0.2]
TABLE = [[0.9, 0.1], [0.3, 0.7]]
ANSWERS = [[0.6, 0.4], [0.1, 0.9]]


def small_case() -> dict[str, object]:
    """One dimension, one question, one answer; worked out by brute force."""
    k = reference.likelihood([2], [np.array(TABLE)], 2)
    before = np.array(PRIOR)
    after, probability = reference.update(before, k, np.array([0.0, 1.0]))

    def right(pi: np.ndarray, left: int) -> dict[str, object]:
        information = reference.mutual_information(pi, k)
        target = reference.target_entropy(0.1, 2)
        gap = max(0.0, reference.entropy(pi) - target)
        return {
            "entropy": reference.entropy(pi),
            "max_prob": float(pi.max()),
            "map": list(reference.map_state(pi, [2])),
            "marginals": [pi.tolist()],
            "mutual_information": [[information]],
            "predictive": [[reference.predictive(pi, k).tolist()]],
            "target_entropy": target,
            "entropy_gap": gap,
            "best_pair": [0, 0] if left else None,
            "expand_threshold": information * left if left else None,
            "prefers_expand": gap > information * left if left else True,
            "answer_posterior": reference.answer_posterior(
                pi, [2], [np.array(ANSWERS)], 2, per_state=False
            ).tolist(),
        }

    return {
        "sizes": [2],
        "priors": [PRIOR],
        "choices": [2],
        "users": 1,
        "tables": [[[TABLE]]],
        "answer_tables": [ANSWERS],
        "alpha": 0.1,
        "question_budget": 1,
        "expand_multiplier": 1.0,
        "steps": [
            {"evidence": None, **right(before, 1)},
            {
                "evidence": {"question": 0, "user": 0, "scores": [0.0, 1.0]},
                "predictive_probability": probability,
                "information_gain_at": {
                    "state": [1],
                    "nats": float(np.log(after[1] / before[1])),
                },
                **right(after, 0),
            },
        ],
    }


def write(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_engine_reproduces_the_golden_cases(shared_dir: Path, precision: str) -> None:
    rows = compare(load_cases(shared_dir / "golden" / "inference.json"), precision)
    assert len(rows) == 14
    assert [row for row in rows if row.mismatches] == []
    assert all(row.compared > 50 for row in rows)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_engine_reproduces_a_case_worked_out_by_brute_force(tmp_path: Path, precision: str) -> None:
    rows = compare(load_cases(write(tmp_path / "cases.json", [small_case()])), precision)
    assert [row for row in rows if row.mismatches or row.ties] == []


def test_runner_writes_its_rows_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases, out = write(tmp_path / "cases.json", [small_case()]), tmp_path / "rows.json"
    assert main(["--cases", str(cases), "--precision", "float64", "--json", str(out)]) == 0
    assert "all within tolerance" in capsys.readouterr().out
    rows = {row["quantity"]: row for row in json.loads(out.read_text(encoding="utf-8"))["float64"]}
    assert rows["entropy"]["compared"] == 2
    assert rows["entropy"]["error"] < 1e-12
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cases.json", "rows.json"]


def test_runner_exits_1_on_a_wrong_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = deepcopy(small_case())
    case["steps"][1]["entropy"] += 1e-3  # type: ignore[index]
    cases = write(tmp_path / "cases.json", [case])
    assert main(["--cases", str(cases), "--precision", "float64"]) == 1
    assert "1 out of tolerance" in capsys.readouterr().out


def test_runner_exits_1_on_a_decision_that_differs_by_a_margin(tmp_path: Path) -> None:
    case = deepcopy(small_case())
    case["steps"][0]["prefers_expand"] ^= True  # type: ignore[index]
    case["steps"][0]["map"] = [1]  # type: ignore[index]
    cases = write(tmp_path / "cases.json", [case])
    wrong = {r.quantity: r.mismatches for r in compare(load_cases(cases), "float64")}
    assert (wrong["EXPAND"], wrong["MAP"], wrong["best pair"]) == (1, 1, 0)


def test_number_that_is_not_a_number_is_never_within_tolerance() -> None:
    tally = Tally(tolerance=1.0)
    tally.number("entropy", np.nan, 0.5)
    assert tally.rows["entropy"].mismatches == 1


def test_decision_within_tolerance_of_a_tie_is_counted_apart() -> None:
    tally = Tally(tolerance=1e-5)
    tally.choice("best pair", (0, 0), (1, 0), margin=1e-6)
    tally.choice("best pair", (0, 0), (1, 0), margin=1e-4)
    row = tally.rows["best pair"]
    assert (row.ties, row.mismatches) == (1, 1)


def without(key: str) -> object:
    case = small_case()
    del case[key]
    return [case]


def changed(**fields: object) -> object:
    return [{**small_case(), **fields}]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "a list is needed"),
        ([], "holds no case"),
        ([7], "case 0 is 7; an object is needed"),
        (without("priors"), "case 0 has no 'priors'"),
        (changed(sizes=[1]), "'sizes'[0] is 1; a whole number from 2"),
        (changed(users=True), "'users' is True"),
        (changed(priors=[[0.5, 0.25, 0.25]]), "'priors'[0] has 3 entries; 2 are needed"),
        (changed(priors=[["a", 0.5]]), "'priors'[0][0] is 'a'; a finite number"),
        (changed(priors=[[float("nan"), 0.5]]), "a finite number is needed"),
        (changed(priors=[[10**400, 0.5]]), "a finite number is needed"),
        (changed(priors=[[0.9, 0.9]]), "Case 0 is refused: the prior of dimension"),
        (changed(tables=[[[[[0.5, 0.5]]]]]), "'tables'[0][0][0] has 1 entries; 2 are needed"),
    ],
)
def test_malformed_file_is_refused_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: object, words: str
) -> None:
    cases = write(tmp_path / "cases.json", data)
    assert main(["--cases", str(cases), "--precision", "float64"]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read"), (b"\xff", "not UTF-8"), (b"{", "not JSON")]
)
def test_unreadable_file_is_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "cases.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(MalformedCases, match=words):
        load_cases(path)


def test_command_says_what_is_wrong_without_a_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.reference", "--cases", str(tmp_path / "none.json")],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[1],
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 2
    assert "none.json cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
