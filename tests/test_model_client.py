"""A chat model behind a real server on loopback that behaves, or does not."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from balar_core.errors import BalarError, InvalidSetting
from llm_oracles.models import (
    ChatModel,
    Completion,
    DeadlineExceeded,
    Limits,
    Malformed,
    Message,
    ModelError,
    NotAuthorised,
    Price,
    RateLimited,
    Refused,
    Request,
    RequestRejected,
    RetryPolicy,
    SchemaUnsupported,
    Server,
    TokenScore,
    TransportFailure,
    Truncated,
    Usage,
)
from llm_oracles.models.http import HttpClient
from tests.chat_server import ChatServer, Item, Reply, error, ok, raw
from tests.fake_clock import FakeClock

SCHEMA = {
    "type": "object",
    "properties": {"choice": {"type": "string", "enum": ["c0", "c1"]}},
}
PLAIN = Request((Message("user", "Hello"),))
CHOICE = Request((Message("user", "Which?"),), schema=SCHEMA, purpose="test")
GOOD = '{"choice":"c0"}'
PRICE = Price(prompt=1e6, completion=2e6)  # one and two for each token


def complete(
    script: list[Item], request: Request = CHOICE, **settings: Any
) -> tuple[Completion | ModelError, ChatServer]:
    """The reply, or what went wrong, and the server that was asked."""
    formats = {name: settings.pop(name) for name in ("formats", "replies") if name in settings}
    settings.setdefault("clock", FakeClock())
    with ChatServer(script) as server:
        model = ChatModel(Server(server.url, **settings), "m", **formats)
        try:
            return asyncio.run(model.complete(request)), server
        except ModelError as problem:
            return problem, server


def fails(script: list[Item], kind: type[ModelError], **settings: Any) -> tuple[Any, ChatServer]:
    outcome, server = complete(script, **settings)
    assert type(outcome) is kind, outcome
    return outcome, server


def succeeds(script: list[Item], **settings: Any) -> tuple[Completion, ChatServer]:
    outcome, server = complete(script, **settings)
    assert isinstance(outcome, Completion), outcome
    return outcome, server


# What a good server is asked, and what is made of its reply.


def test_a_request_is_sent_as_the_protocol_wants_it() -> None:
    request = Request(
        (Message("system", "Be brief."), Message("user", "Łódź {0}?")),
        schema=SCHEMA,
        schema_name="pick",
        temperature=0.5,
        seed=7,
        max_tokens=99,
        top_logprobs=2,
    )
    _, server = succeeds([GOOD], request=request, key="sk-planted-key")
    seen = server.seen[0]
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == "Bearer sk-planted-key"
    closed = {**SCHEMA, "additionalProperties": False, "required": ["choice"]}
    assert seen.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Łódź {0}?"},
        ],
        "temperature": 0.5,
        "seed": 7,
        "max_tokens": 99,
        "logprobs": True,
        "top_logprobs": 2,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "pick", "strict": True, "schema": closed},
        },
    }


@pytest.mark.parametrize("formats", [("json_schema",), ("text",)])
def test_properties_keep_their_order_so_that_a_reason_comes_before_its_conclusion(
    formats: tuple[str, ...],
) -> None:
    texts = {"type": "string"}
    schema = {"type": "object", "properties": {"reason": texts, "answer": texts}}
    request = Request((Message("user", "Which?"),), schema=schema)
    _, server = complete(['{"reason":"","answer":""}'], request, formats=formats)
    sent = json.dumps(server.bodies[0])
    assert sent.index("reason") < sent.index("answer")


def test_what_is_not_set_is_not_sent_and_extra_fields_win() -> None:
    request = Request((Message("user", "Hello"),), temperature=None, max_tokens=9)
    with ChatServer() as server:
        extra = {"max_tokens": None, "max_completion_tokens": 9, "cache_prompt": False}
        asyncio.run(ChatModel(server.url, "m", extra=extra).complete(request))
    assert server.bodies[0].keys() == {"model", "messages", "max_completion_tokens", "cache_prompt"}
    assert "authorization" not in server.seen[0].headers


def test_text_beyond_ascii_goes_out_and_comes_back_as_it_is() -> None:
    text = "Łódź, 東京, 🦉"
    reply, server = succeeds([text], request=Request((Message("user", text),)))
    assert reply.text == text
    assert server.bodies[0]["messages"][0]["content"] == text


def test_tokens_cost_and_log_probabilities_are_reported() -> None:
    score = {"token": "c0", "logprob": -0.25, "top_logprobs": [{"token": "c1", "logprob": -2}]}
    reply, _ = succeeds([ok(GOOD, logprobs={"content": [score]})], price=PRICE)
    assert reply.usage == Usage(10, 5, calls=1, attempts=1, cost=20.0)
    assert reply.token_logprobs == (TokenScore("c0", -0.25, (("c1", -2.0),)),)
    assert (reply.data, reply.model, reply.formats) == (
        {"choice": "c0"},
        "test-model",
        ("json_schema",),
    )


def test_without_a_price_costs_are_unknown_not_nothing() -> None:
    reply, _ = succeeds([GOOD])
    assert reply.usage.cost is None


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": {"content": GOOD}}]},
        {
            "id": None,
            "created": None,
            "model": None,
            "usage": None,
            "choices": [
                {
                    "message": {"content": GOOD, "refusal": None},
                    "finish_reason": None,
                    "index": None,
                }
            ],
        },
        {"choices": [{"message": {"content": GOOD}}], "usage": {"prompt_tokens": None}},
    ],
)
def test_fields_that_may_be_missing_or_null_may_be(body: Any) -> None:
    reply, _ = succeeds([raw(body)], price=PRICE)
    assert reply.data == {"choice": "c0"}
    assert reply.usage == Usage(calls=1, attempts=1, unmetered=1, cost=None)


def test_text_in_parts_is_put_together() -> None:
    reply, _ = succeeds([ok([{"type": "text", "text": '{"choice":'}, {"text": '"c1"}'}])])
    assert reply.data == {"choice": "c1"}


# Replies that are not what was asked for.


@pytest.mark.parametrize(
    "content",
    [
        '```json\n{"choice":"c0"}\n```',
        'Sure! Here it is:\n```\n{"choice":"c0"}\n```\nAnything {else}?',
        'The answer is {"choice":"c0"}. Good luck!',
        '<think>{"choice":"c1"}</think>{"choice":"c0"}',
        '<think>Is it c1? [no]</think>\n```json\n{"choice":"c0"}```',
        '\ufeff {"choice":"c0"}\n',
    ],
)
def test_json_in_fences_prose_or_after_reasoning_is_found(content: str) -> None:
    reply, server = succeeds([content])
    assert reply.data == {"choice": "c0"}
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("**Choice:** Yes", "no JSON"),
        ("", "no JSON"),
        ('{"choice":"c', "no sound JSON"),
        ('{"rows":[{"choice":"c0"}', "no sound JSON"),
        ('[{"choice":"c0"}', "no sound JSON"),
        ('"rows":{"choice":"c0"}}', "more brackets"),
        ('{"choice":"c0"} or {"choice":"c1"}', "more brackets"),
        ('{"choice":"c0"}\n{"choice":"c0"}', "more brackets"),
        ('{"choice":"c0","choice":"c1"}', "'choice' more than once"),
        ('{"rows":[{"choice":"c0","choice":"c1"}]}', "'choice' more than once"),
        ('{"choice":NaN}', "NaN"),
        ('{"choice":-Infinity}', "Infinity"),
        ('{"choice":1e999}', "not finite"),
        ('{"choice":"\\ud800"}', "surrogate"),
        ('"c0"', "string, not an object"),
        ('[{"choice":"c0"}]', "array, not an object"),
        ("null", "null, not an object"),
        ('<think>{"choice":"c0"}', "reasoning without an end"),
        ("[" * 100_000, "no sound JSON"),
        ('{"choice":' + "9" * 5000 + "}", "no sound JSON"),
    ],
)
def test_what_is_not_exactly_one_json_value_is_malformed_never_guessed(
    content: str, says: str
) -> None:
    problem, server = fails([content] * 9, Malformed)
    with pytest.raises(Malformed, match=says):
        raise problem
    assert len(server.seen) == 3
    assert problem.usage.attempts == 3
    assert len(problem.excerpt) <= 201
    assert "may ignore `response_format`" in str(problem)


def test_malformed_replies_are_paid_for_and_do_not_lengthen_the_prompt() -> None:
    reply, server = succeeds(["bad", "bad", "bad", GOOD], formats=("text",), replies=4, price=PRICE)
    assert reply.usage == Usage(40, 20, calls=1, attempts=4, cost=80.0)
    assert len({json.dumps(body) for body in server.bodies}) == 1


@pytest.mark.parametrize("content", ['{"choice":"c', GOOD, None, ""])
def test_a_reply_cut_at_the_limit_is_truncated_and_not_asked_again(content: str | None) -> None:
    problem, server = fails([ok(content, finish_reason="length")], Truncated)
    assert len(server.seen) == 1
    assert problem.usage.tokens == 15


@pytest.mark.parametrize(
    "reply",
    [
        ok(None, message={"refusal": "I would rather not."}),
        ok("I cannot", finish_reason="content_filter"),
        ok(None, finish_reason="content_filter"),
    ],
)
def test_a_refusal_is_told_apart_and_not_asked_again(reply: Reply) -> None:
    problem, server = fails([reply], Refused)
    assert "declined" in str(problem)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 502, "message": "upstream went away"}},
        {"error": "overloaded"},
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": "none"},
        {"id": None, "choices": None, "model": None},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]},
        {"choices": [{"message": {"content": 3}}]},
        [],
        "text",
        3,
    ],
    ids=str,
)
def test_a_good_status_without_a_completion_is_a_failure_that_is_retried(body: Any) -> None:
    reply, server = succeeds([raw(body), GOOD])
    assert reply.data == {"choice": "c0"}
    assert reply.usage.attempts == 2
    _, server = fails([raw(body)] * 9, TransportFailure)
    assert len(server.seen) == 4


@pytest.mark.parametrize(("code", "kind"), [(429, RateLimited), (401, NotAuthorised)])
def test_the_code_of_an_error_with_a_good_status_counts(code: int, kind: type[ModelError]) -> None:
    fails([raw({"error": {"code": code, "message": "no"}})] * 9, kind)


def test_a_content_type_that_lies_makes_no_difference() -> None:
    good = ok(GOOD, headers={"content-type": "text/html; charset=latin-1"})
    assert succeeds([good])[0].data == {"choice": "c0"}
    page = Reply(
        "<html>Welcome, café</html>".encode(), headers={"content-type": "application/json"}
    )
    problem, _ = fails([page] * 9, TransportFailure)
    assert "sent no JSON but: <html>Welcome, café</html>" in str(problem)


def test_a_large_reply_is_read_and_a_huge_one_is_given_up() -> None:
    large = '{"choice":"c0","reason":"' + "x" * 2_000_000 + '"}'
    assert len(succeeds([large])[0].text) > 2_000_000
    with ChatServer([Reply(b" " * 1_000_000, headers={"content-length": "99000000"})]) as server:
        http = HttpClient(max_body=500_000)
        with pytest.raises(Malformed, match="longer than 500000 bytes"):
            asyncio.run(http.post(f"{server.url}/chat/completions", b"{}"))


# Servers that support less than the whole protocol.


def refusing(*formats: str, status: int = 400) -> Callable[[Any], Item]:
    """A server that refuses some formats, and otherwise gives a good reply."""

    def answer(body: Any) -> Item:
        form = body.get("response_format", {"type": "text"})["type"]
        if form in formats:
            return error(status, f"response_format '{form}' is not supported")
        return GOOD

    return answer


@pytest.mark.parametrize(
    ("refused", "status", "tried"),
    [
        ([], 400, ("json_schema",)),
        (["json_schema"], 400, ("json_schema", "json_object")),
        (["json_schema"], 422, ("json_schema", "json_object")),
        (["json_schema"], 500, ("json_schema", "json_object")),
        (["json_schema", "json_object"], 400, ("json_schema", "json_object", "text")),
    ],
)
def test_a_format_that_is_refused_is_replaced_and_that_is_remembered(
    refused: list[str], status: int, tried: tuple[str, ...]
) -> None:
    with ChatServer(answer=refusing(*refused, status=status)) as server:
        model = ChatModel(Server(server.url, clock=FakeClock()), "m")
        first = asyncio.run(model.complete(CHOICE))
        before = len(server.seen)
        second = asyncio.run(model.complete(CHOICE))
    assert first.formats == tried
    assert first.data == second.data == {"choice": "c0"}
    assert second.formats == tried[-1:]
    assert len(server.seen) == before + 1


def test_models_of_one_server_share_what_it_refuses_and_not_what_one_of_them_ignores() -> None:
    def answer(body: Any) -> Item:
        if body["model"] == "poor" and body.get("response_format"):
            return "I think c0."
        return refusing("json_schema")(body)

    with ChatServer(answer=answer) as web:
        server = Server(web.url)
        first, second, poor = (ChatModel(server, name) for name in ("first", "second", "poor"))
        formats = [asyncio.run(m.complete(CHOICE)).formats for m in (first, second, poor, second)]
    assert formats == [
        ("json_schema", "json_object"),
        ("json_object",),
        ("json_object", "text"),
        ("json_object",),
    ]


def test_a_weaker_format_tells_the_schema_in_words() -> None:
    with ChatServer(answer=refusing("json_schema")) as server:
        asyncio.run(ChatModel(server.url, "m").complete(CHOICE))
    enforced, told = (body["messages"][-1]["content"] for body in server.bodies)
    assert enforced == "Which?"
    assert told.startswith("Which?\n\n")
    assert '"enum":["c0","c1"]' in told
    assert server.bodies[1]["response_format"] == {"type": "json_object"}


def test_a_server_that_ignores_the_schema_is_told_it_in_words_from_then_on() -> None:
    def prose(body: Any) -> str:
        return GOOD if "JSON schema" in body["messages"][-1]["content"] else "I think c0."

    with ChatServer(answer=prose) as server:
        model = ChatModel(server.url, "m")
        first = asyncio.run(model.complete(CHOICE))
        second = asyncio.run(model.complete(CHOICE))
    assert (first.formats, second.formats) == (("json_schema", "json_object"), ("json_object",))
    assert first.usage.attempts == 2


def test_a_server_without_the_only_format_allowed_does_not_support_the_schema() -> None:
    with ChatServer(answer=refusing("json_schema")) as server:
        model = ChatModel(server.url, "m", formats=("json_schema",))
        with pytest.raises(SchemaUnsupported, match="Allow other formats"):
            asyncio.run(model.complete(CHOICE))
    assert len(server.seen) == 1


# Failures that pass, and failures that do not.


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_a_failure_that_may_pass_is_retried_with_growing_waits(status: int) -> None:
    clock = FakeClock()
    retry = RetryPolicy(jitter=lambda: 0.5)
    reply, server = succeeds([error(status), error(status), GOOD], clock=clock, retry=retry)
    assert reply.data == {"choice": "c0"}
    assert reply.usage.attempts == len(server.seen) == 3
    assert clock.slept == [0.375, 0.75]


@pytest.mark.parametrize("status", [301, 400, 404, 405, 413, 422, 501])
def test_a_request_that_is_rejected_is_not_sent_again(status: int) -> None:
    problem, server = fails([error(status, "no such thing")], RequestRejected)
    assert (problem.status, problem.request_id, len(server.seen)) == (status, "req-1", 1)
    assert "no such thing" in str(problem)


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_good_enough_is_told_apart(status: int) -> None:
    problem, server = fails([error(status)], NotAuthorised)
    assert "Give a key" in str(problem)
    assert len(server.seen) == 1


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_a_request_is_sent_exactly_as_often_as_the_policy_says(attempts: int) -> None:
    problem, server = fails(
        [error(500)] * 9, TransportFailure, retry=RetryPolicy(attempts=attempts)
    )
    assert problem.usage == Usage(calls=1, attempts=attempts, cost=None)
    assert len(server.seen) == attempts


def test_a_server_that_says_retrying_is_useless_is_believed() -> None:
    _, server = fails([error(500, headers={"x-should-retry": "false"})], TransportFailure)
    assert len(server.seen) == 1


def test_a_quota_that_is_used_up_is_not_waited_for() -> None:
    used_up = raw({"error": {"code": "insufficient_quota", "message": "Pay."}}, status=429)
    problem, server = fails([used_up], RateLimited)
    assert "Pay." in str(problem)
    assert len(server.seen) == 1


def test_a_rate_limit_that_stays_is_reported_with_what_it_took() -> None:
    problem, _ = fails([error(429, headers={"retry-after": "7"})] * 9, RateLimited)
    assert (problem.retry_after, problem.usage.attempts, problem.request_id) == (7, 4, "req-1")
    assert "(After 4 attempts.)" in str(problem)


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": "90"}, 90.0),
        ({"retry-after-ms": "4321"}, 4.321),
        ({"retry-after-ms": "100", "retry-after": "90"}, 0.1),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30.0),
    ],
)
def test_what_the_server_asks_to_wait_is_waited(headers: dict[str, str], waited: float) -> None:
    clock = FakeClock(date=1_800_000_000.0)  # Fri, 15 Jan 2027 08:00:00 GMT
    succeeds([error(429, headers=headers), GOOD], clock=clock)
    assert sum(clock.slept) == pytest.approx(waited)
    clock = FakeClock(date=1_800_000_000.0)
    succeeds([error(503, headers=headers), GOOD], clock=clock)
    assert sum(clock.slept) == pytest.approx(waited)


@pytest.mark.parametrize(
    "value",
    ["0", "-5", "nan", "inf", "1e3", "abc", "", "٣", "9" * 99, "Tue, 10 Feb 2015 10:00:00 GMT"],
)
def test_advice_that_makes_no_sense_is_no_advice(value: str) -> None:
    clock = FakeClock()
    script: list[Item] = [error(429, headers={"retry-after": value.encode().decode("latin-1")})]
    succeeds([*script, GOOD], clock=clock, retry=RetryPolicy(jitter=lambda: 0.0))
    assert clock.slept == [0.25]


@pytest.mark.parametrize(
    ("value", "seconds"), [("600", 600), ("Thu, 15 Jan 2099 08:00:00 GMT", 2_272_147_200)]
)
def test_a_wait_beyond_patience_is_handed_to_the_caller_at_once(value: str, seconds: int) -> None:
    clock = FakeClock()
    problem, server = fails([error(429, headers={"retry-after": value})], RateLimited, clock=clock)
    assert problem.retry_after == pytest.approx(seconds)
    assert clock.slept == []
    assert len(server.seen) == 1


@pytest.mark.parametrize("cut", [0, 30])
def test_a_connection_that_drops_is_retried(cut: int) -> None:
    dropped = ok(GOOD, cut_after=cut)
    reply, _ = succeeds([dropped, dropped, GOOD])
    assert reply.data == {"choice": "c0"}
    assert reply.usage.attempts == 3
    problem, _ = fails([dropped] * 9, TransportFailure)
    assert "connection was lost" in str(problem)


def test_a_server_that_is_not_there_is_named() -> None:
    with ChatServer() as server:
        url = server.url
    model = ChatModel(Server(url, clock=FakeClock()), "m")
    with pytest.raises(TransportFailure, match="check the address") as caught:
        asyncio.run(model.complete(PLAIN))
    assert url in str(caught.value)
    assert caught.value.usage.attempts == 4


def test_a_slow_server_runs_out_of_time_and_is_asked_again() -> None:
    problem, server = fails(
        [ok(GOOD, delay=30)] * 2, TransportFailure, timeout=0.2, retry=RetryPolicy(attempts=2)
    )
    assert "within 0.2 s" in str(problem)
    assert len(server.seen) == 2


def test_a_body_that_drips_does_not_outlast_the_deadline() -> None:
    begin = time.monotonic()
    problem, _ = fails([ok(GOOD, drip=0.05)], DeadlineExceeded, deadline=0.5)
    assert time.monotonic() - begin < 5
    assert "within 0.5 s" in str(problem)


def test_a_wait_that_would_miss_the_deadline_is_not_begun() -> None:
    clock = FakeClock()
    problem, _ = fails(
        [error(429, headers={"retry-after": "60"})], DeadlineExceeded, deadline=45.0, clock=clock
    )
    assert clock.slept == []
    assert "says 429" in str(problem)
    assert problem.usage.attempts == 1


def test_every_error_can_be_caught_as_a_balar_error() -> None:
    with ChatServer([ok("{", finish_reason="length")]) as server, pytest.raises(BalarError):
        asyncio.run(ChatModel(server.url, "m").complete(CHOICE))


# Many calls, several event loops, cancellation.


def test_no_more_requests_than_allowed_are_under_way() -> None:
    async def many(model: ChatModel) -> None:
        await asyncio.gather(*(model.complete(PLAIN) for _ in range(12)))

    with ChatServer(delay=0.1) as server:
        asyncio.run(many(ChatModel(Server(server.url, limits=Limits(concurrency=3)), "m")))
    assert server.peak == 3
    assert len(server.seen) == 12


def test_a_model_outlives_its_event_loop() -> None:
    async def many(model: ChatModel) -> None:
        await asyncio.gather(*(model.complete(PLAIN) for _ in range(4)))

    with ChatServer() as server:
        model = ChatModel(Server(server.url, limits=Limits(concurrency=2)), "m")
        for _ in range(3):
            asyncio.run(many(model))
    assert len(server.seen) == 12


def test_a_server_can_be_closed_and_used_again() -> None:
    async def twice(url: str) -> None:
        async with Server(url) as server:
            await ChatModel(server, "m").complete(PLAIN)
            await server.aclose()
            await ChatModel(server, "m").complete(PLAIN)

    with ChatServer() as server:
        asyncio.run(twice(server.url))
    assert len(server.seen) == 2


def test_a_call_that_is_cancelled_frees_its_slot() -> None:
    async def cancel_and_go_on(model: ChatModel, server: ChatServer) -> Completion:
        under_way = asyncio.create_task(model.complete(PLAIN))
        waiting = asyncio.create_task(model.complete(PLAIN))
        while not server.seen:
            await asyncio.sleep(0.01)
        for task in (under_way, waiting):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(30):
            return await model.complete(PLAIN)

    with ChatServer([ok("late", delay=60)]) as server:
        model = ChatModel(Server(server.url, limits=Limits(concurrency=1)), "m")
        assert asyncio.run(cancel_and_go_on(model, server)).text == "Hello!"
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    "settings", [{"formats": ()}, {"formats": ("xml",)}, {"replies": 0}], ids=str
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        ChatModel("http://localhost:1/v1", "m", **settings)


@pytest.mark.parametrize("settings", [{"timeout": 0}, {"deadline": -1}], ids=str)
def test_times_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        Server("http://localhost:1/v1", **settings)
