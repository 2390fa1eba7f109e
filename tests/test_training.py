"""A clarifier that learns: less regret than before, stops when questions cost, goes on exactly."""

import io
import re
import sys
from dataclasses import replace
from importlib import util
from pathlib import Path

import jax
import numpy as np
import pytest

from balar_core.askers import RankedAsker
from balar_core.errors import InvalidSetting
from balar_core.simulation import World
from llm_oracles.store import FileTrouble
from llm_oracles.training import (
    StepRecord,
    Training,
    TrainingSettings,
    UnusableCheckpoint,
    load_policy,
    load_training,
    random_worlds,
    save_training,
    train,
)
from llm_oracles.training.curves import MissingLibrary, check_plot, plot_curves
from llm_oracles.training.regret import Mean, baselines, compare_askers

from .commands import Balar

SETTINGS = TrainingSettings(
    steps=60, questions=3, prompts=12, num_generations=12, learning_rate=0.02, width=8
)


@pytest.fixture(scope="module")
def worlds() -> World:
    return random_worlds(seed=0, count=64, questions=6)


def finish(training: Training, worlds: World) -> Training:
    for run in train(training, worlds):
        training = run
    return training


@pytest.fixture(scope="module")
def run(worlds: World) -> Training:
    return finish(Training.start(SETTINGS), worlds)


def same(a: Training, b: Training) -> bool:
    """Whether two runs are alike to the last bit."""
    pairs = zip(
        jax.tree.leaves((a.policy, a.optimiser)),
        jax.tree.leaves((b.policy, b.optimiser)),
        strict=True,
    )
    arrays = [(x, y) for x, y in pairs if isinstance(x, jax.Array)]
    return a.history == b.history and all(np.array_equal(x, y) for x, y in arrays)


def a_run(steps: int) -> Training:
    """A run with a made-up history; nothing was compiled for it."""
    history = tuple(StepRecord(0.1 * i, 3.0, 1 / (1 + i), 0.0) for i in range(steps))
    return replace(Training.start(replace(SETTINGS, steps=100)), history=history)


@pytest.mark.slow
def test_a_policy_learns_to_ask_what_tells_most(run: Training, worlds: World) -> None:
    rewards = [record.reward for record in run.history]
    assert np.mean(rewards[-10:]) > np.mean(rewards[:10]) + 0.1
    unseen = random_worlds(seed=1, count=64, questions=6)
    found = compare_askers(
        unseen,
        {"before": Training.start(SETTINGS).policy, "after": run.policy},
        questions=3,
        dialogues=2000,
    )
    regret = {name: float(regrets.mean()) for name, (_, regrets) in found.items()}
    assert regret["most telling first"] == 0
    assert regret["at random"] > 0.1
    assert regret["fixed order"] > 0.1
    assert regret["after"] < 0.25 * regret["at random"]
    assert regret["after"] < regret["before"]


@pytest.mark.slow
def test_with_a_cost_per_question_it_learns_to_stop(run: Training, worlds: World) -> None:
    dear = finish(Training.start(replace(SETTINGS, cost=3.0)), worlds)
    asked = [record.questions for record in dear.history]
    assert asked[0] > 1
    assert asked[-1] < 0.1
    assert run.history[-1].questions > 2


@pytest.mark.slow
def test_a_run_that_was_interrupted_goes_on_to_the_same_bits(
    run: Training, worlds: World, tmp_path: Path
) -> None:
    begun = next(run for run in train(Training.start(SETTINGS), worlds) if run.step == 25)
    path = tmp_path / "run.npz"
    save_training(begun, path, worlds)
    resumed = load_training(path, worlds)
    assert same(resumed, begun)
    assert not same(begun, run)
    assert same(finish(resumed, worlds), run)
    assert not same(finish(Training.start(replace(SETTINGS, seed=1)), worlds), run)


def test_a_checkpoint_gives_back_what_was_saved(worlds: World, tmp_path: Path) -> None:
    path, training = tmp_path / "run.npz", a_run(3)
    save_training(training, path, worlds)
    assert same(load_training(path, worlds), training)
    assert load_training(path, worlds).settings == training.settings
    saved = jax.tree.leaves(load_policy(path))
    for a, b in zip(saved, jax.tree.leaves(training.policy), strict=True):
        assert not isinstance(a, jax.Array) or np.array_equal(a, b)
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_checkpoints_of_other_runs_and_other_files_are_refused(
    worlds: World, tmp_path: Path
) -> None:
    path = tmp_path / "run.npz"
    save_training(a_run(2), path, worlds)
    other = random_worlds(seed=5, count=2, questions=6)
    with pytest.raises(UnusableCheckpoint, match="a run in other worlds"):
        load_training(path, other)
    whole = path.read_bytes()
    with np.load(path) as arrays:
        parts = dict(arrays)
    header = str(parts["header"])

    def archive(**changes: object) -> bytes:
        stream = io.BytesIO()
        np.savez(stream, **{**parts, **changes})  # type: ignore[arg-type]
        return stream.getvalue()

    for content, message in (
        (b"", "is no checkpoint"),
        (whole[:200], "is no checkpoint"),
        (b"PK\x03\x04 and no more", "is no checkpoint"),
        (archive(header=np.array("{")), "is no checkpoint"),
        (archive(header=np.array(header.replace("training 1", "training 9"))), "training 9"),
        (archive(header=np.array(header.replace('"steps": 100', '"steps": 0'))), "steps is 0"),
        (archive(**{"leaf 0": np.zeros(3)}), "is no checkpoint"),
    ):
        path.write_bytes(content)
        with pytest.raises(UnusableCheckpoint, match=message):
            load_training(path, worlds)
    with pytest.raises(FileTrouble, match="cannot be read"):
        load_policy(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("num_generations", 1),
        ("questions", True),
        ("questions", 1001),
        ("seed", 2**32),
        ("cost", -1.0),
        ("cost", float("nan")),
    ],
)
def test_settings_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidSetting, match=f"{name} is {value!r}"):
        replace(SETTINGS, **{name: value})  # type: ignore[arg-type]


