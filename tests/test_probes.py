"""Tools, recorded frames and whole probe loops without a model."""

import asyncio
import datetime
from pathlib import Path
from typing import Any, Literal

import pytest

from balar_core import Question, StateSpace
from balar_core.errors import InvalidSetting, InvalidTool, UnexpectedReply
from balar_core.probing import (
    AnsweredQuery,
    AnswerQuery,
    BeliefPlanner,
    CallTool,
    InferIntent,
    InferredIntent,
    IntentFrame,
    PlanProbe,
    Policy,
    Probing,
    Reading,
    RunTool,
    Setup,
    StopProbing,
    Tool,
    ToolCall,
    ToolFailed,
    ToolRejected,
    ToolReturned,
)
from llm_oracles.probes import Crew, RecommendedPlanner, RecordedFrames, Toolbox, explore
from llm_oracles.recorded import CorruptRecording
from llm_oracles.store import FileTrouble


async def mood(agent: str, when: Literal["now", "then"] = "now") -> dict[str, str]:
    """How somebody feels."""
    return {"agent": agent, "when": when, "mood": "calm"}


async def born(day: datetime.date, names: tuple[str, ...] = ()) -> str:
    return f"{day:%Y} {'+'.join(names)}"


async def now() -> str:
    return "noon"


def run(toolbox: Toolbox, tool: str, **arguments: Any) -> ToolReturned | ToolFailed | ToolRejected:
    return asyncio.run(toolbox.run(RunTool(ToolCall.of(tool, **arguments))))


class TestToolbox:
    def test_signature_becomes_the_schema_of_the_arguments(self) -> None:
        toolbox = Toolbox()
        tool = toolbox.add(mood, cost=2, reveals=["private.mood"])
        assert toolbox.tools == (tool,)
        assert (tool.name, tool.description, tool.cost) == ("mood", "How somebody feels.", 2)
        assert tool.reveals == ("private.mood",)
        schema = tool.parameters.value
        assert schema["required"] == ["agent"]
        assert schema["additionalProperties"] is False
        assert schema["properties"]["when"]["enum"] == ["now", "then"]
        assert tool.needs_arguments
        assert not toolbox.add(now, name="the time", description="Now.").needs_arguments

    def test_arguments_that_fit_run_the_tool(self) -> None:
        toolbox = Toolbox()
        toolbox.add(mood)
        toolbox.add(born)
        returned = run(toolbox, "mood", agent="Ann")
        assert isinstance(returned, ToolReturned)
        assert returned.output.value == {"agent": "Ann", "when": "now", "mood": "calm"}
        returned = run(toolbox, "born", day="2001-02-03", names=["Ann", "Bea"])
        assert isinstance(returned, ToolReturned)
        assert returned.output.value == "2001 Ann+Bea"

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({}, "agent: Missing"),
            ({"agent": 1}, "agent: Input should be a valid string"),
            ({"agent": "Ann", "when": "later"}, "when"),
            ({"agent": "Ann", "extra": 1}, "extra: Unexpected"),
        ],
    )
    def test_arguments_that_do_not_fit_are_rejected_and_nothing_runs(
        self, arguments: dict[str, Any], words: str
    ) -> None:
        ran = []

        async def watched(agent: str, when: Literal["now"] = "now") -> None:
            ran.append(agent)

        toolbox = Toolbox()
        toolbox.add(watched, name="mood")
        reply = run(toolbox, "mood", **arguments)
        assert isinstance(reply, ToolRejected)
        assert words in reply.error
        assert ran == []

    def test_whatever_goes_wrong_in_a_tool_becomes_a_reply(self) -> None:
        async def breaks() -> None:
            raise RuntimeError("out of\norder\udcff")

        async def times_out() -> None:
            raise TimeoutError

        async def sleeps() -> None:
            await asyncio.sleep(60)

        async def strange() -> object:
            return {1, 2}

        async def infinite() -> float:
            return float("inf")

        toolbox = Toolbox(timeout=0.01)
        for function in (breaks, times_out, sleeps, strange, infinite):
            toolbox.add(function)
        errors = []
        for function in (breaks, times_out, sleeps, strange, infinite):
            reply = run(toolbox, function.__name__)
            assert isinstance(reply, ToolFailed)
            errors.append(reply.error)
        assert errors[:3] == [
            "RuntimeError: out of order?",
            "TimeoutError",
            "It took longer than 0.01 s.",
        ]
        assert all("no JSON" in error for error in errors[3:])

    def test_cancelling_goes_through(self) -> None:
        async def sleeps() -> None:
            await asyncio.sleep(60)

        toolbox = Toolbox(timeout=None)
        toolbox.add(sleeps)

        async def cancelled() -> None:
            task = asyncio.create_task(toolbox.run(RunTool(ToolCall("sleeps"))))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())

    def test_what_cannot_be_a_tool_is_refused(self) -> None:
        toolbox = Toolbox()
        toolbox.add(mood)

        def plain() -> None: ...

        async def unknown_type(x: object, y: asyncio.Event) -> None: ...

        async def nameless(x: int, /) -> None: ...

        for function, words in (
            (plain, "async def"),
            (unknown_type, "JSON schema"),
            (nameless, "without a name"),
        ):
            with pytest.raises(InvalidTool, match=words):
                toolbox.add(function)  # type: ignore[arg-type]
        with pytest.raises(InvalidTool, match="already"):
            toolbox.add(now, name="Mood")
        with pytest.raises(InvalidTool, match="no tool 'x'"):
            run(toolbox, "x")
        toolbox.remove("mood")
        assert toolbox.tools == ()
        with pytest.raises(InvalidTool, match="no tool 'mood'"):
            toolbox.remove("mood")
        for bad in (0, -1, float("nan"), float("inf")):
            with pytest.raises(InvalidSetting, match="timeout"):
                Toolbox(timeout=bad)


