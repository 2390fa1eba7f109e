"""How often the likeliest hypothesis is the true one after k questions, for every way to ask.

    python -m benchmarks.knowledge --table zoo.csv --no-header --ignore 18
    python -m benchmarks.knowledge --symptoms train_tables.json --goals test_goals.json
    python -m benchmarks.knowledge --catalogue products.json

No model is asked. All policies face the same goals, and every goal gives each question the same
answer whoever asks it. Rates come with 95 % Wilson intervals, entropies (in nats) with 1.96
standard errors; repetitions of one goal count as one where they do not differ.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from balar_core import BalarError, Channels, question_scores
from balar_core.numerics import entropy, log_normalise
from llm_oracles.knowledge import load_table
from llm_oracles.problem_schema import Problem, rows_of
from llm_oracles.retail import load_catalogue

BATCH = 64
CANDIDATES = 8
"""Questions that the look-ahead follows up: the most telling ones."""
History = tuple[np.ndarray, np.ndarray]
"""Questions, shape `(n, turns)`, -1 for none, and the answers to them."""


@dataclass(frozen=True)
class Task:
    """Hypotheses, what they answer, and goals with their answers.

    Attributes:
        prior: shape `(hypotheses,)`.
        tables: per question `(hypotheses, choices)`, as the belief has them.
        truth: shape `(goals,)`; the true hypothesis of each goal.
        answers: shape `(goals, questions)`.
        given: shape `(goals,)`; a question whose answer is known from the start, or -1.
        repeated: whether the goals of one hypothesis are the same goal with answers drawn anew,
            and so are not independent.
    """

    prior: np.ndarray
    tables: list[np.ndarray]
    truth: np.ndarray
    answers: np.ndarray
    given: np.ndarray
    repeated: bool = True


class Beliefs:
    """The beliefs and scores that histories lead to, each distinct history once."""

    def __init__(self, task: Task) -> None:
        size = len(task.prior)
        channels = Channels.build([size], [0] * len(task.tables), task.tables)
        self.choices = np.array([table.shape[1] for table in task.tables])
        log_prior = jnp.log(jnp.asarray(task.prior))
        log_tables = jnp.log(channels.table)

        def posterior(asked: jax.Array, answers: jax.Array) -> jax.Array:
            told = log_tables[asked, :, answers]
            told = jnp.where((asked >= 0)[:, None], told, 0)
            return jnp.exp(log_normalise(log_prior + jnp.sum(told, axis=0))[0])

        def look(asked: jax.Array, answers: jax.Array) -> tuple[jax.Array, ...]:
            p = posterior(asked, answers)
            scores = question_scores(p[None], p[None, None], channels)
            left = ~jnp.any(asked[:, None] == jnp.arange(len(self.choices))[None, :], axis=0)
            return jnp.where(left, scores.whole, -1), scores.predictive

        def judge(asked: jax.Array, answers: jax.Array) -> tuple[jax.Array, ...]:
            p = posterior(asked, answers)
            return jnp.argmax(p >= jnp.max(p) * (1 - 1e-5)), entropy(p)

        self.look = _distinct(jax.jit(jax.vmap(look)))
        self.judge = _distinct(jax.jit(jax.vmap(judge)))

    def ahead(self, asked: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """The first of the two questions that together tell most, the second after the answer."""
        rows, back = np.unique(np.hstack([asked, answers]), axis=0, return_inverse=True)
        asked, answers = np.hsplit(rows, 2)
        scores, predictive = self.look(asked, answers)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :CANDIDATES]
        n, width, most = len(rows), best.shape[1], int(self.choices.max())
        question = np.broadcast_to(best[:, :, None], (n, width, most)).reshape(-1, 1)
        answer = np.broadcast_to(np.arange(most), (n, width, most)).reshape(-1, 1)
        again = width * most
        second, _ = self.look(
            np.hstack([np.repeat(asked, again, axis=0), question]),
            np.hstack([np.repeat(answers, again, axis=0), answer]),
        )
        follow = np.maximum(second.max(axis=1), 0).reshape(n, width, most)
        weight = np.take_along_axis(predictive, best[:, :, None], axis=1)
        follow = np.where(weight > 0, weight * np.where(weight > 0, follow, 0), 0)
        first = np.take_along_axis(scores, best, axis=1)
        total = np.where(first >= 0, first + follow.sum(axis=2), -1)
        chosen = np.take_along_axis(best, _winner(total)[:, None], axis=1)[:, 0]
        found: np.ndarray = chosen[back.ravel()]
        return found


def _distinct(function: Callable) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]:
    """The same function of histories, run in batches, once for each distinct history."""

    def run(asked: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, ...]:
        rows, back = np.unique(np.hstack([asked, answers]), axis=0, return_inverse=True)
        padded = np.vstack([rows, np.repeat(rows[-1:], -len(rows) % BATCH, axis=0)])
        found = [
            jax.device_get(function(*np.hsplit(padded[i : i + BATCH], 2)))
            for i in range(0, len(padded), BATCH)
        ]
        return tuple(np.concatenate(part)[back.ravel()] for part in zip(*found, strict=True))

    return run


def _winner(scores: np.ndarray) -> np.ndarray:
    """The lowest position that ties with the best one, in every row."""
    best = scores.max(axis=1, keepdims=True)
    found: np.ndarray = np.argmax(scores >= best - 1e-5 * np.abs(best), axis=1)
    return found


def play(task: Task, policy: str, budget: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether the guess was right, and the entropy, after 0, 1, ... questions of every goal."""
    beliefs, goals = Beliefs(task), len(task.truth)
    everyone = np.arange(goals)
    asked = np.full((goals, budget + 1), -1)
    answers = np.zeros((goals, budget + 1), int)
    asked[:, 0] = task.given
    answers[:, 0] = np.where(task.given >= 0, task.answers[everyone, task.given], 0)
    count = len(task.tables)
    order = np.random.default_rng(seed).random((goals, count))
    right, entropies = [], []
    for turn in range(budget + 1):
        guess, nats = beliefs.judge(asked, answers)
        right.append(guess == task.truth)
        entropies.append(nats)
        if turn == budget or turn >= count - (task.given >= 0).any():
            continue
        closed = np.any(asked[:, :, None] == np.arange(count), axis=1)
        if policy == "random":
            chosen = np.where(closed, -1, order).argmax(axis=1)
        elif policy == "order":
            chosen = closed.argmin(axis=1)
        elif policy == "ahead" and turn < budget - 1:
            chosen = beliefs.ahead(asked, answers)
        else:
            chosen = _winner(beliefs.look(asked, answers)[0])
        asked[:, turn + 1] = chosen
        answers[:, turn + 1] = task.answers[everyone, chosen]
    return np.array(right), np.array(entropies)


