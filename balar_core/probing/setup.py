"""What a probe loop starts from: the query, the tools, the policy and the settings."""

from dataclasses import dataclass, field

from ..budget import AURA_STEPS, StepMap, check_gap
from ..errors import InvalidGap, InvalidSetting, InvalidTool
from ..text import check_distinct, check_text
from .values import Policy, Tool

__all__ = ["Settings", "Setup"]


@dataclass(frozen=True)
class Settings:
    """The numbers of a probe loop. Defaults are those of the AURA paper.

    Attributes:
        thresholds: where the gap reaches the next budget.
        budgets: the budget below the first threshold, between the first two, and so on. With no
            threshold and one budget k every valid frame gets k probes.
        max_probes: the cap on every budget (`explore_max_steps` of the paper).
        max_refusals: after so many refused calls (denied, unknown, repeated, rejected) the loop
            ends. A refused call runs nothing and costs no probe.
        min_confidence: a frame that is less sure of itself is taken literally: budget 0.

    Raises:
        InvalidSetting: a number out of range; the message names it.

    >>> Settings().steps.budget(0.5, cap=Settings().max_probes)
    2
    """

    thresholds: tuple[float, ...] = tuple(float(t) for t in AURA_STEPS.thresholds)
    budgets: tuple[int, ...] = tuple(int(b) for b in AURA_STEPS.budgets)
    max_probes: int = 5
    max_refusals: int = 3
    min_confidence: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "thresholds", tuple(self.thresholds))
        object.__setattr__(self, "budgets", tuple(self.budgets))
        _ = self.steps
        for name, least in (("max_probes", 0), ("max_refusals", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidSetting(
                    f"{name} is {value!r}; it is a whole number of {least} or more."
                )
        try:
            confidence = check_gap(self.min_confidence, "min_confidence")
        except InvalidGap as error:
            raise InvalidSetting(str(error)) from None
        object.__setattr__(self, "min_confidence", confidence)

    @property
    def steps(self) -> StepMap:
        """The map from gaps to budgets, before the cap."""
        return StepMap(self.thresholds, self.budgets)


@dataclass(frozen=True)
class Setup:
    """Everything that is fixed before the first reply.

    Attributes:
        query: what the user said.
        context: what is publicly known.
        tools: the registry; may be empty.
        policy: which of them may be called.
        settings: the numbers.

    Raises:
        InvalidText: no query.
        InvalidTool: something that is no tool, or two tools of one name.
    """

    query: str
    context: str = ""
    tools: tuple[Tool, ...] = ()
    policy: Policy = field(default_factory=Policy)
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        check_text(self.query, "the query")
        check_text(self.context, "the context", empty=True)
        object.__setattr__(self, "tools", tuple(self.tools))
        for tool in self.tools:
            if not isinstance(tool, Tool):
                raise InvalidTool(f"{tool!r} is no Tool.")
        check_distinct((tool.name for tool in self.tools), "Tools", error=InvalidTool)

    @property
    def allowed(self) -> tuple[Tool, ...]:
        """The tools that the policy allows, in the order of the registry."""
        return tuple(tool for tool in self.tools if self.policy.allows(tool))
