"""How judgement is had from a language model: instructions, schemas, sheets, repairs."""

from . import material
from .asker import Asker, OnProgress, Progress, Sampling, Task, UnusableReply
from .conclusion import conclude
from .dimensions import propose_dimensions, propose_expansion
from .presets import PRESETS, Preset, UnknownPreset
from .prompts import instruction
from .questions import propose_questions
from .schemas import schema_of
from .sheet import Sheet, UnfilledCell, fill, table_of
from .tables import TABLES, TableElicitation
from .together import together

__all__ = [
    "PRESETS",
    "TABLES",
    "Asker",
    "OnProgress",
    "Preset",
    "Progress",
    "Sampling",
    "Sheet",
    "TableElicitation",
    "Task",
    "UnfilledCell",
    "UnknownPreset",
    "UnusableReply",
    "conclude",
    "fill",
    "instruction",
    "material",
    "propose_dimensions",
    "propose_expansion",
    "propose_questions",
    "schema_of",
    "table_of",
    "together",
]
