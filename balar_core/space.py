r"""Dimensions and their product space (BALAR, section 1).

A `StateSpace` is the product \(\Theta = \Theta_1 \times \dots \times \Theta_D\) of finite
dimensions. States are counted in Python integers, never in machine integers.

Arrays over the space are *two-dimensional*: the dimensions are divided into a group of rows and
a group of columns whose sizes are as equal as possible, and state \(\theta\) sits at (row of its
row-group digits, column of its column-group digits). Everything that compiled code has to know
about this is in a `Layout` of index arrays, so that programs depend on the padded shapes alone:
neither names nor sizes cause a compilation.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from .errors import InvalidDimension, StateSpaceTooLarge
from .numerics import as_array, safe_log
from .rows import Shards
from .text import check_distinct, check_text

__all__ = ["Dimension", "Layout", "StateSpace", "bucket"]

DEFAULT_MAX_STATES = 50_000
"""The paper's cap on the number of joint states."""
MOST_STATES = 2**31 - 1
"""More states have no index in the arrays of a layout, whatever `max_states` says."""


@dataclass(frozen=True)
class Dimension:
    """One thing that is not yet known, with the values it can take.

    Attributes:
        name: the name of the dimension.
        values: at least two different values.
        note: a public word of explanation, shown on demand.

    Raises:
        InvalidDimension: no name, fewer than two values, empty or duplicate values.

    >>> Dimension("cause", ("tension", "migraine")).size
    2
    """

    name: str
    values: tuple[str, ...]
    note: str = ""

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a dimension", error=InvalidDimension)
        if not isinstance(self.values, tuple | list):
            raise InvalidDimension(
                f"The values of dimension {self.name!r} are {self.values!r}; give a tuple."
            )
        object.__setattr__(self, "values", tuple(self.values))
        if len(self.values) < 2:
            raise InvalidDimension(
                f"Dimension {self.name!r} has {len(self.values)} value(s); it needs at least two, "
                "or there is nothing to find out."
            )
        for position, value in enumerate(self.values):
            check_text(
                value, f"value {position} of dimension {self.name!r}", error=InvalidDimension
            )
        check_distinct(self.values, f"Dimension {self.name!r}: values", error=InvalidDimension)
        check_text(
            self.note, f"the note of dimension {self.name!r}", empty=True, error=InvalidDimension
        )

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.values)


def bucket(n: int, smallest: int, ratio: int = 4) -> int:
    """The smallest capacity of a geometric ladder that holds `n` things.

    Shapes that grow are padded to such a capacity, so that a growing dialogue meets only a handful
    of different shapes.

    >>> [bucket(n, 8) for n in (1, 8, 9, 33)]
    [8, 8, 32, 128]
    """
    capacity = smallest
    while capacity < n:
        capacity *= ratio
    return capacity


class Layout(eqx.Module):
    """Where every state of a space sits in a `(rows, columns)` array, as index arrays.

    Attributes:
        row_digits: shape `(rows, dimensions)`; the value index of each dimension of the row group,
            -1 for the other dimensions and for padding.
        column_digits: shape `(columns, dimensions)`; the same for the column group.
        row_mask: shape `(rows,)`; False for padding.
        column_mask: shape `(columns,)`; False for padding.
        row_index: shape `(rows,)`; the share of the row in the flat index of a state.
        column_index: shape `(columns,)`; flat index = `row_index[row] + column_index[column]`, the
            C order over the dimensions as they were given.
        value_mask: shape `(dimensions, values)`; False for padding.
        shards: how the rows are spread over devices; None on one device.
    """

    row_digits: Int[Array, "rows dimensions"]
    column_digits: Int[Array, "columns dimensions"]
    row_mask: Bool[Array, " rows"]
    column_mask: Bool[Array, " columns"]
    row_index: Int[Array, " rows"]
    column_index: Int[Array, " columns"]
    value_mask: Bool[Array, "dimensions values"]
    shards: Shards | None = eqx.field(static=True, default=None)

    @property
    def shape(self) -> tuple[int, int]:
        """`(rows, columns)`, padding included."""
        return self.row_mask.shape[-1], self.column_mask.shape[-1]

    @property
    def mask(self) -> Bool[Array, "rows columns"]:
        """True where a cell is a state, False where it is padding."""
        return self.row_mask[:, None] & self.column_mask[None, :]

    def log_states_less_one(self, dtype: jnp.dtype) -> Array:
        """`log(S - 1)` for the number of states S; -inf when there is one state."""
        rows = jnp.sum(self.row_mask, dtype=dtype)
        columns = jnp.sum(self.column_mask, dtype=dtype)
        return safe_log(rows * columns - 1)


