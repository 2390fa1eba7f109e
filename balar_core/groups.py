"""Rows that belong together: the rollouts of one prompt.

Groups are named in one of two ways, as trainers do: `num_generations` rollouts of a prompt stand
next to each other, or every row carries the number of its group.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Shaped

from .errors import InvalidSetting

__all__ = ["check_shape", "group_members"]


def group_members(
    x: Shaped[Array, " batch"],
    num_generations: int | None = None,
    group_ids: Int[Array, " batch"] | None = None,
) -> tuple[Shaped[Array, "batch members"], Bool[Array, "batch members"]]:
    """For every row, the entries of its group.

    Args:
        x: one entry per row.
        num_generations: the size of a group, if the rows of a group stand next to each other.
        group_ids: the number of the group of every row, in any order, otherwise.

    Returns:
        `(members, belongs)`: the entries, and which of them belong to the group of the row.

    Raises:
        InvalidSetting: not exactly one way is given, or the rows do not divide into groups.

    >>> members, belongs = group_members(jnp.array([5, 6, 7]), group_ids=jnp.array([0, 1, 0]))
    >>> jnp.where(belongs, members, 0).tolist()
    [[5, 0, 7], [0, 6, 0], [5, 0, 7]]
    """
    rows = x.shape[0]
    if (num_generations is None) == (group_ids is None):
        raise InvalidSetting(
            "Name the groups either by num_generations, if the rows of a group stand next to each "
            "other, or by group_ids; not by both."
        )
    if group_ids is not None:
        check_shape("group_ids", group_ids, (rows,))
        belongs = group_ids[:, None] == group_ids[None, :]
        return jnp.broadcast_to(x[None, :], belongs.shape), belongs
    if num_generations is None or num_generations < 1 or rows % num_generations:
        raise InvalidSetting(
            f"{rows} rows do not divide into groups of num_generations={num_generations}."
        )
    members = jnp.repeat(x.reshape(-1, num_generations), num_generations, axis=0)
    return members, jnp.ones(members.shape, bool)


def check_shape(name: str, array: Array, shape: tuple[int, ...]) -> None:
    """Refuse an array of another shape; nothing broadcasts.

    Raises:
        InvalidSetting: the shapes differ.
    """
    if array.shape != shape:
        raise InvalidSetting(f"{name} has shape {array.shape}; {shape} is needed.")
