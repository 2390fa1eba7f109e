"""Detective cases of AR-Bench (DC): five suspects, one of whom did it.

In the published file the murderer always comes first among the suspects and the bystander last,
and the types of some fields differ with guilt. So the order of the suspects is made anew from their
names alone, and the only fields that are looked at are those that somebody may see: names and
introductions by everybody, task and story by the suspect. Ties go to the lowest index; with the
order of the file they would go to the murderer.
"""

import hashlib
from pathlib import Path

from balar_core.errors import InvalidInput
from balar_core.questions import User

from .case import Case
from .records import Index, Record, Words, read_cases

__all__ = ["detective_cases"]


class Victim(Record):
    """Who was killed, and how."""

    name: Words
    introduction: Words
    cause_of_death: Words
    murder_weapon: Words


class Suspect(Record):
    """A suspect. A bystander's record does not say whether it is the murderer."""

    name: Words
    introduction: Words
    task: Words
    story: Words
    is_murderer: bool = False


class Introduction(Record):
    """A suspect in the list that `label` is a position in."""

    name: Words


class InitialInformation(Record):
    """What is known at first."""

    suspect: list[Introduction]


class DetectiveRecord(Record):
    """A record of the file; `label` is a position in `initial_information.suspect`."""

    index: Index
    time: Words
    location: Words
    victim: Victim
    suspects: list[Suspect]
    initial_information: InitialInformation
    label: int


def detective_cases(path: Path, *, seed: int = 0) -> tuple[Case, ...]:
    """The cases of a file, the suspects in an order that says nothing.

    Args:
        path: the file.
        seed: of the order of the suspects; the order is another in every case.

    Raises:
        FileTrouble: the file cannot be read.
        CaseFileError: a record is not as published; the message names it.
    """
    return read_cases(
        path, DetectiveRecord, lambda record: record.index, lambda r, name: _case(r, name, seed)
    )


def _case(record: DetectiveRecord, name: str, seed: int) -> Case:
    truth = _murderer(record)
    suspects = sorted(record.suspects, key=lambda suspect: _lot(suspect.name, name, seed))
    names = tuple(suspect.name for suspect in suspects)
    return Case(
        id=name,
        prompt=f"Who is the murderer among {', '.join(names[:-1])} and {names[-1]}?",
        context=_context(record, suspects),
        users=tuple(User(suspect.name, suspect.introduction) for suspect in suspects),
        private={s.name: f"Your task: {s.task}\n\nYour story: {s.story}" for s in suspects},
        answers=names,
        truth=truth,
    )


def _lot(suspect: str, case: str, seed: int) -> str:
    """A lot that decides a suspect's place; it depends on nothing but names and the seed."""
    return hashlib.sha256(f"{seed}\n{case}\n{suspect}".encode()).hexdigest()


def _murderer(record: DetectiveRecord) -> str:
    """The name of the murderer, on which both places that tell it agree."""
    listed = [introduction.name for introduction in record.initial_information.suspect]
    names = [suspect.name for suspect in record.suspects]
    if sorted(listed) != sorted(names):
        raise InvalidInput(
            f"The suspects are {', '.join(names)}, but in initial_information.suspect they are "
            f"{', '.join(listed)}."
        )
    if len(names) < 2:
        raise InvalidInput(f"There are {len(names)} suspects; a case needs two or more.")
    if not 0 <= record.label < len(listed):
        raise InvalidInput(f"label is {record.label}; it is from 0 to {len(listed) - 1}.")
    guilty = [suspect.name for suspect in record.suspects if suspect.is_murderer]
    truth = listed[record.label]
    if guilty != [truth]:
        raise InvalidInput(
            f"label names {truth}, but is_murderer is true of {', '.join(guilty) or 'nobody'}."
        )
    return truth


def _context(record: DetectiveRecord, suspects: list[Suspect]) -> str:
    victim = record.victim
    lines = [
        f"Time: {record.time}",
        f"Place: {record.location}",
        f"Victim: {victim.name}. {victim.introduction}",
        f"Cause of death: {victim.cause_of_death}",
        f"Murder weapon: {victim.murder_weapon}",
        f"There are {len(suspects)} suspects, and one of them is the murderer:",
        *(f"- {suspect.name}: {suspect.introduction}" for suspect in suspects),
    ]
    return "\n".join(lines)
