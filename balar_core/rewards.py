r"""The exact information-gain reward (IG reward, equations 1 and 2).

For a truth G, a question and its answer A the reward is the pointwise information gain

$$R = \log P(G \mid A) - \log P(G) = \log P(A \mid G) - \log P(A)$$

in nats, under the belief before the exchange. It is positive if the answer made the truth more
probable, negative if it misled, and exactly 0 if it tells nothing or if nothing was asked. The
rewards of a dialogue add up to \(\log P_T(G) - \log P_0(G)\). Averaged over answers and truths a
reward is the mutual information, `mutual_information`.
"""

from collections.abc import Sequence
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from .belief import Belief, Update, condition, weigh
from .errors import InvalidEvidence
from .information import score
from .labels import DEFAULT_LABELS, LabelMap, Row, evidence_weights
from .numerics import as_array, divergence, log_mean_exp
from .status import Status
from .tables import LikelihoodTables
from .truth import Truth, given_truth, log_probability

__all__ = [
    "DialogueRewards",
    "Exchanges",
    "Gain",
    "batch_rewards",
    "dialogue_rewards",
    "expected_gain",
    "pointwise_gain",
]

Exchange = tuple[int, int, int | Row]
"""Question, user, and the choice that was given, or a weight (or label) for every choice."""


class Gain(eqx.Module):
    """What `pointwise_gain` returns.

    Attributes:
        gain: in nats; `-inf` if the answer ruled out the truth, 0 if the truth was excluded before
            or the evidence is impossible.
        possible: whether the truth had probability before the exchange.
        update: the posterior, and the status of the update.
    """

    gain: Float[Array, ""]
    possible: Bool[Array, ""]
    update: Update


def pointwise_gain(
    belief: Belief,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
    evidence: Float[Array, " choices"],
    truth: Truth,
) -> Gain:
    """The reward of one exchange.

    Evidence that has the same probability in every possible state gains exactly 0, and small gains
    keep their digits.

    Args:
        belief: the belief before the exchange.
        tables: the tables; shapes as `belief.layout`.
        question: position of the question.
        user: position of the user.
        evidence: shape `(choices,)`, as in `update`.
        truth: what is true.

    Raises:
        UnknownPair: no such question or user.
        InvalidEvidence: evidence of another length than the choices, padding included.
        InvalidTable: tables of another space.

    >>> from balar_core import StateSpace, true_state
    >>> space = StateSpace.of(cause=["a", "b"])
    >>> belief = Belief.from_priors(space, [(0.5, 0.5)])
    >>> tables = LikelihoodTables.build(space, [2], {(0, 0): [[[0.8, 0.2], [0.2, 0.8]]]})
    >>> truth = true_state(belief.layout, 0)
    >>> [round(pointwise_gain(belief, tables, 0, 0, jnp.array(answer), truth).gain.item(), 6)
    ...  for answer in ([1.0, 0.0], [0.0, 1.0], [0.5, 0.5])]
    [0.470004, -0.916291, 0.0]
    """
    tables.check_pair(question, user)
    found: Gain = _pointwise_gain(belief, tables, question, user, evidence, truth)
    return found


@jax.jit
def _pointwise_gain(
    belief: Belief,
    tables: LikelihoodTables,
    question: Int[Array, ""] | int,
    user: Int[Array, ""] | int,
    evidence: Float[Array, " choices"],
    truth: Truth,
) -> Gain:
    weighed = weigh(belief, tables, question, user, evidence)
    update = condition(belief, weighed)
    given, log_truth, total = given_truth(belief, truth)
    possible = log_truth > -jnp.inf
    counts = possible & ~weighed.flat & (update.status == Status.ok)
    # Against the best state all differences are at most 0, and equal ones are 0.
    allowed = belief.log_joint > -jnp.inf
    log_likelihood = jnp.where(allowed & counts, weighed.log_likelihood, 0)
    best = jnp.max(log_likelihood, initial=-jnp.inf, where=allowed)
    relative = log_likelihood - jax.lax.stop_gradient(jnp.where(best > -jnp.inf, best, 0))
    gain = log_mean_exp(given, relative) - log_mean_exp(total, relative)
    return Gain(jnp.where(counts, gain, 0), possible, update)


@jax.jit
def expected_gain(
    belief: Belief, tables: LikelihoodTables, truth: Truth
) -> Float[Array, "questions users"]:
    r"""The reward of every question for one truth, averaged over its answers.

    \(\mathrm{KL}(P(A \mid G) \,\|\, P(A)) \ge 0\), in nats: an answer may mislead, a question does
    not, as long as answers come from the tables. Averaged over truths too it is
    `mutual_information`.

    Args:
        belief: the belief.
        tables: the tables.
        truth: what is true.

    Returns:
        Shape `(questions, users)`; 0 for pairs that do not exist, and for a truth that is excluded.

    Raises:
        InvalidTable: tables of another space.
    """
    given, log_truth, total = given_truth(belief, truth)
    answers, anyway = (
        score(Belief(log_joint, belief.layout), tables).predictive for log_joint in (given, total)
    )
    found = jnp.sum(divergence(answers, anyway), axis=-1)
    return jnp.where(tables.valid & (log_truth > -jnp.inf), found, 0)


