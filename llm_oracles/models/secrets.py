"""Keys: where they come from, and how they stay out of everything that is written."""

import os
from pathlib import Path

from .errors import InvalidKey

__all__ = ["Secret"]

SHORTEST = 8
"""Keys shorter than this are placeholders such as `EMPTY`; they are not searched for in texts."""

REMOVED = "[key removed]"


class Secret:
    """A key that shows itself to nobody who does not call `reveal`.

    Args:
        text: the key; white space round it does not count.
        source: where it comes from, for messages.

    Raises:
        InvalidKey: it is empty, or holds what no HTTP header can.

    >>> Secret("sk-123456789")
    Secret(...)
    """

    __slots__ = ("__weakref__", "_text")

    def __init__(self, text: str, source: str = "the key") -> None:
        text = text.strip()
        if not text:
            raise InvalidKey(f"{_begin(source)} is empty; put the key there, or give none at all.")
        if not all("!" <= character <= "~" for character in text):
            raise InvalidKey(
                f"{_begin(source)} holds white space or characters beyond ASCII, which no key "
                "does; check that nothing else was pasted with it."
            )
        self._text = text

    @classmethod
    def from_environment(cls, name: str) -> "Secret":
        """The key in an environment variable.

        Raises:
            InvalidKey: there is no such variable, or it holds no key.
        """
        text = os.environ.get(name)
        if text is None:
            raise InvalidKey(f"The environment variable {name} is not set; put the key there.")
        return cls(text, f"the environment variable {name}")

    @classmethod
    def from_file(cls, path: Path) -> "Secret":
        """The key in a file that holds nothing else.

        Raises:
            InvalidKey: the file cannot be read, or holds no key.
        """
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise InvalidKey(
                f"The key file {path} cannot be read: {error.strerror or error}."
            ) from None
        except UnicodeDecodeError:
            raise InvalidKey(f"The key file {path} is not UTF-8 text.") from None
        return cls(text, f"the key file {path}")

    def reveal(self) -> str:
        """The key itself."""
        return self._text

    def redact(self, text: str) -> str:
        """The text without the key.

        >>> Secret("sk-123456789").redact("wrong key: sk-123456789")
        'wrong key: [key removed]'
        """
        return text if len(self._text) < SHORTEST else text.replace(self._text, REMOVED)

    def redact_bytes(self, data: bytes) -> bytes:
        """The bytes without the key."""
        if len(self._text) < SHORTEST:
            return data
        return data.replace(self._text.encode(), REMOVED.encode())

    def __repr__(self) -> str:
        return "Secret(...)"

    def __reduce__(self) -> str:
        raise TypeError("A Secret is not pickled, so that no key gets into a file.")


def _begin(source: str) -> str:
    return source[0].upper() + source[1:]
