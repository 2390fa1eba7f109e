import itertools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from balar_core import Rule, turn, update
from balar_core.status import code_name
from benchmarks import (
    batches,
    clarifier,
    elicitation,
    kernel_check,
    memory,
    mutual_information,
    rivals,
    turn_latency,
)
from benchmarks.report import Accuracy, Case, Timed, markdown, targets, text, to_data
from benchmarks.rivals import own
from benchmarks.roofline import Rates, Work
from benchmarks.timing import interleave, percentile_ms
from benchmarks.worlds import KINDS, Size, UnusableSize, World
from tests import reference

ROOT = Path(__file__).resolve().parents[1]
SMALL = Size(72, 6, 3)
PACKAGE = {
    "torch_dense_score": "torch",
    "torch_dense_build_and_score": "torch",
    "pymdp": "pymdp",
    "pyagrum": "pyagrum",
}
# A process of its own: what rivals warn about while they are imported is not ours to mend.
ALL_RIVALS = """
import json, sys
from benchmarks import rivals
from benchmarks.worlds import Size, World
inputs = rivals.Inputs(World.make(Size.parse(sys.argv[1])))
found = {}
for name in rivals.NAMES:
    try:
        found[name] = rivals.prepare(name, inputs)().tolist()
    except rivals.LeftOut as reason:
        found[name] = str(reason)
print(json.dumps(found))
"""


def python(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )


@pytest.mark.parametrize(
    ("states", "dimensions"),
    [(2, (2,)), (72, (4, 3, 3, 2)), (1024, (4,) * 5), (49152, (4,) * 7 + (3,))],
)
def test_states_are_divided_into_dimensions_of_two_to_four_values(states, dimensions):
    assert Size(states, 1, 2).dimensions == dimensions


