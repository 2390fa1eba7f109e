"""Every object of some worlds guessed once, by users who never err; counts of questions."""

import jax
import jax.numpy as jnp
import numpy as np

from balar_core.simulation import Asker, World, simulate_batch, stack_worlds, take_worlds


class Guessing:
    """One dialogue for every object of every world.

    Attributes:
        world: for each dialogue, the position of its world.
        pairs: how many questions there are, padding included.
    """

    def __init__(self, worlds: list[World]) -> None:
        stack = stack_worlds(worlds)
        prior = np.asarray(stack.belief.log_joint).reshape(len(worlds), -1)
        self.world, truth = np.nonzero(prior > -np.inf)
        self.pairs = stack.tables.valid[0].size
        self._truth = jnp.asarray(truth)
        self._worlds = take_worlds(stack, self.world)

    def play(self, asker: Asker, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Questions asked in each dialogue, and whether no object is likelier than the true one."""
        keys = jax.random.split(jax.random.key(seed), len(self.world))
        episodes = simulate_batch(
            self._worlds, self._truth, asker, keys, turns=self.pairs, truthful=True
        )
        truth = np.exp(episodes.log_truth[:, -1])
        return np.asarray(episodes.questions), truth >= np.asarray(episodes.best) * (1 - 1e-5)
