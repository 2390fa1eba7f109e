"""Instructions: files with placeholders for numbers and labels, never for what people wrote.

What people or models wrote goes to the model as JSON data in a message of its own, so that no text
can become part of an instruction.
"""

from functools import cache
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .presets import Preset

__all__ = ["VERSION", "instruction", "read_text"]

VERSION = "v1"
"""The prompts in use. A change in their meaning gets a new version in a folder of its own."""


@cache
def read_text(name: str) -> str:
    """The text of a file that belongs to the prompts."""
    return (files(__package__) / "prompts" / VERSION / name).read_text(encoding="utf-8").strip()


def instruction(preset: "Preset", *names: str, **fields: object) -> str:
    """The instruction that is made of some files, with the hints of a preset.

    Args:
        preset: whose role and hints are used.
        names: names of the files, without their ending.
        fields: what stands for the placeholders.

    >>> from llm_oracles.elicitation import Preset
    >>> instruction(Preset("Be brief."), "priors", labels="high, low").splitlines()[-1]
    'Use one of these labels for each: high, low.'
    """
    parts = [preset.role]
    for name in names:
        parts.append(Template(read_text(f"{name}.md")).substitute(fields))
        parts.append(preset.hints.get(name, ""))
    return "\n\n".join(filter(None, parts))
