"""Planners that need neither a model nor a belief."""

from collections.abc import Callable, Mapping
from typing import Any

from balar_core.codec import Json
from balar_core.probing import CallTool, PlanProbe, StopProbing, Tool, ToolCall

__all__ = ["RecommendedPlanner"]

Arguments = Callable[[Tool, PlanProbe], Mapping[str, Any] | None]
"""The arguments with which to call a tool; None if there are none that make sense."""


def no_arguments(tool: Tool, need: PlanProbe) -> Mapping[str, Any] | None:
    """Nothing, for tools that need nothing."""
    return None if tool.needs_arguments else {}


class RecommendedPlanner:
    """Calls what the frame recommends, in its order, each tool once.

    Args:
        arguments: finds the arguments of a call; by default only tools that need none are called.
    """

    def __init__(self, arguments: Arguments = no_arguments) -> None:
        self._arguments = arguments

    def plan(self, need: PlanProbe) -> CallTool | StopProbing:
        """The first recommended tool that has not been tried."""
        tools = {tool.name: tool for tool in need.tools}
        tried = {probe.call.tool for probe in need.trace}
        for name in need.frame.recommended_probes:
            if name in tried or name not in tools:
                continue
            arguments = self._arguments(tools[name], need)
            if arguments is not None:
                return CallTool(ToolCall(name, Json.of(arguments)), "the frame recommends it")
        return StopProbing("nothing more is recommended")
