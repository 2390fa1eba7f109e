"""Bayes by brute force, in plain float64 NumPy: what the engine is compared with.

Every function works on the full joint, one row per state in C order. Nothing here knows of
layouts, padding, log space or factored sums, and nothing is shared with the package.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

Pair = tuple[int, int]
Table = np.ndarray | None


@dataclass(frozen=True)
class World:
    """A whole problem, as plain arrays.

    Attributes:
        sizes: the number of values of each dimension.
        priors: one distribution per dimension.
        choices: the number of choices of each question.
        users: how many users there are.
        tables: per (question, user), one table `(values, choices)` per dimension, or None.
        answers: the number of answers of the closed answer set; 0 without one.
        answer_tables: one table `(values, answers)` per dimension, or None.
    """

    sizes: tuple[int, ...]
    priors: tuple[np.ndarray, ...]
    choices: tuple[int, ...]
    users: int
    tables: dict[Pair, tuple[Table, ...]]
    answers: int = 0
    answer_tables: tuple[Table, ...] = field(default=())

    @property
    def pairs(self) -> list[Pair]:
        return [(q, u) for q in range(len(self.choices)) for u in range(self.users)]

    def prior(self) -> np.ndarray:
        return product_prior(self.priors)

    def likelihood(self, pair: Pair) -> np.ndarray:
        return likelihood(self.sizes, self.tables[pair], self.choices[pair[0]])


def states(sizes: Sequence[int]) -> np.ndarray:
    """All states, shape `(S, D)`."""
    return np.array(list(itertools.product(*map(range, sizes))), dtype=int)


def product_prior(priors: Sequence[np.ndarray]) -> np.ndarray:
    """The joint prior, shape `(S,)`."""
    digits = states([len(p) for p in priors])
    joint = np.prod([np.asarray(p)[digits[:, j]] for j, p in enumerate(priors)], axis=0)
    return joint / joint.sum()


def experts(sizes: Sequence[int], tables: Sequence[Table], choices: int) -> np.ndarray:
    """The product of experts without its normaliser, shape `(S, C)`."""
    digits = states(sizes)
    product = np.ones((len(digits), choices))
    for j, table in enumerate(tables):
        if table is not None:
            product = product * np.asarray(table)[digits[:, j]]
    return product


def likelihood(sizes: Sequence[int], tables: Sequence[Table], choices: int) -> np.ndarray:
    """K, shape `(S, C)`: rows sum to one."""
    product = experts(sizes, tables, choices)
    return product / product.sum(axis=1, keepdims=True)


def update(pi: np.ndarray, k: np.ndarray, evidence: np.ndarray) -> tuple[np.ndarray, float]:
    """The posterior, and the predictive probability of the (normalised) evidence."""
    weights = np.asarray(evidence, dtype=float)
    weighted = pi * (k @ (weights / weights.sum()))
    return weighted / weighted.sum(), float(weighted.sum())


def plogp(p: np.ndarray) -> np.ndarray:
    return np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0)


def entropy(p: np.ndarray) -> float:
    return float(-plogp(p).sum())


def marginals(pi: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    cube = pi.reshape(tuple(sizes))
    axes = range(len(sizes))
    return [cube.sum(axis=tuple(i for i in axes if i != j)) for j in axes]


def predictive(pi: np.ndarray, k: np.ndarray) -> np.ndarray:
    return pi @ k


def mutual_information(pi: np.ndarray, k: np.ndarray) -> float:
    """The divergence form, summed exactly; good to about 1e-15 nats."""
    p = predictive(pi, k)
    occurs = (k > 0) & (pi[:, None] > 0)
    ratio = np.divide(k, p, out=np.ones_like(k), where=occurs)
    return math.fsum((np.where(occurs, pi[:, None] * k, 0) * np.log(ratio)).ravel())


def expected_posterior_entropy(pi: np.ndarray, k: np.ndarray) -> float:
    """The mean over answers of the entropy after the answer."""
    p = predictive(pi, k)
    return sum(float(p[y]) * entropy(pi * k[:, y] / p[y]) for y in range(k.shape[1]) if p[y] > 0)


def dimension_information(pi: np.ndarray, k: np.ndarray, sizes: Sequence[int]) -> list[float]:
    """I(θ_j; Y) of every dimension: the information of the channel seen from it alone."""
    found = []
    for j, marginal in enumerate(marginals(pi, sizes)):
        digits = states(sizes)[:, j]
        counts = np.stack([(pi[:, None] * k)[digits == v].sum(axis=0) for v in range(sizes[j])])
        rows = np.divide(
            counts, marginal[:, None], out=np.zeros_like(counts), where=marginal[:, None] > 0
        )
        found.append(mutual_information(marginal, rows))
    return found


def answer_posterior(
    pi: np.ndarray, sizes: Sequence[int], tables: Sequence[Table], answers: int, *, per_state: bool
) -> np.ndarray:
    channel = experts(sizes, tables, answers)
    if per_state:
        channel = channel / channel.sum(axis=1, keepdims=True)
    weights = pi @ channel
    return weights / weights.sum()


def map_state(pi: np.ndarray, sizes: Sequence[int]) -> tuple[int, ...]:
    """The most probable state, the first among ties."""
    first = int(np.flatnonzero(pi >= pi.max() * (1 - 1e-9))[0])
    return tuple(int(d) for d in states(sizes)[first])


def target_entropy(alpha: float, count: int) -> float:
    """Fano's entropy of a state known with probability 1 - alpha among `count` states."""
    if count == 1:
        return 0.0
    rest = np.full(count - 1, alpha / (count - 1))
    return entropy(np.array([1 - alpha])) + entropy(rest)


def listed_information(
    p: np.ndarray, states: np.ndarray, variable: int, table: np.ndarray, target: Sequence[int]
) -> float:
    """Information of a noisy question for one variable about some variables of listed states."""
    joint: dict[tuple[int, ...], np.ndarray] = {}
    for weight, state in zip(p, states, strict=True):
        key = tuple(int(state[j]) for j in target)
        joint[key] = joint.get(key, np.zeros(table.shape[1])) + weight * table[state[variable]]
    answers = np.sum(list(joint.values()), axis=0)
    total = 0.0
    for row in joint.values():
        for y, both in enumerate(row):
            if both > 0:
                total += both * math.log(both / (row.sum() * answers[y]))
    return total
