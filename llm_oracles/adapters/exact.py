"""The exact information-gain reward of a dialogue in words (IG reward, equations 1 and 2)."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from balar_core.answers import AnswerTables
from balar_core.errors import InvalidInput
from balar_core.questions import Question
from balar_core.rewards import Exchanges, dialogue_rewards, expected_gain
from balar_core.space import StateSpace
from balar_core.text import canonical
from balar_core.truth import Truth, log_probability, true_answer, true_value

from ..problem_checks import suggestion
from ..problem_schema import Problem, rows_of
from ..reading import Choices, UnclearAnswer, understand
from ..worlds import problem_world
from .markup import Malformed, Turn

__all__ = ["ExactReward", "Scored", "UnusableReward"]

Asked = tuple[int, int, tuple[float, ...]]
"""Question, user and a weight for every choice."""
TURNS = 4
"""Dialogues are padded to multiples of this, so that few lengths are ever compiled."""


class UnusableReward(InvalidInput):
    """A reward that was set up wrongly, or a row of a data set that does not fit it."""


@dataclass(frozen=True)
class Scored:
    """What a dialogue is worth.

    Attributes:
        reward: the gain less the cost of the questions, in nats; finite.
        gain: the information gain for the truth, in nats; finite.
        questions: how many questions were asked.
        malformed: why the dialogue does not count; empty if it does.
    """

    reward: float
    gain: float
    questions: int
    malformed: str = ""


class ExactReward:
    """Scores dialogues about one problem.

    An answered question earns the pointwise gain of its answer; an answer that names no choice, or
    says "I don't know", tells nothing. The last question may be without an answer: then it earns
    what its answers tell of this truth on average.

    Args:
        problem: the problem; its expansions are not used.
        cost: nats taken off for every question.
        malformed: the reward of a dialogue that does not keep to the form: marks that do not match,
            a question that the problem does not have, one that is asked twice, or one that is
            followed by another before it is answered.
        least: the least gain. An answer that rules out the truth would have gained minus infinity.

    Raises:
        UnusableReward: a setting that is not a finite number.
    """

    def __init__(
        self, problem: Problem, *, cost: float = 0.0, malformed: float = 0.0, least: float = -20.0
    ) -> None:
        for name, value in (("cost", cost), ("malformed", malformed), ("least", least)):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UnusableReward(f"{name} is {value!r}; it is a number.")
            if not math.isfinite(value):
                raise UnusableReward(f"{name} is {value!r}; it is a finite number.")
        self.problem = problem
        self.cost, self.malformed, self.least = float(cost), float(malformed), float(least)
        self._world = problem_world(problem)
        self._questions: list[Question] = [entry.core for entry in problem.questions]
        self._positions = {canonical(q.text): i for i, q in enumerate(self._questions)}
        self._users = {canonical(user.name): i for i, user in enumerate(problem.users)}

    def score(self, turns: Sequence[Turn], truth: object) -> Scored:
        """The reward of a dialogue.

        Args:
            turns: what was asked and answered.
            truth: what is true: a value of the target, an answer of the closed answer set, or a
                mapping of dimensions to values, also as JSON text.

        Raises:
            UnusableReward: a truth that the problem does not have, or excludes.
        """
        true = self._truth(truth)
        try:
            exchanges = self._exchanges(turns)
        except Malformed as error:
            return Scored(self.malformed, 0.0, 0, str(error))
        gain = self._gain(turns, exchanges, true)
        gain = max(gain, self.least) if gain == gain else self.least
        return Scored(gain - self.cost * len(turns), gain, len(turns))

    def rejected(self, reason: Malformed) -> Scored:
        """The reward of a completion that could not be read."""
        return Scored(self.malformed, 0.0, 0, str(reason))

    def _gain(self, turns: Sequence[Turn], exchanges: list[Asked], true: Truth) -> float:
        if not turns:
            return 0.0
        belief, tables = self._world.belief, self._world.tables
        answered = exchanges[:-1] if turns[-1].answer is None else exchanges
        padding: list[Asked | None] = [None] * (-len(answered) % TURNS or TURNS * (not answered))
        packed = Exchanges.of(tables, [[*answered, *padding]])
        one = Exchanges(packed.question[0], packed.user[0], packed.evidence[0], packed.asked[0])
        found = dialogue_rewards(belief, tables, one, true)
        gain = float(jnp.sum(found.gain))
        if turns[-1].answer is None:
            question, user, _ = exchanges[-1]
            gain += float(expected_gain(found.belief, tables, true)[question, user])
        return gain

    def _exchanges(self, turns: Sequence[Turn]) -> list[Asked]:
        """Question, user and a weight for every choice."""
        exchanges: list[Asked] = []
        seen = set()
        valid = np.asarray(self._world.tables.valid)
        for place, turn in enumerate(turns):
            if turn.answer is None and place < len(turns) - 1:
                raise Malformed("A question was asked before the last one was answered.")
            q, u = self._position(turn)
            if not valid[q, u]:
                raise Malformed("The question is not for this user.")
            if (q, u) in seen:
                raise Malformed("A question was asked twice.")
            seen.add((q, u))
            exchanges.append((q, u, _weights(turn.answer, self._questions[q])))
        return exchanges

    def _position(self, turn: Turn) -> tuple[int, int]:
        question = self._positions.get(canonical(turn.question))
        if question is None:
            raise Malformed("The problem has no such question.")
        if turn.user:
            user = self._users.get(canonical(turn.user))
        else:
            user = 0 if len(self._users) == 1 else None
        if user is None:
            raise Malformed("The question does not say which user is asked.")
        return question, user

    def _truth(self, truth: object) -> Truth:
        belief = self._world.belief
        if isinstance(truth, str) and truth.lstrip().startswith("{"):
            text = truth
            try:
                truth = json.loads(text)
            except (json.JSONDecodeError, RecursionError):
                raise UnusableReward(f"The truth {text[:80]!r} is not JSON.") from None
        if isinstance(truth, Mapping):
            # Data sets fill in None for what a row does not have.
            true = self._of_values({k: v for k, v in truth.items() if v is not None})
        elif not isinstance(truth, str):
            raise UnusableReward(
                f"The truth is {truth!r}; it is a text, or a mapping of dimensions to values."
            )
        elif self.problem.answers is not None:
            true = self._of_answer(truth)
        elif self.problem.target is not None:
            true = self._of_values({self.problem.target: truth})
        else:
            raise UnusableReward(
                f"Problem {self.problem.name!r} has neither a target nor answers; give the truth "
                "as a mapping of dimensions to values."
            )
        if float(log_probability(belief, true)) == -math.inf:
            raise UnusableReward(
                f"The prior of {self.problem.name!r} excludes the truth {truth!r}."
            )
        return true

    def _of_values(self, values: Mapping[object, object]) -> Truth:
        dimensions: dict[object, tuple[str, ...]] = {
            entry.name: entry.value_names for entry in self.problem.dimensions
        }
        if not values:
            raise UnusableReward("The truth names no dimension.")
        log_given = jnp.zeros_like(self._world.belief.log_joint)
        for name, value in values.items():
            if name not in dimensions:
                raise UnusableReward(
                    f"The truth names the dimension {name!r}. "
                    + suggestion(str(name), map(str, dimensions), "dimensions")
                )
            if value not in dimensions[name]:
                raise UnusableReward(
                    f"The truth of {name!r} is {value!r}. "
                    + suggestion(str(value), dimensions[name], "values")
                )
            place = list(dimensions).index(name), dimensions[name].index(str(value))
            log_given = log_given + true_value(self._world.belief.layout, *place).log_given
        return Truth(log_given, jnp.zeros_like(log_given))

    def _of_answer(self, answer: str) -> Truth:
        answers = self.problem.answers
        assert answers is not None
        if answer not in answers.names:
            raise UnusableReward(
                f"The truth is {answer!r}. " + suggestion(answer, answers.names, "answers")
            )
        dimensions = tuple(entry.core for entry in self.problem.dimensions)
        tables = AnswerTables.build(
            StateSpace(dimensions),
            len(answers.names),
            [rows_of(answers.given.get(d.name), d) for d in dimensions],
            labels=self.problem.label_map,
            bucketed=True,
        )
        found: Truth = true_answer(self._world.belief.layout, tables, answers.names.index(answer))
        return found


def _weights(answer: str | None, question: Question) -> tuple[float, ...]:
    """A weight for every choice; equal ones where the answer tells nothing."""
    count = len(question.choices)
    try:
        read = understand(answer or "", question)
    except UnclearAnswer:
        return (1.0,) * count
    chosen = read.positions if isinstance(read, Choices) else ()
    return tuple(float(k in chosen or not chosen) for k in range(count))


def rewards_of(
    problems: Problem | Mapping[str, Problem], *, cost: float, malformed: float, least: float
) -> dict[str, ExactReward] | ExactReward:
    """One reward, or one for every named problem.

    Raises:
        UnusableReward: no problem, something that is none, or a bad setting.
    """

    def one(problem: object) -> ExactReward:
        if not isinstance(problem, Problem):
            raise UnusableReward(f"{type(problem).__name__} is no problem; load one first.")
        return ExactReward(problem, cost=cost, malformed=malformed, least=least)

    if not isinstance(problems, Mapping):
        return one(problems)
    if not problems:
        raise UnusableReward("There are no problems; give at least one.")
    return {name: one(problem) for name, problem in problems.items()}


def choose(rewards: dict[str, ExactReward] | ExactReward, name: object, column: str) -> ExactReward:
    """The reward for a row.

    Raises:
        UnusableReward: there is none of that name.
    """
    if isinstance(rewards, ExactReward):
        return rewards
    if not isinstance(name, str) or name not in rewards:
        raise UnusableReward(f"{column} is {name!r}. " + suggestion(str(name), rewards, "problems"))
    return rewards[name]
