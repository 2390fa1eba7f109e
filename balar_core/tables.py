r"""Likelihood tables of all (question, user) pairs (BALAR, section 3).

For question q, user u and dimension j the table \(L_{q,u,j}(y \mid \theta_j)\) says how likely
each choice y is given the value of that dimension alone. The state likelihood is the product of
experts, renormalised over the choices:

$$K_{q,u}(y \mid \theta) = \prod_j L_{q,u,j}(y \mid \theta_j) \Big/ Z(\theta).$$

A dimension whose rows are all equal does not matter. Zeros are legal, as long as no state makes
every choice impossible.
"""

from collections.abc import Mapping, Sequence
from typing import Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .errors import AlreadyAsked, InvalidQuestion, InvalidSetting, InvalidTable, UnknownPair
from .labels import DEFAULT_LABELS, LabelMap, Table
from .numerics import as_array
from .space import Layout, StateSpace, bucket, dimension_capacity

__all__ = [
    "LikelihoodTables",
    "check_fit",
    "check_possible",
    "group_log_likelihood",
    "table_array",
]


class LikelihoodTables(eqx.Module):
    """The log tables of all pairs, padded and masked, and which pairs were asked.

    Attributes:
        log_tables: shape `(questions, users, dimensions, values, choices)`; 0 in padding and for
            dimensions that do not matter.
        choice_mask: shape `(questions, choices)`; False for padding.
        valid: shape `(questions, users)`; True for pairs that exist.
        asked: shape `(questions, users)`; True for pairs that have been asked.
    """

    log_tables: Float[Array, "questions users dimensions values choices"]
    choice_mask: Bool[Array, "questions choices"]
    valid: Bool[Array, "questions users"]
    asked: Bool[Array, "questions users"]

    @classmethod
    def build(
        cls,
        space: StateSpace,
        choices: Sequence[int],
        tables: Mapping[tuple[int, int], Sequence[Table | np.ndarray | None]],
        *,
        users: int = 1,
        asked: Sequence[tuple[int, int]] = (),
        labels: LabelMap = DEFAULT_LABELS,
        noise: float = 0.0,
        bucketed: bool = False,
        names: Sequence[str] | None = None,
        user_names: Sequence[str] | None = None,
    ) -> Self:
        """Validate and pack tables.

        Args:
            space: the state space.
            choices: the number of choices of each question.
            tables: for each pair `(question, user)`, one table per dimension of `space`, in order:
                a row of labels or probabilities per value, one entry per choice; or `None` where
                the dimension does not matter. Pairs left out do not exist.
            users: how many users there are.
            asked: pairs that have been asked.
            labels: the label map.
            noise: share of answers taken to be uniformly random: every given table L becomes
                `(1 - noise) L + noise / choices`.
            bucketed: pad to capacities, to share compiled programs (see `StateSpace.layout`).
            names: the texts of the questions, for messages.
            user_names: the names of the users, for messages.

        Raises:
            InvalidQuestion: a question with fewer than two choices.
            UnknownPair: a table or an asked pair outside the questions and users.
            InvalidTable: a table of the wrong shape, or a state that makes all choices impossible.
            InvalidLabel, InvalidDistribution: a bad row.

        >>> space = StateSpace.of(cause=["a", "b"], place=["x", "y", "z"])
        >>> given = [[[0.8, 0.2], [0.2, 0.8]], None]
        >>> LikelihoodTables.build(space, [2], {(0, 0): given}).log_tables.shape
        (1, 1, 2, 3, 2)
        """
        if not 0 <= noise <= 1:
            raise InvalidSetting(f"noise is {noise!r}; it is a share from 0 to 1.")
        for question, count in enumerate(choices):
            if count < 2:
                raise InvalidQuestion(f"Question {question} has {count} choice(s); two are needed.")
        sizes = space.sizes
        questions, dims, values = len(choices), len(sizes), max(sizes)
        widest = max(choices, default=2)
        if bucketed:
            questions = bucket(questions, 16)
            users_capacity = bucket(users, 1, 2)
            dims = dimension_capacity(dims)
            values, widest = bucket(values, 4, 2), bucket(widest, 4, 2)
        else:
            users_capacity = users
        log_tables = np.zeros((questions, users_capacity, dims, values, widest))
        valid = np.zeros((questions, users_capacity), dtype=bool)
        for (question, user), given in tables.items():
            _check_pair(question, user, len(choices), users)
            count = choices[question]
            shown = f"{question}" if names is None else f"{names[question]!r}"
            who = f"{user}" if user_names is None else f"{user_names[user]!r}"
            where = f"question {shown}, user {who}"
            if len(given) != len(sizes):
                raise InvalidTable(
                    f"{where}: {len(given)} tables for {len(sizes)} dimensions; give one per "
                    "dimension, None where it does not matter."
                )
            arrays = [
                None
                if table is None
                else table_array(
                    table, d.size, count, labels, f"{where}, dimension {d.name!r}", noise=noise
                )
                for table, d in zip(given, space.dimensions, strict=True)
            ]
            check_possible(space, arrays, where)
            with np.errstate(divide="ignore"):
                for j, array in enumerate(arrays):
                    if array is not None:
                        log_tables[question, user, j, : sizes[j], :count] = np.log(array)
            valid[question, user] = True
        was_asked = np.zeros_like(valid)
        for question, user in asked:
            _check_pair(question, user, len(choices), users)
            was_asked[question, user] = True
        choice_mask = np.zeros((questions, widest), dtype=bool)
        for question, count in enumerate(choices):
            choice_mask[question, :count] = True
        return cls(
            log_tables=as_array(log_tables, float),
            choice_mask=as_array(choice_mask),
            valid=as_array(valid),
            asked=as_array(was_asked),
        )

    @property
    def open(self) -> Bool[Array, "questions users"]:
        """The pairs that exist and have not been asked."""
        return self.valid & ~self.asked

    def check_pair(self, question: Int[Array, ""] | int, user: Int[Array, ""] | int) -> None:
        """Refuse positions outside the tables, as far as they are plain integers.

        Traced positions pass: what they will be is not known yet.

        Raises:
            UnknownPair: there is no such pair.
        """
        questions, users = self.valid.shape[-2:]
        _check_pair(
            int(question) if isinstance(question, int | np.integer) else 0,
            int(user) if isinstance(user, int | np.integer) else 0,
            questions,
            users,
        )

    def mark_asked(self, question: int, user: int) -> Self:
        """The tables with one more pair marked as asked.

        Raises:
            UnknownPair: there is no such pair.
            AlreadyAsked: it was asked before.
        """
        questions, users = self.valid.shape
        _check_pair(question, user, questions, users)
        if not np.asarray(self.valid)[question, user]:
            raise UnknownPair(f"Question {question} cannot be put to user {user}: no tables.")
        asked = np.array(self.asked)
        if asked[question, user]:
            raise AlreadyAsked(f"Question {question} was put to user {user} before.")
        asked[question, user] = True
        marked: Self = eqx.tree_at(lambda t: t.asked, self, as_array(asked))
        return marked


