"""A made-up model: it replies to any request by its schema, the same to the same request."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from llm_oracles.models import Completion, Request, Usage

Change = Callable[[str, Any, Any], Any]
"""Called with the purpose, the data of the request and the reply; gives the reply in its place."""


def instance(schema: Mapping[str, Any], seed: str, data: Mapping[str, Any]) -> Any:
    """A value that follows a schema, drawn by the seed: as many and as much as is allowed."""
    digest = hashlib.sha256(seed.encode()).hexdigest()
    if "enum" in schema:
        return schema["enum"][int(digest, 16) % len(schema["enum"])]
    if "anyOf" in schema:
        nothing = "enum" in schema["anyOf"][0]  # no question rewords another
        return None if nothing else instance(schema["anyOf"][0], seed, data)
    match schema["type"]:
        case "object":
            parts = schema["properties"].items()
            return {name: instance(part, f"{seed}.{name}", data) for name, part in parts}
        case "array":
            most = range(schema["maxItems"])
            return [instance(schema["items"], f"{seed}.n{i}", data) for i in most]
        case "string":
            return f"{seed.rpartition('.')[2]} {digest[:6]}"
        case other:
            raise AssertionError(f"no value for {other}")


def answer(body: Mapping[str, Any], change: Change | None = None) -> str:
    """The reply to a request as JSON, as a server would give it."""
    asked = body["response_format"]["json_schema"]
    return json.dumps(reply(asked["name"], asked["schema"], _last(body["messages"]), change))


def reply(purpose: str, schema: Mapping[str, Any], said: str, change: Change | None = None) -> Any:
    """The reply to what the last message said."""
    data = json.JSONDecoder().raw_decode(said)[0]
    made = instance(schema, said, data)
    if purpose == "expansion":
        made["dimension"]["name"] = f"extra {len(data['unknowns'])}"
    return made if change is None else change(purpose, data, made)


class WorldModel:
    """The made-up model as a `Model`.

    Args:
        change: what is changed in its replies.
        latency: seconds that each reply takes.

    Attributes:
        requests: what it was asked.
    """

    def __init__(self, change: Change | None = None, latency: float = 0.0) -> None:
        self.requests: list[Request] = []
        self._change = change
        self._latency = latency

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        await asyncio.sleep(self._latency)
        assert request.schema is not None
        said = request.messages[-1].text
        made = reply(request.schema_name, request.schema, said, self._change)
        usage = Usage(prompt_tokens=10, completion_tokens=5, calls=1, attempts=1)
        return Completion(json.dumps(made), made, "stop", usage)

    def data(self, purpose: str) -> list[Any]:
        """What the requests for some purpose were about."""
        said = (r.messages[-1].text for r in self.requests if r.purpose == purpose)
        return [json.JSONDecoder().raw_decode(text)[0] for text in said]


def _last(messages: list[dict[str, str]]) -> str:
    return messages[-1]["content"]
