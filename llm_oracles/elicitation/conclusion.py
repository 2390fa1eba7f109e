"""The final answer (BALAR, section 11)."""

from pydantic import BaseModel

from balar_core.dialogue import Conclude, Concluded
from balar_core.errors import InvalidInput

from . import material
from .asker import Asker, Task
from .prompts import instruction
from .schemas import schema_of

__all__ = ["conclude"]


class ConclusionReply(BaseModel):
    """Words for whoever made the request."""

    text: str


class AnswerReply(ConclusionReply):
    """One of the possible answers, and words."""

    answer: str


async def conclude(asker: Asker, need: Conclude) -> Concluded:
    """Ask for the final answer; with a closed answer set it is one of its ids.

    Probabilities are told in whole per cent, so that the last digits of a computation do not make
    it another request.

    Raises:
        UnusableReply: no reply holds an answer that can be used.
        ModelError: the model gave no reply.
    """
    answers = material.ids("answer", (answer for answer, _ in need.answers or ()))
    names = ("conclusion", "conclusion_among") if answers else ("conclusion",)
    data = {
        "request": need.prompt,
        "context": need.context,
        "conversation": material.conversation(need.conversation),
        "most_likely": dict(need.state),
        "probability": f"{need.probability:.0%}",
        "answers": {
            id: {"answer": answer, "probability": f"{probability:.0%}"}
            for id, (answer, probability) in zip(answers, need.answers or (), strict=True)
        },
        "ended_because": need.reason.replace("_", " "),
    }
    reply = AnswerReply if answers else ConclusionReply
    schema = schema_of(reply, one_of={"answer": list(answers)})
    task = Task("conclusion", instruction(asker.preset, *names), data, schema)

    def read(given: object) -> Concluded:
        if not answers:
            return Concluded(None, ConclusionReply.model_validate(given).text)
        found = AnswerReply.model_validate(given)
        if found.answer not in answers:
            raise InvalidInput(f"answer is {found.answer!r}; it is one of {', '.join(answers)}.")
        return Concluded(answers[found.answer], found.text)

    return await asker.ask(task, read)
