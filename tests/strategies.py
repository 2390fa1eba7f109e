"""Made-up worlds: Hypothesis draws the structure, a seed fills in the numbers.

All worlds share two padded shapes (one dimension, or several), so that a whole test run compiles
every program twice.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from balar_core import (
    AnswerTables,
    Belief,
    Dimension,
    LikelihoodTables,
    StateSpace,
)

from .reference import Pair, Table, World

KINDS = ("labels", "dense", "sharp", "zeros", "irrelevant", "weak")
USERS = 2
LABELS = np.array([0.8, 0.5, 0.2])
MAX_STATES = 192


def rows(random: np.random.Generator, kind: str, count: int, width: int) -> np.ndarray:
    """Random distributions, shape `(count, width)`; entry 0 is never 0."""
    if kind == "labels":
        weights = random.choice(LABELS, (count, width))
    elif kind == "sharp":
        weights = 10.0 ** (-30 * random.random((count, width)))
    elif kind == "weak":
        weights = np.exp(1e-2 * random.normal(size=(count, width)))
    else:
        weights = random.dirichlet(np.ones(width), count)
    if kind == "zeros":
        weights[:, 1:] *= random.random((count, width - 1)) < 0.6
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def make_world(
    seed: int,
    kind: str,
    sizes: tuple[int, ...],
    choices: tuple[int, ...],
    *,
    users: int = USERS,
    answers: int = 0,
    missing: frozenset[Pair] = frozenset(),
) -> World:
    """A world from a seed.

    Args:
        seed: where all numbers come from.
        kind: one of `KINDS`.
        sizes: the number of values of each dimension.
        choices: the number of choices of each question.
        users: how many users there are.
        answers: the number of answers; 0 for none.
        missing: pairs without tables.
    """
    random = np.random.default_rng(seed)

    def table(size: int, width: int) -> Table:
        if kind == "irrelevant" and random.random() < 0.5:
            return None
        return rows(random, kind, size, width)

    priors = tuple(rows(random, kind, 1, size)[0] for size in sizes)
    tables = {
        (q, u): tuple(table(size, count) for size in sizes)
        for q, count in enumerate(choices)
        for u in range(users)
        if (q, u) not in missing
    }
    answer_tables = tuple(table(size, answers) for size in sizes) if answers else ()
    return World(sizes, priors, choices, users, tables, answers, answer_tables)


@st.composite
def worlds(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS, dimensions: int | None = None) -> World:
    """Ragged worlds of up to four dimensions, three questions and two users."""
    count = st.integers(1, 4) if dimensions is None else st.just(dimensions)
    size, width = st.integers(2, 4), st.integers(2, 4)
    sizes = draw(count.flatmap(lambda n: st.tuples(*[size] * n)))
    choices = draw(st.lists(width, min_size=1, max_size=3).map(tuple))
    missing = draw(st.booleans()) and len(choices) > 1
    return make_world(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.sampled_from(kinds)),
        sizes,
        choices,
        answers=draw(width),
        missing=frozenset({(0, 1)}) if missing else frozenset(),
    )


def space_of(sizes: tuple[int, ...]) -> StateSpace:
    return StateSpace(
        tuple(
            Dimension(f"d{j}", tuple(f"v{i}" for i in range(size))) for j, size in enumerate(sizes)
        )
    )


def build(world: World, *, bucketed: bool = True) -> tuple[StateSpace, Belief, LikelihoodTables]:
    """The same world in the engine."""
    space = space_of(world.sizes)
    belief = Belief.from_priors(space, world.priors, bucketed=bucketed)
    tables = LikelihoodTables.build(
        space, world.choices, world.tables, users=world.users, bucketed=bucketed
    )
    return space, belief, tables


def build_answers(world: World, *, bucketed: bool = True) -> AnswerTables:
    return AnswerTables.build(
        space_of(world.sizes), world.answers, world.answer_tables, bucketed=bucketed
    )


def evidence(tables: LikelihoodTables, weights: np.ndarray) -> jax.Array:
    """Weights over choices, padded to the width of the tables."""
    padded = np.zeros(tables.choice_mask.shape[-1])
    padded[: len(weights)] = weights
    return jnp.asarray(padded, tables.log_tables.dtype)


def soft(random: np.random.Generator, count: int) -> np.ndarray:
    """Positive evidence over `count` choices."""
    return np.asarray(random.dirichlet(np.ones(count)) + 0.01)
