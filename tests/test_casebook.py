"""Cases of the public benchmarks: what an asker sees, what it must not, and broken records."""

import copy
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from balar_core.dialogue.codec import dumps, to_data
from llm_oracles.casebook.benchmarks import BENCHMARKS, Benchmark, UnknownBenchmark
from llm_oracles.casebook.case import Case
from llm_oracles.casebook.records import CaseFileError
from llm_oracles.store import FileTrouble
from tests.casebook_files import (
    RECORDS,
    SHARED,
    clinical_record,
    detective_record,
    puzzle_record,
)

SAMPLES = {
    "ar-bench-dc": (SHARED / "ar-bench" / "dc_test.json", 40),
    "ar-bench-sp": (SHARED / "ar-bench" / "sp_test.json", 40),
    "icraft-md": (SHARED / "icraft-md" / "all_craft_md.jsonl", 60),
}


def load(folder: Path, benchmark: str, *records: Any) -> tuple[Case, ...]:
    path = folder / ("cases.jsonl" if benchmark == "icraft-md" else "cases.json")
    lines = "\n".join(json.dumps(record) for record in records)
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps(records), encoding="utf-8")
    return BENCHMARKS[benchmark].load(path, 0)


def seen(case: Case) -> str:
    """All that an asker sees."""
    return dumps(to_data(case.setup()))


def sample(benchmark: str) -> tuple[Path, tuple[Case, ...]]:
    path, count = SAMPLES[benchmark]
    if not path.exists():
        pytest.skip(f"{path} is not there; it holds a sample of the published file")
    cases = BENCHMARKS[benchmark].load(path, 0)
    assert len(cases) == count
    return path, cases


# --- what is seen and what is not ----------------------------------------------------------------


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_an_asker_sees_nothing_that_is_secret(tmp_path: Path, benchmark: str) -> None:
    for case in load(tmp_path, benchmark, *map(RECORDS[benchmark], range(5))):
        assert "SECRET" not in seen(case)
        assert case.private.keys() == {user.name for user in case.users}
        assert "SECRET" in "".join(case.private.values())
        assert "SECRET" not in repr(case)


def test_a_detective_case_has_its_prompt_context_suspects_and_their_private_words(
    tmp_path: Path,
) -> None:
    (case,) = load(tmp_path, "ar-bench-dc", detective_record(3))
    names = tuple(user.name for user in case.users)
    assert case.answers == names
    assert case.prompt == f"Who is the murderer among {', '.join(names[:4])} and {names[4]}?"
    for words in ("Evening", "the orchard", "Oak 3", "a fall", "a ladder", "Elm 3 is a gardener."):
        assert words in case.context
    assert {user.public for user in case.users} == {f"{name} is a gardener." for name in names}
    assert case.private["Cedar 3"] == (
        "Your task: Assist the murderer: Ash 3.\n\nYour story: SECRET story of Cedar 3."
    )
    assert case.truth == "Ash 3"


def test_a_puzzle_and_a_patient_have_theirs(tmp_path: Path) -> None:
    (puzzle,) = load(tmp_path, "ar-bench-sp", puzzle_record(1))
    assert puzzle.prompt == puzzle_record(1)["surface"]
    assert (puzzle.answers, puzzle.truth) == (None, puzzle_record(1)["bottom"])
    (patient,) = load(tmp_path, "icraft-md", clinical_record(1))
    assert patient.prompt.splitlines()[1] == "Options: a-itis 1; b-itis 1; c-itis 1; d-itis 1."
    assert patient.context.splitlines() == [
        "Age: 30 years",
        "Gender: female",
        "Chief complaint: A person with rash 1",
    ]
    assert (patient.answers or ())[1] == patient.truth == "b-itis 1"


def hidden_changes(record: dict[str, Any]) -> list[Callable[[dict[str, Any]], None]]:
    """Changes of a detective record that must not change what an asker sees."""

    def set_all(field: str, value: Any) -> Callable[[dict[str, Any]], None]:
        return lambda r: [suspect.update({field: value}) for suspect in r["suspects"]] and None

    def blame(place: int) -> Callable[[dict[str, Any]], None]:
        def change(r: dict[str, Any]) -> None:
            for i, suspect in enumerate(r["suspects"]):
                suspect["is_murderer"] = i == place
            names = [entry["name"] for entry in r["initial_information"]["suspect"]]
            r["label"] = names.index(r["suspects"][place]["name"])

        return change

    fields = {key for suspect in record["suspects"] for key in suspect}
    hidden = sorted(fields - {"name", "introduction", "is_murderer"})
    return [
        *(set_all(field, value) for field in hidden for value in ("other",)),
        *(blame(place) for place in range(len(record["suspects"]))),
        lambda r: r["suspects"].reverse(),
        lambda r: random.Random(1).shuffle(r["suspects"]),
    ]


def check_that_nothing_leaks(folder: Path, record: dict[str, Any]) -> None:
    (before,) = load(folder, "ar-bench-dc", record)
    for change in hidden_changes(record):
        changed = copy.deepcopy(record)
        change(changed)
        (after,) = load(folder, "ar-bench-dc", changed)
        assert seen(after) == seen(before)


def test_neither_guilt_nor_order_nor_field_types_change_what_is_seen(tmp_path: Path) -> None:
    check_that_nothing_leaks(tmp_path, detective_record(1))


