"""The bounded probe loop of AURA: what is needed besides what is asked, found out with few probes.

`Probing` is sans-IO like `balar_core.dialogue`: it says what it needs next and is told what came
back. Who infers intents, plans probes, runs tools and words answers is not its business.
"""

from ..codec import Json, to_data
from .machine import END_REASONS, Probing, from_data
from .needs import (
    REPLIES_TO,
    AnsweredQuery,
    AnswerQuery,
    CallTool,
    InferIntent,
    InferredIntent,
    Need,
    PlanProbe,
    Reply,
    RunTool,
    StopProbing,
    ToolFailed,
    ToolRejected,
    ToolReturned,
)
from .planner import BeliefPlanner, Reading, Worth
from .setup import Settings, Setup
from .values import OUTCOMES, IntentFrame, Policy, Probe, Tool, ToolCall

__all__ = [
    "END_REASONS",
    "OUTCOMES",
    "REPLIES_TO",
    "AnswerQuery",
    "AnsweredQuery",
    "BeliefPlanner",
    "CallTool",
    "InferIntent",
    "InferredIntent",
    "IntentFrame",
    "Json",
    "Need",
    "PlanProbe",
    "Policy",
    "Probe",
    "Probing",
    "Reading",
    "Reply",
    "RunTool",
    "Settings",
    "Setup",
    "StopProbing",
    "Tool",
    "ToolCall",
    "ToolFailed",
    "ToolRejected",
    "ToolReturned",
    "Worth",
    "from_data",
    "to_data",
]
