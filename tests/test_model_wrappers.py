"""Wrappers round models: recordings, caches, budgets, traces, and what crashes leave of them."""

import asyncio
import json
import math
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from balar_core.errors import InvalidSetting
from llm_oracles.models import (
    Budget,
    BudgetExceeded,
    BudgetModel,
    CachingModel,
    ChatModel,
    Completion,
    Event,
    Malformed,
    ModelError,
    Price,
    RateLimited,
    RecordingModel,
    Refused,
    ReplayingModel,
    ReplayMiss,
    Request,
    RetryPolicy,
    Server,
    StorageTrouble,
    TokenScore,
    Trace,
    TracingModel,
    TransportFailure,
    Truncated,
    Usage,
)
from tests.chat_server import ChatServer, error, ok
from tests.endless_writer import Echo, numbered
from tests.fake_clock import FakeClock

COST = Usage(10, 5, calls=1, attempts=2, cost=0.25)


class Scripted:
    """A model that replies, or raises, what it is told, in order."""

    def __init__(self, *outcomes: str | ModelError) -> None:
        self.outcomes = list(outcomes)

    async def complete(self, request: Request) -> Completion:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, ModelError):
            outcome.usage = COST
            raise outcome
        return Completion(outcome, usage=COST)


def outcomes(model: Any, *requests: Request) -> list[Any]:
    """What comes of requests one after the other: completions and errors."""

    async def all_of_them() -> list[Any]:
        found: list[Any] = []
        for request in requests:
            try:
                found.append(await model.complete(request))
            except ModelError as problem:
                found.append(problem)
        return found

    return asyncio.run(all_of_them())


def described(outcome: Completion | ModelError) -> object:
    if isinstance(outcome, Completion):
        return outcome
    return type(outcome), str(outcome), outcome.usage, vars(outcome)


# Recordings.


def test_a_replay_gives_every_outcome_of_the_recording_again(tmp_path: Path) -> None:
    asked = [numbered(1), numbered(2), numbered(1), numbered(3), numbered(4), numbered(5)]
    script = Scripted(
        "one",
        "Łódź \u2028 two",
        "one again",
        Truncated("It was cut.", excerpt="{", request_id="r"),
        Refused("It declined."),
        Malformed("No JSON.", excerpt="x"),
    )
    path = tmp_path / "calls.jsonl"
    recorded = outcomes(RecordingModel(script, path), *asked)
    replayed = outcomes(ReplayingModel(path), *asked)
    assert [described(o) for o in replayed] == [described(o) for o in recorded]


def test_a_replay_gives_a_whole_completion_again(tmp_path: Path) -> None:
    completion = Completion(
        '{"a": [0.1, 1e300]}',
        {"a": [0.1, 1e300]},
        "stop",
        Usage(1, 2, 1, 3, 1, None),
        "m",
        ("json_schema", "text"),
        (TokenScore("a", -0.1, (("b", -2.0),)),),
    )

    class Fixed:
        async def complete(self, request: Request) -> Completion:
            return completion

    request = replace(numbered(0), schema={"b": 1, "a": 2}, temperature=0)
    asyncio.run(RecordingModel(Fixed(), tmp_path / "c").complete(request))
    again = replace(request, temperature=0.0, purpose="another purpose")
    assert asyncio.run(ReplayingModel(tmp_path / "c").complete(again)) == completion


def test_failures_of_the_connection_are_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    model = RecordingModel(Scripted(TransportFailure("gone"), RateLimited("slow"), "ok"), path)
    found = outcomes(model, numbered(1), numbered(1), numbered(1))
    assert [type(o) for o in found] == [TransportFailure, RateLimited, Completion]
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1


def test_a_request_that_was_not_recorded_is_a_miss_that_says_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    outcomes(RecordingModel(Echo(), path), numbered(1))
    model = ReplayingModel(path)
    other = replace(numbered(1), sample=1, purpose="priors")
    first, used_up, miss = outcomes(model, numbered(1), numbered(1), other)
    assert first.text.startswith("number 1")
    assert type(used_up) is type(miss) is ReplayMiss
    assert "for priors" in str(miss)
    assert "'number 1'" in str(miss)


