"""`balar run`: a dialogue at the terminal, or with answers from a file or a pipe."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from .choice import ProblemChoice, problem_options

if TYPE_CHECKING:
    from balar_core.dialogue import Dialogue

    from ..human import Source
    from ..problem import Problem
    from ..render import View
    from ..session import Session

__all__ = ["run_command"]

ANSWERS_ENDED = 3

EXAMPLES = """\b
balar run headache
balar run animals.csv --target name --save animals.json
balar run --resume animals.json
printf '1\\n2\\nno\\n' | balar run headache --json
"""


@click.command("run", short_help="Hold a dialogue about a problem.", epilog=EXAMPLES)
@problem_options
@click.option(
    "--answers",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take the answers from FILE: one a line, or (.yaml, .json) QUESTION: ANSWER.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Keep the dialogue in FILE, anew after every answer.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Go on with the dialogue in FILE, and keep it there.",
)
@click.option("--max-questions", type=int, metavar="N", help="Ask at most N questions.")
@click.option(
    "--alpha", type=float, metavar="A", help="Stop when the answer is 1-A sure (default 0.1)."
)
@click.option("--show-belief/--no-show-belief", default=True, help="Draw what each answer changed.")
@click.option("--plain", is_flag=True, help="No colour, and drawings in ASCII only.")
def run_command(
    problem: ProblemChoice | None,
    answers: Path | None,
    as_json: bool,
    save: Path | None,
    resume: Path | None,
    max_questions: int | None,
    alpha: float | None,
    show_belief: bool,
    plain: bool,
) -> None:
    """Hold a dialogue about PROBLEM: a packaged name, a YAML or JSON file, or a table (CSV).

    Answers come from the terminal, from a file (--answers), or from a pipe, one a line.
    """
    _check_files(save, resume)
    if resume is None:
        if problem is None:
            raise click.UsageError("Give a PROBLEM (try: balar problem list), or --resume FILE.")
        found = problem.load()
        dialogue = _start(found, problem, alpha, max_questions)
    else:
        if alpha is not None or max_questions is not None:
            raise click.UsageError("--alpha and --max-questions belong to the start of a dialogue.")
        found, dialogue = _resume(resume, problem)
    view = _view(as_json=as_json, quiet=as_json and not _interactive(answers), plain=plain)
    session = _session(
        found, dialogue, _source(answers, found, view), view, save or resume, show_belief
    )
    ended = _hold(session)
    if as_json:
        from ..report import dumps, report

        click.echo(dumps(report(session.dialogue, found.name)))
    if ended:
        raise click.exceptions.Exit(ANSWERS_ENDED)


def _check_files(save: Path | None, resume: Path | None) -> None:
    """Refuse to write over anything but the dialogue that is resumed."""
    if save is not None and save != resume and save.exists():
        raise click.UsageError(
            f"{save} exists already. Go on with it (--resume {save}), or save to another file."
        )


def _start(
    found: "Problem", choice: ProblemChoice, alpha: float | None, max_questions: int | None
) -> "Dialogue":
    from balar_core.dialogue import Dialogue

    setup = found.setup(choice.origin)
    settings = setup.settings
    if alpha is not None:
        settings = replace(settings, alpha=alpha)
    if max_questions is not None:
        settings = replace(settings, max_questions=max_questions)
    return Dialogue.start(replace(setup, settings=settings))


def _resume(path: Path, problem: ProblemChoice | None) -> "tuple[Problem, Dialogue]":
    from ..history import check_unchanged
    from ..store import read_dialogue

    dialogue = read_dialogue(path)
    found = (problem or ProblemChoice.from_origin(dialogue.setup.origin)).load()
    check_unchanged(found, dialogue)
    return found, dialogue


def _interactive(answers: Path | None) -> bool:
    return answers is None and sys.stdin is not None and sys.stdin.isatty()


def _view(*, as_json: bool, quiet: bool, plain: bool) -> "View":
    """Where the dialogue is shown: not on standard output if JSON goes there."""
    from ..render import View, make_console

    console = make_console(sys.stderr if as_json else sys.stdout, plain=plain)
    console.quiet = quiet
    return View(console, plain=plain)


def _source(answers: Path | None, found: "Problem", view: "View") -> "Source":
    from ..human import Keyboard
    from ..scripted import AnswerLines, AnswerSheet, open_answers

    if answers is not None:
        source = open_answers(answers)
        if isinstance(source, AnswerSheet):
            source.check(question.text for question in found.all_questions)
        return source
    if _interactive(answers):
        return Keyboard(sys.stdin, view.console)
    piped = BytesIO() if sys.stdin is None else sys.stdin.buffer
    return AnswerLines(piped, "standard input")


def _session(
    found: "Problem",
    dialogue: "Dialogue",
    source: "Source",
    view: "View",
    save: Path | None,
    show_belief: bool,
) -> "Session":
    from ..session import Session

    return Session(found, dialogue, source, view, save=save, show_belief=show_belief)


def _hold(session: "Session") -> bool:
    """Hold the dialogue; True if the answers ended before it."""
    from ..human import EndOfAnswers

    try:
        with _interruptible():
            session.run()
    except EndOfAnswers as error:
        click.echo(f"error: {error}{_saved(session)}", err=True)
        return True
    except KeyboardInterrupt:
        click.echo(_saved(session).strip(), err=True)
        raise
    return False


def _saved(session: "Session") -> str:
    return f" Go on with: {session.resume_command}" if session.save else ""


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a wait for a line at once.

    An event loop would otherwise take the signal for itself and only act on it after the line.
    """

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
