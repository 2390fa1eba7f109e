"""Cases from the public implicit-intent queries of AURA.

The file says of every query what it needs, and a policy must not see that. What a wording is likely
to need is counted in the queries about the *other* scenes. Of the values of a field a policy knows
which ones occur in the scene, but not who has which.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from balar_core.errors import BalarError
from balar_core.probing import BeliefPlanner, Json, Reading, Tool, ToolCall
from balar_core.questions import Question
from balar_core.space import Dimension, StateSpace

from ..facts import Fact
from ..mistakes import in_words
from .aura_files import ReleaseError, read_json
from .cases import LIKELY, Case, fitting, reported_gap
from .coverage import PRIVATE_FIELDS, needed_facts, shown_facts

__all__ = ["public_cases"]

Record = Mapping[str, Any]
Wording = tuple[str, int]
"""The first word of a query, and whether it names nobody, one person or more."""


def _tool(name: str, description: str, cost: float, reveals: Sequence[str], *names: str) -> Tool:
    properties = {argument: {"type": "string"} for argument in names}
    schema = {"type": "object", "properties": properties, "required": list(names)}
    return Tool(name, description, Json.of(schema), cost, tuple(reveals))


TOOLS = (
    _tool("get_all_agents", "Everybody, where they are and what they do.", 1, ["public"]),
    _tool("get_nearby_agents", "Who is at a place.", 1, ["public"], "location"),
    _tool("get_agent_plan", "What somebody is seen to be about.", 1, ["public"], "agent_name"),
    _tool(
        "get_agent_private_state",
        "What somebody does not show.",
        2,
        [f"private.{field}" for field in PRIVATE_FIELDS],
        "agent_name",
    ),
    _tool(
        "get_agent_belief_about",
        "What somebody believes about another.",
        1.5,
        ["belief"],
        "believer",
        "target",
    ),
)


def public_cases(path: Path) -> list[Case]:
    """The cases of a file of implicit-intent queries.

    Raises:
        ReleaseError: the file cannot be read, or does not hold such queries.
    """
    data = read_json(path)
    try:
        file = _File.model_validate(data).model_dump(exclude_unset=True)
        _check(file["scenes"], file["queries"])
        return list(_cases(file["scenes"], file["queries"]))
    except (ValidationError, BalarError) as error:
        why = in_words(error, "the file") if isinstance(error, ValidationError) else str(error)
        raise ReleaseError(
            f"{path} does not hold implicit-intent queries as AURA released them "
            f"(version 2, with scenes): {why}"
        ) from None


class _Record(BaseModel):
    """A part of the file; fields that are not needed are left unread."""

    model_config = ConfigDict(strict=True)


class _Seen(_Record):
    location: str
    action: str


class _Private(_Record):
    availability: str = ""
    emotional_state: str = ""
    unspoken_goal: str = ""


class _Scene(_Record):
    summary: str
    public_state: dict[str, _Seen] = Field(min_length=1)
    private_state: dict[str, _Private]
    beliefs_about_others: dict[str, dict[str, _Private]]


class _Query(_Record):
    id: int | str
    scene: str
    subcategory: str
    query: str = Field(pattern=r"\S")
    agent_subject: str | None
    implicit_requires: list[str]
    forbidden_tools: list[str]


class _File(_Record):
    scenes: dict[str, _Scene]
    queries: list[_Query] = Field(min_length=1)


def _check(scenes: Mapping[str, Record], queries: Sequence[Record]) -> None:
    """Refuse queries whose scene or subject is not there, and names that are not unique."""
    ids: set[str] = set()
    for query in queries:
        name, scene, subject = str(query["id"]), query["scene"], query["agent_subject"]
        if name in ids:
            raise ReleaseError(f"There are two queries {name}.")
        ids.add(name)
        if scene not in scenes:
            raise ReleaseError(f"Query {name} is about the scene {scene!r}, which is not there.")
        if subject is not None and subject not in scenes[scene]["public_state"]:
            raise ReleaseError(f"Query {name} is about {subject!r}, who is not in its scene.")


def _cases(scenes: Mapping[str, Record], queries: Sequence[Record]) -> Iterator[Case]:
    for query in queries:
        scene = scenes[query["scene"]]
        truth = _truth(scene)
        others = [other for other in queries if other["scene"] != query["scene"]]
        named = _named(query["query"], scene)
        wording = _wording(query["query"], scene)
        similar = [o for o in others if _wording(o["query"], scenes[o["scene"]]) == wording]
        fields = Counter(field for o in similar or others for field in _fields(o))
        likely = [
            field
            for field, count in fields.most_common()
            if count >= LIKELY * len(similar or others)
        ]
        facts = _facts(truth, likely, named, tuple(scene["public_state"]))
        kinds = Counter(other["subcategory"] for other in similar)
        needed = needed_facts(query, scene["public_state"]) & truth.keys()
        yield Case(
            name=str(query["id"]),
            scene=query["scene"],
            kind=query["subcategory"],
            query=query["query"],
            context=scene["summary"],
            tools=TOOLS,
            planner=_planner(truth, facts),
            facts=facts,
            listed=_listed(named, scene),
            reported_gap=reported_gap({k: count / kinds.total() for k, count in kinds.items()}),
            forbidden=tuple(query["forbidden_tools"]),
            needed=needed,
            truth=truth,
            guesses={fact: _values(truth, fact)[0] for fact in needed},
            call=partial(_call, scene),
            shows=_shows,
        )


def _truth(scene: Record) -> dict[Fact, str]:
    """All facts of a scene."""
    own = {
        Fact(name, field): private[field]
        for name, private in scene["private_state"].items()
        for field in PRIVATE_FIELDS
        if field in private
    }
    believed = {
        Fact(believer, field, about): record[field]
        for believer, records in scene["beliefs_about_others"].items()
        for about, record in records.items()
        for field in PRIVATE_FIELDS
        if field in record
    }
    return own | believed


def _named(text: str, scene: Record) -> tuple[str, ...]:
    return tuple(sorted((n for n in scene["public_state"] if n in text), key=text.index))


def _wording(text: str, scene: Record) -> Wording:
    return text.split(maxsplit=1)[0].casefold(), min(2, len(_named(text, scene)))


def _fields(query: Record) -> set[tuple[str, bool]]:
    """The fields that a query needs, each with whether it is a field of a belief."""
    paths = [path.split(".") for path in query["implicit_requires"]]
    return {(path[-1], len(path) > 1) for path in paths if path[-1] in PRIVATE_FIELDS}


def _facts(
    truth: Mapping[Fact, str],
    likely: Sequence[tuple[str, bool]],
    named: Sequence[str],
    everybody: Sequence[str],
) -> tuple[Fact, ...]:
    """What the words are likely to need, the likeliest field first."""
    wanted = []
    for field, believed in likely:
        if not believed:
            wanted += [Fact(person, field) for person in named[:1] or everybody]
        elif len(named) == 2:
            wanted.append(Fact(named[0], field, named[1]))
    known = (fact for fact in wanted if fact in truth)
    facts = fitting(known, lambda fact: len(_values(truth, fact)))
    return facts or tuple(truth)[:1]


def _values(truth: Mapping[Fact, str], fact: Fact) -> tuple[str, ...]:
    """The values that occur in the scene in a fact's place, in alphabetical order."""
    place = fact.field, bool(fact.about)
    same = {value for other, value in truth.items() if (other.field, bool(other.about)) == place}
    return tuple(sorted(same)) if len(same) > 1 else (*same, "something else")


