"""Keys: where they come from, and that they are nowhere else."""

import asyncio
import base64
import copy
import io
import json
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.traceback import Traceback

from llm_oracles.models import (
    CachingModel,
    ChatModel,
    InvalidEndpoint,
    InvalidKey,
    Message,
    ModelError,
    RecordingModel,
    Request,
    RetryPolicy,
    ScoringModel,
    Secret,
    Server,
    Trace,
    TracingModel,
)
from tests.chat_server import ChatServer, Item, error, ok, raw
from tests.fake_clock import FakeClock

KEY = "sk-planted-0123456789"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
REQUEST = Request((Message("user", "Hello"),), schema=SCHEMA, purpose="test")

TALKATIVE: list[Item] = [
    error(401, f"Incorrect API key provided: {KEY}"),
    error(400, f"Header 'Bearer {KEY}' is odd", headers={"x-request-id": KEY}),
    error(429, KEY, headers={"x-request-id": KEY}),
    error(500, f"debug: {KEY}"),
    raw({"error": {"code": 502, "message": KEY}}),
    raw({"choices": KEY}),
    raw(KEY),
    ok(f"My key is {KEY}"),
    ok(json.dumps({"a": KEY})),
    ok(None, message={"refusal": KEY}),
    ok(KEY, finish_reason="length"),
    ok(json.dumps({"a": "x"}), headers={"x-request-id": KEY, "x-echo": f"Bearer {KEY}"}),
    ok("{}", headers={"x-request-id": KEY}, cut_after=1),
    ok("{}", headers={"a header that is none": KEY}),
]
"""A server that repeats the key in every place it can."""


def everything_about(problem: BaseException) -> str:
    """All that can be shown of an error, with the variables of every frame but those here."""
    place = problem.__traceback__
    while place is not None and place.tb_frame.f_code.co_filename == __file__:
        place = place.tb_next
    assert place is not None
    plain = "".join(traceback.format_exception(problem))
    console = Console(file=io.StringIO(), width=300)
    shown = Traceback.from_exception(
        type(problem), problem, place, show_locals=True, locals_max_string=None
    )
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    assert "locals" in console.file.getvalue()
    return plain + console.file.getvalue() + repr(problem) + repr(vars(problem))


