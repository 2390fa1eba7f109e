"""What the commands that hold a dialogue have in common: where it is shown, and how it ends."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..human import Source
    from ..render import View
    from ..session import Session

__all__ = ["ANSWERS_ENDED", "check_files", "hold", "interactive", "make_view", "typed_or_piped"]

ANSWERS_ENDED = 3


def check_files(save: Path | None, resume: Path | None) -> None:
    """Refuse to write over anything but the dialogue that is resumed."""
    if save is not None and save != resume and save.exists():
        raise click.UsageError(
            f"{save} exists already. Go on with it (--resume {save}), or save to another file."
        )


def interactive() -> bool:
    """Whether somebody can type."""
    return sys.stdin is not None and sys.stdin.isatty()


def make_view(*, as_json: bool, quiet: bool, plain: bool) -> "View":
    """Where the dialogue is shown: not on standard output if JSON goes there."""
    from ..render import View, make_console

    console = make_console(sys.stderr if as_json else sys.stdout, plain=plain)
    console.quiet = quiet
    return View(console, plain=plain)


def typed_or_piped(view: "View") -> "Source":
    """Answers from the keyboard, or from a pipe where nobody can type."""
    from ..human import Keyboard
    from ..scripted import AnswerLines

    if interactive():
        return Keyboard(sys.stdin, view.console)
    return AnswerLines(BytesIO() if sys.stdin is None else sys.stdin.buffer, "standard input")


def hold(session: "Session", stop: Callable[[], bool] = lambda: False) -> bool:
    """Hold the dialogue; True if the answers ended before it.

    However it ends, the user hears how to go on with what is saved.

    Args:
        session: the dialogue.
        stop: called at Ctrl-C; whether the dialogue will stop by itself soon.
    """
    from balar_core.errors import BalarError

    from ..human import EndOfAnswers

    try:
        with _interruptible(stop):
            session.run()
    except EndOfAnswers as error:
        click.echo(f"error: {error}{_saved(session)}", err=True)
        return True
    except (KeyboardInterrupt, BalarError):
        if session.save:
            click.echo(_saved(session).strip(), err=True)
        raise
    return False


def _saved(session: "Session") -> str:
    return f" Go on with: {session.resume_command}" if session.save else ""


@contextmanager
def _interruptible(stop: Callable[[], bool]) -> Iterator[None]:
    """Let Ctrl-C end a wait for a line at once.

    An event loop would otherwise take the signal for itself and only act on it after the line.
    """

    def interrupt(signum: int, frame: FrameType | None) -> None:
        if not stop():
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
