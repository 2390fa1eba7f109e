"""How a dialogue looks at a terminal: questions, belief bars, rankings, the conclusion.

Texts of problems and people are data: control characters in them are shown as escapes, and nothing
in them is taken for markup. Uncertainty is told in nats, probabilities in per cent.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .printable import printable
from .reading import choice_labels

if TYPE_CHECKING:
    from balar_core.dialogue import Ask, Candidate, Exchange, Explanation, Outcome
    from balar_core.questions import Question

__all__ = [
    "ASCII",
    "UNICODE",
    "Glyphs",
    "View",
    "bar",
    "make_console",
    "percent",
]

MOST_ROWS = 8
"""Most values of a dimension that are drawn one by one; the rest share a row."""


def percent(probability: float) -> str:
    """A probability in whole per cent; only certainty is 0% or 100%.

    >>> [percent(p) for p in (0.0, 0.001, 0.5, 0.999, 1.0)]
    ['0%', '<1%', '50%', '>99%', '100%']
    """
    if 0 < probability < 0.005:
        return "<1%"
    if 0.995 <= probability < 1:
        return ">99%"
    return f"{100 * probability:.0f}%"


@dataclass(frozen=True)
class Glyphs:
    """The signs that are drawn with: `parts` are bars of 1/n, 2/n, ... n/n of a cell."""

    parts: tuple[str, ...]
    between: str


UNICODE = Glyphs(parts=tuple("▏▎▍▌▋▊▉█"), between=" · ")
ASCII = Glyphs(parts=("#",), between=" - ")


def bar(probability: float, width: int, glyphs: Glyphs = UNICODE) -> str:
    """A bar of `probability * width` cells, rounded to what the glyphs can show.

    >>> bar(0.5, 5), bar(0.5, 5, ASCII), bar(0.0, 5)
    ('██▌', '##', '')
    """
    steps = len(glyphs.parts)
    whole, part = divmod(round(min(max(probability, 0.0), 1.0) * width * steps), steps)
    return glyphs.parts[-1] * whole + (glyphs.parts[part - 1] if part else "")


def make_console(stream: IO[str], *, plain: bool = False) -> Console:
    """A console on `stream`; colour only where the stream is a terminal and nobody objects.

    `NO_COLOR`, `COLUMNS` and `TERM` are heeded. A plain console writes no escape sequence at all.
    """
    return Console(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        color_system=None if plain else "auto",
        no_color=True if plain else None,
        force_terminal=False if plain else None,
    )


MOST_NOTES = 5
"""Most notes of a problem that are shown."""
MOST_CELLS = 32
"""The length of a bar that stands for certainty, where there is room."""
FEWEST_CELLS = 4
"""Shorter bars are left out."""
INDENT, GAP, NUMBER = 2, 2, 4
"""Cells before a table, between its columns, and for a number in per cent."""


class View:
    """Draws the parts of a dialogue on a console.

    Args:
        console: where to draw.
        plain: draw with ASCII signs only (chosen by itself where the console can show no others).
    """

    def __init__(self, console: Console, *, plain: bool = False) -> None:
        self.console = console
        ascii_only = plain or not console.encoding.lower().startswith("utf")
        self.glyphs = ASCII if ascii_only else UNICODE

    # --- words -----------------------------------------------------------------------------------

    def line(self, text: str = "", style: str = "") -> None:
        """Print one paragraph."""
        self.console.print(Text(printable(text, lines=True), style))

    def problem(self, prompt: str, context: str, notes: Sequence[str] = ()) -> None:
        """Print what the dialogue is about, and what its author wants to be known."""
        self.line(prompt.strip(), "bold")
        if context.strip():
            self.line(context.strip(), "dim")
        for note in notes[:MOST_NOTES]:
            self.line(note.strip(), "italic")
        if len(notes) > MOST_NOTES:
            self.line(f"({len(notes) - MOST_NOTES} more notes)", "dim")

    def progress(
        self, number: int, most: int, user: str | None, entropy: float, goal: float
    ) -> None:
        """Print which question this is and how uncertain (nats) things are."""
        whom = f" for {user}" if user else ""
        count = f"Question {number} of at most {most}{whom}"
        doubt = f"uncertainty {entropy:.2f} nats, goal {goal:.2f}"
        self.line()
        self.line(f"{count}{self.glyphs.between}{doubt}", "dim")

    def question(self, question: "Question") -> None:
        """Print a question with its note and its labelled choices."""
        self.line(question.text, "bold")
        if question.note:
            self.line(question.note, "dim")
        self.pairs(zip(choice_labels(question), question.choices, strict=True))

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Print short words, each with the text that belongs to it."""
        table = Table.grid(padding=(0, GAP, 0, 0))
        table.add_column(no_wrap=True, style="cyan")
        table.add_column(overflow="fold")
        for word, text in rows:
            table.add_row(word, Text(printable(text)))
        self._indented(table)

    def _indented(self, table: Table) -> None:
        self.console.print(Padding(table, (0, 0, 0, INDENT), expand=False))

    # --- bars ------------------------------------------------------------------------------------

    def beliefs(
        self,
        marginals: Mapping[str, Mapping[str, float]],
        before: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        """Draw one block of bars per dimension.

        Args:
            marginals: dimension -> value -> probability.
            before: earlier marginals; if given, only dimensions that moved by half a per cent or
                more are drawn, with the change in per cent points.
        """
        earlier = before or {}
        still = [n for n, p in marginals.items() if n in earlier and _moved(p, earlier[n]) < 0.005]
        blocks = {
            name: list(_rows(values, earlier.get(name)))
            for name, values in marginals.items()
            if name not in still
        }
        widest = max((cell_len(r.text) for rows in blocks.values() for r in rows), default=0)
        for name, rows in blocks.items():
            self._block(name, rows, widest)
        if still:
            self.line(f"unchanged: {', '.join(still)}", "dim")

    def bars(self, name: str, values: Mapping[str, float]) -> None:
        """Draw a distribution under its name."""
        rows = list(_rows(values, None))
        self._block(name, rows, max(cell_len(r.text) for r in rows))

    def _block(self, name: str, rows: "list[_Row]", widest: int) -> None:
        """Draw the rows of one distribution, bars beginning after `widest` cells."""
        room = self.console.width - INDENT - 2 * (NUMBER + GAP)
        length = min(room - min(widest, room // 2) - GAP, MOST_CELLS)
        drawn = length >= FEWEST_CELLS
        table = Table.grid(padding=(0, GAP, 0, 0))
        table.add_column(width=min(widest, room // 2 if drawn else room), overflow="fold")
        if drawn:
            table.add_column(width=length, no_wrap=True, overflow="crop")
        table.add_column(width=NUMBER, justify="right", no_wrap=True)
        changed = any(row.change for row in rows)
        if changed:
            table.add_column(width=NUMBER, justify="right", no_wrap=True)
        for row in rows:
            cells = [Text(row.text, "" if row.single else "dim"), Text(percent(row.probability))]
            if drawn:
                fill = bar(row.probability, length, self.glyphs)
                cells.insert(1, Text(fill, "cyan" if row.single else "dim"))
            if changed:
                cells.append(Text(row.change, "red" if row.change.startswith("-") else "green"))
            table.add_row(*cells)
        self.line(name)
        self._indented(table)

    # --- why and what else -----------------------------------------------------------------------

    def why(self, need: "Ask", explanation: "Explanation") -> None:
        """Tell what the question is expected to tell, and why no other is asked."""
        self.line(explanation.words)
        self.line(
            f"It is expected to tell {need.information:.3f} of the {explanation.entropy:.3f} nats "
            "that are uncertain."
        )
        about = [(name, nats) for name, nats in explanation.about if nats >= 5e-4]
        if about:
            bearing = ", ".join(f"{name} {nats:.3f} nats" for name, nats in about)
            self.line(f"Taken alone it bears on: {bearing}.")
        self.bars("Predicted answers", dict(zip(need.question.choices, need.expected, strict=True)))
        runner = _runner_up(need, explanation.candidates)
        if runner is not None:
            self.line(
                f"Next best: {runner.question.text} ({runner.information:.3f} nats, "
                f"{need.information - runner.information:.3f} less)"
            )
        settled = [c.question.text for c in explanation.candidates if c.state == "settled"]
        if settled:
            self.line("Settled, would tell next to nothing: " + " / ".join(settled), "dim")

    def ranking(self, explanation: "Explanation", *, users: bool) -> None:
        """Draw every question with what it would tell (nats) and whether it is still open."""
        most = max((c.information for c in explanation.candidates if c.state == "open"), default=0)
        length = 10 if self.console.width >= 60 else 0
        table = Table.grid(padding=(0, GAP, 0, 0))
        table.add_column(justify="right", width=5, no_wrap=True)
        table.add_column(width=length, no_wrap=True)
        table.add_column(width=7, no_wrap=True)
        table.add_column(overflow="fold")
        for candidate in explanation.candidates:
            asked = candidate.state == "asked"
            text = candidate.question.text + (f" ({candidate.user})" if users else "")
            share = candidate.information / most if most and candidate.state == "open" else 0
            table.add_row(
                "" if asked else f"{max(candidate.information, 0):.3f}",
                Text(bar(share, length, self.glyphs), "cyan"),
                candidate.state,
                Text(printable(text)),
                style="" if candidate.state == "open" else "dim",
            )
        self.line("Nats that each question is expected to tell:")
        self._indented(table)

    # --- the end ---------------------------------------------------------------------------------

    def conclusion(
        self,
        *,
        state: Mapping[str, str],
        probability: float,
        answers: Mapping[str, float] | None,
        outcome: "Outcome | None",
        asked: int,
        total: int,
        answer: str | None,
        text: str,
    ) -> None:
        """Tell how the dialogue ended and what it found."""
        self.line()
        if outcome is not None:
            self.line(outcome.words, "dim")
        fate = "saved" if outcome is not None and outcome.settled else "left unasked"
        rest = f": {total - asked} {fate}" if asked < total else ""
        self.line(f"Asked {asked} of {total} questions{rest}.", "dim")
        self.line()
        if answer is not None:
            self.line(answer, "bold green")
        if text:
            self.line(text)
        self.line()
        if answers is not None:
            self.bars("Answers", answers)
        words = ", ".join(f"{name}: {value}" for name, value in state.items())
        self.line(f"Most likely as a whole ({percent(probability)}): {words}")

    def evidence(self, conversation: "Sequence[Exchange]") -> None:
        """Tell what was asked and replied, and how each reply was weighed."""
        if not conversation:
            return
        self.line()
        self.line("This rests on:")
        for said in conversation:
            self.line(f"{said.user}, on {said.question}", "dim")
            weighed = ", ".join(
                f"{choice} {percent(weight)}"
                for choice, weight in zip(said.choices, said.evidence, strict=True)
            )
            self.line(f"  {said.reply} = {weighed}" if said.reply else f"  {weighed}")


@dataclass(frozen=True)
class _Row:
    text: str
    probability: float
    change: str
    single: bool = True


def _rows(values: Mapping[str, float], before: Mapping[str, float] | None) -> Iterator[_Row]:
    """The rows of a block of bars: all values in order, or the likeliest and what is left."""
    shown: Sequence[str] = list(values)
    if len(values) > MOST_ROWS:
        shown = sorted(values, key=values.__getitem__, reverse=True)[: MOST_ROWS - 1]
    for name in shown:
        moved = values[name] - before.get(name, 0.0) if before is not None else 0.0
        yield _Row(printable(name), values[name], _change(moved))
    rest = [p for name, p in values.items() if name not in set(shown)]
    if rest:
        yield _Row(f"{len(rest)} others", math.fsum(rest), "", single=False)


def _change(moved: float) -> str:
    points = round(100 * moved)
    return f"{points:+d}" if points else ""


def _moved(now: Mapping[str, float], before: Mapping[str, float]) -> float:
    return max(abs(p - before.get(name, 0.0)) for name, p in now.items())


def _runner_up(need: "Ask", candidates: "Sequence[Candidate]") -> "Candidate | None":
    """The best open candidate besides the one that is asked."""
    for candidate in candidates:
        same = candidate.position == need.position and candidate.user == need.user.name
        if candidate.state == "open" and not same:
            return candidate
    return None
