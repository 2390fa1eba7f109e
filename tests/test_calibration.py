"""Calibration: likelihoods against enumeration, planted parameters recovered, few data, edges."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from balar_core import (
    Calibration,
    CalibrationData,
    CalibrationPriors,
    LabelMap,
    Report,
    calibrate,
)
from balar_core.errors import InvalidEvidence, InvalidInput, InvalidSetting, NumericFailure
from balar_core.records import Parameters, log_likelihood, replay

from .planted import CHOICES, LABELS, Plant, hold

WEIGHTS = {"likely": 0.9, "neutral": 0.4, "unlikely": 0.05, "never said": 0.3}
PLANT = Plant(LabelMap.of(WEIGHTS), (0.7, 1 / 0.7), (0.95, 0.6))
DIALOGUES, TURNS = 300, 6
LOG = hold(PLANT, DIALOGUES, TURNS)


def parameters_of(plant: Plant) -> Parameters:
    return Parameters(
        jnp.log(jnp.array([weight for _, weight in plant.labels.weights])),
        jnp.array(plant.temperatures, float),
        jnp.array(plant.reliabilities, float),
    )


def spread(labels: LabelMap) -> np.ndarray:
    """Logarithms of the weights of labels that occur, up to a factor."""
    logs = np.log([weight for _, weight in labels.weights[:3]])
    return np.asarray(logs - logs.mean())


def changed(data: CalibrationData, **arrays: jax.Array) -> CalibrationData:
    kept = {n: getattr(data.records, n) for n in data.records.__dataclass_fields__}
    records = type(data.records)(**{**kept, **arrays})
    return CalibrationData(records, data.labels, data.oracles, data.users, data.numbers)


@pytest.mark.parametrize("known", [True, False])
def test_likelihood_agrees_with_enumeration(x64: bool, known: bool) -> None:
    data = LOG.data(known=known)
    for plant in (PLANT, Plant(LABELS, (1.0, 1.0), (1.0, 1.0))):
        found = log_likelihood(parameters_of(plant), data.records).item()
        exact = LOG.log_probability(plant, known=known)
        assert found == pytest.approx(exact, rel=1e-9 if x64 else 1e-5)


def test_slopes_of_the_likelihood_agree_with_finite_differences() -> None:
    with jax.enable_x64(True):
        records, at = LOG.data().records, parameters_of(PLANT)
        slope = jax.grad(log_likelihood)(at, records)
        step = 1e-5
        for name in ("log_weights", "temperature", "reliability"):
            for i in range(len(getattr(at, name))):
                moved = [
                    Parameters(
                        **{
                            n: getattr(at, n).at[i].add(h) if n == name else getattr(at, n)
                            for n in ("log_weights", "temperature", "reliability")
                        }
                    )
                    for h in (step, -step)
                ]
                up, down = (log_likelihood(p, records).item() for p in moved)
                assert getattr(slope, name)[i].item() == pytest.approx(
                    (up - down) / (2 * step), rel=1e-5
                )


@pytest.mark.parametrize("known", [True, False])
def test_planted_parameters_are_recovered(known: bool) -> None:
    data = LOG.data(known=known)
    found = calibrate(data)
    assert found.converged
    np.testing.assert_allclose(spread(found.labels), spread(PLANT.labels), atol=0.2)
    assert list(found.temperatures.values()) == pytest.approx(PLANT.temperatures, rel=0.15)
    assert list(found.reliabilities.values()) == pytest.approx(PLANT.reliabilities, abs=0.06)
    before, after = found.before, found.after
    assert before.answers == after.answers == DIALOGUES * TURNS
    assert after.log_score > before.log_score
    assert after.brier < before.brier
    assert after.calibration_error < before.calibration_error
    assert after.truths == (DIALOGUES if known else 0)
    if known:
        assert after.truth_log_score is not None and before.truth_log_score is not None
        assert after.truth_log_score > before.truth_log_score + 0.1
    else:
        assert after.truth_log_score is None


def test_fit_is_at_least_as_likely_as_the_plant_and_good_for_others_too() -> None:
    wide = CalibrationPriors(labels=100, temperature=100, reliability=100)
    found = calibrate(LOG.data(), wide)
    fitted = Plant(found.labels, [*found.temperatures.values()], [*found.reliabilities.values()])
    planted, best = (LOG.log_probability(p, known=True) for p in (PLANT, fitted))
    assert planted <= best < planted + 10  # five free parameters are worth a few nats
    unseen = hold(PLANT, DIALOGUES, TURNS, seed=1).data()
    report = found.report(unseen)
    nothing_learned = Calibration(LABELS, {}, {}, found.before, found.before, True, 1.0)
    plain = nothing_learned.report(unseen)
    assert report.log_score > plain.log_score + 0.02
    assert report.truth_log_score is not None and plain.truth_log_score is not None
    assert report.truth_log_score > plain.truth_log_score + 0.1
    assert report.calibration_error < plain.calibration_error


def test_what_is_not_to_be_fitted_stays() -> None:
    data = LOG.data()
    labels = calibrate(data, temperatures=False, reliabilities=False)
    assert set(labels.temperatures.values()) == set(labels.reliabilities.values()) == {1.0}
    assert labels.unknown_user == 1
    temperatures = calibrate(data, labels=False, reliabilities=False)
    assert spread(temperatures.labels) == pytest.approx(spread(LABELS), abs=1e-6)
    # Without the weights of labels there is nothing that temperatures could be exchanged with.
    assert math.prod(temperatures.temperatures.values()) < 0.8
    nothing = calibrate(data, labels=False, temperatures=False, reliabilities=False)
    assert nothing.before == nothing.after


def test_gauge_keeps_means_that_no_dialogue_can_tell() -> None:
    scaled = LabelMap(tuple((name, 7 * weight) for name, weight in LABELS.weights))
    one, other = (calibrate(LOG.data(labels=labels)) for labels in (LABELS, scaled))
    mean = [float(np.mean(np.log([w for _, w in c.labels.weights]))) for c in (one, other)]
    start = [float(np.mean(np.log([w for _, w in m.weights]))) for m in (LABELS, scaled)]
    assert mean == pytest.approx(start, abs=1e-5)
    assert spread(one.labels) == pytest.approx(spread(other.labels), abs=5e-3)
    assert math.prod(one.temperatures.values()) == pytest.approx(1, abs=1e-5)
    # To rows of labels, temperatures are powers of the weights: exactly the same probabilities.
    doubled = Plant(
        LabelMap.of({name: weight**2 for name, weight in PLANT.labels.weights}),
        [2 * t for t in PLANT.temperatures],
        PLANT.reliabilities,
    )
    a, b = (log_likelihood(parameters_of(p), LOG.data().records) for p in (PLANT, doubled))
    assert a.item() == pytest.approx(b.item(), rel=1e-5)


def test_few_answers_stay_near_what_was_believed() -> None:
    data = LOG.data(known=False)
    first = jnp.zeros_like(data.records.answered).at[0, :2].set(True)
    few = calibrate(changed(data, answered=first))
    assert few.converged and few.after.answers == 2
    np.testing.assert_allclose(spread(few.labels), spread(LABELS), atol=0.6)
    assert list(few.temperatures.values()) == pytest.approx([1, 1], rel=0.2)
    assert all(0.85 < r < 0.99 for r in few.reliabilities.values())
    narrow = CalibrationPriors(labels=1e-3, temperature=1e-3, reliability=1e-3, reliable=0.8)
    kept = calibrate(data, narrow)
    assert list(kept.reliabilities.values()) == pytest.approx([0.8, 0.8], abs=1e-2)
    np.testing.assert_allclose(spread(kept.labels), spread(LABELS), atol=1e-2)


def test_label_that_does_not_occur_keeps_its_weight_but_for_the_factor() -> None:
    found = calibrate(LOG.data())
    logs, start = (np.log([w for _, w in m.weights]) for m in (found.labels, LABELS))
    assert logs.mean() == pytest.approx(start.mean(), abs=1e-6)
    # What it moved is what the mean of all takes back from the others.
    said = logs[:3] - start[:3]
    assert logs[3] - start[3] == pytest.approx(-said.sum(), abs=1e-5)
    assert abs(logs[3] - start[3]) < 0.3


def test_predictions_are_distributions_and_leave_out_what_was_not_answered(x64: bool) -> None:
    data = LOG.data()
    found = replay(parameters_of(PLANT), data.records)
    np.testing.assert_allclose(found.predicted.sum(axis=-1), 1, atol=1e-5)
    chosen = np.take_along_axis(np.asarray(found.predicted), LOG.answer[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(np.log(chosen), found.log_evidence, atol=1e-5)
    assert found.predicted.shape == (DIALOGUES, TURNS, CHOICES)


def test_nothing_to_learn_from_and_impossible_truths_are_told() -> None:
    data = LOG.data()
    nothing = jnp.zeros_like(data.records.answered)
    with pytest.raises(InvalidInput, match="no answer"):
        calibrate(changed(data, answered=nothing))
    false = jnp.full_like(data.records.log_truth, -jnp.inf)
    with pytest.raises(NumericFailure, match="cannot be explained"):
        calibrate(changed(data, log_truth=false))


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"labels": 0.0}, "width labels is 0.0"),
        ({"temperature": math.inf}, "width temperature is inf"),
        ({"reliability": math.nan}, "width reliability is nan"),
        ({"reliable": 1.0}, "reliable is 1.0"),
    ],
)
def test_priors_are_checked(setting: dict[str, float], named: str) -> None:
    with pytest.raises(InvalidSetting, match=named):
        CalibrationPriors(**setting)


def test_settings_of_the_fit_are_checked() -> None:
    data = LOG.data()
    with pytest.raises(InvalidSetting, match="iterations is 0"):
        calibrate(data, iterations=0)
    with pytest.raises(InvalidSetting, match="bins is 0"):
        calibrate(data, bins=0)
    assert not calibrate(data, iterations=1).converged


def learned() -> Calibration:
    report = Report(-0.5, 0.3, 0.1, 10, None, 0)
    labels = LabelMap.of({"yes": 4.0, "no": 1.0})
    return Calibration(labels, {"sharp": 0.5}, {"ann": 0.8}, report, report, True, 0.95)


def test_what_was_learned_can_be_put_to_use() -> None:
    found = learned()
    assert found.labels_of("sharp").distribution(("yes", "no")) == pytest.approx([16 / 17, 1 / 17])
    assert found.distribution(("yes", "no"), "sharp") == pytest.approx([16 / 17, 1 / 17])
    assert found.distribution((0.8, 0.2), "sharp") == pytest.approx([16 / 17, 1 / 17])
    assert found.distribution((0.8, 0.2), "another") == pytest.approx([0.8, 0.2])
    assert found.evidence((1.0, 0.0), "ann") == pytest.approx((0.9, 0.1))
    assert found.evidence((1.0, 0.0), "bob") == pytest.approx((0.975, 0.025))
    assert found.evidence(("yes", "no"), "ann") == pytest.approx((0.74, 0.26))
    with pytest.raises(InvalidEvidence):
        found.evidence((0.0, 0.0), "ann")
    with pytest.raises(InvalidInput, match="the same"):
        found.report(LOG.data())
