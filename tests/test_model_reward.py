"""The reward by a model: against servers of each kind with a small model that really computes."""

import asyncio
import math
import re
from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import pytest

from balar_core import log_differences
from balar_core.dialogue import Exchange
from balar_core.errors import InvalidInput, InvalidSetting, InvalidText
from llm_oracles.model_reward import (
    CONTENT_FREE,
    NOTHING_ASKED,
    Clarification,
    GoalTemplate,
    ModelGain,
    ModelReward,
    TokensDiffer,
)
from llm_oracles.models import (
    Limits,
    RequestRejected,
    RetryPolicy,
    ScoringModel,
    Server,
    TokenScores,
    Way,
)
from tests import word_model
from tests.chat_server import ChatServer, error
from tests.local_model import local_server

WAYS: tuple[Way, ...] = ("vllm", "llama.cpp", "echo")
HISTORY = "User: I need a lamp for my desk."
GOAL = "I want the red lamp with a dimmer"
TELLING = Clarification("Which colour do you want?", "the red one")
USELESS = Clarification("Is it for your desk?", "yes indeed")


def likelihood(said: Sequence[Clarification], goal: str = GOAL) -> float:
    """By the model itself, without a server."""
    context = word_model.cut(GoalTemplate().context(HISTORY, said))
    return math.fsum(word_model.log_probabilities(context, word_model.cut(goal)))


@pytest.mark.parametrize("way", WAYS)
def test_each_way_gives_the_difference_of_the_likelihoods_of_the_model(way: Way) -> None:
    with ChatServer(routes=word_model.routes(way)) as server:
        reward = ModelReward(ScoringModel(server.url, "m", way=way))
        gains = asyncio.run(reward.gains(HISTORY, GOAL, [TELLING, None, USELESS, CONTENT_FREE]))
    telling, nothing, useless, free = gains
    before = likelihood([])
    for gain, said in ((telling, TELLING), (useless, USELESS), (free, CONTENT_FREE)):
        assert gain.total == pytest.approx(likelihood([said]) - before, abs=1e-12)
        assert gain.control == free.total
        assert gain.tokens == len(word_model.cut(GOAL))
        assert gain.per_token == gain.total / gain.tokens
        assert gain.net_per_token == gain.net / gain.tokens
    assert nothing == NOTHING_ASKED
    # An exchange without content moves the likelihood; less the control it gains exactly nothing.
    assert free.total < -0.01
    assert free.net == 0
    assert telling.net > 1 > 0 > useless.net


def test_whoever_does_not_ask_gains_exactly_nothing_and_costs_nothing() -> None:
    with ChatServer(routes=word_model.routes("vllm")) as server:
        reward = ModelReward(ScoringModel(server.url, "m", way="vllm"))
        assert asyncio.run(reward.gains(HISTORY, GOAL, [None, None])) == (NOTHING_ASKED,) * 2
        assert asyncio.run(reward.gains(HISTORY, GOAL, [])) == ()
        assert server.seen == []
    assert (NOTHING_ASKED.total, NOTHING_ASKED.per_token) == (0, 0)
    assert (NOTHING_ASKED.net, NOTHING_ASKED.net_per_token) == (0, 0)


def test_a_group_scores_every_context_once() -> None:
    with ChatServer(routes=word_model.routes("echo")) as server:
        reward = ModelReward(ScoringModel(server.url, "m", way="echo"))
        asyncio.run(reward.gains(HISTORY, GOAL, [TELLING, TELLING, None, USELESS, TELLING]))
        prompts = [body["prompt"] for body in server.bodies]
    assert len(prompts) == len(set(prompts)) == 4  # without, control, and two exchanges


def test_without_a_control_there_is_nothing_to_take_off() -> None:
    with ChatServer(routes=word_model.routes("echo")) as server:
        reward = ModelReward(ScoringModel(server.url, "m", way="echo"), control=None)
        (gain,) = asyncio.run(reward.gains(HISTORY, GOAL, [TELLING]))
        assert len(server.seen) == 2
    assert gain.control is None
    with pytest.raises(InvalidSetting, match="not measured"):
        _ = gain.net
    with pytest.raises(InvalidSetting, match="not measured"):
        _ = gain.net_per_token


