"""A clock on which waiting takes no time."""

import asyncio


class FakeClock:
    """Time that passes when somebody sleeps.

    Attributes:
        slept: the sleeps so far (seconds).
    """

    def __init__(self, date: float = 1_800_000_000.0) -> None:
        self.slept: list[float] = []
        self._date = date
        self._now = 0.0

    def date(self) -> float:
        return self._date + self._now

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        until = self._now + seconds
        await asyncio.sleep(0)
        self._now = max(self._now, until)
