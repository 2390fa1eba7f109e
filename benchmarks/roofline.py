r"""How fast the kernel could be: its least work, and what this machine can do.

**Work.** For every pair and every state that the pair's tables can tell apart, the factored form
needs

- 1 logarithm (log Z) and 1 division (W = π / Z),
- C fused multiply-adds for Z = K_A K_Bᵀ, 2C for W · [K_B, K_B log K_B], and 1 for Σ π log Z.

States that a pair cannot tell apart (values of equal rows, dimensions that do not matter) are
counted once; adding up their probabilities is not counted. Tables, group products and the sums
over rows are smaller by a factor |a| or |b| and are not counted either. From memory come the
belief once and the tables once, and the results go back.

**Machine.** Bandwidth is that of copying arrays far larger than the caches (bytes read plus bytes
written). The rate of multiply-adds is the best float32 matrix product; those of logarithms and
divisions are the best of XLA and NumPy on blocks that stay in the cache, on all cores.

**Limit.** The larger of the time for the bytes and the *sum* of the times for the operations:
logarithms and multiply-adds share the same units. Only divisions could overlap with them, so that
a share of the limit slightly above 1 would not be a contradiction. Rates are the best of several
runs, times of the kernel are medians: on a busy machine the share comes out too small.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from balar_core.numerics import as_array

from .machine import cores
from .timing import timed
from .worlds import World

TERMS = 16
"""Operations on one loaded number."""
BLOCK = 1 << 14
"""Numbers that stay in the cache of one core."""
MEBI = 1 << 20


@dataclass(frozen=True)
class Work:
    """The least work of one case: bytes moved and operations."""

    bytes: int
    multiply_adds: int
    logarithms: int
    divisions: int

    @classmethod
    def of(cls, world: World) -> "Work":
        """Count it."""
        size, distinct = world.size, world.distinct_states()
        numbers = size.states + sum(t.size for t in world.tables) + size.pairs * (size.choices + 1)
        return cls(4 * numbers, (3 * size.choices + 1) * distinct, distinct, distinct)


@dataclass(frozen=True)
class Rates:
    """What the machine can do, per second."""

    copy_bytes: float
    multiply_adds: float
    logarithms: float
    divisions: float

    @classmethod
    def measure(cls, device: jax.Device) -> "Rates":
        """Measure it; takes a few seconds."""
        if device.platform != "cpu":
            return cls(
                _xla_copy(1024 * MEBI),
                _matrix_product(8192),
                _xla(jnp.log, 16 * MEBI, 1),
                _xla(jnp.reciprocal, 16 * MEBI, 1),
            )
        with ThreadPoolExecutor(cores()) as pool:
            return cls(
                max(_xla_copy(128 * MEBI), _numpy_copy(pool, 128 * MEBI)),
                max(_matrix_product(n) for n in (512, 1024)),
                max(_xla_cached(jnp.log), _numpy_cached(pool, np.log)),
                max(_xla_cached(jnp.reciprocal), _numpy_cached(pool, np.reciprocal)),
            )

    def milliseconds(self, work: Work) -> dict[str, float]:
        """The time of each part of some work."""
        return {
            "bytes": 1e3 * work.bytes / self.copy_bytes,
            "multiply_adds": 1e3 * work.multiply_adds / self.multiply_adds,
            "logarithms": 1e3 * work.logarithms / self.logarithms,
            "divisions": 1e3 * work.divisions / self.divisions,
        }

    def limit_ms(self, work: Work) -> float:
        """The least time that the work can take."""
        parts = self.milliseconds(work)
        return max(parts.pop("bytes"), sum(parts.values()))


def _best(run: Callable[[], object], repeats: int = 9) -> float:
    """The shortest time in seconds, after a run that is not counted."""
    run()
    return min(timed(run) for _ in range(repeats))


def _xla_cached(operation: Callable[[jax.Array], jax.Array]) -> float:
    """Operations per second on blocks in the cache; XLA divides large enough ones among cores."""
    return max(_xla(operation, blocks * BLOCK, 64) for blocks in (1, 2, 4))


def _xla(operation: Callable[[jax.Array], jax.Array], length: int, passes: int) -> float:
    @jax.jit
    def program(x: jax.Array) -> jax.Array:
        def sweep(i: jax.Array, total: jax.Array) -> jax.Array:
            moved = x + i.astype(x.dtype)
            for term in range(TERMS):
                total = total + operation(moved + term)
            return total

        return jnp.sum(jax.lax.fori_loop(0, passes, sweep, jnp.zeros_like(x)))

    x = as_array(np.linspace(1, 2, length, dtype=np.float32))
    return length * passes * TERMS / _best(lambda: program(x).block_until_ready())


def _numpy_cached(pool: ThreadPoolExecutor, operation: Callable[..., object]) -> float:
    """Operations per second, every core on a block of its own."""
    passes = 256

    def sweep(block: tuple[np.ndarray, np.ndarray]) -> None:
        for _ in range(passes):
            operation(block[0], out=block[1])

    source = np.linspace(1, 2, BLOCK, dtype=np.float32)
    blocks = [(source.copy(), np.empty_like(source)) for _ in range(cores())]
    return len(blocks) * passes * BLOCK / _best(lambda: list(pool.map(sweep, blocks)), 5)


def _matrix_product(n: int) -> float:
    """Multiply-adds per second of a float32 matrix product."""
    product = jax.jit(lambda a: jnp.matmul(a, a, precision=jax.lax.Precision.HIGHEST))
    a = as_array(np.full((n, n), 1e-3, np.float32))
    return n**3 / _best(lambda: product(a).block_until_ready(), 30)


def _xla_copy(size: int) -> float:
    """Bytes per second, read and written."""
    copy = jax.jit(lambda a: a + 1)
    a = as_array(np.zeros(size // 4, np.float32))
    return 2 * size / _best(lambda: copy(a).block_until_ready(), 5)


def _numpy_copy(pool: ThreadPoolExecutor, size: int) -> float:
    """Bytes per second, read and written, all cores on their own part."""
    sources = np.array_split(np.ones(size // 4, np.float32), cores())
    targets = np.array_split(np.ones(size // 4, np.float32), cores())
    return 2 * size / _best(lambda: list(pool.map(np.copyto, targets, sources)), 5)