def test_rewards_of_turns_add_up_to_the_reward_of_all_turns() -> None:
    with ChatServer(routes=word_model.routes("vllm")) as server:
        reward = ModelReward(ScoringModel(server.url, "m", way="vllm"))
        moments = asyncio.run(reward.moments(HISTORY, GOAL, [USELESS, None, TELLING]))
    totals = [scores.total for scores in moments]
    assert totals == pytest.approx(
        [
            likelihood([]),
            likelihood([USELESS]),
            likelihood([USELESS]),
            likelihood([USELESS, TELLING]),
        ]
    )
    rewards = log_differences(jnp.array(totals)).tolist()
    assert rewards[1] == 0
    assert sum(rewards) == pytest.approx(totals[-1] - totals[0], abs=1e-4)


def merged_where_spoken(text: str) -> list[str]:
    """A tokeniser that makes one token of two words in a text that speaks of colours."""
    if "colour" not in text:
        return word_model.cut(text)
    return re.findall(r"red lamp|\s|[^\s]+", text)


def test_goal_that_is_cut_otherwise_after_another_context_is_found_out() -> None:
    with ChatServer(routes=word_model.routes("echo", merged_where_spoken)) as server:
        reward = ModelReward(ScoringModel(server.url, "m", way="echo"))
        with pytest.raises(TokensDiffer, match="token 6 is 'red' in one and 'red lamp' in the oth"):
            asyncio.run(reward.gains(HISTORY, GOAL, [USELESS, TELLING]))
        with pytest.raises(TokensDiffer, match="server that cuts the goal by itself"):
            asyncio.run(reward.moments(HISTORY, GOAL, [TELLING]))


def test_servers_that_cut_the_goal_by_itself_cut_it_alike() -> None:
    with ChatServer(routes=word_model.routes("vllm", merged_where_spoken)) as server:
        reward = ModelReward(ScoringModel(server.url, "m", way="vllm"))
        (gain,) = asyncio.run(reward.gains(HISTORY, GOAL, [TELLING]))
    assert gain.tokens == len(word_model.cut(GOAL))


class Shifted:
    """Scores every token of a long goal alike, but for a small shift with an exchange."""

    def __init__(self, shift: float) -> None:
        self.shift = shift

    async def score(self, context: str, text: str) -> TokenScores:
        score = -20.0 + (self.shift if "Which" in context else 0)
        return TokenScores(("x",) * 1000, (score,) * 1000)


def test_a_small_gain_on_a_long_goal_keeps_its_digits() -> None:
    reward = ModelReward(Shifted(1e-9), control=None)
    (gain,) = asyncio.run(reward.gains(HISTORY, GOAL, [TELLING]))
    assert gain.total == pytest.approx(1e-6, rel=1e-5)


def test_failures_of_the_server_are_retried_or_told() -> None:
    retry = RetryPolicy(attempts=3, first_wait=0.001)
    with ChatServer([error(503)], answer=word_model.routes("echo")["/v1/completions"]) as server:
        once = Server(server.url, retry=retry, limits=Limits(concurrency=1))
        reward = ModelReward(ScoringModel(once, "m", way="echo"))
        (gain,) = asyncio.run(reward.gains(HISTORY, GOAL, [TELLING]))
        assert len(server.seen) == 4  # three contexts, one of them twice
    assert gain.total == pytest.approx(likelihood([TELLING]) - likelihood([]), abs=1e-12)
    with ChatServer(answer=error(400, "the prompt is too long")) as server:
        reward = ModelReward(ScoringModel(server.url, "m", way="echo"))
        with pytest.raises(RequestRejected, match="too long"):
            asyncio.run(reward.gains(HISTORY, GOAL, [TELLING]))


