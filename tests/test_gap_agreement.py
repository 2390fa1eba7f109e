"""The program that compares reported gaps with those of a belief."""

import json

import numpy as np
import pytest

from benchmarks import gap_agreement


def test_budgets_are_judged_by_what_queries_need() -> None:
    found = gap_agreement.judge(np.array([0, 1, 2, 5]), np.array([1, 1, 1, 2]))
    assert found == {
        "mean_budget": 2.0,
        "enough": 0.75,
        "exact": 0.25,
        "spare_probes": 1.0,
        "missing_probes": 0.25,
    }


@pytest.mark.slow
def test_report_learns_in_some_towns_and_judges_in_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gap_agreement.main(["--towns", "1"])
    town = json.loads(capsys.readouterr().out)["town"]
    shares = town["agreement"]
    assert town["queries"] == 60
    assert shares["same"] + shares["more"] + shares["fewer"] == pytest.approx(1, abs=2e-3)
    assert shares["fewer"] > shares["same"]
    for source in ("reported", "belief"):
        before, after = town[source]["thresholds_of_the_paper"], town[source]["learned_thresholds"]
        assert after["exact"] > before["exact"]
        assert after["spare_probes"] < before["spare_probes"]
