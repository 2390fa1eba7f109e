r"""Policy objectives on tokens: GRPO, Dr.GRPO and DAPO.

With \(r = \pi / \pi_{old}\) the ratio of a token and A its advantage, all of them minimise

$$-\min\big(r A,\; \operatorname{clip}(r, 1 - \epsilon, 1 + \epsilon_{high})\, A\big)$$

for advantages of both signs: the ratio is cut off above for A > 0 and below for A < 0, and only
there. What differs is the clipping, the advantage (see `advantages`) and what a token counts (see
`aggregation`).

Arguments have the names and shapes that trainers of language models share: `(batch, tokens)`, and
advantages `(batch,)` or `(batch, tokens)`. For a policy that picks one question per turn, turns
take the place of tokens.

Every objective returns a `Loss`, a total and a denominator, to be minimised. Advantages, old and
reference log probabilities are constants to the gradient.
"""

from functools import partial
from typing import TypedDict, Unpack

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from .aggregation import (
    Loss,
    group_token_mean,
    sequence_mean_token_mean,
    sequence_mean_token_scale,
    token_mean,
)
from .groups import check_shape

__all__ = [
    "LossTerms",
    "clip_fraction",
    "dapo_loss",
    "dr_grpo_loss",
    "grpo_loss",
    "kl_penalty",
    "token_losses",
]

LARGEST_LOG_RATIO = 20.0
"""Log ratios are cut off here, so that their exponential is finite; no gradient beyond."""


class LossTerms(TypedDict, total=False):
    """What every objective can be told by keyword; see `token_losses`."""

    epsilon: ArrayLike
    epsilon_high: ArrayLike | None
    delta: ArrayLike | None
    ref_per_token_logps: Float[Array, "batch tokens"] | None
    beta: ArrayLike
    keep: Bool[Array, " batch"] | None


@jax.jit
def token_losses(
    per_token_logps: Float[Array, "batch tokens"],
    old_per_token_logps: Float[Array, "batch tokens"],
    advantages: Float[Array, " batch"] | Float[Array, "batch tokens"],
    completion_mask: Bool[Array, "batch tokens"],
    *,
    epsilon: ArrayLike = 0.2,
    epsilon_high: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    ref_per_token_logps: Float[Array, "batch tokens"] | None = None,
    beta: ArrayLike = 0.04,
    keep: Bool[Array, " batch"] | None = None,
) -> tuple[Float[Array, "batch tokens"], Bool[Array, "batch tokens"]]:
    """The loss of every token, before anything is averaged.

    Args:
        per_token_logps: log probabilities under the policy.
        old_per_token_logps: those under the policy that wrote the tokens.
        advantages: one per sequence, or one per token.
        completion_mask: the tokens that the policy wrote; what the other entries hold is ignored.
        epsilon: how far below 1 a ratio may fall before a negative advantage stops pulling.
        epsilon_high: how far above 1 a ratio may rise before a positive one does; as `epsilon` by
            default.
        delta: the dual clip, a ratio above 1: beyond it a negative advantage stops pulling too.
            None leaves it out.
        ref_per_token_logps: log probabilities under a reference policy; None for no KL term.
        beta: the weight of the KL term.
        keep: the sequences that count at all (`group_keep_mask`); the others have no part in the
            loss, the KL term or the denominator.

    Returns:
        `(losses, counted)`; losses are 0 where nothing is counted.

    Raises:
        InvalidSetting: shapes that differ.

    >>> old, mask = jnp.zeros((1, 2)), jnp.ones((1, 2), bool)
    >>> losses, _ = token_losses(jnp.log(jnp.array([[1.5, 0.5]])), old, jnp.ones(1), mask)
    >>> losses.round(6).tolist()
    [[-1.2000000476837158, -0.5]]
    """
    counted = completion_mask != 0
    if keep is not None:
        check_shape("keep", keep, per_token_logps.shape[:1])
        counted = counted & keep[:, None]
    ratio, pull = _ratio_and_pull(per_token_logps, old_per_token_logps, advantages, counted)
    losses = -_clip(ratio, pull, epsilon, epsilon_high, delta) * pull
    if ref_per_token_logps is not None:
        losses = losses + beta * kl_penalty(per_token_logps, ref_per_token_logps, counted)
    return losses, counted


