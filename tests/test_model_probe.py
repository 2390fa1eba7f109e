"""Finding out what a server does: with each kind of server, and from the command line."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from llm_oracles.cli.main import main
from llm_oracles.models import ChatModel, ModelError, probe
from tests.chat_server import ChatServer, Item, error, ok, raw

LOGPROBS = {"content": [{"token": "yes", "logprob": -0.5, "top_logprobs": []}]}


def good(body: Any) -> Item:
    return ok('{"answer":"yes"}', logprobs=LOGPROBS if body.get("logprobs") else None)


def poor(body: Any) -> Item:
    """It knows neither schemas nor log probabilities nor what a reply costs."""
    if "response_format" in body:
        return error(400, "response_format is not supported")
    if "logprobs" in body:
        return error(400, "logprobs are not supported")
    return raw({"choices": [{"message": {"content": '{"answer":"perhaps"}'}}]})


def test_what_a_good_server_does_is_found() -> None:
    with ChatServer(answer=good) as server:
        found = asyncio.run(probe(ChatModel(server.url, "m")))
    assert found.formats == ("json_schema",)
    assert (found.follows_schema, found.tells_tokens, found.tells_logprobs) == (True, True, True)
    assert found.model == "test-model"
    assert len(server.seen) == 2


def test_what_a_poor_server_does_not_do_is_found() -> None:
    with ChatServer(answer=poor) as server:
        found = asyncio.run(probe(ChatModel(server.url, "m")))
    assert found.formats == ("json_schema", "json_object", "text")
    assert (found.follows_schema, found.tells_tokens, found.tells_logprobs) == (False, False, False)


def test_a_server_that_does_not_reply_is_an_error() -> None:
    with ChatServer(answer=error(401)) as server, pytest.raises(ModelError):
        asyncio.run(probe(ChatModel(server.url, "m")))


@pytest.fixture
def doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[object, str]]:
    """`balar doctor` about a server: its exit code, and all that it shows."""

    def run(*arguments: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["balar", "doctor", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, "".join(capsys.readouterr())

    return run


def test_doctor_tells_what_a_server_does(
    doctor: Callable[..., tuple[object, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-123456789")
    with ChatServer(answer=good) as server:
        code, shown = doctor("--base-url", server.url, "--model", "m", "--key-env", "MY_KEY")
    assert code == 0
    assert "test-model replied after" in shown
    assert "asked for as json_schema, and was followed" in shown
    assert {seen.headers["authorization"] for seen in server.seen} == {"Bearer sk-123456789"}
    with ChatServer(answer=poor) as server:
        code, shown = doctor("--base-url", server.url, "--model", "m")
    assert code == 0
    assert "json_schema -> json_object -> text, but was NOT followed" in shown
    assert "budgets of tokens and cost do not work" in shown


def test_doctor_tells_what_is_wrong_with_a_server(
    doctor: Callable[..., tuple[object, str]],
) -> None:
    with ChatServer(answer=error(404, "no such model")) as server:
        code, shown = doctor("--base-url", server.url, "--model", "m")
        assert (code, "no such model" in shown, "Traceback" in shown) == (1, True, False)
        assert doctor("--base-url", server.url)[0] == 2
