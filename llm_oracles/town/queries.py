"""Queries whose words say less than what is needed, with answers that are known.

The same words may stand for different needs: who asks where somebody is may want company, or worry
about them. How often each wording stands for what is for a reader to learn from other towns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..facts import Fact
from .people import PLACES, STREET
from .tools import NEVER
from .values import Town

__all__ = ["KINDS", "TownQuery", "make_queries", "town_facts"]

KINDS = ("availability", "mood", "appropriateness", "latent_goal", "second_order")

_WORDINGS: Mapping[str, Sequence[str]] = {
    "availability": (
        "Where can I find {who}?",
        "What is {who} doing?",
        "Has {who} got company?",
        "Who is around at the {place}?",
        "Is anybody at the {place}?",
    ),
    "mood": (
        "What is {who} doing?",
        "How has the day been for {who}?",
        "Has anything happened to {who}?",
        "What is it like at the {place} now?",
    ),
    "appropriateness": (
        "Shall I go and see {who}?",
        "Could I bring something up with {who} now?",
        "Is it all right to join {who}?",
        "Has {who} got company?",
        "Could I put something to the people at the {place}?",
    ),
    "latent_goal": (
        "What keeps {who} so long?",
        "Where can I find {who}?",
        "What does {who} have in mind for later?",
    ),
    "second_order": (
        "What would {who} say about {other}?",
        "Does {who} count on {other} today?",
        "Would {who} call on {other} now?",
    ),
}

_NEEDS: Mapping[str, Sequence[str]] = {
    "availability": ("availability",),
    "mood": ("mood",),
    "appropriateness": ("availability", "mood"),
    "latent_goal": ("goal",),
}


@dataclass(frozen=True)
class TownQuery:
    """A query and what it really needs.

    Attributes:
        text: what is asked.
        kind: the kind of need, one of `KINDS`.
        needed: the facts that answer the need.
        truth: the value of every fact about the town, as text.
        forbidden: tools that must not be called: whoever asks what somebody believes must not pry
            into how things are.
    """

    text: str
    kind: str
    needed: frozenset[Fact]
    truth: Mapping[Fact, str]
    forbidden: tuple[str, ...] = ()


def make_queries(town: Town, per_kind: int, seed: int = 0) -> list[TownQuery]:
    """Queries about one moment of a town, `per_kind` of each kind.

    Args:
        town: the moment.
        per_kind: how many of each kind.
        seed: of the choice of words and people.
    """
    rng = np.random.default_rng([town.seed, 3, town.tick, seed])
    return [_make(rng, town, kind) for kind in KINDS for _ in range(per_kind)]


def town_facts(town: Town) -> dict[Fact, str]:
    """Every fact about a town, and its value as text."""
    truth = {}
    for name in town.names:
        private = town.private[name]
        truth[Fact(name, "availability")] = str(private.availability)
        truth[Fact(name, "mood")] = str(private.mood)
        truth[Fact(name, "goal")] = str(private.goal)
        for other in town.names:
            if other != name:
                record = town.records.get((name, other))
                for field in ("availability", "mood"):
                    believed = NEVER if record is None else str(getattr(record, field))
                    truth[Fact(name, field, about=other)] = believed
    return truth


def _make(rng: np.random.Generator, town: Town, kind: str) -> TownQuery:
    wording = _one(rng, _WORDINGS[kind])
    who, other = (str(name) for name in rng.permutation(town.names)[:2])
    # Nobody asks who is in somebody's home, in the street, or where nobody is.
    place = max((p for p in PLACES if p != STREET), key=lambda p: len(town.present(p)))
    if not town.present(place):
        wording = _one(rng, [w for w in _WORDINGS[kind] if "{place}" not in w])
    text = wording.format(who=who, other=other, place=place)
    if kind == "second_order":
        needed = [Fact(who, _one(rng, ("availability", "mood")), about=other)]
    else:
        people = town.present(place) if "{place}" in wording else (who,)
        needed = [Fact(person, field) for person in people for field in _NEEDS[kind]]
    forbidden = ("private_state_of",) if kind == "second_order" else ()
    return TownQuery(text, kind, frozenset(needed), town_facts(town), forbidden)


def _one(rng: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))]
