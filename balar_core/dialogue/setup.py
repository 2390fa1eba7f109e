"""What a dialogue starts from: the prompt, who can be asked, the answers, the settings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import InvalidQuestion, InvalidSetting
from ..labels import DEFAULT_LABELS, LabelMap
from ..questions import User
from ..text import check_distinct, check_text

__all__ = ["Settings", "Setup"]


@dataclass(frozen=True)
class Settings:
    """The numbers of a dialogue. Defaults are those of the paper's runs where it has them.

    Attributes:
        alpha: confidence level; 1 - alpha is enough for the answer (or for a dimension).
        beta: share of dimensions that must be settled when there is no closed answer set.
        expand_multiplier: m in the EXPAND rule.
        horizon: `"questions"`: rounds left are the questions that may still be asked (the paper's
            meaning); `"rounds"`: the rounds left of `max_rounds` (what the research code does; it
            makes EXPAND about ten times rarer).
        max_questions: how many questions may be asked.
        max_rounds: how many rounds (questions and expansions) there may be.
        max_states: cap on the number of joint states.
        max_dimensions: most dimensions in the first proposal.
        max_values: most values of a dimension.
        max_initial_questions: most questions in the first proposal.
        max_choices: most choices of a question.
        max_new_questions: most questions per expansion.
        uncertain_dimensions: how many of the most uncertain dimensions new questions aim at.
        min_information: nats; a question that is expected to tell less is not asked.
        noise: share of answers that are replaced by a uniformly random choice; mixed into every
            likelihood table (the floor under its entries is noise / choices). 0 = as given.
        labels: the label map.

    Raises:
        InvalidSetting: a number out of range; the message names it.
    """

    alpha: float = 0.1
    beta: float = 1.0
    expand_multiplier: float = 1.0
    horizon: str = "questions"
    max_questions: int = 10
    max_rounds: int = 100
    max_states: int = 50_000
    max_dimensions: int = 5
    max_values: int = 4
    max_initial_questions: int = 3
    max_choices: int = 4
    max_new_questions: int = 4
    uncertain_dimensions: int = 2
    min_information: float = 1e-3
    noise: float = 0.0
    labels: LabelMap = field(default=DEFAULT_LABELS)

    def __post_init__(self) -> None:
        if isinstance(self.labels, Mapping):
            object.__setattr__(self, "labels", LabelMap.of(self.labels))
        for name in ("alpha", "beta", "noise"):
            self._check(name, 0.0, 1.0)
        for name in ("expand_multiplier", "min_information"):
            self._check(name, 0.0, math.inf)
        for name, least in (
            ("max_questions", 0),
            ("max_rounds", 0),
            ("max_states", 2),
            ("max_dimensions", 1),
            ("max_values", 2),
            ("max_initial_questions", 1),
            ("max_choices", 2),
            ("max_new_questions", 0),
            ("uncertain_dimensions", 0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidSetting(
                    f"{name} is {value!r}; it is a whole number of {least} or more."
                )
        if self.horizon not in ("questions", "rounds"):
            raise InvalidSetting(
                f"horizon is {self.horizon!r}; it is 'questions' (questions left to ask) or "
                "'rounds' (rounds left of max_rounds)."
            )

    def _check(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not (low <= value <= high) or math.isinf(value):
            limits = f"from {low:g} to {high:g}" if high < math.inf else f"of {low:g} or more"
            raise InvalidSetting(f"{name} is {value!r}; it is a finite number {limits}.")
        object.__setattr__(self, name, float(value))


@dataclass(frozen=True)
class Setup:
    """Everything that is fixed before the first reply.

    Attributes:
        prompt: the ambiguous request.
        context: what is publicly known.
        users: who can be asked; at least one.
        answers: the closed answer set, if there is one (suspects, diagnoses, ...).
        target: instead of a closed answer set, the name of the dimension whose value is the answer.
        settings: the numbers.
        origin: a free note on where the problem came from, such as a file name; kept when saved.
    """

    prompt: str
    context: str = ""
    users: tuple[User, ...] = (User("you"),)
    answers: tuple[str, ...] | None = None
    target: str | None = None
    settings: Settings = field(default_factory=Settings)
    origin: str = ""

    def __post_init__(self) -> None:
        check_text(self.prompt, "the prompt")
        check_text(self.context, "the context", empty=True)
        check_text(self.origin, "the origin", empty=True)
        object.__setattr__(self, "users", tuple(self.users))
        if not self.users:
            raise InvalidQuestion("There is nobody to ask; give at least one user.")
        check_distinct((u.name for u in self.users), "Users", error=InvalidQuestion)
        if self.target is not None:
            check_text(self.target, "the target dimension")
            if self.answers is not None:
                raise InvalidSetting(
                    "Both a closed answer set and a target dimension are given; give one of them."
                )
        if self.answers is not None:
            object.__setattr__(self, "answers", tuple(self.answers))
            if len(self.answers) < 2:
                raise InvalidQuestion(
                    f"The closed answer set has {len(self.answers)} answer(s); it needs two or "
                    "more, or leave it out."
                )
            for position, answer in enumerate(self.answers):
                check_text(answer, f"answer {position}", error=InvalidQuestion)
            check_distinct(self.answers, "Answers", error=InvalidQuestion)
