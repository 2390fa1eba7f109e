"""Comparing two systems on the same queries, and rates with their intervals.

Scores of one query under several seeds are not independent of each other. A p-value over all
(query, seed) cells takes them for independent; one over queries does not. Everything here says at
which level it was computed, so that the two are never taken for each other.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import optimize, stats

from balar_core.errors import InvalidInput

__all__ = [
    "Comparison",
    "Interval",
    "InvalidSample",
    "Rate",
    "cluster_bootstrap",
    "cluster_means",
    "cohen_kappa",
    "compare",
    "effect_interval",
    "holm",
    "paired_t",
    "rate",
    "sign_flip",
    "wilcoxon",
]

CONFIDENCE = 0.95
RESAMPLES = 20_000
DIGITS = 10
"""Digits after which scaled differences are taken to be equal."""

Sample = Float[np.ndarray, " units"]


class InvalidSample(InvalidInput):
    """Numbers that no statistic can be computed from: too few, of unequal length, or not finite."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval of 95 %."""

    low: float
    high: float


@dataclass(frozen=True)
class Rate:
    """A share of trials.

    Attributes:
        successes: how many trials succeeded.
        trials: how many there were.
        value: the share.
        wilson: Wilson's score interval.
        exact: the interval of Clopper and Pearson, which never promises too much.
    """

    successes: int
    trials: int
    value: float
    wilson: Interval
    exact: Interval


@dataclass(frozen=True)
class Comparison:
    """Paired differences of two systems.

    Attributes:
        level: what was taken to be independent, such as `query` or `cell`.
        units: how many of these there are.
        difference: the mean difference.
        t: Student's t of the differences.
        t_p: its two-sided p-value.
        sign_flip_p: two-sided p-value of the permutation test that flips the signs of differences.
        wilcoxon_p: two-sided p-value of Wilcoxon's signed-rank test.
        t_interval: the interval of the difference by Student's t.
        bootstrap_interval: the interval of the difference by resampling units.
        effect: the difference in standard deviations of the differences (Cohen's d_z).
        effect_interval: its interval.
    """

    level: str
    units: int
    difference: float
    t: float
    t_p: float
    sign_flip_p: float
    wilcoxon_p: float
    t_interval: Interval
    bootstrap_interval: Interval
    effect: float
    effect_interval: Interval


def compare(differences: Sequence[float] | Sample, level: str, *, seed: int = 0) -> Comparison:
    """All tests of one sample of paired differences.

    Args:
        differences: one difference per unit; units are taken to be independent.
        level: the name of the units.
        seed: of the resampling.

    Raises:
        InvalidSample: fewer than two differences, or some that are not finite.

    >>> found = compare([0.2, 0.0, 0.4, 0.2], level="query")
    >>> found.units, round(found.difference, 3), round(found.t, 3), found.sign_flip_p
    (4, 0.2, 2.449, 0.25)
    """
    sample = _sample(differences)
    t, t_p = paired_t(sample)
    effect = t / np.sqrt(sample.size)
    half_width = stats.t.ppf((1 + CONFIDENCE) / 2, sample.size - 1) * _standard_error(sample)
    mean = float(sample.mean())
    return Comparison(
        level=level,
        units=sample.size,
        difference=mean,
        t=t,
        t_p=t_p,
        sign_flip_p=sign_flip(sample, seed=seed),
        wilcoxon_p=wilcoxon(sample),
        t_interval=Interval(mean - float(half_width), mean + float(half_width)),
        bootstrap_interval=cluster_bootstrap(sample, range(sample.size), seed=seed),
        effect=float(effect),
        effect_interval=effect_interval(t, sample.size),
    )


def paired_t(differences: Sequence[float] | Sample) -> tuple[float, float]:
    """Student's t of paired differences and its two-sided p-value.

    Differences that are all equal have t = 0 and p = 1 if they are zero, else infinite t and p = 0.

    Raises:
        InvalidSample: fewer than two differences, or some that are not finite.
    """
    sample = _sample(differences)
    mean, error = sample.mean(), _standard_error(sample)
    if error <= 1e-12 * np.abs(sample).max():
        return (0.0, 1.0) if mean == 0 else (float(np.copysign(np.inf, mean)), 0.0)
    t = mean / error
    return float(t), float(2 * stats.t.sf(abs(t), sample.size - 1))


