"""Simulated dialogues with users who answer from the tables themselves, exactly.

A world is a belief and the tables of its questions. A user of a world is one of its states: the
answer to a question is drawn from the likelihood of that state, so belief and user agree. Whole
batches of dialogues are one compiled call: worlds are stacked, and `simulate` is mapped over
worlds, users and keys.
"""

from collections.abc import Sequence
from typing import Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .belief import Belief, pair_log_likelihood, update
from .errors import InvalidInput
from .information import score
from .numerics import entropy, log_entropy, log_normalise, stack_padded
from .space import Layout
from .tables import LikelihoodTables
from .turn_rewards import log_differences

__all__ = [
    "Asker",
    "Episode",
    "Situation",
    "World",
    "draw_truth",
    "simulate",
    "simulate_batch",
    "stack_worlds",
    "take_worlds",
]


class World(eqx.Module):
    """A belief and the tables of the questions that may be asked about it.

    Attributes:
        belief: the prior.
        tables: the tables; pairs marked as asked stay closed.
    """

    belief: Belief
    tables: LikelihoodTables


class Situation(eqx.Module):
    """What an asker knows when it chooses.

    Attributes:
        information: shape `(pairs,)`; the mutual information of every pair in nats, 0 for pairs
            that are not open. Pairs are numbered `question * users + user`.
        answer_entropy: shape `(pairs,)`; the entropy of the predicted answer in nats, 0 likewise.
        open: shape `(pairs,)`; the pairs that may be asked.
        entropy: the entropy of the belief, in nats.
        best: the probability of the likeliest state.
        left: how many questions may still be asked, this one included.
    """

    information: Float[Array, " pairs"]
    answer_entropy: Float[Array, " pairs"]
    open: Bool[Array, " pairs"]
    entropy: Float[Array, ""]
    best: Float[Array, ""]
    left: Int[Array, ""]


class Asker(Protocol):
    """Chooses what to do; a pytree, so that compiled code can take it as an argument."""

    def __call__(self, situation: Situation, key: PRNGKeyArray) -> Int[Array, ""]:
        """The position of an open pair, or the number of pairs to stop."""
        ...


class Episode(eqx.Module):
    """One simulated dialogue; the leading axis of its arrays counts turns.

    Attributes:
        situations: what was known before every turn.
        actions: shape `(turns,)`; the pair that was asked, or the number of pairs for STOP.
        decided: shape `(turns,)`; turns with a decision: all up to and including STOP.
        asked: shape `(turns,)`; turns with a question.
        answers: shape `(turns,)`; the choice that was answered; 0 where nothing was asked.
        log_truth: shape `(turns + 1,)`; the log probability of the true state, before the first
            turn and after every turn.
        best: the probability of the likeliest state at the end.
    """

    situations: Situation
    actions: Int[Array, " turns"]
    decided: Bool[Array, " turns"]
    asked: Bool[Array, " turns"]
    answers: Int[Array, " turns"]
    log_truth: Float[Array, " turns_and_one"]
    best: Float[Array, ""]

    @property
    def gains(self) -> Float[Array, " turns"]:
        """The information gain of every turn for the true state, in nats (IG reward, section 3)."""
        gains: Array = log_differences(self.log_truth, self.asked)
        return gains

    @property
    def questions(self) -> Int[Array, ""]:
        """How many questions were asked."""
        return jnp.sum(self.asked, axis=-1)


_PADDING = World(
    Belief(
        -np.inf,  # type: ignore[arg-type]
        Layout(-1, -1, False, False, 0, 0, False),  # type: ignore[arg-type]
    ),
    LikelihoodTables(0.0, False, False, False),  # type: ignore[arg-type]
)
"""What every array of a world is padded with."""


def stack_worlds(worlds: Sequence[World]) -> World:
    """Worlds as one, with a leading axis; smaller ones are padded to the largest.

    Raises:
        InvalidInput: there is none, or the belief of one is spread over devices.

    >>> from balar_core.space import StateSpace
    >>> space = StateSpace.of(cause=["a", "b"])
    >>> belief = Belief.from_priors(space, [(0.8, 0.2)])
    >>> tables = LikelihoodTables.build(space, [2], {(0, 0): [[[0.8, 0.2], [0.2, 0.8]]]})
    >>> stack_worlds([World(belief, tables)] * 3).belief.log_joint.shape
    (3, 2, 1)
    """
    if not worlds:
        raise InvalidInput("There are no worlds to stack; give at least one.")
    if any(world.belief.layout.shards is not None for world in worlds):
        raise InvalidInput("A belief that is spread over devices cannot be stacked.")

    together: World = jax.tree.map(stack_padded, _PADDING, *worlds)
    return together


