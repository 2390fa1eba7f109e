"""Recordings of a model: what it replied, to be replayed exactly and without any network.

A cassette is a file of JSON lines, one for each call: the request and either the completion or
the way in which the reply was not as asked. No header, address or key is ever in it.
"""

from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from balar_core.errors import InvalidInput

from .errors import Malformed, Refused, ReplayMiss, ReplyError, StorageTrouble, Truncated
from .line_file import LineFile, read_lines
from .model import Model
from .structured import excerpt
from .values import (
    Completion,
    Request,
    canonical_json,
    completion_from_data,
    completion_to_data,
    request_to_data,
    usage_from_data,
    usage_to_data,
)

__all__ = ["RecordingModel", "ReplayingModel"]

VERSION = 1

_ERRORS = {kind.__name__: kind for kind in (Malformed, Refused, Truncated)}


class RecordingModel:
    """A model whose replies are written down; it adds to what the cassette holds already.

    Failures of the connection are not written down, since they say nothing about the model.

    Args:
        model: the model.
        path: the cassette.

    Raises:
        StorageTrouble: the cassette cannot be opened.
    """

    def __init__(self, model: Model, path: Path) -> None:
        self._model = model
        self._file = LineFile(path)

    async def complete(self, request: Request) -> Completion:
        """The model's reply, once it is written down.

        Raises:
            ModelError: the model raised it, or the cassette cannot be written.
        """
        line = {"version": VERSION, "request": request_to_data(request)}
        try:
            completion = await self._model.complete(request)
        except ReplyError as error:
            self._file.append({**line, "error": _error_to_data(error)})
            raise
        self._file.append({**line, "completion": completion_to_data(completion)})
        return completion


class ReplayingModel:
    """A model that replies as it did when it was recorded.

    Equal requests get their replies in the order in which they were recorded, and each reply once.
    Usage is what it was at the time.

    Args:
        path: the cassette.

    Raises:
        StorageTrouble: the cassette cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._replies: defaultdict[str, deque[Completion | ReplyError]] = defaultdict(deque)
        for number, line in read_lines(path):
            try:
                key, reply = _read(line)
            except InvalidInput as error:
                raise StorageTrouble(f"{path}, line {number}: {error} Record anew.") from None
            self._replies[key].append(reply)

    async def complete(self, request: Request) -> Completion:
        """The reply that was recorded.

        Raises:
            ReplayMiss: no reply to this request was recorded, or all have been given.
            ReplyError: that is what was recorded.
        """
        key = canonical_json(request_to_data(request))
        if not self._replies[key]:
            purpose = f" for {request.purpose}" if request.purpose else ""
            raise ReplayMiss(
                f"{self._path} holds no (further) reply to a request{purpose} whose last message "
                f"begins: {excerpt(request.messages[-1].text)!r}. Its prompts, settings or "
                "problem are not those of the recording; record anew."
            )
        reply = self._replies[key].popleft()
        if isinstance(reply, ReplyError):
            raise reply
        return reply


def _read(line: Any) -> tuple[str, Completion | ReplyError]:
    if not isinstance(line, dict) or line.get("version") != VERSION or "request" not in line:
        raise InvalidInput(f"This is no recorded call of version {VERSION}.")
    key = canonical_json(line["request"])
    if "error" in line:
        return key, _error_from_data(line["error"])
    return key, completion_from_data(line.get("completion"))


def _error_to_data(error: ReplyError) -> dict[str, Any]:
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "excerpt": error.excerpt,
        "request_id": error.request_id,
        "usage": usage_to_data(error.usage),
        **({"fault": error.fault} if isinstance(error, Malformed) else {}),
    }


def _error_from_data(data: Any) -> ReplyError:
    if not isinstance(data, dict) or data.get("kind") not in _ERRORS:
        raise InvalidInput("This is no recorded error.")
    error = _ERRORS[data["kind"]](
        str(data.get("message")),
        excerpt=str(data.get("excerpt")),
        request_id=data.get("request_id"),
    )
    if isinstance(error, Malformed):
        error.fault = str(data.get("fault", error.fault))
    error.usage = usage_from_data(data.get("usage"))
    return error
