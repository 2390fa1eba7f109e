"""Stopping work with a model without losing what is paid for.

    interruption = Interruption(concurrency=16)
    model = interruption.guard(model)               # calls that may be under way
    oracle = interruption.guard_oracle(oracle)      # whoever makes them
    ...
    interruption.stop()                             # from a signal handler, for example

After `stop` no call begins any more. Those under way come to their end, so that a cache or a
recording below keeps them; then `Interrupted` is raised.
"""

import asyncio
from functools import partial

from balar_core.dialogue import Need, Reply
from balar_core.errors import BalarError, InvalidSetting

from .models import Completion, Model, Request
from .models.per_loop import PerLoop
from .oracle import Oracle

__all__ = ["Interrupted", "Interruption"]


class Interrupted(BalarError):
    """The work was stopped from outside."""

    def __init__(self) -> None:
        super().__init__("The work was interrupted.")


class Interruption:
    """Whether to stop, and the calls that are under way.

    Args:
        concurrency: how many calls may be under way at once; the rest wait, and are never made if
            the work is stopped meanwhile. Not more than the limit of the server, or calls that
            only wait there count as under way.

    Raises:
        InvalidSetting: the number is less than 1.
    """

    def __init__(self, concurrency: int) -> None:
        if concurrency < 1:
            raise InvalidSetting(f"concurrency is {concurrency}; it is 1 or more.")
        self._slots = PerLoop(lambda: asyncio.Semaphore(concurrency))
        self._stopped = False
        self._calls: set[asyncio.Task[Completion]] = set()

    @property
    def under_way(self) -> int:
        """How many calls are under way."""
        return len(self._calls)

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def stop(self) -> None:
        """Begin no more calls."""
        self._stopped = True

    def guard(self, model: Model) -> Model:
        """The model, as long as nobody stops it."""
        return _GuardedModel(model, self)

    def guard_oracle(self, oracle: Oracle) -> Oracle:
        """The oracle, which waits for the calls under way before it gives up."""
        return _GuardedOracle(oracle, self)

    def check(self) -> None:
        """Raise if the work was stopped.

        Raises:
            Interrupted: it was.
        """
        if self._stopped:
            raise Interrupted

    async def call(self, model: Model, request: Request) -> Completion:
        """A call that outlives the cancellation of whoever waits for it."""
        slots = self._slots.get()
        await slots.acquire()
        try:
            self.check()
        except Interrupted:
            slots.release()
            raise
        task = asyncio.ensure_future(model.complete(request))
        self._calls.add(task)
        task.add_done_callback(partial(self._ended, slots))
        return await asyncio.shield(task)

    def _ended(self, slots: asyncio.Semaphore, task: asyncio.Task[Completion]) -> None:
        slots.release()
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # it has been seen, even if nobody waits any more

    async def settle(self) -> None:
        """Wait for the calls that are under way."""
        if self._calls:
            await asyncio.wait(set(self._calls))


class _GuardedModel:
    def __init__(self, model: Model, interruption: Interruption) -> None:
        self._model = model
        self._interruption = interruption

    async def complete(self, request: Request) -> Completion:
        return await self._interruption.call(self._model, request)


class _GuardedOracle:
    def __init__(self, oracle: Oracle, interruption: Interruption) -> None:
        self._oracle = oracle
        self._interruption = interruption

    async def fulfil(self, need: Need) -> Reply:
        self._interruption.check()
        try:
            return await self._oracle.fulfil(need)
        finally:
            if self._interruption.stopped:
                await self._interruption.settle()
