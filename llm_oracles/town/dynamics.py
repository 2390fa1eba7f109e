"""How a town goes on: a pure function from one moment to the next.

Chance is drawn from the seed of the town and the tick alone, so that a town is the same every time.
Every distribution is a table over enumerated values; nothing is read out of texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from .people import DAY, STREET, make_people, next_errand
from .values import Activity, Availability, Event, Goal, Mood, Person, Private, Public, Record, Town

__all__ = ["begin", "day", "step"]

T = TypeVar("T")

AVAILABILITY: Mapping[Activity, tuple[float, float, float]] = {
    Activity.ASLEEP: (0.0, 0.02, 0.98),
    Activity.WORKING: (0.08, 0.22, 0.7),
    Activity.SERVING: (0.07, 0.9, 0.03),
    Activity.READING: (0.2, 0.2, 0.6),
    Activity.WALKING: (0.6, 0.2, 0.2),
    Activity.EATING: (0.5, 0.4, 0.1),
    Activity.TALKING: (0.9, 0.08, 0.02),
    Activity.RESTING: (0.35, 0.2, 0.45),
}
"""Open, only briefly, not at all: for somebody of middling temper."""

GOAL: Mapping[Activity, tuple[float, float, float, float]] = {
    Activity.ASLEEP: (0.02, 0.02, 0.94, 0.02),
    Activity.WORKING: (0.85, 0.03, 0.06, 0.06),
    Activity.SERVING: (0.55, 0.2, 0.05, 0.2),
    Activity.READING: (0.45, 0.05, 0.45, 0.05),
    Activity.WALKING: (0.05, 0.4, 0.35, 0.2),
    Activity.EATING: (0.1, 0.4, 0.3, 0.2),
    Activity.TALKING: (0.03, 0.62, 0.03, 0.32),
    Activity.RESTING: (0.05, 0.1, 0.82, 0.03),
}
"""Finish something, find company, be left in peace, ask for a favour.

What somebody is after comes in equal parts from what they do and from what they will do next.
"""

INHABITANTS = 8

TROUBLE = 0.04
"""The chance of a trouble in a tick, for everybody who is awake."""

RELIEF = 0.75
"""The share of strain that stays after a tick."""

MISTAKEN = 0.2
"""The chance that somebody misjudges a person they are with."""

WAVERING = 0.15
"""The chance in a tick that a person changes their mind though they go on with what they do."""


def begin(seed: int) -> Town:
    """A town on its first morning."""
    rng = np.random.default_rng([seed, 0])
    people = make_people(rng, INHABITANTS)
    asleep = Private(Availability.CLOSED, Mood.EVEN, Goal.QUIET)
    return Town(
        seed=seed,
        tick=0,
        people=people,
        public={p.name: Public(p.routine[0].place, p.routine[0].activity) for p in people},
        private={p.name: asleep for p in people},
        records={},
    )


def day(seed: int) -> list[Town]:
    """All moments of the first day of a town."""
    towns = [begin(seed)]
    while len(towns) < DAY:
        towns.append(step(towns[-1]))
    return towns


def step(town: Town) -> Town:
    """The town half an hour later."""
    tick = town.tick + 1
    rng = np.random.default_rng([town.seed, 1, tick])
    public = {person.name: _move(person, town, tick) for person in town.people}
    struck = {
        name
        for name, seen in public.items()
        if rng.uniform() < TROUBLE and seen.activity is not Activity.ASLEEP
    }
    private = {
        person.name: _feel(rng, person, town, public[person.name], person.name in struck)
        for person in town.people
    }
    events = tuple(Event(tick, public[name].place, name) for name in public if name in struck)
    moved = Town(
        town.seed, tick, town.people, public, private, town.records, (*town.events, *events)
    )
    return replace(moved, records=_meet(rng, moved))


def _move(person: Person, town: Town, tick: int) -> Public:
    """Where the routine leads; whoever changes place is on the street for a tick."""
    now = tick % DAY
    errand = [errand for errand in person.routine if errand.start <= now][-1]
    before = town.public[person.name].place
    if before not in (errand.place, STREET):
        return Public(STREET, Activity.WALKING)
    return Public(errand.place, errand.activity)


def _feel(
    rng: np.random.Generator, person: Person, town: Town, seen: Public, struck: bool
) -> Private:
    before = town.private[person.name]
    strain = before.strain * RELIEF + struck
    mood = before.mood
    if struck or rng.uniform() < 0.4:
        cheer = 0.6 if seen.activity in (Activity.TALKING, Activity.WALKING) else 0.25
        mood = _draw(rng, list(Mood), (cheer, 0.5, 0.08 + 3 * strain))
    changed = town.public[person.name].activity is not seen.activity
    availability, goal = before.availability, before.goal
    if changed or struck or rng.uniform() < WAVERING:
        is_open, brief, closed = AVAILABILITY[seen.activity]
        warmth = 0.3 + 1.4 * person.sociable
        closed *= (2 - warmth) * (2 if strain > 0.5 else 1)
        availability = _draw(rng, list(Availability), (is_open * warmth, brief, closed))
    if changed or rng.uniform() < WAVERING:
        now, soon = GOAL[seen.activity], GOAL[next_errand(person, town.tick + 1).activity]
        goal = _draw(rng, list(Goal), [a + b for a, b in zip(now, soon, strict=True)])
    return Private(availability, mood, goal, strain)


def _meet(rng: np.random.Generator, town: Town) -> dict[tuple[str, str], Record]:
    """Whoever is together forms an opinion of each other, which may be wrong."""
    records = dict(town.records)
    for believer in town.names:
        for other in town.present(town.public[believer].place):
            seen = (town.public[believer].activity, town.public[other].activity)
            if other == believer or Activity.ASLEEP in seen:
                continue
            truth = town.private[other]
            records[believer, other] = Record(
                _judge(rng, truth.availability, list(Availability)),
                _judge(rng, truth.mood, list(Mood)),
                town.tick,
            )
    return records


def _judge(rng: np.random.Generator, truth: T, values: Sequence[T]) -> T:
    if rng.uniform() >= MISTAKEN:
        return truth
    others = [value for value in values if value != truth]
    return others[int(rng.integers(len(others)))]


def _draw(rng: np.random.Generator, values: Sequence[T], weights: Sequence[float]) -> T:
    p = np.asarray(weights, dtype=np.float64)
    return values[int(rng.choice(len(values), p=p / p.sum()))]
