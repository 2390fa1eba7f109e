"""Situation puzzles of AR-Bench (SP): a strange scene, and its hidden explanation."""

from pathlib import Path

from balar_core.questions import User

from .case import Case
from .records import Index, Record, Words, read_cases

__all__ = ["puzzle_cases"]

TELLER = User(
    "puzzle master", "Knows the explanation of the puzzle, and answers with yes or with no."
)


class PuzzleRecord(Record):
    """A record of the file; everything else in it tells the explanation."""

    index: Index
    surface: Words
    bottom: Words


def puzzle_cases(path: Path) -> tuple[Case, ...]:
    """The cases of a file.

    Raises:
        FileTrouble: the file cannot be read.
        CaseFileError: a record is not as published; the message names it.
    """
    return read_cases(path, PuzzleRecord, lambda record: record.index, _case)


def _case(record: PuzzleRecord, name: str) -> Case:
    return Case(
        id=name,
        prompt=record.surface,
        context="This is a situation puzzle: the request tells a strange scene, and the right "
        "answer is what explains it.",
        users=(TELLER,),
        private={TELLER.name: f"The puzzle: {record.surface}\n\nIts explanation: {record.bottom}"},
        answers=None,
        truth=record.bottom,
    )
