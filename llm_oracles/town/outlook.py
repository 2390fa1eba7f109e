"""What a stranger can expect of a town: frequencies counted in other towns.

The stranger sees what everybody sees, knows how often people who do this feel like that, and how
often a wording stands for a need. That is a prior belief and the tables of the tools: all that is
needed to choose probes by what they are expected to tell.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from balar_core.probing import Reading, ToolCall
from balar_core.questions import Question

from ..facts import Fact
from .dynamics import day
from .people import PLACES, next_errand
from .queries import make_queries, town_facts
from .tools import HEARSAY, NEVER
from .values import Activity, Availability, Goal, Mood, Town

__all__ = ["VALUES", "Outlook", "Words", "read_words", "values_of"]

VALUES: Mapping[str, tuple[str, ...]] = {
    "availability": tuple(map(str, Availability)),
    "mood": tuple(map(str, Mood)),
    "goal": tuple(map(str, Goal)),
}
APART = "apart"
RECENT = 4
"""Ticks for which a trouble is remembered."""


@dataclass(frozen=True)
class Words:
    """A query as a stranger reads it.

    Attributes:
        pattern: its words with names and places taken out.
        people: the people that are named, in order.
        place: the place that is named; empty for none.
    """

    pattern: str
    people: tuple[str, ...]
    place: str


def read_words(text: str, names: Iterable[str]) -> Words:
    """Take the names out of a query.

    >>> read_words("Does Ada count on Ben today?", ["Ben", "Ada"])
    Words(pattern='Does {} count on {} today?', people=('Ada', 'Ben'), place='')
    """
    people = sorted((name for name in names if name in text), key=text.index)
    place = next((place for place in PLACES if f"at the {place}" in text), "")
    pattern = text
    for name in people:
        pattern = pattern.replace(name, "{}")
    if place:
        pattern = pattern.replace(f"at the {place}", "at the {}")
    return Words(pattern, tuple(people), place)


def values_of(fact: Fact) -> tuple[str, ...]:
    """The values that a fact about a town can have."""
    return (*VALUES[fact.field], NEVER) if fact.about else VALUES[fact.field]


@dataclass(frozen=True)
class Outlook:
    """Frequencies counted in other towns, each with one added to it.

    Attributes:
        priors: by what is seen, how often a field has each of its values.
        plans: by goal and activity, how often each activity comes next.
        needs: by wording, how often each field (of a belief, if so flagged) is needed.
        kinds: by wording, how often each kind of need is meant.
    """

    priors: Mapping[Hashable, Counter[str]]
    plans: Mapping[Hashable, Counter[str]]
    needs: Mapping[str, Counter[tuple[str, bool]]]
    kinds: Mapping[str, Counter[str]]

    @classmethod
    def learn(cls, seeds: Iterable[int]) -> Self:
        """Count in the towns of some seeds, over their whole first day."""
        priors: dict[Hashable, Counter[str]] = {}
        plans: dict[Hashable, Counter[str]] = {}
        needs: dict[str, Counter[tuple[str, bool]]] = {}
        kinds: dict[str, Counter[str]] = {}
        for seed in seeds:
            for town in day(seed)[1:]:
                for person in town.people:
                    goal, now = town.private[person.name].goal, town.public[person.name].activity
                    soon = next_errand(person, town.tick).activity
                    plans.setdefault((str(goal), now), Counter())[str(soon)] += 1
                for query in make_queries(town, per_kind=1):
                    pattern = read_words(query.text, town.names).pattern
                    kinds.setdefault(pattern, Counter())[query.kind] += 1
                    for field, believed in {(f.field, bool(f.about)) for f in query.needed}:
                        needs.setdefault(pattern, Counter())[field, believed] += 1
                for fact, value in town_facts(town).items():
                    priors.setdefault(_circumstances(town, fact), Counter())[value] += 1
        return cls(priors, plans, needs, kinds)

    def prior(self, town: Town, fact: Fact) -> np.ndarray:
        """How likely each value of a fact is, given what is seen of the town; sums to 1."""
        return _shares(self.priors.get(_circumstances(town, fact)), values_of(fact))

    def needed(self, words: Words) -> dict[tuple[str, bool], float]:
        """How likely each field is needed by a wording, the likeliest first; never seen: empty."""
        asked = self.kinds.get(words.pattern, Counter()).total()
        needs = self.needs.get(words.pattern, Counter())
        return {need: count / asked for need, count in sorted(needs.items(), key=_falling)}

    def meant(self, words: Words) -> dict[str, float]:
        """How likely each kind of need is meant by a wording; never seen: empty."""
        kinds = self.kinds.get(words.pattern, Counter())
        return {kind: count / kinds.total() for kind, count in sorted(kinds.items(), key=_falling)}

    def readings(self, town: Town, facts: Sequence[Fact]) -> list[Reading]:
        """What the tools of the town would say about some facts."""
        return [reading for place in range(len(facts)) for reading in self._of(town, facts, place)]

    def _of(self, town: Town, facts: Sequence[Fact], place: int) -> Iterable[Reading]:
        fact = facts[place]
        values, path = values_of(fact), (fact.field,)

        def reading(call: ToolCall, choices: Sequence[str], table: np.ndarray) -> Reading:
            others = len(facts) - place - 1
            tables = (*[None] * place, table.tolist(), *[None] * others)
            where = ("activity",) if call.tool == "plan_of" else path
            question = Question(f"{call.tool} {call.arguments.text}: {where[0]}", tuple(choices))
            return Reading(call, question, tables, where)

        if fact.about:
            call = ToolCall.of("belief_of", believer=fact.holder, about=fact.about)
            yield reading(call, values, np.eye(len(values)))
            return
        call = ToolCall.of("private_state_of", person=fact.holder, field=fact.field)
        yield reading(call, values, np.eye(len(values)))
        if fact.field in ("availability", "mood"):
            wrong = (1 - HEARSAY) / (len(values) - 1)
            table = np.full((len(values), len(values)), wrong)
            np.fill_diagonal(table, HEARSAY)
            yield reading(ToolCall.of("hearsay_about", person=fact.holder), values, table)
        else:
            now = town.public[fact.holder].activity
            coming = tuple(map(str, Activity))
            rows = [_shares(self.plans.get((value, now)), coming) for value in values]
            yield reading(ToolCall.of("plan_of", person=fact.holder), coming, np.stack(rows))


def _circumstances(town: Town, fact: Fact) -> Hashable:
    """What is seen that tells something about a fact."""
    seen = town.public[fact.holder]
    if not fact.about:
        troubled = any(e.name == fact.holder and e.tick > town.tick - RECENT for e in town.events)
        return fact.field, seen.activity, troubled
    other = town.public[fact.about]
    together = seen.place == other.place
    return fact.field, "believed", other.activity if together else APART


def _shares(counts: Counter[str] | None, names: Sequence[str]) -> np.ndarray:
    found = np.array([1 + (counts or Counter())[name] for name in names], dtype=np.float64)
    shares: np.ndarray = found / found.sum()
    return shares


def _falling(item: tuple[object, int]) -> tuple[int, str]:
    return -item[1], str(item[0])
