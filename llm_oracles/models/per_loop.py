"""Things that belong to one event loop each: connections, locks."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["PerLoop"]

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One thing for each event loop, made when it is first wanted there.

    A program may call `asyncio.run` more than once with the same model; what the first loop used
    is of no use to the second.

    Args:
        make: makes the thing.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._things: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T:
        """The thing of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._things:
            self._things = {old: t for old, t in self._things.items() if not old.is_closed()}
            self._things[loop] = self._make()
        return self._things[loop]

    def pop(self) -> T | None:
        """Forget the thing of the running loop and return it, if there is one."""
        return self._things.pop(asyncio.get_running_loop(), None)
