"""Calibration: what labels, oracles and users are worth, learned from logged dialogues.

The parameters of `records.Parameters` are fitted to logged dialogues: what was answered, and what
is known to be true, shall have been likely. Their logarithm is maximised together with a prior
(maximum a posteriori), since dialogues are few and some parameters show in few of them.

What the data cannot tell, and how it is settled:

- Rows are normalised, so that weights of labels are known up to a factor. Their geometric mean
  stays what it was.
- To rows of labels a temperature is a power of all weights. So if both are fitted and no row is of
  numbers, the geometric mean of the temperatures is 1, and what oracles have in common is in the
  weights.
- A label that does not occur, or never together with another in a row, keeps its weight up to that
  factor.
- Wrong answers and tables that are too sharp look alike where a question has two choices and few
  different rows. Then the prior decides. Known truths help.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Bool, Float

from .errors import InvalidInput, InvalidSetting, NumericFailure
from .forecasts import forecast_scores
from .labels import LabelMap, Row, evidence_weights
from .numerics import as_array, divide
from .records import Parameters, Record, log_likelihood, replay

__all__ = ["Calibration", "CalibrationData", "CalibrationPriors", "Report", "calibrate"]

TOLERANCE = 1e-4
"""The fit is done when no slope, per answer, is larger."""


@dataclass(frozen=True)
class CalibrationData:
    """Logged dialogues, packed (see `logged.calibration_data`).

    Attributes:
        records: the dialogues.
        labels: the label map to begin with.
        oracles: the names of the oracles.
        users: the names of the users.
        numbers: whether there are rows of numbers that a temperature would change.
    """

    records: Record
    labels: LabelMap
    oracles: tuple[str, ...]
    users: tuple[str, ...]
    numbers: bool


@dataclass(frozen=True)
class CalibrationPriors:
    """What is believed before any dialogue: normal distributions, by their widths.

    Attributes:
        labels: of the logarithm of a weight, round its weight in the label map.
        temperature: of the logarithm of a temperature, round 0.
        reliability: of the log odds of a reliability, round those of `reliable`.
        reliable: how reliable a user of whom nothing is known is.

    Raises:
        InvalidSetting: a number out of range.
    """

    labels: float = 1.0
    temperature: float = 0.5
    reliability: float = 1.0
    reliable: float = 0.95

    def __post_init__(self) -> None:
        for name in ("labels", "temperature", "reliability"):
            width = getattr(self, name)
            if not 0 < width <= 100:
                raise InvalidSetting(f"The width {name} is {width!r}; it is above 0, at most 100.")
        if not 0 < self.reliable < 1:
            raise InvalidSetting(f"reliable is {self.reliable!r}; it is between 0 and 1.")


@dataclass(frozen=True)
class Report:
    """How good predictions were; see `ForecastScores`.

    Attributes:
        log_score: of answers, on average (nats).
        brier: of answers.
        calibration_error: of answers.
        answers: how many there were.
        truth_log_score: of what is known to be true after a dialogue, on average (nats); None if
            nothing is known.
        truths: of how many dialogues something is known.
    """

    log_score: float
    brier: float
    calibration_error: float
    answers: int
    truth_log_score: float | None
    truths: int


@dataclass(frozen=True)
class Calibration:
    """What was learned.

    Attributes:
        labels: the fitted label map.
        temperatures: oracle -> temperature; below 1 its tables become sharper, above 1 flatter.
        reliabilities: user -> share of answers that are no random choice.
        before: predictions with the label map to begin with, and temperatures and reliabilities of
            1.
        after: predictions with what was fitted, on the same dialogues.
        converged: whether the fit has come to an end.
        unknown_user: the reliability of a user who was not met.
    """

    labels: LabelMap
    temperatures: Mapping[str, float]
    reliabilities: Mapping[str, float]
    before: Report
    after: Report
    converged: bool
    unknown_user: float

    def labels_of(self, oracle: str) -> LabelMap:
        """The label map for an oracle, its temperature taken in: the one to put into settings."""
        power = 1 / self.temperatures.get(oracle, 1.0)
        logs = power * np.log([weight for _, weight in self.labels.weights])
        weights = np.exp(logs - logs.max())
        return LabelMap(tuple(zip(self.labels.names, map(float, weights), strict=True)))

    def distribution(self, row: Row, oracle: str) -> np.ndarray:
        """A row of an oracle as a distribution, labels and numbers alike.

        Raises:
            InvalidTable, InvalidLabel, InvalidDistribution: a bad row.
        """
        if all(isinstance(cell, str) for cell in row):
            return self.labels_of(oracle).distribution(row)
        numbers = self.labels.distribution(row)
        sharper = (numbers / numbers.max()) ** (1 / self.temperatures.get(oracle, 1.0))
        shares: np.ndarray = sharper / sharper.sum()
        return shares

    def evidence(self, answer: Row, user: str) -> tuple[float, ...]:
        """What an answer of a user is worth: weights over the choices, that sum to one.

        Raises:
            InvalidEvidence, InvalidLabel: a bad row.
        """
        weights = evidence_weights(answer, len(answer), self.labels)
        reliability = self.reliabilities.get(user, self.unknown_user)
        return tuple((reliability * weights + (1 - reliability) / len(weights)).tolist())

    def report(self, data: CalibrationData, *, bins: int = 10) -> Report:
        """How good predictions are on dialogues that the fit has not seen.

        An oracle that was not met has temperature 1, a user the reliability `unknown_user`.

        Args:
            data: dialogues with labels of the same names.
            bins: of the calibration error.

        Raises:
            InvalidInput: the data have labels of other names, or in another order.
        """
        if data.labels.names != self.labels.names:
            raise InvalidInput(
                f"The dialogues have the labels {', '.join(data.labels.names)}, and the "
                f"calibration {', '.join(self.labels.names)}; they must be the same."
            )
        temperatures = [self.temperatures.get(name, 1.0) for name in data.oracles]
        reliabilities = [self.reliabilities.get(name, self.unknown_user) for name in data.users]
        parameters = Parameters(
            log_weights=_log_weights(self.labels),
            temperature=as_array(np.array(temperatures), float),
            reliability=as_array(np.array(reliabilities), float),
        )
        return _report(data, parameters, bins)


def calibrate(
    data: CalibrationData,
    priors: CalibrationPriors | None = None,
    *,
    labels: bool = True,
    temperatures: bool = True,
    reliabilities: bool = True,
    iterations: int = 100,
    bins: int = 10,
) -> Calibration:
    """Fit what was made of labels, oracles and users (L-BFGS).

    Args:
        data: the dialogues.
        priors: what is believed beforehand; the default widths otherwise.
        labels: whether to fit the weights of labels.
        temperatures: whether to fit temperatures; 1 otherwise.
        reliabilities: whether to fit reliabilities; 1 otherwise.
        iterations: the most iterations.
        bins: of the calibration error.

    Raises:
        InvalidInput: there is no answer to learn from.
        InvalidSetting: a setting out of range.
        NumericFailure: the dialogues are impossible, whatever the parameters.
    """
    priors = CalibrationPriors() if priors is None else priors
    if iterations < 1:
        raise InvalidSetting(f"iterations is {iterations!r}; it is a whole number of 1 or more.")
    if not np.asarray(data.records.answered).any():
        raise InvalidInput("There is no answer in these dialogues; nothing can be learned.")
    start = _start(data, reliability=priors.reliable if reliabilities else 1.0)
    widths = as_array(np.array([priors.labels, priors.temperature, priors.reliability]), float)
    fitted, loss, slope = _fit(
        data.records,
        start,
        widths,
        as_array(np.array([labels, temperatures, reliabilities])),
        labels and temperatures and not data.numbers,
        iterations,
    )
    if not (np.isfinite(loss) and np.isfinite(slope)):
        raise NumericFailure(
            "These dialogues cannot be explained: an answer, or what is said to be true, is "
            "impossible by their tables. Look for zeros, or give their settings a noise above 0."
        )
    weights = np.exp(np.asarray(fitted.log_weights, np.float64))
    return Calibration(
        labels=LabelMap(tuple(zip(data.labels.names, map(float, weights), strict=True))),
        temperatures=_named(data.oracles, fitted.temperature),
        reliabilities=_named(data.users, fitted.reliability),
        before=_report(data, _start(data, reliability=1.0), bins),
        after=_report(data, fitted, bins),
        converged=bool(slope <= TOLERANCE),
        unknown_user=priors.reliable if reliabilities else 1.0,
    )


def _named(names: Sequence[str], values: Array) -> dict[str, float]:
    return dict(zip(names, np.asarray(values, np.float64).tolist(), strict=True))


def _log_weights(labels: LabelMap) -> Float[Array, " labels"]:
    return as_array(np.log([weight for _, weight in labels.weights]), float)


def _start(data: CalibrationData, *, reliability: float) -> Parameters:
    return Parameters(
        log_weights=_log_weights(data.labels),
        temperature=as_array(np.ones(len(data.oracles)), float),
        reliability=as_array(np.full(len(data.users), reliability), float),
    )


def _report(data: CalibrationData, parameters: Parameters, bins: int) -> Report:
    records = data.records
    found = replay(parameters, records)
    width = found.predicted.shape[-1]
    scores = forecast_scores(
        found.predicted.reshape(-1, width),
        records.evidence.reshape(-1, width),
        records.answered.ravel(),
        bins=bins,
    )
    known = np.asarray(records.known)
    truths = np.asarray(found.log_truth, np.float64)[known]
    return Report(
        log_score=float(scores.log_score),
        brier=float(scores.brier),
        calibration_error=float(scores.calibration_error),
        answers=int(scores.count),
        truth_log_score=float(truths.mean()) if len(truths) else None,
        truths=int(known.sum()),
    )


Coordinates = tuple[Float[Array, " labels"], Float[Array, " oracles"], Float[Array, " users"]]


@jax.jit
def _fit(
    records: Record,
    start: Parameters,
    widths: Float[Array, " 3"],
    free: Bool[Array, " 3"],
    centred: ArrayLike,
    iterations: ArrayLike,
) -> tuple[Parameters, Float[Array, ""], Float[Array, ""]]:
    """The parameters of the best fit, what they lose, and the largest slope that is left there.

    Coordinates are how far a parameter is from where it began, in widths of the prior.
    """
    answers = jnp.sum(records.answered, dtype=widths.dtype)
    log_odds = jax.scipy.special.logit(jnp.where(free[2], start.reliability, 0.5))

    def steps(x: Coordinates) -> Coordinates:
        weights, temperature, odds = (
            widths[i] * jnp.where(free[i], part, 0) for i, part in enumerate(x)
        )
        mean = jnp.where(centred, jnp.mean(temperature), 0)
        return weights - jnp.mean(weights), temperature - mean, odds

    def parameters(x: Coordinates) -> Parameters:
        weights, temperature, odds = steps(x)
        reliability = jnp.where(free[2], jax.nn.sigmoid(log_odds + odds), start.reliability)
        return Parameters(start.log_weights + weights, jnp.exp(temperature), reliability)

    def loss(x: Coordinates) -> Float[Array, ""]:
        squares = sum(
            jnp.sum(divide(step, jnp.broadcast_to(widths[i], step.shape)) ** 2)
            for i, step in enumerate(steps(x))
        )
        return divide(0.5 * squares - log_likelihood(parameters(x), records), answers)

    def largest(slopes: Coordinates) -> Float[Array, ""]:
        return jnp.max(jnp.abs(jnp.concatenate(slopes)), initial=0)

    optimiser = optax.lbfgs()
    look = optax.value_and_grad_from_state(loss)

    def goes_on(carry: tuple[Coordinates, optax.OptState]) -> Bool[Array, ""]:
        value, slope, count = (
            optax.tree.get(carry[1], name) for name in ("value", "grad", "count")
        )
        steep = jnp.isfinite(value) & (largest(slope) > TOLERANCE)
        return jnp.asarray((count < iterations) & ((count == 0) | steep))

    def step(carry: tuple[Coordinates, optax.OptState]) -> tuple[Coordinates, optax.OptState]:
        x, state = carry
        value, slopes = look(x, state=state)
        change, state = optimiser.update(slopes, state, x, value=value, grad=slopes, value_fn=loss)
        return cast(Coordinates, optax.apply_updates(x, change)), state

    zero = jnp.zeros_like
    begin = zero(start.log_weights), zero(start.temperature), zero(start.reliability)
    x, state = jax.lax.while_loop(goes_on, step, (begin, optimiser.init(begin)))
    value, slope = (optax.tree.get(state, name) for name in ("value", "grad"))
    return parameters(x), value, largest(slope)
