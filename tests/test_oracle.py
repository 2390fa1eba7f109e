"""Driving a dialogue: order, concurrency, failures that lose nothing, event loops."""

import asyncio

import pytest

from balar_core.dialogue import (
    Answered,
    Ask,
    Conclude,
    Dialogue,
    ElicitedPriors,
    ElicitPriors,
    Need,
    ProposedQuestions,
    ProposeQuestions,
    Reply,
    Stopped,
)
from balar_core.errors import InvalidTable
from llm_oracles.oracle import EventLoopRunning, converse, run
from llm_oracles.problem import load_packaged
from llm_oracles.problem_oracle import ProblemOracle

HEADACHE = load_packaged("headache")


class FirstChoice:
    """A user who always takes the first choice."""

    async def fulfil(self, need: Need) -> Reply:
        return Answered(choice=0)


class Meddling:
    """A `ProblemOracle` some of whose replies are replaced; it notes what happens when."""

    def __init__(self, **replaced: Reply | BaseException | float) -> None:
        self.oracle = ProblemOracle(HEADACHE, FirstChoice())
        self.replaced = replaced
        self.events: list[str] = []

    async def fulfil(self, need: Need) -> Reply:
        self.events.append(f"begin {need.kind}")
        replaced = self.replaced.get(need.kind)
        if isinstance(replaced, float):
            await asyncio.sleep(replaced)
        elif isinstance(replaced, BaseException):
            raise replaced
        elif replaced is not None:
            return replaced
        reply = await self.oracle.fulfil(need)
        self.events.append(f"end {need.kind}")
        return reply


def start() -> Dialogue:
    return Dialogue.start(HEADACHE.setup())


def test_a_dialogue_runs_to_its_conclusion_and_every_reply_is_reported() -> None:
    seen: list[tuple[int, str, str]] = []

    def on_reply(dialogue: Dialogue, need: Need, reply: Reply) -> None:
        seen.append((len(dialogue.replies), need.kind, reply.kind))

    dialogue = run(start(), Meddling(), on_reply)
    assert dialogue.finished
    assert [count for count, _, _ in seen] == list(range(1, len(dialogue.replies) + 1))
    assert [kind for _, _, kind in seen] == [reply.kind for reply in dialogue.replies]
    assert seen[-1][1] == "conclude"


def test_needs_of_one_moment_are_fulfilled_at_the_same_time_and_told_in_order() -> None:
    oracle = Meddling(elicit_priors=0.05)
    dialogue = run(start(), oracle)
    together = [need.kind for need in start().tell(dialogue.replies[0]).needs]
    assert together[:2] == ["elicit_priors", "propose_questions"]
    events = oracle.events
    assert events.index("end propose_questions") < events.index("end elicit_priors")
    kinds = [reply.kind for reply in dialogue.replies]
    assert kinds.index("elicited_priors") < kinds.index("proposed_questions")


def test_tables_are_filled_while_the_priors_are_still_open() -> None:
    slow_priors, slow_questions = Meddling(elicit_priors=0.05), Meddling(propose_questions=0.05)
    dialogue = run(start(), slow_priors)
    events = slow_priors.events
    assert events.index("begin elicit_likelihoods") < events.index("end elicit_priors")
    assert dialogue.to_json() == run(start(), slow_questions).to_json()


def test_a_reply_that_overtook_another_is_kept_when_the_other_fails() -> None:
    saved: list[Dialogue] = []

    class Failing(Meddling):
        async def fulfil(self, need: Need) -> Reply:
            reply = await super().fulfil(need)
            if isinstance(need, ElicitPriors):
                raise ConnectionError("the line is dead")
            return reply

    with pytest.raises(ConnectionError):
        run(start(), Failing(elicit_priors=0.05), lambda dialogue, *_: saved.append(dialogue))
    assert {type(need) for need in saved[-1].needs} == {ElicitPriors}
    assert [need.kind for need in run(saved[-1], Meddling()).needs] == []


@pytest.mark.parametrize("failure", [ConnectionError("the line is dead"), ElicitedPriors(())])
def test_a_failing_need_loses_no_reply_of_its_siblings(failure: Reply | BaseException) -> None:
    saved: list[Dialogue] = []
    oracle = Meddling(elicit_priors=failure)
    expected = type(failure) if isinstance(failure, BaseException) else InvalidTable
    with pytest.raises(expected):
        run(start(), oracle, lambda dialogue, need, reply: saved.append(dialogue))
    left = {type(need) for need in saved[-1].needs}
    assert ElicitPriors in left
    assert ProposeQuestions not in left
    assert any(isinstance(reply, ProposedQuestions) for reply in saved[-1].replies)
    assert run(saved[-1], Meddling()).finished


def test_an_interrupt_from_the_keyboard_loses_no_reply_that_has_arrived() -> None:
    saved: list[Dialogue] = []
    oracle = Meddling(elicit_answers=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(start(), oracle, lambda dialogue, need, reply: saved.append(dialogue))
    told = [reply.kind for reply in saved[-1].replies]
    assert told == ["proposed_dimensions", "elicited_priors", "proposed_questions"]


def test_further_failures_of_the_same_moment_are_told_with_the_first() -> None:
    oracle = Meddling(elicit_priors=OSError("one"), propose_questions=OSError("two"))
    with pytest.raises(OSError, match="one") as caught:
        run(start(), oracle)
    assert caught.value.__notes__ == ["At the same time: two"]


def test_cancelling_tells_what_has_arrived_and_stops_the_rest() -> None:
    saved: list[Dialogue] = []
    oracle = Meddling(elicit_priors=60.0)

    async def impatient() -> None:
        talking = converse(
            start(), oracle, on_reply=lambda dialogue, need, reply: saved.append(dialogue)
        )
        await asyncio.wait_for(talking, timeout=0.2)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    assert "end propose_questions" in oracle.events
    assert "end elicit_priors" not in oracle.events
    assert any(isinstance(reply, ProposedQuestions) for reply in saved[-1].replies)


def test_stopping_in_the_middle_leads_straight_to_the_conclusion() -> None:
    dialogue = run(start(), Meddling(ask=Stopped("no time")))
    assert dialogue.finished
    assert dialogue.asked == ()
    assert dialogue.outcome is not None
    assert dialogue.outcome.reason == "stopped"


def test_a_finished_dialogue_asks_nobody() -> None:
    done = run(start(), Meddling())
    silent = Meddling()
    assert run(done, silent) is done
    assert silent.events == []


def test_run_inside_a_running_loop_says_what_to_write_instead() -> None:
    async def notebook() -> None:
        run(start(), Meddling())

    with pytest.raises(EventLoopRunning, match="await converse"):
        asyncio.run(notebook())


def test_one_oracle_serves_several_event_loops() -> None:
    oracle = Meddling()
    assert run(start(), oracle).replies == run(start(), oracle).replies


def test_the_problem_oracle_sends_only_questions_to_the_user() -> None:
    asked: list[Need] = []

    class Noting(FirstChoice):
        async def fulfil(self, need: Need) -> Reply:
            asked.append(need)
            return await super().fulfil(need)

    dialogue = run(start(), ProblemOracle(HEADACHE, Noting()))
    assert len(asked) == len(dialogue.asked) > 0
    assert all(isinstance(need, Ask) for need in asked)
    assert not any(isinstance(need, Conclude) for need in asked)
