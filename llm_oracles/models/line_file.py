"""Files of JSON lines to which lines are added whole or not at all."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import StorageTrouble
from .values import canonical_json

__all__ = ["LineFile", "read_lines"]


class LineFile:
    """A file that grows by one line at a time.

    A line is handed to the system in one piece, so that a process that is killed leaves at most
    one line without an end behind. That is removed when the file is next opened, and left out when
    it is read. Only the owner may read the file, since prompts may be private.

    Args:
        path: the file; it is made if it is not there.

    Raises:
        StorageTrouble: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            descriptor = self._open()
            try:
                _cut_unfinished(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _trouble(path, "opened", error) from None

    def append(self, data: object) -> None:
        """Add a line.

        Raises:
            StorageTrouble: it cannot be written.
        """
        line = canonical_json(data).encode() + b"\n"
        try:
            descriptor = self._open()
            try:
                if os.write(descriptor, line) < len(line):
                    _cut_unfinished(descriptor)
                    raise OSError(None, "no space left")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _trouble(self._path, "written", error) from None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        return os.open(self._path, flags, 0o600)


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The finished lines of a file with their numbers, counted from 1.

    Raises:
        StorageTrouble: the file cannot be read, or a line is no JSON.
    """
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except OSError as error:
        raise _trouble(path, "read", error) from None
    for number, line in enumerate(lines, start=1):
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError):
            raise StorageTrouble(
                f"{path}, line {number}, is no JSON; remove the line, or record anew."
            ) from None


def _cut_unfinished(descriptor: int) -> None:
    """Remove what stands after the last line break."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    end = size
    while end > 0:
        begin = max(0, end - 65536)
        os.lseek(descriptor, begin, os.SEEK_SET)
        at = os.read(descriptor, end - begin).rfind(b"\n")
        if at >= 0:
            end = begin + at + 1
            break
        end = begin
    if end < size:
        os.ftruncate(descriptor, end)


def _trouble(path: Path, what: str, error: OSError) -> StorageTrouble:
    return StorageTrouble(f"{path} cannot be {what}: {error.strerror or error}.")
