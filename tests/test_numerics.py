"""The guarded primitives: right values, right slopes, and nothing that is not a number."""

import ast
import math
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import balar_core
from balar_core.numerics import (
    argmax,
    divergence,
    divide,
    entropy,
    log_entropy,
    log_normalise,
    logsumexp,
    normalise,
    safe_log,
    xlogx,
)

INF = math.inf
CORNERS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.25, 0.0, 0.75], [0.2, 0.3, 0.5]]
FINITE = st.floats(-300, 300, width=32)


def slack(x64: bool) -> float:
    return 1e-14 if x64 else 1e-6


@pytest.mark.parametrize(
    ("p", "expected"),
    [([0.25, 0, 0.75], 0.5623351446188083), ([0, 0, 1], 0), ([0.5, 0.5], math.log(2))],
)
def test_entropy_takes_zero_times_log_zero_as_zero(
    x64: bool, p: list[float], expected: float
) -> None:
    array = jnp.array(p, dtype=float)
    for found in (
        entropy(array),
        jax.jit(entropy)(array),
        jax.vmap(entropy)(array[None])[0],
        log_entropy(jnp.log(array)),
        jax.vmap(log_entropy)(jnp.log(array)[None])[0],
    ):
        assert found.item() == pytest.approx(expected, abs=slack(x64))


@pytest.mark.parametrize("corner", CORNERS)
@pytest.mark.parametrize(
    "scalar",
    [
        entropy,
        lambda p: log_entropy(safe_log(p)),
        lambda p: logsumexp(safe_log(p)),
        lambda p: jnp.sum(jnp.exp(log_normalise(safe_log(p))[0]) ** 2),
        lambda p: jnp.sum(normalise(p) ** 2),
        lambda p: jnp.sum(divergence(p, jnp.full(3, 1 / 3))),
        lambda p: jnp.sum(divergence(jnp.full(3, 1 / 3), p)),
        lambda p: jnp.sum(divide(jnp.ones(3), p)),
    ],
    ids=["entropy", "log_entropy", "logsumexp", "log_normalise", "normalise", "kl", "lk", "divide"],
)
def test_slopes_are_finite_at_every_corner_of_the_simplex(
    x64: bool, corner: list[float], scalar: Callable[[jax.Array], jax.Array]
) -> None:
    gradient = jax.jit(jax.grad(scalar))(jnp.array(corner))
    assert bool(jnp.isfinite(gradient).all())
    assert bool(jnp.isfinite(jax.vmap(jax.grad(scalar))(jnp.array([corner] * 2))).all())


def test_infinite_slope_is_taken_at_the_smallest_normal_number(x64: bool) -> None:
    zero = jnp.array(0.0)
    tiny = float(jnp.finfo(zero.dtype).tiny)
    assert jax.grad(xlogx)(zero).item() == pytest.approx(1 + math.log(tiny), rel=1e-5)
    slope = jax.grad(lambda p: divergence(p, jnp.array(0.5)))(zero)
    assert slope.item() == pytest.approx(math.log(tiny / 0.5), rel=1e-5)


def test_normalising_nothing_is_reported_and_not_a_nan(x64: bool) -> None:
    log_p, log_z, ok = log_normalise(jnp.full(3, -INF))
    assert log_p.tolist() == [-INF] * 3
    assert (log_z.item(), ok.item()) == (-INF, False)
    gradient = jax.grad(lambda x: logsumexp(x))(jnp.full(3, -INF))
    assert gradient.tolist() == [0, 0, 0]


@pytest.mark.parametrize("garbage", [math.nan, 100.0, INF, -INF])
def test_masked_entries_reach_neither_values_nor_slopes(x64: bool, garbage: float) -> None:
    x, mask = jnp.array([0.0, garbage, 1.0]), jnp.array([True, False, True])
    clean = logsumexp(jnp.array([0.0, 1.0]))

    def total(x: jax.Array) -> jax.Array:
        return logsumexp(x, where=mask)

    value, gradient = jax.value_and_grad(total)(x)
    assert value.item() == pytest.approx(clean.item(), rel=1e-6)
    assert gradient[1].item() == 0
    assert gradient.sum().item() == pytest.approx(1, rel=1e-6)
    log_p, _, ok = log_normalise(x, where=mask)
    assert log_p[1].item() == -INF
    assert bool(ok) and jnp.exp(log_p).sum().item() == pytest.approx(1, rel=1e-6)


def test_row_that_is_masked_altogether_leaves_the_other_rows_alone(x64: bool) -> None:
    x = jnp.array([[0.0, 0.0], [math.nan, 5.0]])
    mask = jnp.array([[True, True], [False, False]])
    log_p, log_z, ok = log_normalise(x, axis=1, where=mask)
    np.testing.assert_allclose(jnp.exp(log_p), [[0.5, 0.5], [0, 0]], rtol=1e-6)
    assert ok.tolist() == [True, False]
    assert log_z[1].item() == -INF


def test_very_small_weights_are_normalised_in_log_space(x64: bool) -> None:
    log_p, _, _ = log_normalise(jnp.array([-1000.0, -1001.0]))
    np.testing.assert_allclose(jnp.exp(log_p), [0.7310586, 0.2689414], rtol=1e-6)


@pytest.mark.parametrize("function", [safe_log, xlogx, logsumexp, entropy])
def test_nan_that_is_not_masked_shows(
    x64: bool, function: Callable[[jax.Array], jax.Array]
) -> None:
    assert bool(jnp.isnan(function(jnp.array([math.nan, 0.5]))).any())
    _, log_z, ok = log_normalise(jnp.array([math.nan, 0.5]))
    assert bool(jnp.isnan(log_z)) and not bool(ok)


