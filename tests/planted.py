"""Made-up logs of dialogues whose labels, oracles and users are what we say, in plain NumPy."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from balar_core import DEFAULT_LABELS, LabelMap, StateSpace
from balar_core.calibration import CalibrationData
from balar_core.records import Record, Rows

SIZES, CHOICES = (3, 2), 3
LABELS = LabelMap((*DEFAULT_LABELS.weights, ("never said", 0.3)))
"""The label map to begin with. Its last label does not occur."""


@dataclass(frozen=True)
class Plant:
    """What is true.

    Attributes:
        labels: the weights of labels.
        temperatures: one per oracle.
        reliabilities: one per user.
    """

    labels: LabelMap
    temperatures: Sequence[float]
    reliabilities: Sequence[float]

    def rows(self, label: np.ndarray, oracle: int) -> np.ndarray:
        """Rows of positions of labels as distributions."""
        weights = np.array([weight for _, weight in self.labels.weights])
        powers = weights[label] ** (1 / self.temperatures[oracle])
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))

    def joint(self, prior: Sequence[np.ndarray], oracle: int) -> np.ndarray:
        """The joint prior of states, from positions of labels."""
        first, second = (self.rows(row, oracle) for row in prior)
        return np.asarray((first[:, None] * second[None, :]).ravel())

    def answers(self, tables: Sequence[np.ndarray], oracle: int, user: int) -> np.ndarray:
        """The probabilities of answers in every state."""
        first, second = (self.rows(table, oracle) for table in tables)
        product = (first[:, None, :] * second[None, :, :]).reshape(-1, CHOICES)
        said = product / product.sum(axis=1, keepdims=True)
        reliability = self.reliabilities[user]
        return np.asarray(reliability * said + (1 - reliability) / CHOICES)


@dataclass(frozen=True)
class Log:
    """Dialogues that were held in a plant; arrays have a leading axis of dialogues.

    Attributes:
        prior: positions of labels, dimension by dimension.
        tables: positions of labels, dimension by dimension; axes turns, values, choices.
        oracle: who filled the tables.
        user: who was asked, turn by turn.
        answer: what was answered, turn by turn.
        state: what was true.
    """

    prior: tuple[np.ndarray, np.ndarray]
    tables: tuple[np.ndarray, np.ndarray]
    oracle: np.ndarray
    user: np.ndarray
    answer: np.ndarray
    state: np.ndarray

    def log_probability(self, plant: Plant, *, known: bool) -> float:
        """Of all answers, and of the states if they are known, by enumeration."""
        total = 0.0
        for i, state in enumerate(self.state):
            belief = plant.joint([row[i] for row in self.prior], self.oracle[i])
            for t, answer in enumerate(self.answer[i]):
                tables = [table[i, t] for table in self.tables]
                belief = belief * plant.answers(tables, self.oracle[i], self.user[i, t])[:, answer]
            total += float(np.log(belief[state] if known else belief.sum()))
        return total

    def data(self, *, known: bool = True, labels: LabelMap = LABELS) -> CalibrationData:
        """Packed to be learned from."""
        dialogues, turns = self.answer.shape
        names, most = [[f"v{i}" for i in range(n)] for n in SIZES], max(SIZES)
        layout = StateSpace.of(a=names[0], b=names[1]).layout()
        prior = np.full((dialogues, 2, most), -1)
        tables = np.full((dialogues, turns, 2, most, CHOICES), -1)
        log_truth = np.zeros((dialogues, 2, most))
        for j, size in enumerate(SIZES):
            prior[:, j, :size] = self.prior[j]
            tables[:, :, j, :size] = self.tables[j]
            digit = np.unravel_index(self.state, SIZES)[j]
            log_truth[:, j] = np.where(np.arange(most) == digit[:, None], 0, -np.inf)
        records = Record(
            layout=jax.tree.map(lambda leaf: jnp.stack([leaf] * dialogues), layout),
            prior=Rows(jnp.array(prior), jnp.zeros(prior.shape), jnp.array(prior >= 0)),
            tables=Rows(jnp.array(tables), jnp.zeros(tables.shape), jnp.array(tables >= 0)),
            choices=jnp.ones((dialogues, turns, CHOICES), bool),
            evidence=jnp.array(np.eye(CHOICES)[self.answer], float),
            answered=jnp.ones((dialogues, turns), bool),
            user=jnp.array(self.user),
            oracle=jnp.array(self.oracle),
            noise=jnp.zeros(dialogues),
            log_truth=jnp.array(log_truth, float),
            answers=Rows(
                jnp.full((dialogues, 2, most, 1), -1),
                jnp.zeros((dialogues, 2, most, 1)),
                jnp.zeros((dialogues, 2, most, 1), bool),
            ),
            answer_mask=jnp.zeros((dialogues, 1), bool),
            true_answer=jnp.full(dialogues, -1),
            known=jnp.full(dialogues, known),
        )
        oracles = tuple(f"oracle {i}" for i in range(int(self.oracle.max()) + 1))
        users = tuple(f"user {i}" for i in range(int(self.user.max()) + 1))
        return CalibrationData(records, labels, oracles, users, numbers=False)


def hold(plant: Plant, dialogues: int, turns: int, seed: int = 0) -> Log:
    """Dialogues in a plant, about random tables."""
    random = np.random.default_rng(seed)
    labels = len(plant.labels.names) - 1
    prior = [random.integers(labels, size=(dialogues, size)) for size in SIZES]
    tables = [random.integers(labels, size=(dialogues, turns, n, CHOICES)) for n in SIZES]
    oracle = np.arange(dialogues) % len(plant.temperatures)
    user = random.integers(len(plant.reliabilities), size=(dialogues, turns))
    answer, state = np.zeros((dialogues, turns), int), np.zeros(dialogues, int)
    for i in range(dialogues):
        joint = plant.joint([row[i] for row in prior], oracle[i])
        state[i] = random.choice(len(joint), p=joint)
        for t in range(turns):
            p = plant.answers([table[i, t] for table in tables], oracle[i], user[i, t])[state[i]]
            answer[i, t] = random.choice(CHOICES, p=p)
    return Log((prior[0], prior[1]), (tables[0], tables[1]), oracle, user, answer, state)
