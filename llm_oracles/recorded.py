"""Recordings: the replies of an earlier dialogue, given again without asking anybody.

run(dialogue, Recorder(oracle, "visit.jsonl"))           # writes one line per reply
run(dialogue, RecordedOracle.load("visit.jsonl"))        # the same dialogue, offline
"""

import difflib
import os
from collections import defaultdict, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Self, get_args

from balar_core.dialogue import (
    Ask,
    Dialogue,
    ElicitAnswers,
    ElicitLikelihoods,
    ElicitPriors,
    Need,
    ProposeQuestions,
    Reply,
    ScoreAnswer,
)
from balar_core.dialogue.codec import dumps, from_data, loads, need_key, to_data
from balar_core.errors import BalarError, InvalidInput

from .oracle import Oracle

__all__ = ["CorruptRecording", "MissingRecording", "RecordedOracle", "Recorder", "in_words"]


class MissingRecording(BalarError, LookupError):
    """The dialogue needs something for which there is no recorded reply (left)."""


class CorruptRecording(BalarError):
    """A file with recorded replies cannot be read."""


class RecordedOracle:
    """Gives the recorded reply to every need; a need that came twice has its replies in order.

    Every reply is given once, so that one `RecordedOracle` serves one dialogue.

    Args:
        pairs: needs and the replies to them.
    """

    def __init__(self, pairs: Iterable[tuple[Need, Reply]]) -> None:
        self._replies: defaultdict[str, deque[Reply]] = defaultdict(deque)
        self._needs: list[Need] = []
        for need, reply in pairs:
            self._replies[need_key(need)].append(reply)
            self._needs.append(need)

    @classmethod
    def of(cls, dialogue: Dialogue) -> Self:
        """The replies that a dialogue, finished or not, has been told."""
        pairs: list[tuple[Need, Reply]] = []
        before = Dialogue.start(dialogue.setup)
        for reply in dialogue.replies:
            after = before.tell(reply)
            answered = (need for need in before.needs if need not in after.needs)
            pairs.append((next(answered, before.needs[0]), reply))
            before = after
        return cls(pairs)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what a `Recorder` has written.

        A last line that was cut short, because the program was stopped while it wrote, is left out.

        Raises:
            CorruptRecording: the file cannot be read, or a line is not a need and its reply.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise CorruptRecording(
                f"The recording {os.fspath(path)} cannot be read: {error.strerror}."
            ) from None
        lines = content.split(b"\n")[:-1]
        return cls(_pair(line, f"{os.fspath(path)}:{i}") for i, line in enumerate(lines, 1))

    async def fulfil(self, need: Need) -> Reply:
        """The next recorded reply to this need.

        Raises:
            MissingRecording: there is none, or all have been given.
        """
        replies = self._replies.get(need_key(need))
        if replies:
            return replies.popleft()
        if replies is not None:
            raise MissingRecording(
                f"Every recorded reply has been given already: {in_words(need)}. Use a fresh "
                "RecordedOracle for each dialogue."
            )
        raise MissingRecording(f"No reply is recorded: {in_words(need)}. {self._similar(need)}")

    def _similar(self, need: Need) -> str:
        same = {in_words(other): None for other in self._needs if type(other) is type(need)}
        if not same:
            return f"The recording holds {len(self._needs)} replies, none of this kind."
        words = in_words(need)
        if words in same:
            return "A similar need is recorded, but with another prompt, conversation or choices."
        close = difflib.get_close_matches(words, same, n=3, cutoff=0)
        return f"Recorded are: {'; '.join(close)}."


class Recorder:
    """Passes needs on to another oracle and writes every reply to a file, a line each.

    Each line is whole and on the disk before the reply is handed on. A file that exists is
    continued.

    Args:
        oracle: who answers.
        path: the file, JSON lines in UTF-8.
    """

    def __init__(self, oracle: Oracle, path: str | os.PathLike[str]) -> None:
        self.oracle = oracle
        self.path = Path(path)

    async def fulfil(self, need: Need) -> Reply:
        """The other oracle's reply, recorded."""
        reply = await self.oracle.fulfil(need)
        self._append(dumps({"need": to_data(need), "reply": to_data(reply)}))
        return reply

    def _append(self, line: str) -> None:
        with open(self.path, "ab") as file:
            file.truncate(_whole_lines(self.path))
            file.write(f"{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())


def _whole_lines(path: Path) -> int:
    """The size in bytes of a file without a last line that was cut short."""
    return path.read_bytes().rfind(b"\n") + 1


def in_words(need: Need) -> str:
    """What a need asks for, in a few words.

    >>> from balar_core.dialogue import ProposeExpansion
    >>> in_words(ProposeExpansion("Why?", "", (), (), (), 4, ()))
    'propose expansion'
    """
    words = need.kind.replace("_", " ")
    match need:
        case Ask():
            return f"ask {need.user.name} {need.question.text!r}"
        case ScoreAnswer():
            return f"score the answer {need.reply!r} to {need.question.text!r}"
        case ElicitPriors() | ElicitAnswers() | ProposeQuestions():
            return f"{words} for {', '.join(d.name for d in need.dimensions)}"
        case ElicitLikelihoods():
            return f"{words} of {', '.join(repr(q.text) for q in need.questions)}"
        case _:
            return words


def _pair(line: bytes, where: str) -> tuple[Need, Reply]:
    try:
        data = loads(line)
        if not isinstance(data, dict) or data.keys() != {"need", "reply"}:
            raise InvalidInput("A line is an object with 'need' and 'reply'.")
        need, reply = from_data(data["need"]), from_data(data["reply"])
        if not isinstance(need, get_args(Need)) or not isinstance(reply, get_args(Reply)):
            raise InvalidInput(f"{need.kind!r} is no need, or {reply.kind!r} is no reply.")
    except InvalidInput as error:
        raise CorruptRecording(f"{where}: {error}") from None
    return need, reply
