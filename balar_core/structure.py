r"""Exact savings from structure: states that a question cannot tell apart are merged.

Values of a dimension whose rows are equal in the table of a (question, user) pair cannot be told
apart by that pair; a dimension whose rows are all equal does not matter to it (BALAR, section 3).
So the pair's answer depends on the *class* of the state alone, and its mutual information and
predicted answers are exactly those on the classes, with the belief summed over each class (see
`merged`).

The division into rows and columns survives: the class of a row is a function of the row, that of a
column of the column. This module looks at the values of tables, on the host, and plans which pairs
are merged and how. The shapes of a plan depend on the layout and on the number of pairs alone, so
that other tables of the same shape compile nothing.

Rows count as equal if their packed log tables are the same numbers: labels that are the same, or
probabilities that are the same after normalisation. Rows that differ by rounding alone stay apart,
which costs time and never exactness.
"""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Int

from .errors import InvalidSetting
from .numerics import as_array
from .space import Layout
from .tables import LikelihoodTables, check_fit

__all__ = ["Level", "Structure", "find_structure"]

SMALLEST = 2**14
"""Cells of a layout below which scoring is instant, whatever the tables are."""
SIDES = (4, 16, 64, 256)
"""Classes of rows, and of columns, that a merged pair may have."""
BLOCK = 128
"""Sums over rows that are made in one product."""
CHUNK_CELLS = 2**18
"""Cells of the matrices by which the columns of a chunk of pairs are summed."""
PRODUCT_COST = 1 / 100
"""A multiplication in a matrix product, in units of scoring one cell as ever."""
CELL_COST = 16
"""Scoring one merged cell, in the same units."""
LEAST_SHARE = 0.2
"""Share of the cost that has to be saved for another compiled program to be worth it."""


class Level(eqx.Module):
    """Merged pairs of one capacity, in chunks that are scored together; -1 in padding.

    Attributes:
        pair: position of each pair, counted over questions x users.
        row_sum: which sum over rows belongs to each class of rows.
        row: a row of each class.
        column: a column of each class.
        column_class: the class of each column.
    """

    pair: Int[Array, "chunks pairs"]
    row_sum: Int[Array, "chunks pairs side"]
    row: Int[Array, "chunks pairs side"]
    column: Int[Array, "chunks pairs side"]
    column_class: Int[Array, "chunks pairs columns"]


class Structure(eqx.Module):
    """What the pairs cannot tell apart: the plan by which they are scored on merged states.

    Attributes:
        merged: shape `(pairs,)`; the pairs that are scored on merged states.
        in_class: shape `(blocks, classes, rows)`; which rows each sum over rows takes in.
        levels: the merged pairs by capacity.
    """

    merged: Bool[Array, " pairs"]
    in_class: Bool[Array, "blocks classes rows"]
    levels: tuple[Level, ...]

    @classmethod
    def of(
        cls, layout: Layout, tables: LikelihoodTables, sides: Sequence[int] | None = None
    ) -> Self | None:
        """Find the structure of tables, on the host.

        Args:
            layout: where the states sit.
            tables: the tables; their values have to be known (not traced).
            sides: capacities for the classes of rows and of columns, smallest first; pairs that
                fit one are merged then whether it pays or not, as far as there is room for the
                sums over rows. Chosen by what pays by default.

        Returns:
            The structure, or None where it would not pay.

        Raises:
            InvalidTable: tables of another space.
            InvalidSetting: capacities that are not positive and ascending.

        >>> from balar_core.space import StateSpace
        >>> space = StateSpace.of(cause=["a", "b", "c"], place=["x", "y"])
        >>> table = [[0.8, 0.2], [0.2, 0.8], [0.8, 0.2]]  # a and c cannot be told apart
        >>> tables = LikelihoodTables.build(space, [2], {(0, 0): [table, None]})
        >>> Structure.of(space.layout(), tables) is None  # six states are scored in no time
        True
        >>> Structure.of(space.layout(), tables, sides=[2]).merged.tolist()
        [True]
        """
        check_fit(layout, tables.log_tables)
        capacities = _worthwhile_sides(layout.shape) if sides is None else _checked(sides)
        if not capacities:
            return None
        first, usable = _first_equal(layout, tables)
        plan = _Plan(
            capacities,
            _Classes(first, layout.row_digits, layout.row_mask),
            _Classes(first, layout.column_digits, layout.column_mask),
        )
        kept = plan.choose(usable, whether_it_pays_or_not=sides is not None)
        if kept is None:
            return None
        row_sums = plan.row_sums(kept)
        levels = tuple(plan.level(side, kept, row_sums.start) for side in capacities)
        return cls(as_array(kept), as_array(row_sums.in_class), levels)


