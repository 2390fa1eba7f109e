r"""Questions about one variable each, and what an answer says of it.

Where hidden variables depend on each other there are no tables per dimension to multiply. There a
question asks for one variable, and the answer comes through a channel \(K(y \mid v)\): the identity
for exact answers, something flatter for people who err or do not know. Beliefs over listed states
(`listed`) take these questions.

For a target A, any part of the state, the information of a question is (BALAR, section 5)

$$I(A; Y) = \sum_a p(a) \sum_y p(y \mid a) \log \frac{p(y \mid a)}{p(y)}, \qquad
  p(a, y) = \sum_v p(a, v) K(y \mid v).$$

Given the variable that it asks for, an answer depends on nothing else: the information about the
whole state is the information about that variable.
"""

from collections.abc import Sequence
from typing import Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .errors import InvalidQuestion, InvalidSetting, InvalidTable, UnknownPair
from .evidence import offered
from .labels import DEFAULT_LABELS
from .numerics import as_array, divergence, logsumexp, normalise, safe_log

__all__ = ["Channels", "QuestionScores", "noisy_channel", "question_scores"]


class Channels(eqx.Module):
    """Questions, each about one variable.

    Attributes:
        variable: shape `(questions,)`; the position of the variable that is asked for.
        table: shape `(questions, values, choices)`; the probability of each choice given the value
            of that variable; 0 in padding.
        choice_mask: shape `(questions, choices)`; False for padding.
    """

    variable: Int[Array, " questions"]
    table: Float[Array, "questions values choices"]
    choice_mask: Bool[Array, "questions choices"]

    @classmethod
    def build(
        cls,
        sizes: Sequence[int],
        variables: Sequence[int],
        tables: Sequence[Sequence[Sequence[float]] | np.ndarray | None] | None = None,
    ) -> Self:
        """Validate and pack channels.

        Args:
            sizes: the number of values of every variable.
            variables: which variable each question asks for; a variable may occur more than once.
            tables: for each question a row of probabilities of the choices per value, or None for
                an exact answer. All are exact if not given.

        Raises:
            InvalidQuestion: no question, or a variable that does not exist.
            InvalidTable, InvalidDistribution: a bad table.

        >>> Channels.build([2, 3], [1, 0]).table.shape
        (2, 3, 3)
        """
        if len(variables) == 0:
            raise InvalidQuestion("There is no question; give the variable of at least one.")
        for q, j in enumerate(variables):
            if not (isinstance(j, int | np.integer) and 0 <= j < len(sizes)):
                raise InvalidQuestion(
                    f"Question {q} asks for variable {j!r}; there are variables 0 to "
                    f"{len(sizes) - 1}."
                )
        given = [None] * len(variables) if tables is None else list(tables)
        if len(given) != len(variables):
            raise InvalidTable(f"{len(given)} channels for {len(variables)} questions; give each.")
        rows = [
            np.eye(sizes[j]) if table is None else _checked(table, sizes[j], q)
            for q, (j, table) in enumerate(zip(variables, given, strict=True))
        ]
        width = max(row.shape[1] for row in rows)
        packed = np.zeros((len(rows), max(sizes), width))
        mask = np.zeros((len(rows), width), bool)
        for q, row in enumerate(rows):
            packed[q, : row.shape[0], : row.shape[1]] = row
            mask[q, : row.shape[1]] = True
        return cls(as_array(np.array(variables)), as_array(packed, float), as_array(mask))

    def log_weights(
        self,
        question: Int[Array, ""] | int,
        evidence: Float[Array, " choices"],
        strength: Float[Array, ""] | float = 1.0,
    ) -> Float[Array, " values"]:
        r"""What evidence says of every value of the variable: \(\log \sum_y K(y \mid v)\, s(y)\).

        Args:
            question: its position.
            evidence: one weight per choice, padding included; only proportions matter.
            strength: what the logarithm is multiplied by. Less than 1 for an answer that partly
                repeats an earlier one, 0 to ignore it.

        Returns:
            Log weights; `-inf` for values that the evidence excludes. Exactly 0 for every value
            if the evidence is the same for every choice.

        Raises:
            InvalidEvidence: the wrong number of weights.
            UnknownPair: no such question.
        """
        count = self.choice_mask.shape[0]
        if isinstance(question, int | np.integer) and not 0 <= question < count:
            raise UnknownPair(f"There is no question {question}; there are 0 to {count - 1}.")
        log_s, flat = offered(evidence, self.choice_mask[question], self.table.dtype)
        log_k = safe_log(self.table[question])
        found = logsumexp(log_k + log_s[None, :], axis=1)
        scaled = jnp.where(strength > 0, jnp.where(found > -jnp.inf, found * strength, found), 0)
        weights: Array = jnp.where(flat, 0, scaled)
        return weights