def test_settings_come_back_from_their_data() -> None:
    assert TrainingSettings.from_data(SETTINGS.to_data()) == SETTINGS
    with pytest.raises(InvalidSetting, match="no setting 'batch'"):
        TrainingSettings.from_data({"batch": 3})


def test_random_worlds_depend_on_their_seed_alone() -> None:
    def leaves(seed: int) -> list[np.ndarray]:
        return [np.asarray(x) for x in jax.tree.leaves(random_worlds(seed, 3))]

    assert all(np.array_equal(a, b) for a, b in zip(leaves(1), leaves(1), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(leaves(1), leaves(2), strict=True))
    with pytest.raises(InvalidSetting, match="0 worlds"):
        random_worlds(0, 0)


def test_intervals_need_two_values_and_baselines_stop_at_the_cost() -> None:
    assert Mean.of([1.0, 3.0]).value == 2
    assert Mean.of([1.0, 3.0]).margin == pytest.approx(12.706, abs=1e-3)
    with pytest.raises(InvalidSetting, match="two are needed"):
        Mean.of([1.0])
    for asker in baselines(cost=0.25).values():
        assert isinstance(asker, RankedAsker)
        assert float(asker.stopping.min_information) == 0.25


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_learning_curves_are_drawn_the_same_every_time(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    plot_curves(a_run(40), first)
    plot_curves(a_run(40), second)
    assert first.read_bytes().startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    assert first.read_bytes() == second.read_bytes()


def test_plots_of_another_kind_or_without_the_library_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidSetting, match=re.escape("ends in .png, .svg, .pdf")):
        check_plot(tmp_path / "curves.txt")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingLibrary, match="balar\\[train\\]"):
        check_plot(tmp_path / "curves.png")


@pytest.fixture
def balar(balar: Balar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Balar:
    """The command, run in an empty folder with one table."""
    monkeypatch.chdir(tmp_path)
    table = "name,legs,flies\nfrog,4,no\nduck,2,yes\nant,6,no\nbat,2,yes\n"
    (tmp_path / "animals.csv").write_text(table, encoding="utf-8")
    return balar


@pytest.mark.slow
def test_the_command_trains_keeps_draws_and_goes_on(balar: Balar, tmp_path: Path) -> None:
    start = ("train", "animals.csv", "--target", "name", "--output", "run.npz", "--questions", "2")
    plot = ("--plot", "curves.svg") if util.find_spec("matplotlib") else ()
    code, out, err = balar(*start, "--steps", "3", *plot)
    assert code == 0, err
    rows = {line[:20].strip(): line[20:].split() for line in out.splitlines()[1:]}
    assert rows["most telling first"][2] == "+0.000"
    assert float(rows["trained policy"][1]) <= 2
    assert "2000 dialogues" in out
    assert (tmp_path / "curves.svg").exists() == bool(plot)
    code, _, err = balar(*start, "--steps", "3")
    assert (code, "exists already" in err) == (2, True)
    code, _, err = balar(*start, "--steps", "4", "--resume")
    assert (code, "--steps 3" in err) == (2, True)
    before = (tmp_path / "run.npz").read_bytes()
    code, again, _ = balar(*start, "--steps", "3", "--resume")
    assert (code, again) == (0, out)
    assert (tmp_path / "run.npz").read_bytes() == before


def test_the_command_refuses_what_it_cannot_use_before_it_trains(
    balar: Balar, tmp_path: Path
) -> None:
    for arguments, message in (
        (("--output", "a.npz", "--plot", "a.txt"), "ends in .png"),
        (("--output", "a.npz", "--cost", "nan"), "cost is nan"),
        (("--output", "a.npz", "--questions", "99999999999"), "questions is 99999999999"),
        (("--output", "a.npz", "--seed", "9" * 20), "it is at most 4294967295"),
        (("--output", "none/a.npz"), "none/a.npz cannot be written"),
        (("--output", "a.npz", "--resume"), "a.npz cannot be read"),
        (("nothing", "--output", "a.npz"), "neither a file nor a packaged problem"),
        (("animals.csv", "--output", "a.npz"), "say with --target"),
    ):
        code, _, err = balar("train", *arguments)
        assert code in (1, 2)
        assert message in err
        assert "Traceback" not in err
    assert not (tmp_path / "a.npz").exists()
