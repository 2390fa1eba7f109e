"""Training a clarifier: dialogues with exact users, group-relative advantages, DAPO, Adam.

A batch has some users, each in a world, and several dialogues with each of them. The reward of a
dialogue is the information gain for its user (IG reward, section 3): the log probability of the
user's state at the end less that at the start, less the cost of the questions. The dialogues of one
user are compared with each other; the decisions of a dialogue take the place of tokens.

    training = Training.start(TrainingSettings(cost=0.1))
    for training in train(training, worlds):
        print(training.history[-1])
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from balar_core.advantages import group_advantages
from balar_core.numerics import log_entropy
from balar_core.objectives import clip_fraction, dapo_loss
from balar_core.policy import QuestionPolicy
from balar_core.simulation import Episode, World, draw_truth, simulate_batch, take_worlds

from .settings import TrainingSettings

__all__ = ["StepRecord", "Training", "train"]

LARGEST_GRADIENT = 1.0
"""The norm to which larger gradients are scaled down."""


class StepRecord(NamedTuple):
    """Means over the batch of one step, before the policy learned from it.

    Attributes:
        reward: gain less the cost of the questions, in nats.
        questions: questions of a dialogue.
        entropy: entropy of the policy in a decision, in nats.
        clipped: share of decisions whose ratio was clipped in the last update.
    """

    reward: float
    questions: float
    entropy: float
    clipped: float


@dataclass(frozen=True)
class Training:
    """A training run at one moment.

    Attributes:
        settings: the settings.
        policy: the policy.
        optimiser: the state of the optimiser.
        history: one record per step that was made.
    """

    settings: TrainingSettings
    policy: QuestionPolicy
    optimiser: optax.OptState
    history: tuple[StepRecord, ...] = ()

    @classmethod
    def start(cls, settings: TrainingSettings) -> Self:
        """A run before its first step."""
        policy = QuestionPolicy.make(jax.random.key(settings.seed), width=settings.width)
        return cls(settings, policy, _adam(0.0).init(eqx.filter(policy, eqx.is_array)))

    @property
    def step(self) -> int:
        """How many steps were made."""
        return len(self.history)


def train(training: Training, worlds: World) -> Iterator[Training]:
    """Go on with a run to its end; gives the run after every step.

    The result depends on settings and worlds alone: a run that was interrupted and goes on is, bit
    for bit, the run that was not.

    Args:
        training: the run.
        worlds: stacked worlds, from which users are drawn.
    """
    settings = training.settings
    base = jax.random.fold_in(jax.random.key(settings.seed), 1)
    while training.step < settings.steps:
        policy, optimiser, record = _step(
            training.policy,
            training.optimiser,
            worlds,
            jax.random.fold_in(base, training.step),
            jnp.array(settings.cost),
            jnp.array(settings.learning_rate_at(training.step)),
            (jnp.array(settings.epsilon), jnp.array(settings.epsilon_high)),
            _Sizes(
                settings.prompts, settings.num_generations, settings.questions, settings.updates
            ),
        )
        history = (*training.history, StepRecord(*(float(x) for x in record)))
        training = replace(training, policy=policy, optimiser=optimiser, history=history)
        yield training


class _Sizes(NamedTuple):
    """What decides the shapes of a step."""

    prompts: int
    num_generations: int
    questions: int
    updates: int


def _adam(learning_rate: Array | float) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(LARGEST_GRADIENT), optax.adam(learning_rate))


@eqx.filter_jit
def _step(
    policy: QuestionPolicy,
    optimiser: optax.OptState,
    worlds: World,
    key: PRNGKeyArray,
    cost: Float[Array, ""],
    learning_rate: Float[Array, ""],
    epsilons: tuple[Float[Array, ""], Float[Array, ""]],
    sizes: _Sizes,
) -> tuple[QuestionPolicy, optax.OptState, tuple[Array, ...]]:
    """Hold a batch of dialogues and learn from it."""
    episodes = _batch(policy, worlds, key, sizes)
    rewards = jnp.sum(episodes.gains - cost * episodes.asked, axis=1)
    advantages = group_advantages(rewards, num_generations=sizes.num_generations)
    old, entropies = _decisions(policy, episodes)
    clip = {"epsilon": epsilons[0], "epsilon_high": epsilons[1]}

    adam = _adam(learning_rate)
    arrays, static = eqx.partition(policy, eqx.is_array)

    def loss(arrays: QuestionPolicy) -> Array:
        logps, _ = _decisions(eqx.combine(arrays, static), episodes)
        total: Array = dapo_loss(logps, old, advantages, episodes.decided, **clip).mean
        return total

    def update(carry, _):  # type: ignore[no-untyped-def]
        arrays, state = carry
        changes, state = adam.update(jax.grad(loss)(arrays), state)
        return (eqx.apply_updates(arrays, changes), state), None

    (arrays, optimiser), _ = jax.lax.scan(update, (arrays, optimiser), length=sizes.updates)
    learned = eqx.combine(arrays, static)
    logps, _ = _decisions(learned, episodes)
    clipped = clip_fraction(logps, old, advantages, episodes.decided, **clip).mean
    count = jnp.sum(episodes.decided)
    record = (
        jnp.mean(rewards),
        jnp.mean(episodes.questions),
        jnp.sum(jnp.where(episodes.decided, entropies, 0)) / count,
        clipped,
    )
    return learned, optimiser, record


def _batch(policy: QuestionPolicy, worlds: World, key: PRNGKeyArray, sizes: _Sizes) -> Episode:
    """Dialogues of some users; those of one user stand next to each other."""
    which, who, talk = jax.random.split(key, 3)
    count = worlds.belief.log_joint.shape[0]
    chosen = jax.random.randint(which, (sizes.prompts,), 0, count)
    truths = jax.vmap(draw_truth)(take_worlds(worlds, chosen), jax.random.split(who, sizes.prompts))
    keys = jax.random.split(talk, sizes.prompts * sizes.num_generations)
    return simulate_batch(
        take_worlds(worlds, jnp.repeat(chosen, sizes.num_generations)),
        jnp.repeat(truths, sizes.num_generations),
        policy,
        keys,
        turns=sizes.questions,
    )


def _decisions(
    policy: QuestionPolicy, episodes: Episode
) -> tuple[Float[Array, "batch turns"], Float[Array, "batch turns"]]:
    """The log probability of every decision, and the entropy of what it was drawn from."""
    log_p = jax.vmap(jax.vmap(policy.log_probabilities))(episodes.situations)
    # STOP, which is always allowed, stands in where nothing was decided.
    actions = jnp.where(episodes.decided, episodes.actions, log_p.shape[-1] - 1)
    logps = jnp.take_along_axis(log_p, actions[..., None], axis=-1)[..., 0]
    return logps, log_entropy(jax.lax.stop_gradient(log_p), axis=-1)
