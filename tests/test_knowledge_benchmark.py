"""The evaluation without a model: policies on tables, against counts by hand."""

import json
import sys

import numpy as np
import pytest

from benchmarks import knowledge
from benchmarks.knowledge import play, wilson

EIGHT = "name,useless,a,b,c\n" + "\n".join(
    f"thing {i},{int(i == 0)},{i >> 2 & 1},{i >> 1 & 1},{i & 1}" for i in range(8)
)


def task_of(tmp_path, noise=(0.0, 0.0), repeats=1):
    path = tmp_path / "eight.csv"
    path.write_text(EIGHT, encoding="utf-8")
    problem = knowledge.load_table(path, "name").to_problem(noise=0)
    return knowledge.of_problem(problem, noise, repeats, seed=0)


@pytest.mark.parametrize("policy", ["greedy", "ahead"])
def test_telling_questions_halve_the_objects_every_time(tmp_path, policy):
    right, nats = play(task_of(tmp_path), policy, 3, seed=0)
    assert right.mean(axis=1).tolist() == [1 / 8, 2 / 8, 4 / 8, 1]
    np.testing.assert_allclose(nats.mean(axis=1), np.log([8, 4, 2, 1]), atol=1e-6)


def test_a_fixed_order_asks_what_is_useless_first(tmp_path):
    right, _ = play(task_of(tmp_path), "order", 2, seed=0)
    assert right.mean(axis=1).tolist() == [1 / 8, 2 / 8, 3 / 8]


def test_more_turns_than_questions_change_nothing(tmp_path):
    right, _ = play(task_of(tmp_path), "random", 6, seed=0)
    assert right[4:].all()


def test_a_belief_that_expects_errors_survives_them(tmp_path):
    rates = [
        play(task_of(tmp_path, (expected, 0.3), 40), "greedy", 4, seed=0)[0][4].mean()
        for expected in (0.3, 1e-6)
    ]
    assert rates[0] > 0.5
    assert rates[0] >= rates[1]


def test_a_known_symptom_is_no_question(tmp_path):
    tables = {
        "diseases": ["x", "y"],
        "symptoms": ["s", "t"],
        "train_counts": [10, 10],
        "train_symptom_counts": {"x": {"s": 10, "t": 10}, "y": {"s": 10}},
    }
    cases = [
        {"disease": "x", "explicit": ["s"], "implicit": ["t"]},
        {"disease": "y", "explicit": ["s"], "implicit": []},
    ]
    paths = [tmp_path / "tables.json", tmp_path / "cases.json"]
    for path, data in zip(paths, (tables, cases), strict=True):
        path.write_text(json.dumps(data), encoding="utf-8")
    task = knowledge.of_symptoms(str(paths[0]), str(paths[1]), 0.001, 5, 0)
    right, _ = play(task, "order", 1, seed=0)
    assert right.sum(axis=1).tolist() == [1, 2]


def test_intervals_are_those_of_wilson():
    right = np.array([True] * 8 + [False] * 2)
    alone = wilson(right, np.arange(10))
    assert [round(x, 4) for x in alone] == [0.4902, 0.9433]
    again = wilson(np.tile(right, 5), np.tile(np.arange(10), 5))
    np.testing.assert_allclose(again, alone)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--table", "no.csv"], "no.csv"),
        (["--symptoms", "no.json"], "--goals"),
        (["--symptoms", "no.json", "--goals", "no.json"], "cannot be read"),
        (["--table", "no.csv", "--noise", "2"], "a share from 0 to 1"),
        (["--table", "no.csv", "--noise", "nan"], "a share from 0 to 1"),
        (["--table", "no.csv", "--after", "0"], "1 or more"),
    ],
)
def test_what_cannot_be_used_ends_with_a_sentence(monkeypatch, capsys, options, said):
    monkeypatch.setattr(sys, "argv", ["knowledge", *options])
    with pytest.raises(SystemExit) as stopped:
        knowledge.main()
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_symptoms_of_another_form_are_named(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(knowledge.BalarError, match="no such tables"):
        knowledge.of_symptoms(str(path), str(path), 0.0, 1, 0)


def test_a_run_prints_a_row_for_every_policy_and_number(tmp_path, monkeypatch, capsys):
    task_of(tmp_path)
    options = ["--table", str(tmp_path / "eight.csv"), "--after", "1", "3"]
    monkeypatch.setattr(sys, "argv", ["knowledge", *options])
    knowledge.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("8 goals")
    assert len(lines) == 1 + 4 * 2 + 1