@jax.jit
def kl_penalty(
    per_token_logps: Float[Array, "batch tokens"],
    ref_per_token_logps: Float[Array, "batch tokens"],
    completion_mask: Bool[Array, "batch tokens"],
) -> Float[Array, "batch tokens"]:
    r"""An estimate of \(\mathrm{KL}(\pi \,\|\, \pi_{ref})\) per token, in nats; 0 where masked.

    \(e^d - d - 1\) with \(d = \log \pi_{ref} - \log \pi\): never negative, and unbiased for tokens
    that \(\pi\) wrote.

    Raises:
        InvalidSetting: shapes that differ.
    """
    mask = completion_mask != 0
    d = -_log_ratio(per_token_logps, ref_per_token_logps, "ref_per_token_logps", mask)
    return jnp.expm1(d) - d


@jax.jit
def grpo_loss(
    per_token_logps: Float[Array, "batch tokens"],
    old_per_token_logps: Float[Array, "batch tokens"],
    advantages: Float[Array, " batch"] | Float[Array, "batch tokens"],
    completion_mask: Bool[Array, "batch tokens"],
    **terms: Unpack[LossTerms],
) -> Loss:
    """GRPO: the mean over the tokens of a sequence, averaged over sequences.

    With advantages of single turns (`turn_advantages`, `to_tokens`) it is the objective of IGPO.

    Args:
        per_token_logps: log probabilities under the policy.
        old_per_token_logps: those under the policy that wrote the tokens.
        advantages: one per sequence, or one per token.
        completion_mask: the tokens that the policy wrote.
        **terms: as in `token_losses`.

    Raises:
        InvalidSetting: shapes that differ.
    """
    losses, counted = token_losses(
        per_token_logps, old_per_token_logps, advantages, completion_mask, **terms
    )
    return sequence_mean_token_mean(losses, counted)


@jax.jit
def dr_grpo_loss(
    per_token_logps: Float[Array, "batch tokens"],
    old_per_token_logps: Float[Array, "batch tokens"],
    advantages: Float[Array, " batch"] | Float[Array, "batch tokens"],
    completion_mask: Bool[Array, "batch tokens"],
    *,
    max_completion_length: ArrayLike,
    **terms: Unpack[LossTerms],
) -> Loss:
    """Dr.GRPO: the sum over the tokens of a sequence by a constant, averaged over sequences.

    Goes with `group_advantages(..., scale="none")`.

    Args:
        per_token_logps: log probabilities under the policy.
        old_per_token_logps: those under the policy that wrote the tokens.
        advantages: one per sequence, or one per token.
        completion_mask: the tokens that the policy wrote.
        max_completion_length: the constant: the longest completion that may be sampled, the same
            for all batches.
        **terms: as in `token_losses`.

    Raises:
        InvalidSetting: shapes that differ.
    """
    losses, counted = token_losses(
        per_token_logps, old_per_token_logps, advantages, completion_mask, **terms
    )
    return sequence_mean_token_scale(losses, counted, max_completion_length)


