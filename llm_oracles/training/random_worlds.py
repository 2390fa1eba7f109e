"""Random worlds: questions that differ in what they are about and in how much they tell."""

import numpy as np

from balar_core.belief import Belief
from balar_core.errors import InvalidSetting
from balar_core.simulation import World, stack_worlds
from balar_core.space import Dimension, StateSpace
from balar_core.tables import LikelihoodTables

__all__ = ["random_worlds"]

SIZES = (4, 3)
"""Values of the dimensions of a world."""
CHOICES = (2, 3)
CLEAREST = 0.95
"""The share of answers that say what is so, at most; the others are uniformly random."""
SIDE_EFFECT = 0.2
"""How often a question depends on a dimension that it is not about."""


def random_worlds(seed: int, count: int, *, questions: int = 8) -> World:
    """Stacked worlds of two dimensions with a random prior and random questions.

    A question is about one dimension, now and then about the other as well. Every value makes one
    answer likely; how likely, differs from question to question.

    Args:
        seed: equal seeds give equal worlds.
        count: how many worlds.
        questions: how many questions each has.

    Raises:
        InvalidSetting: no worlds, or no questions.

    >>> random_worlds(seed=0, count=3).belief.log_joint.shape
    (3, 4, 3)
    """
    if count < 1 or questions < 1:
        raise InvalidSetting(
            f"There are {count} worlds with {questions} questions; give at least one of each."
        )
    rng = np.random.default_rng(seed)
    return stack_worlds([_world(rng, questions) for _ in range(count)])


def _world(rng: np.random.Generator, questions: int) -> World:
    space = StateSpace(
        tuple(
            Dimension(f"dimension {j}", tuple(f"value {v}" for v in range(n)))
            for j, n in enumerate(SIZES)
        )
    )
    choices = [int(rng.choice(CHOICES)) for _ in range(questions)]
    tables = {(q, 0): _tables(rng, width) for q, width in enumerate(choices)}
    priors = [rng.dirichlet(np.full(n, 2.0)) for n in SIZES]
    return World(Belief.from_priors(space, priors), LikelihoodTables.build(space, choices, tables))


def _tables(rng: np.random.Generator, width: int) -> list[np.ndarray | None]:
    about = rng.integers(len(SIZES))
    clear = CLEAREST * rng.random()
    tables: list[np.ndarray | None] = []
    for j, size in enumerate(SIZES):
        likely = np.eye(width)[rng.integers(width, size=size)]
        matters = j == about or rng.random() < SIDE_EFFECT
        tables.append(clear * likely + (1 - clear) / width if matters else None)
    return tables
