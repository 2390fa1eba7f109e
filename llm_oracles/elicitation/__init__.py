"""How judgement is had from a language model: instructions, schemas, sheets, repairs."""

from .asker import Asker, OnProgress, Progress, Sampling, UnusableReply
from .conclusion import conclude
from .dimensions import propose_dimensions, propose_expansion
from .presets import PRESETS, Preset, UnknownPreset
from .questions import propose_questions
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
    "UnfilledCell",
    "UnknownPreset",
    "UnusableReply",
    "conclude",
    "fill",
    "propose_dimensions",
    "propose_expansion",
    "propose_questions",
    "table_of",
    "together",
]
