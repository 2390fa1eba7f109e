"""A reward function for verl. verl itself is not needed."""

from collections.abc import Mapping
from typing import Any

from ..problem_schema import Problem
from .exact import choose, rewards_of
from .markup import Malformed, read_text

__all__ = ["VerlReward"]


class VerlReward:
    """Called for one completion; gives a mapping with `score` and what is worth logging.

    Args:
        problems: the problem, or data source -> problem.
        answers: whether answers in the text count. Say so only where they come from the environment
            of a rollout with several turns: a model that writes the whole text would answer its own
            questions.
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
        answers: bool = False,
        cost: float = 0.0,
        malformed: float = 0.0,
        least: float = -20.0,
    ) -> None:
        self._rewards = rewards_of(problems, cost=cost, malformed=malformed, least=least)
        self._answers = answers

    def __call__(
        self,
        data_source: str,
        solution_str: str,
        ground_truth: Any,
        extra_info: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> dict[str, float]:
        """The score of a completion.

        Args:
            data_source: chooses the problem where there are several.
            solution_str: the completion.
            ground_truth: what is true (`ExactReward.score`).
            extra_info: not used.
            others: not used.

        Returns:
            `score` and `gain` in nats, `questions`, and `malformed` (0 or 1).

        Raises:
            UnusableReward: no such problem, or a truth that it does not have.
        """
        reward = choose(self._rewards, data_source, "data_source")
        try:
            if not isinstance(solution_str, str):
                raise Malformed("A completion is a text.")
            turns = read_text(solution_str, answers=self._answers)
        except Malformed as error:
            found = reward.rejected(error)
        else:
            found = reward.score(turns, ground_truth)
        return {
            "score": found.reward,
            "gain": found.gain,
            "questions": float(found.questions),
            "malformed": float(bool(found.malformed)),
        }
