"""`balar problem`: which problems there are, what is in them, what is wrong with them."""

import math
from typing import TYPE_CHECKING

import click

from ..printable import printable

if TYPE_CHECKING:
    from ..problem import Problem

__all__ = ["problem"]


@click.group("problem", short_help="List, show and check problems.")
def problem() -> None:
    """List, show and check problems: files that hold everything a dialogue needs."""


@problem.command("list")
def list_problems() -> None:
    """List the problems that come with balar."""
    from ..problem import load_packaged, packaged

    for name in packaged():
        click.echo(f"{name:<12}{printable(' '.join(load_packaged(name).prompt.split()))}")


@problem.command("show")
@click.argument("name", metavar="PROBLEM")
def show(name: str) -> None:
    """Show what is in a problem: a packaged one, or one in a file."""
    from ..problem import find

    for line in _description(find(name)):
        click.echo(printable(line))


@problem.command("check")
@click.argument("file", type=click.Path())
def check(file: str) -> None:
    """Show every mistake in a problem FILE, with its line and column."""
    from ..problem import ProblemError, load

    try:
        found = load(file)
    except ProblemError as error:
        click.echo(printable(str(error), lines=True))
        count = len(error.mistakes)
        click.echo(f"{count} mistake{'s' if count > 1 else ''}", err=True)
        raise click.exceptions.Exit(1) from None
    click.echo(f"fine: {_measures(found)}")


def _measures(found: "Problem") -> str:
    dimensions, questions = len(found.dimensions), len(found.questions)
    states = math.prod(len(d.values) for d in found.dimensions)
    parts = [
        _count(dimensions, "dimension"),
        _count(states, "state"),
        _count(questions, "question"),
        _count(len(found.answers.names), "answer") if found.answers else "",
        _count(len(found.expansions), "expansion") if found.expansions else "",
    ]
    return ", ".join(filter(None, parts))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _description(found: "Problem") -> "list[str]":
    lines = [found.name, "", *found.prompt.strip().splitlines()]
    lines += found.context.strip().splitlines()
    lines += ["", _measures(found)]
    lines += [""] + [f"note: {note}" for note in found.notes] if found.notes else []
    lines += ["", "dimensions"]
    lines += [f"  {d.name}: {', '.join(d.value_names)}" for d in found.dimensions]
    lines += ["", "questions"]
    lines += [f"  {q.text} ({', '.join(q.choices)})" for q in found.questions]
    if found.expansions:
        lines += ["", "held back until they are needed"]
        lines += [f"  {e.name}: {', '.join(e.value_names)}" for e in found.expansions]
    if found.answers:
        lines += ["", "answers"] + [f"  {answer}" for answer in found.answers.names]
    if found.target:
        lines += ["", f"answer: the value of {found.target}"]
    return lines
