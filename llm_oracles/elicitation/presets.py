"""Presets: what a kind of problem (a case, a puzzle, a diagnosis) adds to the instructions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import yaml

from balar_core.errors import BalarError

from .prompts import read_text

__all__ = ["PRESETS", "Preset", "UnknownPreset"]

PRESETS = ("general", "detective", "puzzle", "clinical")


class UnknownPreset(BalarError, LookupError):
    """There is no preset of this name."""


@dataclass(frozen=True)
class Preset:
    """What is added to the instructions for a kind of problem.

    Attributes:
        role: who the model is and what the whole is about; opens every instruction.
        hints: name of an instruction (`"dimensions"`, `"questions"`, ...) -> what is added to it.
        max_choices: the usual number of choices of a question; None leaves it as it is.

    >>> Preset.named("puzzle").max_choices
    2
    """

    role: str
    hints: Mapping[str, str] = field(default_factory=dict)
    max_choices: int | None = None

    @classmethod
    def named(cls, name: str) -> Self:
        """A preset that comes with balar: general, detective, puzzle (situation puzzles), clinical.

        Raises:
            UnknownPreset: there is none of this name.
        """
        if name not in PRESETS:
            raise UnknownPreset(
                f"There is no preset {name!r}; the presets are {', '.join(PRESETS)}. Or make one: "
                "Preset(role=...)."
            )
        return cls(**_packaged()[name])


@cache
def _packaged() -> dict[str, dict[str, Any]]:
    presets: dict[str, dict[str, Any]] = yaml.safe_load(read_text("presets.yaml"))
    return presets
