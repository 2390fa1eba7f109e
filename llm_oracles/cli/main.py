"""The group of commands, and what becomes of errors.

Exit codes: 0 done; 1 failed; 2 used wrongly, or given something unusable; 3 the answers ended
before the dialogue; 130 interrupted.
"""

import errno
import sys
from typing import Any

import click

from ..printable import printable
from .calibrate import calibrate_command
from .doctor import doctor
from .eval import eval_group
from .problem import problem
from .run import run_command
from .solve import solve_command
from .train import train_command

__all__ = ["main"]

FAILED, UNUSABLE, INTERRUPTED = 1, 2, 130

EXAMPLES = """\b
balar run headache            answer questions about a headache
balar solve "Which bike?" ... the same about anything, with a language model
balar problem list            which problems come with balar
balar problem check my.yaml   find the mistakes in a problem of your own
"""


class _Commands(click.Group):
    """A group whose commands never end in a traceback, unless `--debug` asks for it."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except Exception as error:
            if ctx.params["debug"]:
                raise
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            _tell(error)
            raise click.exceptions.Exit(_exit_code(error)) from None


def _tell(error: Exception) -> None:
    from balar_core.errors import BalarError

    if isinstance(error, BalarError):
        click.echo(f"error: {printable(str(error), lines=True)}", err=True)
        return
    kind = type(error).__name__
    click.echo(
        f"error: something went wrong that should not ({kind}: {printable(str(error))}).\n"
        "Please report it with what `balar --debug ...` prints.",
        err=True,
    )


def _exit_code(error: Exception) -> int:
    from balar_core.errors import CorruptDialogue, InvalidInput

    from ..history import ChangedProblem
    from ..models.errors import InvalidEndpoint, InvalidKey
    from ..problem import ProblemError, UnknownProblem
    from ..store import UnreadableFile

    unusable = (
        InvalidInput,
        CorruptDialogue,
        ChangedProblem,
        ProblemError,
        UnknownProblem,
        UnreadableFile,
        InvalidEndpoint,
        InvalidKey,
    )
    return UNUSABLE if isinstance(error, unusable) else FAILED


@click.group(
    cls=_Commands,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(package_name="balar", prog_name="balar")
def cli(debug: bool) -> None:
    """Find out what a person really wants by asking the questions that tell the most."""


cli.add_command(run_command)
cli.add_command(solve_command)
cli.add_command(problem)
cli.add_command(train_command)
cli.add_command(calibrate_command)
cli.add_command(doctor)
cli.add_command(eval_group)


def main() -> None:
    """Run the command `balar`."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # What cannot be shown or read is shown as an escape; it must not end the program.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    cli.main(prog_name="balar")
