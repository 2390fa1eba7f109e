r"""Advantages from comparing the rollouts of one prompt (GRPO, Dr.GRPO, DAPO, IGPO).

$$A_i = \frac{R_i - \operatorname{mean} R}{\operatorname{std} R + \epsilon}$$

within the group of i. A group whose rewards are all the same teaches nothing: its advantages are
exactly 0, not rounding errors divided by rounding errors.

With rewards that are information gains the prior term \(\log p(G)\) is common to a group, so that
advantages from gains and from final log probabilities of the truth are the same.
"""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from .errors import InvalidSetting
from .groups import check_shape, group_members
from .numerics import divide, finfo
from .turn_rewards import discounted_returns

__all__ = ["group_advantages", "group_keep_mask", "soft_overlong", "turn_advantages"]

Scale = Literal["group", "batch", "none"]


@partial(jax.jit, static_argnames=("num_generations", "scale", "ddof"))
def group_advantages(
    rewards: Float[Array, " batch"],
    *,
    num_generations: int | None = None,
    group_ids: Int[Array, " batch"] | None = None,
    where: Bool[Array, " batch"] | None = None,
    scale: Scale = "group",
    ddof: int = 1,
    eps: ArrayLike = 1e-6,
    tolerance: ArrayLike | None = None,
) -> Float[Array, " batch"]:
    """Every reward less the mean of its group, in units of a standard deviation.

    Args:
        rewards: one reward per rollout.
        num_generations: the size of a group, if the rows of a group stand next to each other.
        group_ids: the number of the group of every row, otherwise.
        where: the rollouts that count; the others have advantage 0, whatever their reward holds.
        scale: `"group"` divides by the standard deviation of the group (GRPO, DAPO), `"batch"` by
            that of the whole batch, `"none"` does not divide (Dr.GRPO).
        ddof: 1 for the unbiased variance, 0 for the plain mean of squares.
        eps: added to the standard deviation.
        tolerance: groups whose rewards differ by no more have advantage 0; 64 rounding errors of
            the largest reward of the group by default.

    Returns:
        Shape `(batch,)`. A group of one has advantage 0.

    Raises:
        InvalidSetting: groups that are not named in exactly one way, or an unknown scale.

    >>> rewards = jnp.array([1.0, 3.0, 5.0, 5.0])
    >>> print(group_advantages(rewards, num_generations=2, eps=0.0).round(3))
    [-0.707  0.707  0.     0.   ]
    """
    if scale not in ("group", "batch", "none"):
        raise InvalidSetting(f"scale is {scale!r}; it is 'group', 'batch' or 'none'.")
    if where is None:
        where = jnp.ones(rewards.shape, bool)
    check_shape("where", where, rewards.shape)
    members, belongs = group_members(rewards, num_generations, group_ids)
    belongs = belongs & group_members(where, num_generations, group_ids)[0]
    low, high = _range(members, belongs)
    centre = low + _mean(members - low, belongs)
    centred = jnp.where(where, rewards - centre[:, 0], 0)
    if tolerance is None:
        largest = jnp.maximum(jnp.abs(low), jnp.abs(high))[:, 0]
        tolerance = 64 * finfo(rewards).eps * largest
    same = high[:, 0] - low[:, 0] <= tolerance
    if scale == "group":
        centred = divide(centred, _deviation(members - centre, belongs, ddof) + eps)
    elif scale == "batch":
        row, counts = rewards[None, :], where[None, :]
        low, _ = _range(row, counts)
        offset = _mean(row - low, counts)
        spread = _deviation(row - low - offset, counts, ddof) + eps
        centred = divide(centred, jnp.broadcast_to(spread, centred.shape))
    return jnp.where(same, 0, centred)


def _range(
    x: Float[Array, "rows members"], where: Bool[Array, "rows members"]
) -> tuple[Float[Array, "rows 1"], Float[Array, "rows 1"]]:
    """The least and the greatest entry of every row; 0 for rows without entries."""
    some = jnp.any(where, axis=1, keepdims=True)
    low = jnp.min(x, axis=1, keepdims=True, initial=jnp.inf, where=where)
    high = jnp.max(x, axis=1, keepdims=True, initial=-jnp.inf, where=where)
    return jnp.where(some, low, 0), jnp.where(some, high, 0)


def _mean(
    x: Float[Array, "rows members"], where: Bool[Array, "rows members"]
) -> Float[Array, "rows 1"]:
    total = jnp.sum(jnp.where(where, x, 0), axis=1, keepdims=True)
    return divide(total, jnp.sum(where, axis=1, keepdims=True, dtype=x.dtype))


