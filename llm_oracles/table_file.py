"""Reading tables of text (CSV) so that every bad line can be shown."""

import csv
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass

from balar_core.errors import InvalidSetting
from balar_core.text import canonical

from .problem_checks import suggestion
from .problem_file import Mistake, ProblemError, read_text

__all__ = ["RawTable", "read_table"]

MAX_BYTES = 64 * 1024 * 1024
MAX_MISTAKES = 20
DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class RawTable:
    """The cells of a table, blanks around them removed.

    Attributes:
        source: the name of the file.
        columns: the names of the columns; "column 1" and so on where there are none.
        rows: line number, from 1, and cells of every row that is not blank.
    """

    source: str
    columns: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]

    def column(self, wanted: str | int) -> int:
        """The position, from 0, of a column given by name or by its number from 1.

        Raises:
            ProblemError: there is no such column; the message lists those there are.
        """
        names = {canonical(name): i for i, name in enumerate(self.columns)}
        if isinstance(wanted, str) and canonical(wanted) in names:
            return names[canonical(wanted)]
        number = int(wanted) if str(wanted).isdecimal() else 0
        if 1 <= number <= len(self.columns):
            return number - 1
        hint = suggestion(str(wanted), self.columns, "columns")
        message = f"There is no column {wanted!r}. {hint} A number from 1 will do as well."
        raise ProblemError(self.source, [Mistake(1, 1, "", message)])


def read_table(
    path: str | os.PathLike[str], *, header: bool = True, delimiter: str | None = None
) -> RawTable:
    """Read a table in UTF-8.

    Args:
        path: the file.
        header: whether the first row holds the names of the columns.
        delimiter: what stands between cells; if not given, whichever of comma, semicolon, tab and
            bar divides the first rows evenly into the most columns.

    Raises:
        ProblemError: the file cannot be read, is empty, or has rows of different lengths.
        InvalidSetting: a delimiter that is not a single character.
    """
    source = os.fspath(path)
    text = read_text(path, MAX_BYTES)
    if delimiter is None:
        delimiter = _sniff(text)
    elif len(delimiter) != 1 or delimiter in '"\r\n ':
        raise InvalidSetting(f"The delimiter is {delimiter!r}; give one character, such as ';'.")
    try:
        rows = list(_rows(text, delimiter))
    except _Broken as broken:
        mistake = Mistake(broken.line, 1, "", f"Not a table: {broken}.")
        raise ProblemError(source, [mistake]) from None
    columns = _columns(rows, header, source)
    body = rows[header:]
    if not body:
        raise ProblemError(source, [Mistake(1, 1, "", "There are no rows in this table.")])
    ragged = [
        Mistake(line, 1, "", f"There are {len(cells)} cells here, but {len(columns)} columns.")
        for line, cells in body
        if len(cells) != len(columns)
    ]
    if ragged:
        raise ProblemError(source, ragged[:MAX_MISTAKES])
    return RawTable(source, columns, tuple(body))


class _Broken(Exception):
    """The csv module gave up on a line."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        super().__init__(reason)


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line number and cells of every row in which something stands."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    first = 1
    try:
        for cells in reader:
            if cells:
                yield first, tuple(cell.strip() for cell in cells)
            first = reader.line_num + 1
    except csv.Error as error:
        raise _Broken(first, str(error)) from None


def _sniff(text: str) -> str:
    """The delimiter that divides the first rows evenly into the most columns; else the comma."""
    start = "".join(text.splitlines(keepends=True)[:20])

    def columns(delimiter: str) -> int:
        try:
            lengths = {len(cells) for _, cells in _rows(start, delimiter)}
        except _Broken:
            return 0
        return lengths.pop() if len(lengths) == 1 else 1

    return max(DELIMITERS, key=columns)


def _columns(rows: list[tuple[int, tuple[str, ...]]], header: bool, source: str) -> tuple[str, ...]:
    if not rows:
        raise ProblemError(source, [Mistake(1, 1, "", "There is nothing in this file.")])
    line, first = rows[0]
    if not header:
        return tuple(f"column {i}" for i in range(1, len(first) + 1))
    columns = tuple(name or f"column {i}" for i, name in enumerate(first, 1))
    seen: dict[str, int] = {}
    for i, name in enumerate(columns, 1):
        other = seen.setdefault(canonical(name), i)
        if other != i:
            message = f"Columns {other} and {i} are both called {name!r}; rename one of them."
            raise ProblemError(source, [Mistake(line, 1, "", message)])
    return columns
