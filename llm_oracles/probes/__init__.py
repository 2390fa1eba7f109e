"""Probing before answering: tools, frames, planners, and the driver of the loop."""

from .frames import RecordedFrames
from .loop import Crew, Prober, explore
from .mcp_tools import McpMissing, McpToolFailed, McpUnreachable, mcp_tools
from .model import ModelProber
from .planners import RecommendedPlanner
from .toolbox import RejectedArguments, Toolbox

__all__ = [
    "Crew",
    "McpMissing",
    "McpToolFailed",
    "McpUnreachable",
    "ModelProber",
    "Prober",
    "RecommendedPlanner",
    "RecordedFrames",
    "RejectedArguments",
    "Toolbox",
    "explore",
    "mcp_tools",
]
