"""Asks a model for one piece of judgement, and again if the reply cannot be used."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from balar_core.errors import BalarError, InvalidInput, InvalidSetting

from ..mistakes import in_words
from ..models import Completion, Malformed, Message, Model, ModelError, Request, Usage
from .presets import Preset

__all__ = ["Asker", "OnProgress", "Progress", "Sampling", "Task", "UnusableReply"]

T = TypeVar("T")

MOST_COMPLAINT = 600
"""Characters of a complaint that the model is shown."""


class UnusableReply(BalarError):
    """The model's replies could not be used, however often it was asked again."""


@dataclass(frozen=True)
class Sampling:
    """How replies are drawn.

    Attributes:
        temperature: 0 for the likeliest reply.
        seed: for servers that sample reproducibly.
        max_tokens: the longest reply. A reply that needs more is an error, not a shorter table.
    """

    temperature: float | None = 0.0
    seed: int | None = None
    max_tokens: int | None = 4096


@dataclass(frozen=True)
class Task:
    """One piece of judgement that is wanted.

    Attributes:
        purpose: a name for it, such as `"likelihoods"`.
        instruction: what to do.
        data: what it is about, as JSON-able data.
        schema: the JSON schema of the reply.
    """

    purpose: str
    instruction: str
    data: Mapping[str, Any]
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Progress:
    """How far the calls are.

    Attributes:
        begun: calls that are under way or done.
        done: calls that are done.
        usage: what they have cost so far.
    """

    begun: int = 0
    done: int = 0
    usage: Usage = field(default_factory=Usage)


OnProgress = Callable[[Progress], None]
"""Called whenever a call begins or ends."""


class Asker:
    """Sends tasks to a model.

    Args:
        model: the model.
        preset: the kind of problem, or its name.
        sampling: how replies are drawn.
        repairs: how often to ask again for what is missing or cannot be used.
        on_progress: called whenever a call begins or ends.

    Attributes:
        progress: how far the calls are.

    Raises:
        UnknownPreset: there is no preset of this name.
        InvalidSetting: a negative number of repairs.
    """

    def __init__(
        self,
        model: Model,
        *,
        preset: Preset | str = "general",
        sampling: Sampling | None = None,
        repairs: int = 2,
        on_progress: OnProgress | None = None,
    ) -> None:
        if repairs < 0:
            raise InvalidSetting(f"repairs is {repairs}; it is 0 or more.")
        self.preset = Preset.named(preset) if isinstance(preset, str) else preset
        self.repairs = repairs
        self.progress = Progress()
        self._model = model
        self._sampling = sampling or Sampling()
        self._on_progress = on_progress

    async def ask(self, task: Task, read: Callable[[Any], T]) -> T:
        """What `read` makes of the reply to a task.

        Args:
            task: the task.
            read: makes a value of the JSON data in the reply; raises `InvalidInput` or pydantic's
                `ValidationError` for data that cannot be used.

        Raises:
            UnusableReply: no reply could be used.
            ModelError: the model gave none.
        """
        complaint = trouble = ""
        for _ in range(1 + self.repairs):
            try:
                reply = await self.complete(task, complaint)
            except Malformed as error:
                complaint, trouble = complaint_about(error), trouble_with(error)
                continue
            try:
                return read(reply.data)
            except (ValidationError, InvalidInput) as error:
                complaint, trouble = complaint_about(error), trouble_with(error)
        raise UnusableReply(
            f"The model was asked {1 + self.repairs} times for {task.purpose}, and no reply could "
            f"be used. The last trouble: {trouble} Use a more capable model, or allow more "
            "repairs."
        )

    async def complete(self, task: Task, complaint: str = "") -> Completion:
        """The reply to a task, as it came.

        Args:
            task: the task.
            complaint: what was wrong with the reply before, if this is not the first time.

        Raises:
            ModelError: there is none.
        """
        data = json.dumps(task.data, ensure_ascii=False, indent=1)
        if complaint:
            data += f"\n\nYour last reply could not be used: {complaint[:MOST_COMPLAINT]}"
        request = Request(
            (Message("system", task.instruction), Message("user", data)),
            schema=task.schema,
            schema_name=task.purpose,
            purpose=task.purpose,
            temperature=self._sampling.temperature,
            seed=self._sampling.seed,
            max_tokens=self._sampling.max_tokens,
        )
        self._move(begun=self.progress.begun + 1)
        try:
            completion = await self._model.complete(request)
        except ModelError as error:
            self._ended(error.usage)
            raise
        self._ended(completion.usage)
        return completion

    def _ended(self, usage: Usage) -> None:
        self._move(done=self.progress.done + 1, usage=self.progress.usage + usage)

    def _move(self, **changes: Any) -> None:
        self.progress = replace(self.progress, **changes)
        if self._on_progress is not None:
            self._on_progress(self.progress)


def complaint_about(error: Exception) -> str:
    """What the model is told of a reply that cannot be used; for JSON that is none, not the reply.

    >>> complaint_about(Malformed("The reply is odd. It begins: 'Well, ...'", fault="it is odd"))
    'it is odd.'
    """
    return f"{error.fault}." if isinstance(error, Malformed) else trouble_with(error)


def trouble_with(error: Exception) -> str:
    """What people are told of a reply that cannot be used."""
    return in_words(error) if isinstance(error, ValidationError) else str(error)
