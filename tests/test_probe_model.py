"""A language model as inferrer, planner and answerer: what it sees, and what its faults cost."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from balar_core.probing import (
    AnsweredQuery,
    AnswerQuery,
    CallTool,
    InferIntent,
    IntentFrame,
    Json,
    PlanProbe,
    Policy,
    Probe,
    Probing,
    Setup,
    StopProbing,
    Tool,
    ToolCall,
)
from llm_oracles.elicitation import UnusableReply
from llm_oracles.models import (
    ChatModel,
    Completion,
    Malformed,
    NotAuthorised,
    Refused,
    Request,
    Truncated,
)
from llm_oracles.probes import Crew, ModelProber, Toolbox, explore

from .chat_server import ChatServer

FRAME = {
    "literal_need": "where Ann is",
    "implicit_needs": ["whether she may be disturbed"],
    "rationale": "people who ask where somebody is often want to talk to them",
    "gap": 0.4,
    "recommended_probes": ["mood"],
    "alert": False,
    "confidence": 0.8,
}
CALL = {
    "reason": "she may be busy",
    "action": "call",
    "tool": "mood",
    "arguments": '{"agent":"Ann"}',
}
STOP = {"reason": "enough", "action": "stop", "tool": "mood", "arguments": "{}"}
ANSWER = {"text": "In the cafe, and calm.", "alert": ""}
TOOLS = (Tool("mood", "how somebody feels", cost=2.0), Tool("plan"))


class Script:
    """A model that gives prepared replies, or raises prepared errors."""

    def __init__(self, replies: Iterable[Any]) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return Completion(json.dumps(reply), reply)

    def seen(self, number: int = -1) -> Any:
        """The data that a request showed to the model."""
        return json.JSONDecoder().raw_decode(self.requests[number].messages[-1].text)[0]


def infer(*replies: Any) -> tuple[Script, Any]:
    model = Script(replies)
    need = InferIntent("Where is Ann?", "It is noon.", TOOLS)
    return model, asyncio.run(ModelProber(model, repairs=1).infer(need))


def plan(*replies: Any, trace: tuple[Probe, ...] = ()) -> tuple[Script, Any]:
    model = Script(replies)
    frame = IntentFrame.from_data(FRAME)
    need = PlanProbe("Where is Ann?", "It is noon.", TOOLS, frame, trace, 2)
    return model, asyncio.run(ModelProber(model, repairs=1).plan(need))


class TestInferring:
    def test_frame_is_read_strictly_from_the_reply(self) -> None:
        model, reply = infer(FRAME)
        assert reply.frame == IntentFrame.from_data(FRAME)
        assert model.seen() == {
            "query": "Where is Ann?",
            "context": "It is noon.",
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": {"type": "object"},
                    "cost": tool.cost,
                }
                for tool in TOOLS
            ],
        }
        schema = model.requests[0].schema
        assert schema is not None
        assert list(schema["properties"]) == list(FRAME)
        assert schema["properties"]["recommended_probes"]["maxItems"] == 2

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"gap": 1.5}, "gap is 1.5"),
            ({"gap": True}, "frame.gap"),
            ({"gap": "0.4"}, "frame.gap"),
            ({"alert": "false"}, "frame.alert"),
            ({"recommended_probes": ["moood"]}, "'moood'; the tools are mood, plan"),
            ({"recommended_probes": ["mood", "mood"]}, "duplicates"),
        ],
    )
    def test_bad_frame_is_asked_again_with_the_complaint_and_then_fails_closed(
        self, change: dict[str, Any], complaint: str
    ) -> None:
        model, reply = infer({**FRAME, **change}, FRAME)
        assert reply.frame is not None
        assert complaint in model.requests[1].messages[-1].text
        model, reply = infer({**FRAME, **change}, {**FRAME, **change})
        assert reply.frame is None
        assert complaint in reply.problem
        p = Probing.start(Setup("Where is Ann?", tools=TOOLS)).tell(reply)
        assert (p.budget, p.ended) == (0, "invalid_frame")

    @pytest.mark.parametrize("error", [Truncated("cut"), Refused("no")])
    def test_model_that_declines_gets_no_probes(self, error: Exception) -> None:
        _, reply = infer(error)
        assert (reply.frame, reply.problem) == (None, str(error))

    def test_server_that_wants_a_key_is_an_error_and_no_frame(self) -> None:
        with pytest.raises(NotAuthorised):
            infer(NotAuthorised("no key", status=401))


class TestPlanning:
    def test_call_is_read_with_its_arguments(self) -> None:
        trace = (
            Probe(0, ToolCall.of("plan"), "r", "returned", Json.of("x" * 5000)),
            Probe(1, ToolCall.of("mood"), "r", "rejected", error="agent is missing"),
        )
        model, reply = plan(CALL, trace=trace)
        assert reply == CallTool(ToolCall.of("mood", agent="Ann"), "she may be busy")
        seen = model.seen()
        assert seen["calls_left"] == 2
        assert seen["frame"]["implicit_needs"] == ["whether she may be disturbed"]
        assert len(seen["trace"][0]["output"]) < 4100
        assert seen["trace"][1] == {
            "tool": "mood",
            "arguments": {},
            "outcome": "rejected",
            "error": "agent is missing",
        }

    def test_stop_is_read(self) -> None:
        assert plan(STOP)[1] == StopProbing("enough")

    @pytest.mark.parametrize(
        "bad",
        [
            {**CALL, "arguments": "agent=Ann"},
            {**CALL, "arguments": "[1]"},
            {**CALL, "action": "maybe"},
            {**CALL, "tool": ""},
            {"action": "call"},
            Malformed("no JSON"),
        ],
    )
    def test_plan_that_cannot_be_used_is_asked_again_and_then_ends_the_probes(
        self, bad: Any
    ) -> None:
        assert isinstance(plan(bad, CALL)[1], CallTool)
        assert isinstance(plan(bad, bad)[1], StopProbing)

    def test_unknown_tool_is_left_to_the_loop_which_counts_it(self) -> None:
        _, reply = plan({**CALL, "tool": "moood"})
        assert reply.call.tool == "moood"


class TestAnswering:
    def test_answer_sees_what_the_probes_returned(self) -> None:
        model = Script([ANSWER])
        probe = Probe(0, ToolCall.of("mood"), "r", "returned", Json.of({"now": "calm"}))
        need = AnswerQuery("q", "c", IntentFrame.from_data(FRAME), (probe,), "budget_spent")
        reply = asyncio.run(ModelProber(model).answer(need))
        assert reply == AnsweredQuery("In the cafe, and calm.")
        assert model.seen()["trace"][0]["output"] == {"now": "calm"}
        assert model.seen()["implicit_needs"] == FRAME["implicit_needs"]

    def test_query_without_a_frame_is_answered_literally(self) -> None:
        model = Script([{"text": " ", "alert": ""}, ANSWER])
        reply = asyncio.run(
            ModelProber(model).answer(AnswerQuery("q", "", None, (), "invalid_frame"))
        )
        assert reply.text == ANSWER["text"]
        assert (model.seen()["literal_need"], model.seen()["implicit_needs"]) == ("q", [])
        with pytest.raises(UnusableReply):
            asyncio.run(
                ModelProber(Script([{}]), repairs=0).answer(
                    AnswerQuery("q", "", None, (), "stopped")
                )
            )


def test_whole_loop_runs_over_http_and_never_runs_a_denied_tool() -> None:
    ran = []

    async def mood(agent: str) -> str:
        """How somebody feels."""
        ran.append(agent)
        return "calm"

    async def secret() -> str:
        raise AssertionError("a denied tool was run")

    toolbox = Toolbox()
    toolbox.add(mood)
    toolbox.add(secret)
    denied = {**CALL, "tool": "secret", "arguments": "{}"}
    wrong = {**CALL, "arguments": "{}"}
    script = [json.dumps(reply) for reply in (FRAME, denied, wrong, CALL, STOP, ANSWER)]
    with ChatServer(script) as server:

        async def play() -> Probing:
            prober = ModelProber(ChatModel(server.url, "m"))
            setup = Setup("Where is Ann?", tools=toolbox.tools, policy=Policy(deny=("secret",)))
            crew = Crew(prober.infer, prober.plan, toolbox.run, prober.answer)
            done = await explore(Probing.start(setup), crew)
            assert prober.progress.done == 6
            return done

        done = asyncio.run(play())
    shown = [json.loads(body["messages"][1]["content"]) for body in server.bodies]
    assert [[tool["name"] for tool in data["tools"]] for data in shown[:-1]] == [["mood"]] * 5
    assert ran == ["Ann"]
    assert [probe.outcome for probe in done.trace] == ["denied", "rejected", "returned"]
    assert (done.budget, done.spent, done.ended) == (2, 1, "planner")
    assert done.answer == AnsweredQuery("In the cafe, and calm.")
