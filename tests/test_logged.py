"""Logs of real dialogues: what they say when gone through again is what they said."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from balar_core import DEFAULT_LABELS, LabelMap, joint
from balar_core.dialogue import (
    Answered,
    Ask,
    CellTable,
    Dialogue,
    Dimension,
    ElicitedAnswers,
    ElicitedLikelihoods,
    ElicitedPriors,
    ProposedDimensions,
    ProposedQuestions,
    Question,
    Settings,
    Setup,
    User,
)
from balar_core.errors import InvalidInput, InvalidLabel, InvalidText
from balar_core.logged import LoggedDialogue, calibration_data
from balar_core.records import Parameters, log_likelihood, replay

from .scripted_world import ScriptedWorld

ANSWERS = ("one", "two", "three")


def setup(**settings: object) -> Setup:
    users = User("ann", "knows a little"), User("bob")
    fixed = {"min_information": 0.0, "alpha": 0.01, "max_questions": 5}
    return Setup(
        "What is wanted?", users=users, answers=ANSWERS, settings=Settings(**{**fixed, **settings})
    )


def played(seed: int, **settings: object) -> tuple[Dialogue, list[tuple[float, ...]]]:
    """A dialogue, and what was expected of every answer before it was given."""
    expected: list[tuple[float, ...]] = []
    dialogue = Dialogue.start(setup(**settings))
    world = ScriptedWorld(seed, expansions=1)
    asked: tuple[float, ...] = ()
    while dialogue.need is not None:
        if isinstance(dialogue.need, Ask):
            asked = dialogue.need.expected
        after = dialogue.tell(world.fulfil(dialogue.need))
        if len(after.conversation) > len(dialogue.conversation):
            expected.append(asked)
        dialogue = after
    return dialogue, expected


def plain(labels: int, oracles: int, users: int) -> Parameters:
    """Everything as it is."""
    weights = jnp.log(jnp.array([weight for _, weight in DEFAULT_LABELS.weights]))
    assert len(weights) == labels
    return Parameters(weights, jnp.ones(oracles), jnp.ones(users))


def test_replay_says_what_the_dialogues_said_at_every_turn(x64: bool) -> None:
    plays = [played(seed, noise=noise) for seed, noise in ((3, 0.0), (5, 0.1), (8, 0.0))]
    assert any(len(d.dimensions) > 3 for d, _ in plays)  # some have grown
    truths = [{name: d.map_state()[0][name] for name in ("d0", "d1")} for d, _ in plays]
    logged = [
        LoggedDialogue(d, f"oracle {i % 2}", truth)
        for i, ((d, _), truth) in enumerate(zip(plays, truths, strict=True))
    ]
    logged.append(LoggedDialogue(Dialogue.from_json(plays[0][0].to_json()), answer="three"))
    logged.append(LoggedDialogue(plays[1][0], truth=truths[1], answer="two"))
    logged.append(LoggedDialogue(Dialogue.start(setup())))  # left out: no belief yet
    data = calibration_data(logged)
    assert data.oracles == ("oracle 0", "oracle 1", "oracle")
    assert set(data.users) == {"ann", "bob"}
    assert not data.numbers
    parameters = plain(3, 3, 2)
    found = replay(parameters, data.records)
    answered = np.asarray(data.records.answered)
    atol = 1e-9 if x64 else 1e-5
    total = 0.0
    for i, (dialogue, expected) in enumerate(plays):
        assert len(expected) == len(dialogue.conversation) > 2
        for t, (said, exchange) in enumerate(zip(expected, dialogue.conversation, strict=True)):
            np.testing.assert_allclose(found.predicted[i, t, : len(said)], said, atol=atol)
            flat = max(exchange.evidence) == min(exchange.evidence)
            assert answered[i, t] != flat
            log_evidence = 0.0 if flat else np.log(np.dot(said, exchange.evidence))
            assert found.log_evidence[i, t].item() == pytest.approx(log_evidence, abs=10 * atol)
            total += log_evidence
        assert not answered[i, len(expected) :].any()
        space = dialogue.space
        assert space is not None and dialogue.belief is not None
        p = joint(dialogue.belief, space)
        first, second = (space.dimensions[j].values.index(truths[i][f"d{j}"]) for j in range(2))
        log_truth = np.log(p[first, second].sum())
        assert found.log_truth[i].item() == pytest.approx(log_truth, abs=10 * atol)
        total += log_truth
    # The same dialogues once more, of which an answer is known.
    posterior = plays[0][0].answer_posterior()
    assert posterior is not None
    assert found.log_truth[3].item() == pytest.approx(np.log(posterior["three"]), abs=10 * atol)
    assert found.log_truth[4].item() == pytest.approx(
        log_answer_and_truth(plays[1][0], 1, truths[1]), abs=10 * atol
    )
    total += float(found.log_evidence[3:5].sum() + found.log_truth[3:5].sum())
    again = log_likelihood(parameters, data.records).item()
    assert again == pytest.approx(total, abs=100 * atol)


def log_answer_and_truth(dialogue: Dialogue, answer: int, truth: dict[str, str]) -> float:
    """By enumeration: that an answer and some values are true at once."""
    space, tables = dialogue.space, []
    assert space is not None and dialogue.belief is not None
    for reply in dialogue.replies:
        tables += reply.tables if isinstance(reply, ElicitedAnswers) else ()
    weights = np.repeat(joint(dialogue.belief, space)[..., None], len(ANSWERS), axis=-1)
    inside = np.ones(space.sizes, bool)
    for j, (dimension, table) in enumerate(zip(space.dimensions, tables, strict=False)):
        shape = [1] * len(space.sizes)
        shape[j] = dimension.size
        if table is not None:
            rows = np.stack([DEFAULT_LABELS.distribution(row) for row in table])
            weights = weights * rows.reshape(*shape, len(ANSWERS))
        if dimension.name in truth:
            is_true = np.array(dimension.values) == truth[dimension.name]
            inside = inside & is_true.reshape(shape)
    return float(np.log(weights[inside][:, answer].sum() / weights.sum()))


QUESTIONS = tuple(Question(f"Question {i}?", ("yes", "no")) for i in range(4))
NUMBERS, ZERO = ((0.9, 0.1), (0.1, 0.9)), ((1.0, 0.0), (0.1, 0.9))


def with_numbers(answers: str) -> Dialogue:
    """A dialogue about numbers, one of them 0; answers are y and n, question by question."""
    settings = Settings(alpha=0.0, max_initial_questions=4, min_information=0.0)
    d = Dialogue.start(Setup("What now?", settings=settings))
    d = d.tell(ProposedDimensions((Dimension("d", ("a", "b")),)))
    d = d.tell(ElicitedPriors(((0.5, 0.5),))).tell(ProposedQuestions(QUESTIONS))
    tables = [CellTable(q, "you", "d", ZERO if q == 3 else NUMBERS) for q in range(4)]
    d = d.tell(ElicitedLikelihoods(tuple(tables)))
    for question, answer in enumerate(answers):
        d = d.tell(Answered(choice="yn".index(answer), position=question, user="you"))
    return d


def test_rows_of_numbers_have_a_temperature_and_zeros_stay_zeros() -> None:
    says = ["yyny", "yyny", "nnyy", "nyny", "ynyy", "nnyy"]
    data = calibration_data([LoggedDialogue(with_numbers(s), truth={"d": "a"}) for s in says])
    assert data.numbers

    def at(temperature: float) -> tuple[float, float]:
        parameters = Parameters(jnp.zeros(3), jnp.array([temperature]), jnp.ones(1))
        value, slope = jax.value_and_grad(log_likelihood)(parameters, data.records)
        return value.item(), slope.temperature.item()

    for temperature in (1.0, 2.0):
        # Answers y, y, n, y where a is true: 0.9 and 0.1 to the power 1/T, and a certain one.
        sharp = 9 ** (1 / temperature)
        right, wrong = math.log(sharp / (1 + sharp)), -math.log(1 + sharp)
        letters = "".join(s[:3] for s in says)
        exact = letters.count("y") * right + letters.count("n") * wrong + 6 * math.log(0.5)
        value, slope = at(temperature)
        assert value == pytest.approx(exact, rel=1e-5)
        assert slope > 0  # answers are right far less often than nine times in ten


def test_equal_numbers_have_no_temperature() -> None:
    d = Dialogue.start(Setup("What now?")).tell(ProposedDimensions((Dimension("d", ("a", "b")),)))
    d = d.tell(ElicitedPriors(((0.5, 0.5),))).tell(ProposedQuestions(QUESTIONS[:1]))
    table = (("likely", "neutral"), ("unlikely", "neutral"))
    d = d.tell(ElicitedLikelihoods((CellTable(0, "you", "d", table),)))
    assert not calibration_data([LoggedDialogue(d)]).numbers


def test_what_cannot_be_packed_is_refused_by_its_number() -> None:
    fine = LoggedDialogue(with_numbers("y"))
    with pytest.raises(InvalidInput, match="nothing to learn from"):
        calibration_data([])
    with pytest.raises(InvalidInput, match="nothing to learn from"):
        calibration_data([LoggedDialogue(Dialogue.start(setup()))])
    for truth, named in (
        ({"e": "a"}, "dialogue 1 speaks of 'e'; its dimensions are 'd'"),
        ({"d": "c"}, "dialogue 1 is 'c' for 'd'; the values are 'a', 'b'"),
        (["d"], "it is a mapping"),
    ):
        bad = LoggedDialogue(fine.dialogue, truth=truth)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=named):
            calibration_data([fine, bad])
    for given, answer, named in (
        (fine.dialogue, "a", "has no closed answer set; say the truth instead, as a value"),
        (played(1)[0], "four", "its answers are 'one', 'two', 'three'"),
    ):
        with pytest.raises(InvalidInput, match=named):
            calibration_data([LoggedDialogue(given, answer=answer)])
    with pytest.raises(InvalidText, match="the oracle of dialogue 0 is empty"):
        calibration_data([LoggedDialogue(fine.dialogue, oracle="")])
    other, _ = played(1, labels=LabelMap.of({"likely": 2, "neutral": 1.5, "unlikely": 1}))
    with pytest.raises(InvalidLabel, match="map of dialogue 1 is another than that of dialogue 0"):
        calibration_data([fine, LoggedDialogue(other)])
    assert calibration_data([fine, LoggedDialogue(other)], labels=DEFAULT_LABELS).labels
    with pytest.raises(InvalidLabel, match="the labels are 'high'"):
        calibration_data([LoggedDialogue(other)], labels=LabelMap.of({"high": 1.0}))
