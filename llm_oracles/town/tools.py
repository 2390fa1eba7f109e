"""What can be looked up in a town: tools that only read one moment of it.

A plan says what somebody will do next, hearsay how they seem to the neighbours (who are wrong now
and then), private state how it is, and a belief what somebody takes for true about another.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from balar_core.errors import BalarError
from balar_core.probing import Json, Tool, ToolCall

from .people import DAY, next_errand
from .values import Availability, Mood, Town, clock

__all__ = ["HEARSAY", "NEVER", "PRIVATE", "TOOLS", "FailedCall", "call"]

HEARSAY = 0.7
"""How often the neighbours are right."""

PRIVATE = ("availability", "mood", "goal")
NEVER = "unknown"
"""What a belief about somebody says who was never met."""


class FailedCall(BalarError):
    """A tool of the town cannot do what it was asked to do."""


def _schema(**properties: Mapping[str, Any]) -> Json:
    return Json.of(
        {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    )


_TEXT = {"type": "string"}

TOOLS = (
    Tool(
        "who_is_at",
        "Who is at a place, and what they do there.",
        _schema(place=_TEXT),
        reveals=("public.activity",),
    ),
    Tool(
        "plan_of",
        "What somebody is going to do next.",
        _schema(person=_TEXT),
        reveals=("public.plan",),
    ),
    Tool(
        "hearsay_about",
        "How somebody seems to the neighbours, who may be wrong.",
        _schema(person=_TEXT),
        reveals=("hearsay.availability", "hearsay.mood"),
    ),
    Tool(
        "private_state_of",
        "One thing about somebody that they do not show.",
        _schema(person=_TEXT, field={"enum": list(PRIVATE)}),
        cost=2.0,
        reveals=tuple(f"private.{field}" for field in PRIVATE),
    ),
    Tool(
        "belief_of",
        "What somebody believes about another, and since when.",
        _schema(believer=_TEXT, about=_TEXT),
        cost=1.5,
        reveals=("belief.availability", "belief.mood"),
    ),
)


def call(town: Town, wanted: ToolCall) -> Any:
    """What a tool returns: always the same for the same town and call.

    Raises:
        FailedCall: no such tool, person, place or field, or an argument too many or too few.
    """
    arguments: dict[str, Any] = wanted.arguments.value
    tool = next((tool for tool in TOOLS if tool.name == wanted.tool), None)
    if tool is None:
        raise FailedCall(f"There is no tool {wanted.tool!r} in the town.")
    if sorted(arguments) != sorted(tool.parameters.value["required"]):
        needed = ", ".join(tool.parameters.value["required"])
        raise FailedCall(f"{wanted.tool} needs exactly these arguments: {needed}.")
    for name in ("person", "believer", "about"):
        if name in arguments and arguments[name] not in town.names:
            raise FailedCall(f"Nobody in the town is called {arguments[name]!r}.")
    return _READERS[wanted.tool](town, **arguments)


def _who_is_at(town: Town, place: str) -> dict[str, str]:
    return {name: str(town.public[name].activity) for name in town.present(place)}


def _plan_of(town: Town, person: str) -> dict[str, str]:
    following = next_errand(next(p for p in town.people if p.name == person), town.tick)
    return {"activity": str(following.activity), "from": clock(following.start)}


def _hearsay_about(town: Town, person: str) -> dict[str, str]:
    place = town.names.index(person)
    rng = np.random.default_rng([town.seed, 2, town.tick, place])
    truth = town.private[person]
    seen = {"availability": truth.availability, "mood": truth.mood}
    values: dict[str, list[Availability] | list[Mood]] = {
        "availability": list(Availability),
        "mood": list(Mood),
    }
    heard = {}
    for field, value in seen.items():
        others = [other for other in values[field] if other != value]
        wrong = others[int(rng.integers(len(others)))]
        heard[field] = str(value if rng.uniform() < HEARSAY else wrong)
    return heard


def _private_state_of(town: Town, person: str, field: str) -> dict[str, str]:
    if field not in PRIVATE:
        raise FailedCall(f"There is no field {field!r}; the fields are {', '.join(PRIVATE)}.")
    return {field: str(getattr(town.private[person], field))}


def _belief_of(town: Town, believer: str, about: str) -> dict[str, str]:
    record = town.records.get((believer, about))
    if record is None:
        return {"availability": NEVER, "mood": NEVER}
    return {
        "availability": str(record.availability),
        "mood": str(record.mood),
        "since": clock(record.tick % DAY),
    }


_READERS: dict[str, Callable[..., dict[str, str]]] = {
    "who_is_at": _who_is_at,
    "plan_of": _plan_of,
    "hearsay_about": _hearsay_about,
    "private_state_of": _private_state_of,
    "belief_of": _belief_of,
}
