"""Dialogues in files: written whole or not at all, read with errors that name the file."""

import os
from pathlib import Path

from balar_core.dialogue import Dialogue
from balar_core.errors import BalarError, CorruptDialogue

__all__ = [
    "FileTrouble",
    "UnreadableFile",
    "free_path",
    "read_dialogue",
    "read_text",
    "write_dialogue",
    "write_whole",
]


class FileTrouble(BalarError):
    """A file cannot be read or written."""


class UnreadableFile(FileTrouble):
    """A file cannot be read, or holds no text."""


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that whoever reads it sees the old content or the new one, never a part.

    Args:
        path: the file.
        content: bytes, or a text that is written as UTF-8.

    Raises:
        FileTrouble: the file cannot be written; nothing is left behind.
    """
    target = path.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    try:
        try:
            with draft.open("wb") as stream:
                stream.write(content.encode() if isinstance(content, str) else content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(draft, target)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileTrouble(
            f"{path} cannot be written: {error.strerror or error}. Give another place to save to."
        ) from None


def write_dialogue(dialogue: Dialogue, path: Path) -> None:
    """Save a dialogue.

    Raises:
        FileTrouble: the file cannot be written.
    """
    write_whole(path, dialogue.to_json(indent=1) + "\n")


def read_dialogue(path: Path) -> Dialogue:
    """Read a saved dialogue.

    Raises:
        UnreadableFile: the file cannot be read.
        CorruptDialogue: the file holds no dialogue.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise CorruptDialogue(f"{path} is not a saved dialogue: it is not UTF-8 text.") from None
    try:
        return Dialogue.from_json(text)
    except CorruptDialogue as error:
        raise CorruptDialogue(f"{path}: {error}") from None


def read_text(path: Path) -> str:
    """Read a file of plain text.

    Raises:
        UnreadableFile: the file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            f"{path} is not UTF-8 (byte {error.start + 1}); save it as UTF-8."
        ) from None


def free_path(stem: str, folder: Path) -> Path:
    """A path in `folder`, named after `stem`, where nothing is yet."""
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in stem).strip("-") or "dialogue"
    number = 1
    while True:
        ending = ".balar.json" if number == 1 else f"-{number}.balar.json"
        path = folder / f"{safe[:80]}{ending}"
        if not os.path.lexists(path):
            return path
        number += 1
