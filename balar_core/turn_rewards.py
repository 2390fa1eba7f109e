r"""Rewards of single turns, from how the probability of the truth changed.

With \(b_t\) the probability of the truth after t turns there are two rewards in use:

- the log difference \(\log b_t - \log b_{t-1}\) (IG reward; in nats). It telescopes to the log
  score of the last belief, a proper scoring rule.
- the probability difference \(b_t - b_{t-1}\) (IGPO). It telescopes to a difference of
  probabilities, which rewards sureness but is not a log score.

Both telescope only as they are: a discount below 1, a floor that is reached or a cut-off of
negative values breaks that.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from .groups import check_shape

__all__ = ["discounted_returns", "log_differences", "probability_differences", "to_tokens"]


@jax.jit
def log_differences(
    log_truth: Float[Array, "*batch moments"],
    where: Bool[Array, "*batch turns"] | None = None,
    *,
    floor: ArrayLike = -jnp.inf,
) -> Float[Array, "*batch turns"]:
    r"""The information gain of every turn, \(\log b_t - \log b_{t-1}\), in nats.

    Args:
        log_truth: log probabilities of the truth, before the first turn and after every turn.
        where: the turns that took place; the others gain 0, whatever `log_truth` holds there.
        floor: log probabilities below are raised to it, so that every gain is finite.

    Returns:
        One gain per turn. Without a floor the turn that rules out the truth gains `-inf`, and
        turns after it gain 0.

    Raises:
        InvalidSetting: `where` does not have one entry per turn.

    >>> import math
    >>> gains = log_differences(jnp.log(jnp.array([0.25, 0.5, 0.5, 1.0])))
    >>> [round(gain / math.log(2), 6) for gain in gains.tolist()]
    [1.0, 0.0, 1.0]
    """
    before, after, where = _moments(log_truth, where)
    before, after = (jnp.where(x < floor, jnp.asarray(floor, x.dtype), x) for x in (before, after))
    possible = ~(before == -jnp.inf)
    return jnp.where(where & possible, after - jnp.where(possible, before, 0), 0)


@jax.jit
def probability_differences(
    log_truth: Float[Array, "*batch moments"],
    where: Bool[Array, "*batch turns"] | None = None,
) -> Float[Array, "*batch turns"]:
    r"""The reward of IGPO for every turn, \(b_t - b_{t-1}\).

    For a truth that is a text, IGPO takes for b the exponential of the mean log probability of its
    tokens.

    Args:
        log_truth: log probabilities of the truth, before the first turn and after every turn.
        where: the turns that took place; the others get 0.

    Raises:
        InvalidSetting: `where` does not have one entry per turn.

    >>> probability_differences(jnp.log(jnp.array([0.25, 0.5, 1.0]))).round(6).tolist()
    [0.25, 0.5]
    """
    before, after, where = _moments(log_truth, where)
    return jnp.where(where, jnp.exp(after) - jnp.exp(before), 0)


def _moments(
    log_truth: Float[Array, "*batch moments"], where: Bool[Array, "*batch turns"] | None
) -> tuple[Float[Array, "*batch turns"], Float[Array, "*batch turns"], Bool[Array, "*batch turns"]]:
    """What held before and after every turn; 0 for turns that did not take place."""
    before, after = log_truth[..., :-1], log_truth[..., 1:]
    if where is None:
        where = jnp.ones(before.shape, bool)
    check_shape("where", where, before.shape)
    return jnp.where(where, before, 0), jnp.where(where, after, 0), where


@jax.jit
def discounted_returns(
    rewards: Float[Array, "*batch turns"],
    where: Bool[Array, "*batch turns"] | None = None,
    *,
    discount: ArrayLike = 1.0,
) -> Float[Array, "*batch turns"]:
    r"""The sum of this and all later rewards, \(R_t = r_t + \gamma R_{t+1}\).

    Args:
        rewards: one reward per turn.
        where: the turns that took place; the others have return 0 and do not discount.
        discount: the factor per turn.

    Raises:
        InvalidSetting: `where` does not have one entry per turn.

    >>> discounted_returns(jnp.array([1.0, 0.0, 4.0]), discount=0.5).tolist()
    [2.0, 2.0, 4.0]
    """
    if where is None:
        where = jnp.ones(rewards.shape, bool)
    check_shape("where", where, rewards.shape)
    gamma = jnp.asarray(discount, rewards.dtype)

    def step(later: Array, turn: tuple[Array, Array]) -> tuple[Array, Array]:
        reward, took_place = turn
        here = jnp.where(took_place, reward + gamma * later, later)
        return here, jnp.where(took_place, here, 0)

    turns = jnp.moveaxis(rewards, -1, 0), jnp.moveaxis(where, -1, 0)
    nothing = jnp.zeros(rewards.shape[:-1], rewards.dtype)
    _, returns = jax.lax.scan(step, nothing, turns, reverse=True)
    return jnp.moveaxis(returns, 0, -1)


@jax.jit
def to_tokens(
    values: Float[Array, "batch turns"], token_turns: Int[Array, "batch tokens"]
) -> Float[Array, "batch tokens"]:
    """Give every token the value of its turn.

    Args:
        values: one value per turn, such as an advantage.
        token_turns: the turn that each token was written in, -1 for tokens that the policy did not
            write (what a user or a tool said, padding); those get 0.

    >>> to_tokens(jnp.array([[0.5, -1.0]]), jnp.array([[0, 0, -1, 1]])).tolist()
    [[0.5, 0.5, 0.0, -1.0]]
    """
    found = jnp.take_along_axis(values, jnp.maximum(token_turns, 0), axis=1)
    return jnp.where(token_turns >= 0, found, 0)
