"""Cases from a town that runs from a seed."""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

from balar_core.errors import InvalidSetting
from balar_core.probing import BeliefPlanner, Reading, ToolCall
from balar_core.space import Dimension, StateSpace

from ..facts import Fact
from ..town import (
    TOOLS,
    Outlook,
    Town,
    TownQuery,
    Words,
    call,
    clock,
    day,
    make_queries,
    read_words,
    values_of,
)
from .cases import LIKELY, Case, fitting, reported_gap

__all__ = ["town_cases"]

OTHER_TOWNS = range(10_000, 10_030)
"""Seeds of the towns in which frequencies are counted; towns that are asked about have lower."""

HOURS = {"morning": 6, "noon": 13, "afternoon": 20, "evening": 31}
"""Ticks of the scenes."""

FEW, MANY = 1, 1000


def town_cases(*, seed: int = 0, towns: int = 2, per_kind: int = 3) -> list[Case]:
    """Queries about several towns at four times of the day, with known answers.

    Args:
        seed: of the first town; the others follow.
        towns: how many towns.
        per_kind: how many queries of each of the five kinds about each moment.

    Raises:
        InvalidSetting: a number out of range.
    """
    if not 0 <= seed < OTHER_TOWNS.start - MANY:
        raise InvalidSetting(f"seed is {seed!r}; it is from 0 to {OTHER_TOWNS.start - MANY - 1}.")
    for name, value in (("towns", towns), ("per_kind", per_kind)):
        if not FEW <= value <= MANY:
            raise InvalidSetting(f"{name} is {value!r}; it is from {FEW} to {MANY}.")
    outlook = _outlook()
    return [
        case
        for number in range(seed, seed + towns)
        for scene, town in _scenes(number)
        for case in _cases(outlook, scene, town, make_queries(town, per_kind))
    ]


@cache
def _outlook() -> Outlook:
    return Outlook.learn(OTHER_TOWNS)


def _scenes(seed: int) -> Iterator[tuple[str, Town]]:
    moments = day(seed)
    for name, tick in HOURS.items():
        yield f"town {seed}, {name}", moments[tick]


def _cases(
    outlook: Outlook, scene: str, town: Town, queries: Sequence[TownQuery]
) -> Iterator[Case]:
    for number, query in enumerate(queries):
        words = read_words(query.text, town.names)
        facts = _facts(outlook, words, town)
        yield Case(
            name=f"{scene}, {number}",
            scene=scene,
            kind=query.kind,
            query=query.text,
            context=_context(town),
            tools=TOOLS,
            planner=_planner(outlook, town, facts),
            facts=facts,
            listed=_listed(facts, words, town),
            reported_gap=reported_gap(outlook.meant(words)),
            forbidden=query.forbidden,
            needed=query.needed,
            truth=query.truth,
            guesses={fact: _guess(outlook, town, fact) for fact in query.needed},
            call=partial(call, town),
            shows=_shows,
        )


def _facts(outlook: Outlook, words: Words, town: Town) -> tuple[Fact, ...]:
    """What the words are likely to need, the likeliest field first, person by person."""
    likely = [need for need, p in outlook.needed(words).items() if p >= LIKELY]
    if len(words.people) == 2:
        who, other = words.people
        return tuple(Fact(who, field, about=other) for field, believed in likely if believed)
    people = town.present(words.place) if words.place else words.people
    own = [field for field, believed in likely if not believed]
    wanted = (Fact(person, field) for person in people for field in own)
    return fitting(wanted, lambda fact: len(values_of(fact)))


def _planner(outlook: Outlook, town: Town, facts: Sequence[Fact]) -> BeliefPlanner:
    space = StateSpace(tuple(Dimension(str(fact), values_of(fact)) for fact in facts))
    priors = [outlook.prior(town, fact) for fact in facts]
    readings: list[Reading] = outlook.readings(town, facts)
    return BeliefPlanner.build(space, priors, readings, implicit=space.names)


def _listed(facts: Sequence[Fact], words: Words, town: Town) -> tuple[ToolCall, ...]:
    """Everything that may help, the most direct first, public things last."""
    calls = []
    for fact in facts:
        if fact.about:
            calls.append(ToolCall.of("belief_of", believer=fact.holder, about=fact.about))
            calls.append(ToolCall.of("private_state_of", person=fact.about, field=fact.field))
        else:
            calls.append(ToolCall.of("private_state_of", person=fact.holder, field=fact.field))
    people = dict.fromkeys(fact.about or fact.holder for fact in facts)
    calls += [ToolCall.of("hearsay_about", person=person) for person in people]
    calls += [ToolCall.of("plan_of", person=person) for person in people]
    places = dict.fromkeys(town.public[person].place for person in people)
    calls += [ToolCall.of("who_is_at", place=place) for place in places]
    return tuple(dict.fromkeys(calls))


def _guess(outlook: Outlook, town: Town, fact: Fact) -> str:
    return values_of(fact)[int(outlook.prior(town, fact).argmax())]


def _context(town: Town) -> str:
    seen = (
        f"{name}: {town.public[name].activity}, {town.public[name].place}" for name in town.names
    )
    troubles = [f" {e.name} had trouble at {clock(e.tick)}." for e in town.events]
    return f"It is {clock(town.tick)}. " + "; ".join(seen) + "." + "".join(troubles)


def _shows(made: ToolCall, output: Any) -> dict[Fact, str]:
    arguments = made.arguments.value
    if made.tool == "private_state_of":
        field = arguments["field"]
        return {Fact(arguments["person"], field): output[field]}
    if made.tool == "belief_of":
        believer, about = arguments["believer"], arguments["about"]
        return {Fact(believer, f, about): output[f] for f in ("availability", "mood")}
    return {}
