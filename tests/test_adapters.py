"""Reward functions as TRL and verl call them: exact gains, and no exception for bad completions."""

import json
import math
from typing import Any

import pytest

from llm_oracles.adapters import ExactReward, Malformed, TrlReward, Turn, UnusableReward, VerlReward
from llm_oracles.adapters.markup import read_messages, read_text
from llm_oracles.knowledge import KnowledgeTable
from llm_oracles.problem import Problem, load_packaged, make_problem

FLIES, LEGS = "flies?", "legs?"
NOISE = 0.1


@pytest.fixture(scope="module")
def animals() -> Problem:
    columns = {"flies": ("no", "yes", "no", "yes"), "legs": ("4", "2", "6", "2")}
    table = KnowledgeTable("name", ("frog", "duck", "ant", "bat"), columns)
    return table.to_problem(noise=NOISE)


def asked(question: str) -> str:
    return f"YES [QUESTION]{question}[/QUESTION]"


def gain(answer_given_truth: float, answer: float) -> float:
    return math.log(answer_given_truth / answer)


TOLD = gain(0.95, 0.5)
MISLED = gain(0.05, 0.5)
EXPECTED = 0.95 * TOLD + 0.05 * MISLED
"""Of the question whether it flies, which two of four animals do; 10 % of answers are random."""


def said(*contents: str) -> list[dict[str, str]]:
    roles = ("assistant", "user")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]


@pytest.mark.parametrize(
    ("completion", "reward"),
    [
        (asked(FLIES), EXPECTED),
        (asked(" FLIES? "), EXPECTED),
        ("NO", 0),
        ("", 0),
        (said(asked(FLIES)), EXPECTED),
        (said(asked(FLIES), "no"), TOLD),
        (said(asked(FLIES), "yes"), MISLED),
        (said(asked(FLIES), "I don't know"), 0),
        (said(asked(FLIES), "Ribbit."), 0),
        (said("NO"), 0),
        ([], 0),
    ],
)
def test_a_frog_earns_what_a_question_tells(
    animals: Problem, completion: Any, reward: float
) -> None:
    found = TrlReward(animals)(
        prompts=["?"],
        completions=[completion],
        completion_ids=[[1]],
        truth=["frog"],
        log_extra=print,
    )
    assert found == [pytest.approx(reward, abs=1e-6)]
    assert type(found[0]) is float


def test_a_dialogue_earns_the_sum_of_its_turns_and_the_prompt_counts(animals: Problem) -> None:
    reward = TrlReward(animals, cost=0.25)
    dialogue = said(asked(FLIES), "no", asked(LEGS), "4")
    (whole,) = reward(["?"], [dialogue], truth=["frog"])
    (first,) = reward(["?"], [dialogue[:2]], truth=["frog"])
    (second,) = reward([dialogue[:2]], [dialogue[2:]], truth=["frog"])
    assert first == pytest.approx(TOLD - 0.25, abs=1e-6)
    assert whole is not None and first is not None
    assert second == pytest.approx(whole - first, abs=1e-5)
    (again,) = reward([dialogue[:2]], [dialogue[:2]], truth=["frog"])
    assert again == 0


@pytest.mark.parametrize(
    "completion",
    [
        "[QUESTION]flies?",
        "flies?[/QUESTION]",
        "[QUESTION]flies?[/ANSWER]",
        asked("Is it \N{FROG FACE}?"),
        asked(FLIES) + "[ANSWER]no[/ANSWER]",
        "[ANSWER]no[/ANSWER]",
        asked(FLIES) + asked(LEGS),
        "[QUESTION somebody]flies?[/QUESTION]",
        said(asked(FLIES), "no", asked(FLIES), "no"),
        said(asked(FLIES) + "[ANSWER]no[/ANSWER]"),
        ["no message"],
        None,
        3.5,
        "[QUESTION]" * 20_000,
    ],
)
def test_bad_completions_have_a_reward_of_their_own(animals: Problem, completion: Any) -> None:
    reward = TrlReward(animals, malformed=-1.5, cost=0.1)
    assert reward(["?"], [completion], truth=["frog"]) == [-1.5]
    if not isinstance(completion, list):
        found = VerlReward(animals, malformed=-1.5)("any", completion, "frog", {"num_turns": 2})
        assert found == {"score": -1.5, "gain": 0, "questions": 0, "malformed": 1}


def test_verl_counts_answers_only_where_they_are_the_users(animals: Problem) -> None:
    text = asked(FLIES) + " [ANSWER]no[/ANSWER]"
    found = VerlReward(animals, answers=True, cost=0.5)("animals", text, "frog", extra_info=None)
    assert found["score"] == pytest.approx(TOLD - 0.5, abs=1e-6)
    assert (found["questions"], found["malformed"]) == (1, 0)
    assert VerlReward(animals)("animals", text, "frog")["malformed"] == 1