def sign_flip(
    differences: Sequence[float] | Sample, *, seed: int = 0, resamples: int = RESAMPLES
) -> float:
    """The two-sided p-value of the sign-flip permutation test of the mean.

    Exact where there are no more than `resamples` ways to flip the signs, else estimated; never 0.
    Means that differ by rounding errors alone are ties.

    Raises:
        InvalidSample: fewer than two differences, or some that are not finite.
    """
    found = stats.permutation_test(
        (_scaled(differences),),
        lambda x, axis: x.mean(axis=axis).round(DIGITS),
        permutation_type="samples",
        n_resamples=resamples,
        batch=2_000,
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def wilcoxon(differences: Sequence[float] | Sample) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test; zeros are left out.

    Differences that differ by rounding errors alone are ties: means of rounded scores often do, and
    the errors must not be ranked.

    Raises:
        InvalidSample: fewer than two differences, or some that are not finite.
    """
    sample = _scaled(differences).round(DIGITS)
    sample = sample[sample != 0]
    return float(stats.wilcoxon(sample).pvalue) if sample.size else 1.0


def cluster_means(values: Sequence[float] | Sample, clusters: Sequence[Hashable]) -> Sample:
    """The mean of each cluster, clusters in the order in which they first appear.

    Raises:
        InvalidSample: no values, some that are not finite, or not one cluster per value.

    >>> cluster_means([1.0, 3.0, 5.0], ["a", "b", "a"])
    array([3., 3.])
    """
    sums, counts = _cluster_sums(values, clusters)
    means: Sample = sums / counts
    return means


def cluster_bootstrap(
    values: Sequence[float] | Sample,
    clusters: Sequence[Hashable],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """The percentile interval of the mean of `values` when whole clusters are resampled.

    With every value a cluster of its own it is the ordinary bootstrap.

    Raises:
        InvalidSample: fewer than two clusters, values that are not finite, or not one cluster per
            value.
    """
    sums, counts = _cluster_sums(values, clusters)
    if sums.size < 2:
        raise InvalidSample("All values belong to one cluster; two are needed to resample them.")
    found = stats.bootstrap(
        (sums, counts),
        lambda s, n, axis: s.sum(axis=axis) / n.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        batch=2_000,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return Interval(*map(float, found.confidence_interval))


def effect_interval(t: float, units: int) -> Interval:
    """The interval of Cohen's d_z that belongs to a t, by inverting the noncentral t.

    Raises:
        InvalidSample: fewer than two units.
    """
    if units < 2:
        raise InvalidSample(f"{units} unit(s) have no effect size; two are needed.")
    if t < 0:
        mirrored = effect_interval(-t, units)
        return Interval(-mirrored.high, -mirrored.low)
    if not np.isfinite(t):
        return Interval(t, t)
    tail, reach = (1 - CONFIDENCE) / 2, 4 * float(np.sqrt(1 + t * t / (2 * units)))

    def noncentrality(share: float) -> float:
        def excess(delta: float) -> float:
            below = float(stats.nct.cdf(t, units - 1, delta))
            # Far in its tails, where the truth is 0 or 1, SciPy's function is undefined.
            return (float(delta < t) if np.isnan(below) else below) - share

        return float(optimize.brentq(excess, t - reach, t + reach))

    root = float(np.sqrt(units))
    return Interval(noncentrality(1 - tail) / root, noncentrality(tail) / root)


def rate(successes: int, trials: int) -> Rate:
    """A share of trials, with two intervals.

    Raises:
        InvalidSample: no trials, or more successes than trials.

    >>> none = rate(0, 90)
    >>> none.value, round(none.wilson.high, 3), round(none.exact.high, 3)
    (0.0, 0.041, 0.04)
    """
    if not (trials > 0 and 0 <= successes <= trials):
        raise InvalidSample(f"{successes} of {trials} is not a share of trials.")
    test = stats.binomtest(successes, trials)

    def interval(method: str) -> Interval:
        found = test.proportion_ci(CONFIDENCE, method=method)
        return Interval(float(found.low), float(found.high))

    return Rate(successes, trials, successes / trials, interval("wilson"), interval("exact"))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjustment for having tested several hypotheses, in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, floor = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = floor
    return adjusted


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Cohen's kappa: the agreement of two annotators beyond chance; nan where chance is all.

    Raises:
        InvalidSample: no labels, or not the same number of them.

    >>> cohen_kappa(["a", "a", "b", "b"], ["a", "a", "b", "a"])
    0.5
    """
    if not first or len(first) != len(second):
        raise InvalidSample(
            f"The annotators gave {len(first)} and {len(second)} labels; "
            "give one of each for every item."
        )
    total = len(first)
    agreed = sum(a == b for a, b in zip(first, second, strict=True)) / total
    chance = sum(
        (list(first).count(label) / total) * (list(second).count(label) / total)
        for label in set(first)
    )
    return (agreed - chance) / (1 - chance) if chance < 1 else float("nan")


def _sample(differences: Sequence[float] | Sample) -> Sample:
    sample = np.asarray(differences, dtype=np.float64)
    if sample.ndim != 1 or sample.size < 2:
        raise InvalidSample(f"{sample.size} difference(s) cannot be tested; give two or more.")
    if not np.isfinite(sample).all():
        raise InvalidSample("Some differences are not finite numbers; leave those pairs out.")
    return sample


def _scaled(differences: Sequence[float] | Sample) -> Sample:
    """The differences in units of the largest of them."""
    sample = _sample(differences)
    largest = np.abs(sample).max()
    return sample / largest if largest else sample


def _standard_error(sample: Sample) -> float:
    return float(sample.std(ddof=1) / np.sqrt(sample.size))


def _cluster_sums(
    values: Sequence[float] | Sample, clusters: Sequence[Hashable]
) -> tuple[Sample, Sample]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0 or not np.isfinite(sample).all():
        raise InvalidSample("There are no values, or some that are not finite numbers.")
    if len(clusters) != sample.size:
        raise InvalidSample(f"{sample.size} values, but the clusters of {len(clusters)}.")
    places: dict[Hashable, int] = {}
    index = [places.setdefault(cluster, len(places)) for cluster in clusters]
    return np.bincount(index, weights=sample), np.bincount(index).astype(np.float64)
