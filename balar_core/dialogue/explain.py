"""Why the next step is what it is: the numbers behind a decision, and a sentence."""

from dataclasses import dataclass

import numpy as np

from ..information import dimension_information
from ..questions import Question
from ..status import code_name, help_text
from .setup import Setup
from .state import State

__all__ = ["Candidate", "Explanation"]


@dataclass(frozen=True)
class Candidate:
    """One (question, user) pair as the decision saw it.

    Attributes:
        position: position of the question.
        question: the question.
        user: the name of the user.
        information: what the answer is expected to tell, in nats; 0 if asked already.
        expected: the predicted probability of each choice; all 0 if asked already.
        state: `"open"`, `"asked"`, or `"settled"`: it would tell less than `min_information`.
    """

    position: int
    question: Question
    user: str
    information: float
    expected: tuple[float, ...]
    state: str


@dataclass(frozen=True)
class Explanation:
    """The numbers behind a decision (BALAR, sections 6 and 7), in nats.

    Attributes:
        action: `"ask"`, `"expand"` or `"stop"`.
        words: the decision as a sentence.
        entropy: the entropy of the belief.
        target_entropy: the entropy at which the state would be known well enough.
        gap: how far the entropy is above the target.
        expand_threshold: EXPAND is preferred when the gap is above this.
        questions_left: how many questions may still be asked.
        candidates: every pair: open ones first, most informative first.
        about: for the first candidate, what it tells about each dimension alone, largest first;
            empty if that was not asked for.
    """

    action: str
    words: str
    entropy: float
    target_entropy: float
    gap: float
    expand_threshold: float
    questions_left: int
    candidates: tuple[Candidate, ...]
    about: tuple[tuple[str, float], ...]


def explain(setup: Setup, state: State, *, about: bool) -> Explanation:
    """Explain the last decision of a state that has one."""
    assert state.turn is not None and state.belief is not None and state.packed is not None
    decision = state.turn.decision
    action = code_name(decision.action)
    candidates = _candidates(setup, state)
    return Explanation(
        action=action if action in ("ask", "expand") and state.outcome is None else "stop",
        words=state.outcome.words if state.outcome else help_text(decision.action),
        entropy=float(decision.entropy),
        target_entropy=float(decision.target_entropy),
        gap=float(decision.gap),
        expand_threshold=float(decision.expand_threshold),
        questions_left=setup.settings.max_questions - len(state.asked),
        candidates=candidates,
        about=_shares(setup, state, candidates[0]) if about and candidates else (),
    )


def _candidates(setup: Setup, state: State) -> tuple[Candidate, ...]:
    assert state.turn is not None
    information = np.asarray(state.turn.scores.information)
    predictive = np.asarray(state.turn.scores.predictive)
    asked = set(state.asked)
    order = {"open": 0, "settled": 1, "asked": 2}
    found = []
    for q, question in enumerate(state.questions[: state.questions_known]):
        for u, user in enumerate(setup.users):
            told = float(information[q, u])
            if (q, u) in asked:
                status = "asked"
            else:
                status = "open" if told >= setup.settings.min_information else "settled"
            expected = tuple(float(p) for p in predictive[q, u, : len(question.choices)])
            found.append(Candidate(q, question, user.name, told, expected, status))
    return tuple(sorted(found, key=lambda c: (order[c.state], -c.information)))


def _shares(setup: Setup, state: State, best: Candidate) -> tuple[tuple[str, float], ...]:
    """What a candidate tells about each dimension alone, largest first."""
    assert state.belief is not None and state.packed is not None
    if best.state == "asked":
        return ()
    user = [user.name for user in setup.users].index(best.user)
    told = np.asarray(dimension_information(state.belief, state.packed, best.position, user))
    names = [dimension.name for dimension in state.dimensions[: state.known]]
    shares = [(name, float(share)) for name, share in zip(names, told, strict=False)]
    return tuple(sorted(shares, key=lambda pair: -pair[1]))
