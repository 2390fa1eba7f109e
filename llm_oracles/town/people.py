"""Inventing the people of a town and their routines."""

from collections.abc import Sequence

import numpy as np

from .values import Activity, Errand, Person

__all__ = ["DAY", "PLACES", "STREET", "make_people", "next_errand"]

DAY = 35
"""Ticks of a day: half hours from six in the morning to eleven at night."""

STREET = "street"
PLACES = ("bakery", "library", "workshop", "garden", "square", STREET)

NAMES = ("Ada", "Bruno", "Carla", "Dag", "Edda", "Fritz", "Gro", "Hanna", "Ivo", "Jule")

JOBS = (
    ("bakery", Activity.SERVING),
    ("library", Activity.SERVING),
    ("library", Activity.READING),
    ("workshop", Activity.WORKING),
    ("garden", Activity.WORKING),
)

LEISURE = (
    ("garden", Activity.WALKING),
    ("square", Activity.TALKING),
    ("bakery", Activity.TALKING),
    ("library", Activity.READING),
    ("garden", Activity.RESTING),
)


def make_people(rng: np.random.Generator, count: int) -> tuple[Person, ...]:
    """Invent people with a job, a temper and a routine; at most one for every name."""
    names = rng.permutation(NAMES)[:count]
    jobs = rng.permutation(len(JOBS))
    return tuple(
        Person(str(name), float(rng.uniform()), _routine(rng, str(name), JOBS[job % len(JOBS)]))
        for name, job in zip(names, np.resize(jobs, count), strict=True)
    )


def next_errand(person: Person, tick: int) -> Errand:
    """What the routine of a person holds after a moment."""
    coming = (errand for errand in person.routine if errand.start > tick % DAY)
    return next(coming, person.routine[0])


def _routine(rng: np.random.Generator, name: str, job: tuple[str, Activity]) -> tuple[Errand, ...]:
    home = f"home of {name}"
    up, work, lunch, back, leisure, supper, bed = np.cumsum(
        [
            rng.integers(1, 4),
            rng.integers(1, 4),
            rng.integers(6, 9),
            rng.integers(1, 4),
            rng.integers(5, 9),
            rng.integers(3, 6),
            rng.integers(2, 6),
        ]
    ).tolist()
    errands = [
        Errand(0, home, Activity.ASLEEP),
        Errand(up, home, Activity.EATING),
        Errand(work, *job),
        Errand(lunch, *_one(rng, (("square", Activity.EATING), ("bakery", Activity.EATING)))),
        Errand(back, *job),
        Errand(leisure, *_one(rng, LEISURE)),
        Errand(supper, *_one(rng, ((home, Activity.EATING), ("square", Activity.EATING)))),
        Errand(bed, home, Activity.RESTING),
        Errand(bed + 2, home, Activity.ASLEEP),
    ]
    return tuple(errand for errand in errands if errand.start < DAY)


def _one(rng: np.random.Generator, options: Sequence[tuple[str, Activity]]) -> tuple[str, Activity]:
    return options[int(rng.integers(len(options)))]
