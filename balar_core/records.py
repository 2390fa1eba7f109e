r"""Logged dialogues as arrays, and how likely they are under other weights of labels.

What was said in a dialogue stays; what is made of it depends on parameters:

- the weights \(\phi\) of the labels;
- a temperature T per oracle, who filled the tables: a row becomes \(p_i \propto w_i^{1/T}\), with
  \(w\) the weights of its labels, or its numbers;
- a reliability r per user: an answer is what the tables say with probability r, and otherwise any
  choice, all alike. That is the same as evidence \(r s + (1 - r)/C\) in place of s.

Everything here can be differentiated with respect to the parameters.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .belief import Belief, condition, log_product, weigh
from .numerics import divide, log_normalise, logsumexp, normalise, safe_log
from .space import Layout
from .tables import LikelihoodTables, group_log_likelihood

__all__ = ["Parameters", "Record", "Replay", "Rows", "log_likelihood", "replay"]


class Parameters(eqx.Module):
    """What is made of labels, oracles and users.

    Attributes:
        log_weights: shape `(labels,)`.
        temperature: shape `(oracles,)`; above 0, 1 takes rows as they are.
        reliability: shape `(users,)`; from 0 to 1, 1 takes answers as they are.
    """

    log_weights: Float[Array, " labels"]
    temperature: Float[Array, " oracles"]
    reliability: Float[Array, " users"]


class Rows(eqx.Module):
    """Rows of labels or of numbers, as they were given.

    Attributes:
        label: shape `(*rows, entries)`; the position of the label, -1 in rows of numbers.
        log_number: shape `(*rows, entries)`; the logarithm of the number.
        mask: shape `(*rows, entries)`; False for padding, and for rows that were not given.
    """

    label: Int[Array, "*rows entries"]
    log_number: Float[Array, "*rows entries"]
    mask: Bool[Array, "*rows entries"]

    def log_distributions(
        self, log_weights: Float[Array, " labels"], temperature: Float[Array, ""]
    ) -> Float[Array, "*rows entries"]:
        """The rows as log probabilities; 0 where nothing was given."""
        said = self.label >= 0
        raw = jnp.where(said, log_weights[jnp.maximum(self.label, 0)], self.log_number)
        present = self.mask & (raw > -jnp.inf)
        sharper = divide(jnp.where(present, raw, 0), jnp.broadcast_to(temperature, raw.shape))
        scaled = jnp.where(present, sharper, -jnp.inf)
        return jnp.where(self.mask, log_normalise(scaled, axis=-1)[0], 0)


class Record(eqx.Module):
    """A logged dialogue, or a stack of them with a leading axis.

    Attributes:
        layout: of the space that it ended with.
        prior: shape `(dimensions, values)`.
        tables: shape `(turns, dimensions, values, choices)`; the tables of what was asked. A
            dimension that did not matter, or not yet, was not given.
        choices: shape `(turns, choices)`; False for padding.
        evidence: shape `(turns, choices)`; what was answered, as weights that sum to one.
        answered: shape `(turns,)`; False for padding, and where nothing was learned.
        user: shape `(turns,)`; who was asked.
        oracle: whose tables they are.
        noise: the noise of the tables, as in `LikelihoodTables.build`.
        log_truth: shape `(dimensions, values)`; `-inf` for values that are known to be false.
        answers: shape `(dimensions, values, answers)`; the tables of the closed answer set.
        answer_mask: shape `(answers,)`; False for padding.
        true_answer: the position of the answer that is true; -1 where it is not known.
        known: whether anything is known about the truth.
    """

    layout: Layout
    prior: Rows
    tables: Rows
    choices: Bool[Array, "*batch turns choices"]
    evidence: Float[Array, "*batch turns choices"]
    answered: Bool[Array, "*batch turns"]
    user: Int[Array, "*batch turns"]
    oracle: Int[Array, "*batch"]
    noise: Float[Array, "*batch"]
    log_truth: Float[Array, "*batch dimensions values"]
    answers: Rows
    answer_mask: Bool[Array, "*batch answers"]
    true_answer: Int[Array, "*batch"]
    known: Bool[Array, "*batch"]


class Replay(eqx.Module):
    """What a dialogue says under some parameters.

    Attributes:
        predicted: shape `(turns, choices)`; the probability of every choice before the answer.
        log_evidence: shape `(turns,)`; the log probability of the answer (nats), 0 where there is
            none.
        log_truth: the log probability of what is known to be true, after the last turn (nats); 0
            where nothing is known.
    """

    predicted: Float[Array, "*batch turns choices"]
    log_evidence: Float[Array, "*batch turns"]
    log_truth: Float[Array, "*batch"]


@jax.jit
def replay(parameters: Parameters, records: Record) -> Replay:
    """Go through dialogues again.

    Args:
        parameters: the parameters.
        records: a stack of dialogues.
    """

    def one(record: Record) -> Replay:
        choices = jnp.eye(record.choices.shape[-1], dtype=record.evidence.dtype)
        log_p, log_evidence, log_truth = _replay(parameters, record, choices)
        predicted = jnp.where(record.choices, jnp.exp(log_p), 0)
        return Replay(predicted, log_evidence, log_truth)

    replayed: Replay = jax.vmap(one)(records)
    return replayed


@jax.jit
def log_likelihood(parameters: Parameters, records: Record) -> Float[Array, ""]:
    """The log probability of all answers, and of all that is known to be true (nats).

    Args:
        parameters: the parameters.
        records: a stack of dialogues.
    """

    def one(record: Record) -> Float[Array, ""]:
        nothing = jnp.zeros((0, record.choices.shape[-1]), record.evidence.dtype)
        _, log_evidence, log_truth = _replay(parameters, record, nothing)
        return jnp.sum(log_evidence) + log_truth

    return jnp.sum(jax.vmap(one)(records))


def _replay(
    parameters: Parameters, record: Record, others: Float[Array, "others choices"]
) -> tuple[Float[Array, "turns others"], Float[Array, " turns"], Float[Array, ""]]:
    """Log probabilities of other answers and of those given, turn by turn; that of the truth."""
    layout = record.layout
    temperature = parameters.temperature[record.oracle]
    log_weights = parameters.log_weights
    prior = record.prior.log_distributions(log_weights, temperature)
    # A turn that is padding is replayed as one in which anything could be said.
    open_choices = record.choices | ~jnp.any(record.choices, axis=1, keepdims=True)

    @jax.checkpoint
    def turn(
        log_joint: Float[Array, "rows columns"],
        now: tuple[Rows, Array, Array, Array, Array],
    ) -> tuple[Float[Array, "rows columns"], tuple[Array, Array]]:
        rows, choices, evidence, answered, user = now
        given = rows.log_distributions(log_weights, temperature)
        log_tables = _noisy(given, rows.mask, choices, record.noise)
        yes = jnp.ones((1, 1), bool)
        tables = LikelihoodTables(log_tables[None, None], choices[None], yes, ~yes)
        belief = Belief(log_joint, layout)
        offered = jnp.concatenate([jnp.where(answered, evidence, 1)[None], others])
        uniform = normalise(choices.astype(evidence.dtype))
        reliability = parameters.reliability[user]
        heard = reliability * offered + (1 - reliability) * uniform[None, :]
        found = jax.vmap(lambda s: condition(belief, weigh(belief, tables, 0, 0, s)))(heard)
        after = jnp.where(answered, found.belief.log_joint[0], log_joint)
        return after, (found.log_evidence[1:], jnp.where(answered, found.log_evidence[0], 0))

    turns = record.tables, open_choices, record.evidence, record.answered, record.user
    last, (log_others, log_evidence) = jax.lax.scan(turn, log_product(prior, layout), turns)
    given = record.answers.log_distributions(log_weights, temperature)
    return log_others, log_evidence, _log_truth(record, last, given)


def _log_truth(
    record: Record,
    log_joint: Float[Array, "rows columns"],
    log_answers: Float[Array, "dimensions values answers"],
) -> Float[Array, ""]:
    """The log probability of what is known to be true; 0 where nothing is known."""
    digits = record.layout.row_digits, record.layout.column_digits
    rows, columns = (group_log_likelihood(record.log_truth[:, :, None], d) for d in digits)
    possible = log_joint + rows + columns.T
    rows, columns = (
        jnp.where(record.answer_mask[None, :], group_log_likelihood(log_answers, d), -jnp.inf)
        for d in digits
    )

    def log_weight(answer: Int[Array, ""], among: Float[Array, "rows columns"]) -> Array:
        return logsumexp(among + rows[:, answer][:, None] + columns[:, answer][None, :])

    # As in `answers.answer_posterior`: normalised once, over the answers.
    named = record.true_answer >= 0
    every = jnp.arange(record.answer_mask.shape[0])
    total = logsumexp(jax.vmap(log_weight, in_axes=(0, None))(every, log_joint))
    true = log_weight(jnp.maximum(record.true_answer, 0), possible)
    log_truth = jnp.where(named, true, logsumexp(possible)) - jnp.where(named, total, 0)
    return jnp.where(record.known, log_truth, 0)


def _noisy(
    log_tables: Float[Array, "dimensions values choices"],
    mask: Bool[Array, "dimensions values choices"],
    choices: Bool[Array, " choices"],
    noise: Float[Array, ""],
) -> Float[Array, "dimensions values choices"]:
    """The tables with a share of uniformly random answers mixed in."""
    uniform = normalise(choices.astype(log_tables.dtype))
    mixed = (1 - noise) * jnp.exp(log_tables) + noise * uniform[None, None, :]
    return jnp.where(mask & (noise > 0), safe_log(mixed), log_tables)
