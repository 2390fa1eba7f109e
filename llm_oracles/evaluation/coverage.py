"""Which facts the probes of the AURA benchmark bring to light.

With `evidence_coverage` this makes a deterministic score: no model judges an answer. It measures
what an answer could have been made from, not how well it was put.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..facts import Fact

__all__ = ["PRIVATE_FIELDS", "needed_facts", "shown_facts"]

PRIVATE_FIELDS = ("availability", "emotional_state", "unspoken_goal")


def shown_facts(tool: str, arguments: Mapping[str, Any], payload: Any) -> dict[Fact, str]:
    """The facts that one call shows; anything but an object, or an error, shows none.

    Private state shows the fields that are in it, a belief what is believed, and a plan the goal of
    the planner: that is what the plans of the benchmark say.

    >>> shown_facts("get_agent_private_state", {"agent_name": "Ada"}, {"availability": "free"})
    {Fact(holder='Ada', field='availability', about=''): 'free'}
    """
    if not isinstance(payload, Mapping) or "error" in payload:
        return {}
    fields = {field: str(payload[field]) for field in PRIVATE_FIELDS if field in payload}
    if tool == "get_agent_private_state":
        return {Fact(arguments["agent_name"], field): value for field, value in fields.items()}
    if tool == "get_agent_plan":
        return {Fact(arguments["agent_name"], "unspoken_goal"): str(payload.get("plan", ""))}
    if tool == "get_agent_belief_about":
        believer, target = arguments["believer"], arguments["target"]
        return {Fact(believer, field, about=target): value for field, value in fields.items()}
    return {}


def needed_facts(query: Mapping[str, Any], people: Iterable[str] = ()) -> frozenset[Fact]:
    """The facts that a query of the benchmark needs; fields of which no record exists are left out.

    Args:
        query: the query; one that names nobody needs the fields of everybody in `people`.
        people: who is there.
    """
    subject = query["agent_subject"]
    holders = tuple(people) if subject is None else (subject,)
    facts = set()
    for path in query["implicit_requires"]:
        *believed, field = path.split(".")
        if field in PRIVATE_FIELDS:
            about = believed[1] if believed else ""
            facts |= {Fact(holder, field, about) for holder in holders}
    return frozenset(facts)