def test_recording_goes_on_after_a_line_that_was_never_finished(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    outcomes(RecordingModel(Echo(), path), numbered(1), numbered(2))
    whole = path.read_bytes()
    for length in (len(whole) - 1, len(whole) - 1000, len(whole) // 2 + 5):
        path.write_bytes(whole[:length])
        kept = ReplayingModel(path)
        found = outcomes(kept, numbered(1), numbered(2))
        assert [type(o) for o in found] == [Completion, ReplayMiss]
        outcomes(RecordingModel(Echo(), path), numbered(2))
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("not JSON", "line 2, is no JSON"),
        ("[" * 10_000, "line 2, is no JSON"),
        ("[]", "line 2: This is no recorded call of version 1"),
        ('{"version": 2, "request": {}}', "no recorded call of version 1"),
        ('{"version": 1, "request": {}}', "no completion"),
        ('{"version": 1, "request": {}, "completion": {"text": 3}}', "text"),
        ('{"version": 1, "request": {}, "error": {"kind": "BalarError"}}', "no recorded error"),
        ('{"version": 1, "request": {}, "error": {"kind": "Refused"}}', "no usage"),
    ],
)
def test_a_cassette_that_is_damaged_is_refused_with_the_line(
    tmp_path: Path, line: str, says: str
) -> None:
    path = tmp_path / "calls.jsonl"
    outcomes(RecordingModel(Echo(), path), numbered(1))
    with path.open("a", encoding="utf-8") as stream:
        stream.write(line + "\n")
    with pytest.raises(StorageTrouble, match=says):
        ReplayingModel(path)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    nowhere = tmp_path / "no folder" / "file"
    not_a_database = tmp_path / "text"
    not_a_database.write_text("This is no database. " * 100, encoding="utf-8")
    attempts: list[Callable[[], object]] = [
        lambda: RecordingModel(Echo(), nowhere),
        lambda: ReplayingModel(nowhere),
        lambda: CachingModel(Echo(), nowhere, identity="a"),
        lambda: CachingModel(Echo(), not_a_database, identity="a"),
    ]
    for attempt in attempts:
        with pytest.raises(StorageTrouble, match="cannot be"):
            attempt()


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_cassette_is_for_its_owner_alone(tmp_path: Path) -> None:
    RecordingModel(Echo(), tmp_path / "calls.jsonl")
    assert (tmp_path / "calls.jsonl").stat().st_mode & 0o077 == 0


# Caches.


def test_what_the_cache_holds_is_not_asked_again_and_costs_nothing(tmp_path: Path) -> None:
    echo = Echo()
    path = tmp_path / "cache.sqlite"
    model = CachingModel(echo, path, identity="echo")
    first, second = outcomes(model, numbered(1), replace(numbered(1), purpose="again"))
    model.close()
    again = CachingModel(echo, path, identity="echo")
    (third,) = outcomes(again, numbered(1))
    assert first.usage.calls == 1
    assert second == third == replace(first, usage=Usage())
    assert echo.calls == 1


def test_another_identity_or_sample_is_asked_anew(tmp_path: Path) -> None:
    echo = Echo()
    path = tmp_path / "cache.sqlite"
    for identity in ("a", "b"):
        model = CachingModel(echo, path, identity=identity)
        outcomes(model, numbered(1), replace(numbered(1), sample=1), numbered(1))
    assert echo.calls == 4


def test_the_identity_of_a_chat_model_tells_servers_models_and_settings_apart() -> None:
    models = [
        ChatModel("http://localhost:1/v1", "m"),
        ChatModel("http://localhost:2/v1", "m"),
        ChatModel("http://localhost:1/v1", "n"),
        ChatModel("http://localhost:1/v1", "m", extra={"top_p": 0.5}),
    ]
    assert len({model.identity for model in models}) == 4


def test_errors_are_not_kept(tmp_path: Path) -> None:
    model = CachingModel(
        Scripted(Malformed("bad"), Truncated("cut"), "ok"), tmp_path / "c", identity="s"
    )
    found = outcomes(model, *[numbered(1)] * 3)
    assert [type(o) for o in found] == [Malformed, Truncated, Completion]


