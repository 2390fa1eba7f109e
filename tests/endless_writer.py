"""A program that fills a cache and a cassette until it is killed: FOLDER FIRST COUNT.

It prints the number of each reply once it has been handed out.
"""

import asyncio
import sys
from pathlib import Path

from llm_oracles.models import CachingModel, Completion, Message, RecordingModel, Request


class Echo:
    """A model that says what it was told, and how often it has been asked."""

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: Request) -> Completion:
        self.calls += 1
        return Completion(f"{request.messages[-1].text} " + "long " * 500)


def numbered(number: int) -> Request:
    return Request((Message("user", f"number {number}"),))


async def write(folder: Path, first: int, count: int) -> None:
    recording = RecordingModel(Echo(), folder / f"from-{first}.jsonl")
    model = CachingModel(recording, folder / "cache.sqlite", identity="echo")
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(first, first + count):
        await model.complete(numbered(number))
        print(number, flush=True)
    model.close()


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
