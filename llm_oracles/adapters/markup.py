"""What a completion asks: questions and answers in marked text or in messages.

A question stands between `[QUESTION]` and `[/QUESTION]`; where a problem has several users,
`[QUESTION NAME]` says who is asked. Its answer is the message that follows, by anybody but the
model, or stands between `[ANSWER]` and `[/ANSWER]`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from balar_core.errors import InvalidInput

__all__ = ["Malformed", "Turn", "read_messages", "read_text"]

_MARK = re.compile(r"\[(/?)(QUESTION|ANSWER)(?:[ \t]+([^\]\n]+))?\]")
MODEL = "assistant"


class Malformed(InvalidInput):
    """A completion that does not keep to the form; it has a reward of its own."""


class Turn(NamedTuple):
    """A question.

    Attributes:
        question: its text.
        user: who is asked; empty where that was not said.
        answer: the answer as written; None if there is none.
    """

    question: str
    user: str = ""
    answer: str | None = None


def read_text(text: str, *, answers: bool) -> list[Turn]:
    """The turns in one text; none if nothing is asked.

    Args:
        text: the text.
        answers: whether answers in it count. They must not where the model wrote the whole text,
            which would then answer its own questions.

    Raises:
        Malformed: marks that do not match, or an answer that does not count.

    >>> read_text("YES [QUESTION]Does it fly?[/QUESTION]", answers=False)
    [Turn(question='Does it fly?', user='', answer=None)]
    >>> read_text("NO", answers=False)
    []
    """
    turns: list[Turn] = []
    marks = list(_MARK.finditer(text))
    if len(marks) % 2:
        raise Malformed("A mark without its counterpart.")
    for begin, end in zip(marks[::2], marks[1::2], strict=True):
        if begin[1] or not end[1] or begin[2] != end[2]:
            raise Malformed(f"{begin[0]} is followed by {end[0]}.")
        inside = text[begin.end() : end.start()].strip()
        if begin[2] == "QUESTION":
            turns.append(Turn(inside, (begin[3] or "").strip()))
        elif not answers:
            raise Malformed("The model answers its own question.")
        elif not turns or turns[-1].answer is not None:
            raise Malformed("An answer without a question.")
        else:
            turns[-1] = turns[-1]._replace(answer=inside)
    return turns


def read_messages(messages: Sequence[Any]) -> list[Turn]:
    """The turns in a list of messages; what others than the model say after a question answers it.

    Raises:
        Malformed: no messages of the usual form, marks that do not match, or a model that answers
            itself.
    """
    turns: list[Turn] = []
    for message in messages:
        if not isinstance(message, Mapping):
            raise Malformed("A message is a mapping with `role` and `content`.")
        text = _content(message.get("content"))
        if message.get("role", MODEL) == MODEL:
            turns += read_text(text, answers=False)
        elif turns and turns[-1].answer is None:
            turns[-1] = turns[-1]._replace(answer=text)
    return turns


def _content(content: object) -> str:
    """The text of a message; parts that are no text say nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(part for part in parts if isinstance(part, str))
    return ""
