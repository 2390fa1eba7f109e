"""What a town consists of: people, what everybody sees of them, and what nobody does."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "Activity",
    "Availability",
    "Errand",
    "Event",
    "Goal",
    "Mood",
    "Person",
    "Private",
    "Public",
    "Record",
    "Town",
    "clock",
]


class Activity(StrEnum):
    """What somebody is seen to do."""

    ASLEEP = "asleep"
    WORKING = "working"
    SERVING = "serving customers"
    READING = "reading"
    WALKING = "walking"
    EATING = "eating"
    TALKING = "talking"
    RESTING = "resting"


class Availability(StrEnum):
    """Whether somebody wants to be spoken to."""

    OPEN = "open"
    BRIEF = "only briefly"
    CLOSED = "not at all"


class Mood(StrEnum):
    """How somebody feels."""

    GLAD = "glad"
    EVEN = "even"
    STRAINED = "strained"


class Goal(StrEnum):
    """What somebody is after without saying so."""

    FINISH = "finish something"
    COMPANY = "find company"
    QUIET = "be left in peace"
    FAVOUR = "ask for a favour"


@dataclass(frozen=True)
class Errand:
    """One line of a routine: from `start` on (a tick of the day) somebody does this there."""

    start: int
    place: str
    activity: Activity


@dataclass(frozen=True)
class Person:
    """Somebody who lives in the town.

    Attributes:
        name: the name, unique in the town.
        sociable: from 0 to 1; how much they like to be spoken to.
        routine: the errands of every day, by their start; the first starts at tick 0.
    """

    name: str
    sociable: float
    routine: tuple[Errand, ...]


@dataclass(frozen=True)
class Public:
    """What everybody sees of a person."""

    place: str
    activity: Activity


@dataclass(frozen=True)
class Private:
    """What nobody sees of a person.

    Attributes:
        availability: whether they want to be spoken to.
        mood: how they feel.
        goal: what they are after.
        strain: what weighs on them; 0 or more, 1 for a fresh trouble.
    """

    availability: Availability
    mood: Mood
    goal: Goal
    strain: float = 0.0


@dataclass(frozen=True)
class Record:
    """What somebody believes about another; it may be old, and it may have been wrong at once.

    Attributes:
        availability: as it seemed.
        mood: as it seemed.
        tick: when the two were last together.
    """

    availability: Availability
    mood: Mood
    tick: int


@dataclass(frozen=True)
class Event:
    """A trouble that befell somebody, seen by everybody who was there."""

    tick: int
    place: str
    name: str


@dataclass(frozen=True)
class Town:
    """The town at one moment; never changed in place.

    Attributes:
        seed: what all chance is drawn from.
        tick: half hours since the first morning at six.
        people: who lives there.
        public: what is seen of each.
        private: what is not.
        records: what believers (first) hold of others (second); no entry if they never met.
        events: the troubles so far.
    """

    seed: int
    tick: int
    people: tuple[Person, ...]
    public: Mapping[str, Public]
    private: Mapping[str, Private]
    records: Mapping[tuple[str, str], Record]
    events: tuple[Event, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the people."""
        return tuple(person.name for person in self.people)

    def present(self, place: str) -> tuple[str, ...]:
        """Who is at a place."""
        return tuple(name for name in self.names if self.public[name].place == place)


def clock(tick: int) -> str:
    """The time of day of a tick.

    >>> clock(0), clock(19)
    ('06:00', '15:30')
    """
    return f"{6 + tick // 2:02d}:{30 * (tick % 2):02d}"