def test_the_murderer_is_as_often_in_every_place(tmp_path: Path) -> None:
    cases = load(tmp_path, "ar-bench-dc", *map(detective_record, range(1000)))
    places = Counter((case.answers or ()).index(case.truth) for case in cases)
    assert sum((places[place] - 200) ** 2 / 200 for place in range(5)) < 18.5  # p > 0.001
    other = BENCHMARKS["ar-bench-dc"].load(tmp_path / "cases.json", 1)
    assert [case.answers for case in other] != [case.answers for case in cases]
    again = BENCHMARKS["ar-bench-dc"].load(tmp_path / "cases.json", 0)
    assert [case.answers for case in again] == [case.answers for case in cases]


# --- broken records ------------------------------------------------------------------------------

BROKEN: list[tuple[str, Callable[[Any], Any], str]] = [
    ("ar-bench-dc", lambda r: r.pop("victim"), "victim: Field required"),
    ("ar-bench-dc", lambda r: r["suspects"][2].pop("story"), "suspects.2.story: Field required"),
    ("ar-bench-dc", lambda r: r["suspects"][1].update(name=7), "suspects.1.name"),
    ("ar-bench-dc", lambda r: r["suspects"][1].update(name=" "), "suspects.1.name"),
    ("ar-bench-dc", lambda r: r.update(label="2"), "label: Input should be a valid integer"),
    ("ar-bench-dc", lambda r: r.update(label=5), "label is 5; it is from 0 to 4"),
    ("ar-bench-dc", lambda r: r.update(label=-1), "label is -1"),
    ("ar-bench-dc", lambda r: r.update(label=0), "is_murderer is true of Ash 2"),
    ("ar-bench-dc", lambda r: r["suspects"][3].update(is_murderer=True), "Ash 2, Dogwood 2"),
    ("ar-bench-dc", lambda r: r["suspects"].pop(), "in initial_information.suspect they are"),
    ("ar-bench-dc", lambda r: r.update(time="\ud800"), "time"),
    ("ar-bench-sp", lambda r: r.update(bottom=""), "bottom"),
    ("ar-bench-sp", lambda r: r.update(index=1), "It is called 1, as record 1 is already"),
    ("icraft-md", lambda r: r.update(options={"A": "x"}), "options"),
    ("icraft-md", lambda r: r["options"].update(A="B-itis 2"), "duplicates"),
    ("icraft-md", lambda r: r.update(answer_idx="E"), "answer_idx is 'E'"),
    ("icraft-md", lambda r: r.update(facts=[]), "facts"),
    ("icraft-md", lambda r: r["patient"].pop("age"), "patient.age: Field required"),
]


@pytest.mark.parametrize(("benchmark", "spoil", "words"), BROKEN)
def test_a_broken_record_is_named(
    tmp_path: Path, benchmark: str, spoil: Callable[[Any], Any], words: str
) -> None:
    make = RECORDS[benchmark]
    broken = make(2)
    spoil(broken)
    with pytest.raises(CaseFileError) as raised:
        load(tmp_path, benchmark, make(1), broken, make(3))
    place = "line 2" if benchmark == "icraft-md" else "record 2"
    number = broken.get("index", broken.get("id"))
    assert f"{place} ({'id' if benchmark == 'icraft-md' else 'index'} {number}): " in str(
        raised.value
    )
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.json", "[", "is no JSON"),
        ("a.json", "{}", "holds no list of records"),
        ("a.json", "[]", "holds no cases"),
        ("a.json", "[null]", "record 1: the record: Input should be"),
        ("a.json", "[" * 100_000, "is no JSON"),
        ("a.jsonl", "\n\n", "holds no cases"),
        ("a.jsonl", "{}\nx\n", "line 1"),
    ],
)
def test_a_file_of_something_else_is_told(
    tmp_path: Path, name: str, content: str, words: str
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CaseFileError) as raised:
        BENCHMARKS["ar-bench-sp"].load(path, 0)
    assert words in str(raised.value)


def test_a_missing_file_and_an_unknown_benchmark_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileTrouble):
        BENCHMARKS["ar-bench-sp"].load(tmp_path / "no.json", 0)
    with pytest.raises(UnknownBenchmark, match="there are ar-bench-dc, ar-bench-sp, icraft-md"):
        Benchmark.named("gsm8k")


# --- samples of the published files --------------------------------------------------------------


@pytest.mark.parametrize("benchmark", SAMPLES)
def test_the_published_file_can_be_read(benchmark: str) -> None:
    _, cases = sample(benchmark)
    for case in cases:
        assert case.truth in (case.answers or (case.truth,))
        assert case.answers or case.truth not in seen(case)


def test_nothing_leaks_from_the_published_detective_cases(tmp_path: Path) -> None:
    path, cases = sample("ar-bench-dc")
    records = json.loads(path.read_text(encoding="utf-8"))
    assert all(r["suspects"][0]["is_murderer"] for r in records)  # the leak that is closed
    for record in records[:5]:
        check_that_nothing_leaks(tmp_path, record)
    for record, case in zip(records, cases, strict=True):
        for suspect in record["suspects"]:
            assert suspect["story"] not in seen(case)
            assert suspect["task"] not in seen(case)
    places = Counter((case.answers or ()).index(case.truth) for case in cases)
    assert max(places.values()) <= 16  # of 40; p > 0.001 for each place
    assert sum((places[place] - 8) ** 2 / 8 for place in range(5)) < 18.5


def test_odd_answers_of_the_published_clinical_cases_are_remarked() -> None:
    _, cases = sample("icraft-md")
    odd = [case for case in cases if case.remark]
    assert len(odd) == 2
    assert {case.truth for case in odd} == {"IgA vasculitis", "Pemphigus foliaceous"}
