"""The chat-completions protocol: what is sent, and what replies mean. No input, no output."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import (
    Malformed,
    ModelError,
    NotAuthorised,
    RateLimited,
    Refused,
    RequestRejected,
    TransportFailure,
    Truncated,
)
from .structured import Format, excerpt, strict, told_schema
from .values import Request, TokenScore

__all__ = ["TextReply", "Tokens", "failure", "parse_body", "payload", "read_reply", "read_tokens"]


@dataclass(frozen=True)
class TextReply:
    """A reply before anything is looked for in it.

    Attributes:
        text: what the model wrote.
        finish_reason: why it ended, as the server calls it.
        model: the model, as the server calls it.
        token_logprobs: its tokens, if the server told them.
    """

    text: str
    finish_reason: str | None
    model: str
    token_logprobs: tuple[TokenScore, ...] | None


def payload(
    request: Request, model: str, form: Format, extra: Mapping[str, object]
) -> dict[str, Any]:
    """What is sent for a request.

    Args:
        request: what is wanted.
        model: the model, as the server calls it.
        form: the way to ask for JSON; of no account without a schema.
        extra: further fields; they replace others, and None removes a field.
    """
    schema = None if request.schema is None else strict(request.schema)
    messages = request.messages
    if schema is not None and form != "json_schema":
        messages = told_schema(messages, schema)
    fields: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.text} for m in messages],
        "temperature": request.temperature,
        "seed": request.seed,
        "max_tokens": request.max_tokens,
    }
    if schema is not None and form == "json_schema":
        named = {"name": request.schema_name, "strict": True, "schema": schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": named}
    elif schema is not None and form == "json_object":
        fields["response_format"] = {"type": "json_object"}
    if request.top_logprobs is not None:
        fields |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    return {name: value for name, value in {**fields, **extra}.items() if value is not None}


def parse_body(body: bytes) -> Any:
    """The JSON of a body, whatever its content type says; None if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def failure(
    status: int, data: Any, body: bytes, *, url: str, retry_after: float | None, final: bool
) -> ModelError | None:
    """What a reply says went wrong; None if nothing did.

    Some servers send errors with status 200; their code counts then.

    Args:
        status: the HTTP status.
        data: the JSON of the body; None if it is not JSON.
        body: the body.
        url: what was asked, for messages.
        retry_after: seconds that the server asked to wait.
        final: whether the server said that retrying is of no use.
    """
    reported = data.get("error") if isinstance(data, dict) else None
    if status < 300 and not reported and data is not None:
        return None
    detail = _detail(reported) or excerpt(body.decode(errors="replace")) or "nothing further"
    if status < 300:
        if data is None:
            return TransportFailure(f"{url} sent no JSON but: {detail}.", final=final)
        code = reported.get("code") if isinstance(reported, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
    said = f"{url} says {status}: {detail}."
    if status == 429:
        spent = isinstance(reported, dict) and reported.get("code") == "insufficient_quota"
        advice = "" if retry_after is None else f" It asks to wait {retry_after:g} s."
        return RateLimited(
            f"{said}{advice} Lower the limits on concurrency and calls per minute.",
            retry_after=retry_after,
            final=final or spent,
        )
    if status in (408, 409) or (status >= 500 and status not in (501, 505)):
        return TransportFailure(said, retry_after=retry_after, final=final)
    if status in (401, 403):
        return NotAuthorised(f"{said} Give a key that is valid for this server.", status=status)
    if status < 400:
        return RequestRejected(f"{said} Give the address it leads to.", status=status)
    hint = " Check the model and the base URL; it often ends in /v1." if status == 404 else ""
    return RequestRejected(said + hint, status=status)


def read_reply(data: Any) -> TextReply:
    """The reply in a completion.

    Raises:
        TransportFailure: the JSON is no completion.
        Truncated: the reply was cut off at the token limit.
        Refused: the model or a filter declined.
        Malformed: the reply holds what is not text.
    """
    choice = _first(data.get("choices")) if isinstance(data, dict) else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise TransportFailure(f"The server sent no completion but: {_shown(data)}.")
    finish_reason = _text(choice.get("finish_reason"))
    content = _content(message.get("content"))
    if finish_reason == "length":
        shown = excerpt(content or "")
        raise Truncated(
            f"The reply was cut off at the token limit; it begins: {shown!r}. Allow more tokens, "
            "or ask for less at once.",
            excerpt=shown,
        )
    refusal = _text(message.get("refusal"))
    if refusal or finish_reason == "content_filter":
        shown = excerpt(refusal or content or "")
        raise Refused(
            f"The model declined to reply: {shown!r}. Word the request differently, or take "
            "another model.",
            excerpt=shown,
        )
    if content is None:
        raise TransportFailure(f"The server sent a completion without text: {_shown(choice)}.")
    if any("\ud800" <= character <= "\udfff" for character in content):
        shown = excerpt(content)
        raise Malformed(
            f"The reply holds a lone surrogate, which no file can hold; it begins: {shown!r}.",
            fault="it holds a lone surrogate",
            excerpt=shown,
        )
    return TextReply(
        content, finish_reason, _text(data.get("model")) or "", _logprobs(choice.get("logprobs"))
    )


@dataclass(frozen=True)
class Tokens:
    """What a server says a reply has cost."""

    prompt: int
    completion: int


def read_tokens(data: Any) -> Tokens | None:
    """The token counts in a reply; None if it holds none."""
    usage = data.get("usage") if isinstance(data, dict) else None
    if not isinstance(usage, dict):
        return None
    read, written = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return None if read is None else Tokens(read, written or 0)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _first(items: object) -> Any:
    return items[0] if isinstance(items, list) and items else None


def _text(value: object) -> str | None:
    """A text that can be written, whatever it was."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else None


def _content(content: object) -> str | None:
    """The text of a message; some servers send it in parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str)) if parts else None
    return content if isinstance(content, str) else None


def _logprobs(data: object) -> tuple[TokenScore, ...] | None:
    entries = data.get("content") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        return None
    scores = [_score(entry) for entry in entries]
    return tuple(score for score in scores if score is not None) if all(scores) else None


def _score(entry: object) -> TokenScore | None:
    scored = _scored(entry)
    if scored is None or not isinstance(entry, dict):
        return None
    told = entry.get("top_logprobs")
    others = [_scored(other) for other in (told if isinstance(told, list) else [])]
    return TokenScore(*scored, tuple(other for other in others if other is not None))


def _scored(entry: object) -> tuple[str, float] | None:
    if not isinstance(entry, dict):
        return None
    token, log_probability = _text(entry.get("token")), entry.get("logprob")
    if token is None or not isinstance(log_probability, int | float):
        return None
    return (token, float(log_probability)) if math.isfinite(log_probability) else None


def _detail(reported: object) -> str:
    if isinstance(reported, dict):
        reported = reported.get("message") or json.dumps(reported)
    return excerpt(reported) if isinstance(reported, str) else ""


def _shown(data: object) -> str:
    return excerpt(json.dumps(data))