POLICIES = {
    "greedy": "most telling",
    "ahead": "two steps ahead",
    "order": "fixed order",
    "random": "random",
}


def of_problem(problem: Problem, noise: tuple[float, float], repeats: int, seed: int) -> Task:
    """Every hypothesis is a goal, as often as it is repeated.

    Args:
        problem: one dimension, without noise of its own.
        noise: the share of random answers that the belief expects, and the true share.
        repeats: how often; more than once is of use only where answers are drawn.
        seed: of the answers.
    """
    random = np.random.default_rng(seed)
    [dimension] = problem.dimensions
    size = len(dimension.value_names)
    truth = np.tile(np.arange(size), repeats)
    expected, true = noise
    tables = []
    answers = np.empty((len(truth), len(problem.questions)), int)
    for q, question in enumerate(problem.questions):
        exact = np.array(rows_of(question.given[dimension.name], dimension.core), float)
        tables.append((1 - expected) * exact + expected / exact.shape[1])
        channel = (1 - true) * exact + true / exact.shape[1]
        draw = random.random((len(truth), 1))
        answers[:, q] = np.sum(draw > channel[truth].cumsum(axis=1)[:, :-1], axis=1)
    return Task(np.full(size, 1 / size), tables, truth, answers, np.full(len(truth), -1))


def of_symptoms(path: str, goals: str, floor: float, most: int, seed: int) -> Task:
    """Diseases with counted symptoms; goals are cases of which one symptom is known at first.

    Raises:
        BalarError: a file that cannot be read, or of another form.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        cases = json.loads(Path(goals).read_text(encoding="utf-8"))
        diseases, symptoms = data["diseases"], data["symptoms"]
        total = np.array(data["train_counts"], float)
        place = {name: i for i, name in enumerate(symptoms)}
        share = np.zeros((len(diseases), len(symptoms)))
        for d, name in enumerate(diseases):
            for symptom, count in data["train_symptom_counts"][name].items():
                share[d, place[symptom]] = count / total[d]
        picked = np.random.default_rng(seed).permutation(len(cases))[:most]
        chosen = [cases[i] for i in np.sort(picked)]
        answers = np.zeros((len(chosen), len(symptoms)), int)
        for i, case in enumerate(chosen):
            answers[i, [place[name] for name in [*case["explicit"], *case["implicit"]]]] = 1
        truth = np.array([diseases.index(case["disease"]) for case in chosen])
        given = np.array([place[case["explicit"][0]] for case in chosen])
    except OSError as error:
        raise BalarError(f"{error.filename} cannot be read: {error.strerror}.") from None
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise BalarError(f"{path} and {goals} are no such tables and goals: {error!r}.") from None
    share = (1 - floor) * share + floor / 2
    tables = [np.stack([1 - share[:, q], share[:, q]], axis=1) for q in range(len(symptoms))]
    return Task(total / total.sum(), tables, truth, answers, given, repeated=False)


def wilson(right: np.ndarray, cluster: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of a rate; dialogues of one cluster count as far as they differ."""
    rate, z = right.mean(), 1.96
    error = clustered_error(right, cluster)
    n = rate * (1 - rate) / error**2 if error > 0 else len(np.unique(cluster))
    middle = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    return float(middle - half), float(middle + half)


