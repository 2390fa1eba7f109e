"""Columns of a table as questions: which choices a column offers, and which one each cell is."""

import bisect
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from balar_core.text import canonical

__all__ = ["Attribute", "Useless", "make_attribute"]

TRUTH = [("0", "1"), ("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t")]
"""Pairs of values that are read as no and yes."""


@dataclass(frozen=True)
class Attribute:
    """A column that can be asked about.

    Attributes:
        name: the name of the column.
        choices: its different values, in order.
        codes: for each row the position of its choice; None where the cell is empty.
        note: a remark on how the choices were made; may be empty.
    """

    name: str
    choices: tuple[str, ...]
    codes: tuple[int | None, ...]
    note: str = ""


@dataclass(frozen=True)
class Useless:
    """A column that cannot be asked about, and why."""

    note: str


def make_attribute(
    name: str, cells: Sequence[str], *, max_choices: int = 12, bins: int = 4
) -> Attribute | Useless:
    """Find the choices that a column offers.

    - 0 and 1, no and yes, false and true (n and y, f and t) become `no` and `yes`;
    - numbers are sorted as numbers; if there are more than `max_choices` different ones, they are
      divided into at most `bins` ranges that hold about equally many rows, such as `2 to 4`;
    - texts are sorted so that `item 9` comes before `item 10`; texts that differ only in case and
      invisible marks are one; a column with more than `max_choices` different ones is of no use.

    Args:
        name: the name of the column.
        cells: one text per row; an empty one means that the value is not known.
        max_choices: how many choices a question may offer.
        bins: how many ranges numbers are divided into.

    >>> make_attribute("legs", ["4", "2", "", "4"]).choices
    ('2', '4')
    >>> make_attribute("eats meat", ["1", "0", "1", "1"]).codes
    (1, 0, 1, 1)
    """
    keys = [canonical(cell) for cell in cells]
    known = {key: cell for key, cell in zip(reversed(keys), reversed(cells), strict=True) if key}
    if not known:
        return Useless(f"Column {name!r} is empty; it is left out.")
    numbers = {key: _number(key) for key in known}
    if all(number is not None for number in numbers.values()):
        values = [None if not key else numbers[key] for key in keys]
        if not known.keys() <= {"0", "1"}:
            return _numeric(name, cells, values, max_choices, bins)
    if len(known) == 1:
        return _constant(name, next(iter(known.values())))
    for pair in TRUTH:
        if known.keys() <= set(pair):
            return Attribute(name, ("no", "yes"), _codes(keys, pair))
    if len(known) > max_choices:
        return Useless(
            f"Column {name!r} holds {len(known)} different texts, more than the {max_choices} "
            "choices a question may have; it is left out."
        )
    order = sorted(known, key=_natural)
    return Attribute(name, tuple(known[key] for key in order), _codes(keys, order))


def _numeric(
    name: str, cells: Sequence[str], values: Sequence[float | None], max_choices: int, bins: int
) -> Attribute | Useless:
    pairs = [(value, cell) for value, cell in zip(values, cells, strict=True) if value is not None]
    spelled = dict(reversed(pairs))
    order = sorted(spelled)
    if len(order) == 1:
        return _constant(name, spelled[order[0]])
    if len(order) <= max_choices:
        return Attribute(name, tuple(spelled[value] for value in order), _codes(values, order))
    groups = _ranges(sorted(value for value, _ in pairs), bins)
    choices = tuple(
        spelled[low] if low == high else f"{spelled[low]} to {spelled[high]}"
        for low, high in groups
    )
    highs = [high for _, high in groups]
    codes = tuple(None if v is None else bisect.bisect_left(highs, v) for v in values)
    note = f"Column {name!r} holds {len(order)} different numbers; they are divided into ranges."
    return Attribute(name, choices, codes, note)


def _ranges(values: Sequence[float], bins: int) -> list[tuple[float, float]]:
    """Cut sorted values into ranges of about equal counts; equal values stay together.

    >>> _ranges([1, 2, 3, 3, 3, 3, 4, 9], 4)
    [(1, 2), (3, 3), (4, 9)]
    """
    groups: dict[int, list[float]] = {}
    for value in values:
        below = bisect.bisect_left(values, value)
        middle = (below + bisect.bisect_right(values, value)) / 2
        groups.setdefault(int(bins * middle / len(values)), []).append(value)
    return [(group[0], group[-1]) for _, group in sorted(groups.items())]


def _constant(name: str, value: str) -> Useless:
    return Useless(f"Column {name!r} holds nothing but {value!r}, which tells nothing; left out.")


def _codes(keys: Sequence[object], order: Sequence[object]) -> tuple[int | None, ...]:
    position = {key: i for i, key in enumerate(order)}
    return tuple(position.get(key) for key in keys)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


def _natural(text: str) -> list[tuple[float, str]]:
    """A key that sorts digits inside a text as numbers.

    >>> sorted(["item 10", "item 9", "5"], key=_natural)
    ['5', 'item 9', 'item 10']
    """
    parts = re.findall(r"\d+|\D+", text)
    return [(float(part), "") if part.isdecimal() else (math.inf, part) for part in parts]
