"""The GPU kernels: the same numbers as the definition and as XLA, in interpret mode."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh

from balar_core import (
    Belief,
    LikelihoodTables,
    Scores,
    Status,
    factored,
    fused,
    information,
    score,
    statewise,
    sweeps,
)
from balar_core.belief import joint
from balar_core.sharding import shard

from . import reference
from .strategies import make_world, rows, space_of

Score = Callable[..., Scores]
TRITON = "xla.gpu.triton"

RAGGED = (3, 5, 2, 7)
TWELVE = (2,) * 12
SPREADS = (1e-4, 1e-3, 3e-3, 1e-2, 0.1)
KINDS = ("dense", "labels", "sharp", "zeros", *SPREADS)


def table(random: np.random.Generator, kind: str | float, size: int, width: int) -> np.ndarray:
    """Random rows; a number is how far log weights are spread."""
    if isinstance(kind, str):
        return rows(random, kind, size, width)
    weights = np.exp(kind * random.normal(size=(size, width)))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class Case:
    """A space with one question of each kind, in the engine and as plain arrays."""

    def __init__(self, sizes: tuple[int, ...], *, bucketed: bool) -> None:
        random = np.random.default_rng(len(sizes))
        self.sizes, self.space = sizes, space_of(sizes)
        self.choices = [2 + q % 3 for q in range(len(KINDS))]
        self.tables = [
            [table(random, kind, size, width) for size in sizes]
            for kind, width in zip(KINDS, self.choices, strict=True)
        ]
        pi = random.dirichlet(np.full(np.prod(sizes), 0.5))
        pi[random.random(pi.size) < 0.2] = 0
        self.belief = Belief.from_joint(self.space, pi / pi.sum(), bucketed=bucketed)
        self.packed = LikelihoodTables.build(
            self.space,
            self.choices,
            {(q, 0): tables for q, tables in enumerate(self.tables)},
            bucketed=bucketed,
        )

    def check(self, scores: Scores) -> None:
        """Compare with brute force in double precision."""
        pi = np.asarray(joint(self.belief, self.space), np.float64).ravel()
        pi /= pi.sum()
        assert bool(scores.status == Status.ok)
        for q, tables in enumerate(self.tables):
            k = reference.likelihood(self.sizes, tables, self.choices[q])
            expected, found = reference.mutual_information(pi, k), float(scores.information[q, 0])
            assert found == pytest.approx(expected, rel=1e-3, abs=1e-8), KINDS[q]
            assert abs(found - expected) <= 1e-6, KINDS[q]
            answers = np.asarray(scores.predictive[q, 0])
            np.testing.assert_allclose(
                answers[: self.choices[q]], reference.predictive(pi, k), atol=1e-6
            )
            assert not answers[self.choices[q] :].any()
        assert not scores.information[len(self.tables) :].any()


@contextmanager
def cuda_in_sight(*, interpret: bool = False) -> Iterator[Score]:
    """`score` as it is traced where JAX sees a GPU.

    Args:
        interpret: run the kernels here, by the interpreter of Pallas.
    """
    original: Any = information._score
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "cuda_in_sight", lambda: True)
        if interpret:
            patch.setattr(sweeps, "on_cuda", lambda kernel, otherwise: kernel)
            for module, name in ((factored, "factored_sums"), (statewise, "exact_sums")):
                patch.setattr(module, name, partial(getattr(fused, name), interpret=True))
        # A new function: it shares no traces with the `score` of other tests.
        yield lambda belief, tables: original.__wrapped__(belief, tables, None, None)


@contextmanager
def kernels() -> Iterator[Score]:
    """`score` by the kernels, compiled."""
    with cuda_in_sight(interpret=True) as program:
        yield jax.jit(program)


def lowered(function: Callable[..., Any], platform: str, *arguments: object) -> str:
    traced = jax.jit(function).trace(*arguments)
    return str(traced.lower(lowering_platforms=(platform,)).as_text())


def stack(trees: Iterable[Any]) -> Any:
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


def pick(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda x: x[i], tree)


def small(seed: int = 0, kind: str = "dense") -> tuple[Belief, LikelihoodTables]:
    world, space = make_world(seed, kind, (3, 2), (3, 2)), space_of((3, 2))
    tables = LikelihoodTables.build(space, world.choices, world.tables, users=2)
    return Belief.from_priors(space, world.priors), tables


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [RAGGED, TWELVE], ids=str)
def test_kernels_agree_with_the_definition_for_all_kinds_of_tables(sizes: tuple[int, ...]) -> None:
    """Padding, ragged choices, zeros, 1e-30, twelve dimensions, and down to 1e-6 nats."""
    case = Case(sizes, bucketed=sizes is RAGGED)
    with kernels() as program:
        scores = program(case.belief, case.packed)
    case.check(scores)
    found = np.asarray(scores.information)
    assert found.max() > 0.3
    assert ((found > 1e-6) & (found < 1e-3)).sum() >= 2


def test_kernels_mapped_over_beliefs_and_then_over_tables_give_what_single_calls_give() -> None:
    worlds = [small(seed, "zeros") for seed in range(3)]
    beliefs, tables = stack(b for b, _ in worlds), stack(t for _, t in worlds[:2])
    with cuda_in_sight(interpret=True) as program:
        nested = jax.jit(jax.vmap(jax.vmap(program, (0, None)), (None, 0)))(beliefs, tables)
    assert nested.information.shape == (2, 3, 2, 2)
    for t, b in np.ndindex(2, 3):
        alone = score(pick(beliefs, b), pick(tables, t))
        np.testing.assert_allclose(nested.information[t, b], alone.information, atol=1e-6)
        np.testing.assert_allclose(nested.predictive[t, b], alone.predictive, atol=1e-6)


def test_kernels_run_on_the_devices_that_hold_the_rows() -> None:
    belief, tables = small()
    spread = shard(belief, Mesh(np.array(jax.devices()[:1]), ("states",)))
    with kernels() as program:
        found = program(spread, tables)
    np.testing.assert_allclose(found.information, score(belief, tables).information, atol=1e-6)


def test_contradictions_and_what_is_not_a_number_are_seen_by_kernels() -> None:
    belief, tables = small()
    impossible = jnp.full(tables.log_tables.shape[-1], -jnp.inf)
    one_sided = tables.log_tables.at[0, 0, 0, 0].set(impossible.at[0].set(0))
    contradictory = one_sided.at[0, 0, 1, 0].set(impossible.at[1].set(0))
    spoilt = one_sided.at[1, 1, 0, 0, 0].set(jnp.nan)
    with kernels() as program:
        one, two, three = (
            program(belief, eqx.tree_at(lambda t: t.log_tables, tables, log_tables))
            for log_tables in (one_sided, contradictory, spoilt)
        )
    assert bool(one.status == Status.ok)
    assert bool(two.status == Status.impossible_state)
    assert bool(jnp.isfinite(two.information).all())
    assert np.argwhere(np.isnan(three.information)).tolist() == [[1, 1]]


def test_one_program_has_kernels_for_cuda_and_none_for_the_cpu() -> None:
    belief, tables = small()
    with cuda_in_sight() as program:
        assert TRITON in lowered(program, "cuda", belief, tables)
        assert TRITON not in lowered(program, "cpu", belief, tables)
        found = jax.jit(program)(belief, tables)
    expected = score(belief, tables)
    np.testing.assert_array_equal(found.information, expected.information)


def test_programs_have_kernels_when_mapped_and_none_for_derivatives_and_double_precision() -> None:
    belief, tables = small()

    def total(score: Score, logits: jax.Array) -> jax.Array:
        return score(Belief(logits, belief.layout), tables).information.sum()

    logits = jnp.stack([belief.log_joint] * 2)
    with cuda_in_sight() as program:
        mapped = partial(total, program)
        assert TRITON in lowered(jax.vmap(mapped), "cuda", logits)
        assert TRITON not in lowered(jax.vmap(jax.grad(mapped)), "cuda", logits)
        slopes = jax.jit(jax.grad(mapped))(belief.log_joint)
        with jax.enable_x64(True):
            assert TRITON not in lowered(program, "cuda", *small())
    step = 0.02 * jnp.arange(6.0).reshape(logits.shape[1:])
    ends = [float(total(score, belief.log_joint + way * step)) for way in (1, -1)]
    assert 2 * float(jnp.sum(slopes * step)) == pytest.approx(ends[0] - ends[1], rel=1e-2)
    assert abs(ends[0] - ends[1]) > 1e-3


def test_more_choices_than_registers_hold_are_left_to_xla() -> None:
    space, random = space_of((3, 2)), np.random.default_rng(0)
    belief = Belief.from_priors(space, [np.full(3, 1 / 3), np.full(2, 1 / 2)])
    for width in (fused.MOST_CHOICES, fused.MOST_CHOICES + 1):
        given = [rows(random, "dense", size, width) for size in (3, 2)]
        tables = LikelihoodTables.build(space, [width], {(0, 0): given})
        with cuda_in_sight() as program:
            text = lowered(program, "cuda", belief, tables)
        assert (TRITON in text) == (width == fused.MOST_CHOICES)


def test_without_a_gpu_no_program_has_kernels() -> None:
    if fused.cuda_in_sight():
        pytest.skip("there is a CUDA device")
    original: Any = information._score
    assert TRITON not in lowered(
        lambda b, t: original.__wrapped__(b, t, None, None), "cuda", *small()
    )


@given(st.integers(1, 2**21), st.integers(1, 2**21), st.integers(2, fused.MOST_CHOICES))
def test_tiles_are_powers_of_two_that_fit_the_registers(
    height: int, width: int, choices: int
) -> None:
    tile = fused._tile(height, width, choices)
    assert all(side & (side - 1) == 0 for side in tile)
    assert tile[0] * tile[1] * 2 * choices <= 32 * fused.WARPS * fused.ACCUMULATORS
    assert tile[0] >= fused.LEAST_HEIGHT
    assert tile[1] >= fused.LEAST_WIDTH