FRAME = IntentFrame("where Ann is", ("has she time?",), 0.5, ("mood", "time"))


class TestRecordedFrames:
    def test_recording_survives_a_file(self, tmp_path: Path) -> None:
        replies = {
            "Where is Ann?": InferredIntent(FRAME),
            "Wo?\u2028Da": InferredIntent(None, "oh"),
        }
        RecordedFrames(replies).save(tmp_path / "frames.jsonl")
        frames = RecordedFrames.load(tmp_path / "frames.jsonl")
        assert frames.replies == replies
        assert frames.infer(InferIntent("Where is Ann?", "", ())).frame == FRAME

    def test_query_that_was_not_recorded_fails_closed(self) -> None:
        p = Probing.start(Setup("Where?", tools=(Tool("mood"),)))
        p = p.tell(RecordedFrames({}).infer(p.need))  # type: ignore[arg-type]
        assert (p.budget, p.ended) == (0, "invalid_frame")
        assert "recorded" in p.problem

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("nonsense", "Not JSON"),
            ('{"query": "q"}', "'reply'"),
            ('{"query": "q", "reply": {"kind": "stop_probing"}}', "inferred_intent"),
            ('{"query": 1, "reply": {"kind": "inferred_intent", "frame": null}}', "text"),
            ('{"query": "ok", "reply": {"kind": "inferred_intent", "frame": null}}', "Line 1"),
            (
                '{"query": "q", "reply": {"kind": "inferred_intent", "frame": '
                '{"literal_need": "x", "gap": 2}}}',
                "gap is 2",
            ),
        ],
    )
    def test_damaged_line_is_named(self, tmp_path: Path, line: str, words: str) -> None:
        path = tmp_path / "frames.jsonl"
        good = '{"query": "ok", "reply": {"kind": "inferred_intent", "frame": null}}\n'
        path.write_text(f"{good}{line}\n", encoding="utf-8")
        with pytest.raises(CorruptRecording, match=f"frames.jsonl:2: .*{words}"):
            RecordedFrames.load(path)

    def test_file_that_cannot_be_read_or_written_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(CorruptRecording, match="cannot be read"):
            RecordedFrames.load(tmp_path / "none.jsonl")
        (tmp_path / "latin.jsonl").write_bytes(b"\xff\n")
        with pytest.raises(CorruptRecording, match="UTF-8"):
            RecordedFrames.load(tmp_path / "latin.jsonl")
        with pytest.raises(FileTrouble):
            RecordedFrames({}).save(tmp_path / "no folder" / "frames.jsonl")