def clustered_error(numbers: np.ndarray, cluster: np.ndarray) -> float:
    """The standard error of a mean over clusters of equal size."""
    _, members = np.unique(cluster, return_inverse=True)
    means = np.bincount(members, numbers) / np.bincount(members)
    return float(means.std() / np.sqrt(len(means)))


def report(tasks: Sequence[Task], policies: Sequence[str], after: Sequence[int], seed: int) -> None:
    """Print a row for every policy: rates and entropies after some numbers of questions."""
    sizes = [len(task.prior) if task.repeated else len(task.truth) for task in tasks]
    starts = np.cumsum([0, *sizes])
    cluster = np.concatenate(
        [
            start + (task.truth if task.repeated else np.arange(len(task.truth)))
            for start, task in zip(starts, tasks, strict=False)
        ]
    )
    print(f"{sum(len(task.truth) for task in tasks)} goals, {len(tasks)} set(s) of hypotheses")
    for policy in policies:
        plays = [play(task, policy, max(after), seed) for task in tasks]
        right, nats = (np.concatenate(part, axis=1) for part in zip(*plays, strict=True))
        for k in after:
            low, high = wilson(right[k], cluster)
            margin = 1.96 * clustered_error(nats[k], cluster)
            print(
                f"  {POLICIES[policy]:<16} {k:>3} questions   top-1 {right[k].mean():.3f} "
                f"[{low:.3f}, {high:.3f}]   entropy {nats[k].mean():.3f} +- {margin:.3f}"
            )


def load(options: argparse.Namespace) -> list[Task]:
    """The tasks that the options name.

    Raises:
        BalarError: files that cannot be used.
    """
    noise = (options.noise, options.noise if options.true_noise is None else options.true_noise)
    if options.table:
        target = int(options.target) if options.target.isdigit() else options.target
        ignore = [int(name) if name.isdigit() else name for name in options.ignore]
        table = load_table(options.table, target, header=not options.no_header, ignore=ignore)
        return [of_problem(table.to_problem(noise=0), noise, options.repeats, options.seed)]
    if options.symptoms:
        if not options.goals:
            raise BalarError("--symptoms needs the cases to be found out: give --goals FILE.")
        return [of_symptoms(options.symptoms, options.goals, noise[0], options.most, options.seed)]
    products = load_catalogue(options.catalogue).products
    return [
        of_problem(product.to_problem(noise=0), noise, options.repeats, options.seed)
        for product in products
        if len(product.available) > 1
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--table", help="CSV file of objects and attributes")
    source.add_argument("--symptoms", help="JSON file of diseases and counted symptoms")
    source.add_argument("--catalogue", help="JSON file of products and their variants")
    parser.add_argument("--target", default="1", help="column of the names, by name or number")
    parser.add_argument("--ignore", nargs="*", default=[], help="columns to leave out")
    parser.add_argument("--no-header", action="store_true", help="the first row is an object")
    parser.add_argument("--goals", help="JSON file of cases, for --symptoms")
    parser.add_argument("--most", type=int, default=1000, help="cases to take, at random")
    parser.add_argument("--noise", type=float, default=0.0, help="share of random answers")
    parser.add_argument("--true-noise", type=float, help="the share that users have instead")
    parser.add_argument("--repeats", type=int, default=1, help="dialogues per object")
    parser.add_argument("--after", type=int, nargs="+", default=[3, 5, 10], help="questions")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in ("noise", "true_noise"):
        share = getattr(options, name)
        if share is not None and not 0 <= share <= 1:
            parser.error(f"--{name.replace('_', '-')} is {share}; it is a share from 0 to 1")
    if min(options.most, options.repeats, *options.after) < 1:
        parser.error("--most, --repeats and --after are 1 or more")
    begin = time.perf_counter()
    try:
        report(load(options), options.policies, options.after, options.seed)
    except BalarError as error:
        parser.error(str(error))
    print(f"{time.perf_counter() - begin:.1f} s on {jax.default_backend()}")


if __name__ == "__main__":
    main()
