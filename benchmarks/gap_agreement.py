"""Do reported gaps and gaps of a belief buy the same budgets, and which of them buys enough?

    python -m benchmarks.gap_agreement [--towns N] [--data FILE]

A reported gap is what a model says of a kind of need (the means over the released rows of AURA); a
gap of a belief is the share of uncertainty that is left about what the words may need. In the town
every needed fact takes a probe of its own, so that the number of probes a query needs is known:
thresholds are learned in N towns and judged in N others. `--data` adds the public queries of AURA.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from balar_core import AURA_STEPS, StepMap, agreement, fit_thresholds
from llm_oracles.evaluation.cases import Case
from llm_oracles.evaluation.public_cases import public_cases
from llm_oracles.evaluation.town_cases import town_cases


def gaps(cases: Sequence[Case]) -> tuple[np.ndarray, np.ndarray]:
    """The reported gaps and those of the beliefs, both of shape `(cases,)`."""
    reported = np.array([case.reported_gap for case in cases])
    return reported, np.array([case.planner.gap() for case in cases])


def compare(cases: Sequence[Case]) -> dict[str, float]:
    """How far the two gaps agree under the map of the paper."""
    found = agreement(*gaps(cases), AURA_STEPS)
    return {name: round(float(value), 3) for name, value in vars(found).items()}


def judge(budgets: np.ndarray, needed: np.ndarray) -> dict[str, float]:
    """What budgets are worth where it is known how many probes each query needs."""
    return {
        "mean_budget": round(float(np.mean(budgets)), 3),
        "enough": round(float(np.mean(budgets >= needed)), 3),
        "exact": round(float(np.mean(budgets == needed)), 3),
        "spare_probes": round(float(np.mean(np.maximum(budgets - needed, 0))), 3),
        "missing_probes": round(float(np.mean(np.maximum(needed - budgets, 0))), 3),
    }


def spend(steps: StepMap, found: np.ndarray) -> np.ndarray:
    """The budgets of gaps."""
    return np.array([steps.budget(gap) for gap in found])


def probes_needed(cases: Sequence[Case]) -> np.ndarray:
    """How many probes each query of a town needs: one for each needed fact."""
    return np.array([len(case.needed) for case in cases])


def town_report(towns: int) -> dict[str, object]:
    """Agreement in other towns than those in which thresholds are learned."""
    known, fresh = town_cases(towns=towns), town_cases(seed=towns, towns=towns)
    needed = probes_needed(fresh)
    report: dict[str, object] = {
        "queries": len(fresh),
        "mean_needed": round(float(np.mean(needed)), 3),
        "agreement": compare(fresh),
    }
    for name, learn, use in zip(("reported", "belief"), gaps(known), gaps(fresh), strict=True):
        learned = fit_thresholds(learn, probes_needed(known))
        report[name] = {
            "thresholds_of_the_paper": judge(spend(AURA_STEPS, use), needed),
            "learned_thresholds": judge(spend(learned, use), needed),
            "learned": np.round(np.asarray(learned.thresholds), 3).tolist(),
        }
    return report


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the report as JSON."""
    parser = argparse.ArgumentParser(description="Compare reported gaps with those of a belief.")
    parser.add_argument("--towns", type=int, default=3, help="towns to learn in, and to judge in")
    parser.add_argument("--data", type=Path, help="the public implicit-intent queries (JSON)")
    given = parser.parse_args(arguments)
    report: dict[str, object] = {"town": town_report(given.towns)}
    if given.data is not None:
        cases = public_cases(given.data)
        report["public"] = {"queries": len(cases), "agreement": compare(cases)}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