def _planner(truth: Mapping[Fact, str], facts: Sequence[Fact]) -> BeliefPlanner:
    space = StateSpace(tuple(Dimension(str(fact), _values(truth, fact)) for fact in facts))
    readings = []
    for place, fact in enumerate(facts):
        values = _values(truth, fact)
        exact = tuple(map(tuple, np.eye(len(values)).tolist()))
        tables = tuple(exact if i == place else None for i in range(len(facts)))
        readings.append(Reading(_look(fact), Question(f"{fact}?", values), tables, (fact.field,)))
    priors = [np.full(size, 1 / size) for size in space.sizes]
    return BeliefPlanner.build(space, priors, readings, implicit=space.names)


def _look(fact: Fact) -> ToolCall:
    if fact.about:
        return _belief(fact.holder, fact.about)
    return ToolCall.of("get_agent_private_state", agent_name=fact.holder)


def _belief(believer: str, target: str) -> ToolCall:
    return ToolCall.of("get_agent_belief_about", believer=believer, target=target)


def _listed(named: Sequence[str], scene: Record) -> tuple[ToolCall, ...]:
    """Everything that may help, the most direct first, public things last."""
    people = list(named) or list(scene["public_state"])
    calls = [_belief(named[0], named[1])] if len(named) > 1 else []
    private = [ToolCall.of("get_agent_private_state", agent_name=person) for person in people]
    calls += reversed(private) if len(named) > 1 else private
    calls += [ToolCall.of("get_agent_plan", agent_name=person) for person in people]
    places = dict.fromkeys(scene["public_state"][person]["location"] for person in people)
    calls += [ToolCall.of("get_nearby_agents", location=place) for place in places]
    return (*calls, ToolCall.of("get_all_agents"))


def _call(scene: Record, wanted: ToolCall) -> Any:
    arguments = wanted.arguments.value
    public = scene["public_state"]
    match wanted.tool:
        case "get_all_agents":
            return public
        case "get_nearby_agents":
            place = arguments["location"]
            return {name: seen for name, seen in public.items() if seen["location"] == place}
        case "get_agent_plan":
            return {"seen": public[arguments["agent_name"]]["action"]}
        case "get_agent_private_state":
            return scene["private_state"][arguments["agent_name"]]
        case _:
            return scene["beliefs_about_others"][arguments["believer"]][arguments["target"]]


def _shows(made: ToolCall, output: Any) -> dict[Fact, str]:
    """As in the benchmark, but a plan here shows nothing private."""
    if made.tool == "get_agent_plan":
        return {}
    return shown_facts(made.tool, made.arguments.value, output)
