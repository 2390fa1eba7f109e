"""What a model is shown: needs as plain data, with ids for everything it may refer to."""

from collections.abc import Iterable, Sequence
from typing import Any

from balar_core.dialogue import Exchange
from balar_core.questions import Question, User
from balar_core.space import Dimension

__all__ = ["conversation", "ids", "people", "person", "question", "unknown", "unknowns"]


def ids(kind: str, texts: Iterable[str]) -> dict[str, str]:
    """Every text under an id of its own.

    >>> ids("choice", ("yes", "no"))
    {'choice_0': 'yes', 'choice_1': 'no'}
    """
    return {f"{kind}_{number}": text for number, text in enumerate(texts)}


def person(user: User) -> dict[str, str]:
    """A user, with what everybody may know."""
    return {"name": user.name, "about": user.public}


def people(users: Iterable[User]) -> list[dict[str, str]]:
    """All users."""
    return [person(user) for user in users]


def unknown(dimension: Dimension) -> dict[str, Any]:
    """A dimension and the ids of its values."""
    data: dict[str, Any] = {"unknown": dimension.name, "values": ids("value", dimension.values)}
    return data | ({"note": dimension.note} if dimension.note else {})


def unknowns(dimensions: Sequence[Dimension]) -> dict[str, Any]:
    """All dimensions under ids of their own."""
    return {
        f"unknown_{number}": {"name": dimension.name, "values": list(dimension.values)}
        for number, dimension in enumerate(dimensions)
    }


def question(asked: Question) -> dict[str, Any]:
    """A question and the ids of its choices."""
    return {"question": asked.text, "choices": ids("choice", asked.choices)}


def conversation(exchanges: Iterable[Exchange]) -> list[dict[str, Any]]:
    """What was asked and answered."""
    return [
        {"person": exchange.user, "question": exchange.question, "reply": heard(exchange)}
        for exchange in exchanges
    ]


def heard(exchange: Exchange) -> str:
    """What somebody said: their words, or the choices that their answer leaves.

    >>> heard(Exchange("Is it old?", ("yes", "no"), "you", "", (0.0, 1.0)))
    'no'
    >>> heard(Exchange("Is it old?", ("yes", "no"), "you", "", (0.5, 0.5)))
    "I don't know"
    """
    if exchange.reply:
        return exchange.reply
    most = max(exchange.evidence)
    best = [c for c, w in zip(exchange.choices, exchange.evidence, strict=True) if w == most]
    return "I don't know" if len(best) == len(exchange.choices) else " or ".join(best)
