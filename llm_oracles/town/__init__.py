"""A small town that runs from a seed: people with routines, moods, plans and wrong beliefs.

Everybody can see where people are and what they do. Whether they want to talk, how they feel and
what they are after is private, and what they believe about each other may be old or mistaken. So
there are questions with a known answer that only probes can find.

>>> from llm_oracles.town import day, make_queries
>>> noon = day(seed=7)[12]
>>> query = make_queries(noon, per_kind=1)[0]
>>> query.text, [f"{fact}: {query.truth[fact]}" for fact in query.needed]
('What is Ivo doing?', ['Ivo: availability: only briefly'])
"""

from .dynamics import begin, day, step
from .outlook import Outlook, Words, read_words, values_of
from .people import DAY, PLACES, make_people
from .queries import KINDS, TownQuery, make_queries, town_facts
from .tools import TOOLS, FailedCall, call
from .values import (
    Activity,
    Availability,
    Event,
    Goal,
    Mood,
    Person,
    Private,
    Public,
    Record,
    Town,
    clock,
)

__all__ = [
    "DAY",
    "KINDS",
    "PLACES",
    "TOOLS",
    "Activity",
    "Availability",
    "Event",
    "FailedCall",
    "Goal",
    "Mood",
    "Outlook",
    "Person",
    "Private",
    "Public",
    "Record",
    "Town",
    "TownQuery",
    "Words",
    "begin",
    "call",
    "clock",
    "day",
    "make_people",
    "make_queries",
    "read_words",
    "step",
    "town_facts",
    "values_of",
]
