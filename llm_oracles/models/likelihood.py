"""How likely a given text is, according to a model behind a server (teacher forcing)."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Literal

from balar_core.errors import InvalidInput, InvalidSetting

from .errors import ScoringUnsupported
from .model import LikelihoodModel
from .server import Call, Server
from .values import TokenScores

__all__ = ["ScoringModel", "Way", "label_distribution"]

Way = Literal["vllm", "llama.cpp", "echo"]
"""How a server tells likelihoods:

- `vllm`: it tokenizes, and tells the log probabilities of a prompt;
- `llama.cpp`: it tokenizes, and replies with exactly the tokens that a grammar lists;
- `echo`: it repeats the prompt with log probabilities, as the first completion servers did.
"""


class ScoringModel:
    """A `LikelihoodModel` behind a server.

    With `vllm` and `llama.cpp` the text is cut into tokens by itself, so that it begins with a
    token of its own, whatever the context ends with. With `echo` the server cuts context and text
    together, and the text must begin where a token begins; begin it with a blank.

    Args:
        server: the server, or just its base URL.
        model: the model, as the server calls it.
        way: how the server tells likelihoods.

    Raises:
        InvalidSetting: there is no such way.
    """

    def __init__(self, server: Server | str, model: str, *, way: Way) -> None:
        ways = {"vllm": self._vllm, "llama.cpp": self._llama_cpp, "echo": self._echo}
        if way not in ways:
            raise InvalidSetting(f"The way is {way!r}; it is one of {', '.join(ways)}.")
        self._server = Server(server) if isinstance(server, str) else server
        self._model = model
        self._ask = ways[way]

    async def score(self, context: str, text: str) -> TokenScores:
        """The log likelihood of `text` after `context`, token by token (nats).

        The context goes to the model as it is, without a chat template.

        Raises:
            InvalidInput: the context or the text is empty.
            ScoringUnsupported: the server does not tell likelihoods in this way.
            ModelError: it could not be found out; the subclass says why.
        """
        if not context or not text:
            raise InvalidInput("Context and text must not be empty: nothing can be scored.")
        async with self._server.call() as call:
            return await self._ask(call, context, text)

    async def _vllm(self, call: Call, context: str, text: str) -> TokenScores:
        before, ids = [
            await self._tokens(call, {"model": self._model, "prompt": part, flag: first})
            for part, flag, first in (
                (context, "add_special_tokens", True),
                (text, "add_special_tokens", False),
            )
        ]
        fields = {
            "model": self._model,
            "prompt": before + ids,
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 1,
        }
        choice = await call.post("completions", fields, _first_choice)
        entries = _list(choice.get("prompt_logprobs"))[len(before) :]
        if len(entries) != len(ids):
            raise _unsupported("the log probabilities of the prompt")
        told = [
            entry.get(str(token)) if isinstance(entry, dict) else None
            for token, entry in zip(ids, entries, strict=True)
        ]
        return _scores([_pair(item, "decoded_token") for item in told])

    async def _llama_cpp(self, call: Call, context: str, text: str) -> TokenScores:
        told = await self._tokens(
            call,
            {"content": text, "add_special": False, "parse_special": False, "with_pieces": True},
        )
        if not all(isinstance(_dict(token).get("piece"), str) for token in told):
            raise ScoringUnsupported(
                f"The text {text!r} has a character that is cut into several tokens, which "
                "llama.cpp cannot be made to write; replace that character."
            )
        ids = [token["id"] for token in told]
        fields = {
            "model": self._model,
            "prompt": context,
            "max_tokens": len(ids),
            "temperature": 0.0,
            "logprobs": 1,
            "grammar": "root ::= " + " ".join(f"<[{token}]>" for token in ids),
            "cache_prompt": False,
        }
        choice = await call.post("completions", fields, _first_choice)
        entries = _list(_dict(choice.get("logprobs")).get("content"))
        if [_dict(entry).get("id") for entry in entries] != ids:
            raise _unsupported("exactly the tokens of the grammar")
        return _scores([_pair(entry, "token") for entry in entries])

    async def _echo(self, call: Call, context: str, text: str) -> TokenScores:
        fields = {
            "model": self._model,
            "prompt": context + text,
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": 1,
            "echo": True,
        }
        choice = await call.post("completions", fields, _first_choice)
        told = _dict(choice.get("logprobs"))
        columns = [_list(told.get(name)) for name in ("tokens", "token_logprobs", "text_offset")]
        if (
            not str(choice.get("text")).startswith(context + text)
            or len(set(map(len, columns))) > 1
        ):
            raise _unsupported("the prompt with log probabilities")
        rows = [
            (token, score)
            for token, score, offset in zip(*columns, strict=True)
            if isinstance(offset, int) and len(context) <= offset < len(context + text)
        ]
        if "".join(str(token) for token, _ in rows) != text:
            raise ScoringUnsupported(
                "The server has a token that lies across the boundary of context and text; begin "
                "the text with a blank, and end the context without one."
            )
        return _scores([_pair({"token": t, "logprob": score}, "token") for t, score in rows])

    async def _tokens(self, call: Call, fields: dict[str, Any]) -> list[Any]:
        tokens = await call.post("/tokenize", fields, _told_tokens, metered=False)
        if not tokens:
            raise _unsupported("the tokens of a text")
        return tokens


async def label_distribution(
    model: LikelihoodModel, context: str, texts: Sequence[str]
) -> tuple[float, ...]:
    """The probabilities of given continuations, as if there were no others.

    That is how a distribution over labels is had from a model: its log probabilities under a
    schema do not give one, since they are taken before the schema is enforced.

    Args:
        model: who scores.
        context: what stands before.
        texts: the continuations, such as the labels as JSON strings.

    Raises:
        InvalidInput: there is no text.
        ModelError: a text could not be scored.
    """
    if not texts:
        raise InvalidInput("There are no texts to compare; give at least one.")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(model.score(context, text)) for text in texts]
    totals = [task.result().total for task in tasks]
    best = max(totals)
    weights = [math.exp(total - best) for total in totals]
    return tuple(weight / math.fsum(weights) for weight in weights)


def _told_tokens(data: Any) -> list[Any]:
    return _list(_dict(data).get("tokens"))


def _first_choice(data: Any) -> dict[str, Any]:
    return _dict(next(iter(_list(_dict(data).get("choices"))), None))


def _pair(item: object, name: str) -> tuple[object, object]:
    return _dict(item).get(name), _dict(item).get("logprob")


def _scores(pairs: list[tuple[object, object]]) -> TokenScores:
    tokens: list[str] = []
    log_probabilities: list[float] = []
    for token, score in pairs:
        if not isinstance(token, str) or not isinstance(score, int | float):
            raise _unsupported("a log probability for each token")
        if not math.isfinite(score):
            raise ScoringUnsupported(
                f"The server gives the token {token!r} the log probability {score}, with which "
                "nothing can be compared; score another text."
            )
        tokens.append(token)
        log_probabilities.append(float(score))
    return TokenScores(tuple(tokens), tuple(log_probabilities))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _unsupported(what: str) -> ScoringUnsupported:
    return ScoringUnsupported(
        f"The server did not send {what}; it may tell likelihoods in another way, or not at all."
    )