def test_a_damaged_or_newer_cache_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    model = CachingModel(Echo(), path, identity="echo")
    outcomes(model, numbered(1))
    with sqlite3.connect(path) as database:
        database.execute("UPDATE completions SET completion = '{}'")
    database.close()
    (damaged,) = outcomes(model, numbered(1))
    assert type(damaged) is StorageTrouble
    assert "damaged" in str(damaged)
    model.close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()
    with pytest.raises(StorageTrouble, match="version 9"):
        CachingModel(Echo(), path, identity="echo")


class Writer:
    """A process of `tests.endless_writer` that has begun, but not yet to write."""

    def __init__(self, folder: Path, first: int, count: int) -> None:
        program = [sys.executable, "-m", "tests.endless_writer", str(folder)]
        self._process = subprocess.Popen(
            [*program, str(first), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[1],
        )

    def go(self) -> None:
        assert self.line() == "ready\n"
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def kill(self) -> list[int]:
        """Kill -9; what it had said until then."""
        self._process.kill()
        lines, _ = self._process.communicate(timeout=60)
        return [int(line) for line in lines.splitlines(keepends=True) if line.endswith("\n")]

    def finish(self) -> list[int]:
        lines, _ = self._process.communicate(timeout=60)
        assert self._process.returncode == 0
        return [int(line) for line in lines.split()]


@pytest.mark.slow
def test_two_writers_and_a_kill_lose_and_damage_nothing(tmp_path: Path) -> None:
    # The first is killed in the middle of its work; the other two go on, with common requests.
    ranges = [(0, 10**6), (10**6, 60), (10**6 + 20, 60)]
    writers = [Writer(tmp_path, first, count) for first, count in ranges]
    for writer in writers:
        writer.go()
    victim, *others = writers
    handed_out = [int(victim.line()) for _ in range(25)] + victim.kill()
    for other in others:
        handed_out += other.finish()

    assert len(set(handed_out)) >= 25 + 80
    echo = Echo()
    cache = CachingModel(echo, tmp_path / "cache.sqlite", identity="echo")
    requests = [numbered(number) for number in sorted(set(handed_out))]
    found = outcomes(cache, *requests)
    assert [o.text.split(" long")[0] for o in found] == [r.messages[0].text for r in requests]
    assert echo.calls == 0
    cache.close()
    database = sqlite3.connect(tmp_path / "cache.sqlite")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    mine = [number for number in handed_out if number < 10**6]
    replayed = outcomes(ReplayingModel(tmp_path / "from-0.jsonl"), *map(numbered, mine))
    assert all(isinstance(o, Completion) for o in replayed)


# Budgets.


@pytest.mark.parametrize(
    ("budget", "allowed", "spent"),
    [
        (Budget(calls=0), 0, 0),
        (Budget(calls=3), 3, 3),
        (Budget(tokens=31), 3, 45),
        (Budget(tokens=30), 2, 30),
        (Budget(cost=0.6), 3, 0.75),
        (Budget(), 9, None),
    ],
)
def test_a_budget_that_is_spent_stops_before_anything_is_sent(
    budget: Budget, allowed: int, spent: float | None
) -> None:
    inner = Scripted("fine", Truncated("cut"), *["fine"] * 7)
    model = BudgetModel(inner, budget)
    found = outcomes(model, *[numbered(1)] * 9)
    stopped = [o for o in found if isinstance(o, BudgetExceeded)]
    assert len(stopped) == 9 - allowed
    assert len(inner.outcomes) == 9 - allowed
    assert model.spent.tokens == 15 * allowed
    assert all(o.spent == spent for o in stopped)


def test_a_budget_of_time_holds_for_later_calls_and_for_those_under_way() -> None:
    clock = FakeClock()
    model = BudgetModel(Echo(), Budget(seconds=60), clock)
    outcomes(model, numbered(1))
    asyncio.run(clock.sleep(61))
    (late,) = outcomes(model, numbered(2))
    assert (type(late), late.what, late.spent) == (BudgetExceeded, "seconds", 61)

    class Sleeper:
        async def complete(self, request: Request) -> Completion:
            await asyncio.sleep(60)
            raise AssertionError

    (stopped,) = outcomes(BudgetModel(Sleeper(), Budget(seconds=0.05)), numbered(1))
    assert type(stopped) is BudgetExceeded


def test_calls_that_are_under_way_count_at_once() -> None:
    async def many(model: BudgetModel) -> list[Any]:
        return await asyncio.gather(
            *(model.complete(numbered(n)) for n in range(9)), return_exceptions=True
        )

    with ChatServer(delay=0.02) as server:
        model = BudgetModel(ChatModel(server.url, "m"), Budget(calls=4))
        found = asyncio.run(many(model))
    assert sum(isinstance(o, Completion) for o in found) == len(server.seen) == 4


def test_a_budget_of_cost_needs_costs_that_are_known() -> None:
    with ChatServer() as server:
        model = BudgetModel(ChatModel(server.url, "m"), Budget(cost=1.0))
        _, stopped = outcomes(model, numbered(1), numbered(2))
    assert "give the prices" in str(stopped)
    assert math.isnan(stopped.spent)


@pytest.mark.parametrize("limit", [-1, math.nan, math.inf])
def test_budgets_out_of_range_are_refused(limit: float) -> None:
    with pytest.raises(InvalidSetting):
        Budget(cost=limit)


# Traces.


def test_a_trace_holds_one_event_for_each_call_and_sums_failed_attempts_up() -> None:
    trace = Trace()
    script = [error(500), "bad", '{"a":"x"}', ok("{", finish_reason="length"), *[error(429)] * 2]
    schema = {"type": "object", "properties": {"a": {"enum": ["x"]}}}
    asked = replace(numbered(1), schema=schema, purpose="priors")
    with ChatServer(script) as server:
        model = ChatModel(
            Server(
                server.url,
                clock=FakeClock(),
                retry=RetryPolicy(attempts=2),
                price=Price(1e6, 2e6),
            ),
            "m",
        )
        traced = TracingModel(model, trace.add)
        outcomes(traced, asked, asked, replace(numbered(1), purpose="questions"))
    assert [(e.purpose, e.outcome, e.usage, e.formats) for e in trace.events] == [
        ("priors", "ok", Usage(20, 10, 1, 3, 0, 40.0), ("json_schema", "json_object")),
        ("priors", "Truncated", Usage(10, 5, 1, 1, 0, 20.0), ()),
        ("questions", "RateLimited", Usage(0, 0, 1, 2, 0, 0.0), ()),
    ]
    assert trace.usage == Usage(30, 15, 3, 6, 0, 60.0)
    head, priors, _, total = trace.table().splitlines()
    assert head.split()[0] == "purpose"
    assert priors.split()[:6] == ["priors", "2", "1", "4", "30", "15"]
    assert total.split()[-1] == "60.0000"


def test_a_cancelled_call_is_traced_with_a_cost_that_nobody_knows() -> None:
    trace = Trace()

    async def cancel() -> None:
        task = asyncio.create_task(TracingModel(Sleeping(), trace.add).complete(numbered(1)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    class Sleeping:
        async def complete(self, request: Request) -> Completion:
            await asyncio.sleep(60)
            raise AssertionError

    asyncio.run(cancel())
    assert [(e.outcome, e.usage.cost) for e in trace.events] == [("cancelled", None)]
    assert trace.table().splitlines()[-1].endswith("0.0000+")


def test_an_event_has_no_text_of_the_request_or_the_reply() -> None:
    trace = Trace()
    outcomes(TracingModel(Echo(), trace.add), numbered(77))
    (event,) = trace.events
    assert isinstance(event, Event)
    assert "77" not in json.dumps(repr(replace(event, seconds=0.0)))


# Together.


def test_wrappers_compose_and_a_second_run_sends_nothing(tmp_path: Path) -> None:
    def run(url: str) -> tuple[list[Any], Trace]:
        trace = Trace()
        chat = ChatModel(url, "m")
        inner = RecordingModel(BudgetModel(chat, Budget(calls=3)), tmp_path / "calls.jsonl")
        cache = CachingModel(inner, tmp_path / "cache.sqlite", identity=chat.identity)
        found = outcomes(TracingModel(cache, trace.add), *map(numbered, (1, 2, 1, 3)))
        cache.close()
        return found, trace

    with ChatServer() as server:
        first, _ = run(server.url)
        second, trace = run(server.url)
    assert len(server.seen) == 3
    assert [o.text for o in second] == [o.text for o in first]
    assert trace.usage.attempts == 0
