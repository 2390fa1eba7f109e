"""A belief spread over several devices, in one process or many.

The rows of the layout are divided into equal blocks, one for each device along an axis of a mesh.
`score`, `update`, `marginals`, `entropy`, `map_state`, `answer_posterior`, `turn` and `respond`
take such a belief like any other: every device goes through its own states, and only sums travel.
"""

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from .belief import Belief
from .errors import InvalidSetting
from .rows import Shards
from .space import Layout

__all__ = ["shard"]


def shard(belief: Belief, mesh: Mesh, axis: str = "states") -> Belief:
    """Spread a belief over the devices of a mesh.

    The rows are padded to a multiple of the number of devices. In a program of several processes
    every process calls this with the same belief.

    Args:
        belief: a belief on one device.
        mesh: the devices.
        axis: the axis of the mesh along which the rows are divided.

    Raises:
        InvalidSetting: the mesh has no such axis, or the belief is spread already.
    """
    if axis not in mesh.shape:
        raise InvalidSetting(
            f"The mesh has no axis {axis!r}; its axes are {', '.join(map(repr, mesh.shape))}."
        )
    layout = belief.layout
    if layout.shards is not None:
        raise InvalidSetting("The belief is spread over devices already.")
    shards = Shards(mesh, axis)
    missing = -layout.shape[0] % shards.count

    def spread(x: Array, padding: float) -> Array:
        width = [(0, missing)] + [(0, 0)] * (x.ndim - 1)
        return _place(np.pad(np.asarray(x), width, constant_values=padding), shards, P(axis))

    def repeat(x: Array) -> Array:
        return _place(np.asarray(x), shards, P())

    return Belief(
        spread(belief.log_joint, -np.inf),
        Layout(
            row_digits=spread(layout.row_digits, -1),
            column_digits=repeat(layout.column_digits),
            row_mask=spread(layout.row_mask, False),
            column_mask=repeat(layout.column_mask),
            row_index=spread(layout.row_index, 0),
            column_index=repeat(layout.column_index),
            value_mask=repeat(layout.value_mask),
            shards=shards,
        ),
    )


def _place(x: np.ndarray, shards: Shards, spec: P) -> Array:
    """Every process gives its devices their parts; nothing is sent."""
    return jax.make_array_from_callback(x.shape, shards.sharding(spec), lambda part: x[part])
