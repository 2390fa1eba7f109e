"""A dialogue with a person: shows, asks, explains, goes back, saves and concludes."""

import enum
import shlex
from pathlib import Path

from balar_core.dialogue import (
    Answered,
    Ask,
    Concluded,
    Dialogue,
    Need,
    ProposedExpansion,
    Reply,
    ScoredAnswer,
    Stopped,
)
from balar_core.errors import BalarError, ImpossibleEvidence

from .human import Command, EndOfAnswers, HumanOracle, Source
from .oracle import run
from .problem import Problem
from .problem_oracle import ProblemOracle
from .render import View, percent
from .store import free_path, write_dialogue

__all__ = ["Ending", "Session"]


class Ending(enum.Enum):
    """How a session ended."""

    FINISHED = "the dialogue is concluded"
    QUIT = "the person left; the dialogue is saved"


class _Elsewhere(Exception):
    """The dialogue has moved under the question that is being asked."""


class _Quit(Exception):
    """The person wants to leave."""


class Session:
    """A dialogue about a problem, with a person or with answers written beforehand.

    Args:
        problem: answers everything but the questions.
        dialogue: where to begin; `session.dialogue` is where it has got to.
        source: where answers come from.
        view: where everything is shown.
        save: the file the dialogue is kept in, from the start and after every answer.
        show_belief: whether to draw what each answer changed.
    """

    def __init__(
        self,
        problem: Problem,
        dialogue: Dialogue,
        source: Source,
        view: View,
        *,
        save: Path | None = None,
        show_belief: bool = True,
    ) -> None:
        self.dialogue = dialogue
        self.save = save
        self._problem = problem
        self._source = source
        self._view = view
        self._show_belief = show_belief
        self._user_names = len(dialogue.setup.users) > 1

    def run(self) -> Ending:
        """Hold the dialogue until it is concluded or the person leaves.

        Raises:
            EndOfAnswers: the written answers end too early.
            KeyboardInterrupt: at Ctrl-C. Whatever ends it, what was said until then is in `save`.
            BalarError: a written answer cannot be used, or an oracle or a file failed.
        """
        self._keep()
        self._greet()
        person = HumanOracle(
            self._source, self._view, commands=self._commands(), introduce=self._introduce
        )
        oracle = ProblemOracle(self._problem, person)
        while not self.dialogue.finished:
            try:
                run(self.dialogue, oracle, on_reply=self._told)
            except _Elsewhere:
                continue
            except _Quit:
                return self._leave()
            except EndOfAnswers:
                if not self._source.patient:
                    raise
                self._view.line()
                return self._leave()
            except ImpossibleEvidence as error:
                if not self._source.patient:
                    raise
                self._view.line(f"{error} Answer differently, or go back.", "yellow")
        self._conclude()
        return Ending.FINISHED

    # --- between the questions -------------------------------------------------------------------

    def _greet(self) -> None:
        setup = self.dialogue.setup
        self._view.problem(setup.prompt, setup.context, self._problem.notes)
        if self._source.patient and not self.dialogue.finished:
            self._view.line('Answer with a number; ? if you do not know; "help" for more.', "dim")

    def _introduce(self, need: Ask) -> None:
        explanation = self.dialogue.explain(about=False)
        asked, left = len(self.dialogue.asked), explanation.questions_left
        if not self._problem.expansions:
            left = min(left, sum(c.state != "asked" for c in explanation.candidates))
        self._view.progress(
            asked + 1,
            asked + left,
            need.user.name if self._user_names else None,
            explanation.entropy,
            explanation.target_entropy,
        )

    def _told(self, dialogue: Dialogue, need: Need, reply: Reply) -> None:
        """Take the next step of the dialogue, keep it, and show what it changed."""
        before, self.dialogue = self.dialogue, dialogue
        if isinstance(reply, Answered):
            self._keep()
        if not self._show_belief:
            return
        if (
            isinstance(reply, Answered | ScoredAnswer)
            and dialogue.conversation != before.conversation
        ):
            self._show_change(before, dialogue)
        if isinstance(reply, ProposedExpansion) and reply.dimension is not None:
            new = reply.dimension
            self._view.line()
            self._view.line(f"I needed a new distinction: {new.name} ({', '.join(new.values)}).")

    def _show_change(self, before: Dialogue, after: Dialogue) -> None:
        """Draw what the last answer changed, and name the questions that it made needless."""
        if before.map_state() == after.map_state() and before.entropy == after.entropy:
            return
        self._view.beliefs(after.marginals(), before.marginals())
        answers = after.answer_posterior()
        if answers is not None and after.setup.target is None:
            best = max(answers, key=answers.__getitem__)
            self._view.line(f"best answer so far: {best} ({percent(answers[best])})", "dim")
        settled = _settled(after) - _settled(before)
        if settled and after.outcome is None:
            self._view.line(f"needless now: {' / '.join(sorted(settled))}", "dim")

    def _keep(self) -> None:
        if self.save is not None:
            write_dialogue(self.dialogue, self.save)

    def _conclude(self) -> None:
        self._keep()
        dialogue = self.dialogue
        state, probability = dialogue.map_state()
        concluded = dialogue.conclusion or Concluded()
        asked, total = len(dialogue.asked), len(dialogue.explain(about=False).candidates)
        self._view.conclusion(
            state=state,
            probability=probability,
            answers=dialogue.answer_posterior(),
            outcome=dialogue.outcome,
            asked=asked,
            total=total,
            answer=concluded.answer,
            text=concluded.text,
        )

    def _leave(self) -> Ending:
        if self.save is None:
            self.save = free_path(self._problem.name, Path())
        self._keep()
        self._view.line(f"Saved. Go on with: {self.resume_command}")
        return Ending.QUIT

    @property
    def resume_command(self) -> str:
        """What to type to go on with the saved dialogue."""
        return f"balar run --resume {shlex.quote(str(self.save))}"

    # --- the commands ----------------------------------------------------------------------------

    def _commands(self) -> dict[str, Command]:
        return {
            "why": Command("what this question is expected to tell", self._why),
            "belief": Command("how likely everything is now", self._belief),
            "questions": Command("all questions and what each would tell", self._questions),
            "back": Command("take back the last answer", self._back),
            "stop": Command("no more questions: conclude with what is known", self._stop),
            "quit": Command("save, and leave", self._quit),
        }

    def _why(self) -> None:
        need = self.dialogue.need
        assert isinstance(need, Ask)
        self._view.why(need, self.dialogue.explain())

    def _belief(self) -> None:
        self._view.beliefs(self.dialogue.marginals())
        answers = self.dialogue.answer_posterior()
        if answers is not None and self.dialogue.setup.target is None:
            self._view.bars("Answers", answers)

    def _questions(self) -> None:
        self._view.ranking(self.dialogue.explain(about=False), users=self._user_names)

    def _back(self) -> None:
        try:
            self.dialogue = self.dialogue.back()
        except BalarError as error:
            self._view.line(str(error), "yellow")
            return
        self._keep()
        raise _Elsewhere

    def _stop(self) -> None:
        self.dialogue = self.dialogue.tell(Stopped())
        raise _Elsewhere

    def _quit(self) -> None:
        raise _Quit


def _settled(dialogue: Dialogue) -> set[str]:
    """The questions that would tell next to nothing."""
    return {
        c.question.text for c in dialogue.explain(about=False).candidates if c.state == "settled"
    }
