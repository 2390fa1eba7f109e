r"""AURA's budget, BALAR's choice: probes planned by mutual information per cost.

A probe is a question that is put to a tool: what a call returns depends on the hidden state in a
way that tables describe. So a belief over the state says how large the gap is, which call tells
most about the implicit dimensions for what it costs, and when no call is worth it any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ..belief import Belief, raise_for_status, update
from ..budget import belief_gap
from ..codec import Json
from ..errors import InvalidDimension, InvalidSetting, InvalidTool
from ..information import information_about
from ..labels import Row, Table
from ..numerics import as_array
from ..questions import Question
from ..space import StateSpace
from ..tables import LikelihoodTables
from ..text import canonical
from .needs import CallTool, InferIntent, InferredIntent, PlanProbe, StopProbing
from .values import IntentFrame, Probe, Tool, ToolCall

__all__ = ["BeliefPlanner", "Reading", "Worth"]


@dataclass(frozen=True)
class Reading:
    """What the output of one call says about the state.

    Several readings may share a call: then one probe answers several questions.

    Attributes:
        call: the call.
        question: what it answers, with the values that the output can have as choices.
        tables: one table per dimension: a row per value, an entry per choice; None where the
            output does not depend on the dimension.
        path: names that lead to the value inside an output that is an object, such as
            `("mood",)`; empty if the output is the value.
    """

    call: ToolCall
    question: Question
    tables: tuple[Table | None, ...]
    path: tuple[str, ...] = ()

    def choice(self, output: Json) -> int | None:
        """The position of the choice that the output is; None if it is none of them."""
        value = output.value
        for name in self.path:
            value = value.get(name) if isinstance(value, dict) else None
        text = value if isinstance(value, str) else Json.of(value).text
        names = [canonical(choice) for choice in self.question.choices]
        return names.index(canonical(text)) if canonical(text) in names else None


@dataclass(frozen=True)
class Worth:
    """What a call is worth.

    Attributes:
        call: the call.
        information: how much it is expected to tell about the implicit dimensions, in nats. With
            several readings it is their sum, which counts twice what two of them share.
        cost: the cost of its tool.
    """

    call: ToolCall
    information: float
    cost: float

    @property
    def rate(self) -> float:
        """Nats per unit of cost."""
        return self.information / self.cost


@dataclass(frozen=True, eq=False)
class BeliefPlanner:
    """Infers frames and plans probes from a belief; a pure function of the trace.

    Make one with `BeliefPlanner.build`. All planners over spaces of similar size share their
    compiled programs.

    Attributes:
        space: the space of the belief.
        prior: the belief before any probe.
        readings: what calls would tell.
        tables: the tables of the readings; reading q is question q.
        implicit: names of the dimensions that the query does not speak of.
        min_information: nats; a call that is expected to tell less is not made.

    >>> space = StateSpace.of(mood=["calm", "cross"])
    >>> look = Reading(ToolCall.of("mood"), Question("How is Ann?", ("calm", "cross")),
    ...     (((0.9, 0.1), (0.1, 0.9)),))
    >>> planner = BeliefPlanner.build(space, [(0.5, 0.5)], [look], implicit=["mood"])
    >>> round(planner.gap(), 3), [round(w.information, 3) for w in planner.worths([Tool("mood")])]
    (1.0, [0.368])
    """

    space: StateSpace
    prior: Belief
    readings: tuple[Reading, ...]
    tables: LikelihoodTables
    implicit: tuple[str, ...]
    min_information: float = 1e-3
    _mask: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool), repr=False)

    @classmethod
    def build(
        cls,
        space: StateSpace,
        priors: Sequence[Row | np.ndarray],
        readings: Sequence[Reading],
        *,
        implicit: Sequence[str],
        noise: float = 0.0,
        min_information: float = 1e-3,
    ) -> Self:
        """Validate and pack.

        Args:
            space: the state space.
            priors: one row of labels or probabilities per dimension.
            readings: what calls would tell.
            implicit: names of the dimensions that the query does not speak of.
            noise: share of outputs that are taken to be uniformly random.
            min_information: nats; a call that is expected to tell less is not made.

        Raises:
            InvalidTool: no reading at all.
            InvalidDimension: an implicit dimension that is not in the space.
            InvalidSetting: a threshold that is no number of 0 or more.
            InvalidInput: priors or tables that do not fit.
        """
        if not readings:
            raise InvalidTool("There is no reading; give what at least one call would tell.")
        if not 0 <= min_information < float("inf"):
            raise InvalidSetting(f"min_information is {min_information!r}; it is 0 or more.")
        for name in implicit:
            if name not in space.names:
                raise InvalidDimension(
                    f"There is no dimension {name!r}; the dimensions are {', '.join(space.names)}."
                )
        prior = Belief.from_priors(space, priors, bucketed=True)
        tables = LikelihoodTables.build(
            space,
            [len(reading.question.choices) for reading in readings],
            {(q, 0): reading.tables for q, reading in enumerate(readings)},
            noise=noise,
            bucketed=True,
            names=[reading.question.text for reading in readings],
        )
        mask = np.zeros(prior.layout.value_mask.shape[0], dtype=bool)
        mask[: len(space.names)] = [name in implicit for name in space.names]
        return cls(
            space, prior, tuple(readings), tables, tuple(implicit), float(min_information), mask
        )

    def posterior(self, trace: Sequence[Probe] = ()) -> Belief:
        """The belief after what the probes returned; outputs that are no choice tell nothing.

        Raises:
            ImpossibleEvidence: an output that the tables exclude; give a noise.
        """
        belief = self.prior
        width = self.tables.choice_mask.shape[1]
        for probe in trace:
            for q, reading in enumerate(self.readings):
                if probe.outcome != "returned" or reading.call != probe.call:
                    continue
                choice = reading.choice(probe.output)
                if choice is None:
                    continue
                evidence = as_array(np.eye(width)[choice], float)
                learned = update(belief, self.tables, q, 0, evidence)
                raise_for_status(learned.status, f"The output of {probe.call.tool!r}")
                belief = learned.belief
        return belief

    def gap(self, trace: Sequence[Probe] = ()) -> float:
        """What is left to know about the implicit dimensions, from 0 to 1 (see `belief_gap`)."""
        return float(belief_gap(self.posterior(trace), as_array(self._mask)))

    def worths(self, tools: Sequence[Tool], trace: Sequence[Probe] = ()) -> tuple[Worth, ...]:
        """The calls of these tools that were not made yet, best rate first, ties in given order."""
        costs = {tool.name: tool.cost for tool in tools}
        made = {probe.call for probe in trace}
        found = information_about(self.posterior(trace), self.tables, as_array(self._mask))
        information: dict[ToolCall, float] = {}
        for reading, nats in zip(self.readings, np.asarray(found)[:, 0], strict=False):
            if reading.call.tool in costs and reading.call not in made:
                information[reading.call] = information.get(reading.call, 0.0) + float(nats)
        worths = [Worth(call, nats, costs[call.tool]) for call, nats in information.items()]
        # Rates that differ by rounding alone tie, so that every machine plans the same.
        return tuple(sorted(worths, key=lambda worth: -float(f"{worth.rate:.4g}")))

    def infer(self, need: InferIntent) -> InferredIntent:
        """The frame that the belief stands for: its gap, and the tools that would close it."""
        gap = self.gap()
        useful = [w.call.tool for w in self.worths(need.tools) if self._enough(w)]
        frame = IntentFrame(
            literal_need=need.query,
            implicit_needs=self.implicit,
            gap=gap,
            recommended_probes=tuple(dict.fromkeys(useful)),
            rationale=f"{gap:.0%} of what could be unknown about them is unknown.",
        )
        return InferredIntent(frame)

    def plan(self, need: PlanProbe) -> CallTool | StopProbing:
        """The call that tells most for its cost; a stop where none tells enough."""
        worth = next((w for w in self.worths(need.tools, need.trace) if self._enough(w)), None)
        if worth is None:
            return StopProbing(f"no call is expected to tell {self.min_information:g} nats")
        nats, cost = worth.information, worth.cost
        return CallTool(worth.call, f"expected to tell {nats:.3g} nats for a cost of {cost:g}")

    def _enough(self, worth: Worth) -> bool:
        return worth.information > 0 and worth.information >= self.min_information
