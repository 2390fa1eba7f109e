"""Run the engine on a file of reference cases and print how far off it is.

    python -m benchmarks.reference --cases FILE [--precision float32|float64|both] [--json FILE]

One row per quantity and precision: the largest absolute error, and how many decisions differ.
The exit code is 0 within tolerance, 1 above it, 2 if the file cannot be used.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from balar_core import (
    AnswerTables,
    BalarError,
    Belief,
    Decision,
    Dimension,
    LikelihoodTables,
    MapState,
    Rule,
    Scores,
    StateSpace,
    answer_posterior,
    decide,
    joint,
    map_state,
    marginals,
    raise_for_status,
    score,
    update,
)

from .reference_cases import Case, Evidence, MalformedCases, Step, load_cases

TOLERANCES = {"float32": 2e-5, "float64": 1e-10}


@dataclass
class Row:
    """How one quantity did.

    Attributes:
        quantity: its name.
        compared: how many numbers, or decisions, were compared.
        error: the largest absolute error; 0 for decisions.
        mismatches: numbers out of tolerance, or decisions that differ.
        ties: decisions that differ where the reference itself is within tolerance of a tie.
    """

    quantity: str
    compared: int = 0
    error: float = 0.0
    mismatches: int = 0
    ties: int = 0


class Tally:
    """The rows of one precision."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.rows: dict[str, Row] = {}

    def number(self, quantity: str, found: object, expected: object) -> None:
        """Compare numbers or arrays of numbers."""
        row = self.rows.setdefault(quantity, Row(quantity))
        got, want = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
        errors = np.abs(got - want)
        errors = np.where(np.isnan(errors), np.inf, errors)
        row.compared += errors.size
        row.error = max(row.error, float(errors.max(initial=0)))
        row.mismatches += int((errors > self.tolerance).sum())

    def choice(self, quantity: str, found: object, expected: object, margin: float) -> None:
        """Compare a decision that the reference takes by a `margin`."""
        row = self.rows.setdefault(quantity, Row(quantity))
        row.compared += 1
        if found != expected:
            tie = margin <= self.tolerance
            row.ties += tie
            row.mismatches += not tie


class View(NamedTuple):
    """What the engine says after some answers."""

    scores: Scores
    decision: Decision
    marginals: jax.Array
    map_state: MapState
    answers: jax.Array | None


@jax.jit
def look(
    belief: Belief,
    tables: LikelihoodTables,
    answers: AnswerTables | None,
    rule: Rule,
    questions_left: jax.Array | int,
) -> View:
    """Everything that is compared, in one program."""
    scores = score(belief, tables)
    return View(
        scores=scores,
        decision=decide(belief, scores, tables.open, rule, questions_left=questions_left),
        marginals=marginals(belief),
        map_state=map_state(belief),
        answers=None if answers is None else answer_posterior(belief, answers),
    )


def compare_case(case: Case, tally: Tally, users: int) -> None:
    """Follow the steps of one case and compare after each of them.

    The tables are padded to `users` users, so that all cases share a few programs.
    """
    space = StateSpace(
        tuple(
            Dimension(f"dimension {j}", tuple(f"value {v}" for v in range(size)))
            for j, size in enumerate(case.sizes)
        )
    )
    belief = Belief.from_priors(space, case.priors, bucketed=True)
    tables = LikelihoodTables.build(
        space,
        case.choices,
        {(q, u): t for q, users in enumerate(case.tables) for u, t in enumerate(users)},
        users=users,
        bucketed=True,
    )
    answers = None
    if case.answers:
        answers = AnswerTables.build(space, case.answers, case.answer_tables, bucketed=True)
    rule = Rule(alpha=case.alpha, expand_multiplier=case.expand_multiplier, min_information=0.0)
    left = case.question_budget
    for step in case.steps:
        if step.evidence is not None:
            before = belief
            belief, tables = _answer(belief, tables, step.evidence, tally)
            _compare_gain(space, before, belief, step.evidence, tally)
            left -= 1
        view = jax.device_get(look(belief, tables, answers, rule, left))
        _compare_numbers(case, step, view, tally)
        _compare_choices(space, belief, step, view, tally)


def _answer(
    belief: Belief, tables: LikelihoodTables, evidence: Evidence, tally: Tally
) -> tuple[Belief, LikelihoodTables]:
    scores = np.zeros(tables.choice_mask.shape[-1], belief.log_joint.dtype)
    scores[: len(evidence.scores)] = evidence.scores
    result = update(belief, tables, evidence.question, evidence.user, jax.device_put(scores))
    raise_for_status(result.status, f"question {evidence.question}, user {evidence.user}")
    tally.number(
        "predictive probability of evidence",
        np.exp(result.log_evidence),
        evidence.predictive_probability,
    )
    return result.belief, tables.mark_asked(evidence.question, evidence.user)


