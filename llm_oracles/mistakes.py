"""What pydantic found wrong, in words, without what was in the data."""

from pydantic import ValidationError

__all__ = ["in_words"]

MOST = 3
"""Mistakes that are named."""


def in_words(error: ValidationError, whole: str = "the reply", *, count: bool = False) -> str:
    """The first mistakes.

    Args:
        error: what was raised.
        whole: what the data are called as a whole.
        count: whether to say how many more there are.
    """
    found = error.errors(include_url=False, include_input=False)
    named = [
        f"{'.'.join(map(str, mistake['loc'])) or whole}: {mistake['msg']}"
        for mistake in found[:MOST]
    ]
    if count and len(found) > MOST:
        named.append(f"and {len(found) - MOST} more")
    return "; ".join(named) + "."
