"""Questions, and what becomes of a question that has been asked in other words.

A question and its rewordings are one redundancy group, and the group is represented by the question
that was there first. A rewording is not added as a question of its own: its answer would otherwise
count as fresh evidence although it can tell nothing new. Three things make a proposal a rewording:
it has the words of another question up to case, marks and punctuation; the model says so when it
proposes it; or it has the choices of another question, and the model, asked about the two, finds
that they ask for the same.
"""

import logging
import unicodedata
from collections.abc import Sequence

from pydantic import BaseModel, Field

from balar_core.dialogue import ProposedQuestions, ProposeQuestions
from balar_core.errors import InvalidInput, InvalidQuestion
from balar_core.questions import Question
from balar_core.text import canonical

from . import material
from .asker import Asker, Task
from .prompts import instruction
from .schemas import Words, schema_of
from .sheet import Sheet, fill

__all__ = ["propose_questions"]

LOG = logging.getLogger(__name__)
SAME, DIFFERENT = "same", "different"


class QuestionReply(BaseModel):
    """One question, as a model gives it."""

    reason: str = Field("", max_length=300)
    target: str | None = None
    question: Words
    choices: list[Words] = Field(min_length=2)


class QuestionAnewReply(QuestionReply):
    """A question beside those that there are already."""

    rewords: str | None = None


class QuestionsReply(BaseModel):
    """The first questions."""

    questions: list[QuestionReply] = Field(min_length=1)


class QuestionsAnewReply(BaseModel):
    """More questions; there may be none left."""

    questions: list[QuestionAnewReply]


async def propose_questions(asker: Asker, need: ProposeQuestions) -> ProposedQuestions:
    """Ask for questions, and leave out those that reword others.

    Raises:
        UnusableReply: no reply holds questions that can be used.
        ModelError: the model gave no reply.
    """
    fresh = await asker.ask(_task(asker, need), lambda data: _fresh(need, data))
    return ProposedQuestions(await _without_rewordings(asker, need, fresh))


def _task(asker: Asker, need: ProposeQuestions) -> Task:
    names = ("questions", "questions_anew") if need.existing else ("questions",)
    limits = {"max_questions": need.max_questions, "max_choices": need.max_choices}
    unknowns = material.unknowns(need.dimensions)
    id_of = {entry["name"]: id for id, entry in unknowns.items()}
    existing = _existing(need)
    return Task(
        "questions",
        instruction(asker.preset, *names, **limits),
        {
            "request": need.prompt,
            "context": need.context,
            "people": material.people(need.users),
            "unknowns": unknowns,
            "aim_at": [id_of[name] for name in need.targets],
            "existing": existing,
            "conversation": material.conversation(need.conversation),
        },
        schema_of(
            QuestionsAnewReply if existing else QuestionsReply,
            most={"questions": need.max_questions, "choices": need.max_choices},
            one_of={"target": list(unknowns), "rewords": list(existing)},
        ),
    )


def _existing(need: ProposeQuestions) -> dict[str, str]:
    return material.ids("question", (question.text for question in need.existing))


def _fresh(need: ProposeQuestions, data: object) -> list[Question]:
    """The questions in a reply, without those that reword others by their words or by its own."""
    existing = _existing(need)
    reply = QuestionsAnewReply if existing else QuestionsReply
    given = reply.model_validate(data).questions
    if len(given) > need.max_questions:
        raise InvalidQuestion(
            f"There are {len(given)} questions; at most {need.max_questions} are wanted."
        )
    fresh: list[Question] = []
    for entry in given:
        question = _question(entry, need.max_choices)
        others = (*need.existing, *fresh)
        twin = _said_to_reword(entry, existing) or _same_words(question, others)
        if twin is None:
            fresh.append(question)
        else:
            _left_out(question, twin)
    return fresh


def _question(entry: QuestionReply, most: int) -> Question:
    if len(entry.choices) > most:
        raise InvalidQuestion(
            f"{entry.question!r} has {len(entry.choices)} choices; at most {most} are wanted."
        )
    return Question(entry.question.strip(), tuple(choice.strip() for choice in entry.choices))


def _said_to_reword(entry: QuestionReply, existing: dict[str, str]) -> str | None:
    """The existing question that the model itself says it rewords."""
    named = getattr(entry, "rewords", None)
    if named is None:
        return None
    if named not in existing:
        raise InvalidInput(
            f"rewords is {named!r}; it is null or one of {', '.join(existing) or 'no ids'}."
        )
    return existing[named]


def _same_words(question: Question, others: Sequence[Question]) -> str | None:
    """A question with the same words."""
    words = _words(question.text)
    return next((other.text for other in others if _words(other.text) == words), None)


def _words(text: str) -> str:
    letters = (" " if unicodedata.category(c)[0] == "P" else c for c in canonical(text))
    return " ".join("".join(letters).split()) or canonical(text)


async def _without_rewordings(
    asker: Asker, need: ProposeQuestions, fresh: Sequence[Question]
) -> tuple[Question, ...]:
    """The questions that the model does not take for rewordings of one with the same choices."""
    pairs = [
        (question, other)
        for question in fresh
        for other in need.existing
        if _choices(question) == _choices(other)
    ]
    if not pairs:
        return tuple(fresh)
    data = {
        "pairs": {
            f"pair_{number}": {"question": question.text, "other": other.text}
            for number, (question, other) in enumerate(pairs)
        },
        "unknowns": material.unknowns(need.dimensions),
    }
    cells = {
        f"pair_{n}": f"the questions {a.text!r} and {b.text!r}" for n, (a, b) in enumerate(pairs)
    }
    sheet = Sheet("rewording", data, cells, len(cells), (SAME, DIFFERENT))
    judged = await fill(asker, sheet)
    twins: dict[Question, Question] = {}
    for (question, other), label in zip(pairs, judged.values(), strict=True):
        if label == SAME:
            twins.setdefault(question, other)
    for question, other in twins.items():
        _left_out(question, other.text)
    return tuple(question for question in fresh if question not in twins)


def _choices(question: Question) -> frozenset[str]:
    return frozenset(map(canonical, question.choices))


def _left_out(question: Question, twin: str) -> None:
    LOG.info("%r asks for the same as %r and is left out", question.text, twin)
