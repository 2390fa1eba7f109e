"""Verifier: a second look at every table, and nothing but the tables."""

import asyncio
from typing import Any

import pytest

from balar_core.dialogue import (
    Cell,
    CellTable,
    Dimension,
    ElicitedLikelihoods,
    ElicitLikelihoods,
    ElicitPriors,
    Need,
    ProposedQuestions,
    ProposeQuestions,
    Question,
    Reply,
    User,
)
from balar_core.labels import Table
from llm_oracles.elicitation import UnusableReply
from llm_oracles.llm_oracle import LLMOracle
from llm_oracles.verifier import Verifier
from tests.model_world import WorldModel

CAUSE = Dimension("cause", ("thirst", "lice"))
SOIL = Question("How is the soil?", ("dry", "wet"))
CELL = Cell(0, "you", "cause")
NEED = ElicitLikelihoods(
    "p", "c", (User("you"),), (CAUSE,), (SOIL,), (0,), (CELL,), ("likely", "unlikely")
)
GIVEN: Table = (("likely", "unlikely"), ("likely", "unlikely"))


class Gives:
    """An oracle that always gives the same reply."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    async def fulfil(self, need: Need) -> Reply:
        return self.reply


def tables(table: Table | None) -> ElicitedLikelihoods:
    return ElicitedLikelihoods((CellTable(0, "you", "cause", table),))


def verified(table: Table | None, *corrections: list[dict[str, str]]) -> tuple[Reply, WorldModel]:
    replies = iter(corrections)

    def check(purpose: str, data: Any, reply: Any) -> Any:
        return {"reason": "", "corrections": next(replies)}

    model = WorldModel(check)
    return asyncio.run(Verifier(Gives(tables(table)), model).fulfil(NEED)), model


def test_cells_that_are_wrong_are_corrected_and_the_others_stay() -> None:
    reply, model = verified(GIVEN, [{"cell": "value_1/choice_0", "label": "unlikely"}])
    assert reply == tables((("likely", "unlikely"), ("unlikely", "unlikely")))
    assert model.data("verify")[0]["given"]["value_1/choice_0"] == "likely"
    assert "> `person` will be asked" in model.requests[0].messages[0].text


def test_a_table_without_mistakes_stays_and_costs_one_call() -> None:
    reply, model = verified(GIVEN, [])
    assert reply == tables(GIVEN)
    assert len(model.requests) == 1


@pytest.mark.parametrize("table", [None, ((0.5, 0.5), (0.1, 0.9))])
def test_tables_without_labels_are_not_checked(table: Table | None) -> None:
    reply, model = verified(table)
    assert reply == tables(table)
    assert model.requests == []


@pytest.mark.parametrize(
    "bad",
    [
        [{"cell": "value_7/choice_0", "label": "likely"}],
        [{"cell": "value_0/choice_0", "label": "perhaps"}],
        [{"cell": "value_0/choice_0", "label": "unlikely"}] * 2,
    ],
)
def test_corrections_that_fit_nothing_are_never_applied(bad: list[dict[str, str]]) -> None:
    reply, model = verified(GIVEN, bad, [])
    assert reply == tables(GIVEN)
    assert len(model.requests) == 2
    with pytest.raises(UnusableReply):
        verified(GIVEN, bad, bad, bad)


def test_proposals_pass_unchecked() -> None:
    model = WorldModel()
    need = ProposeQuestions("p", "c", (User("you"),), (CAUSE,), (), (), 3, 2)
    reply = ProposedQuestions((SOIL,))
    assert asyncio.run(Verifier(Gives(reply), model).fulfil(need)) == reply
    assert model.requests == []


def test_every_table_of_a_model_is_checked_once() -> None:
    filling, checking = WorldModel(), WorldModel(lambda *_: {"corrections": []})
    oracle = Verifier(LLMOracle(filling), checking)
    need = ElicitPriors("p", "c", (CAUSE, Dimension("place", ("sun", "shade"))), ("high", "low"))
    asyncio.run(oracle.fulfil(need))
    assert [len(data["given"]) for data in checking.data("verify")] == [2, 2]
    assert oracle.progress.done == 2
