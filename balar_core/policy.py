"""A small policy that chooses the next question, or stops, from what is known of a belief.

All pairs are scored by the same network, so that the policy is equivariant: pairs in another order
have their logits in that order, and a trained policy works for any number of them.
"""

from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .numerics import log_normalise
from .simulation import Situation

__all__ = ["Likeliest", "QuestionPolicy"]

PAIR_FEATURES, CONTEXT_FEATURES = 3, 4


class QuestionPolicy(eqx.Module):
    """A distribution over the open pairs and STOP; as an `Asker` it draws from it.

    Attributes:
        pair: from the features of a pair and its context to a logit.
        stop: from the context to the logit of STOP.
    """

    pair: eqx.nn.MLP
    stop: eqx.nn.MLP

    @classmethod
    def make(cls, key: PRNGKeyArray, *, width: int = 16) -> Self:
        """A policy that has learned nothing: uniform over all it may do.

        Args:
            key: for the first layers; the last ones are 0.
            width: neurons of the hidden layer of both networks.
        """
        keys = jax.random.split(key)

        def network(inputs: int, key: PRNGKeyArray) -> eqx.nn.MLP:
            made = eqx.nn.MLP(inputs, "scalar", width, depth=1, activation=jnp.tanh, key=key)
            last = made.layers[-1]
            nothing = jax.tree.map(jnp.zeros_like, eqx.filter(last, eqx.is_array))
            network: eqx.nn.MLP = eqx.tree_at(
                lambda m: m.layers[-1], made, eqx.combine(nothing, last)
            )
            return network

        return cls(
            pair=network(PAIR_FEATURES + CONTEXT_FEATURES, keys[0]),
            stop=network(CONTEXT_FEATURES, keys[1]),
        )

    def log_probabilities(self, situation: Situation) -> Float[Array, " pairs_and_stop"]:
        """The log probability of every pair, and of STOP at the end; -inf for closed pairs."""
        of_pairs, context = _features(situation)
        beside = jnp.broadcast_to(context[None, :], (len(of_pairs), len(context)))
        pairs = jax.vmap(self.pair)(jnp.concatenate([of_pairs, beside], axis=1))
        logits = jnp.concatenate([pairs, self.stop(context)[None]])
        allowed = jnp.concatenate([situation.open, jnp.ones(1, bool)])
        log_p, _, _ = log_normalise(logits, where=allowed)
        return log_p

    def __call__(self, situation: Situation, key: PRNGKeyArray) -> Int[Array, ""]:
        """A pair, or the number of pairs to stop, drawn from the distribution."""
        drawn: Array = jax.random.categorical(key, self.log_probabilities(situation))
        return drawn


class Likeliest(eqx.Module):
    """The asker that does what a policy finds likeliest.

    Attributes:
        policy: the policy.
    """

    policy: QuestionPolicy

    def __call__(self, situation: Situation, key: PRNGKeyArray) -> Int[Array, ""]:
        """A pair, or the number of pairs to stop; the lowest position among ties."""
        return jnp.argmax(self.policy.log_probabilities(situation))


def _features(
    situation: Situation,
) -> tuple[Float[Array, "pairs features"], Float[Array, " features"]]:
    """Features of every pair, and of the situation as a whole; 0 for closed pairs."""
    information = situation.information
    best = jnp.max(information)
    of_pairs = jnp.stack(
        [
            information,
            situation.answer_entropy,
            jnp.where(situation.open, information - best, 0),
        ],
        axis=1,
    )
    left = situation.left.astype(information.dtype)
    context = jnp.stack([situation.entropy, situation.best, jnp.minimum(0.1 * left, 1), best])
    return of_pairs, context
