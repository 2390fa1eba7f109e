"""How many questions it takes to guess an object: the most telling one first, or any other order.

    python -m benchmarks.zoo --data zoo.csv

The table is the Zoo data set (Richard Forsyth, 1990; UCI Machine Learning Repository,
https://archive.ics.uci.edu/dataset/111/zoo): the file `zoo.data` of that page has no header, the
name first and the class last (which is not asked for). Every object is guessed once under each
order. All orders share one stop rule: the best name has probability 1 - alpha, or no open question
tells more than `min_information`; and none of them wastes a question that tells less than that.
"""

import argparse
import time

import jax
import numpy as np

from balar_core import BalarError
from balar_core.askers import AtRandom, InOrder, MostInformative, Stopping
from benchmarks.guessing import Guessing
from llm_oracles.knowledge import KnowledgeTable, load_table
from llm_oracles.worlds import problem_world

COLUMNS = 18
"""Name, 16 attributes, class."""


def load_zoo(path: str) -> KnowledgeTable:
    """The Zoo data set without the class.

    Raises:
        BalarError: the file cannot be read, or is another table.
    """
    whole = load_table(path, 1, header=False)
    if len(whole.columns) != COLUMNS - 1:
        raise BalarError(
            f"{path} has {len(whole.columns) + 1} columns; the Zoo data set has {COLUMNS}: a name, "
            "16 attributes and a class. It is at https://archive.ics.uci.edu/dataset/111/zoo."
        )
    return load_table(path, 1, header=False, ignore=COLUMNS)


def report(table: KnowledgeTable, noise: float, seeds: int) -> None:
    problem = table.to_problem(noise=noise)
    settings = problem.setup().settings
    guessing = Guessing([problem_world(problem)])
    cells = zip(*(table.columns[name] for name in table.columns), strict=True)
    print(
        f"{len(table.names)} objects, {len(set(cells))} patterns, {len(problem.questions)} "
        f"questions, noise {noise:g}"
    )
    stopping = Stopping(1 - settings.alpha, settings.min_information)
    plays = [guessing.play(AtRandom(stopping), seed) for seed in range(seeds)]
    means = np.array([asked.mean() for asked, _ in plays])
    margin = 1.96 * means.std(ddof=1) / np.sqrt(seeds)
    print("  order                  mean questions     most   truth among the best")
    for name, games, interval in (
        ("most telling first", [guessing.play(MostInformative(stopping))], ""),
        ("order of the columns", [guessing.play(InOrder(stopping))], ""),
        ("random", plays, f"+- {margin:.3f}"),
    ):
        asked, right = (np.array(parts) for parts in zip(*games, strict=True))
        line = f"  {name:<21} {asked.mean():>6.3f} {interval:<12} {asked.max():>4}"
        print(f"{line} {right.mean():>10.1%}")
    print(f"  (random: {seeds} seeds; +- is the half width of the 95 % interval of the mean)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="zoo.data of the Zoo data set")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.01, 0.0])
    parser.add_argument("--seeds", type=int, default=20, help="random orders (at least 2)")
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error("--seeds is at least 2, or there is no interval to give")
    begin = time.perf_counter()
    try:
        table = load_zoo(arguments.data)
        for noise in arguments.noise:
            report(table, noise, arguments.seeds)
    except BalarError as error:
        parser.error(str(error))
    print(f"{time.perf_counter() - begin:.1f} s on {jax.default_backend()}")


if __name__ == "__main__":
    main()
