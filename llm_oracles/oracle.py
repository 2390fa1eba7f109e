"""Whoever answers what a dialogue needs, and the loop that lets them.

    dialogue = run(Dialogue.start(setup), oracle)

An oracle is anything with one coroutine, `fulfil`. Oracles wrap one another: a `Recorder` round a
`ProblemOracle` that passes questions on to a `HumanOracle` is an oracle too.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from balar_core.dialogue import Dialogue, Need, Reply, Stopped
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

    All needs of a moment are fulfilled concurrently and told in the order of `dialogue.needs`. If
    one of them fails, or the conversation is cancelled, the replies that did arrive are told (and
    handed to `on_reply`) before the error goes on, so that nothing has to be asked again.

    Args:
        dialogue: where to begin.
        oracle: who answers.
        on_reply: called after each reply, for example to save the dialogue.

    Returns:
        The finished dialogue.

    Raises:
        Exception: whatever the oracle raises, or a `BalarError` for a reply that does not fit.
    """
    while not dialogue.finished:
        needs = dialogue.needs
        tasks = [asyncio.ensure_future(oracle.fulfil(need)) for need in needs]
        try:
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            dialogue, failures = _tell(dialogue, needs, tasks, on_reply)
        if failures:
            for further in failures[1:]:
                failures[0].add_note(f"At the same time: {further}")
            raise failures[0]
    return dialogue


def _tell(
    dialogue: Dialogue,
    needs: Sequence[Need],
    tasks: Sequence[asyncio.Task[Reply]],
    on_reply: OnReply | None,
) -> tuple[Dialogue, list[BaseException]]:
    """Tell the replies that have arrived; collect what went wrong with the others."""
    failures: list[BaseException] = []
    for need, task in zip(needs, tasks, strict=True):
        if not task.done():
            continue
        try:
            reply = task.result()
            dialogue = dialogue.tell(reply)
        except BaseException as error:  # also KeyboardInterrupt: the siblings must not be lost
            failures.append(error)
            continue
        if on_reply is not None:
            on_reply(dialogue, need, reply)
        if isinstance(reply, Stopped):
            break
    return dialogue, failures


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