def _compare_gain(
    space: StateSpace, before: Belief, after: Belief, evidence: Evidence, tally: Tally
) -> None:
    """The gain is a difference of logarithms, also where probabilities underflow."""
    index = int(np.ravel_multi_index(evidence.state, space.sizes))
    layout = after.layout
    flat = np.asarray(layout.row_index)[:, None] + np.asarray(layout.column_index)[None, :]
    cell = (flat == index) & np.asarray(layout.mask)
    gain = np.asarray(after.log_joint)[cell] - np.asarray(before.log_joint)[cell]
    tally.number("information gain", gain[0], evidence.gain)


def _compare_numbers(case: Case, step: Step, view: View, tally: Tally) -> None:
    for j, expected in enumerate(step.marginals):
        tally.number("posterior marginals", view.marginals[j, : len(expected)], expected)
    decision = view.decision
    tally.number("entropy", decision.entropy, step.entropy)
    tally.number("max probability", np.exp(view.map_state.log_probability), step.max_prob)
    information = view.scores.information[: len(case.choices), : case.users]
    tally.number("mutual information", information, step.mutual_information)
    for q, users in enumerate(step.predictive):
        for u, expected in enumerate(users):
            found = view.scores.predictive[q, u, : len(expected)]
            tally.number("predictive", found, expected)
    tally.number("target entropy", decision.target_entropy, step.target_entropy)
    tally.number("gap", decision.gap, step.gap)
    if step.expand_threshold is not None:
        tally.number("expand threshold", decision.expand_threshold, step.expand_threshold)
    if view.answers is not None and step.answer_posterior is not None:
        found = view.answers[: len(step.answer_posterior)]
        tally.number("answer posterior", found, step.answer_posterior)


def _compare_choices(
    space: StateSpace, belief: Belief, step: Step, view: View, tally: Tally
) -> None:
    decision = view.decision
    if step.best_pair is not None:
        best = int(decision.question), int(decision.user)
        expected = step.mutual_information
        inside = best[0] < expected.shape[0] and best[1] < expected.shape[1]
        margin = float(expected[step.best_pair] - expected[best]) if inside else np.inf
        tally.choice("best pair", best, step.best_pair, margin)
    margin = np.inf
    if step.expand_threshold is not None:
        margin = abs(step.gap - step.expand_threshold)
    tally.choice("EXPAND", bool(decision.prefers_expand), step.prefers_expand, margin)
    found = tuple(int(v) for v in view.map_state.digits[: len(space.sizes)])
    # Both states have to come close to the largest probability to call it a tie.
    p = joint(belief, space)
    margin = step.max_prob - min(float(p[found]), float(p[step.map]))
    tally.choice("MAP", found, step.map, margin)


def compare(cases: Sequence[Case], precision: str) -> list[Row]:
    """Run all cases in one precision, `"float32"` or `"float64"`.

    Raises:
        MalformedCases: a case that the engine refuses; the message says why.
    """
    tally = Tally(TOLERANCES[precision])
    users = max(case.users for case in cases)
    with jax.enable_x64(precision == "float64"):
        for position, case in enumerate(cases):
            try:
                compare_case(case, tally, users)
            except BalarError as error:
                raise MalformedCases(f"Case {position} is refused: {error}") from error
    return list(tally.rows.values())


def report(precision: str, rows: Sequence[Row]) -> str:
    """The rows of one precision as a table."""
    lines = [
        f"{precision} (tolerance {TOLERANCES[precision]:g})",
        f"  {'quantity':<36}{'compared':>10}{'largest error':>16}{'mismatches':>12}{'ties':>6}",
    ]
    lines += [
        f"  {r.quantity:<36}{r.compared:>10}{r.error:>16.2e}{r.mismatches:>12}{r.ties:>6}"
        for r in rows
    ]
    return "\n".join(lines)


def write_json(path: Path, results: dict[str, list[Row]]) -> None:
    """Write the rows, all or nothing; an error beyond every number is written as null."""
    data = {
        precision: [
            {**asdict(row), "error": row.error if np.isfinite(row.error) else None} for row in rows
        ]
        for precision, rows in results.items()
    }
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(data, stream, indent=2, allow_nan=False)
            stream.write("\n")
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reference", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--cases", type=Path, required=True, help="the file of cases")
    parser.add_argument("--precision", choices=[*TOLERANCES, "both"], default="both")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args(arguments)
    chosen = list(TOLERANCES) if options.precision == "both" else [options.precision]
    results = {}
    try:
        cases = load_cases(options.cases)
        for precision in chosen:
            results[precision] = compare(cases, precision)
            print(report(precision, results[precision]), flush=True)
        if options.json is not None:
            write_json(options.json, results)
    except MalformedCases as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{options.json} cannot be written: {error.strerror}.", file=sys.stderr)
        return 2
    wrong = sum(row.mismatches for rows in results.values() for row in rows)
    print("all within tolerance" if not wrong else f"{wrong} out of tolerance")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