@dataclass(frozen=True)
class StateSpace:
    """The product of finite dimensions.

    Args:
        dimensions: at least one `Dimension`; names differ.
        max_states: the cap on the number of joint states.

    Raises:
        InvalidDimension: no dimension, or duplicate names.
        StateSpaceTooLarge: more than `max_states` states; nothing has been allocated by then.

    >>> space = StateSpace.of(cause=["tension", "migraine"], severity=["low", "mid", "high"])
    >>> space.size, space.sizes, space.index({"cause": "migraine", "severity": "mid"})
    (6, (2, 3), 4)
    """

    dimensions: tuple[Dimension, ...]
    max_states: int = DEFAULT_MAX_STATES

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimensions", tuple(self.dimensions))
        if not self.dimensions:
            raise InvalidDimension("There is no dimension; at least one is needed.")
        for dimension in self.dimensions:
            if not isinstance(dimension, Dimension):
                raise InvalidDimension(f"{dimension!r} is not a Dimension.")
        check_distinct((d.name for d in self.dimensions), "Dimensions", error=InvalidDimension)
        if self.size > self.max_states:
            raise StateSpaceTooLarge(
                f"{' x '.join(map(str, self.sizes))} = {self.size:,} joint states need "
                f"{_bytes(4 * self.size)} in float32; the cap is {self.max_states:,} states. "
                "Drop a dimension, merge values, or raise max_states."
            )

    @classmethod
    def of(cls, *, max_states: int = DEFAULT_MAX_STATES, **values: Iterable[str]) -> Self:
        """A space from keyword arguments: name of the dimension → its values."""
        return cls(tuple(Dimension(k, tuple(v)) for k, v in values.items()), max_states)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each dimension."""
        return tuple(d.size for d in self.dimensions)

    @property
    def size(self) -> int:
        """The number S of joint states, an exact Python integer."""
        return math.prod(self.sizes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions."""
        return tuple(d.name for d in self.dimensions)

    def position(self, name: str) -> int:
        """The position of the dimension called `name`.

        Raises:
            InvalidDimension: no dimension has this name.
        """
        try:
            return self.names.index(name)
        except ValueError:
            raise InvalidDimension(
                f"There is no dimension {name!r}; the dimensions are "
                f"{', '.join(map(repr, self.names))}."
            ) from None

    def index(self, state: dict[str, str]) -> int:
        """The flat index (C order) of a state given as a mapping dimension → value.

        Raises:
            InvalidDimension: a dimension is missing or unknown, or a value is unknown.
        """
        for name in state:
            self.position(name)
        digits = []
        for dimension in self.dimensions:
            if dimension.name not in state:
                raise InvalidDimension(f"The state gives no value for {dimension.name!r}.")
            value = state[dimension.name]
            if value not in dimension.values:
                raise InvalidDimension(
                    f"{value!r} is not a value of {dimension.name!r}; its values are "
                    f"{', '.join(map(repr, dimension.values))}."
                )
            digits.append(dimension.values.index(value))
        return flat_index(digits, self.sizes)

    def state(self, index: int) -> dict[str, str]:
        """The state with the given flat index, as a mapping dimension → value."""
        if not 0 <= index < self.size:
            raise InvalidDimension(f"State {index} does not exist; there are {self.size:,} states.")
        digits: list[int] = []
        for size in reversed(self.sizes):
            index, digit = divmod(index, size)
            digits.append(digit)
        return {d.name: d.values[v] for d, v in zip(self.dimensions, reversed(digits), strict=True)}

    def with_dimension(self, dimension: Dimension) -> Self:
        """The space with one more dimension, at the end."""
        return type(self)((*self.dimensions, dimension), self.max_states)

    def layout(self, *, bucketed: bool = False) -> Layout:
        """The `Layout` of this space.

        Args:
            bucketed: pad every axis to a capacity (see `bucket`), so that spaces of similar size
                share compiled programs. Exact shapes otherwise.
        """
        return make_layout(self.sizes, bucketed=bucketed)


