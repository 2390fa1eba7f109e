"""Models as a whole program uses them: cached, recorded, within a budget, traced, interruptible."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from .interruption import Interruption
from .models import (
    Budget,
    BudgetModel,
    CachingModel,
    ChatModel,
    Completion,
    Model,
    RecordingModel,
    ReplayingModel,
    Request,
    Trace,
    TracingModel,
    canonical_json,
)

__all__ = ["ByPurpose", "ModelStack"]


class ByPurpose:
    """Sends every request to the model for its purpose.

    Args:
        models: purpose -> model; `""` for all purposes that have none of their own.
    """

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = dict(models)

    async def complete(self, request: Request) -> Completion:
        """The reply of the model for the request's purpose."""
        model = self._models.get(request.purpose) or self._models[""]
        return await model.complete(request)


class ModelStack:
    """Models under everything that a program wants to be round them.

    From the inside out: tracing and the budget see only calls that are really made; the cache
    keeps their replies; the recording sees all replies, those from the cache too; and nothing of
    this is cut off when somebody interrupts the program.

    Args:
        interruption: stops the calls.
        budget: what may be spent.
        cache: the file that keeps replies; None for no cache.
        record: the cassette to write; None to write none.

    Attributes:
        model: the outermost model.
        trace: the calls that were made.
    """

    def __init__(
        self,
        models: "Mapping[str, ChatModel] | ReplayingModel",
        interruption: Interruption,
        *,
        budget: Budget | None = None,
        cache: Path | None = None,
        record: Path | None = None,
    ) -> None:
        self.trace = Trace()
        self._cache: CachingModel | None = None
        inner: Model = models if isinstance(models, ReplayingModel) else ByPurpose(models)
        inner = BudgetModel(TracingModel(inner, self.trace.add), budget or Budget())
        if cache is not None and not isinstance(models, ReplayingModel):
            who = canonical_json({purpose: model.identity for purpose, model in models.items()})
            inner = self._cache = CachingModel(inner, cache, identity=who)
        if record is not None:
            inner = RecordingModel(inner, record)
        self.model = interruption.guard(inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._cache is not None:
            self._cache.close()
