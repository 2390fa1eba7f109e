"""`balar train`: a policy learns what to ask next, and when to stop."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .choice import ProblemChoice, problem_options

if TYPE_CHECKING:
    from balar_core.simulation import World

    from ..training import Training

__all__ = ["train_command"]

TRAIN_WORLDS, TEST_WORLDS = 256, 200
SAVE_EVERY = 20
TEST_SEED = 1_000_003
"""Of the random worlds that no run learns from."""

EXAMPLES = """\b
balar train --output clarifier.npz --plot curves.png
balar train animals.csv --target name --cost 0.1 --output animals.npz
balar train --resume --output clarifier.npz
"""


@click.command("train", short_help="Train a policy that asks.", epilog=EXAMPLES)
@problem_options
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="Keep the policy in FILE (.npz), together with all that is needed to go on.",
)
@click.option("--resume", is_flag=True, help="Go on with the run in FILE.")
@click.option("--steps", type=click.IntRange(1), default=300, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--questions", type=click.IntRange(1), default=5, show_default=True, help="Of a dialogue."
)
@click.option("--cost", type=float, default=0.0, help="Nats that a question costs (default 0).")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Draw the learning curves (.png, .svg or .pdf).",
)
def train_command(
    problem: ProblemChoice | None,
    output: Path,
    resume: bool,
    steps: int,
    seed: int,
    questions: int,
    cost: float,
    plot: Path | None,
) -> None:
    """Train a policy on PROBLEM (a packaged name, a file or a table), or on random worlds.

    At the end it is compared with the most telling question first, a fixed order and random
    questions: in the world of PROBLEM, or in random worlds that it has not seen.
    """
    from ..training import Training, TrainingSettings, load_training, save_training, train
    from ..training.curves import check_plot, plot_curves

    if plot is not None:
        check_plot(plot)
    if output.exists() and not resume:
        raise click.UsageError(
            f"{output} exists already. Go on with it (--resume), or keep the run in another file."
        )
    settings = TrainingSettings(steps=steps, seed=seed, questions=questions, cost=cost)
    worlds, unseen = _worlds(problem, seed)
    if resume:
        begun = load_training(output, worlds)
        _check_same(begun, settings, output)
    else:
        begun = Training.start(settings)
        # A file that cannot be written is found out before the work, not after it.
        save_training(begun, output, worlds)
    training = begun
    try:
        with _progress(begun) as show:
            for training in show(train(begun, worlds)):
                if training.step % SAVE_EVERY == 0:
                    save_training(training, output, worlds)
    except KeyboardInterrupt:
        save_training(training, output, worlds)
        click.echo(f"Go on after step {training.step} with --resume.", err=True)
        raise
    save_training(training, output, worlds)
    if plot is not None:
        plot_curves(training, plot)
    _report(training, unseen)


def _worlds(problem: ProblemChoice | None, seed: int) -> "tuple[World, World]":
    """The worlds to learn in, and those to be compared in."""
    from balar_core.simulation import stack_worlds

    from ..training import random_worlds
    from ..worlds import problem_world

    if problem is None:
        return random_worlds(seed, TRAIN_WORLDS), random_worlds(TEST_SEED, TEST_WORLDS)
    worlds = stack_worlds([problem_world(problem.load(), bucketed=False)])
    return worlds, worlds


def _check_same(training: "Training", settings: object, output: Path) -> None:
    if training.settings != settings:
        given = training.settings
        raise click.UsageError(
            f"{output} was started with --steps {given.steps} --seed {given.seed} "
            f"--questions {given.questions} --cost {given.cost:g}; give the same, or start anew."
        )


@contextmanager
def _progress(training: "Training") -> Iterator:  # type: ignore[type-arg]
    """Show how far a run is and what it earns, on standard error."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("reward {task.fields[reward]} nats, {task.fields[questions]} questions"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        steps = training.settings.steps
        task = progress.add_task(
            "training", total=steps, completed=training.step, reward="-", questions="-"
        )

        def show(runs: "Iterable[Training]") -> "Iterator[Training]":
            for run in runs:
                last = run.history[-1]
                progress.update(
                    task,
                    completed=run.step,
                    reward=f"{last.reward:+.3f}",
                    questions=f"{last.questions:.2f}",
                )
                yield run

        yield show


def _report(training: "Training", worlds: "World") -> None:
    from ..training.regret import Mean, compare_askers

    settings = training.settings
    found = compare_askers(
        worlds,
        {"trained policy": training.policy},
        questions=settings.questions,
        cost=settings.cost,
        seed=settings.seed,
    )
    click.echo("asker                 reward (nats)  questions  regret (nats)")
    for name, (play, regrets) in found.items():
        click.echo(
            f"{name:<20} {play.rewards.mean():>14.3f} {play.questions.mean():>10.2f}"
            f"  {Mean.of(regrets)}"
        )
    dialogues = len(regrets)
    click.echo(f"({dialogues} dialogues with the same users; ± is a 95 % interval over dialogues)")
