"""The bounded probe loop: never more probes than the budget, whatever it is told."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import errors
from balar_core.probing import (
    END_REASONS,
    OUTCOMES,
    AnsweredQuery,
    CallTool,
    InferredIntent,
    IntentFrame,
    Json,
    Policy,
    Probing,
    Settings,
    Setup,
    StopProbing,
    Tool,
    ToolCall,
    ToolFailed,
    ToolRejected,
    ToolReturned,
    from_data,
    to_data,
)

MOOD, PLAN = Tool("mood", "how somebody feels"), Tool("plan", cost=2.5)
SECRET = Tool("secret", reveals=("private.goal",))
TOOLS = (MOOD, PLAN, SECRET)


def setup(**changes: object) -> Setup:
    values = {"query": "Where is Ann?", "tools": TOOLS, "policy": Policy(deny=("secret",))}
    return Setup(**{**values, **changes})  # type: ignore[arg-type]


def begun(gap: float = 0.5, **changes: object) -> Probing:
    """A loop that is about to plan its first probe."""
    frame = IntentFrame("where Ann is", ("has she time?",), gap)
    return Probing.start(setup(**changes)).tell(InferredIntent(frame))


def call(tool: str, **arguments: object) -> CallTool:
    return CallTool(ToolCall.of(tool, **arguments), f"to know the {tool}")


CALM = ToolReturned(Json.of("calm"))


class TestTheLoop:
    def test_probes_come_before_the_answer_and_stop_at_the_budget(self) -> None:
        p = begun(0.5)
        assert (p.budget, p.need.left) == (2, 2)
        p = p.tell(call("mood", of="Ann")).tell(CALM)
        assert p.need.kind == "plan_probe"
        assert p.need.left == 1
        assert [probe.output.value for probe in p.need.trace] == ["calm"]
        p = p.tell(call("plan")).tell(ToolReturned(Json.of({"next": ["tea"]})))
        assert (p.need.kind, p.ended) == ("answer_query", "budget_spent")
        assert p.need.trace == p.trace
        p = p.tell(AnsweredQuery("She is in the cafe.", alert="she looks calm"))
        assert p.finished
        assert p.answer.alert == "she looks calm"
        assert (p.spent, p.cost) == (2, 3.5)
        assert p.counts == dict.fromkeys(OUTCOMES, 0) | {"returned": 2}

    @pytest.mark.parametrize(
        ("gap", "most", "budget"),
        [(0.19, 5, 0), (0.2, 5, 1), (0.6, 5, 3), (0.8, 5, 5), (0.8, 3, 3), (1.0, 0, 0)],
    )
    def test_budget_is_that_of_the_gap_under_the_cap(
        self, gap: float, most: int, budget: int
    ) -> None:
        p = begun(gap, settings=Settings(max_probes=most))
        assert p.budget == budget
        assert (p.need.kind == "answer_query") == (budget == 0)
        assert p.ended == ("" if budget else "no_budget")

    def test_constant_map_gives_every_valid_frame_the_same_budget(self) -> None:
        assert begun(0.0, settings=Settings(thresholds=(), budgets=(3,))).budget == 3

    def test_planner_sees_the_allowed_tools_the_frame_and_the_trace(self) -> None:
        p = begun()
        assert p.need.tools == (MOOD, PLAN)
        assert p.need.frame is p.frame
        assert Probing.start(setup()).need.tools == (MOOD, PLAN)

    def test_planner_may_stop_early(self) -> None:
        p = begun().tell(call("mood")).tell(CALM).tell(StopProbing("enough"))
        assert (p.ended, p.spent, p.need.kind) == ("planner", 1, "answer_query")

    def test_loop_may_be_stopped_from_outside_at_any_time_before_the_answer(self) -> None:
        start = Probing.start(setup())
        assert start.tell(StopProbing()).ended == "stopped"
        running = begun().tell(call("mood"))
        stopped = running.tell(StopProbing())
        assert stopped.ended == "stopped"
        assert [(p.outcome, p.error) for p in stopped.trace] == [("failed", "It was stopped.")]
        with pytest.raises(errors.UnexpectedReply):
            stopped.tell(StopProbing())

    def test_last_probe_may_be_stopped_too(self) -> None:
        assert begun(0.2).tell(call("mood")).tell(StopProbing()).ended == "stopped"


class TestRefusals:
    def test_denied_tool_never_runs_and_costs_nothing(self) -> None:
        p = begun().tell(call("secret", of="Ann"))
        assert p.need.kind == "plan_probe"
        assert (p.spent, p.cost, p.counts["denied"]) == (0, 0, 1)
        assert "policy" in p.trace[0].error

    def test_unknown_and_repeated_calls_are_counted_and_run_nothing(self) -> None:
        p = begun(0.9).tell(call("moood")).tell(call("mood", of="Ann")).tell(CALM)
        p = p.tell(call("mood", of="Ann"))
        assert (p.counts["unknown"], p.counts["repeated"], p.counts["returned"]) == (1, 1, 1)
        assert p.spent == 1
        p = p.tell(call("mood", of="Bob"))
        assert p.need.kind == "run_tool"

    def test_failed_call_is_a_probe_and_rejected_arguments_are_not(self) -> None:
        p = begun(0.5).tell(call("mood")).tell(ToolFailed("no connection"))
        assert (p.spent, p.cost) == (1, 1)
        p = p.tell(call("plan", x=1)).tell(ToolRejected("x is not known"))
        assert (p.spent, p.cost, p.counts["rejected"]) == (1, 1, 1)
        assert p.tell(call("mood")).counts["repeated"] == 1

    def test_too_many_refusals_end_the_loop(self) -> None:
        p = begun(0.9, settings=Settings(max_refusals=2)).tell(call("secret")).tell(call("nothing"))
        assert (p.ended, p.need.kind, p.spent) == ("refusals", "answer_query", 0)

    def test_loop_without_any_allowed_tool_goes_on_to_the_answer(self) -> None:
        assert begun(policy=Policy(allow=())).ended == "nothing_allowed"
        assert begun(tools=()).ended == "nothing_allowed"

    @pytest.mark.parametrize(
        ("policy", "allowed"),
        [
            (Policy(), ["mood", "plan", "secret"]),
            (Policy(allow=("MOOD", "s*")), ["mood", "secret"]),
            (Policy(allow=("mood",), deny=("mood",)), []),
            (Policy(deny=("*",)), []),
            (Policy(withhold=("private.*",)), ["mood", "plan"]),
            (Policy(withhold=("public.*",)), ["mood", "plan", "secret"]),
        ],
    )
    def test_denying_beats_allowing(self, policy: Policy, allowed: list[str]) -> None:
        assert [tool.name for tool in setup(policy=policy).allowed] == allowed


class TestFrames:
    @pytest.mark.parametrize(
        "change",
        [
            {"gap": math.nan},
            {"gap": math.inf},
            {"gap": True},
            {"gap": "0.7"},
            {"gap": 1.1},
            {"gap": -0.1},
            {"gap": None},
            {"confidence": math.nan},
            {"confidence": 2},
            {"alert": "false"},
            {"alert": 1},
            {"literal_need": " "},
            {"literal_need": None},
            {"implicit_needs": "one text"},
            {"implicit_needs": [1]},
            {"recommended_probes": ["mood", "Mood"]},
            {"recommended_probes": "mood"},
            {"surprise": 1},
            {"rationale": "\ud800"},
        ],
    )
    def test_invalid_frame_fails_closed_and_is_flagged(self, change: dict[str, object]) -> None:
        reply = InferredIntent.of({"literal_need": "where Ann is", "gap": 0.9, **change})
        p = Probing.start(setup()).tell(reply)
        assert reply.frame is None
        assert (p.budget, p.ended, p.need.kind) == (0, "invalid_frame", "answer_query")
        assert next(iter(change)) in p.problem.replace(" ", "_")
        assert p.problem == reply.problem != ""

    @pytest.mark.parametrize("data", [{}, [], None, "frame", {"literal_need": "x"}])
    def test_what_is_no_frame_fails_closed(self, data: object) -> None:
        assert Probing.start(setup()).tell(InferredIntent.of(data)).ended == "invalid_frame"

    def test_frame_that_recommends_an_unknown_tool_fails_closed(self) -> None:
        frame = IntentFrame("where Ann is", gap=0.9, recommended_probes=("mood", "moood"))
        p = Probing.start(setup()).tell(InferredIntent(frame))
        assert (p.budget, p.ended, p.frame) == (0, "invalid_frame", None)
        assert "'moood'" in p.problem

    def test_frame_that_is_not_sure_of_itself_is_taken_literally(self) -> None:
        frame = IntentFrame("where Ann is", gap=0.9, confidence=0.3)
        p = Probing.start(setup(settings=Settings(min_confidence=0.5)))
        assert p.tell(InferredIntent(frame)).ended == "unsure"
        assert p.tell(InferredIntent(frame)).budget == 0

    def test_valid_frame_survives_json(self) -> None:
        frame = IntentFrame("where", ("a", "b"), 0.7, ("mood",), True, 0.4, "why not")
        assert IntentFrame.from_data(json.loads(json.dumps(to_data(frame)))) == frame

    def test_constructor_refuses_what_the_reader_refuses(self) -> None:
        for bad in (math.nan, True, "0.5", 1.5):
            with pytest.raises(errors.InvalidFrame, match="gap"):
                IntentFrame("x", gap=bad)  # type: ignore[arg-type]


class TestValues:
    @pytest.mark.parametrize(
        "make",
        [
            lambda: Tool(""),
            lambda: Tool("t", parameters=["no object"]),
            lambda: Tool("t", parameters={"type": {1, 2}}),
            lambda: Tool("t", cost=0),
            lambda: Tool("t", cost=math.inf),
            lambda: Tool("t", cost=True),
            lambda: Tool("t", reveals="private"),
            lambda: ToolCall(""),
            lambda: ToolCall("t", [1]),
            lambda: ToolCall("t", {"x": math.nan}),
            lambda: Policy(deny="secret"),
            lambda: Setup("q", tools=(MOOD, Tool("Mood"))),
            lambda: Setup("q", tools=("mood",)),
        ],
    )
    def test_malformed_tools_calls_and_policies_are_refused(self, make) -> None:
        with pytest.raises(errors.InvalidTool):
            make()

    @pytest.mark.parametrize(
        "change",
        [
            {"max_probes": -1},
            {"max_probes": True},
            {"max_refusals": 0},
            {"min_confidence": 2},
            {"thresholds": (0.5,)},
            {"budgets": (5, 3, 2, 1, 0)},
        ],
    )
    def test_settings_out_of_range_are_refused(self, change: dict[str, object]) -> None:
        with pytest.raises(errors.InvalidSetting):
            Settings(**change)

    def test_calls_are_the_same_when_name_and_arguments_are(self) -> None:
        one, other = ToolCall.of("t", a=1, b=[2]), ToolCall("t", {"b": [2], "a": 1})
        assert one == other
        assert len({one, other, ToolCall.of("t", a=1)}) == 2

    def test_what_cannot_be_written_does_not_get_into_a_trace(self) -> None:
        for make in (
            lambda: ToolReturned(Json.of("\ud800")),
            lambda: ToolReturned(Json('"\\ud800"')),
            lambda: ToolFailed("\ud800"),
            lambda: ToolRejected("\ud800"),
            lambda: StopProbing("\ud800"),
            lambda: InferredIntent(None, "\ud800"),
            lambda: AnsweredQuery("\ud800"),
        ):
            with pytest.raises(errors.InvalidInput, match="surrogate"):
                make()

    def test_frozen_json_cannot_be_changed_through_its_value(self) -> None:
        frozen = Json.of({"a": [1]})
        frozen.value["a"].append(2)
        assert frozen.value == {"a": [1]}
        with pytest.raises(errors.InvalidInput, match="JSON"):
            Json("{")
        assert Json(' {"a":\n1.0}') == Json.of({"a": 1.0})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
FIELDS = st.dictionaries(
    st.sampled_from([field.name for field in dataclasses.fields(IntentFrame)]),
    JSON | st.floats(0, 1),
)
REPLIES = st.sampled_from(
    [
        call("mood"),
        call("mood", of="Ann"),
        call("plan"),
        call("secret"),
        call("nothing"),
        CALM,
        ToolReturned(Json.of(None)),
        ToolFailed("it broke"),
        ToolRejected("wrong arguments"),
        StopProbing("enough"),
        AnsweredQuery("so it is"),
        InferredIntent.of({}),
    ]
)


class TestTheFold:
    @given(data=JSON | FIELDS)
    def test_whatever_somebody_calls_a_frame_buys_probes_only_if_it_is_one(self, data) -> None:
        reply = InferredIntent.of(data)
        p = Probing.start(setup()).tell(reply)
        assert (reply.frame is None) == bool(reply.problem)
        assert reply.frame is None or 0 <= reply.frame.gap <= 1
        assert p.budget == 0 or p.frame is not None
        assert Probing.from_json(p.to_json()) == p

    @given(data=st.data())
    def test_damage_anywhere_in_a_file_is_one_kind_of_error_or_none(self, data) -> None:
        p = begun().tell(call("mood", of="Ann")).tell(CALM).tell(StopProbing("enough"))
        saved = json.loads(p.to_json())
        place = saved
        while isinstance(place, dict | list) and place:
            last = place
            key = data.draw(
                st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place)))
            )
            place = place[key]
            if data.draw(st.booleans()):
                break
        last[key] = data.draw(JSON)
        try:
            again = Probing.from_json(json.dumps(saved))
        except errors.CorruptProbing as error:
            assert str(error)
        else:
            assert again.spent <= again.budget

    @given(gap=st.floats(0, 1), told=st.lists(REPLIES, max_size=20))
    def test_laws_hold_whatever_the_loop_is_told(self, gap: float, told: list) -> None:
        p = begun(gap)
        for reply in told:
            before = p
            try:
                p = p.tell(reply)
            except errors.UnexpectedReply:
                assert p == before
                assert p.need == before.need
                continue
            assert p.spent <= p.budget <= 5
            assert before.need is not None
        ran = [probe for probe in p.trace if probe.ran]
        assert all(probe.call.tool in ("mood", "plan") for probe in ran)
        assert len({probe.call for probe in ran}) == len(ran)
        assert p.cost == sum({"mood": 1.0, "plan": 2.5}[probe.call.tool] for probe in ran)
        assert [probe.step for probe in p.trace] == list(range(len(p.trace)))
        assert sum(p.counts.values()) == len(p.trace)
        assert p.ended == "" or p.ended in END_REASONS
        assert (p.ended == "") == (p.need is not None and p.need.kind in ("plan_probe", "run_tool"))
        again = Probing.from_json(p.to_json())
        assert (again, again.trace, again.need) == (p, p.trace, p.need)
        if p.need is not None:
            assert from_data(json.loads(json.dumps(to_data(p.need)))) == p.need

    def test_telling_leaves_the_old_loop_as_it_was(self) -> None:
        p = begun()
        text = p.to_json()
        assert p.tell(call("mood")).need.call.tool == "mood"
        assert p.tell(call("plan")).need.call.tool == "plan"
        assert p.to_json() == text

    def test_wrong_reply_says_what_is_needed(self) -> None:
        with pytest.raises(errors.UnexpectedReply, match="waiting for 'call_tool' or 'stop_"):
            begun().tell(CALM)
        done = begun(0).tell(AnsweredQuery("so"))
        with pytest.raises(errors.UnexpectedReply, match="has been answered"):
            done.tell(CALM)

    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ("nonsense", "Not JSON"),
            ("{}", "format"),
            ('{"format": "balar-probing", "version": 9}', "version"),
            ('{"format": "balar-probing", "version": 1, "setup": {}}', "'query'"),
            ('{"format": "balar-probing", "version": 1, "setup": {"query": "q"}}', "list"),
        ],
    )
    def test_damaged_file_is_an_error_that_says_where(self, text: str, match: str) -> None:
        with pytest.raises(errors.CorruptProbing, match=match):
            Probing.from_json(text)

    def test_saved_reply_that_does_not_fit_is_named(self) -> None:
        data = json.loads(begun().to_json())
        data["replies"].append(to_data(CALM))
        with pytest.raises(errors.CorruptProbing, match="Reply 1: The loop is waiting"):
            Probing.from_json(json.dumps(data))
        data["replies"][1] = to_data(begun().need)
        with pytest.raises(errors.CorruptProbing, match="Reply 1 is a need"):
            Probing.from_json(json.dumps(data))
