"""Time as the client of a server sees it, so that tests can bring their own."""

import asyncio
import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Tells the time and lets it pass."""

    def date(self) -> float:
        """Seconds since 1970 (UTC)."""
        ...

    def now(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class SystemClock:
    """The time of this computer."""

    def date(self) -> float:
        """Seconds since 1970 (UTC)."""
        return time.time()

    def now(self) -> float:
        """Seconds since some moment; never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await asyncio.sleep(seconds)
