"""The state information gain of pymdp (`inferactively-pymdp`), its JAX version.

The joint state is one hidden-state factor, every pair is one observation modality. The gain
of one modality is pymdp's own `compute_info_gain`, vmapped over the pairs and jitted.
"""

import jax
import numpy as np

from balar_core.numerics import as_array

from . import Inputs, Program, missing

try:
    from pymdp import control
except ImportError:
    control = None


def prepare(inputs: Inputs) -> Program:
    """Set up the likelihoods as pymdp wants them: choices first."""
    if control is None:
        raise missing("inferactively-pymdp")
    inputs.require(tables=3)
    belief = as_array(inputs.pi)
    likelihoods = as_array(np.ascontiguousarray(inputs.table.transpose(0, 2, 1)))

    def gain(belief: jax.Array, likelihood: jax.Array) -> jax.Array:
        expected = control.compute_expected_obs([belief], [likelihood], [[0]])
        gained: jax.Array = control.compute_info_gain([belief], expected, [likelihood], [[0]])
        return gained

    score = jax.jit(jax.vmap(gain, in_axes=(None, 0)))

    def run() -> np.ndarray:
        return np.asarray(score(belief, likelihoods))

    return run
