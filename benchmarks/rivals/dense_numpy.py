"""The research formula on a materialised table, in NumPy."""

import numpy as np

from . import Inputs, LeftOut, Program


def prepare(inputs: Inputs) -> Program:
    """Score a table that is there already."""
    if inputs.device != "cpu":
        raise LeftOut("NumPy runs on the CPU only")
    inputs.require(tables=4)
    pi, table = inputs.pi, inputs.table

    def run() -> np.ndarray:
        joint = pi[:, None] * table
        p = joint.sum(axis=1)
        posterior = np.divide(joint, p[:, None, :], out=joint, where=p[:, None, :] > 0)
        after = _entropy(posterior)
        information: np.ndarray = _entropy(pi[:, None])[0] - (p * after).sum(axis=-1)
        return information

    return run


def _entropy(p: np.ndarray) -> np.ndarray:
    """Over the last axis but one."""
    logs = np.log(np.maximum(p, np.finfo(p.dtype).tiny))
    summed: np.ndarray = np.einsum("...sc,...sc->...c", p, logs)
    return -summed
