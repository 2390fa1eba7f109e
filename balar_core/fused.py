r"""The sweeps of `factored` as GPU kernels (Pallas, Triton): nothing as large as a belief is made.

XLA writes Z, its logarithm and its reciprocal to memory, for every pair and state. Here one program
takes one pair and a block of rows, goes through the columns tile by tile and keeps its running sums
in registers: for the factored evaluation, for every choice y, those of \(P = W g_B\) and of
\(T = W\,(g_B \log g_B)\), where \(W = \pi / Z\). At the end it multiplies them by what depends on
the row alone and writes a few numbers, which XLA adds up over the blocks of rows. There are no
atomic operations, so that the same input gives the same bits.

The factored evaluation is always the *careful* one (see `factored`): \(Z - 1\) costs as many
operations as Z, and no second look is needed. Choices are written out one after the other, because
there are too few of them for the matrix units, which would round the factors of float32 products
besides.

The cost of one factored program, for R rows, B columns and C choices of float32:

- reads: 4 (R B + (2C + 1) B + C R) bytes. The belief is read by every pair and the columns by every
  block of rows; programs that share a block of rows start together, so that most of this should
  come from the L2 cache.
- operations: 4C + 1 multiply-adds, one logarithm and one division for every state.
- registers: 2C + 1 accumulators of one tile. Tiles become smaller as choices become more, so that
  these take at most about 72 of the 255 registers of a thread.
- programs: pairs x blocks of rows; thousands for the spaces in which speed matters.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial, reduce
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float, Int, Shaped

from .numerics import divergence, divide, reciprocal_and_log, xlogx

__all__ = ["MOST_CHOICES", "covered", "exact_sums", "factored_sums", "on_cuda"]

T = TypeVar("T")
Tile = tuple[Float[Array, "height width"], ...]
Sums = list[Float[Array, ""]]

MOST_CHOICES = 16
"""With more choices than this the accumulators leave no registers for anything else."""
WARPS = 4
"""Warps of 32 threads in a program."""
ACCUMULATORS = 64
"""Registers of a thread that the accumulators of all choices may take."""
PER_THREAD = 8
"""States of a tile that a thread may take; more would only cost registers."""
WIDTH = 32
"""Columns of a tile: one cache line, and few enough for every thread to load what it needs."""
LEAST_HEIGHT, LEAST_WIDTH = 4, 16
"""No tile is smaller: 64 states, the least that the threads of two warps can share."""


class _Operands(NamedTuple):
    """What a program reads: references to memory, cut to one pair and a block of rows.

    Attributes:
        pi: the belief.
        rows: factors of the rows, one line for every choice.
        columns: factors of the columns, some lines for every choice.
        reference: r or, in the exact evaluation, the predicted answers.
    """

    pi: Float[Array, "height columns"]
    rows: Float[Array, "choices height"]
    columns: Float[Array, "lines columns"]
    reference: Float[Array, " choices"]


_Evaluate = Callable[[_Operands, int], Sums]
"""The sums of a block of rows; the number is the width of a tile."""


def covered(pi: Float[Array, "rows columns"], kernels: Float[Array, "... choices"]) -> bool:
    """Whether there are kernels for arrays like these, and a GPU that could run them."""
    single = pi.dtype == kernels.dtype == jnp.float32
    return single and kernels.shape[-1] <= MOST_CHOICES and cuda_in_sight()


@lru_cache
def cuda_in_sight() -> bool:
    """Whether JAX sees a CUDA device; without one no time is spent on tracing kernels."""
    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False


def on_cuda(kernel: Callable[..., T], otherwise: Callable[..., T]) -> Callable[..., T]:
    """`kernel` where a program is lowered for CUDA, `otherwise` elsewhere and for derivatives.

    Args:
        kernel: takes arrays or trees of them.
        otherwise: the same function, written so that it has derivatives.
    """

    @jax.custom_jvp
    def either(*arguments: object) -> T:
        found: T = jax.lax.platform_dependent(*arguments, cuda=kernel, default=otherwise)
        return found

    @either.defjvp
    def _slopes(primals: tuple[object, ...], tangents: tuple[object, ...]) -> tuple[T, T]:
        found: tuple[T, T] = jax.jvp(otherwise, primals, tangents)
        return found

    return either


@partial(jax.jit, static_argnames="interpret")
def factored_sums(
    pi: Float[Array, "rows columns"],
    rows: Float[Array, "pairs rows choices"],
    columns: Float[Array, "pairs columns choices"],
    reference: Float[Array, "pairs choices"],
    active: Bool[Array, " pairs"],
    *,
    interpret: bool = False,
) -> tuple[Float[Array, " pairs"], Float[Array, " pairs"], Float[Array, "pairs choices"]]:
    """What a careful sweep adds up over the states; 0 for pairs that are not active.

    Args:
        pi: the belief.
        rows: g_A.
        columns: g_B.
        reference: r.
        active: the pairs to evaluate; the others cost next to nothing.
        interpret: run it without a GPU, slowly.

    Returns:
        For every pair the sum of pi K log(K / r) in nats, the same with absolute values of the
        parts, and the sums of pi K.
    """
    mean = jnp.sum(reference[:, None, :] * (columns - 1), axis=2, keepdims=True)
    lines = jnp.concatenate([columns, xlogx(columns), mean], axis=2)
    sums = _launch(_factored, pi, rows, lines, reference, active, interpret=interpret)
    gains, size, normaliser, predictive = sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3:]
    return gains - normaliser, size + jnp.abs(normaliser), predictive


@partial(jax.jit, static_argnames="interpret")
def exact_sums(
    pi: Float[Array, "rows columns"],
    log_rows: Float[Array, "pairs rows choices"],
    log_columns: Float[Array, "pairs columns choices"],
    reference: Float[Array, "pairs choices"],
    active: Bool[Array, " pairs"],
    *,
    interpret: bool = False,
) -> tuple[Float[Array, " pairs"], Float[Array, "pairs choices"], Bool[Array, " pairs"]]:
    """What an exact sweep adds up over the states; 0 and False for pairs that are not active.

    Args:
        pi: the belief.
        log_rows: log product of experts of the row group.
        log_columns: the same of the column group.
        reference: the predicted answers.
        active: the pairs to evaluate; the others cost next to nothing.
        interpret: run it without a GPU, slowly.

    Returns:
        For every pair the sum of pi K log(K / reference) in nats, the sums of pi K, and whether a
        state that has probability has no possible choice.
    """
    sums = _launch(_exact, pi, log_rows, log_columns, reference, active, interpret=interpret)
    return sums[:, 0], sums[:, 2:], sums[:, 1] > 0


def _launch(
    evaluate: _Evaluate,
    pi: Float[Array, "rows columns"],
    rows: Float[Array, "pairs rows choices"],
    columns: Float[Array, "pairs columns lines"],
    reference: Float[Array, "pairs choices"],
    active: Bool[Array, " pairs"],
    *,
    interpret: bool,
) -> Float[Array, "pairs sums"]:
    """Pad to whole tiles, run the programs, add up what they found."""
    height, width = _tile(pi.shape[0], pi.shape[1], reference.shape[1])
    # Cells of one choice side by side, so that neighbouring threads read neighbouring words.
    operands = (
        _pad(pi, (height, width)),
        _pad(jnp.swapaxes(rows, 1, 2), (1, 1, height)),
        _pad(jnp.swapaxes(columns, 1, 2), (1, 1, width)),
        reference,
        active.astype(jnp.int32),
    )
    programs = _programs(evaluate, height, width, interpret)
    return jnp.sum(programs(*(x[None] for x in operands))[0], axis=1)


def _tile(rows: int, columns: int, choices: int) -> tuple[int, int]:
    """Rows and columns of a tile: powers of two, not much larger than the space.

    >>> _tile(1024, 1024, 4), _tile(1024, 1024, 16), _tile(5, 2, 2), _tile(4096, 1, 4)
    ((32, 32), (8, 32), (8, 16), (64, 16))
    """
    per_thread = 1 << (min(PER_THREAD, max(1, ACCUMULATORS // (2 * choices))).bit_length() - 1)
    width = min(WIDTH, max(LEAST_WIDTH, _power_of_two(columns)))
    height = min(32 * WARPS * per_thread // width, max(LEAST_HEIGHT, _power_of_two(rows)))
    return height, width


def _power_of_two(n: int) -> int:
    """The next power of two, or `n` itself."""
    return 1 << (n - 1).bit_length()


def _pad(x: Float[Array, "*shape"], multiples: tuple[int, ...]) -> Float[Array, "*padded"]:
    return jnp.pad(x, [(0, -n % by) for n, by in zip(x.shape, multiples, strict=True)])


@lru_cache
def _programs(
    evaluate: _Evaluate, height: int, width: int, interpret: bool
) -> Callable[..., Float[Array, "beliefs pairs blocks sums"]]:
    """The grid of programs for tiles of one size.

    Its arguments have one more axis in front, which counts beliefs. `vmap` makes that axis longer,
    however often it is applied, because a grid has no more than three axes.
    """

    @custom_vmap
    def run(
        pi: Float[Array, "beliefs rows columns"],
        rows: Float[Array, "beliefs pairs choices rows"],
        columns: Float[Array, "beliefs pairs lines columns"],
        reference: Float[Array, "beliefs pairs choices"],
        active: Int[Array, "beliefs pairs"],
    ) -> Float[Array, "beliefs pairs blocks sums"]:
        beliefs, pairs, choices = reference.shape
        lines, breadth = columns.shape[2:]
        blocks = pi.shape[1] // height
        number = choices + (3 if evaluate is _factored else 2)
        found: Array = pl.pallas_call(
            partial(_program, evaluate, width),
            grid=(pairs, blocks, beliefs),
            in_specs=[
                pl.BlockSpec((None, height, breadth), lambda p, b, n: (n, b, 0)),
                pl.BlockSpec((None, None, choices, height), lambda p, b, n: (n, p, 0, b)),
                pl.BlockSpec((None, None, lines, breadth), lambda p, b, n: (n, p, 0, 0)),
                pl.BlockSpec((None, None, choices), lambda p, b, n: (n, p, 0)),
                pl.BlockSpec((None, None), lambda p, b, n: (n, p)),
            ],
            out_specs=pl.BlockSpec((None, None, None, number), lambda p, b, n: (n, p, b, 0)),
            out_shape=jax.ShapeDtypeStruct((beliefs, pairs, blocks, number), pi.dtype),
            compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
            interpret=interpret,
        )(pi, rows, columns, reference, active)
        return found

    @run.def_vmap
    def _merge(
        axis_size: int, in_batched: Sequence[bool], *arguments: Shaped[Array, "..."]
    ) -> tuple[Float[Array, "batch beliefs pairs blocks sums"], bool]:
        spread = [
            x if batched else jnp.broadcast_to(x[None], (axis_size, *x.shape))
            for x, batched in zip(arguments, in_batched, strict=True)
        ]
        found = run(*(x.reshape(-1, *x.shape[2:]) for x in spread))
        return found.reshape(axis_size, -1, *found.shape[1:]), True

    return run


def _program(
    evaluate: _Evaluate,
    width: int,
    pi: Float[Array, "height columns"],
    rows: Float[Array, "choices height"],
    columns: Float[Array, "lines columns"],
    reference: Float[Array, " choices"],
    active: Int[Array, ""],
    sums: Float[Array, " sums"],
) -> None:
    """One pair and a block of rows. The arguments are references to memory, not arrays."""

    @pl.when(active[...] != 0)
    def _() -> None:
        for position, x in enumerate(evaluate(_Operands(pi, rows, columns, reference), width)):
            sums[position] = x

    @pl.when(active[...] == 0)
    def _() -> None:
        for position in range(sums.shape[0]):
            sums[position] = jnp.zeros((), sums.dtype)


def _add_tiles(
    terms: Callable[[Float[Array, "height width"], list[Float[Array, "one width"]]], Tile],
    number: int,
    of: _Operands,
    width: int,
) -> list[Float[Array, " height"]]:
    """`number` sums over the columns, row by row.

    Args:
        terms: what a tile of the belief adds, with the lines of its columns.
        number: of sums.
        of: the operands.
        width: of a tile.
    """
    height, breadth = of.pi.shape

    def step(tile: Int[Array, ""], totals: Tile) -> Tile:
        here = pl.ds(tile * width, width)
        lines = [of.columns[line, here][None, :] for line in range(of.columns.shape[0])]
        added = terms(of.pi[:, here], lines)
        return tuple(total + x for total, x in zip(totals, added, strict=True))

    nothing = (jnp.zeros((height, width), of.pi.dtype),) * number
    totals = jax.lax.fori_loop(0, breadth // width, step, nothing)
    return [jnp.sum(total, axis=1) for total in totals]


def _factored(of: _Operands, width: int) -> Sums:
    """Gains, their size, the normaliser, and the answer to every choice."""
    choices = range(of.reference.shape[0])
    reference = [of.reference[y] for y in choices]
    kernels = [of.rows[y, :] for y in choices]
    weighted = [reference[y] * kernels[y] for y in choices]
    excesses = [reference[y] * (kernels[y] - 1) for y in choices]
    row_mean = reduce(jnp.add, excesses)[:, None]

    def terms(pi: Float[Array, "height width"], lines: list[Float[Array, "one width"]]) -> Tile:
        z, excess = jnp.zeros_like(pi), row_mean + lines[-1]
        for y in choices:
            z += weighted[y][:, None] * lines[y]
            excess += excesses[y][:, None] * (lines[y] - 1)
        inverse, log_z = reciprocal_and_log(z, excess, fence=False)
        w = pi * inverse
        return pi * log_z, *(w * line for line in lines[:-1])

    normaliser, *products = _add_tiles(terms, 2 * len(choices) + 1, of, width)
    gains, size, predictive = jnp.zeros_like(normaliser), jnp.zeros_like(normaliser), []
    for y in choices:
        through, through_log = products[y], products[len(choices) + y]
        of_rows = reference[y] * xlogx(kernels[y]) * through
        of_columns = weighted[y] * through_log
        gains += of_rows + of_columns
        size += jnp.abs(of_rows) + jnp.abs(of_columns)
        predictive.append(jnp.sum(weighted[y] * through))
    return [jnp.sum(gains), jnp.sum(size), jnp.sum(normaliser), *predictive]


def _exact(of: _Operands, width: int) -> Sums:
    """Gains, the number of states without a possible choice, and the answer to every choice."""
    choices = range(of.reference.shape[0])
    reference = [of.reference[y] for y in choices]
    rows = [of.rows[y, :][:, None] for y in choices]

    def terms(pi: Float[Array, "height width"], lines: list[Float[Array, "one width"]]) -> Tile:
        log_k = [rows[y] + lines[y] for y in choices]
        top = reduce(jnp.maximum, log_k)
        none = top == -jnp.inf
        parts = [jnp.exp(x - jnp.where(none, 0, top)) for x in log_k]
        z = reduce(jnp.add, parts)
        k = [divide(part, z) for part in parts]
        gains = [divergence(k[y], jnp.broadcast_to(reference[y], pi.shape)) for y in choices]
        impossible = jnp.where(none & (pi > 0), 1, jnp.zeros_like(pi))
        return pi * reduce(jnp.add, gains), impossible, *(pi * x for x in k)

    return [jnp.sum(x) for x in _add_tiles(terms, len(choices) + 2, of, width)]
