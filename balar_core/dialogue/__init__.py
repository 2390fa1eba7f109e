"""The dialogue: a sans-IO state machine, and everything it can need or be told.

`Dialogue.start(setup)` gives a dialogue; `dialogue.needs` says what it needs next;
`dialogue.tell(reply)` gives the dialogue after a reply. Whoever answers is not its business.
"""

from ..questions import Question, User
from ..space import Dimension
from .codec import from_data, need_key, to_data
from .explain import Candidate, Explanation
from .machine import Dialogue
from .needs import (
    REPLY_TO,
    Answered,
    Ask,
    Cell,
    CellTable,
    Conclude,
    Concluded,
    ElicitAnswers,
    ElicitedAnswers,
    ElicitedLikelihoods,
    ElicitedPriors,
    ElicitLikelihoods,
    ElicitPriors,
    Exchange,
    Need,
    ProposedDimensions,
    ProposedExpansion,
    ProposeDimensions,
    ProposedQuestions,
    ProposeExpansion,
    ProposeQuestions,
    Reply,
    ScoreAnswer,
    ScoredAnswer,
    Stopped,
)
from .setup import Settings, Setup
from .state import Outcome

__all__ = [
    "REPLY_TO",
    "Answered",
    "Ask",
    "Candidate",
    "Cell",
    "CellTable",
    "Conclude",
    "Concluded",
    "Dialogue",
    "Dimension",
    "ElicitAnswers",
    "ElicitLikelihoods",
    "ElicitPriors",
    "ElicitedAnswers",
    "ElicitedLikelihoods",
    "ElicitedPriors",
    "Exchange",
    "Explanation",
    "Need",
    "Outcome",
    "ProposeDimensions",
    "ProposeExpansion",
    "ProposeQuestions",
    "ProposedDimensions",
    "ProposedExpansion",
    "ProposedQuestions",
    "Question",
    "Reply",
    "ScoreAnswer",
    "ScoredAnswer",
    "Settings",
    "Setup",
    "Stopped",
    "User",
    "from_data",
    "need_key",
    "to_data",
]
