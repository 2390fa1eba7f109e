"""SimulatedUser: answers from what only the user knows."""

import asyncio
from typing import Any

import pytest

from balar_core.dialogue import Answered, Ask, Conclude, Need, Question, User
from balar_core.errors import BalarError
from llm_oracles.elicitation import UnusableReply
from llm_oracles.simulated_user import SimulatedUser
from tests.model_world import WorldModel

ASK = Ask(Question("Where were you?", ("home", "away")), 0, User("Ann", "a baker"), 0.1, (0.5, 0.5))


def says(*replies: str) -> WorldModel:
    left = iter(replies)

    def speak(purpose: str, data: Any, reply: Any) -> Any:
        return {"reply": next(left)}

    return WorldModel(speak)


def test_the_reply_is_free_text_from_private_knowledge() -> None:
    model = says(" At the mill. ")
    user = SimulatedUser(model, "Ann was at the mill.", preset="detective")
    assert asyncio.run(user.fulfil(ASK)) == Answered(reply="At the mill.")
    assert model.data("user") == [
        {
            "person": {"name": "Ann", "about": "a baker"},
            "private": "Ann was at the mill.",
            "question": "Where were you?",
            "choices": ["home", "away"],
        }
    ]
    assert "culprit" in model.requests[0].messages[0].text
    assert user.progress.done == 1


def test_an_empty_reply_is_asked_for_again_and_then_refused() -> None:
    model = says("", "Home.")
    assert asyncio.run(SimulatedUser(model, "").fulfil(ASK)) == Answered(reply="Home.")
    with pytest.raises(UnusableReply, match="asked 1 times for user"):
        asyncio.run(SimulatedUser(says(" "), "", repairs=0).fulfil(ASK))


def test_a_user_answers_questions_and_nothing_else() -> None:
    need: Need = Conclude("p", "c", (), 0.5, None, "stopped", ())
    with pytest.raises(BalarError, match="'conclude'"):
        asyncio.run(SimulatedUser(says(), "").fulfil(need))
