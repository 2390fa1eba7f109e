"""A dialogue with people: shows, asks, explains, goes back, saves and concludes."""

import enum
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from .oracle import Oracle, run
from .problem import Problem
from .problem_oracle import ProblemOracle
from .render import View, percent
from .store import free_path, write_dialogue

__all__ = ["Ending", "Matter", "Session"]


class Ending(enum.Enum):
    """How a session ended."""

    FINISHED = "the dialogue is concluded"
    QUIT = "the person left; the dialogue is saved"


class _Elsewhere(Exception):
    """The dialogue has moved under the question that is being asked."""


class _Quit(Exception):
    """The person wants to leave."""


@dataclass(frozen=True)
class Matter:
    """What a session is about, and who supplies what.

    Attributes:
        name: names the file of a dialogue that is saved.
        oracle: makes an oracle for the whole dialogue of one that answers its questions.
        notes: what its author wants to be known.
        more_questions: whether questions may come up that do not exist yet.
        others: users who answer by themselves, by name; the person answers for all the rest.
        free_text: whether the person may answer in words of their own.
        evidence: whether the conversation is summed up at the end.
        enough: errors after which the dialogue is concluded with what is known.
        command: the command that goes on with a saved dialogue.
    """

    name: str
    oracle: Callable[[Oracle], Oracle]
    notes: tuple[str, ...] = ()
    more_questions: bool = True
    others: Mapping[str, Oracle] = field(default_factory=dict)
    free_text: bool = False
    evidence: bool = False
    enough: tuple[type[Exception], ...] = ()
    command: str = "balar run"

    @classmethod
    def of_problem(cls, problem: Problem) -> "Matter":
        """A problem, which holds everything but the answers."""
        return cls(
            problem.name,
            lambda user: ProblemOracle(problem, user),
            notes=tuple(problem.notes),
            more_questions=bool(problem.expansions),
        )


class Session:
    """A dialogue with a person, with answers written beforehand, or with users who are models.

    Args:
        matter: what it is about, and who supplies everything but the person's answers.
        dialogue: where to begin; `session.dialogue` is where it has got to.
        source: where the person's answers come from.
        view: where everything is shown.
        save: the file the dialogue is kept in, from the start and after every reply.
        show_belief: whether to draw what each answer changed.
    """

    def __init__(
        self,
        matter: Matter,
        dialogue: Dialogue,
        source: Source,
        view: View,
        *,
        save: Path | None = None,
        show_belief: bool = True,
    ) -> None:
        self.dialogue = dialogue
        self.save = save
        self._matter = matter
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
        oracle = self._matter.oracle(self._users())
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
            except self._matter.enough as error:
                self._end_with_what_is_known(error)
        self._conclude()
        return Ending.FINISHED

    def _users(self) -> Oracle:
        """Whoever answers questions: the person, and those who answer by themselves."""
        person = HumanOracle(
            self._source,
            self._view,
            commands=self._commands(),
            introduce=self._introduce,
            free_text=self._matter.free_text,
        )
        return (
            _Users(person, self._matter.others, self._overhear) if self._matter.others else person
        )

    def _overhear(self, need: Ask, reply: Reply | None = None) -> None:
        """Show a question to somebody else, or what they reply to it."""
        if reply is None:
            self._introduce(need)
            self._view.question(need.question)
        elif isinstance(reply, Answered):
            self._view.line(f"{need.user.name}: {reply.reply}", "green")

    def _end_with_what_is_known(self, error: Exception) -> None:
        """Conclude without another call: the likeliest answer, and why there is no more."""
        if self.dialogue.belief is None:
            raise error
        if self.dialogue.outcome is None:
            self.dialogue = self.dialogue.tell(Stopped(str(error).rstrip(".")))
        answers = self.dialogue.answer_posterior()
        best = max(answers, key=answers.__getitem__) if answers else None
        self.dialogue = self.dialogue.tell(Concluded(best))

    # --- between the questions -------------------------------------------------------------------

    def _greet(self) -> None:
        setup = self.dialogue.setup
        self._view.problem(setup.prompt, setup.context, self._matter.notes)
        if self._source.patient and not self.dialogue.finished:
            how = (
                "with a number or in your own words" if self._matter.free_text else "with a number"
            )
            self._view.line(f'Answer {how}; ? if you do not know; "help" for more.', "dim")

    def _introduce(self, need: Ask) -> None:
        explanation = self.dialogue.explain(about=False)
        asked, left = len(self.dialogue.asked), explanation.questions_left
        if not self._matter.more_questions:
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
        if self._matter.evidence:
            self._view.beliefs(dialogue.marginals())
            self._view.evidence(dialogue.conversation)

    def _leave(self) -> Ending:
        if self.save is None:
            self.save = free_path(self._matter.name, Path())
        self._keep()
        self._view.line(f"Saved. Go on with: {self.resume_command}")
        return Ending.QUIT

    @property
    def resume_command(self) -> str:
        """What to type to go on with the saved dialogue."""
        return f"{self._matter.command} --resume {shlex.quote(str(self.save))}"

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


class _Users:
    """The person, and others who answer by themselves while the person listens."""

    def __init__(
        self,
        person: Oracle,
        others: Mapping[str, Oracle],
        overhear: Callable[..., None],
    ) -> None:
        self._person = person
        self._others = others
        self._overhear = overhear

    async def fulfil(self, need: Need) -> Reply:
        other = self._others.get(need.user.name) if isinstance(need, Ask) else None
        if other is None:
            return await self._person.fulfil(need)
        self._overhear(need)
        reply = await other.fulfil(need)
        self._overhear(need, reply)
        return reply


def _settled(dialogue: Dialogue) -> set[str]:
    """The questions that would tell next to nothing."""
    return {
        c.question.text for c in dialogue.explain(about=False).candidates if c.state == "settled"
    }
