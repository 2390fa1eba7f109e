r"""The posterior over a closed answer set (BALAR, section 7).

$$p(a) \propto \sum_\theta \pi(\theta) \prod_j L_{a,j}(a \mid \theta_j).$$

This is the paper's rule: the experts are multiplied and normalised once, over the answers. With
`per_state=True` they are normalised in every state first, which makes \(p(a \mid \theta)\) a
proper channel.
"""

from collections.abc import Sequence
from functools import partial
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .belief import Belief
from .errors import InvalidQuestion, InvalidTable
from .labels import DEFAULT_LABELS, LabelMap, Table
from .numerics import as_array, log_normalise, logsumexp
from .rows import map_tiles
from .space import StateSpace, bucket, dimension_capacity
from .tables import check_fit, check_possible, group_log_likelihood, table_array

__all__ = ["AnswerTables", "answer_posterior"]


class AnswerTables(eqx.Module):
    """The log tables of a closed answer set.

    Attributes:
        log_tables: shape `(dimensions, values, answers)`; 0 in padding.
        mask: shape `(answers,)`; False for padding.
    """

    log_tables: Float[Array, "dimensions values answers"]
    mask: Bool[Array, " answers"]

    @classmethod
    def build(
        cls,
        space: StateSpace,
        answers: int,
        tables: Sequence[Table | np.ndarray | None],
        *,
        labels: LabelMap = DEFAULT_LABELS,
        bucketed: bool = False,
    ) -> Self:
        """Validate and pack the tables of an answer set.

        Args:
            space: the state space.
            answers: the number of answers.
            tables: one table per dimension: a row per value, an entry per answer; or `None` where
                the answer does not depend on the dimension.
            labels: the label map.
            bucketed: pad to capacities.

        Raises:
            InvalidQuestion: fewer than two answers.
            InvalidTable, InvalidLabel, InvalidDistribution: a bad table.
        """
        if answers < 2:
            raise InvalidQuestion(f"The closed answer set has {answers} answer(s); it needs two.")
        sizes = space.sizes
        if len(tables) != len(sizes):
            raise InvalidTable(
                f"{len(tables)} answer tables for {len(sizes)} dimensions; give one per dimension, "
                "None where it does not matter."
            )
        dims, values, width = len(sizes), max(sizes), answers
        if bucketed:
            dims = dimension_capacity(dims)
            values, width = bucket(values, 4, 2), bucket(answers, 4, 2)
        arrays = [
            None
            if table is None
            else table_array(
                table, d.size, answers, labels, f"the answer table of dimension {d.name!r}"
            )
            for table, d in zip(tables, space.dimensions, strict=True)
        ]
        check_possible(space, arrays, "the answer tables")
        log_tables = np.zeros((dims, values, width))
        with np.errstate(divide="ignore"):
            for j, array in enumerate(arrays):
                if array is not None:
                    log_tables[j, : sizes[j], :answers] = np.log(array)
        return cls(as_array(log_tables, float), as_array(np.arange(width) < answers))


@partial(jax.jit, static_argnames="per_state")
def answer_posterior(
    belief: Belief, answers: AnswerTables, *, per_state: bool = False
) -> Float[Array, " answers"]:
    """The posterior over the closed answer set; 0 in padding.

    Args:
        belief: the belief.
        answers: the answer tables.
        per_state: normalise the product of experts in every state (see the module).

    Raises:
        InvalidTable: tables of another space.
    """
    check_fit(belief.layout, answers.log_tables)
    layout = belief.layout
    rows = group_log_likelihood(answers.log_tables, layout.row_digits)
    columns = group_log_likelihood(answers.log_tables, layout.column_digits)
    log_joint = belief.log_joint
    if per_state:
        log_joint = map_tiles(
            _normalise_states,
            (log_joint, rows),
            (columns, answers.mask),
            columns=layout.shape[1],
            shards=layout.shards,
        )

    def one(pair: tuple[Array, Array]) -> Array:
        row, column = pair
        return logsumexp(log_joint + row[:, None] + column[None, :])

    log_p, _, _ = log_normalise(jax.lax.map(one, (rows.T, columns.T)), where=answers.mask)
    return jnp.exp(log_p)


def _normalise_states(
    log_joint: Float[Array, "rows columns"],
    log_rows: Float[Array, "rows answers"],
    log_columns: Float[Array, "columns answers"],
    mask: Bool[Array, " answers"],
) -> Float[Array, "rows columns"]:
    """The log joint less the normaliser of the product of experts of every state."""
    log_k = log_rows.T[:, :, None] + log_columns.T[:, None, :]
    log_z = logsumexp(log_k, axis=0, where=mask[:, None, None])
    return log_joint - jnp.where(log_z > -jnp.inf, log_z, 0)
