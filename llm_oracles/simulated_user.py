"""SimulatedUser: a model that knows what a user knows, and answers in the user's place."""

from pydantic import BaseModel, Field

from balar_core.dialogue import Answered, Ask, Need, Reply
from balar_core.errors import BalarError, InvalidInput
from balar_core.text import check_text

from .elicitation import (
    Asker,
    OnProgress,
    Preset,
    Progress,
    Sampling,
    Task,
    instruction,
    material,
    schema_of,
)
from .models import Model

__all__ = ["SimulatedUser"]

MOST_REPLY = 1000
"""Characters of a reply."""


class UserReply(BaseModel):
    """What the user says."""

    reply: str = Field(max_length=MOST_REPLY)


class SimulatedUser:
    """Plays a user: answers questions in free text, from what only that user knows.

    Give one to `LLMOracle(users={name: SimulatedUser(...), ...})` for every user. What is private
    goes to this model only; the dialogue never sees it, but for what the replies tell.

    Args:
        model: who plays.
        private: what only the user knows.
        preset: the kind of problem, or its name.
        sampling: how replies are drawn.
        repairs: how often to ask again if the reply cannot be used.
        on_progress: called whenever a call begins or ends.
    """

    def __init__(
        self,
        model: Model,
        private: str,
        *,
        preset: Preset | str = "general",
        sampling: Sampling | None = None,
        repairs: int = 2,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._private = private
        self._asker = Asker(
            model,
            preset=preset,
            sampling=sampling,
            repairs=repairs,
            on_progress=on_progress,
        )

    @property
    def progress(self) -> Progress:
        """How far the calls are."""
        return self._asker.progress

    async def fulfil(self, need: Need) -> Reply:
        """The user's reply to a question.

        Raises:
            UnusableReply: no reply could be used, repairs included.
            ModelError: the model gave none.
            BalarError: the need is no question.
        """
        if not isinstance(need, Ask):
            raise BalarError(
                f"A simulated user answers questions; this need is {need.kind!r}. Give the user "
                "to LLMOracle(users=...), which answers everything else."
            )
        task = Task(
            "user",
            instruction(self._asker.preset, "user"),
            {
                "person": material.person(need.user),
                "private": self._private,
                "question": need.question.text,
                "choices": list(need.question.choices),
            },
            schema_of(UserReply),
        )
        return Answered(reply=await self._asker.ask(task, _reply))


def _reply(data: object) -> str:
    reply = UserReply.model_validate(data).reply.strip()
    return check_text(reply, "the reply", error=InvalidInput)
