r"""Every guarded primitive, once: values *and* gradients right at zero.

Conventions

- `0 log 0 = 0`. Where a slope is infinite (`x log x` at 0) its derivative is taken at the
  smallest normal number of the type: large, negative and finite.
- Masked entries contribute nothing, to values or gradients, whatever they hold (NaN included).
- Nothing here returns NaN for input without NaN, and NaN that is not masked is never hidden.
- All logarithms are natural; entropies are in nats.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

__all__ = [
    "argmax",
    "as_array",
    "divergence",
    "divide",
    "entropy",
    "finfo",
    "log_entropy",
    "log_mean_exp",
    "log_normalise",
    "log_tiny",
    "logsumexp",
    "normalise",
    "reciprocal_and_log",
    "safe_log",
    "stack_padded",
    "xlogx",
]


def finfo(x: Array) -> jnp.finfo:
    """The limits of the float type of `x`."""
    return jnp.finfo(x.dtype)  # type: ignore[no-untyped-call]


def as_array(x: ArrayLike, dtype: type | None = None) -> Array:
    """Put `x` on the default device; nothing is compiled for it.

    Args:
        x: anything NumPy takes, or a JAX array (traced or not).
        dtype: `float` means the default float type (float64 if the user enables it); None keeps
            the type.
    """
    kind = np.dtype(jnp.result_type(float)) if dtype is float else dtype
    if isinstance(x, jax.Array):
        return x if kind is None else jnp.asarray(x, kind)
    placed: Array = jax.device_put(np.asarray(x, kind))
    return placed


def stack_padded(padding: float, *arrays: ArrayLike) -> Array:
    """Arrays of one rank as one, with a leading axis; smaller ones are padded at their ends.

    >>> stack_padded(-1, np.array([1]), np.array([2, 3])).tolist()
    [[1, -1], [2, 3]]
    """
    given = [np.asarray(array) for array in arrays]
    largest = np.max([array.shape for array in given], axis=0).astype(int)
    stacked = np.full((len(given), *largest), padding, given[0].dtype)
    for i, array in enumerate(given):
        place: tuple[int | slice, ...] = (i, *map(slice, array.shape))
        stacked[place] = array
    return as_array(stacked)


def safe_log(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """`log x` for `x >= 0`, with `-inf` at 0 and a finite gradient there.

    >>> safe_log(jnp.array([1.0, 0.0])).tolist()
    [0.0, -inf]
    """
    zero = x <= 0
    return jnp.where(zero, -jnp.inf, jnp.log(jnp.where(zero, 1, x)))


@jax.custom_jvp
def xlogx(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """`x log x` for `x >= 0`, 0 at 0.

    The derivative `1 + log x` is taken at the smallest normal number where x is smaller.

    >>> xlogx(jnp.array([1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    zero = x <= 0
    return jnp.where(zero, 0, x * jnp.log(jnp.where(zero, 1, x)))


@xlogx.defjvp
def _xlogx_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (tangent,) = primals, tangents
    return xlogx(x), (1 + jnp.log(jnp.maximum(x, finfo(x).tiny))) * tangent


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def divide(
    numerator: Float[Array, "*shape"],
    denominator: Float[Array, "*shape"],
    otherwise: float = 0.0,
) -> Float[Array, "*shape"]:
    """`numerator / denominator`, and `otherwise` where the denominator is 0.

    The derivative is written without the square of the denominator, which underflows long before
    the denominator does; it is 0 where the denominator is 0.

    >>> divide(jnp.array([1.0, 1.0]), jnp.array([2.0, 0.0])).tolist()
    [0.5, 0.0]
    """
    fine = denominator != 0
    return jnp.where(fine, numerator / jnp.where(fine, denominator, 1), otherwise)


@divide.defjvp
def _divide_jvp(
    otherwise: float, primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    (numerator, denominator), (d_numerator, d_denominator) = primals, tangents
    quotient = divide(numerator, denominator, otherwise)
    fine = denominator != 0
    change = (d_numerator - quotient * d_denominator) / jnp.where(fine, denominator, 1)
    return quotient, jnp.where(fine, change, 0)


def normalise(weights: Float[Array, "*shape"], axis: int | None = None) -> Float[Array, "*shape"]:
    """`weights` divided by their sum, over one axis or over all; zeros stay zeros.

    >>> normalise(jnp.array([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    total = jnp.sum(weights, axis=axis, keepdims=True)
    return divide(weights, jnp.broadcast_to(total, weights.shape))


@jax.custom_jvp
def divergence(p: Float[Array, "*shape"], q: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""\(p \log (p/q) - p + q\), which is 0 at p = q and positive elsewhere; 0 where q is 0.

    Its sum over two distributions is \(\mathrm{KL}(p \,\|\, q)\), and since the rounding of p and q
    enters in second order only, a small divergence keeps its digits. Meant for q > 0 wherever
    p > 0; the derivative in p, infinite at 0, is taken at the smallest normal number.

    >>> round(divergence(jnp.array([0.5, 0.5]), jnp.array([0.25, 0.75])).sum().item(), 6)
    0.143841
    """
    ratio = divide(p, q, 1.0)
    near = ratio < 2
    close = q * (xlogx(jnp.where(near, ratio, 1)) - (ratio - 1))
    # Far apart nothing cancels, but the ratio can be too large to be multiplied.
    far = p * (safe_log(jnp.where(near, 1, p)) - safe_log(jnp.where(near, 1, q))) - p + q
    return jnp.where(q <= 0, 0, jnp.where(near, close, far))


@divergence.defjvp
def _divergence_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    (p, q), (dp, dq) = primals, tangents
    none = q <= 0
    slope = jnp.log(jnp.maximum(p, finfo(p).tiny)) - safe_log(jnp.where(none, 1, q))
    change = dp * slope + dq * (1 - divide(p, q, 1.0))
    return divergence(p, q), jnp.where(none, 0, change)


def reciprocal_and_log(
    z: Float[Array, "*shape"], excess: Float[Array, "*shape"] | None = None, *, fence: bool = True
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """`(1 / z, log z)` of `z >= 0`, with one division and one logarithm.

    Where `excess = z - 1` is given and small it is used in place of z, so that the logarithm of a
    number near one keeps its digits. 0 is taken for the smallest normal number: all is finite.

    Args:
        z: what to invert.
        excess: `z - 1`, if it is known better than from z.
        fence: keep XLA from doing everything in one loop, which is slower than two cheap ones.
            Kernels written by hand have no such fence.

    >>> [round(x.item(), 9) for x in reciprocal_and_log(jnp.array(1.0), jnp.array(1e-9))]
    [1.0, 1e-09]
    """
    z = z + finfo(z).tiny  # changes 0 alone
    if excess is None:
        z = jax.lax.optimization_barrier(z) if fence else z
        return 1 / z, jnp.log(z)
    near = jnp.abs(excess) < 0.5
    z = jnp.where(near, 1 + excess, z)
    z = jax.lax.optimization_barrier(z) if fence else z
    # log(1 + x) = log z + x - (z - 1), up to second order in what rounding took from x.
    return 1 / z, jnp.log(z) + jnp.where(near, excess - (z - 1), 0)


def log_tiny(x: Array) -> float:
    """The logarithm of the smallest normal number of the type of `x`."""
    return math.log(finfo(x).tiny)


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
    # NaN and +inf must show in the output, not vanish behind the guards.
    total = jnp.where(jnp.isnan(top) | (top == jnp.inf), top, total)
    return jnp.squeeze(total, axis=axis)


def log_mean_exp(log_p: Float[Array, "*shape"], x: Float[Array, "*shape"]) -> Float[Array, ""]:
    r"""\(\log \sum p\, e^x\) of a distribution p, for `x <= 0`; `-inf` is legal in both.

    Exactly 0 where x is 0 wherever p is not, and small results keep their digits.

    >>> p, x = jnp.log(jnp.array([0.5, 0.5])), jnp.array([0.0, -2e-9])
    >>> [round(log_mean_exp(p, y).item(), 12) for y in (x, 0 * x)]
    [-1e-09, 0.0]
    """
    present = log_p > -jnp.inf
    log_p, x = jnp.where(present, log_p, 0), jnp.where(present, x, 0)
    excess = jnp.sum(jnp.where(present, jnp.exp(log_p) * jnp.expm1(x), 0))
    near = excess > -0.5
    far = logsumexp(jnp.where(present, log_p + x, -jnp.inf))
    return jnp.where(near, jnp.log1p(jnp.where(near, excess, 0)), far)


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
    # The top is taken off first: log_z itself is rounded to its own size, which may be large.
    top = jnp.max(log_weights, axis=axes, keepdims=True, initial=-jnp.inf)
    shift = jax.lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0))
    centred = log_weights - shift
    log_rest = logsumexp(centred, axis=axes)
    log_z = log_rest + jnp.squeeze(shift, axes)
    ok = jnp.isfinite(log_z)
    keep = jnp.expand_dims(ok, axes) & (log_weights > -jnp.inf)
    rest = jnp.expand_dims(jnp.where(ok, log_rest, 0), axes)
    log_p = jnp.where(keep, jnp.where(keep, centred, 0) - rest, -jnp.inf)
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
    slack = 64 * finfo(scores).eps * jnp.abs(jnp.where(jnp.isfinite(best), best, 0))
    return jnp.argmax(scores >= best - slack), best