@partial(jax.jit, static_argnames="num_generations")
def dapo_loss(
    per_token_logps: Float[Array, "batch tokens"],
    old_per_token_logps: Float[Array, "batch tokens"],
    advantages: Float[Array, " batch"] | Float[Array, "batch tokens"],
    completion_mask: Bool[Array, "batch tokens"],
    *,
    epsilon: ArrayLike = 0.2,
    epsilon_high: ArrayLike | None = 0.28,
    delta: ArrayLike | None = None,
    keep: Bool[Array, " batch"] | None = None,
    num_generations: int | None = None,
    group_ids: Int[Array, " batch"] | None = None,
) -> Loss:
    """DAPO: clip ranges of their own above and below, every token alike, no KL term.

    By default the mean goes over all tokens of the batch, as trainers have it. With groups named it
    goes over the tokens of a group and then over groups, as published; the two differ when groups
    have different numbers of tokens.

    Args:
        per_token_logps: log probabilities under the policy.
        old_per_token_logps: those under the policy that wrote the tokens.
        advantages: one per sequence, or one per token.
        completion_mask: the tokens that the policy wrote.
        epsilon: as in `token_losses`.
        epsilon_high: as in `token_losses`.
        delta: as in `token_losses`.
        keep: the mask of dynamic sampling (`group_keep_mask`).
        num_generations: the size of a group, if the rows of a group stand next to each other.
        group_ids: the number of the group of every row, otherwise.

    Raises:
        InvalidSetting: shapes that differ, or groups named in two ways.
    """
    losses, counted = token_losses(
        per_token_logps,
        old_per_token_logps,
        advantages,
        completion_mask,
        epsilon=epsilon,
        epsilon_high=epsilon_high,
        delta=delta,
        keep=keep,
    )
    if num_generations is None and group_ids is None:
        return token_mean(losses, counted)
    return group_token_mean(losses, counted, num_generations=num_generations, group_ids=group_ids)


@jax.jit
def clip_fraction(
    per_token_logps: Float[Array, "batch tokens"],
    old_per_token_logps: Float[Array, "batch tokens"],
    advantages: Float[Array, " batch"] | Float[Array, "batch tokens"],
    completion_mask: Bool[Array, "batch tokens"],
    *,
    epsilon: ArrayLike = 0.2,
    epsilon_high: ArrayLike | None = None,
    delta: ArrayLike | None = None,
) -> Loss:
    """The share of tokens whose advantage has stopped pulling, as a total and a denominator."""
    mask = completion_mask != 0
    ratio, pull = _ratio_and_pull(per_token_logps, old_per_token_logps, advantages, mask)
    stopped = (_clip(ratio, pull, epsilon, epsilon_high, delta) != ratio) & (pull != 0)
    return token_mean(stopped.astype(ratio.dtype), mask)


def _ratio_and_pull(
    per_token_logps: Array, old_per_token_logps: Array, advantages: Array, mask: Array
) -> tuple[Array, Array]:
    """The ratio and the advantage of every token; 1 and 0 where masked."""
    if advantages.ndim == 1:
        check_shape("advantages", advantages, per_token_logps.shape[:1])
        advantages = jnp.broadcast_to(advantages[:, None], per_token_logps.shape)
    check_shape("advantages", advantages, per_token_logps.shape)
    log_ratio = _log_ratio(per_token_logps, old_per_token_logps, "old_per_token_logps", mask)
    pull = jnp.where(mask, jax.lax.stop_gradient(advantages), 0)
    return jnp.exp(log_ratio), pull.astype(log_ratio.dtype)


def _clip(
    ratio: Array,
    pull: Array,
    epsilon: ArrayLike,
    epsilon_high: ArrayLike | None,
    delta: ArrayLike | None,
) -> Array:
    """The ratios, cut off above where the pull is upwards and below where it is downwards."""
    down = pull < 0
    high = epsilon if epsilon_high is None else epsilon_high
    most = jnp.inf if delta is None else delta
    return jnp.clip(
        ratio,
        jnp.where(down, 1 - jnp.asarray(epsilon, ratio.dtype), 0),
        jnp.where(down, jnp.asarray(most, ratio.dtype), 1 + jnp.asarray(high, ratio.dtype)),
    )


def _log_ratio(logps: Array, constant: Array, name: str, mask: Array) -> Array:
    """The log ratio to a constant, in single precision or better; 0 where masked."""
    check_shape(name, constant, logps.shape)
    check_shape("completion_mask", mask, logps.shape)
    kind = jnp.promote_types(jnp.result_type(logps, constant), jnp.float32)
    logps = jnp.where(mask, logps, 0).astype(kind)
    constant = jnp.where(mask, jax.lax.stop_gradient(constant), 0).astype(kind)
    return jnp.clip(logps - constant, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
