"""Whether a policy learns what to ask, and when to stop: regret against exact greedy information.

    python -m benchmarks.clarifier [--data zoo.csv] [--plot clarifier.svg]

Every seed is a repetition of its own: other worlds (or, with a table, the same one), other users,
other training. First, policies are trained without a cost and compared with askers that have not
learned, at equal numbers of questions. Then they are trained at several costs per question, and
compared with asking as much as is allowed and with not asking at all. Intervals are over seeds.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from balar_core import BalarError
from balar_core.askers import MostInformative, Stopping
from balar_core.simulation import World, stack_worlds
from benchmarks.zoo import load_zoo
from llm_oracles.knowledge import load_table
from llm_oracles.pictures import save_picture
from llm_oracles.training import Training, TrainingSettings, random_worlds, train
from llm_oracles.training.curves import check_plot
from llm_oracles.training.regret import GREEDY, Mean, baselines, compare_askers, play
from llm_oracles.worlds import problem_world

TRAINED, FULL = "trained policy", "all that is allowed"
WORLDS, FIRST_UNSEEN = 200, 1_000_003
"""Random worlds of each kind, and the seed of the first that no policy learned from."""


@dataclass(frozen=True)
class Worlds:
    """Where policies learn and where they are compared, for every seed."""

    name: str
    learned: Sequence[World]
    unseen: Sequence[World]

    @classmethod
    def random(cls, seeds: int) -> "Worlds":
        learned = [random_worlds(seed, WORLDS) for seed in range(seeds)]
        unseen = [random_worlds(FIRST_UNSEEN + seed, WORLDS) for seed in range(seeds)]
        return cls("random worlds", learned, unseen)

    @classmethod
    def table(cls, path: str, target: str | None, noise: float, seeds: int) -> "Worlds":
        table = load_zoo(path) if target is None else load_table(path, target)
        world = stack_worlds([problem_world(table.to_problem(noise=noise), bucketed=False)])
        return cls(Path(path).name, [world] * seeds, [world] * seeds)


@dataclass(frozen=True)
class Stopped:
    """What came of one cost per question: means over seeds.

    Attributes:
        questions: what the trained policy asked.
        rewards: asker -> its reward, in nats; who never asks has 0.
    """

    questions: Mean
    rewards: Mapping[str, Mean]


def learn(worlds: World, settings: TrainingSettings) -> Training:
    training = Training.start(settings)
    for run in train(training, worlds):
        training = run
    return training


def regrets(
    worlds: Worlds, settings: TrainingSettings, budgets: Sequence[int], dialogues: int
) -> dict[int, dict[str, Mean]]:
    """Questions allowed -> asker -> its regret, of policies trained for the most questions."""
    found: dict[int, dict[str, list[float]]] = {budget: {} for budget in budgets}
    for seed, (learned, unseen) in enumerate(zip(worlds.learned, worlds.unseen, strict=True)):
        policy = learn(learned, settings_of(settings, seed=seed)).policy
        for budget in budgets:
            compared = compare_askers(
                unseen, {TRAINED: policy}, questions=budget, dialogues=dialogues, seed=seed
            )
            for name, (_, lost) in compared.items():
                found[budget].setdefault(name, []).append(float(lost.mean()))
    return {k: {name: Mean.of(v) for name, v in row.items()} for k, row in found.items()}


def stopping(
    worlds: Worlds, settings: TrainingSettings, costs: Sequence[float], dialogues: int
) -> dict[float, Stopped]:
    """Cost per question -> what the policies trained at it do, and what they earn."""
    found = {}
    for cost in costs:
        asked, rewards = [], []
        for seed, (learned, unseen) in enumerate(zip(worlds.learned, worlds.unseen, strict=True)):
            run = learn(learned, settings_of(settings, seed=seed, cost=cost))
            compared = compare_askers(
                unseen,
                {TRAINED: run.policy},
                questions=settings.questions,
                cost=cost,
                dialogues=dialogues,
                seed=seed,
            )
            everything = play(
                unseen,
                MostInformative(Stopping()),
                dialogues=dialogues,
                questions=settings.questions,
                cost=cost,
                seed=seed,
            )
            asked.append(compared[TRAINED][0].questions.mean())
            plays = {name: compared[name][0] for name in (TRAINED, GREEDY)} | {FULL: everything}
            rewards.append({name: float(it.rewards.mean()) for name, it in plays.items()})
        found[cost] = Stopped(
            Mean.of(asked),
            {name: Mean.of([row[name] for row in rewards]) for name in rewards[0]},
        )
    return found


def settings_of(settings: TrainingSettings, **changes: float) -> TrainingSettings:
    return TrainingSettings.from_data({**settings.to_data(), **changes})


def draw(found: Mapping[str, Mapping[float, Stopped]], path: Path) -> None:
    """Draw questions and rewards against the cost of a question."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2 * len(found)), layout="constrained")
    for (name, rows), (left, right) in zip(
        found.items(), figure.subplots(len(found), 2, squeeze=False), strict=True
    ):
        costs = list(rows)
        _line(left, costs, [row.questions for row in rows.values()], TRAINED)
        left.set(title=name, xlabel="cost of a question (nats)", ylabel="questions", ylim=(0, None))
        for asker in (TRAINED, GREEDY, FULL):
            _line(right, costs, [row.rewards[asker] for row in rows.values()], asker)
        right.axhline(0, color="black", linewidth=0.8, label="never asking")
        right.set(title=name, xlabel="cost of a question (nats)", ylabel="reward (nats)")
        right.legend(frameon=False, fontsize="small")
    save_picture(figure, path)


