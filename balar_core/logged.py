"""Logged dialogues, packed to learn from (see `calibration`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from .calibration import CalibrationData
from .dialogue import Dialogue
from .dialogue.needs import (
    Answered,
    ElicitedAnswers,
    ElicitedLikelihoods,
    ElicitedPriors,
    ProposedDimensions,
    ProposedExpansion,
    ScoredAnswer,
)
from .errors import InvalidInput, InvalidLabel
from .labels import LabelMap, Row, Table
from .numerics import stack_padded
from .records import Record, Rows
from .space import Layout, StateSpace
from .text import check_text

__all__ = ["LoggedDialogue", "calibration_data"]


@dataclass(frozen=True)
class LoggedDialogue:
    """A dialogue, finished or not, and what is known about it.

    Attributes:
        dialogue: the dialogue.
        oracle: who filled its tables.
        truth: dimension -> value, as far as it is known what was true.
        answer: the answer of a closed set that was true, if that is known.
        name: what it is called in messages; its position otherwise.
    """

    dialogue: Dialogue
    oracle: str = "oracle"
    truth: Mapping[str, str] | None = None
    answer: str | None = None
    name: str = ""


def calibration_data(
    logged: Sequence[LoggedDialogue], *, labels: LabelMap | None = None
) -> CalibrationData:
    """Pack dialogues, padded to the largest.

    Answers count as they were recorded: a choice, or the evidence that a reply in words was scored
    to be. Answers from which nothing was learned are left out, and so are dialogues that have not
    come to a belief. Users of one name are one user.

    Args:
        logged: the dialogues.
        labels: the label map to begin with; that of the dialogues by default.

    Raises:
        InvalidInput: no dialogue has come to a belief, or a truth is not about its dialogue.
        InvalidLabel: the dialogues have different label maps and none is given, or a label is not
            in the one that is given.
    """
    kept = [
        (each.name or f"dialogue {i}", each)
        for i, each in enumerate(logged)
        if each.dialogue.space is not None
    ]
    if not kept:
        raise InvalidInput("No dialogue has come to a belief; there is nothing to learn from.")
    if labels is None:
        labels = kept[0][1].dialogue.setup.settings.labels
        for name, each in kept:
            if each.dialogue.setup.settings.labels != labels:
                raise InvalidLabel(
                    f"The label map of {name} is another than that of {kept[0][0]}; give the one "
                    "to begin with."
                )
    oracles = tuple(
        dict.fromkeys(check_text(each.oracle, f"the oracle of {name}") for name, each in kept)
    )
    users = tuple(dict.fromkeys(user for _, each in kept for _, user in each.dialogue.asked))
    packed = [_record(each, labels, oracles, users, name) for name, each in kept]
    records: Record = jax.tree.map(stack_padded, _PADDING, *(record for record, _ in packed))
    return CalibrationData(
        records=records,
        labels=labels,
        oracles=oracles,
        users=users,
        numbers=any(sharp for _, sharp in packed),
    )


@dataclass(frozen=True)
class _Turn:
    """An answer: the pair, and how many dimensions there were."""

    question: int
    user: str
    dimensions: int


def _turns(dialogue: Dialogue) -> Iterator[_Turn]:
    asked, dimensions = iter(dialogue.asked), 0
    for reply in dialogue.replies:
        match reply:
            case ProposedDimensions():
                dimensions = len(reply.dimensions)
            case ProposedExpansion() if reply.dimension is not None:
                dimensions += 1
            case ScoredAnswer():
                yield _Turn(*next(asked), dimensions)
            case Answered(unknown=unknown, choice=choice, evidence=evidence):
                if unknown or choice is not None or evidence is not None:
                    yield _Turn(*next(asked), dimensions)
                # What was said in words alone counts when it is scored.


def _record(
    logged: LoggedDialogue,
    labels: LabelMap,
    oracles: tuple[str, ...],
    users: tuple[str, ...],
    what: str,
) -> tuple[Record, bool]:
    """One dialogue, and whether it has rows of numbers that a temperature would change."""
    dialogue = logged.dialogue
    space = dialogue.space
    assert space is not None
    replies = dialogue.replies
    priors = [row for reply in replies if isinstance(reply, ElicitedPriors) for row in reply.priors]
    tables: dict[tuple[int, str, str], Table | None] = {
        (cell.question, cell.user, cell.dimension): cell.table
        for reply in replies
        if isinstance(reply, ElicitedLikelihoods)
        for cell in reply.tables
    }
    turns = list(_turns(dialogue))
    exchanges = dialogue.conversation
    names, sizes = space.names, space.sizes
    widest = max((len(e.choices) for e in exchanges), default=2)
    shape = len(turns), len(sizes), max(sizes), widest
    prior, given = _Filling(shape[1:3], labels), _Filling(shape, labels)
    closed = dialogue.setup.answers or ()
    answer_tables = [
        t for reply in replies if isinstance(reply, ElicitedAnswers) for t in reply.tables
    ]
    answers = _Filling((*shape[1:3], max(1, len(closed))), labels)
    for j in range(len(names)):
        prior.put((j,), priors[j])
        for v, row in enumerate((answer_tables[j] if closed else None) or ()):
            answers.put((j, v), row)
    choices, evidence = np.zeros((shape[0], widest), bool), np.zeros((shape[0], widest))
    answered, user = np.zeros(shape[0], bool), np.zeros(shape[0], np.int32)
    for t, (turn, exchange) in enumerate(zip(turns, exchanges, strict=True)):
        count = len(exchange.choices)
        choices[t, :count] = True
        evidence[t, :count] = exchange.evidence
        answered[t] = max(exchange.evidence) > min(exchange.evidence)
        user[t] = users.index(turn.user)
        for j, name in enumerate(names[: turn.dimensions]):
            table = tables[turn.question, turn.user, name]
            for v, row in enumerate(table or ()):
                given.put((t, j, v), row)
    truth = logged.truth or {}
    arrays = Record(
        layout=space.layout(),
        prior=prior.rows(),
        tables=given.rows(),
        choices=choices,  # type: ignore[arg-type]
        evidence=evidence,  # type: ignore[arg-type]
        answered=answered,  # type: ignore[arg-type]
        user=user,  # type: ignore[arg-type]
        oracle=np.int32(oracles.index(logged.oracle)),  # type: ignore[arg-type]
        noise=np.float64(dialogue.setup.settings.noise),  # type: ignore[arg-type]
        log_truth=_log_truth(space, truth, what),  # type: ignore[arg-type]
        answers=answers.rows(),
        answer_mask=np.arange(max(1, len(closed))) < len(closed),  # type: ignore[arg-type]
        true_answer=_true_answer(logged, what),  # type: ignore[arg-type]
        known=np.bool_(bool(truth) or logged.answer is not None),  # type: ignore[arg-type]
    )
    return arrays, prior.sharp or given.sharp or answers.sharp


class _Filling:
    """Rows that are filled in one by one, in NumPy.

    Attributes:
        sharp: whether a temperature would change a row of numbers.
    """

    def __init__(self, shape: tuple[int, ...], labels: LabelMap) -> None:
        self.label = np.full(shape, -1, np.int32)
        self.log_number = np.zeros(shape)
        self.mask = np.zeros(shape, bool)
        self.sharp = False
        self._labels = labels
        self._position = {name: i for i, name in enumerate(labels.names)}

    def put(self, place: tuple[int, ...], row: Row) -> None:
        """Fill one row."""
        distribution = self._labels.distribution(row)
        cells: tuple[int | slice, ...] = (*place, slice(len(row)))
        self.mask[cells] = True
        if isinstance(row[0], str):
            self.label[cells] = [self._position[str(label)] for label in row]
            return
        positive = distribution[distribution > 0]
        self.sharp = self.sharp or bool(np.ptp(positive) > 0)
        with np.errstate(divide="ignore"):
            self.log_number[cells] = np.log(distribution)

    def rows(self) -> Rows:
        """What was filled in."""
        return Rows(self.label, self.log_number, self.mask)  # type: ignore[arg-type]


def _log_truth(space: StateSpace, truth: Mapping[str, str], what: str) -> np.ndarray:
    log_truth = np.zeros((len(space.dimensions), max(space.sizes)))
    if not isinstance(truth, Mapping):
        raise InvalidInput(
            f"The truth of {what} is {truth!r}; it is a mapping from dimension to value."
        )
    for name, value in truth.items():
        if name not in space.names:
            raise InvalidInput(
                f"The truth of {what} speaks of {name!r}; its dimensions are "
                f"{', '.join(map(repr, space.names))}."
            )
        j = space.names.index(name)
        values = space.dimensions[j].values
        if value not in values:
            raise InvalidInput(
                f"The truth of {what} is {value!r} for {name!r}; the values are "
                f"{', '.join(map(repr, values))}."
            )
        log_truth[j] = -np.inf
        log_truth[j, values.index(value)] = 0
    return log_truth


def _true_answer(logged: LoggedDialogue, what: str) -> np.int32:
    setup = logged.dialogue.setup
    if logged.answer is None:
        return np.int32(-1)
    if setup.answers is None:
        way = f" of the dimension {setup.target!r}" if setup.target is not None else ""
        raise InvalidInput(
            f"The answer {logged.answer!r} is said to be true of {what}, which has no closed "
            f"answer set; say the truth instead, as a value{way}."
        )
    if logged.answer not in setup.answers:
        raise InvalidInput(
            f"The answer {logged.answer!r} is said to be true of {what}; its answers are "
            f"{', '.join(map(repr, setup.answers))}."
        )
    return np.int32(setup.answers.index(logged.answer))


_PADDING = Record(
    layout=Layout(-1, -1, False, False, 0, 0, False),  # type: ignore[arg-type]
    prior=Rows(-1, 0.0, False),  # type: ignore[arg-type]
    tables=Rows(-1, 0.0, False),  # type: ignore[arg-type]
    choices=False,  # type: ignore[arg-type]
    evidence=0.0,  # type: ignore[arg-type]
    answered=False,  # type: ignore[arg-type]
    user=0,  # type: ignore[arg-type]
    oracle=0,  # type: ignore[arg-type]
    noise=0.0,  # type: ignore[arg-type]
    log_truth=0.0,  # type: ignore[arg-type]
    answers=Rows(-1, 0.0, False),  # type: ignore[arg-type]
    answer_mask=False,  # type: ignore[arg-type]
    true_answer=-1,  # type: ignore[arg-type]
    known=False,  # type: ignore[arg-type]
)
"""What every array of a record is padded with."""
