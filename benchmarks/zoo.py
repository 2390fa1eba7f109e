"""How many questions it takes to guess an object: the most telling one first, or any other order.

    python -m benchmarks.zoo --data zoo.csv

The table is the Zoo data set: no header, the name first, the class last (which is not asked for).
Every object is guessed once under each order. All orders share one stop rule: the best name has
probability 1 - alpha, or no open question tells more than `min_information`; and none of them
wastes a question that tells less than that.
"""

import argparse
import asyncio
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from balar_core.belief import Belief, marginals, update
from balar_core.dialogue import Ask, Dialogue
from balar_core.information import mutual_information
from llm_oracles.knowledge import KnowledgeOracle, KnowledgeTable, load_table
from llm_oracles.problem import Problem

Order = Callable[[np.ndarray], np.ndarray]
"""Information of the open questions, shape (objects, questions), 0 if not open -> ranks."""


class Game:
    """All objects of a table guessed side by side."""

    def __init__(self, problem: Problem, answers: np.ndarray) -> None:
        self.settings = problem.setup().settings
        self.answers = answers
        dialogue = asyncio.run(_first_question(problem))
        belief, tables = dialogue.belief, dialogue.tables
        assert belief is not None and tables is not None
        self.start = belief.log_joint
        choices = tables.choice_mask.shape[1]

        def look(log_joint):
            belief_now = Belief(log_joint, belief.layout)
            names = marginals(belief_now)[0]
            return names, mutual_information(belief_now, tables)[:, 0]

        def answer(log_joint, question, choice, go_on):
            now = Belief(log_joint, belief.layout)
            told = update(now, tables, question, 0, jax.nn.one_hot(choice, choices))
            return jnp.where(go_on, told.belief.log_joint, log_joint)

        self.look = jax.jit(jax.vmap(look))
        self.answer = jax.jit(jax.vmap(answer))

    def play(self, order: Order) -> tuple[np.ndarray, np.ndarray]:
        """Questions asked for each object, and whether no name is likelier than the true one."""
        objects, questions = self.answers.shape
        log_joint = jnp.broadcast_to(self.start, (objects, *self.start.shape))
        is_open = np.ones((objects, questions), dtype=bool)
        everyone = np.arange(objects)
        while True:
            names, information = map(np.asarray, self.look(log_joint))
            information = np.where(is_open, information[:, :questions], 0)
            telling = information >= self.settings.min_information
            go_on = (names.max(axis=1) < 1 - self.settings.alpha) & telling.any(axis=1)
            if not go_on.any():
                truth = names[everyone, everyone]
                return (~is_open).sum(axis=1), truth >= names.max(axis=1) * (1 - 1e-5)
            chosen = np.where(telling, order(information), -np.inf).argmax(axis=1)
            is_open[everyone[go_on], chosen[go_on]] = False
            log_joint = self.answer(log_joint, chosen, self.answers[everyone, chosen], go_on)


async def _first_question(problem: Problem) -> Dialogue:
    """A dialogue about the problem, right before the first question."""
    names = problem.dimensions[0].value_names
    oracle = KnowledgeOracle(problem, names[0])
    dialogue = Dialogue.start(problem.setup())
    while not isinstance(dialogue.need, Ask):
        assert dialogue.need is not None
        dialogue = dialogue.tell(await oracle.fulfil(dialogue.need))
    return dialogue


def truthful_answers(problem: Problem) -> np.ndarray:
    """The position of the true choice, shape (objects, questions)."""
    (dimension,) = problem.dimensions
    tables = [question.given[dimension.name] for question in problem.questions]
    rows = [[np.argmax(table[name]) for table in tables] for name in dimension.value_names]
    return np.array(rows)


def random_order(seed: int, shape: tuple[int, ...]) -> Order:
    ranks = np.random.default_rng(seed).random(shape)
    return lambda information: ranks


def report(table: KnowledgeTable, noise: float, seeds: int) -> None:
    problem = table.to_problem(noise=noise)
    answers = truthful_answers(problem)
    game = Game(problem, answers)
    objects, questions = answers.shape
    patterns = len(np.unique(answers, axis=0))
    print(f"{objects} objects, {patterns} patterns, {questions} questions, noise {noise:g}")
    fixed = np.broadcast_to(-np.arange(questions), answers.shape)
    plays = [game.play(random_order(seed, answers.shape)) for seed in range(seeds)]
    means = np.array([asked.mean() for asked, _ in plays])
    margin = 1.96 * means.std(ddof=1) / np.sqrt(seeds)
    print("  order                  mean questions     most   truth among the best")
    for name, games, interval in (
        ("most telling first", [game.play(lambda information: information)], ""),
        ("order of the columns", [game.play(lambda information: fixed)], ""),
        ("random", plays, f"+- {margin:.3f}"),
    ):
        asked, right = (np.array(parts) for parts in zip(*games, strict=True))
        line = f"  {name:<21} {asked.mean():>6.3f} {interval:<12} {asked.max():>4}"
        print(f"{line} {right.mean():>10.1%}")
    print(f"  (random: {seeds} seeds; +- is the half width of the 95 % interval of the mean)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="zoo.csv of the Zoo data set")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.01, 0.0])
    parser.add_argument("--seeds", type=int, default=20, help="random orders (at least 2)")
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error("--seeds is at least 2, or there is no interval to give")
    begin = time.perf_counter()
    table = load_table(arguments.data, 1, header=False, ignore=(18,))
    for noise in arguments.noise:
        report(table, noise, arguments.seeds)
    print(f"{time.perf_counter() - begin:.1f} s on {jax.default_backend()}")


if __name__ == "__main__":
    main()