def _deviation(
    centred: Float[Array, "rows members"], where: Bool[Array, "rows members"], ddof: int
) -> Float[Array, " rows"]:
    squares = jnp.sum(jnp.where(where, centred, 0) ** 2, axis=1)
    count = jnp.sum(where, axis=1, dtype=centred.dtype)
    return jnp.sqrt(divide(squares, jnp.maximum(count - ddof, 0)))


@partial(jax.jit, static_argnames="num_generations")
def group_keep_mask(
    metric: Float[Array, " batch"],
    *,
    num_generations: int | None = None,
    group_ids: Int[Array, " batch"] | None = None,
    where: Bool[Array, " batch"] | None = None,
    tolerance: ArrayLike = 0.0,
) -> Bool[Array, " batch"]:
    """Which rollouts dynamic sampling keeps (DAPO): those of groups in which something differs.

    Take for the metric the outcome, such as right or wrong, and not a shaped reward: rollouts that
    are all wrong but differ in length would be kept. Shapes stay as they are; hand the mask to an
    objective as `keep`.

    Args:
        metric: one number per rollout.
        num_generations: the size of a group, if the rows of a group stand next to each other.
        group_ids: the number of the group of every row, otherwise.
        where: the rollouts that count; the others are not kept.
        tolerance: how much the metric must differ, at least; more than that is kept.

    Raises:
        InvalidSetting: groups that are not named in exactly one way.

    >>> group_keep_mask(jnp.array([1.0, 0.0, 1.0, 1.0]), num_generations=2).tolist()
    [True, True, False, False]
    """
    if where is None:
        where = jnp.ones(metric.shape, bool)
    check_shape("where", where, metric.shape)
    members, belongs = group_members(metric, num_generations, group_ids)
    belongs = belongs & group_members(where, num_generations, group_ids)[0]
    low, high = _range(members, belongs)
    return where & (high[:, 0] - low[:, 0] > tolerance)


@jax.jit
def soft_overlong(
    lengths: Int[Array, "*shape"], max_length: ArrayLike, cache_length: ArrayLike
) -> Float[Array, "*shape"]:
    """The penalty for long answers (DAPO, equation 13), to be added to the reward.

    0 up to `max_length - cache_length`, from there falling in a straight line to -1 at
    `max_length`, and -1 beyond.

    Args:
        lengths: lengths in tokens.
        max_length: the longest length that is allowed.
        cache_length: the stretch before it in which the penalty sets in; 0 for a step.

    >>> soft_overlong(jnp.array([16384, 18432, 20480, 30000]), 20480, 4096).tolist()
    [0.0, -0.5, -1.0, -1.0]
    """
    excess = jnp.asarray(max_length - jnp.asarray(cache_length) - lengths, float)
    share = divide(excess, jnp.broadcast_to(jnp.asarray(cache_length, float), excess.shape), -1.0)
    return jnp.where(excess < 0, jnp.maximum(share, -1), 0)


@partial(jax.jit, static_argnames=("num_generations", "scale", "ddof"))
def turn_advantages(
    rewards: Float[Array, "batch turns"],
    where: Bool[Array, "batch turns"] | None = None,
    *,
    num_generations: int | None = None,
    group_ids: Int[Array, " batch"] | None = None,
    discount: ArrayLike = 1.0,
    scale: Scale = "group",
    ddof: int = 1,
    eps: ArrayLike = 1e-6,
) -> Float[Array, "batch turns"]:
    """Advantages of single turns (IGPO).

    First all turns of all rollouts of a group are compared with each other, then every turn is
    given the discounted sum of its own and all later values.

    Args:
        rewards: one reward per turn.
        where: the turns that took place; the others have advantage 0.
        num_generations: the number of rollouts of a group, if they stand next to each other.
        group_ids: the number of the group of every rollout, otherwise.
        discount: the factor per turn.
        scale: as in `group_advantages`.
        ddof: as in `group_advantages`.
        eps: as in `group_advantages`.

    Raises:
        InvalidSetting: groups that are not named in exactly one way, or an unknown scale.

    >>> rewards = jnp.array([[1.0, 0.0], [1.0, 2.0]])
    >>> turn_advantages(rewards, num_generations=2, scale="none").tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    if where is None:
        where = jnp.ones(rewards.shape, bool)
    check_shape("where", where, rewards.shape)
    turns = rewards.shape[1]
    compared = group_advantages(
        rewards.ravel(),
        num_generations=None if num_generations is None else num_generations * turns,
        group_ids=None if group_ids is None else jnp.repeat(group_ids, turns),
        where=where.ravel(),
        scale=scale,
        ddof=ddof,
        eps=eps,
    )
    returns: Array = discounted_returns(compared.reshape(rewards.shape), where, discount=discount)
    return returns
