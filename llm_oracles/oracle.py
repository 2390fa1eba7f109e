"""Whoever answers what a dialogue needs, and the loop that lets them.

    dialogue = run(Dialogue.start(setup), oracle)

An oracle is anything with one coroutine, `fulfil`. Oracles wrap one another: a `Recorder` round a
`ProblemOracle` that passes questions on to a `HumanOracle` is an oracle too.
"""

import asyncio
from asyncio import FIRST_COMPLETED
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from balar_core.dialogue import Dialogue, Need, ProposeQuestions, Reply, Stopped
from balar_core.errors import BalarError

__all__ = ["EventLoopRunning", "OnReply", "Oracle", "converse", "run"]

OnReply = Callable[[Dialogue, Need, Reply], None]
"""Called after each reply with the dialogue that has been told it, the need, and the reply."""


class Oracle(Protocol):
    """Answers the needs of a dialogue."""

    async def fulfil(self, need: Need) -> Reply:
        """The reply to a need; `Stopped` ends the questions."""
        ...


class EventLoopRunning(BalarError, RuntimeError):
    """`run` was called where an event loop is running already."""


async def converse(
    dialogue: Dialogue, oracle: Oracle, *, on_reply: OnReply | None = None
) -> Dialogue:
    """Let an oracle answer whatever a dialogue needs, until it is finished.

    A need is worked on from the moment it is known, also while older ones are still open: tables
    are filled as soon as there are questions, whether or not the priors have come. Replies are
    told in the order of `dialogue.needs` whichever arrives first, so that the same replies give
    the same dialogue. If an oracle fails, or the conversation is cancelled, the replies that did
    arrive are told (and handed to `on_reply`) before the error goes on, so that nothing has to be
    asked again.

    Args:
        dialogue: where to begin.
        oracle: who answers.
        on_reply: called after each reply, for example to save the dialogue.

    Returns:
        The finished dialogue.

    Raises:
        Exception: whatever the oracle raises, or a `BalarError` for a reply that does not fit.
    """
    work = _Work(dialogue, oracle, on_reply)
    try:
        while not work.dialogue.finished and not work.failures:
            work.begin()
            await work.something()
            work.tell()
        await work.everything()
    finally:
        work.end()
    if work.failures:
        for further in work.failures[1:]:
            work.failures[0].add_note(f"At the same time: {further}")
        raise work.failures[0]
    return work.dialogue


class _Work:
    """The work on the needs of a dialogue.

    Attributes:
        dialogue: the dialogue, told what has arrived.
        failures: what went wrong; nothing new is begun after the first.
    """

    def __init__(self, dialogue: Dialogue, oracle: Oracle, on_reply: OnReply | None) -> None:
        self.dialogue = dialogue
        self.failures: list[BaseException] = []
        self._oracle = oracle
        self._on_reply = on_reply
        self._tasks: dict[Need, asyncio.Task[Reply]] = {}

    def begin(self) -> None:
        """Begin to work on all needs that are known, and leave those that are needed no longer."""
        known = self._known()
        for need in self._tasks.keys() - known.keys():
            self._tasks.pop(need).cancel()
        # Questions first: the likelihood tables wait for them.
        for need in sorted(known, key=lambda need: not isinstance(need, ProposeQuestions)):
            if need not in self._tasks:
                self._tasks[need] = asyncio.ensure_future(self._oracle.fulfil(need))

    def _known(self) -> dict[Need, None]:
        """The needs of now, and those that replies bring up which overtook others."""
        ahead = self.dialogue
        known = dict.fromkeys(ahead.needs)
        for need, task in self._tasks.items():
            if need in ahead.needs and _succeeded(task) and not isinstance(task.result(), Stopped):
                with suppress(BalarError):  # it is told again in its turn, and raised then
                    ahead = ahead.tell(task.result())
                    known |= dict.fromkeys(ahead.needs)
        return known

    async def something(self) -> None:
        """Wait until something arrives; after a failure, until everything has."""
        open_tasks = [task for task in self._tasks.values() if not task.done()]
        done, _ = await asyncio.wait(open_tasks, return_when=FIRST_COMPLETED)
        if not all(map(_succeeded, done)):
            await self.everything()

    async def everything(self) -> None:
        """Wait until all that was begun has arrived."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    def tell(self, *, around_open: bool = False) -> None:
        """Tell what has arrived, in order; `around_open` also what is behind an open need."""
        needs = iter(self.dialogue.needs)
        while (need := next(needs, None)) is not None:
            task = self._tasks.get(need)
            if task is not None and task.done():
                if self._tell(need, self._tasks.pop(need)):
                    needs = iter(self.dialogue.needs)
            elif not around_open:
                return

    def _tell(self, need: Need, task: asyncio.Task[Reply]) -> bool:
        try:
            reply = task.result()
            self.dialogue = self.dialogue.tell(reply)
        except BaseException as error:  # also KeyboardInterrupt: the siblings must not be lost
            self.failures.append(error)
            return False
        if self._on_reply is not None:
            self._on_reply(self.dialogue, need, reply)
        return True

    def end(self) -> None:
        """Stop all work, and tell what has arrived."""
        for task in self._tasks.values():
            task.cancel()
        self.tell(around_open=True)


def _succeeded(task: asyncio.Task[Reply]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def run(dialogue: Dialogue, oracle: Oracle, on_reply: OnReply | None = None) -> Dialogue:
    """`converse` for programs without an event loop.

    Raises:
        EventLoopRunning: there is a running loop (as in a notebook); await `converse` there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(converse(dialogue, oracle, on_reply=on_reply))
    raise EventLoopRunning(
        "An event loop is running already, as in a notebook or a server; there, write "
        "`await converse(dialogue, oracle)` instead of `run(dialogue, oracle)`."
    )
