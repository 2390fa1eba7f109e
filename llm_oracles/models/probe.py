"""What a server really does, found out by asking it."""

import time
from dataclasses import dataclass, replace

from .errors import Malformed, RequestRejected
from .model import Model
from .values import Message, Request

__all__ = ["Findings", "probe"]

QUESTION = Request(
    (Message("user", "Is a hammer a tool? Reply with your answer."),),
    schema={"type": "object", "properties": {"answer": {"enum": ["yes", "no"]}}},
    schema_name="probe",
    purpose="probe",
    max_tokens=200,
)
"""A request whose reply is short, and keeps to the schema only if somebody sees to it."""


@dataclass(frozen=True)
class Findings:
    """What one server does with one model.

    Attributes:
        model: the model, as the server calls it.
        seconds: how long the first reply took.
        formats: the ways in which JSON was asked for, in order; the last one worked.
        follows_schema: whether the reply was one of those that the schema allows.
        tells_tokens: whether it says what a reply costs.
        tells_logprobs: whether it gives the log probabilities of a reply's tokens.
    """

    model: str
    seconds: float
    formats: tuple[str, ...]
    follows_schema: bool
    tells_tokens: bool
    tells_logprobs: bool


async def probe(model: Model) -> Findings:
    """Ask two short questions.

    Raises:
        ModelError: there is no reply to the first; the subclass says why.
    """
    begun = time.monotonic()
    reply = await model.complete(QUESTION)
    seconds = time.monotonic() - begun
    try:
        scored = await model.complete(replace(QUESTION, top_logprobs=1))
        tells_logprobs = bool(scored.token_logprobs)
    except (RequestRejected, Malformed):
        tells_logprobs = False
    return Findings(
        model=reply.model,
        seconds=seconds,
        formats=reply.formats,
        follows_schema=reply.data in ({"answer": "yes"}, {"answer": "no"}),
        tells_tokens=reply.usage.unmetered == 0,
        tells_logprobs=tells_logprobs,
    )
