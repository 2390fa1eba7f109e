"""Ours, in the form of a rival: `balar_core.score`."""

import jax
import numpy as np

from balar_core import Belief, LikelihoodTables, score
from benchmarks.worlds import World

from . import Program


def prepare(world: World) -> Program:
    """Everything from belief and tables at rest to informations on the host."""
    belief, tables = world.engine()
    return bind(belief, tables)


def bind(belief: Belief, tables: LikelihoodTables) -> Program:
    """The same for a belief and tables that are there already."""

    def run() -> np.ndarray:
        return np.asarray(score(belief, tables).information).ravel()

    return run


def analysed_bytes(belief: Belief, tables: LikelihoodTables) -> int | None:
    """What XLA says that the compiled call needs beyond its inputs; None where it does not say."""
    compiled = jax.jit(score).lower(belief, tables).compile()
    analysis = compiled.memory_analysis()
    if analysis is None:
        return None
    return int(analysis.temp_size_in_bytes + analysis.output_size_in_bytes)
