"""The research formula on a materialised table, in PyTorch.

H(θ) − Σ_y p(y) H(θ|y), all pairs in one batch. Entropies are `torch.special.entr`, which is exact
at zero and twice as fast as a product with a clamped logarithm. The table is built as a growing
outer product over the dimensions and renormalised over the choices in place.

On a CPU it gets the number of threads that suits it best: on small inputs, or where cores are
shared, its threads wait for each other far longer than they work.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.machine import cores
from benchmarks.timing import median_ms, timed

from . import Inputs, LeftOut, Program, missing

try:
    import torch
except ImportError:
    torch = None


def prepare(inputs: Inputs) -> Program:
    """Score a table that is there already."""
    device = _device(inputs)
    inputs.require(tables=3)
    pi = torch.from_numpy(inputs.pi).to(device)
    table = torch.from_numpy(inputs.table).to(device)

    return _with_best_threads(lambda: _score(pi, table), device)


def prepare_with_build(inputs: Inputs) -> Program:
    """Build the table and score it."""
    device = _device(inputs)
    inputs.require(tables=3)
    pi = torch.from_numpy(inputs.pi).to(device)
    tables = [torch.from_numpy(t.astype(np.float32)).to(device) for t in inputs.world.tables]
    return _with_best_threads(lambda: _score(pi, _build(tables)), device)


def _with_best_threads(score: Callable[[], Any], device: str) -> Program:
    if device != "cpu":
        return lambda: score().cpu().numpy()

    def with_threads(count: int) -> Program:
        def run() -> np.ndarray:
            if torch.get_num_threads() != count:
                torch.set_num_threads(count)
            found: np.ndarray = score().numpy()
            return found

        return run

    programs = [with_threads(count) for count in sorted({1, cores()})]
    if len(programs) == 1:
        return programs[0]
    return min(programs, key=_typical)


def _typical(program: Program) -> float:
    program()
    return median_ms([timed(program) for _ in range(7)])


def _device(inputs: Inputs) -> str:
    if torch is None:
        raise missing("torch")
    if inputs.device == "cpu":
        return "cpu"
    if not torch.cuda.is_available():
        raise LeftOut("this build of PyTorch sees no CUDA device")
    return "cuda"


def _build(tables):
    """`(pairs, values, choices)` per dimension -> K, shape `(pairs, states, choices)`."""
    k = tables[0]
    for table in tables[1:]:
        pairs, _, choices = table.shape
        k = (k[:, :, None, :] * table[:, None, :, :]).reshape(pairs, -1, choices)
    return k / k.sum(-1, keepdim=True) if len(tables) == 1 else k.div_(k.sum(-1, keepdim=True))


def _score(pi, table):
    joint = pi[:, None] * table
    p = joint.sum(1)
    posterior = joint.div_(p.clamp_min(torch.finfo(p.dtype).tiny)[:, None, :])
    after = torch.special.entr(posterior).sum(1)
    return torch.special.entr(pi).sum() - (p * after).sum(-1)
