"""Inputs of the benchmarks: beliefs and tables of a given size, all from one seed.

A size is written `STATESxPAIRSxCHOICES`, such as `49152x200x4`. The states are the product of
dimensions of two to four values (49152 = 4 · 4 · 4 · 4 · 4 · 4 · 4 · 3), the pairs are questions
put to up to five users. The belief is a product of label priors times noise, so that it is no
product of marginals, as after some answers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from balar_core import BalarError, Belief, Dimension, LikelihoodTables, StateSpace

LABEL_WEIGHTS = np.array([0.8, 0.5, 0.2])
"""likely, neutral, unlikely."""

BLOCK = 1 << 16
"""States per block where all of them would not fit in memory at once."""

Rows = Callable[[np.random.Generator, tuple[int, int, int]], np.ndarray]
"""Random weights of one dimension: shape (pairs, values, choices)."""


class UnusableSize(BalarError, ValueError):
    """A size of a benchmark that cannot be made."""


class Size(NamedTuple):
    """The size of a case.

    >>> Size.parse("49152x200x4").dimensions
    (4, 4, 4, 4, 4, 4, 4, 3)
    """

    states: int
    pairs: int
    choices: int

    def __str__(self) -> str:
        return f"{self.states}x{self.pairs}x{self.choices}"

    @classmethod
    def parse(cls, text: str) -> "Size":
        """Read `STATESxPAIRSxCHOICES`.

        Raises:
            UnusableSize: it is written otherwise, or there is no such space.
        """
        parts = text.strip().split("x")
        if len(parts) != 3 or not all(p.isascii() and p.isdecimal() for p in parts):
            raise UnusableSize(
                f"{text!r} is not a size; write states x pairs x choices, such as 49152x200x4."
            )
        if any(len(p) > 9 for p in parts):
            raise UnusableSize(f"{text!r} is beyond what fits in memory; give a smaller size.")
        size = cls(*map(int, parts))
        if size.pairs < 1 or size.choices < 2:
            raise UnusableSize(f"{text!r}: at least 1 pair and 2 choices are needed.")
        _ = size.dimensions
        return size

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The number of values of each dimension, from 2 to 4, largest first.

        Raises:
            UnusableSize: the number of states has another prime factor than 2 and 3.
        """
        rest, twos, threes = self.states, 0, 0
        while rest > 0 and rest % 2 == 0:
            rest, twos = rest // 2, twos + 1
        while rest > 0 and rest % 3 == 0:
            rest, threes = rest // 3, threes + 1
        if rest != 1 or self.states < 2:
            raise UnusableSize(
                f"{self.states} states are no product of dimensions of 2, 3 or 4 values; "
                "give a number such as 1024, 6912 or 49152."
            )
        return (4,) * (twos // 2) + (3,) * threes + (2,) * (twos % 2)

    @property
    def users(self) -> int:
        """Up to five users, so that questions x users = pairs."""
        return max(u for u in range(1, 6) if self.pairs % u == 0)

    @property
    def dense_bytes(self) -> int:
        """The materialised (pairs, states, choices) table in float32."""
        return 4 * self.pairs * self.states * self.choices


@dataclass(frozen=True)
class World:
    """A belief and the tables of all pairs, in float64.

    Attributes:
        size: states, pairs and choices.
        kind: the kind of tables, a key of `KINDS`.
        pi: shape `(states,)`; the joint probabilities, C order over the dimensions.
        tables: one array `(pairs, values, choices)` per dimension; rows sum to one.
    """

    size: Size
    kind: str
    pi: np.ndarray
    tables: tuple[np.ndarray, ...]

    @classmethod
    def make(cls, size: Size, kind: str = "labels", seed: int = 0) -> "World":
        """The world of a size, a kind of tables and a seed."""
        random = np.random.default_rng(seed)
        priors = [random.choice(LABEL_WEIGHTS, n) for n in size.dimensions]
        pi = np.ones(1)
        for prior in priors:
            pi = np.outer(pi, prior).ravel()
        pi = pi * np.exp(random.standard_normal(size.states))
        tables = tuple(
            _normalise(KINDS[kind](random, (size.pairs, n, size.choices))) for n in size.dimensions
        )
        return cls(size, kind, pi / pi.sum(), tables)

    def engine(self, *, bucketed: bool = False) -> tuple[Belief, LikelihoodTables]:
        """The same world as the engine takes it."""
        users = self.size.users
        space = StateSpace(
            tuple(
                Dimension(f"dimension {j}", tuple(f"value {v}" for v in range(n)))
                for j, n in enumerate(self.size.dimensions)
            ),
            max_states=self.size.states,
        )
        tables = LikelihoodTables.build(
            space,
            [self.size.choices] * (self.size.pairs // users),
            {divmod(i, users): [t[i] for t in self.tables] for i in range(self.size.pairs)},
            users=users,
            bucketed=bucketed,
        )
        return Belief.from_joint(space, self.pi, bucketed=bucketed), tables

    def distinct_states(self) -> int:
        """The states that the questions can tell apart, summed over all pairs.

        Values of equal rows count once; a dimension whose rows are all equal does not count.
        """
        distinct = np.ones(self.size.pairs, dtype=np.int64)
        for table in self.tables:
            distinct *= [len(np.unique(rows, axis=0)) for rows in table]
        return int(distinct.sum())

    def likelihoods(self, pair: int) -> Iterator[tuple[slice, np.ndarray]]:
        """K of one pair, block by block: `(states of the block, K of shape (states, choices))`."""
        with np.errstate(divide="ignore"):
            logs = [np.log(table[pair]) for table in self.tables]
        for start in range(0, self.size.states, BLOCK):
            block = slice(start, min(start + BLOCK, self.size.states))
            digits = np.unravel_index(np.arange(block.start, block.stop), self.size.dimensions)
            log_k = sum(log[digit] for log, digit in zip(logs, digits, strict=True))
            k = np.exp(log_k - log_k.max(axis=1, keepdims=True))
            yield block, k / k.sum(axis=1, keepdims=True)

    def exact_information(self) -> np.ndarray:
        """The mutual information of every pair in float64, shape `(pairs,)`, in nats."""
        found = np.zeros(self.size.pairs)
        for pair in range(self.size.pairs):
            p, inside = np.zeros(self.size.choices), 0.0
            for block, k in self.likelihoods(pair):
                p += self.pi[block] @ k
                inside += float(self.pi[block] @ _plogp(k).sum(axis=1))
            found[pair] = inside - _plogp(p / p.sum()).sum()
        return found

    def dense_table(self) -> np.ndarray:
        """K of all pairs, shape `(pairs, states, choices)`, float64 rounded to float32."""
        dense = np.empty((self.size.pairs, self.size.states, self.size.choices), np.float32)
        for pair in range(self.size.pairs):
            for block, k in self.likelihoods(pair):
                dense[pair, block] = k
        return dense


def _normalise(weights: np.ndarray) -> np.ndarray:
    rows: np.ndarray = weights / weights.sum(axis=-1, keepdims=True)
    return rows


def _plogp(p: np.ndarray) -> np.ndarray:
    terms: np.ndarray = p * np.log(np.where(p > 0, p, 1))
    return terms


def _labels(random: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    return random.choice(LABEL_WEIGHTS, shape)


def _structured(random: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    pairs, values, choices = shape
    two = random.choice(LABEL_WEIGHTS, (pairs, 2, choices))
    rows = np.take_along_axis(two, random.integers(2, size=(pairs, values, 1)), axis=1)
    matters = random.random((pairs, 1, 1)) < 0.5
    return np.where(matters, rows, 0.5)


def _dense(random: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    return random.gamma(1.0, size=shape) + 1e-6


def _sharp(random: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    likely = random.integers(shape[2], size=(*shape[:2], 1))
    return np.where(np.arange(shape[2]) == likely, 1.0, 1e-30)


def _zeros(random: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    possible = random.random(shape) < 0.7
    possible[..., 0] = True  # one choice stays possible in every state
    return np.where(possible, random.choice(LABEL_WEIGHTS, shape), 0.0)


def _weak(random: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    return np.exp(1e-3 * random.standard_normal(shape))


KINDS: dict[str, Rows] = {
    "labels": _labels,
    "structured": _structured,
    "dense": _dense,
    "sharp": _sharp,
    "zeros": _zeros,
    "weak": _weak,
}
"""The kinds of tables.

`labels`: every cell likely, neutral or unlikely. `structured`: labels, but half of the dimensions
do not matter to a question and the values of the others fall into two classes. `dense`: rows
uniform on the simplex. `sharp`: one choice certain, the others 1e-30. `zeros`: labels with 30 %
exact zeros. `weak`: rows within about 0.1 % of uniform; informations near 1e-6 nats.
"""
