"""Answers that were written down beforehand: one a line, or a sheet from question to answer."""

from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from balar_core.dialogue import Ask, ScoreAnswer
from balar_core.errors import InvalidInput
from balar_core.text import canonical

from .printable import printable
from .problem_file import Mistake, ProblemError, read_document, read_text

__all__ = ["AnswerLines", "AnswerSheet", "InvalidAnswers", "open_answers"]


class InvalidAnswers(InvalidInput):
    """Written answers that cannot be used."""


class AnswerLines:
    """Answers from a stream, one a line; empty lines and lines that begin with `#` are skipped.

    Args:
        stream: the bytes, UTF-8; read only as far as answers are needed.
        name: what to call the stream in messages.
    """

    patient = False
    obeys_commands = True
    remark = ""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._line = 0

    @property
    def where(self) -> str:
        """Where the last answer stood."""
        return f"{self._name}, line {self._line}"

    def read(self, need: Ask | ScoreAnswer) -> str | None:
        """The next answer, or None at the end of the stream.

        Raises:
            InvalidAnswers: the line is not UTF-8.
        """
        while raw := self._stream.readline():
            self._line += 1
            text = self._decoded(raw).strip()
            if text and not text.startswith("#"):
                return text
        return None

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8-sig" if self._line == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidAnswers(
                f"{self.where}: byte {error.start + 1} (0x{raw[error.start]:02x}) is not UTF-8; "
                "save the answers as UTF-8."
            ) from None


class AnswerSheet:
    """Answers by the text of the question; what is not on the sheet is not known.

    Args:
        answers: text of the question -> answer.
        name: what to call the sheet in messages.

    Raises:
        InvalidAnswers: two entries are about the same question.
    """

    patient = False
    obeys_commands = False

    def __init__(self, answers: Mapping[str, str], name: str) -> None:
        self._name = name
        self._last = ""
        self.remark = ""
        self._answers: dict[str, str] = {}
        for question, answer in answers.items():
            if canonical(question) in self._answers:
                raise InvalidAnswers(
                    f'{name} answers "{printable(question)}" twice; keep one of the answers.'
                )
            self._answers[canonical(question)] = answer
        self._questions = tuple(answers)

    @property
    def where(self) -> str:
        """Which entry was read last."""
        return f'{self._name}, the answer to "{printable(self._last)}"'

    def read(self, need: Ask | ScoreAnswer) -> str:
        """The answer to the question that is asked; `?` if the sheet has none."""
        self._last = need.question.text
        answer = self._answers.get(canonical(self._last))
        self.remark = f"(not in {self._name})" if answer is None else ""
        return "?" if answer is None else answer

    def check(self, questions: Iterable[str]) -> None:
        """Refuse answers to questions that do not exist.

        Raises:
            InvalidAnswers: an entry fits none of the texts in `questions`.
        """
        known = set(map(canonical, questions))
        for text in self._questions:
            if canonical(text) not in known:
                raise InvalidAnswers(
                    f'{self._name}: the problem has no question "{printable(text)}"; '
                    "correct or remove the entry."
                )


def open_answers(path: Path) -> AnswerLines | AnswerSheet:
    """Open a file of answers: a sheet if its name ends in .yaml, .yml or .json, else lines.

    Raises:
        InvalidAnswers: the file cannot be read.
        ProblemError: a sheet that is not a mapping of text to text.
    """
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        return AnswerSheet(_read_sheet(path), str(path))
    try:
        return AnswerLines(BytesIO(path.read_bytes()), str(path))
    except OSError as error:
        raise InvalidAnswers(f"{path} cannot be read: {error.strerror or error}.") from None


def _read_sheet(path: Path) -> dict[str, str]:
    document = read_document(read_text(path), str(path))
    mistakes = list(document.mistakes)
    if not isinstance(document.data, dict):
        way_out = "give the answers one a line in a file that is called .txt"
        message = f"This is no mapping. Write QUESTION: ANSWER in every line, or {way_out}."
        raise ProblemError(str(path), [Mistake(1, 1, "", message)])
    sheet = {}
    for question, answer in document.data.items():
        if isinstance(answer, str):
            sheet[question] = answer
        else:
            line, column = document.place((question,))
            mistakes.append(Mistake(line, column, "", "An answer is a text, as in QUESTION: yes."))
    if mistakes:
        raise ProblemError(str(path), mistakes)
    return sheet