def test_rows_choose_their_problem_and_leave_other_rows_alone(animals: Problem) -> None:
    headache = load_packaged("headache")
    both = {"animals": animals, "headache": headache}
    reward = TrlReward(both, truth="goal", problem="about")
    rows = {"goal": ["frog", None, "bat"], "about": ["animals", None, "animals"]}
    found = reward(["?"] * 3, [asked(FLIES)] * 3, **rows)
    assert found[1] is None
    assert found[0] == pytest.approx(EXPECTED, abs=1e-6)
    with pytest.raises(UnusableReward, match=r"about is 'animls'\. Did you mean 'animals'"):
        reward(["?"], ["NO"], goal=["frog"], about=["animls"])
    with pytest.raises(UnusableReward, match="data_source is 'x'"):
        VerlReward(both)("x", "NO", "frog")


def test_truths_are_values_answers_or_mappings(animals: Problem) -> None:
    reward = ExactReward(animals)
    turn = [Turn(FLIES, "", "no")]
    for truth in ("frog", {"name": "frog", "other": None}, json.dumps({"name": "frog"})):
        assert reward.score(turn, truth).gain == pytest.approx(TOLD, abs=1e-6)
    headache = load_packaged("headache")
    assert headache.answers is not None
    question = headache.questions[0]
    found = [
        ExactReward(headache).score([Turn(question.text)], answer)
        for answer in headache.answers.names
    ]
    assert all(not scored.malformed and scored.gain >= 0 for scored in found)


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ("frg", "Did you mean 'frog'"),
        (None, "The truth is None"),
        (7, "The truth is 7"),
        ({}, "names no dimension"),
        ({"nam": "frog"}, "Did you mean 'name'"),
        ({"name": ["frog"]}, "The truth of 'name' is"),
        ("{", "is not JSON"),
    ],
)
def test_truths_that_the_problem_does_not_have_are_refused(
    animals: Problem, truth: object, message: str
) -> None:
    with pytest.raises(UnusableReward, match=message):
        VerlReward(animals)("any", "NO", truth)


def test_wrong_set_ups_are_refused_by_name(animals: Problem) -> None:
    for name in ("cost", "malformed", "least"):
        for bad in (math.nan, math.inf, "1", True):
            with pytest.raises(UnusableReward, match=f"{name} is"):
                TrlReward(animals, **{name: bad})
    with pytest.raises(UnusableReward, match="no problems"):
        VerlReward({})
    with pytest.raises(UnusableReward, match="str is no problem"):
        VerlReward("headache")  # type: ignore[arg-type]
    reward = TrlReward(animals)
    with pytest.raises(UnusableReward, match="no column 'truth'"):
        reward(["?"], ["NO"])
    with pytest.raises(UnusableReward, match="one entry for each of 2"):
        reward(["?"] * 2, ["NO"] * 2, truth=["frog"])
    with pytest.raises(UnusableReward, match="1 prompts for 2"):
        reward(["?"], ["NO"] * 2, truth=["frog"] * 2)
    assert reward([], [], truth=[]) == []


def test_an_answer_that_rules_out_the_truth_costs_a_finite_reward() -> None:
    problem = make_problem(
        {
            "name": "coin",
            "prompt": "Which side?",
            "dimensions": [{"name": "side", "values": ["heads", "tails"], "prior": [1, 0]}],
            "target": "side",
            "questions": [
                {
                    "text": "Heads?",
                    "choices": ["no", "yes"],
                    "given": {"side": {"heads": [0.5, 0.5], "tails": [1, 0]}},
                }
            ],
        }
    )
    with pytest.raises(UnusableReward, match="excludes the truth 'tails'"):
        ExactReward(problem).score([], "tails")
    columns = {"flies": ("no", "yes")}
    sure = KnowledgeTable("name", ("frog", "bat"), columns).to_problem(noise=0)
    assert ExactReward(sure, least=-7).score([Turn(FLIES, "", "yes")], "frog").gain == -7


def test_users_are_named_where_there_are_several() -> None:
    table = {"side": {"heads": [0.9, 0.1], "tails": [0.1, 0.9]}}
    problem = make_problem(
        {
            "name": "coin",
            "prompt": "Which side?",
            "users": ["Ann", "Bo"],
            "dimensions": [{"name": "side", "values": ["heads", "tails"]}],
            "target": "side",
            "questions": [
                {"text": "Tails?", "choices": ["no", "yes"], "ask": ["Ann"], "given": table}
            ],
        }
    )
    for text, good in (("[QUESTION ann]", True), ("[QUESTION Bo]", False), ("[QUESTION]", False)):
        found = VerlReward(problem)("coin", f"{text}Tails?[/QUESTION]", "heads")
        assert (found["malformed"] == 0) == good


def test_parts_of_messages_are_read_and_stray_answers_are_not() -> None:
    parts = [{"type": "text", "text": asked(FLIES)}, {"type": "image"}]
    messages = [{"role": "assistant", "content": parts}, {"role": "tool", "content": "no"}]
    assert read_messages([*messages, {"role": "user", "content": None}]) == [Turn(FLIES, "", "no")]
    assert read_messages([{"role": "system", "content": asked(FLIES)}]) == []
    with pytest.raises(Malformed, match="answer without a question"):
        read_text("[ANSWER]no[/ANSWER]", answers=True)
