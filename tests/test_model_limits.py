"""Waiting: what servers ask for, back-off, and limits per minute that are never exceeded."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from balar_core.errors import InvalidSetting
from llm_oracles.models import ChatModel, Limits, Message, RateLimited, Request, RetryPolicy, Server
from llm_oracles.models.limits import Limiter, Window
from llm_oracles.models.retry import retry_after
from tests.chat_server import ChatServer, error, ok
from tests.fake_clock import FakeClock

HELLO = Request((Message("user", "Hello"),))


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text()))
@example({"retry-after": "Fri, 31 Dec 9999 23:59:59 -2359"})
@example({"retry-after": "Fri, 31 Feb 2027 08:00:00 GMT"})
@example({"retry-after": f"Fri, 1 Jan {'9' * 30} 00:00:00 GMT"})
@example({"retry-after": "1 Jan 2027 08:00 +99999999999999"})
def test_advice_of_any_kind_is_a_positive_number_or_none(headers: dict[str, str]) -> None:
    seconds = retry_after(headers, 1.8e9)
    assert seconds is None or (math.isfinite(seconds) and seconds > 0)


@given(st.integers(1, 10**9))
def test_whole_seconds_are_taken_at_their_word(seconds: int) -> None:
    assert retry_after({"retry-after": f" {seconds} "}, 0.0) == seconds


@given(
    attempts=st.integers(1, 300),
    first=st.floats(0, 1e3),
    longest=st.floats(0, 1e3),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_back_off_grows_to_its_limit_and_is_never_negative(
    attempts: int, first: float, longest: float, jitter: float
) -> None:
    policy = RetryPolicy(attempts + 1, first, longest, jitter=lambda: jitter)
    waits = [policy.wait(RateLimited(""), attempt) for attempt in range(1, attempts + 2)]
    assert waits.pop() is None
    known = [wait for wait in waits if wait is not None]
    assert len(known) == attempts
    assert known == sorted(known)
    assert all(0 <= wait <= longest for wait in known)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RetryPolicy(attempts=0),
        lambda: RetryPolicy(first_wait=-1),
        lambda: RetryPolicy(patience=math.inf),
        lambda: RetryPolicy(longest_wait=math.nan),
        lambda: Limits(concurrency=0),
        lambda: Limits(requests_per_minute=0),
        lambda: Limits(tokens_per_minute=-1),
    ],
)
def test_settings_out_of_range_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidSetting):
        make()


requests = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 12)))


@given(requests, st.integers(1, 10))
def test_no_span_of_a_window_ever_holds_more_than_the_limit(
    steps: list[tuple[int, int, int]], limit: int
) -> None:
    window = Window(limit, 60)
    now = 0.0
    entries = []
    for pause, estimate, actual in steps:
        now += pause
        entry = window.reserve(estimate, now)
        assert entry.at >= now
        entry.amount = min(actual, entry.amount)
        entries.append(entry)
        now = entry.at
    begins = [entry.at for entry in entries]
    assert begins == sorted(begins)
    for begin in begins:
        assert sum(e.amount for e in entries if begin <= e.at < begin + 60) <= limit


@given(st.lists(st.integers(0, 40)), st.integers(1, 5))
def test_nobody_waits_while_there_is_room(pauses: list[int], limit: int) -> None:
    window = Window(limit, 60)
    now = 0.0
    begins: list[float] = []
    for pause in pauses:
        now += pause
        recent = [begin for begin in begins if begin > now - 60]
        entry = window.reserve(1, now)
        assert (entry.at == now) == (len(recent) < limit)
        begins.append(entry.at)
        now = entry.at


def test_more_tokens_than_were_expected_are_waited_for_afterwards() -> None:
    window = Window(100, 60)
    window.reserve(10, 0.0).amount = 100
    assert window.reserve(1, 5.0).at == 60


def test_reservations_that_are_given_back_leave_no_trace() -> None:
    window = Window(2, 60)
    kept = [window.reserve(1, 0.0), window.reserve(1, 1.0)]
    for entry in [window.reserve(1, 2.0) for _ in range(9)]:
        window.give_back(entry)
    assert [entry.at for entry in kept] == [0, 1]
    assert [window.reserve(1, 3.0).at for _ in range(3)] == [60, 61, 120]


def ask(server: ChatServer, clock: FakeClock, count: int, **limits: Any) -> None:
    async def all_at_once() -> None:
        model = ChatModel(Server(server.url, limits=Limits(**limits), clock=clock), "m")
        await asyncio.gather(*(model.complete(HELLO) for _ in range(count)))

    asyncio.run(all_at_once())


def test_requests_beyond_those_of_a_minute_wait_for_the_next() -> None:
    clock = FakeClock()
    with ChatServer() as server:
        ask(server, clock, 7, concurrency=9, requests_per_minute=3)
    assert len(server.seen) == 7
    assert clock.now() == 120


def test_tokens_beyond_those_of_a_minute_wait_for_the_next() -> None:
    clock = FakeClock()
    with ChatServer(answer=ok("x", usage=(300, 300))) as server:
        ask(server, clock, 3, concurrency=1, tokens_per_minute=1000)
    assert clock.now() == 60


def test_a_wait_that_the_server_asks_for_holds_everybody() -> None:
    class Stopped(FakeClock):
        """Nobody's waiting ends."""

        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)
            await asyncio.Event().wait()

    clock = Stopped()

    async def two_calls(model: ChatModel) -> None:
        calls = []
        for number in (1, 2):
            calls.append(asyncio.create_task(model.complete(HELLO)))
            while len(clock.slept) < number and not calls[-1].done():
                await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)

    with ChatServer([error(429, headers={"retry-after": "30"})]) as server:
        asyncio.run(two_calls(ChatModel(Server(server.url, clock=clock), "m")))
    assert clock.slept == [30, 30]
    assert len(server.seen) == 1


def test_who_stops_waiting_gives_back_what_it_took() -> None:
    clock = FakeClock()

    async def run() -> float:
        limiter = Limiter(Limits(requests_per_minute=1, tokens_per_minute=100), clock)
        async with limiter.slot(1) as tokens:
            tokens.amount = 100

        async def wait() -> None:
            async with limiter.slot(100):
                raise AssertionError

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with limiter.slot(100):
            return clock.now()

    assert asyncio.run(run()) == 60
