"""What happened in a dialogue, step by step; and whether a problem still says the same."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace

from balar_core.dialogue import (
    REPLY_TO,
    Dialogue,
    ElicitAnswers,
    ElicitLikelihoods,
    ElicitPriors,
    Need,
    ProposeDimensions,
    ProposeExpansion,
    ProposeQuestions,
    Reply,
    Stopped,
)
from balar_core.errors import BalarError, CorruptDialogue

from .problem import Problem
from .problem_oracle import ProblemOracle

__all__ = ["ChangedProblem", "Step", "check_unchanged", "steps"]

NAMES = {
    ProposeDimensions: "dimensions",
    ElicitPriors: "priors",
    ProposeQuestions: "questions",
    ElicitLikelihoods: "likelihood tables",
    ElicitAnswers: "tables of the answers",
    ProposeExpansion: "expansions",
}
"""What a problem holds in answer to which need."""


class ChangedProblem(BalarError):
    """A problem is no longer what it was when a dialogue about it was saved."""


@dataclass(frozen=True)
class Step:
    """One reply in its place.

    Attributes:
        before: the dialogue that is told the reply.
        need: what the reply answers; None for `Stopped`.
        reply: the reply.
    """

    before: Dialogue
    need: Need | None
    reply: Reply


def steps(dialogue: Dialogue) -> Iterator[Step]:
    """Go through a dialogue again, from its first reply to its last.

    Raises:
        CorruptDialogue: a reply answers nothing that the dialogue needed.
    """
    now = Dialogue.start(dialogue.setup)
    for reply in dialogue.replies:
        need = next((n for n in now.needs if isinstance(reply, REPLY_TO[type(n)])), None)
        if need is None and not isinstance(reply, Stopped):
            raise CorruptDialogue(f"The reply {reply.kind!r} stands where it answers nothing.")
        yield Step(now, need, reply)
        now = now.tell(reply)


def check_unchanged(problem: Problem, dialogue: Dialogue) -> None:
    """Check that a problem still says what it said when the dialogue was saved.

    Raises:
        ChangedProblem: it does not; the message says in what.
    """
    then = dialogue.setup
    now = problem.setup(then.origin)
    for part in ("prompt", "context", "users", "answers", "target"):
        if getattr(now, part) != getattr(then, part):
            raise _changed(problem, part)
    if replace(then, settings=now.settings) != now or then.settings.labels != now.settings.labels:
        raise _changed(problem, "label map")
    asyncio.run(_compare(problem, dialogue))


async def _compare(problem: Problem, dialogue: Dialogue) -> None:
    oracle = ProblemOracle(problem, _Nobody())
    for step in steps(dialogue):
        what = NAMES.get(type(step.need)) if step.need is not None else None
        if what is None or step.need is None:
            continue
        try:
            reply = await oracle.fulfil(step.need)
        except BalarError as error:
            raise _changed(problem, what, str(error)) from None
        if reply != step.reply:
            raise _changed(problem, what)


class _Nobody:
    """The user of a comparison, in which nobody is asked."""

    async def fulfil(self, need: Need) -> Reply:
        raise BalarError(f"Nobody is there to answer {need.kind!r}.")


def _changed(problem: Problem, what: str, detail: str = "") -> ChangedProblem:
    return ChangedProblem(
        f"The problem {problem.name!r} has changed since the dialogue was saved: its {what} "
        f"differ{'' if what.endswith('s') else 's'}. {detail} Restore the problem, or begin a new "
        "dialogue.".replace("  ", " ")
    )