def test_infinite_weight_is_not_turned_into_nan(x64: bool) -> None:
    assert logsumexp(jnp.array([INF, 0.0])).item() == INF
    log_p, _, ok = log_normalise(jnp.array([INF, 0.0]))
    assert not bool(ok) and not bool(jnp.isnan(log_p).any())


@given(x=st.lists(FINITE | st.just(-INF), min_size=1, max_size=5))
def test_logsumexp_agrees_with_exact_sums(x64: bool, x: list[float]) -> None:
    top = max(x)
    expected = top if top == -INF else top + math.log(math.fsum(math.exp(v - top) for v in x))
    # One padded shape for all lengths.
    padded = jnp.array(x + [-INF] * (5 - len(x)))
    assert logsumexp(padded).item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1.0, 1e15])
def test_slope_of_a_quotient_survives_small_denominators(x64: bool, scale: float) -> None:
    a, b = jnp.array(2 * scale), jnp.array(scale)
    by_a, by_b = jax.grad(divide, argnums=(0, 1))(a, b)
    assert (by_a * b).item() == pytest.approx(1, rel=1e-5)
    assert (by_b * b).item() == pytest.approx(-2, rel=1e-5)


def test_quotient_by_zero_is_what_was_asked_for_and_flat(x64: bool) -> None:
    zero = jnp.array(0.0)
    assert divide(jnp.array(1.0), zero, 7.0).item() == 7
    assert jax.grad(divide, argnums=(0, 1))(jnp.array(1.0), zero) == (0, 0)


@pytest.mark.parametrize(("p", "q"), [(0.3, 0.2), (0.3, 0.3), (0.9, 1e-30), (0.0, 0.4), (1e-20, 1)])
def test_divergence_agrees_with_its_formula(x64: bool, p: float, q: float) -> None:
    expected = (p * math.log(p / q) if p else 0) - p + q
    found = divergence(jnp.array(p, float), jnp.array(q, float))
    assert found.item() == pytest.approx(expected, rel=1e-5, abs=slack(x64))
    assert found.item() >= 0


def test_divergence_of_close_numbers_keeps_its_digits() -> None:
    p, q = np.float32(0.3), np.float32(0.3) + np.float32(3e-4)
    exact = float(p) * math.log(float(p) / float(q)) - float(p) + float(q)
    assert divergence(jnp.array(p), jnp.array(q)).item() == pytest.approx(exact, rel=1e-3)


def test_divergence_from_nothing_is_zero_and_flat(x64: bool) -> None:
    zero = jnp.array(0.0)
    assert divergence(zero, zero).item() == 0
    assert jax.grad(divergence, argnums=(0, 1))(zero, zero) == (0, 0)


@pytest.mark.parametrize(("p", "q"), [(0.3, 0.2), (0.05, 0.4), (0.9, 0.1)])
def test_slopes_of_divergence_agree_with_finite_differences(p: float, q: float) -> None:
    with jax.enable_x64(True):
        step = 1e-6
        by_p, by_q = jax.grad(divergence, argnums=(0, 1))(jnp.array(p), jnp.array(q))
        for slope, dp, dq in ((by_p, step, 0.0), (by_q, 0.0, step)):
            difference = divergence(jnp.array(p + dp), jnp.array(q + dq)) - divergence(
                jnp.array(p - dp), jnp.array(q - dq)
            )
            assert slope.item() == pytest.approx(difference.item() / (2 * step), rel=1e-6)


def best(scores: list[float], where: list[bool] | None = None) -> tuple[int, float]:
    mask = jnp.array([True] * len(scores) if where is None else where)
    index, value = jax.jit(argmax)(jnp.array(scores), mask)
    return int(index), float(value)


def test_tied_scores_go_to_the_lowest_index(x64: bool) -> None:
    assert best([0.5, 0.7, 0.7])[0] == 1
    assert best([0.0, 0.0, 0.0])[0] == 0
    above = np.nextafter(np.float32(0.7), np.float32(1)) if not x64 else np.nextafter(0.7, 1)
    assert best([0.7, float(above)])[0] == 0
    assert best([0.7, 0.7001])[0] == 1


def test_nan_and_masked_scores_never_win(x64: bool) -> None:
    assert best([0.3, math.nan, 0.9])[0] == 2
    assert best([0.3, 0.9, 0.5], [True, False, True])[0] == 2
    assert best([0.3, math.nan], [False, True]) == (0, -INF)
    assert best([0.3, 0.9], [False, False]) == (0, -INF)


def compiled_modules() -> list[Path]:
    """The modules that compute on arrays, apart from the one that may divide."""
    root = Path(balar_core.__file__).parent
    importing = [p for p in root.glob("*.py") if "import jax" in p.read_text(encoding="utf-8")]
    host = {"numerics.py", "space.py", "structure.py", "tables.py", "status.py", "__init__.py"}
    return sorted(p for p in importing if p.name not in host)


def test_arrays_are_divided_and_logged_by_the_primitives_alone() -> None:
    modules = compiled_modules()
    # These also compute on the host, in NumPy and in floats.
    mixed = {"calibration.py", "channels.py", "listed.py"}
    assert {"answers.py", "belief.py", "decision.py", "information.py"} <= {p.name for p in modules}
    logs = {"log", "log1p", "log2", "divide", "true_divide", "reciprocal", "softmax", "log_softmax"}
    bare = [
        f"{path.name}:{node.lineno}"
        for path in modules
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and path.name not in mixed)
        or (
            isinstance(node, ast.Attribute)
            and node.attr in logs
            and isinstance(node.value, ast.Name)
            and node.value.id in ("jnp", "jax", "lax")
        )
    ]
    assert bare == []
