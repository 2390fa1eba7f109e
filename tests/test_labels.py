"""Labels and numbers become distributions; what is neither is refused with its place."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import DEFAULT_LABELS, LabelMap, evidence_weights
from balar_core.errors import (
    InvalidDistribution,
    InvalidEvidence,
    InvalidInput,
    InvalidLabel,
    InvalidTable,
)


def test_labels_of_the_running_example() -> None:
    assert DEFAULT_LABELS.distribution(("neutral", "likely")).round(3).tolist() == [0.385, 0.615]
    row = DEFAULT_LABELS.distribution(("likely", "neutral", "unlikely"))
    assert row.round(3).tolist() == [0.533, 0.333, 0.133]


@pytest.mark.parametrize("row", [[0.04, 0.04, 0.82, 0.1], np.full(10, 0.1, dtype=np.float32)])
def test_rows_that_sum_to_one_but_for_rounding_are_taken_and_sum_to_one_after(
    row: list[float] | np.ndarray,
) -> None:
    found = DEFAULT_LABELS.distribution(row)
    assert found.sum() == pytest.approx(1, abs=1e-15)
    np.testing.assert_allclose(found, row, rtol=1e-6)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([0.6, 0.6], "sums to 1.2"),
        ([-0.1, 0.6, 0.5], "Entry 0 of table 7, row 2 is -0.1"),
        ([math.nan, 0.5], "Entry 0 of table 7, row 2 is nan"),
        ([math.inf, 0], "Entry 0 of table 7, row 2 is inf"),
        ([0, 0], "all zero"),
        ([], "is empty"),
        ([True, False], "entry 0 of table 7, row 2 is True"),
        ([0.5, None], "entry 1 of table 7, row 2 is None"),
        ([10**400, 0], "too large"),
    ],
)
def test_rows_that_are_no_distribution_are_refused_with_their_place(
    row: list[object], words: str
) -> None:
    with pytest.raises(InvalidDistribution, match="table 7, row 2") as caught:
        DEFAULT_LABELS.distribution(row, "table 7, row 2")  # type: ignore[arg-type]
    assert words in str(caught.value)


@pytest.mark.parametrize("row", ["likely", b"ab", {"likely": 1}, 0.5, None])
def test_row_that_is_no_list_is_refused(row: object) -> None:
    with pytest.raises(InvalidTable, match="list of labels or numbers"):
        DEFAULT_LABELS.distribution(row)  # type: ignore[arg-type]


def test_row_of_another_length_is_refused() -> None:
    with pytest.raises(InvalidTable, match="has 2 entries; 3 are needed"):
        DEFAULT_LABELS.distribution(("likely", "likely"), length=3)


def test_label_outside_the_map_is_refused_with_the_labels_there_are() -> None:
    with pytest.raises(InvalidLabel, match=r"'maybe' at position 1.*'likely', 'neutral'"):
        DEFAULT_LABELS.distribution(("likely", "maybe"))
    with pytest.raises(InvalidLabel, match="mixes labels and numbers"):
        DEFAULT_LABELS.distribution(("likely", 0.5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({}, "empty"),
        ({"yes": 0.0}, "positive"),
        ({"yes": -1.0}, "positive"),
        ({"yes": math.nan}, "positive"),
        ({"yes": math.inf}, "positive"),
        ({"yes": True}, "a number is needed"),
        ({"yes": "1"}, "a number is needed"),
        ({"": 1.0}, "a label is empty"),
        ({1: 1.0}, "names are strings"),
    ],
)
def test_label_maps_that_cannot_be_used_are_refused(weights: dict[str, float], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        LabelMap.of(weights)


def test_label_that_stands_twice_is_refused() -> None:
    with pytest.raises(InvalidLabel, match="'yes' stands twice"):
        LabelMap((("yes", 1.0), ("yes", 2.0)))


def test_only_proportions_of_label_weights_count_however_large_they_are() -> None:
    labels = LabelMap.of({"huge": 1.5e308, "less": 0.5e308})
    assert labels.distribution(("huge", "less")).tolist() == pytest.approx([0.75, 0.25])
    assert labels.distribution(("huge", "huge")).tolist() == [0.5, 0.5]


def test_evidence_is_taken_by_its_proportions() -> None:
    assert evidence_weights([2, 0], 2).tolist() == [1, 0]
    assert evidence_weights([0.7, 0.2], 2).tolist() == pytest.approx([7 / 9, 2 / 9])
    assert evidence_weights([1e308, 1e308], 2).tolist() == [0.5, 0.5]
    assert evidence_weights(("likely", "unlikely"), 2).tolist() == pytest.approx([0.8, 0.2])


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([0, 0], "all zero"),
        ([1.0], "has 1 entries and the question has 2 choices"),
        ([1.0, 0.0, 0.0], "has 3 entries"),
        ([-1, 2], "finite and not negative"),
        ([math.nan, 1], "finite and not negative"),
        ([math.inf, 1], "finite and not negative"),
        ([True, False], "a number is needed"),
        (["likely", 1.0], "a number is needed"),
        ("ab", "list of labels or numbers"),
    ],
)
def test_evidence_that_does_not_fit_is_refused(row: object, words: str) -> None:
    with pytest.raises(InvalidEvidence, match=words):
        evidence_weights(row, 2)  # type: ignore[arg-type]


@given(st.lists(st.floats(0, 1e300), min_size=2, max_size=6).filter(any))
def test_evidence_always_sums_to_one(row: list[float]) -> None:
    found = evidence_weights(row, len(row))
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert bool(np.isfinite(found).all())
