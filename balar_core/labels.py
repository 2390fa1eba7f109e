r"""Labels to probabilities (BALAR, section 2; units: none).

An oracle never says numbers; it says *labels*. A label map gives every label a positive weight
\(\phi\), and a row of labels becomes a distribution by normalising the weights:

$$p_i = \phi(\ell_i) \Big/ \sum_k \phi(\ell_k).$$

Rows of numbers are accepted wherever rows of labels are; they have to be a distribution already.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .errors import InvalidDistribution, InvalidEvidence, InvalidInput, InvalidLabel, InvalidTable
from .text import check_text

__all__ = ["DEFAULT_LABELS", "LabelMap", "Row", "Table", "evidence_weights"]

Row = tuple[str, ...] | tuple[float, ...]
"""One label, or one probability, per value (a prior) or per choice (a row of a table)."""
Table = tuple[Row, ...]
"""One `Row` per value of a dimension."""

SUM_TOLERANCE = 1e-5
"""How far a row of probabilities may be from summing to one before it is refused."""


def _share(weights: np.ndarray) -> np.ndarray:
    """Weights divided by their sum, which itself need not fit a float."""
    scaled = weights / weights.max()
    shares: np.ndarray = scaled / scaled.sum()
    return shares


def _nonnegative(
    row: Sequence[object] | np.ndarray, what: str, error: type[InvalidInput]
) -> np.ndarray:
    values = [_number(cell, f"entry {i} of {what}", error) for i, cell in enumerate(row)]
    for position, number in enumerate(values):
        if math.isnan(number) or math.isinf(number) or number < 0:
            raise error(
                f"Entry {position} of {what} is {number!r}; entries are finite and not negative."
            )
    return np.array(values, dtype=np.float64)


def _number(value: object, what: str, error: type[InvalidInput]) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, int | float | np.integer | np.floating
    ):
        raise error(f"{what} is {value!r}; a number is needed.")
    try:
        return float(value)
    except OverflowError:
        raise error(f"{what} is too large for a number of double precision.") from None


@dataclass(frozen=True)
class LabelMap:
    r"""A label map \(\phi\): label → positive weight.

    >>> DEFAULT_LABELS.distribution(("neutral", "likely")).round(3).tolist()
    [0.385, 0.615]
    >>> DEFAULT_LABELS.distribution(("likely", "neutral", "unlikely")).round(3).tolist()
    [0.533, 0.333, 0.133]
    """

    weights: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        if not self.weights:
            raise InvalidLabel("The label map is empty; give at least one label a positive weight.")
        names = [name for name, _ in self.weights]
        for name, weight in self.weights:
            check_text(name, "a label", error=InvalidLabel)
            number = _number(weight, f"the weight of label {name!r}", InvalidLabel)
            if not (number > 0 and math.isfinite(number)):
                raise InvalidLabel(
                    f"Label {name!r} has weight {weight!r}; weights of labels are positive and "
                    "finite. To rule something out exactly, give a row of numbers with a 0."
                )
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise InvalidLabel(f"Label {twice!r} stands twice in the label map; keep one of them.")

    @classmethod
    def of(cls, weights: "Mapping[str, float] | LabelMap") -> "LabelMap":
        """Make a label map from a mapping (or pass one through)."""
        if isinstance(weights, LabelMap):
            return weights
        if not isinstance(weights, Mapping):
            raise InvalidLabel(
                f"A label map is a mapping from label to weight, not {type(weights).__name__}."
            )
        return cls(tuple((k, v) for k, v in weights.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """The labels, in the order given."""
        return tuple(name for name, _ in self.weights)

    def distribution(
        self,
        row: Sequence[str] | Sequence[float] | np.ndarray,
        what: str = "the row",
        *,
        length: int | None = None,
    ) -> np.ndarray:
        """Turn one row of labels or of probabilities into a distribution.

        Args:
            row: labels (all strings), or probabilities that sum to one.
            what: the name of the row in messages.
            length: the number of entries it must have.

        Returns:
            A float64 vector of shape `(len(row),)` that sums to one.

        Raises:
            InvalidTable: the row is not a sequence, or has the wrong length.
            InvalidLabel: a label is not in the map, or labels and numbers are mixed.
            InvalidDistribution: a negative, infinite or missing number, or a sum other than one.
        """
        if isinstance(row, str | bytes | Mapping) or not isinstance(row, Sequence | np.ndarray):
            raise InvalidTable(f"{what} is {row!r}; it has to be a list of labels or numbers.")
        if length is not None and len(row) != length:
            raise InvalidTable(f"{what} has {len(row)} entries; {length} are needed, one for each.")
        if len(row) == 0:
            raise InvalidDistribution(f"{what} is empty; it needs at least one entry.")
        strings = [isinstance(cell, str) for cell in row]
        if all(strings):
            phi = dict(self.weights)
            for position, label in enumerate(row):
                if label not in phi:
                    raise InvalidLabel(
                        f"{what} has the label {label!r} at position {position}; the labels are "
                        f"{', '.join(map(repr, phi))}."
                    )
            return _share(np.array([phi[str(label)] for label in row], dtype=np.float64))
        if any(strings):
            raise InvalidLabel(f"{what} mixes labels and numbers ({list(row)!r}); use one kind.")
        numbers = _nonnegative(row, what, InvalidDistribution)
        total = float(numbers.sum())
        if total == 0:
            raise InvalidDistribution(f"{what} is all zero; at least one entry must be positive.")
        if abs(total - 1) > SUM_TOLERANCE:
            raise InvalidDistribution(
                f"{what} sums to {total:.6g}, not to 1 ({numbers.tolist()!r}); divide every entry "
                f"by {total:.6g} if they were meant as weights."
            )
        return _share(numbers)


DEFAULT_LABELS = LabelMap((("likely", 0.8), ("neutral", 0.5), ("unlikely", 0.2)))
"""The paper's label map: likely 0.8, neutral 0.5, unlikely 0.2."""


def evidence_weights(
    row: Sequence[str] | Sequence[float] | np.ndarray,
    choices: int,
    labels: LabelMap = DEFAULT_LABELS,
    what: str = "the evidence",
) -> np.ndarray:
    """Turn soft evidence over the choices of a question into weights that sum to one.

    Only the proportions of evidence matter, so numbers need not sum to one here: `[2, 0]` is
    `[1, 0]`. All zeros say that no choice is compatible with the reply and are refused.

    Returns:
        A float64 vector of shape `(choices,)`.

    Raises:
        InvalidEvidence: wrong length, or negative, infinite, missing or all-zero numbers.
        InvalidLabel: a label that is not in the map.

    >>> evidence_weights([2, 0], 2).tolist()
    [1.0, 0.0]
    """
    if isinstance(row, str | bytes | Mapping) or not isinstance(row, Sequence | np.ndarray):
        raise InvalidEvidence(f"{what} is {row!r}; it has to be a list of labels or numbers.")
    if len(row) != choices:
        raise InvalidEvidence(
            f"{what} has {len(row)} entries and the question has {choices} choices; give one each."
        )
    if all(isinstance(cell, str) for cell in row):
        return labels.distribution(row, what)
    numbers = _nonnegative(row, what, InvalidEvidence)
    if not numbers.any():
        raise InvalidEvidence(
            f"{what} is all zero: no choice fits the reply. If nothing was learned, give every "
            "choice the same weight."
        )
    return _share(numbers)
