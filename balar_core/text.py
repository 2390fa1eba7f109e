r"""Names as people write them: what may be stored, and when two of them are the same.

Display text is kept exactly as given. Only for comparison a *canonical form* is used: Unicode
compatibility composition (NFKC), case folding, invisible marks removed, runs of white space
collapsed to one blank, and composed again. So `"é"` and `"e\u0301"`, `"Ａ"` and `"a"`,
`"Yes"` and `"\u200bYES "` are the same name.
"""

import unicodedata
from collections.abc import Iterable

from .errors import InvalidInput, InvalidText

__all__ = ["canonical", "check_distinct", "check_text"]


def canonical(text: str) -> str:
    r"""The form in which two names are compared; never shown to anybody.

    >>> canonical("  Tension\u00a0Headache\u200b ")
    'tension headache'
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    visible = "".join(c for c in folded if unicodedata.category(c) != "Cf")
    return " ".join(visible.split())


def check_text(
    text: object, what: str, *, empty: bool = False, error: type[InvalidInput] = InvalidText
) -> str:
    """Return `text` if it is a string that can be written as UTF-8, else raise `error`.

    Args:
        text: the candidate.
        what: what the text is, for the message, such as `"value 2 of dimension 'cause'"`.
        empty: whether a text without any visible character is allowed.
        error: the exception to raise.

    Raises:
        InvalidInput: (or `error`) not a string, a lone surrogate, or empty.
    """
    if not isinstance(text, str):
        raise error(
            f"{what} is {text!r} of type {type(text).__name__}; names are strings. "
            f"Write it as text, for example {str(text)!r}."
        )
    for position, character in enumerate(text):
        if "\ud800" <= character <= "\udfff":
            raise error(
                f"{what} holds a lone surrogate (U+{ord(character):04X}) at position {position}, "
                "which no file or terminal can hold; remove or replace that character."
            )
    if not empty and not canonical(text):
        raise error(f"{what} is empty; give it a text that can be seen.")
    return text


def check_distinct(
    names: Iterable[str], what: str, *, error: type[InvalidInput] = InvalidText
) -> None:
    """Raise `error` if two names have the same canonical form; the message gives both positions."""
    seen: dict[str, tuple[int, str]] = {}
    for position, name in enumerate(names):
        key = canonical(name)
        if key in seen:
            first, text = seen[key]
            same = (
                f"{name!r}"
                if text == name
                else f"{text!r} and {name!r} (the same when compared without case and marks)"
            )
            raise error(
                f"{what} {first} and {position} are duplicates: {same}. Every one needs a name "
                "of its own; rename or remove one of them."
            )
        seen[key] = (position, name)
