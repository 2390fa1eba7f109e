"""How good an asker is: its reward against that of greedy mutual information.

All askers meet the same users in the same worlds, with the same number of questions and the same
cost per question. Regret is the mean reward of the greedy asker less that of another, in nats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from balar_core.askers import AtRandom, InOrder, MostInformative, Stopping
from balar_core.errors import InvalidSetting
from balar_core.policy import Likeliest, QuestionPolicy
from balar_core.simulation import Asker, World, draw_truth, simulate_batch, take_worlds

__all__ = ["Mean", "Play", "baselines", "compare_askers", "play"]

GREEDY = "most telling first"


@dataclass(frozen=True)
class Mean:
    """A mean and half the width of its 95 % interval (Student's t)."""

    value: float
    margin: float

    @classmethod
    def of(cls, values: Sequence[float] | np.ndarray) -> Self:
        """The mean of independent values.

        Raises:
            InvalidSetting: fewer than two values, which have no interval.

        >>> Mean.of([1.0, 2.0, 3.0])
        Mean(value=2.0, margin=2.484...)
        """
        array = np.asarray(values, np.float64)
        if array.size < 2:
            raise InvalidSetting(f"{array.size} value(s) have no interval; two are needed.")
        error = array.std(ddof=1) / np.sqrt(array.size)
        margin = error * stats.t.ppf(0.975, array.size - 1)
        return cls(float(array.mean()), float(margin))

    def __str__(self) -> str:
        return f"{self.value:+.3f} ± {self.margin:.3f}"


@dataclass(frozen=True)
class Play:
    """What came of an asker's dialogues, one entry per dialogue.

    Attributes:
        gains: information gained about the user's state, in nats.
        questions: questions asked.
        rewards: gains less the cost of the questions.
    """

    gains: np.ndarray
    questions: np.ndarray
    rewards: np.ndarray


def play(
    worlds: World, asker: Asker, *, dialogues: int, questions: int, cost: float = 0.0, seed: int = 0
) -> Play:
    """Let an asker hold dialogues.

    Args:
        worlds: stacked worlds; the dialogues are dealt out to them in turn.
        asker: the asker.
        dialogues: how many dialogues.
        questions: how many questions each may have.
        cost: nats taken off for every question.
        seed: equal seeds give equal users.
    """
    who, talk = jax.random.split(jax.random.key(seed))
    every = take_worlds(worlds, jnp.arange(dialogues) % worlds.belief.log_joint.shape[0])
    truths = jax.vmap(draw_truth)(every, jax.random.split(who, dialogues))
    keys = jax.random.split(talk, dialogues)
    episodes = simulate_batch(every, truths, asker, keys, turns=questions)
    gains = np.asarray(episodes.log_truth[:, -1] - episodes.log_truth[:, 0], np.float64)
    asked = np.asarray(episodes.questions)
    return Play(gains, asked, gains - cost * asked)


def baselines(cost: float = 0.0) -> dict[str, Asker]:
    """Askers that have not learned. All stop where no open question tells more than it costs."""
    stopping = Stopping(min_information=cost)
    return {
        GREEDY: MostInformative(stopping),
        "fixed order": InOrder(stopping),
        "at random": AtRandom(stopping),
    }


def compare_askers(
    worlds: World,
    policies: Mapping[str, QuestionPolicy],
    *,
    questions: int,
    cost: float = 0.0,
    dialogues: int = 2000,
    seed: int = 0,
) -> dict[str, tuple[Play, np.ndarray]]:
    """Let all askers meet the same users.

    Args:
        worlds: stacked worlds, best such as no policy was trained in.
        policies: name -> policy; it does what it finds likeliest.
        questions: how many questions a dialogue may have.
        cost: nats taken off for every question.
        dialogues: how many dialogues each holds.
        seed: equal seeds give equal users.

    Returns:
        Name -> `(play, regrets)`, the regret of every dialogue in nats; baselines come first.
    """
    askers = {**baselines(cost), **{name: Likeliest(p) for name, p in policies.items()}}
    plays = {
        name: play(worlds, asker, dialogues=dialogues, questions=questions, cost=cost, seed=seed)
        for name, asker in askers.items()
    }
    return {name: (found, plays[GREEDY].rewards - found.rewards) for name, found in plays.items()}