class Exchanges(eqx.Module):
    """The exchanges of a dialogue, turn by turn, or of a batch of dialogues of any lengths.

    Attributes:
        question: shape `(*batch, turns)`.
        user: shape `(*batch, turns)`.
        evidence: shape `(*batch, turns, choices)`.
        asked: shape `(*batch, turns)`; False where nothing was asked, and for padding. What the
            other arrays hold there does not matter.
    """

    question: Int[Array, "*batch turns"]
    user: Int[Array, "*batch turns"]
    evidence: Float[Array, "*batch turns choices"]
    asked: Bool[Array, "*batch turns"]

    @classmethod
    def of(
        cls,
        tables: LikelihoodTables,
        dialogues: Sequence[Sequence[Exchange | None]],
        *,
        labels: LabelMap = DEFAULT_LABELS,
    ) -> Self:
        """Pack a batch of dialogues, padded to the longest.

        Args:
            tables: the tables that the exchanges are about.
            dialogues: for every dialogue its exchanges `(question, user, answer)`, the answer
                being the position of a choice or a row of weights or labels; None for a turn
                in which nothing was asked.
            labels: the label map.

        Raises:
            UnknownPair: no such question or user.
            InvalidEvidence: no such choice, or a bad row.
            InvalidLabel: a label that is not in the map.
        """
        shape = len(dialogues), max(map(len, dialogues), default=0)
        choices = np.asarray(tables.choice_mask)
        question, user = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        evidence, asked = np.zeros((*shape, choices.shape[1])), np.zeros(shape, bool)
        for i, dialogue in enumerate(dialogues):
            for t, exchange in enumerate(dialogue):
                if exchange is None:
                    continue
                q, u, answer = exchange
                tables.check_pair(q, u)
                count = int(choices[q].sum())
                what = f"the answer of turn {t} of dialogue {i}"
                question[i, t], user[i, t], asked[i, t] = q, u, True
                evidence[i, t, :count] = _weights(answer, count, labels, what)
        return cls(as_array(question), as_array(user), as_array(evidence, float), as_array(asked))


def _weights(answer: int | Row, count: int, labels: LabelMap, what: str) -> np.ndarray:
    if not isinstance(answer, int | np.integer):
        return evidence_weights(answer, count, labels, what)
    if not 0 <= answer < count:
        raise InvalidEvidence(f"{what} is choice {answer}; there are {count}, counted from 0.")
    weights = np.zeros(count)
    weights[answer] = 1
    return weights


class DialogueRewards(eqx.Module):
    """The rewards of a dialogue, turn by turn.

    Attributes:
        gain: shape `(turns,)`; the information gain, in nats; exactly 0 where nothing was asked.
        reward: shape `(turns,)`; the gain less the cost of the question.
        log_truth: shape `(turns + 1,)`; the log probability of the truth before the first turn and
            after every turn.
        status: shape `(turns,)`; how each update went. After one that failed the belief is as it
            was before.
        belief: the belief after the last turn.
    """

    gain: Float[Array, "*batch turns"]
    reward: Float[Array, "*batch turns"]
    log_truth: Float[Array, "*batch moments"]
    status: Status
    belief: Belief

    @property
    def cumulative(self) -> Float[Array, "*batch turns"]:
        """The sum of the rewards up to and including every turn."""
        return jnp.cumsum(self.reward, axis=-1)


@jax.jit
def dialogue_rewards(
    belief: Belief,
    tables: LikelihoodTables,
    exchanges: Exchanges,
    truth: Truth,
    *,
    cost: ArrayLike = 0.0,
) -> DialogueRewards:
    """The rewards of the turns of one dialogue.

    Args:
        belief: the belief before the first turn.
        tables: the tables.
        exchanges: what was asked and answered; arrays of shape `(turns, ...)`.
        truth: what is true.
        cost: nats taken off for every question that was asked.

    Raises:
        InvalidEvidence: evidence of another length than the choices, padding included.
        InvalidTable: tables of another space.
    """

    def turn(belief: Belief, exchange: Exchanges) -> tuple[Belief, tuple[Array, Array, Status]]:
        asked = exchange.asked
        found = _pointwise_gain(
            belief,
            tables,
            jnp.where(asked, exchange.question, 0),
            jnp.where(asked, exchange.user, 0),
            jnp.where(asked, exchange.evidence, 1),
            truth,
        )
        after = found.update.belief
        log_joint = jnp.where(asked, after.log_joint, belief.log_joint)
        after = Belief(log_joint, belief.layout)
        gain = jnp.where(asked, found.gain, 0)
        status = Status.where(asked, found.update.status, Status.ok)
        return after, (gain, log_probability(after, truth), status)

    last, (gain, log_truth, status) = jax.lax.scan(turn, belief, exchanges)
    first = log_probability(belief, truth)
    return DialogueRewards(
        gain=gain,
        reward=gain - jnp.where(exchanges.asked, jnp.asarray(cost, gain.dtype), 0),
        log_truth=jnp.concatenate([first[None], log_truth]),
        status=status,
        belief=last,
    )


@jax.jit
def batch_rewards(
    belief: Belief,
    tables: LikelihoodTables,
    exchanges: Exchanges,
    truths: Truth,
    *,
    cost: ArrayLike = 0.0,
) -> DialogueRewards:
    """The rewards of many dialogues that begin with the same belief and the same tables.

    For dialogues in different worlds map `dialogue_rewards` over stacked beliefs and tables.

    Args:
        belief: the belief before the first turns.
        tables: the tables.
        exchanges: arrays with a leading axis of dialogues (`Exchanges.of`).
        truths: what is true in each dialogue, with a leading axis:
            `jax.vmap(true_state, in_axes=(None, 0))(belief.layout, states)`.
        cost: nats taken off for every question that was asked.

    Returns:
        `DialogueRewards` with a leading axis of dialogues.

    Raises:
        InvalidEvidence: evidence of another length than the choices, padding included.
        InvalidTable: tables of another space.
    """

    def one(exchanges: Exchanges, truth: Truth) -> DialogueRewards:
        found: DialogueRewards = dialogue_rewards(belief, tables, exchanges, truth, cost=cost)
        return found

    rewards: DialogueRewards = jax.vmap(one)(exchanges, truths)
    return rewards
