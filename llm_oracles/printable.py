"""Making any text fit to be shown at a terminal."""

import unicodedata

__all__ = ["printable"]

_KEPT_MARKS = frozenset("\u200c\u200d\u200e\u200f\u00ad")
"""Invisible marks that writing needs: joiners, direction marks, soft hyphen."""


def printable(text: str, *, lines: bool = False) -> str:
    r"""The text with every character that could command a terminal shown as an escape.

    Args:
        text: any text.
        lines: keep line breaks.

    >>> printable("red\x1b[31m alert\n")
    'red\\x1b[31m alert\\n'
    """
    return "".join(c if _harmless(c, lines) else _escape(c) for c in text)


def _harmless(character: str, lines: bool) -> bool:
    if character == "\n":
        return lines
    category = unicodedata.category(character)
    if category == "Cf":
        return character in _KEPT_MARKS
    return category not in ("Cc", "Cs", "Zl", "Zp")


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
