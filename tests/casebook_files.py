"""Made-up records in the published formats of the benchmarks, for tests."""

import json
from pathlib import Path
from typing import Any

SHARED = Path(__file__).parents[2] / "shared" / "data"
"""Samples of the published files, where a checkout has them."""


def detective_record(number: int) -> dict[str, Any]:
    """A case as it stands in the file: the murderer first, the bystander last, types that leak."""
    names = [f"{name} {number}" for name in ("Ash", "Birch", "Cedar", "Dogwood", "Elm")]
    tasks = [
        "You are the true murderer. Stay undetected.",
        "Assist the detective.",
        f"Assist the murderer: {names[0]}.",
        "Be nervous.",
        "You know nothing about the crime.",
    ]
    suspects: list[dict[str, Any]] = []
    for place, (name, task) in enumerate(zip(names, tasks, strict=True)):
        suspect: dict[str, Any] = {
            "name": name,
            "introduction": f"{name} is a gardener.",
            "task": task,
            "story": f"SECRET story of {name}.",
        }
        if place < 4:
            suspect |= {
                "is_murderer": place == 0,
                "motive": ["SECRET motive", "another"] if place != 1 else "none at all",
                "opportunity": ["SECRET moment"] if place != 2 else "none at all",
                "access_to_weapon": ["SECRET key"] if place != 3 else "none at all",
                "evidence": {"SECRET": "a glove"} if place % 2 else "SECRET glove",
                "key_question": ["SECRET question?"],
                "timeline": [{"time": "noon", "activity": "SECRET nap"}],
            }
        suspects.append(suspect)
    order = [(number + step) % 5 for step in range(5)]
    victim = {
        "name": f"Oak {number}",
        "introduction": "Oak was a forester.",
        "cause_of_death": "a fall",
        "murder_weapon": "a ladder",
    }
    listed = [{k: suspects[i][k] for k in ("name", "introduction")} for i in order]
    return {
        "index": number,
        "time": "Evening",
        "location": "the orchard",
        "victim": victim,
        "suspects": suspects,
        "initial_information": {"victim": victim, "suspect": listed},
        "key_question": ["SECRET question?"],
        "label": order.index(0),
    }


def puzzle_record(number: int) -> dict[str, Any]:
    return {
        "index": number,
        "surface": f"Puzzle {number}: the lamp went out and nobody noticed. Why?",
        "bottom": f"SECRET explanation {number}: it was noon.",
        "core_sentence": "SECRET",
        "supernatural": False,
        "someone_dies": False,
        "story_tree": {"value": "SECRET", "children": []},
        "key_question": ["SECRET?"],
    }


def clinical_record(number: int) -> dict[str, Any]:
    letter = "ABCD"[number % 4]
    options = {a: f"{a.lower()}-itis {number}" for a in "ABCD"}
    return {
        "id": number,
        "question": "Which of the following is the most likely diagnosis?",
        "context": [f"A person with rash {number}", "SECRET finding: scales"],
        "options": options,
        "answer": options[letter],
        "answer_idx": letter,
        "facts": ["1. There is a rash.", "2. SECRET fact: it has scales."],
        "patient": {"age": "30 years", "gender": "female"},
    }


RECORDS = {
    "ar-bench-dc": detective_record,
    "ar-bench-sp": puzzle_record,
    "icraft-md": clinical_record,
}


def write_cases(folder: Path, benchmark: str, count: int) -> Path:
    """A file of made-up cases."""
    records = [RECORDS[benchmark](number) for number in range(1, count + 1)]
    if benchmark == "icraft-md":
        path = folder / "cases.jsonl"
        text = "".join(json.dumps(record) + "\n" for record in records)
    else:
        path, text = folder / "cases.json", json.dumps(records)
    path.write_text(text, encoding="utf-8")
    return path
