"""What is asked of a language model and what comes back: frozen values with one JSON form each.

The JSON form is canonical (no superfluous blanks, nothing escaped that need not be, only finite
numbers), so that equal values are equal texts: it is what recordings hold and what addresses in a
cache are made of. Keys stay in order, because the order of a schema's properties is the order in
which a model writes them.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from balar_core.errors import InvalidInput, InvalidSetting
from balar_core.text import check_text

__all__ = [
    "Completion",
    "Message",
    "Request",
    "TokenScore",
    "TokenScores",
    "Usage",
    "canonical_json",
    "completion_from_data",
    "completion_to_data",
    "content_address",
    "request_to_data",
    "usage_from_data",
    "usage_to_data",
]

T = TypeVar("T")

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Message:
    """One message of a conversation with a model.

    Attributes:
        role: who speaks.
        text: what is said.

    Raises:
        InvalidText: the text cannot be written as UTF-8; the message gives the position.
    """

    role: Role
    text: str

    def __post_init__(self) -> None:
        check_text(self.text, f"the {self.role} message", empty=True)


@dataclass(frozen=True)
class Request:
    """One completion that is wanted.

    Attributes:
        messages: the conversation so far, at least one message.
        schema: a JSON schema that the reply must follow; None asks for plain text.
        schema_name: a name for the schema, of letters, digits, `_` and `-`.
        purpose: what the completion is for, such as `"likelihoods"`; shown in traces, never sent.
        temperature: 0 for the likeliest reply; None leaves it to the server.
        seed: for servers that sample reproducibly.
        max_tokens: the longest reply; None leaves it to the server.
        top_logprobs: how many alternatives to report for each token of the reply; None reports no
            log probabilities at all.
        sample: tells repeated requests apart that ask the same again on purpose; never sent.

    Raises:
        InvalidSetting: a number is out of range, or there is no message.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    schema_name: str = "reply"
    purpose: str = ""
    temperature: float | None = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    top_logprobs: int | None = None
    sample: int = 0

    def __post_init__(self) -> None:
        if not self.messages:
            raise InvalidSetting("A request has no messages; give it at least one.")
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise InvalidSetting(f"The temperature is {self.temperature}; it is 0 or more.")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InvalidSetting(f"max_tokens is {self.max_tokens}; it is 1 or more.")
        if self.top_logprobs is not None and self.top_logprobs < 0:
            raise InvalidSetting(f"top_logprobs is {self.top_logprobs}; it is 0 or more.")


@dataclass(frozen=True)
class Usage:
    """What calls have cost. Usages add up; `Usage()` is nothing.

    Attributes:
        prompt_tokens: tokens read, as far as servers told.
        completion_tokens: tokens written, as far as servers told.
        calls: completions that were wanted.
        attempts: HTTP requests that were sent for them, failed ones included.
        unmetered: replies that came without a token count.
        cost: in whatever currency the prices are in; None where it is not known.

    >>> (Usage(10, 5, 1, 1, cost=0.5) + Usage(10, 5, 1, 3, cost=0.25)).cost
    0.75
    >>> (Usage(10, 5, 1, 1, cost=0.5) + Usage(10, 5, 1, 1, cost=None)).cost is None
    True
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0
    attempts: int = 0
    unmetered: int = 0
    cost: float | None = 0.0

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        unknown = self.cost is None or other.cost is None
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.calls + other.calls,
            self.attempts + other.attempts,
            self.unmetered + other.unmetered,
            None if unknown else (self.cost or 0.0) + (other.cost or 0.0),
        )


@dataclass(frozen=True)
class TokenScore:
    """One token of a reply.

    Attributes:
        token: its text.
        log_probability: its log probability (nats), before any schema was enforced.
        alternatives: the likeliest tokens at its place and their log probabilities (nats).
    """

    token: str
    log_probability: float
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Completion:
    """What a model replied.

    Attributes:
        text: the reply as it came.
        data: the JSON value in the reply if the request had a schema, else None. It is sound JSON
            without duplicate keys; whether it follows the schema is for the caller to check,
            since not every server enforces schemas.
        finish_reason: why the model ended, as the server calls it; None if it did not say.
        usage: what this completion has cost, failed attempts included.
        model: the model as the server calls it.
        formats: the ways in which the schema was asked for, in order; the last one worked.
        token_logprobs: the tokens of the reply, if they were asked for and the server told them.
    """

    text: str
    data: Any = None
    finish_reason: str | None = None
    usage: Usage = field(default=Usage(calls=1, attempts=1))
    model: str = ""
    formats: tuple[str, ...] = ()
    token_logprobs: tuple[TokenScore, ...] | None = None


@dataclass(frozen=True)
class TokenScores:
    """How likely a given text is, token by token.

    Attributes:
        tokens: the text, cut into the tokens of the model.
        log_probabilities: the log probability of each (nats), given all before it.

    >>> TokenScores(("to", "day"), (-1.5, -0.5)).total
    -2.0
    """

    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.log_probabilities):
            raise InvalidInput(
                f"There are {len(self.tokens)} tokens, but {len(self.log_probabilities)} log "
                "probabilities; give one for each token."
            )

    @property
    def total(self) -> float:
        """The log likelihood of the whole text (nats)."""
        return math.fsum(self.log_probabilities)


def canonical_json(data: object) -> str:
    r"""The JSON text of a value.

    Raises:
        InvalidInput: the value has no JSON text (a number that is not finite, an unknown type).

    >>> canonical_json({"b": [1.5, None], "a": "Łódź"})
    '{"b":[1.5,null],"a":"Łódź"}'
    """
    try:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"This value has no JSON text: {error}.") from None


def request_to_data(request: Request) -> dict[str, Any]:
    """A request as JSON-able data. `purpose` is left out: it changes nothing in the reply."""
    data = asdict(request)
    del data["purpose"]
    if request.temperature is not None:
        data["temperature"] = float(request.temperature)  # 0 and 0.0 are the same
    return data


def completion_to_data(completion: Completion) -> dict[str, Any]:
    """A completion as JSON-able data."""
    return asdict(completion)


def completion_from_data(data: object) -> Completion:
    """The completion that `completion_to_data` wrote.

    Raises:
        InvalidInput: the data are no completion; the message says where.
    """
    return _read(_COMPLETION, data, "completion")


def usage_to_data(usage: Usage) -> dict[str, Any]:
    """A usage as JSON-able data."""
    return asdict(usage)


def usage_from_data(data: object) -> Usage:
    """The usage that `usage_to_data` wrote.

    Raises:
        InvalidInput: the data are no usage; the message says where.
    """
    return _read(_USAGE, data, "usage")


def _read(adapter: TypeAdapter[T], data: object, what: str) -> T:
    try:
        return adapter.validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the value"
        raise InvalidInput(f"This is no {what}: {place}: {first['msg']}.") from None


_COMPLETION = TypeAdapter(Completion)
_USAGE = TypeAdapter(Usage)


def content_address(request: Request, identity: str) -> str:
    """The address of a reply in a cache: a digest of all that the reply depends on.

    Args:
        request: what is asked.
        identity: who is asked: server, model and settings, as one text.

    >>> request = Request((Message("user", "Hello"),))
    >>> len(content_address(request, "http://localhost:8000/v1 m"))
    64
    """
    text = canonical_json([identity, request_to_data(request)])
    return hashlib.sha256(text.encode()).hexdigest()
