"""How many questions it takes to find out which variant of a product a customer wants.

    python -m benchmarks.retail --data tau-bench      # a checkout of tau-bench or tau2-bench
    python -m benchmarks.retail --seed 0              # a made-up catalogue

Every available variant of every product is found once under each order of questions. Answers are
truthful, all variants are equally likely at first, and a dialogue ends when only one is left. The
number of questions is averaged over the variants of a product, then over the products. "Random" is
the exact mean over all orders of the options.
"""

import argparse
import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np

from balar_core import BalarError
from balar_core.askers import InOrder, MostInformative, RankedAsker, Stopping
from benchmarks.guessing import Guessing
from llm_oracles.retail import Catalogue, load_catalogue
from llm_oracles.retail_made import make_catalogue
from llm_oracles.worlds import problem_world

CERTAIN = Stopping(enough=1 - 1e-4)


class LeastInformative(RankedAsker):
    """Asks what tells least."""

    def ranks(self, situation, key):
        return -situation.information


def count_questions(catalogue: Catalogue) -> dict[str, float]:
    """Order of the questions -> mean number of questions."""
    products = [product for product in catalogue.products if len(product.available) > 1]
    guessing = Guessing([problem_world(p.to_problem(), bucketed=False) for p in products])

    def mean(asker: RankedAsker) -> float:
        questions, right = guessing.play(asker)
        assert right.all()
        totals = np.bincount(guessing.world, questions)
        return float((totals / np.bincount(guessing.world)).mean())

    orders = itertools.permutations(range(guessing.pairs))
    return {
        "most telling first": mean(MostInformative(CERTAIN)),
        "order of the options": mean(InOrder(CERTAIN)),
        "random": float(np.mean([mean(InOrder(CERTAIN, jnp.array(order))) for order in orders])),
        "least telling first": mean(LeastInformative(CERTAIN)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", help="folder of a checkout, or a JSON file of products")
    source.add_argument("--seed", type=int, help="make up a catalogue from this seed")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    try:
        if arguments.data is None:
            catalogue = make_catalogue(arguments.seed)
        else:
            catalogue = load_catalogue(arguments.data)
    except BalarError as error:
        parser.error(str(error))
    variants = [len(product.available) for product in catalogue.products]
    options = [len(product.options) for product in catalogue.products]
    print(
        f"{len(variants)} products, {np.mean(variants):.2f} available variants "
        f"({min(variants)} to {max(variants)}), {np.mean(options):.2f} options"
    )
    for order, questions in count_questions(catalogue).items():
        print(f"  {order:<22} {questions:.3f} questions")
    print(f"{time.perf_counter() - begin:.1f} s on {jax.default_backend()}")


if __name__ == "__main__":
    main()