def find_structure(layout: Layout, tables: LikelihoodTables) -> Structure | None:
    """The structure of tables, if it pays; looked for once per table set and then remembered.

    None as well where it cannot be looked for: traced or batched tables, NumPy arrays (they may
    change), and beliefs that are spread over devices; and on accelerators, where `Structure.of`
    finds it on request, but what it saves has not been measured.

    Raises:
        InvalidTable: tables of another space.
    """
    leaves = jax.tree.leaves((layout, tables))
    known = all(isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer) for x in leaves)
    if not known or layout.shards is not None or tables.valid.ndim != 2:
        return None
    if not _worthwhile_sides(layout.shape) or _platform(tables.log_tables) != "cpu":
        return None
    return _remembered(layout, tables)


def _platform(x: Array) -> str:
    name: str = next(iter(x.devices())).platform
    return name


@dataclass(frozen=True)
class _Memory:
    """The structure found for some tables, and for what else it was found.

    Attributes:
        tables: the log tables, as long as anyone has them.
        rest: the contents of the layout and the masks.
        structure: what was found.
    """

    tables: weakref.ref[Array]
    rest: tuple[bytes, ...]
    structure: Structure | None


_memories: dict[int, _Memory] = {}
"""By the identity of log tables, which never change; forgotten together with them."""


def _remembered(layout: Layout, tables: LikelihoodTables) -> Structure | None:
    key = id(tables.log_tables)
    small = *jax.tree.leaves(layout), tables.choice_mask, tables.valid
    rest = tuple(np.asarray(x).tobytes() for x in small)
    memory = _memories.get(key)
    if memory is None or memory.tables() is not tables.log_tables or memory.rest != rest:
        held = weakref.ref(tables.log_tables, lambda _: _memories.pop(key, None))
        memory = _memories[key] = _Memory(held, rest, Structure.of(layout, tables))
    return memory.structure


