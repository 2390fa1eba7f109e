"""A limit on what may be spent on a model, checked before anything is sent."""

import asyncio
import math
from dataclasses import dataclass

from balar_core.errors import InvalidSetting

from .clock import Clock, SystemClock
from .errors import BudgetExceeded, ModelError
from .model import Model
from .values import Completion, Request, Usage

__all__ = ["Budget", "BudgetModel"]


@dataclass(frozen=True)
class Budget:
    """What may be spent; None for no limit.

    Attributes:
        calls: how many completions.
        tokens: how many tokens may be read and written.
        cost: in the currency of the prices.
        seconds: how long after the first call calls may last.

    Raises:
        InvalidSetting: a limit is negative or not a number.
    """

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "cost", "seconds"):
            limit = getattr(self, name)
            if limit is not None and not 0 <= limit < math.inf:
                raise InvalidSetting(f"The budget of {name} is {limit}; it is 0 or more.")


class BudgetModel:
    """A model that is not asked any more once the budget is spent.

    Calls that are under way at the same time are counted as calls at once, but their tokens and
    cost only when they end; so tokens and cost can be exceeded by what is under way. Failed calls
    count with what they have cost.

    Args:
        model: the model.
        budget: what may be spent.
        clock: the time.
    """

    def __init__(self, model: Model, budget: Budget, clock: Clock | None = None) -> None:
        self._model = model
        self._budget = budget
        self._clock = clock or SystemClock()
        self._begun: float | None = None
        self._calls = 0
        self._spent = Usage()

    @property
    def spent(self) -> Usage:
        """What the calls that ended have cost."""
        return self._spent

    async def complete(self, request: Request) -> Completion:
        """The model's reply.

        Raises:
            BudgetExceeded: the budget is spent; nothing was sent, or the time ran out meanwhile.
            ModelError: the model raised it.
        """
        left = self._check()
        self._calls += 1
        try:
            async with asyncio.timeout(left) as time_left:
                completion = await self._model.complete(request)
        except ModelError as error:
            self._spent += error.usage
            raise
        except TimeoutError:
            if not time_left.expired():
                raise
            self._spent += Usage(calls=1, cost=None)
            raise self._exceeded("seconds", self._elapsed()) from None
        self._spent += completion.usage
        return completion

    def _check(self) -> float | None:
        """Raise if a limit is reached; else return the seconds that are left."""
        budget, spent = self._budget, self._spent
        if budget.calls is not None and self._calls >= budget.calls:
            raise self._exceeded("calls", self._calls)
        if budget.tokens is not None and spent.tokens >= budget.tokens:
            raise self._exceeded("tokens", spent.tokens)
        if budget.cost is not None and (spent.cost is None or spent.cost >= budget.cost):
            raise self._exceeded("cost", math.nan if spent.cost is None else spent.cost)
        if budget.seconds is None:
            return None
        elapsed = self._elapsed()
        if elapsed >= budget.seconds:
            raise self._exceeded("seconds", elapsed)
        return budget.seconds - elapsed

    def _elapsed(self) -> float:
        now = self._clock.now()
        if self._begun is None:
            self._begun = now
        return now - self._begun

    def _exceeded(self, what: str, spent: float) -> BudgetExceeded:
        limit = getattr(self._budget, what)
        if math.isnan(spent):
            message = (
                "The cost of a call is not known, so that a budget of cost cannot be kept; give "
                "the prices of tokens, or take a server that tells how many there were."
            )
        else:
            message = f"The budget of {limit:g} {what} is spent ({spent:g}); allow more to go on."
        return BudgetExceeded(message, what=what, limit=limit, spent=spent)