def _line(axes: Any, costs: Sequence[float], means: Sequence[Mean], label: str) -> None:
    margins = [mean.margin for mean in means]
    axes.errorbar(costs, [m.value for m in means], margins, label=label, marker=".", capsize=2)


def report_regrets(found: Mapping[int, Mapping[str, Mean]]) -> None:
    names = [*baselines(), TRAINED]
    print("  regret (nats)  " + "  ".join(f"{name:>18}" for name in names))
    for budget, row in found.items():
        cells = "  ".join(f"{row[name]!s:>18}" for name in names)
        print(f"  {budget} question{'s' if budget > 1 else ' '}    {cells}")


def report_stopping(found: Mapping[float, Stopped]) -> None:
    names = [TRAINED, GREEDY, FULL]
    heads = "  ".join(f"{name:>19}" for name in names)
    print(f"  cost    questions asked   reward: {heads}   never asking")
    for cost, row in found.items():
        asked = f"{row.questions.value:.2f} ± {row.questions.margin:.2f}"
        cells = "  ".join(f"{row.rewards[name]!s:>19}" for name in names)
        print(f"  {cost:<6g} {asked:>16}           {cells}         +0.000")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="also a table: zoo.data, or a CSV file with --target")
    parser.add_argument("--target", help="the column of the table that is to be found out")
    parser.add_argument("--noise", type=float, default=0.05, help="of the answers in the table")
    parser.add_argument("--seeds", type=int, default=5, help="repetitions (at least 2)")
    parser.add_argument("--steps", type=int, default=200, help="of a training run")
    parser.add_argument("--prompts", type=int, default=8, help="users in a step")
    parser.add_argument("--dialogues", type=int, default=1000, help="of each asker and seed")
    parser.add_argument("--budgets", type=int, nargs="+", default=[1, 3, 5], metavar="QUESTIONS")
    parser.add_argument("--costs", type=float, nargs="*", default=[0.05, 0.1, 0.2, 0.4, 0.8])
    parser.add_argument("--plot", type=Path, help="draw what costs do (.svg, .png or .pdf)")
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error("--seeds is at least 2, or there is no interval to give")
    if min(arguments.budgets) < 1 or arguments.dialogues < 1:
        parser.error("--budgets and --dialogues are at least 1")
    if arguments.target is not None and arguments.data is None:
        parser.error("--target names a column of --data")
    begin = time.perf_counter()
    stopped = {}
    try:
        if arguments.plot is not None:
            check_plot(arguments.plot)
        settings = TrainingSettings(
            steps=arguments.steps, questions=max(arguments.budgets), prompts=arguments.prompts
        )
        for cost in arguments.costs:
            settings_of(settings, cost=cost)
        sources = [Worlds.random(arguments.seeds)]
        if arguments.data is not None:
            table = (arguments.data, arguments.target, arguments.noise)
            sources.append(Worlds.table(*table, arguments.seeds))
        for worlds in sources:
            print(
                f"{worlds.name}: {arguments.seeds} seeds, {settings.steps} steps of "
                f"{settings.prompts * settings.num_generations} dialogues, at most "
                f"{settings.questions} questions; {arguments.dialogues} dialogues to compare",
                flush=True,
            )
            report_regrets(regrets(worlds, settings, arguments.budgets, arguments.dialogues))
            if arguments.costs:
                found = stopping(worlds, settings, arguments.costs, arguments.dialogues)
                stopped[worlds.name] = found
                report_stopping(found)
        if arguments.plot is not None and stopped:
            draw(stopped, arguments.plot)
    except BalarError as error:
        parser.error(str(error))
    print("(± is the half width of the 95 % interval of the mean over seeds, Student's t)")
    seconds = np.round(time.perf_counter() - begin, 1)
    print(f"{seconds} s on {jax.default_backend()}")


if __name__ == "__main__":
    main()
