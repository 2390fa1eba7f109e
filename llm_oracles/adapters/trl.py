"""A reward function for TRL's GRPOTrainer. TRL itself is not needed."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..problem_schema import Problem
from .exact import ExactReward, UnusableReward, choose, rewards_of
from .markup import Malformed, read_messages, read_text

__all__ = ["TrlReward"]


class TrlReward:
    """Called with lists, one entry per completion; gives one reward per completion.

    Completions are texts or lists of messages. In messages whatever others than the model say after
    a question is its answer. A text is all the model's, so answers in it do not count. What the
    prompt holds of the dialogue counts for the belief where it is a list of messages.

    Args:
        problems: the problem, or name -> problem where rows have a column that says which.
        truth: the name of the column with what is true (`ExactReward.score`).
        problem: the name of the column with the name of the problem. A row with None there belongs
            to other reward functions: its reward is None.
        cost: nats taken off for every question.
        malformed: the reward of a completion that does not keep to the form.
        least: the least gain.

    Raises:
        UnusableReward: no problem, or a bad setting.
    """

    def __init__(
        self,
        problems: Problem | Mapping[str, Problem],
        *,
        truth: str = "truth",
        problem: str = "problem",
        cost: float = 0.0,
        malformed: float = 0.0,
        least: float = -20.0,
    ) -> None:
        self._rewards = rewards_of(problems, cost=cost, malformed=malformed, least=least)
        self._truth, self._problem = truth, problem
        # Older trainers ask a reward function for its name.
        self.__name__ = "information_gain"

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """The rewards, in nats.

        Raises:
            UnusableReward: a column is missing or has another length, or a row does not fit.
        """
        count = len(completions)
        truths = self._column(self._truth, columns, count)
        names: Sequence[Any] = [""] * count
        if not isinstance(self._rewards, ExactReward):
            names = self._column(self._problem, columns, count)
        if len(prompts) != count:
            raise UnusableReward(f"There are {len(prompts)} prompts for {count} completions.")
        rows = zip(prompts, completions, truths, names, strict=True)
        return [self._reward(*row) for row in rows]

    def _column(self, name: str, columns: Mapping[str, Any], count: int) -> Sequence[Any]:
        column = columns.get(name)
        if column is None:
            raise UnusableReward(f"The data set has no column {name!r}.")
        if isinstance(column, str) or len(column) != count:
            raise UnusableReward(
                f"Column {name!r} needs one entry for each of {count} completions."
            )
        return column  # type: ignore[no-any-return]

    def _reward(self, prompt: Any, completion: Any, truth: Any, name: Any) -> float | None:
        if name is None:
            return None
        reward = choose(self._rewards, name, self._problem)
        try:
            if isinstance(completion, str):
                turns = read_text(completion, answers=False)
            elif isinstance(completion, Sequence):
                turns = read_messages(completion)
            else:
                raise Malformed("A completion is a text or a list of messages.")
        except Malformed as error:
            return reward.rejected(error).reward
        before = [turn for turn in _before(prompt) if turn.answer is not None]
        earlier, whole = reward.score(before, truth), reward.score([*before, *turns], truth)
        if earlier.malformed:
            return reward.score(turns, truth).reward
        return whole.reward if whole.malformed else whole.reward - earlier.reward


def _before(prompt: Any) -> list[Any]:
    """The exchanges in a prompt; none where it does not keep to the form."""
    if isinstance(prompt, str) or not isinstance(prompt, Sequence):
        return []
    try:
        return read_messages(prompt)
    except Malformed:
        return []
