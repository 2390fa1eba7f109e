"""LLMOracle: whole dialogues with a model, and with users who are models or not."""

import asyncio
from typing import Any

import pytest

from balar_core.dialogue import (
    Answered,
    Dialogue,
    ElicitLikelihoods,
    Need,
    ProposeExpansion,
    Reply,
    Settings,
    Setup,
    User,
)
from balar_core.errors import InvalidSetting
from llm_oracles.elicitation import UnfilledCell
from llm_oracles.llm_oracle import LLMOracle, NobodyToAsk
from llm_oracles.oracle import run
from tests.model_world import WorldModel

USERS = (User("Ann", "a neighbour"), User("Ben"))


def setup(**settings: Any) -> Setup:
    small: dict[str, Any] = {
        "max_dimensions": 2,
        "max_values": 3,
        "max_initial_questions": 2,
        "max_choices": 2,
        "max_questions": 2,
        "max_states": 9,
    }
    return Setup(
        "Who broke the window?",
        "A house at noon.",
        USERS,
        answers=("Ann", "Ben", "the wind"),
        settings=Settings(**(small | settings)),
    )


class Says:
    """A user who says the same whatever is asked."""

    def __init__(self, reply: str) -> None:
        self.reply = reply

    async def fulfil(self, need: Need) -> Reply:
        return Answered(reply=self.reply)


@pytest.mark.parametrize(("granularity", "tables", "answers"), [("table", 8, 2), ("row", 24, 6)])
def test_a_dialogue_needs_as_many_calls_as_its_granularity_says(
    granularity: str, tables: int, answers: int
) -> None:
    model = WorldModel()
    oracle = LLMOracle(model, users=Says("I was away."), granularity=granularity)
    dialogue = run(Dialogue.start(setup()), oracle)
    assert dialogue.conclusion is not None
    assert dialogue.conclusion.answer in ("Ann", "Ben", "the wind")
    purposes = [request.purpose for request in model.requests]
    asked = len(dialogue.asked)
    assert {purpose: purposes.count(purpose) for purpose in set(purposes)} == {
        "dimensions": 1,
        "priors": 2 * 3,
        "questions": 1,
        "likelihoods": tables,
        "answers": answers,
        "score": asked,
        "conclusion": 1,
    }
    assert oracle.progress.done == len(purposes)
    assert [said.reply for said in dialogue.conversation] == ["I was away."] * asked


def test_an_expansion_asks_for_priors_tables_and_questions_with_the_conversation() -> None:
    kinds: list[type[Need]] = []
    model = WorldModel()
    oracle = LLMOracle(model, users=Says("no"))
    wide = setup(max_states=100, max_questions=6, alpha=0.01, expand_multiplier=0.0)
    dialogue = run(Dialogue.start(wide), oracle, lambda d, need, reply: kinds.append(type(need)))
    assert ProposeExpansion in kinds
    after = kinds.index(ProposeExpansion)
    assert ElicitLikelihoods in kinds[after:]
    assert len(dialogue.dimensions) > 2
    proposals = model.data("questions")
    assert proposals[0]["conversation"] == []
    assert len(proposals[1]["existing"]) == 2
    assert proposals[1]["aim_at"][0] == "unknown_2"


def test_the_same_model_gives_the_same_dialogue_to_the_last_bit() -> None:
    def once(latency: float) -> str:
        model = WorldModel(latency=latency)
        return run(Dialogue.start(setup()), LLMOracle(model, users=Says("no"))).to_json()

    assert once(0.0) == once(0.01)


def test_every_user_is_asked_by_name_and_a_missing_one_is_named() -> None:
    answering = {"Ann": Says("no"), "Ben": Says("yes")}
    dialogue = run(Dialogue.start(setup()), LLMOracle(WorldModel(), users=answering))
    replies = {said.user: said.reply for said in dialogue.conversation}
    assert replies.items() <= {"Ann": "no", "Ben": "yes"}.items()
    with pytest.raises(NobodyToAsk, match=r"nobody to answer for user '(Ann|Ben)'"):
        run(Dialogue.start(setup()), LLMOracle(WorldModel(), users={}))


def test_a_table_that_cannot_be_filled_stops_the_other_calls_and_names_the_cell() -> None:
    def spoil(purpose: str, data: Any, reply: Any) -> Any:
        if purpose == "likelihoods" and data["person"]["name"] == "Ben":
            reply["labels"] = {cell: "perhaps" for cell in reply["labels"]}
        return reply

    with pytest.raises(UnfilledCell, match="user 'Ben'"):
        run(Dialogue.start(setup()), LLMOracle(WorldModel(spoil), users=Says("no")))


def test_tables_of_one_need_are_filled_at_the_same_time() -> None:
    model = WorldModel(latency=0.05)
    oracle = LLMOracle(model, users=Says("no"))

    async def timed() -> float:
        loop = asyncio.get_running_loop()
        dialogue = Dialogue.start(setup())
        while not any(isinstance(need, ElicitLikelihoods) for need in dialogue.needs):
            for need in dialogue.needs:
                dialogue = dialogue.tell(await oracle.fulfil(need))
        need = next(n for n in dialogue.needs if isinstance(n, ElicitLikelihoods))
        start = loop.time()
        await oracle.fulfil(need)
        return loop.time() - start

    assert asyncio.run(timed()) < 8 * 0.05


def test_an_unknown_granularity_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="table, row"):
        LLMOracle(WorldModel(), granularity="cell")
