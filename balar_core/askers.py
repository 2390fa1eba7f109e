"""Askers without learning: the most telling question first, a given order, or a random one.

All of them stop by the same rule, so that they differ in the choice of questions alone.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from .errors import InvalidSetting
from .numerics import argmax, as_array
from .simulation import Situation

__all__ = ["AtRandom", "InOrder", "MostInformative", "RankedAsker", "Stopping"]


class Stopping(eqx.Module):
    """When an asker stops, as arrays: changing a threshold compiles nothing.

    Attributes:
        enough: stop once the likeliest state has this probability; above 1, never.
        min_information: nats; a pair that tells less is not asked, and where all do the asker
            stops. With a cost per question, the cost: the greedy rule of the IG reward.

    Raises:
        InvalidSetting: a threshold that is not a number.
    """

    enough: Float[Array, ""]
    min_information: Float[Array, ""]

    def __init__(self, enough: ArrayLike = 2.0, min_information: ArrayLike = 0.0) -> None:
        self.enough = _threshold("enough", enough)
        self.min_information = _threshold("min_information", min_information)


class RankedAsker(eqx.Module):
    """Asks the open pair of the highest rank, until enough is known.

    Attributes:
        stopping: when it stops.
    """

    stopping: Stopping

    @abstractmethod
    def ranks(self, situation: Situation, key: PRNGKeyArray) -> Float[Array, " pairs"]:
        """The rank of every pair; ties go to the lowest position."""

    def __call__(self, situation: Situation, key: PRNGKeyArray) -> Int[Array, ""]:
        """The position of the best pair, or the number of pairs to stop."""
        telling = situation.open & (situation.information >= self.stopping.min_information)
        pair, _ = argmax(self.ranks(situation, key), telling)
        stop = (situation.best >= self.stopping.enough) | ~jnp.any(telling)
        return jnp.where(stop, situation.open.size, pair)


class MostInformative(RankedAsker):
    """Asks what tells most: greedy mutual information (BALAR, section 5)."""

    def ranks(self, situation: Situation, key: PRNGKeyArray) -> Float[Array, " pairs"]:
        """The mutual information of every pair."""
        return situation.information


class InOrder(RankedAsker):
    """Asks in the order of the pairs, or in a given order.

    Attributes:
        order: shape `(pairs,)`; the rank of every pair, lowest first; None for their positions.
    """

    order: Float[Array, " pairs"] | None = None

    def ranks(self, situation: Situation, key: PRNGKeyArray) -> Float[Array, " pairs"]:
        """The places in the order, negated."""
        if self.order is not None:
            return -self.order
        return -jnp.arange(situation.open.size, dtype=situation.information.dtype)


class AtRandom(RankedAsker):
    """Asks a uniformly random open pair."""

    def ranks(self, situation: Situation, key: PRNGKeyArray) -> Float[Array, " pairs"]:
        """Uniformly random numbers."""
        return jax.random.uniform(key, situation.open.shape, situation.information.dtype)


def _threshold(name: str, value: ArrayLike) -> Float[Array, ""]:
    threshold = as_array(value, float)
    if not isinstance(value, jax.core.Tracer) and np.isnan(np.asarray(value)).any():
        raise InvalidSetting(f"{name} is {value!r}; it is a number.")
    return threshold