class _Classes:
    """How each pair merges the rows (or the columns) of a layout.

    Attributes:
        cells: how many rows there are, padding included.
        count: shape `(pairs,)`; how many classes of rows each pair tells apart.
        key: shape `(pairs, entries)`; pairs of equal keys merge the rows in the same way.
    """

    def __init__(self, first: np.ndarray, row_digits: Array, row_mask: Array) -> None:
        """Count the classes.

        Args:
            first: shape `(pairs, dimensions, values)`; see `_first_equal`.
            row_digits: `Layout.row_digits` or `Layout.column_digits`.
            row_mask: False for padding.
        """
        digits, mask = np.asarray(row_digits), np.asarray(row_mask)
        members = np.flatnonzero(digits[0] >= 0)
        self._digits = digits[mask][:, members]
        self._sizes = self._digits.max(axis=0) + 1
        self.cells = len(mask)
        pairs, _, values = first.shape
        self._values = values
        own = first[:, members]
        leads = (own == np.arange(values)) & (np.arange(values) < self._sizes[:, None])
        self.count = leads.sum(axis=2).prod(axis=1)
        self.key = own.reshape(pairs, len(members) * values)

    def of_cells(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The classes of some pairs.

        Returns:
            The class of each row, shape `(pairs, rows)`, -1 in padding; and a row of each class,
            shape `(pairs, rows)`, in the order of the classes, which come first.
        """
        merge = self.key[pairs].reshape(len(pairs), len(self._sizes), self._values)
        # The first row of a class has, in every dimension, the first of the equal values.
        leader = np.zeros((len(pairs), len(self._digits)), dtype=np.int64)
        for j, (digit, size) in enumerate(zip(self._digits.T, self._sizes, strict=True)):
            leader = leader * size + merge[:, j, digit]
        leads = leader == np.arange(len(self._digits))
        number = np.cumsum(leads, axis=1) - 1
        of_cell = np.full((len(pairs), self.cells), -1)
        of_cell[:, : len(self._digits)] = np.take_along_axis(number, leader, axis=1)
        return of_cell, np.argsort(~leads, axis=1, kind="stable")


@dataclass(frozen=True)
class _RowSums:
    """The sums over rows that are made.

    Attributes:
        start: shape `(pairs,)`; where the sums of a pair's classes start.
        in_class: `Structure.in_class`.
    """

    start: np.ndarray
    in_class: np.ndarray


@dataclass(frozen=True)
class _Plan:
    """Which pairs to merge, and where.

    Attributes:
        sides: the capacities.
        rows: the classes of rows.
        columns: the classes of columns.
    """

    sides: tuple[int, ...]
    rows: _Classes
    columns: _Classes

    @property
    def side(self) -> np.ndarray:
        """The capacity that each pair needs; 0 if none is large enough."""
        most = np.maximum(self.rows.count, self.columns.count)
        needed: np.ndarray = np.array([*self.sides, 0])[np.searchsorted(self.sides, most)]
        return needed

    @property
    def room(self) -> int:
        """The most sums over rows, a multiple of `BLOCK`."""
        return int(np.clip(8 * self.rows.cells, 1024, 4096))

    def choose(self, usable: np.ndarray, *, whether_it_pays_or_not: bool) -> np.ndarray | None:
        """The pairs to merge, or None if all of it saves too little.

        Pairs that share their sums over rows are taken together, the best first, while there is
        room for the sums.
        """
        cells = self.rows.cells * self.columns.cells
        side = self.side
        gains = cells - side**2 * (CELL_COST + PRODUCT_COST * self.columns.cells)
        if whether_it_pays_or_not:
            gains = np.full(gains.shape, np.inf)
        fits = np.flatnonzero(usable & (side > 0) & (gains > 0))
        least = LEAST_SHARE * cells * np.count_nonzero(usable)
        if not len(fits) or gains[fits].sum() < least:
            return None
        _, sample, way = np.unique(
            self.rows.key[fits], axis=0, return_index=True, return_inverse=True
        )
        count = self.rows.count[fits[sample]]
        per_way = np.bincount(way.ravel(), gains[fits]) - PRODUCT_COST * count * cells
        order = np.argsort(-per_way / count, kind="stable")
        kept_ways = np.zeros(len(count), dtype=bool)
        kept_ways[order] = (np.cumsum(count[order]) <= self.room) & (per_way[order] > 0)
        if per_way[kept_ways].sum() < least or not kept_ways.any():
            return None
        kept = np.zeros(len(usable), dtype=bool)
        kept[fits[kept_ways[way.ravel()]]] = True
        return kept

    def row_sums(self, kept: np.ndarray) -> _RowSums:
        """Lay out the sums over rows: once for all pairs that merge the rows in the same way."""
        pairs = np.flatnonzero(kept)
        _, sample, way = np.unique(
            self.rows.key[pairs], axis=0, return_index=True, return_inverse=True
        )
        classes, _ = self.rows.of_cells(pairs[sample])
        ends = np.cumsum(self.rows.count[pairs[sample]])
        starts = ends - self.rows.count[pairs[sample]]
        in_class = np.zeros((self.room, self.rows.cells), dtype=bool)
        ways, cells = np.nonzero(classes >= 0)
        in_class[starts[ways] + classes[ways, cells], cells] = True
        start = np.zeros(len(kept), dtype=np.int64)
        start[pairs] = starts[way.ravel()]
        return _RowSums(start, in_class.reshape(-1, BLOCK, self.rows.cells))

    def level(self, side: int, kept: np.ndarray, start: np.ndarray) -> Level:
        """The merged pairs of one capacity."""
        total = len(kept)
        size = max(1, min(total, CHUNK_CELLS // (side * max(side, self.columns.cells))))
        chunks = -(-total // size)
        pairs = np.flatnonzero(kept & (self.side == side))

        def pack(x: np.ndarray) -> Array:
            padded = np.full((chunks * size, *x.shape[1:]), -1, dtype=np.int32)
            padded[: len(x)] = x
            return as_array(padded.reshape(chunks, size, *x.shape[1:]))

        def first_of(examples: np.ndarray, count: np.ndarray) -> np.ndarray:
            found = np.full((len(pairs), side), -1)
            found[:, : examples.shape[1]] = examples[:, :side]
            return np.where(np.arange(side) < count[:, None], found, -1)

        _, rows = self.rows.of_cells(pairs)
        column_class, columns = self.columns.of_cells(pairs)
        row = first_of(rows, self.rows.count[pairs])
        return Level(
            pair=pack(pairs),
            row_sum=pack(np.where(row >= 0, start[pairs, None] + np.arange(side), -1)),
            row=pack(row),
            column=pack(first_of(columns, self.columns.count[pairs])),
            column_class=pack(column_class),
        )


def _worthwhile_sides(shape: tuple[int, int]) -> tuple[int, ...]:
    cells = shape[0] * shape[1]
    if cells < SMALLEST:
        return ()
    return tuple(side for side in SIDES if 2 * CELL_COST * side**2 <= cells)


def _checked(sides: Sequence[int]) -> tuple[int, ...]:
    ascending = all(a < b for a, b in pairwise(sides))
    if not len(sides) or sides[0] < 1 or not ascending:
        raise InvalidSetting(f"sides are {list(sides)}; give positive numbers, smallest first.")
    return tuple(sides)


def _first_equal(layout: Layout, tables: LikelihoodTables) -> tuple[np.ndarray, np.ndarray]:
    """For every value the first value whose row is equal, and the pairs that can be merged at all.

    Returns:
        Shapes `(pairs, dimensions, values)` and `(pairs,)`. A pair cannot be merged if it does not
        exist or if one of its entries is not a number.
    """
    questions, users = tables.valid.shape
    logs = np.asarray(tables.log_tables)
    logs = logs.reshape(questions * users, *logs.shape[2:])
    present = np.repeat(np.asarray(tables.choice_mask), users, axis=0)
    value_mask = np.asarray(layout.value_mask)
    logs = np.where(value_mask[:, :, None] & present[:, None, None, :], logs, 0)
    logs += 0.0  # there is one zero
    usable = np.asarray(tables.valid).ravel() & ~np.isnan(logs).any(axis=(1, 2, 3))
    keys = _row_keys(logs)
    order = np.argsort(keys, axis=2, kind="stable")
    ordered = np.take_along_axis(keys, order, axis=2)
    starts = np.ones(keys.shape, dtype=bool)
    starts[:, :, 1:] = ordered[:, :, 1:] != ordered[:, :, :-1]
    position = np.maximum.accumulate(np.where(starts, np.arange(keys.shape[2]), 0), axis=2)
    first = np.empty_like(order)
    np.put_along_axis(first, order, np.take_along_axis(order, position, axis=2), axis=2)
    # Should different rows have equal keys, then all but the first stay by themselves.
    same = (np.take_along_axis(logs, first[:, :, :, None], axis=2) == logs).all(axis=3)
    first = np.where(same, first, np.arange(keys.shape[2]))
    return np.where(value_mask, first, 0), usable


def _row_keys(rows: np.ndarray) -> np.ndarray:
    """A number for each row (last axis) that is the same for equal rows."""
    bits = rows.view(f"u{rows.itemsize}").astype(np.uint64)
    bits ^= bits >> np.uint64(32)
    factors = np.random.default_rng(0).integers(2**64, size=rows.shape[-1], dtype=np.uint64)
    keys: np.ndarray = (bits * (factors | np.uint64(1))).sum(axis=-1, dtype=np.uint64)
    return keys
