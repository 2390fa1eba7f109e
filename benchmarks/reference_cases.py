"""The file format of reference cases: read, checked, and turned into arrays.

A file is a JSON list of cases. A case is a whole problem (sizes, priors, choices, users, tables,
answer tables, settings) and the steps of a dialogue, each with what is right after it.
"""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np


class MalformedCases(Exception):
    """A file of reference cases that cannot be used; the message says where and why."""


@dataclass(frozen=True)
class Evidence:
    """One answer: which pair, how its choices were weighted, and what it changed.

    Attributes:
        question: position of the question.
        user: position of the user.
        scores: shape `(choices,)`.
        predictive_probability: of the evidence, before it came.
        state: a state, as value positions.
        gain: log posterior less log prior of that state, in nats.
    """

    question: int
    user: int
    scores: np.ndarray
    predictive_probability: float
    state: tuple[int, ...]
    gain: float


@dataclass(frozen=True)
class Step:
    """What is right after some answers; `mutual_information` has shape `(questions, users)`."""

    evidence: Evidence | None
    entropy: float
    max_prob: float
    map: tuple[int, ...]
    marginals: tuple[np.ndarray, ...]
    mutual_information: np.ndarray
    predictive: tuple[tuple[np.ndarray, ...], ...]
    target_entropy: float
    gap: float
    best_pair: tuple[int, int] | None
    expand_threshold: float | None
    prefers_expand: bool
    answer_posterior: np.ndarray | None


@dataclass(frozen=True)
class Case:
    """A problem and its steps; `tables[question][user][dimension]` are arrays."""

    sizes: tuple[int, ...]
    priors: tuple[np.ndarray, ...]
    choices: tuple[int, ...]
    users: int
    tables: tuple[tuple[tuple[np.ndarray, ...], ...], ...]
    answers: int
    answer_tables: tuple[np.ndarray, ...]
    alpha: float
    question_budget: int
    expand_multiplier: float
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class _Node:
    """A JSON value and the words that say where it stands."""

    value: Any
    where: str

    def wrong(self, needed: str) -> MalformedCases:
        shown = repr(self.value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return MalformedCases(f"{self.where} is {shown}; {needed} is needed.")

    def __getitem__(self, key: str) -> "_Node":
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        if key not in self.value:
            raise MalformedCases(f"{self.where} has no {key!r}.")
        return _Node(self.value[key], f"{self.where}, {key!r}")

    def items(self, length: int | None = None) -> list["_Node"]:
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        if length is not None and len(self.value) != length:
            raise MalformedCases(
                f"{self.where} has {len(self.value)} entries; {length} are needed."
            )
        return [_Node(v, f"{self.where}[{i}]") for i, v in enumerate(self.value)]

    def number(self) -> float:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong("a finite number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.wrong("a finite number")
        return number

    def count(self, low: int = 0, high: int | None = None) -> int:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise self.wrong(f"a whole number from {low}")
        if high is not None and value > high:
            raise self.wrong(f"a whole number from {low} to {high}")
        return value

    def numbers(self, *shape: int) -> np.ndarray:
        if not shape:
            return np.array(self.number())
        return np.array([item.numbers(*shape[1:]) for item in self.items(shape[0])])

    def state(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        pairs = zip(self.items(len(sizes)), sizes, strict=True)
        return tuple(item.count(high=size - 1) for item, size in pairs)


def load_cases(path: Path) -> list[Case]:
    """Read a file of cases.

    Raises:
        MalformedCases: no such file, not JSON, or not in the format.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MalformedCases(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise MalformedCases(f"{path} is not UTF-8: {error.reason}.") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise MalformedCases(f"{path} is not JSON: {error}.") from error
    cases = _Node(data, str(path)).items()
    if not cases:
        raise MalformedCases(f"{path} holds no case.")
    return [_case(_Node(node.value, f"{path}: case {i}")) for i, node in enumerate(cases)]


def _case(node: _Node) -> Case:
    sizes = tuple(item.count(2) for item in node["sizes"].items())
    choices = tuple(item.count(2) for item in node["choices"].items())
    users = node["users"].count(1)
    if not sizes or not choices:
        raise MalformedCases(f"{node.where} needs at least one dimension and one question.")
    tables = tuple(
        tuple(
            tuple(
                table.numbers(size, count)
                for table, size in zip(user.items(len(sizes)), sizes, strict=True)
            )
            for user in question.items(users)
        )
        for question, count in zip(node["tables"].items(len(choices)), choices, strict=True)
    )
    answers = 0
    answer_tables: tuple[np.ndarray, ...] = ()
    if node["answer_tables"].value is not None:
        nodes = node["answer_tables"].items(len(sizes))
        answers = len(nodes[0].items(sizes[0])[0].items())
        answer_tables = tuple(
            table.numbers(size, answers) for table, size in zip(nodes, sizes, strict=True)
        )
    case = Case(
        sizes=sizes,
        priors=tuple(
            row.numbers(size)
            for row, size in zip(node["priors"].items(len(sizes)), sizes, strict=True)
        ),
        choices=choices,
        users=users,
        tables=tables,
        answers=answers,
        answer_tables=answer_tables,
        alpha=node["alpha"].number(),
        question_budget=node["question_budget"].count(),
        expand_multiplier=node["expand_multiplier"].number(),
        steps=(),
    )
    return replace(case, steps=tuple(_step(step, case) for step in node["steps"].items()))


def _step(node: _Node, case: Case) -> Step:
    sizes, choices, users = case.sizes, case.choices, case.users
    best, threshold = node["best_pair"], node["expand_threshold"]
    best_pair = None
    if best.value is not None:
        question, user = best.items(2)
        best_pair = question.count(high=len(choices) - 1), user.count(high=users - 1)
    if not isinstance(node["prefers_expand"].value, bool):
        raise node["prefers_expand"].wrong("true or false")
    marginals = zip(node["marginals"].items(len(sizes)), sizes, strict=True)
    predictive = zip(node["predictive"].items(len(choices)), choices, strict=True)
    return Step(
        evidence=None if node["evidence"].value is None else _evidence(node, case),
        entropy=node["entropy"].number(),
        max_prob=node["max_prob"].number(),
        map=node["map"].state(sizes),
        marginals=tuple(row.numbers(size) for row, size in marginals),
        mutual_information=node["mutual_information"].numbers(len(choices), users),
        predictive=tuple(
            tuple(row.numbers(count) for row in question.items(users))
            for question, count in predictive
        ),
        target_entropy=node["target_entropy"].number(),
        gap=node["entropy_gap"].number(),
        best_pair=best_pair,
        expand_threshold=None if threshold.value is None else threshold.number(),
        prefers_expand=node["prefers_expand"].value,
        answer_posterior=node["answer_posterior"].numbers(case.answers) if case.answers else None,
    )


def _evidence(node: _Node, case: Case) -> Evidence:
    given, gain = node["evidence"], node["information_gain_at"]
    question = given["question"].count(high=len(case.choices) - 1)
    return Evidence(
        question=question,
        user=given["user"].count(high=case.users - 1),
        scores=given["scores"].numbers(case.choices[question]),
        predictive_probability=node["predictive_probability"].number(),
        state=gain["state"].state(case.sizes),
        gain=gain["nats"].number(),
    )
