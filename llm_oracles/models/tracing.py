"""What calls a model got, how they went, and what they have cost."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from .clock import Clock, SystemClock
from .errors import ModelError
from .model import Model
from .values import Completion, Request, Usage

__all__ = ["Event", "Trace", "TracingModel"]


@dataclass(frozen=True)
class Event:
    """One call. It holds no text of the request or the reply.

    Attributes:
        purpose: what it was for.
        outcome: `"ok"`, `"cancelled"`, or the name of the error.
        seconds: how long it took.
        usage: what it has cost; for a cancelled call that is not known.
        model: the model, as the server calls it.
        formats: the ways in which the schema was asked for, in order.
        finish_reason: why the reply ended, as the server calls it.
    """

    purpose: str
    outcome: str
    seconds: float
    usage: Usage
    model: str = ""
    formats: tuple[str, ...] = ()
    finish_reason: str | None = None


class TracingModel:
    """A model that reports each call when it ends.

    Args:
        model: the model.
        report: is handed one event for each call.
        clock: the time.
    """

    def __init__(
        self, model: Model, report: Callable[[Event], None], clock: Clock | None = None
    ) -> None:
        self._model = model
        self._report = report
        self._clock = clock or SystemClock()

    async def complete(self, request: Request) -> Completion:
        """The model's reply.

        Raises:
            ModelError: the model raised it.
        """
        begun = self._clock.now()

        def event(outcome: str, usage: Usage) -> Event:
            return Event(request.purpose, outcome, self._clock.now() - begun, usage)

        try:
            completion = await self._model.complete(request)
        except ModelError as error:
            self._report(event(type(error).__name__, error.usage))
            raise
        except asyncio.CancelledError:
            self._report(event("cancelled", Usage(calls=1, cost=None)))
            raise
        self._report(
            Event(
                request.purpose,
                "ok",
                self._clock.now() - begun,
                completion.usage,
                completion.model,
                completion.formats,
                completion.finish_reason,
            )
        )
        return completion


@dataclass
class Trace:
    """Events, and what they come to.

    Attributes:
        events: in the order in which the calls ended.

    >>> trace = Trace()
    >>> trace.add(Event("priors", "ok", 0.25, Usage(100, 20, 1, 1, cost=0.5)))
    >>> trace.add(Event("priors", "RateLimited", 1.0, Usage(calls=1, attempts=4)))
    >>> print(trace.table())
    purpose  calls  failed  attempts  tokens read  written  seconds    cost
    priors       2       1         5          100       20      1.2  0.5000
    total        2       1         5          100       20      1.2  0.5000
    """

    events: list[Event] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Add an event; a function for `TracingModel` to report to."""
        self.events.append(event)

    @property
    def usage(self) -> Usage:
        """What all calls have cost together."""
        return sum((event.usage for event in self.events), Usage())

    def table(self) -> str:
        """Usage and cost by purpose; `+` marks a cost to which something unknown comes."""
        purposes = list(dict.fromkeys(event.purpose for event in self.events))
        groups = [
            (purpose or "-", [event for event in self.events if event.purpose == purpose])
            for purpose in purposes
        ]
        rows = [HEAD, *(_row(name, events) for name, events in [*groups, ("total", self.events)])]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        return "\n".join(_aligned(row, widths) for row in rows)


HEAD = ("purpose", "calls", "failed", "attempts", "tokens read", "written", "seconds", "cost")


def _row(name: str, events: list[Event]) -> tuple[str, ...]:
    usage = sum((event.usage for event in events), Usage())
    known = sum(event.usage.cost or 0.0 for event in events)
    return (
        name,
        str(len(events)),
        str(sum(event.outcome != "ok" for event in events)),
        str(usage.attempts),
        str(usage.prompt_tokens),
        str(usage.completion_tokens),
        f"{sum(event.seconds for event in events):.1f}",
        f"{known:.4f}{'+' if usage.cost is None else ''}",
    )


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    first, *numbers = (
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join([first, *numbers])