@pytest.mark.parametrize(
    ("history", "goal", "named"),
    [
        (HISTORY, "", "The goal is empty"),
        (HISTORY, "\ud800", "the goal holds a lone surrogate"),
        ("\udfff", GOAL, "the history holds a lone surrogate"),
        (None, GOAL, "the history is None"),
        (HISTORY, b"goal", "the goal is b'goal'"),
    ],
)
def test_text_that_cannot_be_scored_is_refused(history: str, goal: str, named: str) -> None:
    reward = ModelReward(Shifted(0))
    for method in (reward.gains, reward.moments):
        with pytest.raises(InvalidInput, match=named):
            asyncio.run(method(history, goal, [TELLING]))


@pytest.mark.parametrize("wrong", ["Which colour?", ("Which colour?", "red"), 0])
def test_what_is_no_clarification_is_refused_by_its_place(wrong: object) -> None:
    reward = ModelReward(Shifted(0))
    for method in (reward.gains, reward.moments):
        with pytest.raises(InvalidInput, match="Exchange 1 is"):
            asyncio.run(method(HISTORY, GOAL, [None, wrong]))  # type: ignore[list-item]


def test_braces_and_other_letters_stay_as_they_are() -> None:
    said = Clarification("Which {colour}?", "$red %s Łódź 🙂")
    goal = "I want {'colour': 'red'} Łódź 🙂"
    with ChatServer(routes=word_model.routes("vllm")) as server:
        reward = ModelReward(ScoringModel(server.url, "m", way="vllm"))
        (gain,) = asyncio.run(reward.gains(HISTORY, goal, [said]))
    assert gain.total == pytest.approx(likelihood([said], goal) - likelihood([], goal), abs=1e-12)


def test_clarifications_come_from_exchanges_and_need_a_question() -> None:
    choices = ("yes", "no", "maybe")
    for evidence, reply, said in (
        ((0.0, 1.0, 0.0), "", "no"),
        ((0.4, 0.4, 0.2), "", "yes or no"),
        ((1 / 3, 1 / 3, 1 / 3), "", ""),
        ((0.4, 0.4, 0.2), "not sure", "not sure"),
    ):
        found = Clarification.of(Exchange("Well?", choices, "you", reply, evidence))
        assert found == Clarification("Well?", said)
    with pytest.raises(InvalidText, match="question of a clarification is empty"):
        Clarification(" ", "yes")


def test_template_puts_everything_in_order_and_leaves_out_an_empty_history() -> None:
    template = GoalTemplate("<", "Q: ", "A: ", ">")
    assert template.context("", []) == "<>"
    assert template.context("h", [TELLING, USELESS]) == (
        "<h\nQ: Which colour do you want?\nA: the red one\n"
        "Q: Is it for your desk?\nA: yes indeed\n>"
    )
    assert ModelGain(3.0, None, 2).per_token == 1.5


@pytest.mark.slow
def test_a_real_model_rewards_what_tells_the_goal() -> None:
    with local_server() as url:
        reward = ModelReward(ScoringModel(url, "smollm2", way="llama.cpp"))
        telling, useless = asyncio.run(reward.gains(HISTORY, GOAL, [TELLING, USELESS]))
    assert telling.net > useless.net


def test_the_programs_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).resolve().parents[1] / "docs" / "rewards.md"
    sections = page.read_text(encoding="utf-8").split("\n## ")
    (section,) = [text for text in sections if text.startswith("By a language model")]
    programs = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)
    assert len(programs) == 2
    names: dict[str, object] = {}
    with ChatServer(routes=word_model.routes("vllm")) as server:
        for program in programs:
            exec(program.replace("http://localhost:8000/v1", server.url), names)
    telling, useless, nothing = capsys.readouterr().out.splitlines()
    assert float(telling.split()[2]) > 1 > 0 > float(useless.split()[2])
    assert nothing == "0.0 0.0 0.0"
