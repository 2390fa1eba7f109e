"""`InformationTheory` of pyAgrum on the equivalent Bayesian network, in float64.

One node holds the joint state, since the belief is no product and every likelihood depends on all
dimensions; every pair is a child of it. A run makes a fresh inference engine; the network is there
already.
"""

import math

import numpy as np

from . import Inputs, LeftOut, Program, missing

try:
    import pyagrum
except ImportError:
    pyagrum = None

SECONDS_PER_CELL = 4e-7
"""About what one (pair, state, choice) takes."""
MOST_SECONDS = 4.0


def prepare(inputs: Inputs) -> Program:
    """Build the network."""
    if pyagrum is None:
        raise missing("pyagrum")
    if inputs.device != "cpu":
        raise LeftOut("pyAgrum runs on the CPU only")
    size = inputs.world.size
    seconds = SECONDS_PER_CELL * size.pairs * size.states * size.choices
    if seconds > MOST_SECONDS:
        raise LeftOut(
            f"about {seconds:.0f} s a run for this network; left out above {MOST_SECONDS:.0f} s"
        )
    inputs.require(tables=2, cell=8)
    network = pyagrum.BayesNet()
    network.add(pyagrum.RangeVariable("state", "", 0, size.states - 1))
    network.cpt("state").fillWith(inputs.world.pi.tolist())
    names = [f"pair {i}" for i in range(size.pairs)]
    for i, name in enumerate(names):
        network.add(pyagrum.RangeVariable(name, "", 0, size.choices - 1))
        network.addArc("state", name)
        network.cpt(name)[:] = inputs.table[i].astype(np.float64)

    def run() -> np.ndarray:
        engine = pyagrum.LazyPropagation(network)
        bits = [
            pyagrum.InformationTheory(engine, ["state"], [name]).mutualInformationXY()
            for name in names
        ]
        return math.log(2) * np.array(bits)

    return run
