"""The information-gain reward by a language model (IG reward, sections 3.2 and 3.3).

The belief is what a model thinks of a goal that is written down: the reward of an exchange is

    log p(goal | history, exchange) - log p(goal | history)

by teacher forcing, in nats. The exact reward, `balar_core.pointwise_gain`, is 0 for an exchange
that tells nothing. This one is not, since another context is another context: what an exchange
without content does to the goal, the *control*, is measured too, and can be taken off.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from balar_core.dialogue import Exchange
from balar_core.errors import BalarError, InvalidInput, InvalidSetting
from balar_core.text import check_text

from .elicitation.together import together
from .models import LikelihoodModel, TokenScores

__all__ = [
    "CONTENT_FREE",
    "NOTHING_ASKED",
    "Clarification",
    "GoalTemplate",
    "ModelGain",
    "ModelReward",
    "TokensDiffer",
]


class TokensDiffer(BalarError):
    """The goal is cut into other tokens after another context, so that nothing can be compared."""


@dataclass(frozen=True)
class Clarification:
    """A question and its reply, in words.

    Attributes:
        question: what was asked.
        reply: what came back; empty for silence.
    """

    question: str
    reply: str

    def __post_init__(self) -> None:
        check_text(self.question, "the question of a clarification")
        check_text(self.reply, "the reply of a clarification", empty=True)

    @classmethod
    def of(cls, exchange: Exchange) -> "Clarification":
        """What was said in an exchange of a dialogue.

        Where the reply was a choice, that choice is what was said; where nothing was learned,
        nothing.

        >>> Clarification.of(Exchange("Does light hurt?", ("yes", "no"), "you", "", (1.0, 0.0)))
        Clarification(question='Does light hurt?', reply='yes')
        """
        most, least = max(exchange.evidence), min(exchange.evidence)
        fitting = (c for c, w in zip(exchange.choices, exchange.evidence, strict=True) if w == most)
        chosen = " or ".join(fitting) if most > least else ""
        return cls(exchange.question, exchange.reply or chosen)


CONTENT_FREE = Clarification("...", "...")
"""An exchange without content. A better control for a question is that question with a reply that
tells nothing, such as "I would rather not say."."""


@dataclass(frozen=True)
class GoalTemplate:
    r"""The text after which a goal is scored: `before`, the history, exchanges, and `cue`.

    The cue ends where a token ends, with a line break say, and so does whatever stands before the
    goal in both contexts.

    >>> GoalTemplate().context("User: I need a lamp.", [Clarification("Which colour?", "Red.")])
    'A conversation, and then what its user wants.\n\nUser: I need a lamp.\nAgent: Which
    colour?\nUser: Red.\n\nWhat the user wants, in the words of the user:\n'
    """

    before: str = "A conversation, and then what its user wants.\n\n"
    question: str = "Agent: "
    reply: str = "User: "
    cue: str = "\nWhat the user wants, in the words of the user:\n"

    def context(self, history: str, clarifications: Iterable[Clarification] = ()) -> str:
        """The context of a goal."""
        lines = [history] if history else []
        for said in clarifications:
            lines += [self.question + said.question, self.reply + said.reply]
        return self.before + "".join(f"{line}\n" for line in lines) + self.cue


@dataclass(frozen=True)
class ModelGain:
    """The reward of one exchange.

    Attributes:
        total: how much likelier the goal is with the exchange (nats).
        control: the same for the exchange without content; None if it was not measured.
        tokens: how many tokens the goal has; 0 where nothing was asked.

    >>> gain = ModelGain(total=6.0, control=1.0, tokens=10)
    >>> gain.net, gain.per_token, gain.net_per_token
    (5.0, 0.6, 0.5)
    """

    total: float
    control: float | None
    tokens: int

    @property
    def per_token(self) -> float:
        """The reward of the paper: the mean over the tokens of the goal (nats per token)."""
        return _share(self.total, self.tokens)

    @property
    def net(self) -> float:
        """The total without what an exchange without content does as well (nats).

        Raises:
            InvalidSetting: the control was not measured.
        """
        if self.control is None:
            raise InvalidSetting(
                "The control was not measured; give the ModelReward an exchange without content."
            )
        return self.total - self.control

    @property
    def net_per_token(self) -> float:
        """`net`, as a mean over the tokens of the goal (nats per token).

        Raises:
            InvalidSetting: the control was not measured.
        """
        return _share(self.net, self.tokens)


NOTHING_ASKED = ModelGain(0.0, 0.0, 0)
"""The reward where nothing was asked."""


class ModelReward:
    """Rewards exchanges by what they do to the likelihood of a goal.

    Nothing is cut off: if a history is too long for the model, its server says so.

    Args:
        model: who scores, such as a `ScoringModel`.
        template: how a history becomes a context.
        control: the exchange without content; None measures no control.
    """

    def __init__(
        self,
        model: LikelihoodModel,
        *,
        template: GoalTemplate | None = None,
        control: Clarification | None = CONTENT_FREE,
    ) -> None:
        self._model = model
        self._template = GoalTemplate() if template is None else template
        self._control = control

    async def gains(
        self, history: str, goal: str, asked: Sequence[Clarification | None]
    ) -> tuple[ModelGain, ...]:
        """The rewards of a group of exchanges, each of which could have followed this history.

        Contexts are scored at the same time, and each but once: the history alone and the control
        belong to the whole group.

        Args:
            history: the dialogue so far, as text.
            goal: what the user wants, as text.
            asked: the exchange of every rollout; None for one that did not ask, which gains
                exactly 0. If none asked, nothing is scored.

        Raises:
            InvalidInput: the goal is empty, or an exchange is none.
            InvalidText: a text cannot be written as UTF-8.
            TokensDiffer: the goal is cut into other tokens after one of the contexts.
            ModelError: the goal could not be scored.
        """
        _check(history, goal, asked)
        some = [said for said in asked if said is not None]
        if not some:
            return (NOTHING_ASKED,) * len(asked)
        controls = [] if self._control is None else [self._control]
        alone = self._template.context(history)
        contexts = {
            said: self._template.context(history, [said]) for said in dict.fromkeys(some + controls)
        }
        scores = await self._scores([alone, *contexts.values()], goal)
        before = scores[alone]
        found = {said: _gain(before, scores[context]) for said, context in contexts.items()}
        control = None if self._control is None else found[self._control]
        return tuple(
            NOTHING_ASKED
            if said is None
            else ModelGain(found[said], control, len(before.log_probabilities))
            for said in asked
        )

    async def moments(
        self, history: str, goal: str, asked: Sequence[Clarification | None]
    ) -> tuple[TokenScores, ...]:
        """How likely the goal is before the first turn of a dialogue and after every turn.

        Their totals are what `balar_core.log_differences` makes rewards of turns from, and the
        means over their tokens what IGPO's `probability_differences` takes.

        Args:
            history: what came before the first turn, as text.
            goal: what the user wants, as text.
            asked: the exchange of every turn; None for a turn in which nothing was asked.

        Returns:
            One more than there are turns. Where nothing was asked the same one stands twice.

        Raises:
            InvalidInput: the goal is empty, or an exchange is none.
            InvalidText: a text cannot be written as UTF-8.
            TokensDiffer: the goal is cut into other tokens after one of the contexts.
            ModelError: the goal could not be scored.
        """
        _check(history, goal, asked)
        said: list[Clarification] = []
        contexts = [self._template.context(history)]
        for exchange in asked:
            said += [] if exchange is None else [exchange]
            contexts.append(self._template.context(history, said))
        scores = await self._scores(contexts, goal)
        return tuple(scores[context] for context in contexts)

    async def _scores(self, contexts: Sequence[str], goal: str) -> Mapping[str, TokenScores]:
        different = list(dict.fromkeys(contexts))
        found = await together(self._model.score(context, goal) for context in different)
        for other in found[1:]:
            _check_tokens(found[0].tokens, other.tokens)
        return dict(zip(different, found, strict=True))


def _check(history: str, goal: str, asked: Sequence[object]) -> None:
    check_text(history, "the history", empty=True)
    check_text(goal, "the goal", empty=True)
    if not goal:
        raise InvalidInput("The goal is empty; nothing can be scored.")
    for position, exchange in enumerate(asked):
        if not (exchange is None or isinstance(exchange, Clarification)):
            raise InvalidInput(
                f"Exchange {position} is {exchange!r}; it is a Clarification, or None where "
                "nothing was asked."
            )


def _check_tokens(first: Sequence[str], second: Sequence[str]) -> None:
    if first == second:
        return
    pairs = zip(first, second, strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
    one, other = ("".join(tokens[same : same + 1]) or "its end" for tokens in (first, second))
    raise TokensDiffer(
        f"The goal is cut into other tokens after another context: its token {same} is {one!r} in "
        f"one and {other!r} in the other. Let the cue of the template end with a line break, or "
        "use a server that cuts the goal by itself (way 'vllm' or 'llama.cpp')."
    )


def _gain(before: TokenScores, after: TokenScores) -> float:
    """The difference of two log likelihoods; in double precision, token by token, summed exactly.

    Log probabilities of tokens that an exchange does not touch cancel without a trace.
    """
    pairs = zip(after.log_probabilities, before.log_probabilities, strict=True)
    return math.fsum(a - b for a, b in pairs)


def _share(total: float, tokens: int) -> float:
    return total / tokens if tokens else 0.0
