"""What the probe loop speaks of: tools and calls, policies, intent frames, probes."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

from ..budget import check_gap
from ..codec import Json, read
from ..errors import InvalidFrame, InvalidGap, InvalidInput, InvalidTool
from ..text import canonical, check_distinct, check_text

__all__ = ["OUTCOMES", "IntentFrame", "Policy", "Probe", "Tool", "ToolCall"]

OUTCOMES = ("returned", "failed", "rejected", "denied", "unknown", "repeated")
"""How a probe can end. The first two ran the tool and are charged; the others did not and are not.

- `returned`: the tool gave its output;
- `failed`: the tool ran and failed, or took too long;
- `rejected`: the arguments do not fit the schema of the tool;
- `denied`: the policy forbids the tool;
- `unknown`: there is no such tool;
- `repeated`: the same call was made before.
"""

ANY_OBJECT = Json.of({"type": "object"})
NO_ARGUMENTS = Json.of({})
NULL = Json.of(None)


@dataclass(frozen=True)
class Tool:
    """A tool as planners see it.

    Attributes:
        name: the name by which it is called.
        description: what it tells, in words.
        parameters: the JSON schema of its arguments (a mapping is frozen into `Json`).
        cost: what one call costs, in any unit; above 0.
        reveals: what its output can hold, such as `"private.mood"`. A policy that withholds any of
            it denies the tool, whatever its name.

    Raises:
        InvalidTool: no name, a schema that is no object, or an unusable cost.
    """

    name: str
    description: str = ""
    parameters: Json = ANY_OBJECT
    cost: float = 1.0
    reveals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a tool", error=InvalidTool)
        what = f"tool {self.name!r}"
        check_text(self.description, f"the description of {what}", empty=True, error=InvalidTool)
        try:
            object.__setattr__(self, "parameters", Json.of(self.parameters))
        except InvalidInput as error:
            raise InvalidTool(f"The parameters of {what}: {error}") from None
        if not isinstance(self.parameters.value, dict):
            raise InvalidTool(
                f"The parameters of {what} are {self.parameters.text}; give a JSON schema, an "
                "object."
            )
        number = isinstance(self.cost, int | float) and not isinstance(self.cost, bool)
        if not number or not 0 < self.cost < float("inf"):
            raise InvalidTool(f"The cost of {what} is {self.cost!r}; it is a number above 0.")
        object.__setattr__(self, "cost", float(self.cost))
        object.__setattr__(self, "reveals", _texts(self.reveals, f"reveals of {what}", InvalidTool))

    @property
    def needs_arguments(self) -> bool:
        """Whether the schema has required parameters."""
        return bool(self.parameters.value.get("required"))


@dataclass(frozen=True)
class ToolCall:
    """A tool and its arguments. Two calls are equal when name and arguments are.

    Attributes:
        tool: the name of the tool.
        arguments: an object (a mapping is frozen into `Json`).

    Raises:
        InvalidTool: no name, or arguments that are no object.

    >>> ToolCall.of("mood", agent="Ann", when="now") == ToolCall.of("mood", when="now", agent="Ann")
    True
    """

    tool: str
    arguments: Json = NO_ARGUMENTS

    def __post_init__(self) -> None:
        check_text(self.tool, "the name of the tool that is called", error=InvalidTool)
        try:
            object.__setattr__(self, "arguments", Json.of(self.arguments))
        except InvalidInput as error:
            raise InvalidTool(f"The arguments of {self.tool!r}: {error}") from None
        if not isinstance(self.arguments.value, dict):
            raise InvalidTool(
                f"The arguments of {self.tool!r} are {self.arguments.text}; give an object, "
                "name -> value."
            )

    @classmethod
    def of(cls, tool: str, /, **arguments: Any) -> Self:
        """A call with keyword arguments."""
        return cls(tool, Json.of(arguments))


@dataclass(frozen=True)
class Policy:
    """Which tools may be called. To deny beats to allow.

    Patterns are globs, compared without case.

    Attributes:
        allow: names that may be called; everything by default, nothing if empty.
        deny: names that may not.
        withhold: what must not come out: a tool that reveals it is denied under any name.

    >>> policy = Policy(allow=("get_*",), deny=("get_private",), withhold=("private.*",))
    >>> plan = Tool("get_plan", reveals=("public.plan", "private.goal"))
    >>> [policy.allows(t) for t in (Tool("get_time"), Tool("get_private"), plan, Tool("write"))]
    [True, False, False, False]
    """

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    withhold: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("allow", "deny", "withhold"):
            patterns = _texts(getattr(self, name), f"the {name} patterns of a policy", InvalidTool)
            object.__setattr__(self, name, patterns)

    def allows(self, tool: Tool) -> bool:
        """Whether the tool may be called."""
        return (
            _matches(tool.name, self.allow)
            and not _matches(tool.name, self.deny)
            and not any(_matches(item, self.withhold) for item in tool.reveals)
        )


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(canonical(name), canonical(pattern)) for pattern in patterns)


@dataclass(frozen=True)
class IntentFrame:
    """What a query asks, what it is likely to need, and how far apart they are (AURA, section 3).

    Attributes:
        literal_need: what is asked, in other words.
        implicit_needs: what may be needed besides.
        gap: from 0 (the query says it all) to 1 (what is needed is not in the query).
        recommended_probes: names of tools that would tell, the best first.
        alert: whether the user ought to be told of the implicit need unasked.
        confidence: in the frame itself, from 0 to 1.
        rationale: why.

    Raises:
        InvalidFrame: a part that is missing, of the wrong type, doubled or out of range; NaN,
            infinities, booleans and strings are no gap and no confidence.

    >>> IntentFrame("where Ann is", ("whether she has time",), gap=0.6).recommended_probes
    ()
    """

    literal_need: str
    implicit_needs: tuple[str, ...] = ()
    gap: float = 0.0
    recommended_probes: tuple[str, ...] = ()
    alert: bool = False
    confidence: float = 1.0
    rationale: str = ""

    def __post_init__(self) -> None:
        check_text(self.literal_need, "the literal need", error=InvalidFrame)
        check_text(self.rationale, "the rationale", empty=True, error=InvalidFrame)
        needs = _texts(self.implicit_needs, "the implicit needs", InvalidFrame)
        object.__setattr__(self, "implicit_needs", needs)
        probes = _texts(self.recommended_probes, "the recommended probes", InvalidFrame)
        check_distinct(probes, "recommended_probes", error=InvalidFrame)
        object.__setattr__(self, "recommended_probes", probes)
        if not isinstance(self.alert, bool):
            raise InvalidFrame(f"alert is {self.alert!r}; it is true or false.")
        try:
            object.__setattr__(self, "gap", check_gap(self.gap))
            object.__setattr__(self, "confidence", check_gap(self.confidence, "the confidence"))
        except InvalidGap as error:
            raise InvalidFrame(str(error)) from None

    @classmethod
    def from_data(cls, data: object) -> Self:
        """Read a frame from JSON data, strictly: every field is checked, none is guessed.

        Raises:
            InvalidFrame: a field that is unknown, missing, of the wrong type or out of range. The
                gap has to be there.
        """
        try:
            if isinstance(data, dict) and "gap" not in data:
                raise InvalidInput("frame has no field 'gap'; it is needed.")
            return read(cls, data, "frame")
        except InvalidFrame:
            raise
        except InvalidInput as error:
            raise InvalidFrame(str(error)) from None


@dataclass(frozen=True)
class Probe:
    """One step of the loop, whatever came of it.

    Attributes:
        step: its number, from 0.
        call: what was to be called.
        reason: why, in the planner's words.
        outcome: one of `OUTCOMES`.
        output: what the tool returned; null unless it did.
        error: what went wrong; empty if nothing did.
        cost: what was charged: the cost of the tool if it ran, else 0.
    """

    step: int
    call: ToolCall
    reason: str
    outcome: str
    output: Json = NULL
    error: str = ""
    cost: float = 0.0

    @property
    def ran(self) -> bool:
        """Whether the tool was run; such a probe counts against the budget."""
        return self.outcome in ("returned", "failed")


def _texts(texts: object, what: str, error: type[InvalidInput]) -> tuple[str, ...]:
    if isinstance(texts, str) or not isinstance(texts, tuple | list):
        raise error(f"{what} are {texts!r}; give a list of texts.")
    return tuple(
        check_text(text, f"entry {i} of {what}", error=error) for i, text in enumerate(texts)
    )
