"""How long the sleep-time initialisation takes, against the ideal: calls / concurrency x latency.

    python -m benchmarks.elicitation [--latency 0.2] [--concurrency 16] [--runs 3] [--json]

Five dimensions of four values, three questions with four choices, five users: the paper's default
size. The model is a real HTTP server, a process of its own on loopback, that takes `--latency`
seconds for every reply.

Three steps wait for each other (dimensions, then questions, then tables), so that even an endless
number of connections needs three latencies. With 16 connections, 97 calls cannot take less than
seven latencies: one for the dimensions, one for the questions beside 15 priors, and five for the
five priors and 75 tables that are left. That is 1.155 times the ideal, which counts with slots
that are never empty.

Each run is made several times; the one with the median time is shown. Before each the garbage of
earlier ones is collected, so that none of it falls into what is timed.
"""

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from balar_core import User
from balar_core.dialogue import (
    Ask,
    Conclude,
    Concluded,
    Dialogue,
    Need,
    Reply,
    Settings,
    Setup,
    Stopped,
)
from llm_oracles.llm_oracle import LLMOracle
from llm_oracles.models import ChatModel, Completion, Limits, Message, Model, Request, Server
from llm_oracles.oracle import converse

SERVE = """
import sys
from tests.chat_server import ChatServer
from tests.model_world import answer
with ChatServer(answer=answer, delay=float(sys.argv[1])) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
HELLO = Request((Message("user", "{}"),), schema={"type": "object", "properties": {}})
GRANULARITIES = ("table", "row")


@dataclass(frozen=True)
class Timed:
    """One initialisation.

    Attributes:
        granularity: one call per table, or per row.
        calls: how many calls it took.
        ideal: calls / concurrency x latency, in seconds.
        read: bytes of the prompts that the model had to read.
        written: bytes of its replies.
        tables: seconds until the last table was there.
        question: seconds until the first question, inference included.
    """

    granularity: str
    calls: int
    ideal: float
    read: int
    written: int
    tables: float
    question: float

    @property
    def ratio(self) -> float:
        """The seconds until the last table, as a multiple of the ideal."""
        return self.tables / self.ideal


class Clocked:
    """A model that counts calls, and the bytes read and written, and notes the last reply."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.calls = self.read = self.written = 0
        self.last = 0.0

    async def complete(self, request: Request) -> Completion:
        self.calls += 1
        completion = await self.model.complete(request)
        self.last = time.perf_counter()
        self.read += sum(len(message.text.encode()) for message in request.messages)
        self.written += len(completion.text.encode())
        return completion


@contextmanager
def serving(latency: float) -> Iterator[str]:
    """A server in a process of its own; its base URL."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(latency)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        assert process.stdin is not None and process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


class FirstQuestion:
    """An oracle that notes when it is asked the first question, and ends the dialogue."""

    def __init__(self, oracle: LLMOracle) -> None:
        self.oracle = oracle
        self.at = 0.0

    async def fulfil(self, need: Need) -> Reply:
        if isinstance(need, Ask):
            self.at = time.perf_counter()
            return Stopped()
        return Concluded() if isinstance(need, Conclude) else await self.oracle.fulfil(need)


def initialise(granularity: str, latency: float, concurrency: int) -> Timed:
    """Time one initialisation."""
    users = tuple(User(f"user {number}") for number in range(5))
    no_room_to_expand = Settings(max_states=4**5)
    dialogue = Dialogue.start(Setup("What is it?", users=users, settings=no_room_to_expand))
    gc.collect()
    with serving(latency) as url:
        model = Clocked(ChatModel(Server(url, limits=Limits(concurrency=concurrency)), "model"))
        oracle = FirstQuestion(LLMOracle(model, granularity=granularity))
        start = asyncio.run(_timed(dialogue, oracle, model))
    return Timed(
        granularity,
        model.calls,
        model.calls / concurrency * latency,
        model.read,
        model.written,
        model.last - start,
        oracle.at - start,
    )


async def _timed(dialogue: Dialogue, oracle: FirstQuestion, model: Clocked) -> float:
    """Run until the first question; the time of the beginning, connections being open."""
    await asyncio.gather(*(model.model.complete(HELLO) for _ in range(16)))
    start = time.perf_counter()
    await converse(dialogue, oracle)
    return start


def measure(latency: float, concurrency: int, runs: int) -> list[Timed]:
    """The median of some runs with each granularity, after a first run that compiles."""
    initialise("table", 0.0, concurrency)
    return [
        sorted(
            (initialise(granularity, latency, concurrency) for _ in range(runs)),
            key=lambda run: run.tables,
        )[runs // 2]
        for granularity in GRANULARITIES
    ]


def table(runs: list[Timed]) -> str:
    """The runs as text."""
    lines = ["one call per  calls  kB read  written  ideal s  tables s  ratio  first question s"]
    lines += [
        f"{run.granularity:<12}  {run.calls:>5}  {run.read / 1000:>7.0f}  "
        f"{run.written / 1000:>7.0f}  {run.ideal:>7.2f}  {run.tables:>8.2f}  {run.ratio:>5.2f}  "
        f"{run.question:>16.2f}"
        for run in runs
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elicitation")
    parser.add_argument("--latency", type=float, default=0.2, help="seconds of one reply")
    parser.add_argument("--concurrency", type=int, default=16, help="calls at once")
    parser.add_argument("--runs", type=int, default=3, help="runs of which the median is shown")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    runs = measure(chosen.latency, chosen.concurrency, chosen.runs)
    if chosen.json:
        data: list[dict[str, Any]] = [{**asdict(run), "ratio": run.ratio} for run in runs]
        print(json.dumps(data))
    else:
        print(table(runs))


if __name__ == "__main__":
    main()