def flat_index(digits: Sequence[int], sizes: Sequence[int]) -> int:
    """The C-order index of mixed-radix `digits`, in Python integers."""
    index = 0
    for digit, size in zip(digits, sizes, strict=True):
        index = index * size + digit
    return index


def split_dimensions(sizes: Sequence[int]) -> tuple[bool, ...]:
    """Divide the dimensions into a row group (True) and a column group (False).

    The sides are made as equal as possible. All reachable products are tried; there are few, since
    groups of equal product are interchangeable.

    >>> split_dimensions((2, 8, 4))
    (True, False, True)
    """
    total = math.prod(sizes)
    reachable: dict[int, tuple[bool, ...]] = {1: ()}
    for size in sizes:
        step: dict[int, tuple[bool, ...]] = {}
        for product, chosen in reachable.items():
            step.setdefault(product * size, (*chosen, True))
            step.setdefault(product, (*chosen, False))
        reachable = step

    rows = min(reachable, key=lambda rows: (max(rows, total // rows), -rows))
    return reachable[rows]


def _sides(rows: int, columns: int) -> tuple[int, int]:
    """The capacities of a bucketed layout: powers of two from 16 (1 stays 1).

    Sides that differ by no more than a factor of two are made equal, so that a growing space
    meets one shape for every fourfold growth.
    """
    a, b = (1 if n == 1 else bucket(n, 16, 2) for n in (rows, columns))
    return (max(a, b),) * 2 if min(a, b) > 1 and max(a, b) <= 2 * min(a, b) else (a, b)


def dimension_capacity(count: int) -> int:
    """The capacity of the axis of dimensions: 1, 8, 16, 32, ..."""
    return 1 if count == 1 else bucket(count, 8, 2)


def make_layout(sizes: Sequence[int], *, bucketed: bool = False) -> Layout:
    """Build the index arrays of a space with the given sizes (see `StateSpace.layout`).

    Raises:
        StateSpaceTooLarge: more than `MOST_STATES` states; nothing has been allocated by then.
    """
    if math.prod(sizes) > MOST_STATES:
        raise StateSpaceTooLarge(
            f"{' x '.join(map(str, sizes))} = {math.prod(sizes):,} joint states are more than "
            f"{MOST_STATES:,}, the most that can be numbered. Drop a dimension or merge values."
        )
    chosen = np.array(split_dimensions(sizes), dtype=bool)
    count, widest = len(sizes), max(sizes)
    dims = dimension_capacity(count) if bucketed else count
    values = bucket(widest, 4, 2) if bucketed else widest
    strides = np.array([math.prod(sizes[j + 1 :]) for j in range(count)], dtype=np.int64)

    rows = math.prod(size for size, row in zip(sizes, chosen, strict=True) if row)
    columns = math.prod(sizes) // rows
    capacities = _sides(rows, columns) if bucketed else (rows, columns)

    def side(group: np.ndarray, capacity: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        members = np.flatnonzero(group).tolist()
        size = math.prod(sizes[j] for j in members)
        digits = np.full((capacity, dims), -1, dtype=np.int32)
        index = np.zeros(capacity, dtype=np.int64)
        if len(members):
            radix = np.stack(np.unravel_index(np.arange(size), [sizes[j] for j in members]), axis=1)
            digits[:size, members] = radix
            index[:size] = radix @ strides[members]
        return digits, np.arange(capacity) < size, index.astype(np.int32)

    row_digits, row_mask, row_index = side(chosen, capacities[0])
    column_digits, column_mask, column_index = side(~chosen, capacities[1])
    value_mask = np.zeros((dims, values), dtype=bool)
    for j, size in enumerate(sizes):
        value_mask[j, :size] = True
    return Layout(
        row_digits=as_array(row_digits),
        column_digits=as_array(column_digits),
        row_mask=as_array(row_mask),
        column_mask=as_array(column_mask),
        row_index=as_array(row_index),
        column_index=as_array(column_index),
        value_mask=as_array(value_mask),
    )


def _bytes(n: int) -> str:
    """A number of bytes in words."""
    size = float(n)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} PiB"
