"""Tables of objects and their attributes as problems: no model is needed to guess an animal.

    table = load_table("animals.csv", target="name")
    problem = table.to_problem()
    dialogue = run(Dialogue.start(problem.setup()), ProblemOracle(problem, user))

docs/knowledge.md explains what becomes of rows, columns and cells.
"""

import math
import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from balar_core.dialogue import Answered, Ask, Need, Reply
from balar_core.errors import InvalidInput, InvalidSetting
from balar_core.text import canonical

from .attributes import Attribute, make_attribute
from .problem import Problem, make_problem
from .problem_checks import suggestion
from .problem_file import Mistake, ProblemError
from .problem_oracle import NotInProblem, ProblemOracle
from .table_file import MAX_MISTAKES, read_table

__all__ = ["KnowledgeOracle", "KnowledgeTable", "load_table"]


@dataclass(frozen=True)
class KnowledgeTable:
    """Objects and what is known about them.

    Attributes:
        target: the name of the column that holds the names of the objects.
        names: the name of the object of each row.
        columns: name of each other column -> its cells, one per row; empty means not known.
        source: the file, for messages and for the name of the problem.
    """

    target: str
    names: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    source: str = "table"

    def __post_init__(self) -> None:
        for name, cells in self.columns.items():
            if len(cells) != len(self.names):
                raise InvalidInput(
                    f"Column {name!r} has {len(cells)} cells for {len(self.names)} names; give one "
                    "cell per name."
                )

    def to_problem(
        self,
        *,
        noise: float = 0.01,
        smoothing: float = 1.0,
        rows: str = "objects",
        prior: str = "counts",
        max_choices: int = 12,
        bins: int = 4,
        prompt: str | None = None,
        questions: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Problem:
        r"""The problem of finding out the target by asking for the attributes.

        Args:
            noise: share of answers that are replaced by a uniformly random choice:
                \(P(c \mid v) = (1 - \text{noise})\,[c = v] + \text{noise} / C\) for C choices.
            smoothing: with samples, what is added to the counts of a question, shared evenly by
                its choices.
            rows: `"objects"`: each row is a hypothesis of its own; equal names are told apart by
                the numbers of their rows. `"samples"`: the rows of a name are examples of it,
                and are counted.
            prior: with samples, `"counts"` (proportional to the number of rows) or `"uniform"`.
            max_choices: most choices of a question (see `make_attribute`).
            bins: into how many ranges larger sets of numbers are divided.
            prompt: the prompt; "Which TARGET is it?" if not given.
            questions: column -> text of its question; "COLUMN?" if not given.
            settings: further settings of the dialogue.

        Raises:
            InvalidSetting: an argument out of range.
            InvalidInput: a question for a column that is not there.
            ProblemError: nothing can be asked, fewer than two objects, or names that clash.
        """
        _check_arguments(smoothing, rows, prior, max_choices, bins)
        texts = dict(questions or {})
        for column in texts:
            if column not in self.columns:
                hint = suggestion(column, self.columns, "columns")
                raise InvalidInput(f"There is a question for the column {column!r}. {hint}")
        attributes, remarks = self._attributes(max_choices, bins)
        groups, notes = self._groups(rows)
        share = smoothing if rows == "samples" else 0.0
        counts = [len(members) for members in groups.values()]
        counted = rows == "samples" and prior == "counts"
        return make_problem(
            {
                "name": Path(self.source).stem,
                "prompt": prompt or f"Which {self.target} is it?",
                "notes": [*notes, *remarks],
                "dimensions": [
                    {
                        "name": self.target,
                        "values": list(groups),
                        "prior": [n / sum(counts) for n in counts] if counted else None,
                    }
                ],
                "target": self.target,
                "questions": [
                    {
                        "text": texts.get(attribute.name, f"{attribute.name}?"),
                        "choices": attribute.choices,
                        "given": {self.target: _rows(attribute, groups, share)},
                    }
                    for attribute in attributes
                ],
                "settings": {
                    "noise": noise,
                    "max_questions": len(attributes),
                    "max_rounds": max(100, 2 * len(attributes)),
                    "max_states": max(50_000, len(groups)),
                    **(settings or {}),
                },
            },
            self.source,
        )

    def _attributes(self, max_choices: int, bins: int) -> tuple[list[Attribute], list[str]]:
        """The columns that can be asked about; and remarks on these and the others."""
        made = [
            make_attribute(name, cells, max_choices=max_choices, bins=bins)
            for name, cells in self.columns.items()
        ]
        attributes = [attribute for attribute in made if isinstance(attribute, Attribute)]
        remarks = [item.note for item in made if item.note]
        if not attributes:
            message = f"No column is left that could be asked about. {' '.join(remarks)}"
            raise ProblemError(self.source, [Mistake(1, 1, "", message.rstrip())])
        return attributes, remarks

    def _groups(self, rows: str) -> tuple[dict[str, list[int]], list[str]]:
        """Hypothesis -> its rows, in the order of the table; and remarks on its name."""
        groups: dict[str, list[int]] = {}
        for i, name in enumerate(self.names):
            groups.setdefault(canonical(name), []).append(i)
        if rows == "samples":
            return {self.names[members[0]]: members for members in groups.values()}, []
        shared = {key: members for key, members in groups.items() if len(members) > 1}
        single = {
            f"{name} (row {i + 1})" if canonical(name) in shared else name: [i]
            for i, name in enumerate(self.names)
        }
        if len(single) < len(self.names):
            message = "An object has the name that tells equal names apart, (row N); rename it."
            raise ProblemError(self.source, [Mistake(1, 1, "", message)])
        notes = [
            f"{len(members)} rows are called {self.names[members[0]]!r}; they are told apart by "
            "the numbers of their rows."
            for members in shared.values()
        ]
        return single, notes


def load_table(
    path: str | os.PathLike[str],
    target: str | int,
    *,
    header: bool = True,
    ignore: str | int | Iterable[str | int] = (),
    delimiter: str | None = None,
) -> KnowledgeTable:
    """Read a table of objects and attributes from a CSV file in UTF-8.

    Args:
        path: the file.
        target: the column with the names of the objects, by its name or its number from 1.
        header: whether the first row holds the names of the columns; if not, they are called
            "column 1" and so on.
        ignore: columns to leave out, by name or number.
        delimiter: what stands between cells; found out if not given.

    Raises:
        ProblemError: the file cannot be read, rows differ in length, a name is missing, there is
            no such column. The text gives the line.
        InvalidSetting: a delimiter that is not a single character.
    """
    raw = read_table(path, header=header, delimiter=delimiter)
    chosen = raw.column(target)
    left_out = {raw.column(column) for column in _listed(ignore)}
    if chosen in left_out:
        message = f"Column {raw.columns[chosen]!r} is both the target and left out."
        raise ProblemError(raw.source, [Mistake(1, 1, "", message)])
    nameless = [
        Mistake(line, 1, "", f"There is no {raw.columns[chosen]!r}; every row needs a name.")
        for line, cells in raw.rows
        if not canonical(cells[chosen])
    ]
    if nameless:
        raise ProblemError(raw.source, nameless[:MAX_MISTAKES])
    return KnowledgeTable(
        target=raw.columns[chosen],
        names=tuple(cells[chosen] for _, cells in raw.rows),
        columns={
            name: tuple(cells[i] for _, cells in raw.rows)
            for i, name in enumerate(raw.columns)
            if i != chosen and i not in left_out
        },
        source=raw.source,
    )


class KnowledgeOracle(ProblemOracle):
    """Answers every need from a table, and the questions as an object of the table would.

    Args:
        source: the table, or a problem with a target made from one.
        truth: the object that is to be guessed.
        flip: share of answers that are replaced by a uniformly random choice.
        seed: the seed of these replacements; needed if there are any. The answer to a question
            depends on the seed and the question alone.

    Raises:
        InvalidInput: no such object, or a problem without a target.
        InvalidSetting: `flip` out of range, or without a seed.
    """

    def __init__(
        self,
        source: KnowledgeTable | Problem,
        truth: str,
        *,
        flip: float = 0.0,
        seed: int | None = None,
    ) -> None:
        problem = source.to_problem() if isinstance(source, KnowledgeTable) else source
        super().__init__(problem, _Truthful(problem, truth, flip, seed))


class _Truthful:
    """A user who knows one row of the table."""

    def __init__(self, problem: Problem, truth: str, flip: float, seed: int | None) -> None:
        targets = (entry for entry in problem.dimensions if entry.name == problem.target)
        target = next(targets, None)
        if target is None:
            raise InvalidInput(f"Problem {problem.name!r} has no target; its truth has no name.")
        names = {canonical(name): name for name in target.value_names}
        if canonical(truth) not in names:
            hint = suggestion(truth, target.value_names, "names")
            raise InvalidInput(f"There is no {target.name} {truth!r}. {hint}")
        if not 0 <= flip <= 1:
            raise InvalidSetting(f"flip is {flip!r}; it is a share from 0 to 1.")
        if flip and seed is None:
            raise InvalidSetting("Replacing answers at random (flip) needs a seed.")
        self.target, self.truth = target.name, names[canonical(truth)]
        self.flip, self.seed = flip, seed
        self.questions = {entry.text: entry for entry in problem.all_questions}

    async def fulfil(self, need: Need) -> Reply:
        if not isinstance(need, Ask) or need.question.text not in self.questions:
            raise NotInProblem(f"The table does not tell how to answer {need.kind!r}.")
        rng = random.Random(f"{self.seed}: {need.question.text}")
        if rng.random() < self.flip:
            return Answered(choice=rng.randrange(len(need.question.choices)))
        table = self.questions[need.question.text].tables_for(need.user.name).get(self.target, {})
        row = np.asarray(table.get(self.truth, (1.0,)), dtype=float)
        if row.min() == row.max():
            return Answered(unknown=True)
        return Answered(choice=int(row.argmax()))


def _rows(
    attribute: Attribute, groups: Mapping[str, list[int]], smoothing: float
) -> dict[str, tuple[float, ...]]:
    """Hypothesis -> the shares of the choices in its rows, smoothed; equal if none is known."""
    choices = len(attribute.choices)
    rows = {}
    for name, members in groups.items():
        counts = Counter(attribute.codes[i] for i in members)
        total = len(members) - counts[None] + smoothing
        share = smoothing / choices
        known = total > 0
        rows[name] = tuple(
            (counts[c] + share) / total if known else 1 / choices for c in range(choices)
        )
    return rows


def _listed(columns: str | int | Iterable[str | int]) -> tuple[str | int, ...]:
    return (columns,) if isinstance(columns, str | int) else tuple(columns)


def _check_arguments(smoothing: float, rows: str, prior: str, max_choices: int, bins: int) -> None:
    if not 0 <= smoothing < math.inf:
        raise InvalidSetting(f"smoothing is {smoothing!r}; it is a number of 0 or more.")
    if rows not in ("objects", "samples"):
        raise InvalidSetting(f"rows is {rows!r}; it is 'objects' or 'samples'.")
    if prior not in ("counts", "uniform"):
        raise InvalidSetting(f"prior is {prior!r}; it is 'counts' or 'uniform'.")
    for name, value in (("max_choices", max_choices), ("bins", bins)):
        if value < 2:
            raise InvalidSetting(f"{name} is {value!r}; it is a whole number of 2 or more.")
