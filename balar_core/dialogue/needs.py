"""What a dialogue needs next, and what it can be told: frozen, typed, JSON-serialisable values.

Every `Need` has one reply type:

    ProposeDimensions  -> ProposedDimensions        Ask              -> Answered
    ElicitPriors       -> ElicitedPriors            ScoreAnswer      -> ScoredAnswer
    ProposeQuestions   -> ProposedQuestions         ProposeExpansion -> ProposedExpansion
    ElicitLikelihoods  -> ElicitedLikelihoods       Conclude         -> Concluded
    ElicitAnswers      -> ElicitedAnswers

and `Stopped` may be told at any time. Whoever answers (a person, a model, a table, a client over
HTTP) sees only these values; they hold everything that is needed to answer.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from ..labels import Row, Table
from ..questions import Question, User
from ..space import Dimension

__all__ = [
    "REPLY_TO",
    "Answered",
    "Ask",
    "Cell",
    "CellTable",
    "Conclude",
    "Concluded",
    "ElicitAnswers",
    "ElicitLikelihoods",
    "ElicitPriors",
    "ElicitedAnswers",
    "ElicitedLikelihoods",
    "ElicitedPriors",
    "Exchange",
    "Need",
    "ProposeDimensions",
    "ProposeExpansion",
    "ProposeQuestions",
    "ProposedDimensions",
    "ProposedExpansion",
    "ProposedQuestions",
    "Reply",
    "ScoreAnswer",
    "ScoredAnswer",
    "Stopped",
]


@dataclass(frozen=True)
class Exchange:
    """One question that was put to a user, and what came back.

    Attributes:
        question: the text of the question.
        choices: its choices.
        user: the name of the user.
        reply: the reply as text; empty if only a choice was given.
        evidence: normalised weights over the choices; all equal when nothing was learned.
    """

    question: str
    choices: tuple[str, ...]
    user: str
    reply: str
    evidence: tuple[float, ...]


@dataclass(frozen=True)
class Cell:
    """Which likelihood table is meant: question (by position), user and dimension (by name)."""

    question: int
    user: str
    dimension: str


@dataclass(frozen=True)
class CellTable:
    """A likelihood table: one row per value of the dimension, one entry per choice.

    `table=None` says that the answer does not depend on this dimension.
    """

    question: int
    user: str
    dimension: str
    table: Table | None


# --- needs ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProposeDimensions:
    """Name the dimensions along which the prompt is ambiguous (BALAR, section 8, step 1)."""

    kind: ClassVar[str] = "propose_dimensions"
    prompt: str
    context: str
    users: tuple[User, ...]
    answers: tuple[str, ...] | None
    max_dimensions: int
    max_values: int


@dataclass(frozen=True)
class ElicitPriors:
    """Give every value of these dimensions a prior label (BALAR, section 8, step 2)."""

    kind: ClassVar[str] = "elicit_priors"
    prompt: str
    context: str
    dimensions: tuple[Dimension, ...]
    labels: tuple[str, ...]
    conversation: tuple[Exchange, ...] = ()


@dataclass(frozen=True)
class ProposeQuestions:
    """Propose new questions (BALAR, section 8, step 3; at EXPAND aimed at `targets`, section 9).

    Attributes:
        targets: names of the dimensions the questions should tell most about; empty = all.
        existing: the questions that exist already and should not be repeated.
    """

    kind: ClassVar[str] = "propose_questions"
    prompt: str
    context: str
    users: tuple[User, ...]
    dimensions: tuple[Dimension, ...]
    targets: tuple[str, ...]
    existing: tuple[Question, ...]
    max_questions: int
    max_choices: int
    conversation: tuple[Exchange, ...] = ()


@dataclass(frozen=True)
class ElicitLikelihoods:
    """Fill the tables of these (question, user, dimension) cells (BALAR, section 8, step 4).

    `questions` and `dimensions` hold what the cells refer to: `questions[i]` is the question whose
    position is `positions[i]`.
    """

    kind: ClassVar[str] = "elicit_likelihoods"
    prompt: str
    context: str
    users: tuple[User, ...]
    dimensions: tuple[Dimension, ...]
    questions: tuple[Question, ...]
    positions: tuple[int, ...]
    cells: tuple[Cell, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class ElicitAnswers:
    """Fill the answer table of each of these dimensions (BALAR, section 8, step 5)."""

    kind: ClassVar[str] = "elicit_answers"
    prompt: str
    context: str
    dimensions: tuple[Dimension, ...]
    answers: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Ask:
    """Put this question to this user (BALAR, section 10).

    Attributes:
        question: the question.
        position: its position in `Dialogue.questions`.
        user: the user to be asked.
        information: the mutual information of question and state, in nats.
        expected: the predicted probability of each choice.
    """

    kind: ClassVar[str] = "ask"
    question: Question
    position: int
    user: User
    information: float
    expected: tuple[float, ...]


@dataclass(frozen=True)
class ScoreAnswer:
    """Say how well each choice fits a reply in free text (BALAR, section 10)."""

    kind: ClassVar[str] = "score_answer"
    question: Question
    position: int
    user: User
    reply: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class ProposeExpansion:
    """Propose one new dimension from the conversation so far, or none (BALAR, section 9)."""

    kind: ClassVar[str] = "propose_expansion"
    prompt: str
    context: str
    users: tuple[User, ...]
    dimensions: tuple[Dimension, ...]
    uncertain: tuple[str, ...]
    max_values: int
    conversation: tuple[Exchange, ...]


@dataclass(frozen=True)
class Conclude:
    """Give the final answer (BALAR, section 11).

    Attributes:
        state: the MAP state as (dimension, value) pairs.
        probability: the posterior probability of that state.
        answers: the closed answer set, if there is one: (answer, probability) pairs.
        reason: why the questions ended.
    """

    kind: ClassVar[str] = "conclude"
    prompt: str
    context: str
    state: tuple[tuple[str, str], ...]
    probability: float
    answers: tuple[tuple[str, float], ...] | None
    reason: str
    conversation: tuple[Exchange, ...]


# --- replies -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProposedDimensions:
    """Reply to `ProposeDimensions`."""

    kind: ClassVar[str] = "proposed_dimensions"
    dimensions: tuple[Dimension, ...]


@dataclass(frozen=True)
class ElicitedPriors:
    """Reply to `ElicitPriors`: one row per dimension, in the order asked."""

    kind: ClassVar[str] = "elicited_priors"
    priors: tuple[Row, ...]


@dataclass(frozen=True)
class ProposedQuestions:
    """Reply to `ProposeQuestions`; may be empty at EXPAND."""

    kind: ClassVar[str] = "proposed_questions"
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class ElicitedLikelihoods:
    """Reply to `ElicitLikelihoods`: every cell exactly once, in any order."""

    kind: ClassVar[str] = "elicited_likelihoods"
    tables: tuple[CellTable, ...]


@dataclass(frozen=True)
class ElicitedAnswers:
    """Reply to `ElicitAnswers`: one table per dimension, in the order asked.

    A table has one row per value and one entry per answer; `None` says that the answer does not
    depend on the dimension.
    """

    kind: ClassVar[str] = "elicited_answers"
    tables: tuple[Table | None, ...]


@dataclass(frozen=True)
class Answered:
    """Reply to `Ask`, in one of four forms.

    - `choice=k`: choice number k (from 0), certain;
    - `evidence=row`: soft evidence, labels or weights, one per choice;
    - `unknown=True`: the user does not know; nothing is learned, the pair counts as asked;
    - only `reply`: free text, to be scored (the dialogue then needs `ScoreAnswer`).

    `reply` may hold the user's words beside any of the other three. An answer belongs to the pair
    that was asked unless `position` and `user` name another one: whoever happens to learn the
    answer to a question that is still open can tell it.
    """

    kind: ClassVar[str] = "answered"
    choice: int | None = None
    evidence: Row | None = None
    unknown: bool = False
    reply: str = ""
    position: int | None = None
    user: str | None = None


@dataclass(frozen=True)
class ScoredAnswer:
    """Reply to `ScoreAnswer`: labels or weights, one per choice."""

    kind: ClassVar[str] = "scored_answer"
    evidence: Row


@dataclass(frozen=True)
class ProposedExpansion:
    """Reply to `ProposeExpansion`: a new dimension, or `None` if there is nothing to add."""

    kind: ClassVar[str] = "proposed_expansion"
    dimension: Dimension | None


@dataclass(frozen=True)
class Concluded:
    """Reply to `Conclude`.

    Attributes:
        answer: one of the closed answers, if there are any; else None or any text.
        text: words for the user.
    """

    kind: ClassVar[str] = "concluded"
    answer: str | None = None
    text: str = ""


@dataclass(frozen=True)
class Stopped:
    """Told at any time: stop asking and conclude with what is known."""

    kind: ClassVar[str] = "stopped"
    reason: str = field(default="stopped by the user")


Need = (
    ProposeDimensions
    | ElicitPriors
    | ProposeQuestions
    | ElicitLikelihoods
    | ElicitAnswers
    | Ask
    | ScoreAnswer
    | ProposeExpansion
    | Conclude
)
Reply = (
    ProposedDimensions
    | ElicitedPriors
    | ProposedQuestions
    | ElicitedLikelihoods
    | ElicitedAnswers
    | Answered
    | ScoredAnswer
    | ProposedExpansion
    | Concluded
    | Stopped
)

REPLY_TO: dict[type[Need], type[Reply]] = {
    ProposeDimensions: ProposedDimensions,
    ElicitPriors: ElicitedPriors,
    ProposeQuestions: ProposedQuestions,
    ElicitLikelihoods: ElicitedLikelihoods,
    ElicitAnswers: ElicitedAnswers,
    Ask: Answered,
    ScoreAnswer: ScoredAnswer,
    ProposeExpansion: ProposedExpansion,
    Conclude: Concluded,
}
"""Which reply answers which need."""
