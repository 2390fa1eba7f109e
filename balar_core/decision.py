"""Which action: ASK, EXPAND or STOP (BALAR, sections 6 and 7)."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from .answers import AnswerTables, answer_posterior
from .belief import Belief, MapState, Update, entropy, map_state, marginals, update
from .errors import InvalidSetting
from .information import Scores, score
from .numerics import argmax, as_array, divide, xlogx
from .status import Action, Status
from .structure import Structure, find_structure
from .tables import LikelihoodTables

__all__ = [
    "Decision",
    "Response",
    "Rule",
    "Turn",
    "decide",
    "respond",
    "target_entropy",
    "turn",
]


class Rule(eqx.Module):
    """The thresholds of the decision, as arrays: changing one never compiles anything.

    Attributes:
        alpha: 1 - alpha is enough probability for an answer or a dimension.
        beta: share of settled dimensions that is enough without a closed answer set.
        expand_multiplier: m in the EXPAND rule.
        min_information: nats; a question that tells less is not asked.

    Raises:
        InvalidSetting: a threshold that is not a number in its range.
    """

    alpha: Float[Array, ""]
    beta: Float[Array, ""]
    expand_multiplier: Float[Array, ""]
    min_information: Float[Array, ""]

    def __init__(
        self,
        alpha: ArrayLike = 0.1,
        beta: ArrayLike = 1.0,
        expand_multiplier: ArrayLike = 1.0,
        min_information: ArrayLike = 1e-3,
    ) -> None:
        _check_range("alpha", alpha, 1.0)
        _check_range("beta", beta, 1.0)
        _check_range("expand_multiplier", expand_multiplier)
        _check_range("min_information", min_information)
        self.alpha = as_array(alpha, float)
        self.beta = as_array(beta, float)
        self.expand_multiplier = as_array(expand_multiplier, float)
        self.min_information = as_array(min_information, float)


def _check_range(name: str, value: ArrayLike, high: float = math.inf) -> None:
    """Refuse what is known (not traced) to be outside `[0, high]`, not finite, or not a number."""
    if isinstance(value, jax.core.Tracer):
        return
    numbers = np.asarray(value)
    if not np.all((numbers >= 0) & (numbers <= high) & np.isfinite(numbers)):
        limits = "from 0 on" if high == math.inf else f"from 0 to {high:g}"
        raise InvalidSetting(f"{name} is {value!r}; it is a finite number {limits}.")


class Decision(eqx.Module):
    """What to do, and why.

    Attributes:
        action: an `Action`.
        question: position of the best question that may be asked (0 if there is none).
        user: position of its user.
        information: its mutual information in nats; -inf if there is none.
        entropy: the entropy of the belief, in nats.
        target_entropy: the entropy at which the state would be known well enough.
        gap: `max(0, entropy - target_entropy)`.
        expand_threshold: m x best information x questions left; EXPAND is preferred above it.
        prefers_expand: whether the gap is above the threshold, or no open question tells enough.
        status: `Status.not_a_number` if a score is not a number; `question` and `user` name it.
    """

    action: Action
    question: Int[Array, ""]
    user: Int[Array, ""]
    information: Float[Array, ""]
    entropy: Float[Array, ""]
    target_entropy: Float[Array, ""]
    gap: Float[Array, ""]
    expand_threshold: Float[Array, ""]
    prefers_expand: Bool[Array, ""]
    status: Status


def target_entropy(alpha: ArrayLike, log_others: ArrayLike) -> Float[Array, ""]:
    r"""Fano's entropy: mass \(1-\alpha\) on one state, the rest spread evenly (BALAR, section 6).

    $$h(\alpha, S) = -(1-\alpha)\log(1-\alpha) - \alpha \log\frac{\alpha}{S-1}.$$

    Args:
        alpha: from 0 to 1.
        log_others: `log(S - 1)`, `-inf` for a single state (then h = 0). Take the logarithm of the
            exact number of states; `S - 1` itself may not fit a float.

    Raises:
        InvalidSetting: alpha is not a number from 0 to 1.

    >>> import math
    >>> round(target_entropy(0.1, math.log(5)).item(), 6)
    0.486027
    >>> target_entropy(0.0, math.log(5)).item(), target_entropy(0.3, -math.inf).item()
    (0.0, 0.0)
    """
    _check_range("alpha", alpha, 1.0)
    alpha = as_array(alpha, float)
    h: Array = _target_entropy(alpha, jnp.asarray(log_others, dtype=alpha.dtype))
    return h


@jax.jit
def _target_entropy(alpha: Float[Array, ""], log_others: Float[Array, ""]) -> Float[Array, ""]:
    spread = jnp.where(alpha > 0, alpha * jnp.where(alpha > 0, log_others, 0), 0)
    h = -xlogx(1 - alpha) - xlogx(alpha) + spread
    return jnp.where(log_others > -jnp.inf, h, 0)


@jax.jit
def decide(
    belief: Belief,
    scores: Scores,
    open_pairs: Bool[Array, "questions users"],
    rule: Rule,
    *,
    questions_left: Int[Array, ""] | int,
    may_ask: Bool[Array, ""] | bool = True,
    may_expand: Bool[Array, ""] | bool = True,
    settled: Action | None = None,
) -> Decision:
    r"""Apply the rule of BALAR, section 6.

    EXPAND if the gap is above \(m \cdot \max I \cdot\) (questions left), or if no open question
    tells enough; else ASK the best pair; STOP where neither is possible.

    Args:
        belief: the belief.
        scores: the scores of all open pairs.
        open_pairs: pairs that may be asked.
        rule: the thresholds.
        questions_left: how many questions may still be asked (the horizon).
        may_ask: whether the budget allows a question now.
        may_expand: whether there is room for another dimension.
        settled: an `Action` that ends the dialogue because enough is known; `Action.ask` if not.
    """
    flat, mask = scores.information.ravel(), open_pairs.ravel()
    broken = mask & jnp.isnan(flat)
    enough = mask & (flat >= rule.min_information)
    best_any, best = argmax(flat, mask)
    index = jnp.where(jnp.any(broken), jnp.argmax(broken), best_any)
    h = entropy(belief)
    goal = target_entropy(rule.alpha, belief.layout.log_states_less_one(h.dtype))
    gap = jnp.maximum(h - goal, 0)
    left = jnp.asarray(questions_left, flat.dtype)
    threshold = rule.expand_multiplier * jnp.maximum(best, 0) * left
    prefers_expand = (gap > threshold) | ~jnp.any(enough)
    users = open_pairs.shape[1]

    askable = may_ask & jnp.any(enough)
    action = Action.where(
        askable & ~(prefers_expand & may_expand),
        Action.ask,
        Action.where(
            jnp.asarray(may_ask) & may_expand,
            Action.expand,
            Action.where(jnp.asarray(may_ask), Action.nothing_informative, Action.question_budget),
        ),
    )
    if settled is not None:
        action = Action.where(settled == Action.ask, action, settled)
    action = Action.where(jnp.any(broken), Action.failed, action)
    return Decision(
        action=action,
        question=index // users,
        user=index % users,
        information=best,
        entropy=h,
        target_entropy=goal,
        gap=gap,
        expand_threshold=threshold,
        prefers_expand=prefers_expand,
        status=Status.where(jnp.any(broken), Status.not_a_number, scores.status),
    )


class Turn(eqx.Module):
    """Everything a dialogue wants to know after an answer, from one compiled call.

    Attributes:
        decision: what to do.
        scores: information and predicted answers of the open pairs.
        marginals: shape `(dimensions, values)`.
        map_state: the most probable state.
        answers: the answer posterior, or the marginal of the target dimension, or None.
    """

    decision: Decision
    scores: Scores
    marginals: Float[Array, "dimensions values"]
    map_state: MapState
    answers: Float[Array, " answers"] | None


def turn(
    belief: Belief,
    tables: LikelihoodTables,
    rule: Rule,
    *,
    questions_left: Int[Array, ""] | int,
    may_ask: Bool[Array, ""] | bool = True,
    may_expand: Bool[Array, ""] | bool = True,
    answers: AnswerTables | None = None,
    target: Int[Array, ""] | int | None = None,
    structure: Structure | None = None,
) -> Turn:
    """Score all open pairs and decide.

    Args:
        belief: the belief.
        tables: the tables.
        rule: the thresholds.
        questions_left: the horizon of the EXPAND rule.
        may_ask: whether the budget allows a question now.
        may_expand: whether there is room for another dimension.
        answers: the closed answer set, if there is one.
        target: the position of the dimension whose value is the answer, if there is one.
        structure: see `score`.
    """
    if structure is None:
        structure = find_structure(belief.layout, tables)
    taken: Turn = _turn(
        belief,
        tables,
        rule,
        questions_left=questions_left,
        may_ask=may_ask,
        may_expand=may_expand,
        answers=answers,
        target=target,
        structure=structure,
    )
    return taken


@jax.jit
def _turn(
    belief: Belief,
    tables: LikelihoodTables,
    rule: Rule,
    *,
    questions_left: Int[Array, ""] | int,
    may_ask: Bool[Array, ""] | bool,
    may_expand: Bool[Array, ""] | bool,
    answers: AnswerTables | None,
    target: Int[Array, ""] | int | None,
    structure: Structure | None,
) -> Turn:
    marginal = marginals(belief)
    enough = 1 - rule.alpha
    if answers is not None:
        posterior = answer_posterior(belief, answers)
    elif target is not None:
        posterior = marginal[target]
    else:
        posterior = None
    if posterior is not None:
        settled = Action.where(jnp.max(posterior) >= enough, Action.answer_settled, Action.ask)
    else:
        real = jnp.any(belief.layout.value_mask, axis=1)
        sure = real & (jnp.max(marginal, axis=1) >= enough)
        share = divide(jnp.sum(sure, dtype=marginal.dtype), jnp.sum(real, dtype=marginal.dtype))
        settled = Action.where(share >= rule.beta, Action.dimensions_settled, Action.ask)
    open_pairs = tables.open
    scores = score(belief, tables, open_pairs, structure=structure)
    decision = decide(
        belief,
        scores,
        open_pairs,
        rule,
        questions_left=questions_left,
        may_ask=may_ask,
        may_expand=may_expand,
        settled=settled,
    )
    return Turn(decision, scores, marginal, map_state(belief), posterior)


class Response(eqx.Module):
    """What `respond` returns.

    Attributes:
        update: the posterior, the log evidence and the status.
        turn: what to do next, under the posterior.
    """

    update: Update
    turn: Turn


def respond(
    belief: Belief,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
    evidence: Float[Array, " choices"],
    rule: Rule,
    *,
    questions_left: Int[Array, ""] | int,
    may_ask: Bool[Array, ""] | bool = True,
    may_expand: Bool[Array, ""] | bool = True,
    answers: AnswerTables | None = None,
    target: Int[Array, ""] | int | None = None,
    structure: Structure | None = None,
) -> Response:
    """A whole turn in one compiled call: update, marginals, information of all pairs, decision.

    Args:
        belief: the belief before the answer.
        tables: the tables, with the pair marked as asked (`LikelihoodTables.mark_asked`).
        question: position of the question that was answered.
        user: position of the user.
        evidence: shape `(choices,)`; the same weight everywhere changes nothing.
        rule: the thresholds.
        questions_left: the horizon of the EXPAND rule, after this answer.
        may_ask: whether the budget allows a question now.
        may_expand: whether there is room for another dimension.
        answers: the closed answer set, if there is one.
        target: the position of the dimension whose value is the answer, if there is one.
        structure: see `score`.

    Raises:
        UnknownPair: no such question or user.
        InvalidEvidence: evidence of another length than the choices, padding included.
        InvalidTable: tables of another space.
    """
    tables.check_pair(question, user)
    if structure is None:
        structure = find_structure(belief.layout, tables)
    response: Response = _respond(
        belief,
        tables,
        question,
        user,
        evidence,
        rule,
        questions_left=questions_left,
        may_ask=may_ask,
        may_expand=may_expand,
        answers=answers,
        target=target,
        structure=structure,
    )
    return response


@jax.jit
def _respond(
    belief: Belief,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
    evidence: Float[Array, " choices"],
    rule: Rule,
    *,
    questions_left: Int[Array, ""] | int,
    may_ask: Bool[Array, ""] | bool,
    may_expand: Bool[Array, ""] | bool,
    answers: AnswerTables | None,
    target: Int[Array, ""] | int | None,
    structure: Structure | None,
) -> Response:
    learned = update(belief, tables, question, user, evidence)
    following = turn(
        learned.belief,
        tables,
        rule,
        questions_left=questions_left,
        may_ask=may_ask,
        may_expand=may_expand,
        answers=answers,
        target=target,
        structure=structure,
    )
    return Response(learned, following)
