"""Not too many calls at once, nor in a minute."""

import math
from asyncio import Semaphore
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from balar_core.errors import InvalidSetting

from .clock import Clock
from .per_loop import PerLoop

__all__ = ["Entry", "Limiter", "Limits", "Window"]


@dataclass(frozen=True)
class Limits:
    """What a server bears.

    Attributes:
        concurrency: how many requests may be under way at once.
        requests_per_minute: how many may begin within any minute; None for no limit.
        tokens_per_minute: how many tokens they may read and write; None for no limit. A request
            is counted by its length at first, and by what the server tells afterwards.

    Raises:
        InvalidSetting: a limit is less than 1.
    """

    concurrency: int = 8
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        for name in ("concurrency", "requests_per_minute", "tokens_per_minute"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise InvalidSetting(f"{name} is {limit}; it is 1 or more.")


@dataclass(eq=False)
class Entry:
    """An amount that is taken out of a window.

    Attributes:
        at: when it begins to count (seconds).
        amount: how much. It may be corrected later.
    """

    at: float
    amount: int


class Window:
    """At most so much within any span of so many seconds; first come, first served.

    Args:
        limit: how much; None for any amount.
        seconds: the length of the span.

    >>> window = Window(2, 60)
    >>> [window.reserve(1, now).at for now in (0, 10, 20, 30)]
    [0, 10, 60, 70]
    """

    def __init__(self, limit: int | None, seconds: float = 60) -> None:
        self._limit = limit
        self._seconds = seconds
        self._entries: deque[Entry] = deque()  # in the order of their moments

    def reserve(self, amount: int, now: float) -> Entry:
        """Take an amount at the first moment at which there is room for it.

        More than the limit is counted as the limit; it would never have room otherwise.
        """
        if self._limit is None:
            return Entry(now, amount)
        while self._entries and self._entries[0].at + self._seconds <= now:
            self._entries.popleft()
        amount = min(amount, self._limit)
        at = max(now, self._entries[-1].at) if self._entries else now
        total = sum(entry.amount for entry in self._entries)
        for entry in self._entries:
            if entry.at + self._seconds > at and total + amount <= self._limit:
                break
            total -= entry.amount
            at = max(at, entry.at + self._seconds)
        entry = Entry(at, amount)
        self._entries.append(entry)
        return entry

    def give_back(self, entry: Entry) -> None:
        """Undo a reservation, as if it had never been made."""
        if entry in self._entries:
            self._entries.remove(entry)


class Limiter:
    """Lets requests begin when the limits allow.

    Args:
        limits: the limits.
        clock: the time.
    """

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._clock = clock
        self._slots = PerLoop(lambda: Semaphore(limits.concurrency))
        self._requests = Window(limits.requests_per_minute)
        self._tokens = Window(limits.tokens_per_minute)
        self._closed_until = -math.inf

    def hold(self, seconds: float) -> None:
        """Let no request begin for so many seconds, because the server asked for it."""
        self._closed_until = max(self._closed_until, self._clock.now() + seconds)

    @asynccontextmanager
    async def slot(self, tokens: int) -> AsyncIterator[Entry]:
        """Wait until a request may begin; it is under way while the block runs.

        Args:
            tokens: about how many tokens it will read and write.

        Yields:
            the entry of the tokens; its amount is to be set to what they really were.
        """
        async with self._slots.get():
            one = self._requests.reserve(1, self._clock.now())
            estimate = self._tokens.reserve(tokens, self._clock.now())
            try:
                await self._wait_for(max(one.at, estimate.at))
            except BaseException:  # it never began: what it took is free again
                self._requests.give_back(one)
                self._tokens.give_back(estimate)
                raise
            yield estimate

    async def _wait_for(self, begin: float) -> None:
        while (wait := max(begin, self._closed_until) - self._clock.now()) > 0:
            await self._clock.sleep(wait)
