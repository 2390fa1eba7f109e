"""What a language model is to the rest of balar: two protocols, each with one coroutine.

Whatever completes requests is a `Model`: a client of a server, a recording, a cache round another
model, or a few lines of a test.
"""

from typing import Protocol

from .values import Completion, Request, TokenScores

__all__ = ["LikelihoodModel", "Model"]


class Model(Protocol):
    """Completes conversations."""

    async def complete(self, request: Request) -> Completion:
        """The model's reply.

        Raises:
            ModelError: there is none; the subclass says why.
        """
        ...


class LikelihoodModel(Protocol):
    """Says how likely a given text is (teacher forcing)."""

    async def score(self, context: str, text: str) -> TokenScores:
        """The log likelihood of `text` after `context`, token by token (nats).

        Raises:
            ModelError: it could not be found out; the subclass says why.
        """
        ...
