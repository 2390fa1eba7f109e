"""What the fixture `balar` is."""

from collections.abc import Callable

Balar = Callable[..., tuple[int, str, str]]
"""Takes the arguments of the command; gives its exit code, its output and its errors."""
