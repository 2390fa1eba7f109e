"""`balar calibrate`: saved dialogues in, scores and label maps out, and mistakes told."""

import json
from pathlib import Path

import pytest

from balar_core.labels import LabelMap
from llm_oracles.store import write_dialogue

from .commands import Balar
from .test_logged import with_numbers


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"{i}.balar.json" for i in range(3)]
    for path, answers in zip(paths, ("yyny", "nyyy", "ynny"), strict=True):
        write_dialogue(with_numbers(answers), path)
    return [str(path) for path in paths]


@pytest.mark.slow
def test_scores_and_labels_are_shown_as_a_table_and_as_json(
    balar: Balar, files: list[str], tmp_path: Path
) -> None:
    about = tmp_path / "known.yaml"
    about.write_text(
        "0.balar.json: {truth: {d: a}, oracle: Łódź}\n"
        f"{json.dumps(files[1])}: {{truth: {{d: a}}, oracle: Łódź}}\n"
        "2.balar.json: {oracle: Łódź}\n",
        encoding="utf-8",
    )
    code, out, err = balar("calibrate", *files, "--about", str(about))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["before", "after"]
    assert lines[1].startswith("log score of answers (nats)")
    assert lines[3].startswith("calibration error (10 bins)")
    assert lines[4].startswith("log score of 2 truths")
    assert lines[5].startswith("(12 answers;")
    assert any(line.startswith("  Łódź  ") and "likely: " in line for line in lines)
    assert lines[-1].startswith("  you  0.")
    code, out, err = balar("calibrate", *files, "--about", str(about), "--json", "--fit", "labels")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert LabelMap.of(data["labels"])
    assert (data["temperatures"], data["reliabilities"]) == ({"Łódź": 1.0}, {"you": 1.0})
    assert data["before"]["answers"] == 12 and data["before"]["truths"] == 2
    # There are no rows of labels to learn from.
    assert data["after"] == data["before"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[1, 2]", "holds no mapping"),
        ("{a: [", "neither YAML nor JSON"),
        ("4.balar.json: {}", "is about '4.balar.json', which is not among the files"),
        ("1: {}", "is about 1, which is not among"),
        ("0.balar.json: {user: ann}", "It can say `answer`, `oracle`, `truth`"),
        ("0.balar.json: sour", "It can say `answer`, `oracle`, `truth`"),
        ("0.balar.json: {truth: {d: c}}", "0.balar.json is 'c' for 'd'; the values are 'a', 'b'"),
        ("0.balar.json: {answer: a}", "0.balar.json, which has no closed answer set"),
        ("0.balar.json: {truth: [a]}", "it is a mapping from dimension to value"),
        ("0.balar.json: {oracle: 3}", "0.balar.json is 3"),
        ("0.balar.json: {oracle: [a]}", "0.balar.json is ['a']"),
    ],
)
def test_what_is_said_about_dialogues_must_fit_them(
    balar: Balar, files: list[str], tmp_path: Path, text: str, named: str
) -> None:
    about = tmp_path / "known.yaml"
    about.write_text(text, encoding="utf-8")
    code, out, err = balar("calibrate", *files, "--about", str(about))
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and named in err


def test_files_that_are_no_dialogues_are_named(balar: Balar, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}", encoding="utf-8")
    code, _, err = balar("calibrate", str(bad))
    assert code == 2 and "bad.json: This is not a saved dialogue" in err
    code, _, err = balar("calibrate", str(tmp_path / "missing.json"))
    assert code == 2 and "missing.json cannot be read" in err
    code, _, err = balar("calibrate")
    assert code == 2 and "Missing argument" in err


def test_dialogues_without_an_answer_teach_nothing(balar: Balar, tmp_path: Path) -> None:
    path = tmp_path / "begun.balar.json"
    write_dialogue(with_numbers(""), path)
    code, _, err = balar("calibrate", str(path))
    assert code == 2 and "no answer in these dialogues" in err
