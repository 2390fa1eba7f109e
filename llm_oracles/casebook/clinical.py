"""Medical cases in the format of MediQ (iCraft-MD): a patient, a question and its options."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from balar_core.errors import InvalidInput
from balar_core.questions import User
from balar_core.text import canonical

from .case import Case
from .records import Index, Record, Words, read_cases

__all__ = ["clinical_cases"]

PATIENT = "patient"


class Patient(Record):
    """Who is ill."""

    age: Words
    gender: Words


class ClinicalRecord(Record):
    """A record of the file; the first sentence of `context` is the chief complaint."""

    id: Index
    question: Words
    options: Annotated[dict[str, Words], Field(min_length=2)]
    answer: Words
    answer_idx: str
    context: list[Words]
    facts: Annotated[list[Words], Field(min_length=1)]
    patient: Patient


def clinical_cases(path: Path) -> tuple[Case, ...]:
    """The cases of a file.

    The right answer is the option with the words of `answer`, or, where no option has them, the
    one that `answer_idx` names. Where the two disagree the words count, and the case says so in
    its remark.

    Raises:
        FileTrouble: the file cannot be read.
        CaseFileError: a record is not as published; the message names it.
    """
    return read_cases(path, ClinicalRecord, lambda record: record.id, _case)


def _case(record: ClinicalRecord, name: str) -> Case:
    truth, remark = _truth(record)
    options = tuple(record.options.values())
    known = [f"Age: {record.patient.age}", f"Gender: {record.patient.gender}"]
    if record.context:
        known.append(f"Chief complaint: {record.context[0]}")
    return Case(
        id=name,
        prompt=f"{record.question}\nOptions: {'; '.join(options)}.",
        context="\n".join(known),
        users=(User(PATIENT, "The patient, who answers from the medical record."),),
        private={PATIENT: "\n".join([*known, "Your medical record:", *record.facts])},
        answers=options,
        truth=truth,
        remark=remark,
    )


def _truth(record: ClinicalRecord) -> tuple[str, str]:
    """The right option, and what is odd about it."""
    letters = ", ".join(record.options)
    if record.answer_idx not in record.options:
        raise InvalidInput(f"answer_idx is {record.answer_idx!r}; the options are {letters}.")
    named = record.options[record.answer_idx]
    words = canonical(record.answer)
    same = [option for option in record.options.values() if canonical(option) == words]
    if not same:
        return named, f"The answer {record.answer!r} is no option; answer_idx names {named!r}."
    if same[0] != named:
        return same[0], f"answer_idx names {named!r}, but the answer is {same[0]!r}."
    return named, ""