class QuestionScores(eqx.Module):
    """What is known about every question.

    Attributes:
        whole: shape `(questions,)`; information about the whole state, in nats, 0 or more.
        about: shape `(questions,)`; information about the target, never more than `whole` but for
            rounding.
        predictive: shape `(questions, choices)`; how likely each answer is.
        target: shape `(targets,)`; the distribution of the target.
    """

    whole: Float[Array, " questions"]
    about: Float[Array, " questions"]
    predictive: Float[Array, "questions choices"]
    target: Float[Array, " targets"]


def question_scores(
    marginals: Float[Array, "variables values"],
    joints: Float[Array, "targets variables values"],
    channels: Channels,
) -> QuestionScores:
    """Scores from the marginals and from the joints of the target with every variable.

    >>> joints = jnp.array([[[0.5, 0.0], [0.3, 0.2]], [[0.0, 0.5], [0.2, 0.3]]])
    >>> scores = question_scores(joints.sum(0), joints, Channels.build([2, 2], [0, 1]))
    >>> [round(x, 4) for x in scores.about.tolist()]
    [0.6931, 0.0201]
    """
    values = normalise(marginals[channels.variable], axis=-1)
    predictive = normalise(jnp.sum(values[:, :, None] * channels.table, axis=1), axis=-1)
    far = jnp.sum(divergence(channels.table, predictive[:, None, :]), axis=2)
    whole = jnp.sum(jnp.where(values > 0, values * far, 0), axis=1)
    # Sums of products, not a matrix product: nothing may be rounded to fewer digits on the way.
    pairs = jnp.moveaxis(joints, 1, 0)[channels.variable]
    answers = jnp.sum(pairs[:, :, :, None] * channels.table[:, None, :, :], axis=2)
    mean = normalise(jnp.sum(answers, axis=1), axis=-1)
    apart = jnp.sum(divergence(normalise(answers, axis=-1), mean[:, None, :]), axis=2)
    share = normalise(jnp.sum(answers, axis=2), axis=-1)
    about = jnp.sum(jnp.where(share > 0, share * apart, 0), axis=1)
    target = normalise(jnp.sum(joints[:, 0, :], axis=1))
    return QuestionScores(whole, about, predictive, target)


def noisy_channel(size: int, noise: float = 0.0, *, unknown: float = 0.0) -> np.ndarray:
    r"""A channel of people who sometimes err and sometimes do not know.

    Args:
        size: the number of values, which are the choices.
        noise: share of answers that are replaced by a uniformly random choice.
        unknown: share of answers that are "I do not know"; if it is above 0, that is one more
            choice, the last one.

    Returns:
        Shape `(size, choices)`.

    Raises:
        InvalidSetting: a share that is not from 0 to 1, or fewer than two values.

    >>> noisy_channel(2, 0.1, unknown=0.2).round(3).tolist()
    [[0.76, 0.04, 0.2], [0.04, 0.76, 0.2]]
    """
    if size < 2:
        raise InvalidSetting(f"A channel of {size} value(s) tells nothing; two are needed.")
    for name, share in (("noise", noise), ("unknown", unknown)):
        if not 0 <= share <= 1:
            raise InvalidSetting(f"{name} is {share!r}; it is a share from 0 to 1.")
    known = (1 - unknown) * ((1 - noise) * np.eye(size) + noise / size)
    return np.hstack([known, np.full((size, 1), unknown)]) if unknown else known


def _checked(table: Sequence[Sequence[float]] | np.ndarray, values: int, q: int) -> np.ndarray:
    """A channel as an array, its rows checked."""
    if len(table) != values:
        raise InvalidTable(
            f"The channel of question {q} has {len(table)} rows; its variable has {values} values."
        )
    width = len(table[0])
    if width < 2:
        raise InvalidTable(f"The channel of question {q} has {width} choice(s); two are needed.")
    return np.array(
        [
            DEFAULT_LABELS.distribution(
                tuple(row), f"row {v} of the channel of question {q}", length=width
            )
            for v, row in enumerate(table)
        ]
    )
