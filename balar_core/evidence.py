"""Soft evidence over the choices of a question, as compiled code takes it."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Float

from .errors import InvalidEvidence
from .numerics import normalise, safe_log

__all__ = ["offered"]


def offered(
    evidence: Float[Array, " choices"], present: Bool[Array, " choices"], dtype: DTypeLike
) -> tuple[Float[Array, " choices"], Bool[Array, ""]]:
    """The evidence as log probabilities, and whether it is the same for every choice.

    Args:
        evidence: one weight per choice, padding included; only proportions matter.
        present: False for padding, whose weights are ignored.
        dtype: the type of the result.

    Raises:
        InvalidEvidence: the wrong number of weights.

    >>> log_s, flat = offered(jnp.array([2.0, 2.0, 9.0]), jnp.array([True, True, False]), float)
    >>> [round(x, 4) for x in log_s.tolist()], bool(flat)
    ([-0.6931, -0.6931, -inf], True)
    """
    if evidence.shape != present.shape:
        raise InvalidEvidence(
            f"The evidence has shape {evidence.shape}; {present.shape} is needed, one weight for "
            "each choice, padding included."
        )
    weights = jnp.where(present, evidence, 0).astype(dtype)
    same = jnp.all(jnp.where(present, weights == weights[0], True))
    return safe_log(normalise(weights)), same & (jnp.sum(weights) > 0)
