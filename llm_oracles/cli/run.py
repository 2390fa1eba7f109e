"""`balar run`: a dialogue at the terminal, or with answers from a file or a pipe."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .choice import ProblemChoice, problem_options
from .terminal import ANSWERS_ENDED, check_files, hold, interactive, make_view, typed_or_piped

if TYPE_CHECKING:
    from balar_core.dialogue import Dialogue

    from ..human import Source
    from ..problem import Problem
    from ..render import View
    from ..session import Session

__all__ = ["run_command"]

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
    check_files(save, resume)
    if resume is None:
        if problem is None:
            raise click.UsageError("Give a PROBLEM (try: balar problem list), or --resume FILE.")
        found = problem.load()
        dialogue = _start(found, problem, alpha, max_questions)
    else:
        if alpha is not None or max_questions is not None:
            raise click.UsageError("--alpha and --max-questions belong to the start of a dialogue.")
        found, dialogue = _resume(resume, problem)
    asks = answers is None and interactive()
    view = make_view(as_json=as_json, quiet=as_json and not asks, plain=plain)
    session = _session(
        found, dialogue, _source(answers, found, view), view, save or resume, show_belief
    )
    ended = hold(session)
    if as_json:
        from ..report import dumps, report

        click.echo(dumps(report(session.dialogue, found.name)))
    if ended:
        raise click.exceptions.Exit(ANSWERS_ENDED)


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


def _source(answers: Path | None, found: "Problem", view: "View") -> "Source":
    from ..scripted import AnswerSheet, open_answers

    if answers is not None:
        source = open_answers(answers)
        if isinstance(source, AnswerSheet):
            source.check(question.text for question in found.all_questions)
        return source
    return typed_or_piped(view)


def _session(
    found: "Problem",
    dialogue: "Dialogue",
    source: "Source",
    view: "View",
    save: Path | None,
    show_belief: bool,
) -> "Session":
    from ..session import Matter, Session

    return Session(
        Matter.of_problem(found), dialogue, source, view, save=save, show_belief=show_belief
    )