def table_array(
    table: Table | np.ndarray,
    values: int,
    choices: int,
    labels: LabelMap,
    what: str,
    *,
    noise: float = 0.0,
) -> np.ndarray:
    """One table as a float64 array of shape `(values, choices)` whose rows sum to one.

    Raises:
        InvalidTable: the wrong number of rows or entries.
        InvalidLabel, InvalidDistribution: a bad row.
    """
    if isinstance(table, str | Mapping) or not isinstance(table, Sequence | np.ndarray):
        raise InvalidTable(f"{what}: the table is {table!r}; give a list of rows, one per value.")
    if len(table) != values:
        raise InvalidTable(
            f"{what}: the table has {len(table)} rows for {values} values; give one row per value."
        )
    rows = [
        labels.distribution(row, f"{what}, row {i}", length=choices) for i, row in enumerate(table)
    ]
    return (1 - noise) * np.stack(rows) + noise / choices


def check_possible(space: StateSpace, tables: Sequence[np.ndarray | None], where: str) -> None:
    """Refuse tables whose zeros leave some state without any possible choice.

    Works on the patterns of zeros alone, so that its cost does not grow with the space.

    Raises:
        InvalidTable: the message names up to four such states.
    """
    kept = 4
    # possible choices (as a bit mask) -> examples of partial states {dimension: value}
    reached: dict[int, list[dict[str, str]]] = {-1: [{}]}
    for dimension, table in zip(space.dimensions, tables, strict=True):
        if table is None or table.all():
            continue
        patterns = [sum(1 << y for y in np.flatnonzero(row).tolist()) for row in table]
        step: dict[int, list[dict[str, str]]] = {}
        for mask, examples in reached.items():
            for value, pattern in zip(dimension.values, patterns, strict=True):
                found = step.setdefault(mask & pattern, [])
                found.extend({**e, dimension.name: value} for e in examples[: kept - len(found)])
        reached = step
    if 0 in reached:
        states = "; ".join(
            ", ".join(f"{name}={value!r}" for name, value in state.items()) for state in reached[0]
        )
        raise InvalidTable(
            f"{where}: every choice is impossible in the states with {states}. The zeros of the "
            "tables contradict each other there; mend them, or give a noise above 0."
        )


def check_fit(layout: Layout, log_tables: Float[Array, "*pairs dimensions values choices"]) -> None:
    """Refuse tables whose dimensions and values are not those of a layout; nothing broadcasts.

    Raises:
        InvalidTable: the shapes differ.
    """
    needed, found = layout.value_mask.shape, log_tables.shape[-3:-1]
    if needed != found:
        raise InvalidTable(
            f"The tables have {found[0]} dimensions x {found[1]} values and the belief has "
            f"{needed[0]} x {needed[1]}, padding included. Build both from the same space, both "
            "bucketed or both not."
        )


def group_log_likelihood(
    log_table: Float[Array, "dimensions values choices"],
    digits: Int[Array, "cells dimensions"],
) -> Float[Array, "cells choices"]:
    """The summed log tables of one group of dimensions, for every row (or column) of a layout.

    Args:
        log_table: the log tables of one pair.
        digits: `Layout.row_digits` or `Layout.column_digits`; -1 contributes nothing.
    """
    dims = jnp.arange(digits.shape[-1])
    terms = log_table[dims[None, :], jnp.maximum(digits, 0)]
    return jnp.sum(jnp.where(digits[:, :, None] >= 0, terms, 0), axis=1)


def _check_pair(question: int, user: int, questions: int, users: int) -> None:
    if not (0 <= question < questions and 0 <= user < users):
        raise UnknownPair(
            f"There is no pair (question {question}, user {user}); there are {questions} questions "
            f"and {users} users, counted from 0."
        )
