"""A person who answers questions: at a terminal, through a pipe, or from a file of answers."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console

from balar_core.dialogue import (
    Answered,
    Ask,
    Need,
    Reply,
    ScoreAnswer,
    ScoredAnswer,
)
from balar_core.errors import BalarError
from balar_core.questions import Question

from .reading import CommandWord, NoSuchChoice, UnclearAnswer, listed, understand
from .render import View

__all__ = ["Command", "EndOfAnswers", "HumanOracle", "Keyboard", "Source"]

PROMPT = "> "
HELP = """\
Answer with the number of a choice, with its text, or with the beginning of its text.
Two or more choices, as "1 or 3", say that it is one of them.
? or "don't know" says that you do not know; nothing is concluded from that."""

OWN_WORDS = "Anything else is taken as an answer in your own words, and weighed by the model."


class EndOfAnswers(BalarError):
    """There are no more answers, and the dialogue is not finished."""


class Source(Protocol):
    """Where answers come from, line by line.

    Attributes:
        patient: whether an unclear line is asked again (a person) or is an error (a file).
        obeys_commands: whether lines may be commands.
        remark: a word on the last line, shown beside it.
    """

    patient: bool
    obeys_commands: bool
    remark: str

    @property
    def where(self) -> str:
        """Where the last line stood, for messages."""
        ...

    def read(self, need: Ask | ScoreAnswer) -> str | None:
        """The next line, or None at the end."""
        ...


class Keyboard:
    """Lines that a person types.

    Args:
        stream: what is read.
        console: where the prompt goes.
    """

    patient = True
    obeys_commands = True
    remark = ""
    where = "the keyboard"

    def __init__(self, stream: TextIO, console: Console) -> None:
        self._stream = stream
        self._console = console

    def read(self, need: Ask | ScoreAnswer) -> str | None:
        """Prompt for a line and return it, or None at the end of the stream."""
        if self._editable():
            import readline  # noqa: F401  (gives input() its editing keys)

            try:
                return input(PROMPT)
            except EOFError:
                return None
        self._console.print(PROMPT, end="")
        self._console.file.flush()
        line = self._stream.readline()
        if not self._console.is_terminal:  # nobody has seen a line break being typed
            self._console.print()
        return line or None

    def _editable(self) -> bool:
        streams = self._stream is sys.stdin and self._console.file is sys.stdout
        return streams and sys.stdin.isatty() and sys.stdout.isatty()


@dataclass(frozen=True)
class Command:
    """Something that can be typed instead of an answer.

    Attributes:
        summary: what it does, in a few words.
        run: does it; the question is put again afterwards, unless this raises.
    """

    summary: str
    run: Callable[[], None]


class HumanOracle:
    """Fulfils `Ask` (and `ScoreAnswer`) by asking a person; it blocks while the person thinks.

    Args:
        source: where answers come from.
        view: where questions are shown.
        commands: word -> what it does. `help` comes with the oracle.
        introduce: called before a question is shown.
        free_text: whether a line that names no choice is an answer in the person's own words, which
            somebody else has to score; otherwise it is asked again.
    """

    def __init__(
        self,
        source: Source,
        view: View,
        *,
        commands: Mapping[str, Command] | None = None,
        introduce: Callable[[Ask], None] | None = None,
        free_text: bool = False,
    ) -> None:
        self._source = source
        self._view = view
        self._introduce = introduce
        self._free_text = free_text
        self._commands: dict[str, Command] = {}
        if source.obeys_commands:
            self._commands = {
                **(commands or {}),
                "help": Command("this help", self._help),
            }

    async def fulfil(self, need: Need) -> Reply:
        """Put the question and wait for an answer that can be understood.

        Raises:
            EndOfAnswers: there are no more lines.
            UnclearAnswer: a line of an impatient source cannot be understood.
            BalarError: the need is not a question.
        """
        match need:
            case Ask():
                if self._introduce is not None:
                    self._introduce(need)
                return self._answered(need)
            case ScoreAnswer():
                self._view.line(f'You said "{need.reply}". Which choice is that?')
                positions, _ = self._choices(need)
                return ScoredAnswer(_weights(positions or (), need.question))
            case _:
                raise BalarError(
                    f"A person at a terminal answers questions; this dialogue needs {need.kind!r}. "
                    "Give it a problem that holds everything else."
                )

    def _answered(self, need: Ask) -> Answered:
        positions, line = self._choices(need)
        if positions is None:
            return Answered(reply=line)
        if not positions:
            return Answered(unknown=True)
        if len(positions) == 1:
            return Answered(choice=positions[0])
        return Answered(evidence=_weights(positions, need.question), reply=line)

    def _choices(self, need: Ask | ScoreAnswer) -> tuple[tuple[int, ...] | None, str]:
        """Ask until choices are named; their positions, and the line that named them.

        There are no positions (None) if the line is an answer in the person's own words.
        """
        self._view.question(need.question)
        while True:
            line = self._line(need)
            try:
                meaning = understand(line, need.question, self._commands)
            except NoSuchChoice as unclear:
                if self._free_text and isinstance(need, Ask):
                    return None, line.strip()
                self._refuse(unclear, need.question)
                continue
            except UnclearAnswer as unclear:
                self._refuse(unclear, need.question)
                continue
            if isinstance(meaning, CommandWord):
                self._commands[meaning.name].run()
                self._view.line()
                self._view.question(need.question)
                continue
            self._view.line(_echo(meaning.positions, need.question), "green")
            if meaning.hint:
                self._view.line(meaning.hint, "dim")
            return meaning.positions, line.strip()

    def _line(self, need: Ask | ScoreAnswer) -> str:
        line = self._source.read(need)
        if line is None:
            raise EndOfAnswers(f'The answers end before the question "{need.question.text}".')
        if not self._source.patient:
            self._view.line(f"{PROMPT}{line} {self._source.remark}".rstrip(), "dim")
        return line

    def _refuse(self, unclear: UnclearAnswer, question: Question) -> None:
        """Say why a line was not understood, or raise if nobody is there to try again."""
        ways = f"The choices: {listed(question)}. Or ? if you do not know."
        if not self._source.patient:
            raise UnclearAnswer(
                f'{self._source.where}: {unclear} The question is "{question.text}". {ways}'
            ) from None
        self._view.line(f"{unclear} {ways}", "yellow")

    def _help(self) -> None:
        self._view.line(HELP)
        if self._free_text:
            self._view.line(OWN_WORDS)
        self._view.pairs((word, command.summary) for word, command in self._commands.items())


def _weights(positions: tuple[int, ...], question: Question) -> tuple[float, ...]:
    """Equal weights for the named choices, none for the others; all equal if none is named."""
    chosen = positions or range(len(question.choices))
    return tuple(float(k in chosen) for k in range(len(question.choices)))


def _echo(positions: tuple[int, ...], question: Question) -> str:
    if not positions:
        return "= not known"
    return "= " + " or ".join(question.choices[k] for k in positions)
