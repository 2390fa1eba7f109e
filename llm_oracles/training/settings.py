"""What a training run is: everything that its result depends on, apart from the worlds."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from balar_core.errors import InvalidSetting

__all__ = ["TrainingSettings"]

AT_LEAST = {
    "steps": 1,
    "seed": 0,
    "questions": 1,
    "prompts": 1,
    "num_generations": 2,
    "updates": 1,
    "width": 1,
}
AT_MOST = {"seed": 2**32 - 1, "questions": 1000}


@dataclass(frozen=True)
class TrainingSettings:
    """How a clarifier is trained.

    Attributes:
        steps: how many batches of dialogues are held.
        seed: equal seeds and worlds give equal policies.
        questions: how many questions a dialogue may have.
        cost: nats taken off the reward for every question.
        prompts: how many users, each in a world, there are in a batch.
        num_generations: how many dialogues are held with each user; they are compared.
        updates: steps of the optimiser on each batch.
        learning_rate: Adam's step size at first; it falls along a cosine, to a tenth.
        epsilon: the lower clip range of DAPO.
        epsilon_high: its upper clip range.
        width: neurons of the hidden layers of the policy.

    Raises:
        InvalidSetting: a setting out of range.
    """

    steps: int = 300
    seed: int = 0
    questions: int = 5
    cost: float = 0.0
    prompts: int = 16
    num_generations: int = 16
    updates: int = 2
    learning_rate: float = 0.01
    epsilon: float = 0.2
    epsilon_high: float = 0.28
    width: int = 16

    def __post_init__(self) -> None:
        for name, least in AT_LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidSetting(f"{name} is {value!r}; it is a whole number from {least} on.")
        for name, most in AT_MOST.items():
            if getattr(self, name) > most:
                raise InvalidSetting(f"{name} is {getattr(self, name)}; it is at most {most}.")
        for name in ("cost", "learning_rate", "epsilon", "epsilon_high"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 <= value < math.inf):
                raise InvalidSetting(f"{name} is {value!r}; it is a number from 0 on.")

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The settings that `to_data` gave.

        Raises:
            InvalidSetting: a setting that there is not, or one out of range.
        """
        unknown = set(data) - {field.name for field in fields(cls)}
        if unknown:
            raise InvalidSetting(f"There is no setting {min(unknown)!r}.")
        return cls(**data)

    def to_data(self) -> dict[str, Any]:
        """The settings as JSON-able data."""
        return asdict(self)

    def learning_rate_at(self, step: int) -> float:
        """Adam's step size in a step, counted from 0.

        >>> round(TrainingSettings(steps=10, learning_rate=0.1).learning_rate_at(5), 6)
        0.055
        """
        falling = 0.5 * (1 + math.cos(math.pi * min(step / self.steps, 1)))
        return self.learning_rate * (0.1 + 0.9 * falling)