def answer(need: AnswerQuery) -> AnsweredQuery:
    return AnsweredQuery("; ".join(probe.output.text for probe in need.trace) or "nothing")


class TestLoops:
    def test_recommended_tools_are_called_in_order_with_the_arguments_found(self) -> None:
        toolbox = Toolbox()
        toolbox.add(mood)
        toolbox.add(now, name="time")
        frames = RecordedFrames({"Where is Ann?": InferredIntent(FRAME)})
        planner = RecommendedPlanner(
            lambda tool, need: {"agent": "Ann"} if tool.needs_arguments else {}
        )
        seen = []
        setup = Setup("Where is Ann?", tools=toolbox.tools)
        done = asyncio.run(
            explore(
                Probing.start(setup),
                Crew(frames.infer, planner.plan, toolbox.run, answer),
                on_reply=lambda p, need, reply: seen.append(
                    (need.kind, reply.kind, len(p.replies))
                ),
            )
        )
        assert done.finished
        assert [probe.call.tool for probe in done.trace] == ["mood", "time"]
        assert done.answer is not None
        assert done.answer.text.endswith('"noon"')
        assert [kinds[0] for kinds in seen] == [
            "infer_intent",
            *["plan_probe", "run_tool"] * 2,
            "answer_query",
        ]
        assert Probing.from_json(done.to_json()) == done

    def test_tools_that_need_arguments_are_left_out_where_none_are_known(self) -> None:
        needs = Tool("mood", parameters={"type": "object", "required": ["agent"]})  # type: ignore[arg-type]
        frame = IntentFrame("x", gap=0.9, recommended_probes=("mood", "secret", "time"))
        need = PlanProbe("q", "", (needs, Tool("time")), frame, (), 2)
        plan = RecommendedPlanner().plan
        assert plan(need) == CallTool(ToolCall("time"), "the frame recommends it")
        p = Probing.start(
            Setup("q", tools=(needs, Tool("secret"), Tool("time")), policy=Policy(deny=("secret",)))
        )
        p = p.tell(InferredIntent(frame)).tell(CallTool(ToolCall("time"))).tell(ToolFailed("late"))
        assert isinstance(plan(p.need), StopProbing)  # type: ignore[arg-type]

    def test_belief_sets_the_budget_and_chooses_the_probes(self) -> None:
        toolbox = Toolbox()
        toolbox.add(mood)
        space = StateSpace.of(mood=["calm", "cross"])
        look = Reading(
            ToolCall.of("mood", agent="Ann"),
            Question("How is Ann?", ("calm", "cross")),
            (((0.95, 0.05), (0.05, 0.95)),),
            path=("mood",),
        )
        planner = BeliefPlanner.build(space, [(0.5, 0.5)], [look], implicit=["mood"])
        done = asyncio.run(
            explore(
                Probing.start(Setup("Where is Ann?", tools=toolbox.tools)),
                Crew(planner.infer, planner.plan, toolbox.run, answer),
            )
        )
        assert (done.budget, done.spent, done.ended) == (5, 1, "planner")
        assert planner.gap(done.trace) == pytest.approx(0.286, abs=1e-3)

    def test_parts_may_be_coroutine_functions_and_their_errors_go_on(self) -> None:
        async def infer(need: InferIntent) -> InferredIntent:
            return InferredIntent(FRAME)

        async def wrong(need: PlanProbe) -> Any:
            return InferredIntent(FRAME)

        tools = (Tool("mood"), Tool("time"))
        toolbox = Toolbox()
        with pytest.raises(UnexpectedReply, match="call_tool"):
            asyncio.run(
                explore(
                    Probing.start(Setup("q", tools=tools)), Crew(infer, wrong, toolbox.run, answer)
                )
            )