@pytest.mark.parametrize("item", TALKATIVE, ids=range(len(TALKATIVE)))
def test_a_key_is_nowhere_even_if_the_server_repeats_it(
    item: Item, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    trace = Trace()
    found = ""
    with ChatServer([item] * 3) as web:
        server = Server(
            web.url, key=KEY, clock=FakeClock(), retry=RetryPolicy(attempts=2), timeout=30
        )
        chat = ChatModel(server, "m", replies=1)
        recording = RecordingModel(chat, tmp_path / "calls.jsonl")
        model = CachingModel(recording, tmp_path / "cache.sqlite", identity=chat.identity)
        traced = TracingModel(model, trace.add)
        for _ in range(2):
            try:
                found += repr(asyncio.run(traced.complete(REQUEST)))
            except ModelError as problem:
                found += everything_about(problem)
        found += repr((server, chat, chat.identity, vars(chat), vars(server)))
        model.close()
    assert all(seen.headers["authorization"] == f"Bearer {KEY}" for seen in web.seen)
    assert web.seen
    found += caplog.text + repr(trace.events) + trace.table()
    files = [file.read_bytes() for file in tmp_path.iterdir()]
    assert len(files) >= 2
    written = found.encode() + b"".join(files)
    assert KEY.encode() not in written
    assert base64.b64encode(KEY.encode()) not in written


def test_scoring_keeps_the_key_to_itself_too() -> None:
    with ChatServer(routes={"/v1/completions": error(401, f"not {KEY}")}) as web:
        model = ScoringModel(Server(web.url, key=KEY), "m", way="echo")
        with pytest.raises(ModelError) as caught:
            asyncio.run(model.score("a", "b"))
    assert web.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in everything_about(caught.value)


def test_a_placeholder_is_no_secret_and_leaves_replies_alone() -> None:
    with ChatServer(["an EMPTY word"]) as web:
        model = ChatModel(Server(web.url, key="EMPTY"), "m")
        reply = asyncio.run(model.complete(Request((Message("user", "Hello"),))))
    assert reply.text == "an EMPTY word"
    assert web.seen[0].headers["authorization"] == "Bearer EMPTY"


def test_keys_come_from_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", f" {KEY}\n")
    (tmp_path / "key").write_text(f"\ufeff{KEY}\r\n", encoding="utf-8")
    assert Secret.from_environment("TEST_KEY").reveal() == KEY
    assert Secret.from_file(tmp_path / "key").reveal() == KEY


def test_keys_that_are_none_are_refused_without_being_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEST_KEY", raising=False)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00key")
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    attempts: list[tuple[Callable[[], object], str]] = [
        (lambda: Secret.from_environment("TEST_KEY"), "TEST_KEY is not set"),
        (lambda: Secret.from_file(tmp_path / "nothing"), "cannot be read: No such file"),
        (lambda: Secret.from_file(tmp_path / "binary"), "is not UTF-8"),
        (lambda: Secret.from_file(tmp_path / "empty"), "is empty"),
        (lambda: Secret("two words"), "white space"),
        (lambda: Secret("línea"), "beyond ASCII"),
        (lambda: Secret("sk-one\nsk-two"), "white space"),
        (lambda: Server("http://localhost:1", key=""), "is empty"),
    ]
    for attempt, says in attempts:
        with pytest.raises(InvalidKey, match=says) as caught:
            attempt()
        assert "two" not in str(caught.value)
        assert "key=" not in str(caught.value)


def test_a_key_is_neither_shown_nor_pickled() -> None:
    key = Secret(KEY)
    assert KEY not in f"{key} {key!r} {[key]}"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)
    with pytest.raises(TypeError, match="not pickled"):
        copy.copy(key)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://gpu.example:8000/v1", "unencrypted"),
        ("http://192.168.1.7:8000/v1", "unencrypted"),
        ("http://localhost.example.com/v1", "unencrypted"),
        ("https://user:pass-word@example.com/v1", "more than an address"),
        ("https://example.com/v1?api-key=pass-word", "more than an address"),
        ("https://example.com/v1#pass-word", "more than an address"),
        ("ftp://example.com/v1", "http:// or https://"),
        ("example.com/v1", "http:// or https://"),
        ("", "http:// or https://"),
        ("https:///v1", "http:// or https://"),
        ("http://[::1", "not a URL"),
        ("https://exa\x00mple.com", "not a URL"),
    ],
)
def test_an_address_where_a_key_must_not_go_is_refused(url: str, says: str) -> None:
    with pytest.raises(InvalidEndpoint, match=says) as caught:
        Server(url, key=KEY)
    assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("http://localhost:8000/v1", {"key": KEY}),
        ("http://127.0.0.1:8000/v1/", {"key": KEY}),
        ("http://[::1]:8000/v1", {"key": KEY}),
        ("https://api.example.com/v1", {"key": KEY}),
        ("http://gpu.example:8000/v1", {}),
        ("http://gpu.example:8000/v1", {"key": KEY, "allow_plain_http": True}),
    ],
)
def test_an_address_that_is_safe_enough_is_taken(url: str, settings: dict[str, Any]) -> None:
    assert Server(url, **settings).base_url == url.rstrip("/")


def test_a_redirect_is_not_followed_so_that_the_key_stays() -> None:
    with ChatServer() as elsewhere:
        moved = error(307, headers={"location": f"{elsewhere.url}/chat/completions"})
        with ChatServer([moved]) as web:
            model = ChatModel(Server(web.url, key=KEY), "m")
            with pytest.raises(ModelError, match="address it leads to"):
                asyncio.run(model.complete(REQUEST))
    assert elsewhere.seen == []
