"""Which problem is meant: the argument PROBLEM and the options that say how to read a table."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..problem import Problem

__all__ = ["ProblemChoice", "problem_options"]

TABLES = (".csv", ".tsv")
NOISE, SMOOTHING, ROWS = 0.01, 1.0, ("objects", "samples")


@dataclass(frozen=True)
class ProblemChoice:
    """A problem, as it is named on the command line.

    Attributes:
        name: a packaged name or a path.
        target: for a table, the column that is to be found out, by name or number.
        header: for a table, whether its first line names the columns.
        ignore: for a table, columns to leave out.
        noise: for a table, the share of wrong answers.
        smoothing: for a table, the weight of what was never seen.
        rows: for a table, whether its rows are `objects` or `samples`.
    """

    name: str
    target: str | None = None
    header: bool = True
    ignore: tuple[str, ...] = ()
    noise: float = NOISE
    smoothing: float = SMOOTHING
    rows: str = ROWS[0]

    @property
    def is_table(self) -> bool:
        """Whether the problem is a table."""
        return Path(self.name).suffix.lower() in TABLES

    def load(self) -> "Problem":
        """Read the problem.

        Raises:
            click.UsageError: options that do not fit the kind of problem.
            BalarError: the problem cannot be used.
        """
        if not self.is_table:
            if self != ProblemChoice(self.name):
                raise click.UsageError(
                    "--target, --no-header, --ignore, --noise, --smoothing and --rows are about "
                    f"tables (.csv, .tsv); {self.name!r} is none."
                )
            from ..problem import find

            return find(self.name)
        if self.target is None:
            raise click.UsageError(
                f"{self.name} is a table; say with --target which column is to be found out."
            )
        from ..knowledge import load_table

        table = load_table(
            Path(self.name), target=self.target, header=self.header, ignore=self.ignore
        )
        return table.to_problem(noise=self.noise, smoothing=self.smoothing, rows=self.rows)

    @property
    def origin(self) -> str:
        """The choice as it would be typed, kept with a saved dialogue; paths are made absolute."""
        from ..problem import packaged

        words = [self.name if self.name in packaged() else str(Path(self.name).resolve())]
        words += [f"--target={self.target}"] if self.target is not None else []
        words += [] if self.header else ["--no-header"]
        words += [f"--ignore={column}" for column in self.ignore]
        if self.is_table:
            words += [f"--{name}={getattr(self, name)}" for name in ("noise", "smoothing", "rows")]
        return shlex.join(words)

    @classmethod
    def from_origin(cls, origin: str) -> "ProblemChoice":
        """The choice that `origin` was made from.

        Raises:
            click.UsageError: the text names no problem.

        >>> choice = ProblemChoice("/my animals.csv", target="1", ignore=("class",), noise=0.1)
        >>> ProblemChoice.from_origin(choice.origin) == choice
        True
        """
        try:
            choice = _reader.main(shlex.split(origin), standalone_mode=False)
        except (ValueError, click.ClickException):
            choice = None
        if not isinstance(choice, cls):
            raise click.UsageError(
                "The saved dialogue does not say which problem it is about; "
                "name it: balar run PROBLEM --resume FILE."
            )
        return choice


def problem_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument PROBLEM and its options, handed over as one `problem`."""

    @wraps(command)
    def with_choice(
        problem: str | None,
        target: str | None,
        no_header: bool,
        ignore: tuple[str, ...],
        noise: float,
        smoothing: float,
        rows: str,
        **others: Any,
    ) -> Any:
        choice = ProblemChoice(problem or "", target, not no_header, ignore, noise, smoothing, rows)
        if problem is None and choice != ProblemChoice(""):
            raise click.UsageError("Options about a table are given, but no table.")
        return command(problem=None if problem is None else choice, **others)

    decorated: Callable[..., Any] = with_choice
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS = (
    click.argument("problem", required=False),
    click.option(
        "--target", metavar="COLUMN", help="Table: the column to be found out (name or number)."
    ),
    click.option("--no-header", is_flag=True, help="Table: the first line names no columns."),
    click.option("--ignore", metavar="COLUMN", multiple=True, help="Table: leave out a column."),
    click.option(
        "--noise",
        type=float,
        metavar="P",
        default=NOISE,
        show_default=True,
        help="Table: share of random answers.",
    ),
    click.option(
        "--smoothing",
        type=float,
        metavar="W",
        default=SMOOTHING,
        show_default=True,
        help="Table of samples: what is added to the counts.",
    ),
    click.option(
        "--rows",
        type=click.Choice(ROWS),
        default=ROWS[0],
        show_default=True,
        help="Table: each row is an object of its own, or a sample of its target.",
    ),
)


@click.command("origin")
@problem_options
def _reader(problem: ProblemChoice | None) -> ProblemChoice | None:
    return problem
