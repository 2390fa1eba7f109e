"""A language model of a few lines that really computes, behind the routes of three servers.

Its tokens are words, blanks and line breaks. It has read nothing but its context: a token that
stood there n times, of N tokens in all, comes next with probability (n + 1/V) / (N + 1), with a
vocabulary of V. So a goal becomes likelier when its words are spoken, and a little less likely
with every token that is not among its words.
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.chat_server import Item, raw

VOCABULARY = 1000
BEGIN = 1

Cut = Callable[[str], list[str]]


def cut(text: str) -> list[str]:
    """A text in tokens."""
    return re.findall(r"\s|[^\s]+", text)


def log_probabilities(context: list[str], tokens: list[str]) -> list[float]:
    """Of tokens that follow a context, one after the other."""
    seen, total, found = Counter(context), len(context), []
    for token in tokens:
        found.append(math.log((seen[token] + 1 / VOCABULARY) / (total + 1)))
        seen[token] += 1
        total += 1
    return found


def routes(way: str, cut: Cut = cut) -> dict[str, Item]:
    """What a server of a kind replies, for `ChatServer`.

    Args:
        way: as in `ScoringModel`.
        cut: how it makes tokens.
    """

    def vllm_tokenize(body: Any) -> Item:
        first = [BEGIN] if body["add_special_tokens"] else []
        return raw({"tokens": first + [_number(token) for token in cut(body["prompt"])]})

    def vllm_completions(body: Any) -> Item:
        words = [_word(token) for token in body["prompt"][1:]]
        told = [
            {str(_number(word)): {"logprob": score, "decoded_token": word}}
            for word, score in zip(words, log_probabilities([], words), strict=True)
        ]
        return raw({"choices": [{"text": "x", "prompt_logprobs": [None, *told]}]})

    def llama_tokenize(body: Any) -> Item:
        return raw({"tokens": [{"id": _number(w), "piece": w} for w in cut(body["content"])]})

    def llama_completions(body: Any) -> Item:
        words = [_word(int(token)) for token in re.findall(r"<\[(\d+)\]>", body["grammar"])]
        told = [
            {"id": _number(word), "token": word, "logprob": score}
            for word, score in zip(
                words, log_probabilities(cut(body["prompt"]), words), strict=True
            )
        ]
        return raw({"choices": [{"text": "x", "logprobs": {"content": told}}]})

    def echo_completions(body: Any) -> Item:
        words = [*cut(body["prompt"]), "more"]
        scores: list[float | None] = [*log_probabilities([], words)]
        told = {
            "tokens": words,
            "token_logprobs": [None, *scores[1:]],
            "text_offset": [sum(map(len, words[:n])) for n in range(len(words))],
        }
        return raw({"choices": [{"text": "".join(words), "logprobs": told}]})

    kinds: dict[str, dict[str, Item]] = {
        "vllm": {"/tokenize": vllm_tokenize, "/v1/completions": vllm_completions},
        "llama.cpp": {"/tokenize": llama_tokenize, "/v1/completions": llama_completions},
        "echo": {"/v1/completions": echo_completions},
    }
    return kinds[way]


def _number(word: str) -> int:
    return int.from_bytes(b"\x02" + word.encode(), "big")


def _word(token: int) -> str:
    return token.to_bytes((token.bit_length() + 7) // 8, "big")[1:].decode()
