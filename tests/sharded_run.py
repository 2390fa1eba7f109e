"""The same worlds on one device and spread over all; run by `test_sharding` in its own processes.

    python -m tests.sharded_run [ADDRESS COUNT NUMBER]

Prints a JSON line: the largest difference of every result, and how many elements the compiled
programs gather from other devices at most.
"""

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from balar_core import (
    AnswerTables,
    Belief,
    LikelihoodTables,
    Rule,
    answer_posterior,
    dimension_information,
    entropy,
    map_state,
    marginals,
    respond,
    score,
    turn,
    update,
)
from balar_core.sharding import shard
from benchmarks.worlds import Size, World
from tests.strategies import space_of

CASES = [
    ("1536x6x4", "labels"),
    ("1458x5x3", "zeros"),
    ("49152x4x4", "labels"),
    ("162x4x3", "weak"),
]
GATHER = re.compile(
    r"= \w+\[([\d,]*)\][^=]* (?:all-gather|all-to-all|collective-permute)(?:-start)?\("
)


def programs(tables: LikelihoodTables, answers: AnswerTables) -> dict[str, Callable[[Belief], Any]]:
    evidence = np.zeros(tables.choice_mask.shape[1], np.float32)
    evidence[1] = 1
    rule = Rule()
    return {
        "score": lambda b: score(b, tables),
        "update": lambda b: update(b, tables, 0, 0, evidence),
        "entropy": entropy,
        "marginals": marginals,
        "map_state": map_state,
        "answers": lambda b: answer_posterior(b, answers),
        "answers_per_state": lambda b: answer_posterior(b, answers, per_state=True),
        "dimensions": lambda b: dimension_information(b, tables, 0, 0),
        "turn": lambda b: turn(b, tables, rule, questions_left=3, answers=answers),
        "respond": lambda b: respond(b, tables, 0, 0, evidence, rule, questions_left=3),
    }


def whole(x: Any) -> np.ndarray:
    """An array on the host, wherever its parts are."""
    if isinstance(x, jax.Array) and not x.is_fully_addressable and not x.is_fully_replicated:
        from jax.experimental import multihost_utils

        return np.asarray(multihost_utils.process_allgather(x, tiled=True))
    return np.asarray(x)


def difference(a: Any, b: Any) -> float:
    """The largest difference of two results; the padding of rows is left out."""
    worst = 0.0
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        one, many = whole(x), whole(y)
        if one.shape != many.shape:
            many = many[: one.shape[0]]
        different = one != many
        if one.dtype.kind == "f" and np.array_equal(np.isfinite(one), np.isfinite(many)):
            one, many = one[different], many[different]
            gaps = np.abs(one - many) / np.maximum(1, np.abs(one))
            worst = max(worst, float(gaps.max(initial=0)))
        elif different.any():
            worst = np.inf
    return worst


def gathered(compiled: str) -> int:
    """The largest array that comes together from several devices, in elements."""
    shapes = GATHER.findall(compiled)
    return max((int(np.prod([int(n) for n in s.split(",") if n])) for s in shapes), default=0)


def main(arguments: list[str]) -> None:
    if arguments:
        address, count, number = arguments
        jax.distributed.initialize(address, int(count), int(number))
    mesh = Mesh(np.array(jax.devices()), ("states",))
    found: dict[str, Any] = {"devices": len(jax.devices()), "differences": {}, "gathered": {}}
    for size, kind in CASES:
        world = World.make(Size.parse(size), kind, 1)
        belief, tables = world.engine()
        random = np.random.default_rng(0)
        sizes = world.size.dimensions
        answers = AnswerTables.build(
            space_of(sizes), 3, [random.dirichlet(np.ones(3), n) for n in sizes]
        )
        spread = shard(belief, mesh)
        for name, program in programs(tables, answers).items():
            many = jax.jit(program)
            key = f"{name} {size} {kind}"
            found["differences"][key] = difference(program(belief), many(spread))
            share = gathered(many.lower(spread).compile().as_text()) / belief.log_joint.size
            found["gathered"][key] = share
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
