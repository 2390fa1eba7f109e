"""Likelihoods of given texts: three kinds of servers, and a real small model."""

import asyncio
import json
import math
import urllib.request
from typing import Any

import pytest

from balar_core.errors import InvalidInput, InvalidSetting
from llm_oracles.models import (
    ChatModel,
    Message,
    Request,
    ScoringModel,
    ScoringUnsupported,
    TokenScores,
    Way,
    label_distribution,
)
from tests.chat_server import ChatServer, Item, raw
from tests.local_model import local_server

# A language of whole words: each word and each blank is a token; the n-th token of a prompt has
# the log probability -n/8.


def words(text: str) -> list[str]:
    pieces = text.replace(" ", "\x00 \x00").split("\x00")
    return [piece for piece in pieces if piece]


def number(word: str) -> int:
    return int.from_bytes(word.encode(), "big")


def word(token: int) -> str:
    return token.to_bytes((token.bit_length() + 7) // 8, "big").decode()


def vllm_tokenize(body: Any) -> Item:
    tokens = [number(piece) for piece in words(body["prompt"])]
    return raw({"tokens": [1, *tokens] if body["add_special_tokens"] else tokens})


def vllm_completions(body: Any) -> Item:
    entries: list[Any] = [
        {str(token): {"logprob": -n / 8, "decoded_token": word(token)}, "7": {"logprob": -0.1}}
        for n, token in enumerate(body["prompt"])
    ]
    return raw({"choices": [{"text": "x", "prompt_logprobs": [None, *entries[1:]]}]})


def llama_tokenize(body: Any) -> Item:
    pieces = words(body["content"])
    return raw({"tokens": [{"id": number(piece), "piece": piece} for piece in pieces]})


def llama_completions(body: Any) -> Item:
    before = 1 + len(words(body["prompt"]))
    ids = [int(token) for token in body["grammar"].removeprefix("root ::= <[")[:-2].split("]> <[")]
    assert body["max_tokens"] == len(ids)
    assert body["cache_prompt"] is False  # what is in a cache changes the last digits
    entries = [
        {"id": token, "token": word(token), "logprob": -n / 8}
        for n, token in enumerate(ids, start=before)
    ]
    return raw({"choices": [{"text": "x", "logprobs": {"content": entries}}]})


def echo_completions(body: Any) -> Item:
    pieces = [*words(body["prompt"]), "more"]
    lengths = [len(piece) for piece in pieces]
    told = {
        "tokens": pieces,
        "token_logprobs": [None, *(-n / 8 for n in range(2, len(pieces) + 1))],
        "text_offset": [sum(lengths[:n]) for n in range(len(pieces))],
    }
    return raw({"choices": [{"text": "".join(pieces), "logprobs": told}]})


SERVERS: dict[Way, dict[str, Item]] = {
    "vllm": {"/tokenize": vllm_tokenize, "/v1/completions": vllm_completions},
    "llama.cpp": {"/tokenize": llama_tokenize, "/v1/completions": llama_completions},
    "echo": {"/v1/completions": echo_completions},
}


@pytest.mark.parametrize("way", SERVERS)
def test_each_way_scores_the_text_and_nothing_but_the_text(way: Way) -> None:
    with ChatServer(routes=SERVERS[way]) as server:
        scores = asyncio.run(ScoringModel(server.url, "m", way=way).score("It is", " good news"))
    assert scores == TokenScores((" ", "good", " ", "news"), (-0.5, -0.625, -0.75, -0.875))
    assert scores.total == -2.75


def empty(_: Any) -> Item:
    return raw({"choices": [{"text": "x"}]})


@pytest.mark.parametrize(
    ("way", "path", "answer", "says"),
    [
        ("vllm", "/tokenize", raw({}), "the tokens of a text"),
        ("vllm", "/v1/completions", empty, "log probabilities of the prompt"),
        (
            "vllm",
            "/v1/completions",
            lambda body: raw({"choices": [{"prompt_logprobs": [None] * len(body["prompt"])}]}),
            "a log probability for each token",
        ),
        ("llama.cpp", "/tokenize", raw({"tokens": []}), "the tokens of a text"),
        (
            "llama.cpp",
            "/tokenize",
            raw({"tokens": [{"id": 1, "piece": [197]}, {"id": 2, "piece": [129]}]}),
            "cut into several tokens",
        ),
        ("llama.cpp", "/v1/completions", empty, "exactly the tokens"),
        ("echo", "/v1/completions", empty, "the prompt with log probabilities"),
        (
            "echo",
            "/v1/completions",
            lambda body: echo_completions({"prompt": body["prompt"].replace(" good", "_good")}),
            "the prompt with log probabilities",
        ),
        (
            "echo",
            "/v1/completions",
            lambda body: raw(
                {
                    "choices": [
                        {
                            "text": body["prompt"] + ".",
                            "logprobs": {
                                "tokens": ["It i", "s good", "."],
                                "token_logprobs": [None, -1.0, -1.0],
                                "text_offset": [0, 4, 10],
                            },
                        }
                    ]
                }
            ),
            "across the boundary",
        ),
    ],
)
def test_a_server_that_does_not_tell_likelihoods_is_found_out(
    way: Way, path: str, answer: Item, says: str
) -> None:
    with ChatServer(routes={**SERVERS[way], path: answer}) as server:
        model = ScoringModel(server.url, "m", way=way)
        with pytest.raises(ScoringUnsupported, match=says):
            asyncio.run(model.score("It is", " good"))


@pytest.mark.parametrize("value", [None, "1", math.inf, -math.inf, math.nan])
def test_a_score_that_is_no_finite_number_is_refused(value: object) -> None:
    def answer(body: Any) -> Item:
        entry = {"id": number("good"), "token": "good", "logprob": value}
        return raw({"choices": [{"logprobs": {"content": [entry]}}]})

    with ChatServer(routes={**SERVERS["llama.cpp"], "/v1/completions": answer}) as server:
        model = ScoringModel(server.url, "m", way="llama.cpp")
        with pytest.raises(ScoringUnsupported):
            asyncio.run(model.score("It is ", "good"))


def test_nothing_is_not_scored_and_ways_are_known() -> None:
    model = ScoringModel("http://localhost:1/v1", "m", way="echo")
    for context, text in (("", "a"), ("a", "")):
        with pytest.raises(InvalidInput, match="must not be empty"):
            asyncio.run(model.score(context, text))
    with pytest.raises(InvalidSetting, match="one of vllm"):
        ScoringModel("http://localhost:1/v1", "m", way="magic")  # type: ignore[arg-type]


class Table:
    """A likelihood model that looks totals up."""

    def __init__(self, totals: dict[str, float]) -> None:
        self.totals = totals

    async def score(self, context: str, text: str) -> TokenScores:
        return TokenScores((text,), (self.totals[text],))


def test_a_distribution_over_labels_is_the_normalised_likelihood() -> None:
    table = Table({"a": -1.0, "b": -2.0, "c": -1.0 - math.log(4)})
    found = asyncio.run(label_distribution(table, "x", ["a", "b", "c"]))
    total = 1 + math.exp(-1) + 0.25
    assert found == pytest.approx([1 / total, math.exp(-1) / total, 0.25 / total])


def test_very_small_likelihoods_can_be_compared() -> None:
    table = Table({"a": -1000.0, "b": -1001.0})
    found = asyncio.run(label_distribution(table, "x", ["a", "b"]))
    assert found == pytest.approx([0.7310585786, 0.2689414214])
    with pytest.raises(InvalidInput, match="at least one"):
        asyncio.run(label_distribution(table, "x", []))


# A real model.


def post(url: str, body: object) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def stepwise(root: str, context: str, text: str) -> float:
    """The log likelihood read off the whole vocabulary, one token after the other."""
    ids = post(f"{root}/tokenize", {"content": context, "add_special": True})["tokens"]
    total = 0.0
    for token in post(f"{root}/tokenize", {"content": text, "add_special": False})["tokens"]:
        body = {"prompt": ids, "n_predict": 1, "n_probs": 50_000, "cache_prompt": False}
        (step,) = post(f"{root}/completion", {**body, "temperature": 0})["completion_probabilities"]
        total += next(e["logprob"] for e in step["top_logprobs"] if e["id"] == token)
        ids.append(token)
    return total


@pytest.mark.slow
def test_a_real_model_scores_as_its_vocabulary_says_and_follows_a_schema() -> None:
    with local_server() as url:
        model = ScoringModel(url, "smollm2", way="llama.cpp")
        context, text = "The capital of France is", " Paris, the City of Light."
        scores = asyncio.run(model.score(context, text))
        assert "".join(scores.tokens) == text
        assert scores.total == pytest.approx(
            stepwise(url.removesuffix("/v1"), context, text), abs=1e-3
        )
        france, others = asyncio.run(label_distribution(model, context, [" Paris", " a banana"]))
        assert france > 0.9 > 0.1 > others

        schema = {"type": "object", "properties": {"label": {"enum": ["likely", "unlikely"]}}}
        request = Request(
            (Message("user", "Is snow white?"),), schema=schema, seed=1, max_tokens=64
        )
        chat = ChatModel(url, "smollm2", extra={"cache_prompt": False})
        first, second = [asyncio.run(chat.complete(request)) for _ in range(2)]
        assert first.data["label"] in ("likely", "unlikely")
        assert first.formats == ("json_schema",)
        assert first.usage.completion_tokens > 0
        assert second == first