@pytest.mark.parametrize(("pairs", "users"), [(200, 5), (15, 5), (8, 4), (7, 1), (1, 1)])
def test_pairs_are_questions_put_to_up_to_five_users(pairs, users):
    assert Size(4, pairs, 2).users == users


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("10x3", "states x pairs x choices"),
        ("axbxc", "states x pairs x choices"),
        ("-4x1x2", "states x pairs x choices"),
        ("10x1x2", "10 states are no product"),
        ("1x1x2", "1 states are no product"),
        ("0x1x2", "0 states are no product"),
        ("4x0x2", "at least 1 pair"),
        ("4x1x1", "2 choices"),
        ("4x1x9999999999", "beyond what fits"),
    ],
)
def test_a_size_that_cannot_be_made_is_refused_by_name(written, said):
    with pytest.raises(UnusableSize, match=said) as caught:
        Size.parse(written)
    assert written.split("x")[0] in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_makes_the_same_world_and_another_seed_another(kind):
    first, again, other = (World.make(SMALL, kind, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first.tables, again.tables, strict=True))
    assert np.array_equal(first.pi, again.pi)
    assert not np.array_equal(first.pi, other.pi)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_information_and_dense_tables_agree_with_brute_force(kind):
    world = World.make(SMALL, kind)
    exact, dense = world.exact_information(), world.dense_table()
    for pair in range(SMALL.pairs):
        tables = [table[pair] for table in world.tables]
        k = reference.likelihood(SMALL.dimensions, tables, SMALL.choices)
        assert exact[pair] == pytest.approx(
            reference.mutual_information(world.pi, k), rel=1e-8, abs=1e-13
        )
        np.testing.assert_allclose(dense[pair], k, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_is_exact_to_a_millionth_of_a_nat_on_every_kind_of_tables(kind):
    world = World.make(SMALL, kind)
    accuracy = Accuracy.of(own.prepare(world)(), world.exact_information())
    assert accuracy.absolute <= 1e-6
    assert accuracy.relative <= 1e-3
    assert accuracy.same_winner


@pytest.mark.parametrize("kind", ["labels", "structured"])
def test_states_that_a_pair_cannot_tell_apart_count_once(kind):
    world = World.make(SMALL, kind)
    expected = 0
    for pair in range(SMALL.pairs):
        rows = [[tuple(row) for row in table[pair].tolist()] for table in world.tables]
        expected += len(set(itertools.product(*rows)))
    assert world.distinct_states() == expected < SMALL.pairs * SMALL.states


def test_work_counts_one_logarithm_and_one_division_per_distinct_state():
    world = World.make(SMALL, "dense")
    work = Work.of(world)
    assert work.logarithms == work.divisions == 72 * 6
    assert work.multiply_adds == (3 * 3 + 1) * 72 * 6
    assert work.bytes == 4 * (72 + 6 * (4 + 3 + 3 + 2) * 3 + 6 * (3 + 1))


def test_the_roofline_is_the_bytes_or_the_sum_of_the_operations():
    rates = Rates(copy_bytes=10, multiply_adds=4, logarithms=2, divisions=1)
    assert rates.limit_ms(Work(1, 8, 4, 2)) == pytest.approx(6000)
    assert rates.limit_ms(Work(100, 8, 4, 2)) == pytest.approx(10000)


def test_programs_are_warmed_up_and_then_run_in_turns():
    ran = []
    seconds = interleave({"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, 3, least=0)
    assert "".join(ran) == "ab" * 4
    assert [len(s) for s in seconds.values()] == [3, 3]


def test_a_program_beyond_its_budget_runs_once():
    seconds = interleave({"a": lambda: None}, 3, least=0, budget=0)
    assert len(seconds["a"]) == 1


def test_percentiles_are_in_milliseconds():
    assert percentile_ms([0.001, 0.002, 0.003], 50) == pytest.approx(2)


def test_an_information_that_is_not_a_number_is_infinitely_wrong():
    accuracy = Accuracy.of(np.array([0.1, np.nan]), np.array([0.1, 0.2]))
    assert accuracy.absolute == accuracy.relative == np.inf


def test_relative_errors_leave_out_what_tells_next_to_nothing():
    accuracy = Accuracy.of(np.array([0.1, 2e-9]), np.array([0.1, 1e-9]))
    assert accuracy.relative == 0
    assert accuracy.absolute == pytest.approx(1e-9)


def test_a_wrong_winner_is_seen_and_a_tie_is_none():
    assert not Accuracy.of(np.array([0.3, 0.2]), np.array([0.2, 0.3])).same_winner
    assert Accuracy.of(np.array([0.31, 0.3]), np.array([0.3, 0.3])).same_winner


def a_case(size: Size, rivals: dict[str, Timed | str]) -> Case:
    ours = Timed(2.0, 5, Accuracy(1e-7, 1e-6, True), 1_000_000)
    return Case(size, ours, rivals, 1.5, {"bytes": 0.1, "logarithms": 1.5})


def test_targets_are_judged_and_those_of_absent_rivals_are_not_measured():
    fast = Timed(60.0, 5, Accuracy(1e-6, 1e-5, True), None)
    case = a_case(
        Size(49152, 200, 4), {"torch_dense_score": fast, "torch_dense_build_and_score": "absent"}
    )
    assert [met for _, met in targets(case)] == [True, None, True, True, True, True, True]
    assert "not measured  at least 80 times" in text(case)
    assert "absent" in text(case)


def test_targets_are_shown_for_a_run_without_rivals_and_without_memory():
    slow = Timed(2000.0, 5, Accuracy(2e-6, 1e-2, False), None)
    case = Case(Size(49152, 200, 4), slow, {}, 1.5, {"bytes": 0.1})
    judged = [met for _, met in targets(case)]
    assert judged == [None, None, False, None, False, False, False]
    assert text(case).count("MISSED") == 4


def test_json_holds_a_reason_for_a_rival_that_did_not_run():
    data = to_data({}, [a_case(SMALL, {"torch_dense_score": "not installed"})])
    assert data["cases"][0]["rivals"]["torch_dense_score"] == {
        "ms": None,
        "ratio": None,
        "reason": "not installed",
    }


def test_the_markdown_table_has_one_row_for_each_case_and_as_many_cells_as_heads():
    machine = {
        "processor": "chip",
        "cores": 2,
        "versions": {"jax": "1"},
        "device_kind": "cpu",
        "tables": "labels",
        "load_average": 0.1,
        "command": "python -m benchmarks.mutual_information --table",
    }
    slow = Timed(60.0, 5, Accuracy(1e-6, 1e-5, True), None)
    cases = [a_case(SMALL, {"numpy_dense": slow}), a_case(SMALL, {"numpy_dense": "too large"})]
    lines = markdown(machine, cases).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 4
    assert len({row.count("|") for row in rows}) == 1
    assert "60 (30×)" in rows[2]
    assert f"    {machine['command']}" in lines


def test_a_dense_rival_above_the_memory_limit_is_left_out():
    inputs = rivals.Inputs(World.make(SMALL), memory_limit=1000)
    with pytest.raises(rivals.LeftOut, match="above the limit"):
        rivals.prepare("numpy_dense", inputs)


@pytest.fixture(scope="module")
def informations() -> dict[str, Any]:
    done = python("-c", ALL_RIVALS, SMALL)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", rivals.NAMES)
def test_every_rival_that_is_installed_finds_the_same_informations(name, informations):
    package = PACKAGE.get(name)
    if package is not None and util.find_spec(package) is None:
        assert "pip install 'balar[bench]'" in informations[name]
        pytest.skip(f"{package} is not installed (extra bench)")
    exact = World.make(SMALL).exact_information()
    np.testing.assert_allclose(informations[name], exact, atol=1e-5)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    path = tmp_path_factory.mktemp("results") / "results.json"
    done = python(
        *("-m", "benchmarks.mutual_information", "--sizes", f"{SMALL},16x4x2", "--repeats", "1"),
        *("--rivals", "jax_dense,numpy_dense,pyagrum", "--memory-limit", "8000"),
        *("--json", path, "--table"),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(path.read_text(encoding="utf-8"))


def test_the_benchmark_writes_the_promised_json(results):
    _, data = results
    assert data.keys() == {"machine", "cases"}
    assert data["machine"]["rates_per_second"].keys() == {
        "copy_bytes",
        "multiply_adds",
        "logarithms",
        "divisions",
    }
    assert [(c["states"], c["pairs"], c["choices"]) for c in data["cases"]] == [
        SMALL,
        (16, 4, 2),
    ]
    for case in data["cases"]:
        assert case.keys() == {
            "states",
            "pairs",
            "choices",
            "kernel_ms",
            "rivals",
            "peak_memory_bytes",
            "roofline_share",
            "max_abs_error",
        }
        assert case["kernel_ms"] > 0
        assert case["peak_memory_bytes"] > 0
        assert 0 < case["roofline_share"] < 1
        assert case["max_abs_error"] <= 1e-6
        assert list(case["rivals"]) == ["jax_dense", "numpy_dense", "pyagrum"]


def test_ratios_are_rival_over_ours_and_left_out_rivals_say_why(results):
    shown, data = results
    large, small = data["cases"]
    assert small["rivals"]["jax_dense"]["ratio"] == pytest.approx(
        small["rivals"]["jax_dense"]["ms"] / small["kernel_ms"]
    )
    reason = large["rivals"]["numpy_dense"]["reason"]
    assert "above the limit" in reason
    assert large["rivals"]["numpy_dense"]["ms"] is None
    assert reason in shown
    assert "| 72 | 6 | 3 |" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--sizes", "10x1x2"], "10 states are no product"),
        (["--sizes", "many"], "'many' is not a size"),
        (["--repeats", "0"], "no whole number above 0"),
        (["--rivals", "abacus"], "no rival 'abacus'"),
        (["--tables", "wobbly"], "invalid choice"),
        (["--json", "no/such/folder/x.json"], "cannot be written"),
        (["--plot", "no/such/folder/x.svg"], "cannot be written"),
        (["--sizes", "4x1x99999999999"], "beyond what fits"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_options_that_cannot_be_used_end_with_a_sentence_and_exit_code_two(options, said, capsys):
    try:
        code = mutual_information.main(options)
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_a_device_that_is_not_there_is_an_error_without_a_traceback():
    done = python("-m", "benchmarks.mutual_information", "--device", "gpu")
    assert done.returncode == 2
    assert "sees no gpu" in done.stderr
    assert "Traceback" not in done.stderr


def plotting(path: Path) -> subprocess.CompletedProcess[str]:
    command = ["-m", "benchmarks.mutual_information", "--sizes", "4x1x2", "--repeats", "1"]
    return python(*command, "--rivals", "", "--plot", path)


@pytest.mark.skipif(not util.find_spec("matplotlib"), reason="needs matplotlib (extra bench)")
def test_a_plot_is_an_svg_and_nothing_else_is_left(tmp_path):
    done = plotting(tmp_path / "plot.svg")
    assert done.returncode == 0, done.stderr
    assert "<svg" in (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(bool(util.find_spec("matplotlib")), reason="needs matplotlib to be missing")
def test_a_plot_without_matplotlib_is_refused_with_the_way_out(tmp_path):
    done = plotting(tmp_path / "plot.svg")
    assert done.returncode == 2
    assert "pip install 'balar[bench]'" in done.stderr


@pytest.mark.skipif(not memory.RESET.exists(), reason="needs the memory marks of Linux")
def test_peak_memory_of_a_dense_program_is_at_least_one_more_table():
    size = Size(4096, 50, 4)
    peak = memory.measure("numpy_dense", World.make(size), rivals.MEMORY_LIMIT, 0)
    assert size.dense_bytes <= peak <= 5 * size.dense_bytes


def test_a_timed_turn_is_an_update_and_a_decision():
    world = World.make(SMALL)
    belief, tables = world.engine(bucketed=True)
    got = turn_latency.prepare_turn(world)()
    evidence = np.eye(1, tables.choice_mask.shape[-1], dtype=np.float32)[0]
    after = update(belief, tables, 0, 0, evidence).belief
    expected = turn(after, tables.mark_asked(0, 0), Rule(), questions_left=9)
    assert code_name(got.decision.action) == code_name(expected.decision.action)
    assert got.scores.information[0, 0] == 0
    np.testing.assert_allclose(got.scores.information, expected.scores.information, atol=1e-6)


@pytest.mark.slow
def test_turns_and_cold_starts_are_measured_and_written(tmp_path):
    path = tmp_path / "turns.json"
    command = ["-m", "benchmarks.turn_latency", "--sizes", "16x4x2", "--repeats", "2"]
    done = python(*command, "--starts", "1", "--json", path)
    assert done.returncode == 0, done.stderr
    data = json.loads(path.read_text(encoding="utf-8"))
    case = data["cases"][0]
    assert 0 < case["turn"]["p50_ms"] <= case["turn"]["p99_ms"]
    assert data["cold_start"].keys() == {
        "import_s",
        "first_question_empty_cache_s",
        "first_question_warm_cache_s",
    }
    assert min(data["cold_start"].values()) > 0
    assert "first question, warm cache" in done.stdout


def test_batches_find_what_the_loops_find():
    ran = {name: run() for name, run in batches.programs(SMALL, 3, "labels", 0).items()}
    np.testing.assert_allclose(ran["dialogues"], np.stack(ran["dialogues_loop"]), atol=1e-6)
    np.testing.assert_allclose(ran["beliefs"], np.stack(ran["beliefs_loop"]), atol=1e-6)
    assert not np.allclose(ran["dialogues"][1], ran["beliefs"][1], atol=1e-3)


@pytest.mark.slow
def test_batches_print_a_gain_for_every_count():
    done = python("-m", "benchmarks.batches", "--size", "16x4x2", "--counts", "1,2")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2 + 4


@pytest.mark.slow
def test_the_structure_benchmark_compares_merged_states_with_all_states(tmp_path):
    path = tmp_path / "found.json"
    options = ["--sizes", "16384x4x3", "--tables", "structured", "--repeats", "1", "--json", path]
    done = python("-m", "benchmarks.structure", *options)
    assert done.returncode == 0, done.stderr
    [case] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    assert case["merged_pairs"] == 4
    assert case["classes_share"] < 0.1
    assert max(case["max_abs_error"].values()) < 1e-6
    assert case["ratio"] == pytest.approx(case["ms"]["plain"] / case["ms"]["merged"])
    assert "structured" in done.stdout.splitlines()[1]


def gpu_script(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(ROOT / "benchmarks" / "gpu.sh"), str(tmp_path / "results")],
        env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
        capture_output=True,
        encoding="utf-8",
    )


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_gpu_script_says_when_there_is_no_device(tmp_path):
    done = gpu_script(tmp_path, PYTHON=sys.executable)
    assert done.returncode == 3
    assert "no CUDA device" in done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("driver", "said"),
    [
        ("exit 9", "finds no NVIDIA driver"),
        ("echo '| Driver Version: 470.1  CUDA Version: 11.4 |'", "supports CUDA 11"),
        ("echo nothing", "does not say which CUDA"),
    ],
)
def test_the_gpu_script_installs_nothing_without_a_driver_that_serves(tmp_path, driver, said):
    stub = tmp_path / "nvidia-smi"
    stub.write_text(f"#!/bin/sh\n{driver}\n", encoding="utf-8")
    stub.chmod(0o755)
    done = gpu_script(tmp_path, PYTHON="", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 3
    assert said in done.stderr
    assert not (tmp_path / "results").exists()


def test_the_kernel_check_compares_with_double_precision_and_writes_what_it_found(tmp_path):
    path = tmp_path / "check.json"
    command = ["-m", "benchmarks.kernel_check", "--sizes", "16x4x2", "--json", path]
    done = python(*command, "--tables", "sharp", "weak")
    assert done.returncode == 0, done.stderr
    assert "all within tolerance" in done.stdout
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [row["tables"] for row in rows] == ["sharp", "weak"]
    assert not any(row["kernel"] for row in rows)
    assert all(0 < row["absolute"] <= 1e-6 for row in rows)


def test_an_information_out_of_tolerance_fails_the_kernel_check():
    row = kernel_check.Row("16x4x2", "weak", True, 1e-9, 1e-2, 1e-16, 1e-9)
    assert not row.fine
    assert "OUT OF TOLERANCE" in kernel_check.text([row])


def test_elicitation_makes_as_many_calls_as_the_paper_says():
    run = elicitation.initialise("table", 0.0, 16)
    assert run.calls == 1 + 5 * 4 + 1 + 3 * 5 * 5
    assert 0 < run.tables <= run.question
    assert "97" in elicitation.table([replace(run, ideal=1.0)])


@pytest.mark.slow
def test_clarifiers_report_regret_and_stopping_and_draw_it(tmp_path):
    plot = ["--plot", tmp_path / "a.svg"] if util.find_spec("matplotlib") else []
    small = ["--seeds", 2, "--steps", 3, "--prompts", 2, "--dialogues", 20, "--budgets", 2]
    done = python("-m", "benchmarks.clarifier", *small, "--costs", 50, *plot)
    assert done.returncode == 0, done.stderr
    regrets = next(line for line in done.stdout.splitlines() if line.startswith("  2 questions"))
    assert regrets.split()[2:5] == ["+0.000", "±", "0.000"]
    dear = next(line for line in done.stdout.splitlines() if line.startswith("  50 "))
    assert dear.split()[7:10] == ["+0.000", "±", "0.000"]
    assert dear.split()[10].startswith("-9")
    assert (tmp_path / "a.svg").exists() == bool(plot)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--seeds", 1), "at least 2"),
        (("--budgets", 0), "at least 1"),
        (("--target", "name"), "a column of --data"),
        (("--costs", "nan"), "cost is nan"),
        (("--data", "no.csv", "--costs"), "no.csv"),
        (("--plot", "a.txt"), "ends in .png"),
    ],
)
def test_clarifiers_refuse_what_cannot_be_measured(arguments, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["clarifier", *map(str, arguments)])
    with pytest.raises(SystemExit):
        clarifier.main()
    assert said in capsys.readouterr().err
