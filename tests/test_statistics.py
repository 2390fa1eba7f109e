"""The statistics against closed forms and enumeration, and the laws that they keep."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from llm_oracles.evaluation.statistics import (
    InvalidSample,
    cluster_bootstrap,
    cluster_means,
    cohen_kappa,
    compare,
    effect_interval,
    holm,
    paired_t,
    rate,
    sign_flip,
    wilcoxon,
)

SAMPLE = [0.3, -0.1, 0.4, 0.25, 0.0, 0.6, -0.2, 0.35]

scores = st.integers(-10, 10).map(lambda x: x / 10)
samples = st.lists(scores, min_size=2, max_size=8)


def test_t_and_its_p_value_are_those_of_the_textbook() -> None:
    n, mean = len(SAMPLE), sum(SAMPLE) / len(SAMPLE)
    variance = sum((x - mean) ** 2 for x in SAMPLE) / (n - 1)
    t, p = paired_t(SAMPLE)
    assert t == pytest.approx(mean / math.sqrt(variance / n))
    assert p == pytest.approx(stats.ttest_1samp(SAMPLE, 0).pvalue)


@pytest.mark.parametrize(
    ("sample", "t", "p"), [([0.0, 0.0], 0, 1), ([0.5] * 3, math.inf, 0), ([-0.1] * 9, -math.inf, 0)]
)
def test_differences_without_spread_need_no_division(
    sample: list[float], t: float, p: float
) -> None:
    assert paired_t(sample) == (t, p)
    assert compare(sample, "query").t == t


@given(samples)
def test_small_sign_flip_tests_are_exact(sample: list[float]) -> None:
    observed = abs(sum(sample))
    flips = itertools.product([-1, 1], repeat=len(sample))
    sums = [sum(s * x for s, x in zip(signs, sample, strict=True)) for signs in flips]
    # Two-sided as twice the smaller tail, which is the same by symmetry.
    expected = min(1.0, 2 * np.mean([s >= observed - 1e-12 for s in sums]))
    assert sign_flip(sample) == pytest.approx(expected)


def test_large_sign_flip_tests_are_estimated_and_never_zero() -> None:
    sample = np.linspace(0.5, 1.5, 60)
    assert 0 < sign_flip(sample, resamples=500) <= 2 / 501
    assert sign_flip(sample - 1, resamples=500, seed=1) == sign_flip(
        sample - 1, resamples=500, seed=1
    )


def test_wilcoxon_ranks_no_rounding_errors() -> None:
    # Means of three rounded scores: what is equal in truth differs in the last digits.
    exact = [1, 1, 1, 2, 2, -1, 3, 0, 0]
    noisy = [x / 30 * (1 + 1e-15 * i) for i, x in enumerate(exact)]
    noisy[-1] = 1e-17
    assert wilcoxon(noisy) == wilcoxon([float(x) for x in exact])
    assert wilcoxon([0.0, 0.0]) == 1


def test_resampling_clusters_widens_the_interval_of_repeated_values() -> None:
    queries = np.repeat(SAMPLE, 3)
    clusters = np.repeat(np.arange(len(SAMPLE)), 3).tolist()
    cell = cluster_bootstrap(queries, range(len(queries)))
    query = cluster_bootstrap(queries, clusters)
    assert query.high - query.low > 1.5 * (cell.high - cell.low)
    of_means = cluster_bootstrap(SAMPLE, range(len(SAMPLE)))
    assert (query.low, query.high) == pytest.approx((of_means.low, of_means.high))


def test_the_bootstrap_draws_clusters_with_all_their_values() -> None:
    # Two clusters of sizes 1 and 3: of the four draws, two hold both clusters.
    interval = cluster_bootstrap([0.0, 1.0, 1.0, 1.0], ["a", "b", "b", "b"])
    assert (interval.low, interval.high) == (0, 1)
    rng = np.random.default_rng(5)
    values, clusters = rng.normal(size=40), rng.integers(0, 9, 40)
    sums = np.array([values[clusters == c].sum() for c in np.unique(clusters)])
    counts = np.array([(clusters == c).sum() for c in np.unique(clusters)])
    draws = rng.integers(0, len(sums), (40_000, len(sums)))
    means = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
    found = cluster_bootstrap(values, clusters.tolist())
    np.testing.assert_allclose(
        (found.low, found.high), np.quantile(means, [0.025, 0.975]), atol=0.02
    )


@given(st.lists(st.tuples(scores, st.integers(0, 3)), min_size=1, max_size=12))
def test_cluster_means_are_plain_means_of_each_cluster(pairs: list[tuple[float, int]]) -> None:
    order = list(dict.fromkeys(c for _, c in pairs))
    expected = [np.mean([x for x, c in pairs if c == wanted]) for wanted in order]
    found = cluster_means([x for x, _ in pairs], [c for _, c in pairs])
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("units", [2, 8, 100])
@pytest.mark.parametrize("t", [0.0, 0.7, 3.4, -12.0, 300.0])
def test_the_effect_interval_holds_what_the_noncentral_t_allows(t: float, units: int) -> None:
    found = effect_interval(t, units)
    effect = t / math.sqrt(units)
    assert found.low < effect < found.high
    if abs(t) < 10 and units > 2:
        low, high = (bound * math.sqrt(units) for bound in (found.low, found.high))
        assert stats.nct.sf(t, units - 1, low) == pytest.approx(0.025, abs=1e-6)
        assert stats.nct.cdf(t, units - 1, high) == pytest.approx(0.025, abs=1e-6)


def test_wilsons_interval_is_the_closed_form() -> None:
    z, n, k = 1.959963984540054, 90, 23
    p = k / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    found = rate(k, n)
    assert (found.wilson.low, found.wilson.high) == pytest.approx((centre - half, centre + half))
    assert found.exact.low < found.wilson.low
    assert rate(0, n).exact.high == pytest.approx(1 - 0.025 ** (1 / n))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(a >= p for a, p in zip(adjusted, p_values, strict=True))
    assert max(adjusted) <= 1
    assert min(adjusted) == pytest.approx(min(1, len(p_values) * min(p_values)))
    for i, j in itertools.permutations(range(len(p_values)), 2):
        assert p_values[i] > p_values[j] or adjusted[i] <= adjusted[j]


def test_kappa_is_one_for_equal_labels_and_nan_where_chance_is_all() -> None:
    assert cohen_kappa("abcab", "abcab") == 1
    assert math.isnan(cohen_kappa("aaa", "aaa"))
    assert cohen_kappa("ab", "ba") == -1


def test_a_comparison_agrees_with_its_parts() -> None:
    found = compare(SAMPLE, "query", seed=3)
    assert found.difference == pytest.approx(np.mean(SAMPLE))
    assert (found.t, found.t_p) == paired_t(SAMPLE)
    assert found.sign_flip_p == sign_flip(SAMPLE)
    assert found.t_interval.low < found.difference < found.t_interval.high
    assert found.bootstrap_interval == cluster_bootstrap(SAMPLE, range(len(SAMPLE)), seed=3)
    assert found.effect == pytest.approx(np.mean(SAMPLE) / np.std(SAMPLE, ddof=1))


@pytest.mark.parametrize("sample", [[], [0.1], [0.1, math.nan], [0.1, math.inf]])
def test_samples_that_cannot_be_tested_are_refused(sample: list[float]) -> None:
    for test in (paired_t, sign_flip, wilcoxon):
        with pytest.raises(InvalidSample, match=r"two or more|finite"):
            test(sample)


def test_clusters_labels_and_trials_have_to_fit() -> None:
    with pytest.raises(InvalidSample, match="2 values, but the clusters of 1"):
        cluster_means([1.0, 2.0], ["a"])
    with pytest.raises(InvalidSample, match="one cluster"):
        cluster_bootstrap([1.0, 2.0], ["a", "a"])
    with pytest.raises(InvalidSample, match="no values"):
        cluster_means([], [])
    with pytest.raises(InvalidSample, match="2 and 1 labels"):
        cohen_kappa("ab", "a")
    with pytest.raises(InvalidSample, match="3 of 2"):
        rate(3, 2)
    with pytest.raises(InvalidSample, match="two are needed"):
        effect_interval(1.0, 1)