def take_worlds(worlds: World, index: Int[Array | np.ndarray, " n"]) -> World:
    """The worlds at some positions of a stack; a position may occur more than once."""
    taken: World = jax.tree.map(lambda leaf: leaf[index], worlds)
    return taken


def draw_truth(world: World, key: PRNGKeyArray) -> Int[Array, ""]:
    """A user of a world, drawn from its belief: the position of a cell, row by row."""
    drawn: Array = jax.random.categorical(key, world.belief.log_joint.ravel())
    return drawn


def simulate(
    world: World,
    truth: Int[Array, ""],
    asker: Asker,
    key: PRNGKeyArray,
    *,
    turns: int,
    truthful: bool = False,
) -> Episode:
    """Hold one dialogue with a user of a world. Works under jit, vmap and grad.

    Args:
        world: the world.
        truth: the user, as `draw_truth` gives it.
        asker: chooses the questions.
        key: for the asker and the answers.
        turns: how many questions may be asked.
        truthful: whether the user always gives the likeliest answer (the lowest choice among
            ties) instead of one drawn from the likelihood.
    """
    layout, tables = world.belief.layout, world.tables
    users = tables.valid.shape[1]
    row, column = truth // layout.shape[1], truth % layout.shape[1]

    def answer(question: Array, user: Array, key: PRNGKeyArray) -> Array:
        log_rows, log_columns = pair_log_likelihood(layout, tables, question, user)
        log_p, _, _ = log_normalise(log_rows[row] + log_columns[column])
        chosen: Array = jnp.argmax(log_p) if truthful else jax.random.categorical(key, log_p)
        return chosen

    def step(state: tuple[Array, Array, Array], turn: tuple[Array, PRNGKeyArray]):  # type: ignore[no-untyped-def]
        log_joint, is_open, going = state
        left, key = turn
        belief = Belief(log_joint, layout)
        situation = situation_of(belief, tables, is_open, left)
        ask_key, answer_key = jax.random.split(key)
        pairs = is_open.size
        action = asker(situation, ask_key)
        asked = going & (action < pairs)
        pair = jnp.where(asked, action, 0)
        question, user = pair // users, pair % users
        choice = jnp.where(asked, answer(question, user, answer_key), 0)
        evidence = jax.nn.one_hot(choice, tables.choice_mask.shape[1], dtype=log_joint.dtype)
        told = update(belief, tables, question, user, evidence).belief.log_joint
        log_joint = jnp.where(asked, told, log_joint)
        closed = asked & (jnp.arange(pairs).reshape(is_open.shape) == pair)
        record = situation, action, going, asked, choice, log_joint[row, column]
        return (log_joint, is_open & ~closed, asked), record

    start = world.belief.log_joint
    steps = jnp.arange(turns, 0, -1), jax.random.split(key, turns)
    last, record = jax.lax.scan(step, (start, tables.open, jnp.array(True)), steps)
    situations, actions, decided, asked, answers, log_truth = record
    return Episode(
        situations=situations,
        actions=actions,
        decided=decided,
        asked=asked,
        answers=answers,
        log_truth=jnp.concatenate([start[row, column][None], log_truth]),
        best=jnp.exp(jnp.max(last[0])),
    )


@eqx.filter_jit
def simulate_batch(
    worlds: World,
    truths: Int[Array, " n"],
    asker: Asker,
    keys: PRNGKeyArray,
    *,
    turns: int,
    truthful: bool = False,
) -> Episode:
    """Hold a dialogue in every world of a stack, all with the same asker (see `simulate`).

    Args:
        worlds: n stacked worlds.
        truths: the user of each.
        asker: chooses the questions.
        keys: n keys.
        turns: how many questions may be asked.
        truthful: whether users always give the likeliest answer.

    Returns:
        An `Episode` with a leading axis of n.
    """

    def one(world: World, truth: Array, key: PRNGKeyArray) -> Episode:
        return simulate(world, truth, asker, key, turns=turns, truthful=truthful)

    episodes: Episode = jax.vmap(one)(worlds, truths, keys)
    return episodes


def situation_of(
    belief: Belief,
    tables: LikelihoodTables,
    is_open: Bool[Array, "questions users"],
    left: Int[Array, ""],
) -> Situation:
    """What an asker may know of a belief, some open pairs, and the number of questions left."""
    scores = score(belief, tables, is_open)
    unsure = jnp.where(is_open, entropy(scores.predictive, axis=-1), 0)
    return Situation(
        information=jnp.where(is_open, scores.information, 0).ravel(),
        answer_entropy=unsure.ravel(),
        open=is_open.ravel(),
        entropy=log_entropy(belief.log_joint),
        best=jnp.exp(jnp.max(belief.log_joint)),
        left=left,
    )
