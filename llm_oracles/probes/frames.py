"""Intent frames from a recording: one JSON line for each query."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from balar_core.codec import dumps, loads, to_data
from balar_core.errors import InvalidInput
from balar_core.probing import InferIntent, InferredIntent, from_data

from ..recorded import CorruptRecording
from ..store import write_whole

__all__ = ["RecordedFrames"]


class RecordedFrames:
    """Infers intents from a recording.

    A query that is not in it gets no frame, and so no probes.

    Args:
        replies: what was inferred for each query.
    """

    def __init__(self, replies: Mapping[str, InferredIntent]) -> None:
        self.replies = dict(replies)

    def infer(self, need: InferIntent) -> InferredIntent:
        """What was recorded for the query."""
        nothing = InferredIntent(None, "Nothing was recorded for this query.")
        return self.replies.get(need.query, nothing)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording, whole or not at all.

        Raises:
            FileTrouble: the file cannot be written.
        """
        lines = (
            dumps({"query": query, "reply": to_data(reply)}) + "\n"
            for query, reply in self.replies.items()
        )
        write_whole(Path(path), "".join(lines))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises:
            CorruptRecording: the file cannot be read, or a line is wrong; the message says which.
        """
        try:
            text = Path(path).read_bytes().decode()
        except OSError as error:
            raise CorruptRecording(
                f"The recording {os.fspath(path)} cannot be read: {error.strerror}."
            ) from None
        except UnicodeDecodeError:
            raise CorruptRecording(f"The recording {os.fspath(path)} is not UTF-8 text.") from None
        return cls(dict(_replies(text.split("\n")[:-1], os.fspath(path))))


def _replies(lines: Iterable[str], path: str) -> Iterable[tuple[str, InferredIntent]]:
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        try:
            data = loads(line)
            if not isinstance(data, dict) or data.keys() != {"query", "reply"}:
                raise InvalidInput("A line is an object with 'query' and 'reply'.")
            query, reply = data["query"], from_data(data["reply"])
            if not isinstance(query, str) or not isinstance(reply, InferredIntent):
                raise InvalidInput("The query is a text, and the reply an 'inferred_intent'.")
            if query in seen:
                raise InvalidInput(f"Line {seen[query]} is about the same query.")
        except InvalidInput as error:
            raise CorruptRecording(f"{path}:{number}: {error}") from None
        seen[query] = number
        yield query, reply
