r"""Every guarded primitive, once: values *and* gradients right at zero.

Conventions

- `0 log 0 = 0`. Where a slope is infinite (`x log x` at 0) its derivative is taken at the
  smallest normal number of the type: large, negative and finite.
- Masked entries contribute nothing, to values or gradients, whatever they hold (NaN included).
- Nothing here returns NaN for input without NaN.
- All logarithms are natural; entropies are in nats.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

__all__ = [
    "argmax",
    "as_array",
    "divide",
    "entropy",
    "log_entropy",
    "log_normalise",
    "logsumexp",
    "safe_log",
    "xlogx",
]


def as_array(x: ArrayLike, dtype: type | None = None) -> Array:
    """Put `x` on the default device; nothing is compiled for it.

    Args:
        x: anything NumPy takes, or a JAX array (traced or not).
        dtype: `float` means the default float type (float64 if the user enables it); None keeps
            the type.
    """
    kind = np.dtype(jnp.result_type(float)) if dtype is float else dtype
    if isinstance(x, jax.Array):
        return x if kind is None else x.astype(kind)
    return jax.device_put(np.asarray(x, kind))


def safe_log(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """`log x` for `x >= 0`, with `-inf` at 0 and a finite gradient there.

    >>> safe_log(jnp.array([1.0, 0.0])).tolist()
    [0.0, -inf]
    """
    positive = x > 0
    return jnp.where(positive, jnp.log(jnp.where(positive, x, 1)), -jnp.inf)


@jax.custom_jvp
def xlogx(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """`x log x` for `x >= 0`, 0 at 0.

    The derivative `1 + log x` is taken at the smallest normal number where x is smaller.

    >>> xlogx(jnp.array([1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    positive = x > 0
    return jnp.where(positive, x * jnp.log(jnp.where(positive, x, 1)), 0)


@xlogx.defjvp
def _xlogx_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (tangent,) = primals, tangents
    floor = jnp.finfo(x.dtype).tiny
    return xlogx(x), (1 + jnp.log(jnp.maximum(x, floor))) * tangent


def divide(
    numerator: Float[Array, "*shape"],
    denominator: Float[Array, "*shape"],
    otherwise: float = 0.0,
) -> Float[Array, "*shape"]:
    """`numerator / denominator`, and `otherwise` where the denominator is 0.

    >>> divide(jnp.array([1.0, 1.0]), jnp.array([2.0, 0.0])).tolist()
    [0.5, 0.0]
    """
    fine = denominator != 0
    return jnp.where(fine, numerator / jnp.where(fine, denominator, 1), otherwise)


def logsumexp(
    x: Float[Array, "*shape"],
    axis: int | tuple[int, ...] | None = None,
    *,
    where: Bool[Array, "*mask"] | None = None,
) -> Float[Array, "*reduced"]:
    """`log sum exp x`; `-inf` for an empty sum, with zero gradient there.

    >>> logsumexp(jnp.array([-jnp.inf, -jnp.inf])).item()
    -inf
    """
    if where is not None:
        x = jnp.where(where, x, -jnp.inf)
    top = jnp.max(x, axis=axis, keepdims=True, initial=-jnp.inf)
    some = top > -jnp.inf
    shift = jax.lax.stop_gradient(jnp.where(some, top, 0))
    present = x > -jnp.inf
    terms = jnp.where(present, jnp.exp(jnp.where(present, x - shift, 0)), 0)
    total = safe_log(jnp.sum(terms, axis=axis, keepdims=True)) + shift
    # NaN in the input must show in the output, not vanish behind the guards.
    total = jnp.where(jnp.isnan(top), top, total)
    return jnp.squeeze(total, axis=axis)


def log_normalise(
    log_weights: Float[Array, "*shape"],
    axis: int | tuple[int, ...] | None = None,
    *,
    where: Bool[Array, "*mask"] | None = None,
) -> tuple[Float[Array, "*shape"], Float[Array, "*reduced"], Bool[Array, "*reduced"]]:
    """Normalise log weights.

    Args:
        log_weights: any shape; `-inf` is weight zero.
        axis: the axes over which the result sums to one; all of them by default.
        where: entries that count; the others become `-inf`.

    Returns:
        `(log_p, log_z, ok)`: the log probabilities, the log normaliser, and whether there was
        anything to normalise. Where not (all weights zero, or not a number) `log_p` is `-inf`
        everywhere, never NaN.

    >>> log_p, log_z, ok = log_normalise(jnp.array([0.0, 0.0, -jnp.inf]))
    >>> jnp.exp(log_p).round(3).tolist(), bool(ok)
    ([0.5, 0.5, 0.0], True)
    """
    if where is not None:
        log_weights = jnp.where(where, log_weights, -jnp.inf)
    axes = tuple(range(log_weights.ndim)) if axis is None else axis
    log_z = logsumexp(log_weights, axis=axes)
    ok = jnp.isfinite(log_z)
    shift = jnp.expand_dims(jnp.where(ok, log_z, 0), axes)
    keep = jnp.expand_dims(ok, axes) & (log_weights > -jnp.inf)
    log_p = jnp.where(keep, jnp.where(keep, log_weights, 0) - shift, -jnp.inf)
    return log_p, log_z, ok


def entropy(
    p: Float[Array, "*shape"], axis: int | tuple[int, ...] | None = None
) -> Float[Array, "*reduced"]:
    r"""\(-\sum p \log p\) in nats.

    >>> round(entropy(jnp.array([0.25, 0.0, 0.75])).item(), 6)
    0.562335
    """
    return -jnp.sum(xlogx(p), axis=axis)


def log_entropy(
    log_p: Float[Array, "*shape"], axis: int | tuple[int, ...] | None = None
) -> Float[Array, "*reduced"]:
    r"""\(-\sum p \log p\) in nats, from log probabilities.

    >>> round(log_entropy(jnp.log(jnp.array([0.25, 0.0, 0.75]))).item(), 6)
    0.562335
    """
    present = log_p > -jnp.inf
    finite = jnp.where(present, log_p, 0)
    return -jnp.sum(jnp.where(present, jnp.exp(finite) * finite, 0), axis=axis)


def argmax(
    scores: Float[Array, " n"], where: Bool[Array, " n"]
) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """The lowest index whose score ties with the best one, and the best score.

    Two scores tie when they differ by less than 64 rounding errors of the better one, so that the
    winner is the same on every backend. Entries outside `where` never win; if there are none
    inside, the index is 0 and the score `-inf`. NaN never wins.

    >>> i, best = argmax(jnp.array([0.5, 0.7, 0.7]), jnp.array([True, True, True]))
    >>> int(i), round(float(best), 3)
    (1, 0.7)
    """
    scores = jnp.where(where & ~jnp.isnan(scores), scores, -jnp.inf)
    best = jnp.max(scores, initial=-jnp.inf)
    slack = 64 * jnp.finfo(scores.dtype).eps * jnp.abs(jnp.where(jnp.isfinite(best), best, 0))
    return jnp.argmax(scores >= best - slack), best
