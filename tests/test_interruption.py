"""Interruption: no new calls, and none that is under way is lost."""

import asyncio
from typing import Any

import pytest

from balar_core.dialogue import Answered, Dialogue, Need, Reply, Setup
from balar_core.errors import InvalidSetting
from llm_oracles.interruption import Interrupted, Interruption
from llm_oracles.llm_oracle import LLMOracle
from llm_oracles.models import Completion, Message, Request
from llm_oracles.oracle import converse
from tests.model_world import WorldModel


def request(number: int) -> Request:
    return Request((Message("user", str(number)),))


class Slow:
    """A model that notes what it began and what it ended."""

    def __init__(self) -> None:
        self.begun = self.ended = 0

    async def complete(self, request: Request) -> Completion:
        self.begun += 1
        await asyncio.sleep(0.02)
        self.ended += 1
        return Completion("")


def test_calls_under_way_end_and_waiting_ones_never_begin() -> None:
    async def stopped_in_the_middle() -> list[Any]:
        calls = [asyncio.ensure_future(guarded.complete(request(i))) for i in range(5)]
        await asyncio.sleep(0.01)
        assert interruption.under_way == 2
        interruption.stop()
        return await asyncio.gather(*calls, return_exceptions=True)

    model, interruption = Slow(), Interruption(concurrency=2)
    guarded = interruption.guard(model)
    results = asyncio.run(stopped_in_the_middle())
    assert [type(result) for result in results] == [Completion] * 2 + [Interrupted] * 3
    assert model.begun == model.ended == 2


def test_a_dialogue_that_is_stopped_keeps_all_replies_that_came_back() -> None:
    ended: list[str] = []

    class Noting(WorldModel):
        async def complete(self, request: Request) -> Completion:
            if request.purpose == "priors":
                interruption.stop()
            completion = await super().complete(request)
            ended.append(request.purpose)
            return completion

    class Nobody:
        async def fulfil(self, need: Need) -> Reply:
            return Answered(unknown=True)

    model, interruption = Noting(latency=0.02), Interruption(concurrency=4)
    oracle = interruption.guard_oracle(LLMOracle(interruption.guard(model), users=Nobody()))
    saved: list[Dialogue] = []
    talking = converse(
        Dialogue.start(Setup("Why?")), oracle, on_reply=lambda dialogue, *_: saved.append(dialogue)
    )
    with pytest.raises(Interrupted):
        asyncio.run(talking)
    assert [r.purpose for r in model.requests] == ["dimensions", "questions"] + ["priors"] * 3
    assert sorted(ended) == sorted(r.purpose for r in model.requests)
    assert [reply.kind for reply in saved[-1].replies] == [
        "proposed_dimensions",
        "proposed_questions",
    ]


def test_after_a_stop_nothing_new_is_answered() -> None:
    interruption = Interruption(concurrency=1)
    oracle = interruption.guard_oracle(LLMOracle(WorldModel()))
    interruption.stop()
    with pytest.raises(Interrupted):
        asyncio.run(oracle.fulfil(Dialogue.start(Setup("Why?")).needs[0]))


def test_a_concurrency_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="concurrency is 0"):
        Interruption(0)
