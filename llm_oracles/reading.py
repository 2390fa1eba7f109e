"""What a typed line means as the answer to a question. Nothing is ever guessed.

A line can name a choice by its label (`1`, `2`, ...), by its text, or by the beginning of its text
where only one choice begins so; several choices, as `1 or 3` or `1, 3`; say `?` or `don't know`;
or be a command. Texts are compared in their canonical form (see `balar_core.text`).
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from balar_core.errors import InvalidInput
from balar_core.questions import Question
from balar_core.text import canonical

from .printable import printable

__all__ = [
    "Choices",
    "CommandWord",
    "NoSuchChoice",
    "UnclearAnswer",
    "choice_labels",
    "listed",
    "understand",
]

_APOSTROPHES = ("'", "", "\N{RIGHT SINGLE QUOTATION MARK}")
DONT_KNOW = frozenset({"?", "dk", *(f"{i}don{a}t know" for i in ("", "i ") for a in _APOSTROPHES)})
_SEVERAL = re.compile(r"\s*[,;]\s*(?:or\s+)?|\s+or\s+")


class UnclearAnswer(InvalidInput):
    """A typed line that names no choice, or that could mean more than one thing."""


class NoSuchChoice(UnclearAnswer):
    """A typed line that names no choice and means nothing else either."""


@dataclass(frozen=True)
class Choices:
    """The line names these choices.

    Attributes:
        positions: positions of the choices, from 0, in order; empty = "I don't know".
        hint: a word on how the line was understood, if that may surprise.
    """

    positions: tuple[int, ...]
    hint: str = ""


@dataclass(frozen=True)
class CommandWord:
    """The line is this command."""

    name: str


def choice_labels(question: Question) -> tuple[str, ...]:
    """What to type for each choice; never the text of another choice.

    Numbers from 1; where choices begin with digits, letters, so that a typed number can only mean
    a text; and where letters are choices too, numbers with a mark.

    >>> choice_labels(Question("Does it fly?", ("no", "yes")))
    ('1', '2')
    >>> choice_labels(Question("How many legs?", ("0", "2", "4")))
    ('a', 'b', 'c')
    """
    numbers = tuple(map(str, range(1, len(question.choices) + 1)))
    if not any(map(_begins_with_digit, question.choices)):
        return numbers
    texts = set(map(canonical, question.choices))
    labels = tuple(map(_letters, range(1, len(question.choices) + 1)))
    mark = ""
    while not texts.isdisjoint(labels):
        mark += "#"
        labels = tuple(mark + number for number in numbers)
    return labels


def _begins_with_digit(text: str) -> bool:
    return canonical(text).lstrip("+-")[:1].isdigit()


def _letters(number: int) -> str:
    letters = ""
    while number:
        number, digit = divmod(number - 1, 26)
        letters = chr(ord("a") + digit) + letters
    return letters


def listed(question: Question) -> str:
    """The choices with their labels, in one line, fit to print.

    >>> listed(Question("Does it fly?", ("no", "yes")))
    '1 no, 2 yes'
    """
    labels = choice_labels(question)
    return ", ".join(f"{k} {printable(c)}" for k, c in zip(labels, question.choices, strict=True))


def understand(
    line: str, question: Question, commands: Collection[str] = ()
) -> Choices | CommandWord:
    """Say what a line means as an answer to `question`.

    Args:
        line: the line as typed.
        question: the question it answers.
        commands: the words that are commands, with or without a `/` before them.

    Raises:
        UnclearAnswer: the line means nothing here, or more than one thing.

    >>> question = Question("How bad is it?", ("mild", "strong", "very strong"))
    >>> understand("2", question).positions, understand(" MILD ", question).positions
    ((1,), (0,))
    >>> understand("mild or 2", question).positions, understand("dk", question).positions
    ((0, 1), ())
    >>> understand("/back", question, {"back"})
    CommandWord(name='back')
    """
    typed = canonical(line)
    if not typed:
        raise UnclearAnswer("Nothing was typed.")
    one = _one(typed, question, commands)
    if one is not None:
        return one
    if typed.startswith("/") and typed[1:].strip() in commands:
        return CommandWord(typed[1:].strip())
    several = _several(typed, question)
    if several is not None:
        return several
    raise NoSuchChoice(f"{_quoted(line)} is none of the choices.")


def _one(typed: str, question: Question, commands: Collection[str]) -> Choices | CommandWord | None:
    """The choice, "I don't know" or command that is meant, if it is one."""
    texts = [canonical(c) for c in question.choices]
    labels = choice_labels(question)
    word = typed in commands or typed in DONT_KNOW
    by_text = texts.index(typed) if typed in texts else None
    by_label = labels.index(typed) if typed in labels else None
    if by_text is not None:
        escape = f"/{typed}" if typed in commands else "?"
        hint = f"Taken as the choice; type {escape} for the other meaning." if word else ""
        return Choices((by_text,), hint)
    if by_label is not None:
        return Choices((by_label,))
    beginning = [k for k, text in enumerate(texts) if text.startswith(typed)]
    if beginning and word and typed != "?":
        escape = f"/{typed}" if typed in commands else "?"
        raise UnclearAnswer(f"{_both(typed, question, beginning)} Or type {escape}.")
    if word:
        return CommandWord(typed) if typed in commands else Choices(())
    if len(beginning) > 1:
        raise UnclearAnswer(_both(typed, question, beginning))
    return Choices((beginning[0],)) if beginning else None


def _several(typed: str, question: Question) -> Choices | None:
    """All the choices of `1 or 3`, `1, 3` or the same with texts; None if a part is no choice."""
    parts = [part for part in _SEVERAL.split(typed) if part]
    if len(parts) < 2:
        return None
    found: set[int] = set()
    for part in parts:
        one = _one(part, question, ())
        if not isinstance(one, Choices) or not one.positions:
            return None
        found.update(one.positions)
    return Choices(tuple(sorted(found)))


def _both(typed: str, question: Question, positions: Sequence[int]) -> str:
    labels = choice_labels(question)
    choices = " or ".join(f"{labels[k]} ({printable(question.choices[k])})" for k in positions)
    return f"{_quoted(typed)} could mean more than one thing: {choices}."


def _quoted(text: str) -> str:
    shown = text.strip()
    if len(shown) > 60:
        shown = shown[:57] + "..."
    return f'"{printable(shown)}"'
