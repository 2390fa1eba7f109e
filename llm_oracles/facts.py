"""Facts that a query can need and a probe can find."""

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["Fact", "evidence_coverage"]


@dataclass(frozen=True, order=True)
class Fact:
    """One thing that can be known: a field of somebody's state, or of a belief about another.

    Attributes:
        holder: whose state it is, or who believes.
        field: the name of the field.
        about: for a belief, whom it is about.

    >>> print(Fact("Ada", "mood"), Fact("Ada", "mood", about="Ben"), sep="; ")
    Ada: mood; Ada about Ben: mood
    """

    holder: str
    field: str
    about: str = ""

    def __str__(self) -> str:
        """Who, about whom, and what."""
        about = f" about {self.about}" if self.about else ""
        return f"{self.holder}{about}: {self.field}"


def evidence_coverage(needed: Collection[Fact], found: Collection[Fact]) -> float:
    """The share of the needed facts that were found; 1 where nothing is needed.

    >>> evidence_coverage([Fact("Ada", "mood"), Fact("Ben", "mood")], [Fact("Ben", "mood")])
    0.5
    """
    return len(set(needed) & set(found)) / len(set(needed)) if needed else 1.0
