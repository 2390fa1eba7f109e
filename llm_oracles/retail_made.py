"""Made-up catalogues: products with options that depend on each other, from a seed."""

import random

from balar_core.errors import InvalidSetting

from .retail import Catalogue, Product, Variant

__all__ = ["make_catalogue"]

KINDS: dict[str, dict[str, tuple[str, ...]]] = {
    "teapot": {
        "glaze": ("celadon", "tenmoku", "white", "ash"),
        "capacity": ("0.5 l", "0.9 l", "1.2 l"),
        "handle": ("side", "back", "bamboo"),
    },
    "rucksack": {
        "volume": ("18 l", "26 l", "38 l", "55 l"),
        "back length": ("short", "regular", "long"),
        "colour": ("moss", "slate", "rust", "sand", "navy"),
        "frame": ("none", "wire"),
    },
    "fountain pen": {
        "nib": ("extra fine", "fine", "medium", "broad", "italic"),
        "filling": ("cartridge", "piston"),
        "barrel": ("resin", "brass", "ebonite"),
    },
    "hammock": {
        "width": ("single", "double", "family"),
        "fabric": ("cotton", "nylon"),
        "pattern": ("plain", "stripes", "checks", "waves"),
    },
    "kite": {
        "span": ("1.2 m", "1.6 m", "2.4 m"),
        "lines": ("one", "two", "four"),
        "wind": ("light", "fresh", "strong"),
        "tail": ("ribbon", "tube", "without"),
        "colour": ("red", "violet", "yellow"),
    },
    "doormat": {
        "fibre": ("coir", "jute", "rubber", "wool"),
        "size": ("small", "wide", "half-moon"),
    },
    "violin case": {
        "shape": ("oblong", "shaped", "half-moon"),
        "shell": ("wood", "carbon", "foam"),
        "lining": ("green", "blue", "wine", "grey"),
    },
    "bird house": {
        "for": ("tits", "sparrows", "swifts", "owls", "starlings", "wrens"),
        "roof": ("slate", "copper", "shingle"),
        "mount": ("pole", "wall", "tree"),
    },
}
"""Name of a product -> its options and their values."""


def make_catalogue(seed: int, products: int = 50) -> Catalogue:
    """Make up a catalogue of products with two to five options and 2 to 18 variants in stock.

    A line of a product is only made in some values of its options, so that one option tells about
    another, as in a real shop.

    Args:
        seed: equal seeds give equal catalogues.
        products: how many products.

    Raises:
        InvalidSetting: fewer than one product.

    >>> catalogue = make_catalogue(seed=0, products=3)
    >>> [product.name for product in catalogue.products]
    ['teapot 1', 'rucksack 1', 'fountain pen 1']
    """
    if products < 1:
        raise InvalidSetting(f"products is {products!r}; it is a whole number of 1 or more.")
    rng = random.Random(f"catalogue {seed}")
    kinds = list(KINDS)
    return Catalogue(
        tuple(
            _product(rng, kinds[i % len(kinds)], i // len(kinds) + 1, 1000 * (i + 1))
            for i in range(products)
        )
    )


def _product(rng: random.Random, kind: str, line: int, first_id: int) -> Product:
    options = KINDS[kind]
    leading, *others = options
    made = {lead: {name: _some(rng, options[name]) for name in others} for lead in options[leading]}
    tuples: dict[tuple[str, ...], None] = {}
    wanted = rng.randint(4, 20)
    for _ in range(20 * wanted):
        lead = rng.choice(options[leading])
        tuples[lead, *(rng.choice(made[lead][name]) for name in others)] = None
        if len(tuples) == wanted:
            break
    in_stock = rng.sample(range(len(tuples)), max(2, min(18, round(0.75 * len(tuples)))))
    return Product(
        name=f"{kind} {line}",
        variants=tuple(
            Variant(
                item_id=str(first_id + i),
                options=dict(zip(options, values, strict=True)),
                available=i in in_stock,
            )
            for i, values in enumerate(tuples)
        ),
    )


def _some(rng: random.Random, values: tuple[str, ...]) -> list[str]:
    """At least one of some values, in their order."""
    chosen = rng.sample(values, rng.randint(1, len(values)))
    return [value for value in values if value in chosen]
