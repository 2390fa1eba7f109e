"""Reading YAML or JSON so that every mistake can be shown where it stands.

Every scalar stays the text that was written: `[yes, no]` and `[1, 2]` are lists of texts, and it
is for the reader of the data to see a number in `0.5`. So nothing in a problem turns into a
boolean, a date or an octal number behind its author's back.
"""

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass

import yaml

from balar_core.errors import BalarError

__all__ = ["Document", "Keys", "Mistake", "ProblemError", "read_document", "read_text"]

Keys = tuple[str | int, ...]
"""The way to a place in nested data: keys of mappings and positions in lists."""
Data = str | list["Data"] | dict[str, "Data"]
"""What a document holds: texts, lists and mappings."""

MAX_BYTES = 4 * 1024 * 1024
MAX_NODES = 200_000
MAX_DEPTH = 40


@dataclass(frozen=True, order=True)
class Mistake:
    """One thing that is wrong with a problem.

    Attributes:
        line: line in the file, from 1; 0 if the mistake has no place in a file.
        column: column in characters, from 1; 0 likewise.
        where: the place in the problem, such as `questions[2].choices`; may be empty.
        message: what is wrong, and the way out.
    """

    line: int
    column: int
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class ProblemError(BalarError):
    """A problem cannot be used; the text lists all mistakes as `FILE:LINE:COLUMN: message`.

    Attributes:
        source: the file, or whatever the problem was made from.
        mistakes: everything that is wrong, in the order of the file.
    """

    def __init__(self, source: str, mistakes: Iterable[Mistake]) -> None:
        self.source = source
        self.mistakes = tuple(sorted(mistakes))
        super().__init__("\n".join(self._line(mistake) for mistake in self.mistakes))

    def _line(self, mistake: Mistake) -> str:
        place = f"{self.source}:{mistake.line}:{mistake.column}" if mistake.line else self.source
        return f"{place}: {mistake}" if place else str(mistake)


@dataclass(frozen=True)
class Document:
    """Nested data, and where each part of it stands.

    Attributes:
        data: lists, mappings and texts.
        marks: line and column, from 1, of every key of a mapping and every item of a list.
        mistakes: keys that stand twice or are not texts; of doubles `data` holds the first.
    """

    data: Data
    marks: dict[Keys, tuple[int, int]]
    mistakes: tuple[Mistake, ...] = ()

    def place(self, keys: Keys) -> tuple[int, int]:
        """Line and column of the deepest part on the way along `keys` that is there."""
        while keys not in self.marks:
            keys = keys[:-1]
        return self.marks[keys]


def read_text(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> str:
    """The text of a file in UTF-8, with or without a byte order mark.

    Raises:
        ProblemError: there is no such file, it cannot be read, it is too large, or not in UTF-8.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            content = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(name, _reason(error)) from None
    if len(content) > max_bytes:
        raise _unreadable(name, f"The file is larger than {max_bytes >> 20} MiB.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", errors="replace")
        line, column = _line_and_column(before)
        message = f"byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8."
        raise ProblemError(name, [Mistake(line, column, "", message)]) from None


def read_document(text: str, source: str) -> Document:
    """Read the one YAML document in `text`; JSON is YAML too.

    Args:
        text: the text.
        source: the name of the file, for messages. If it ends in `.json`, tabs may indent.

    Raises:
        ProblemError: not YAML, nothing in it, more than one document, or nested beyond reason.
    """
    if source.lower().endswith(".json"):
        text = text.replace("\t", " ")
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
        if node is None:
            message = "There is nothing in it; docs/problems.md shows what a problem looks like."
            raise ProblemError(source, [Mistake(1, 1, "", message)])
        return _Builder().document(node)
    except yaml.reader.ReaderError as error:
        line, column = _line_and_column(text[: error.position])
        message = f"U+{ord(text[error.position]):04X} may not stand in a text file; remove it."
        raise ProblemError(source, [Mistake(line, column, "", message)]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise ProblemError(source, [Mistake(line, column, "", _explain(error))]) from None


class _Loader(yaml.SafeLoader):
    """A loader that gives up on deep nesting before the interpreter does."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise _too_much(f"Nested more than {MAX_DEPTH} deep", event.start_mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


class _Builder:
    """Turns the nodes of YAML into a `Document`, with a limit to what aliases can multiply."""

    def __init__(self) -> None:
        self.marks: dict[Keys, tuple[int, int]] = {}
        self.mistakes: list[Mistake] = []

    def document(self, node: yaml.Node) -> Document:
        return Document(self._data(node, ()), self.marks, tuple(self.mistakes))

    def _data(self, node: yaml.Node, keys: Keys) -> Data:
        if len(keys) > MAX_DEPTH:
            raise _too_much("An alias (*) that holds itself or is nested too deep", node.start_mark)
        if len(self.marks) > MAX_NODES:
            raise _too_much(
                f"More than {MAX_NODES:,} parts, aliases (*) counted each time", node.start_mark
            )
        self.marks.setdefault(keys, _place(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, keys)
        if isinstance(node, yaml.SequenceNode):
            return [self._data(item, (*keys, i)) for i, item in enumerate(node.value)]
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, keys: Keys) -> Data:
        data: dict[str, Data] = {}
        for key_node, value_node in node.value:
            line, column = _place(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.mistakes.append(Mistake(line, column, "", "A key has to be a text."))
                continue
            key = _scalar(key_node)
            if key in data:
                first = self.marks[(*keys, key)][0]
                message = f"{key!r} stands twice here, first in line {first}; keep one of them."
                self.mistakes.append(Mistake(line, column, "", message))
                continue
            self.marks[(*keys, key)] = (line, column)
            data[key] = self._data(value_node, (*keys, key))
        return data


def _scalar(node: yaml.Node) -> str:
    """The text of a scalar; JSON's escaped surrogate pairs become one character."""
    text = str(node.value)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


class _TooMuch(yaml.MarkedYAMLError):
    """A document that would take more time or memory than any honest problem."""


def _too_much(what: str, mark: yaml.Mark | None) -> _TooMuch:
    return _TooMuch(problem=f"{what}; write it out flat.", problem_mark=mark)


_HINTS = {
    r"'\t'": "a tab stands where only blanks may; indent with blanks.",
    "mapping values are not allowed": "a colon and a blank inside a text; put the text in quotes.",
    "found character '`'": "a text may not begin with `; put it in quotes.",
    "found character '@'": "a text may not begin with @; put it in quotes.",
    "but got '?'": "a question mark in a text between {} or []; put the text in quotes.",
    "expected a single document": "a second document (---) begins here; a problem is one document.",
}


def _explain(error: yaml.MarkedYAMLError) -> str:
    if isinstance(error, _TooMuch):
        return str(error.problem)
    problem = " ".join(str(part) for part in (error.context, error.problem) if part)
    hints = [hint for words, hint in _HINTS.items() if words in problem]
    return f"Not YAML: {hints[0] if hints else problem + '.'}"


def _line_and_column(before: str) -> tuple[int, int]:
    """Line and column, from 1, of the character that follows the text `before`."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _reason(error: OSError | ValueError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOENT:
        return "There is no such file; check its name."
    if number == errno.EISDIR:
        return "This is a directory; give a file."
    return f"The file cannot be read: {getattr(error, 'strerror', None) or error}."


def _unreadable(name: str, reason: str) -> ProblemError:
    shown = name if name.isprintable() else ascii(name)
    return ProblemError(shown, [Mistake(0, 0, "", reason)])
