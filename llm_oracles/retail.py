"""Which variant of a product does a customer want: catalogues of products and their options.

The hypotheses are the variants of a product that are available, the questions its options. Options
depend on each other, because not every combination is in stock.

    catalogue = load_catalogue("tau-bench")        # a checkout of your own
    problem = catalogue.products[0].to_problem()

`load_catalogue` and `load_cases` read the retail data of tau-bench and tau2-bench; `make_catalogue`
makes up a catalogue instead. docs/retail.md tells more.
"""

import ast
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from balar_core.errors import InvalidInput

from .problem import Problem, make_problem

__all__ = [
    "Catalogue",
    "Product",
    "UnusableCatalogue",
    "Variant",
    "VariantCase",
    "load_cases",
    "load_catalogue",
]

CATALOGUES = ("tau_bench/envs/retail/data/products.json", "data/tau2/domains/retail/db.json")
"""Where a checkout of tau-bench, or of tau2-bench, has its products."""
PYTHON_TASKS = "tau_bench/envs/retail/tasks_{}.py"
JSON_TASKS = "data/tau2/domains/retail/tasks.json"
SPLITS = ("train", "dev", "test")
CHANGES = ("exchange_delivered_order_items", "modify_pending_order_items")
"""The actions that replace items by other variants of the same product."""


class UnusableCatalogue(InvalidInput):
    """A file with products or tasks that cannot be used."""


def _listed(entries: object) -> object:
    """The values of a mapping; the catalogues of both benchmarks map numbers to entries."""
    return tuple(entries.values()) if isinstance(entries, Mapping) else entries


class Variant(BaseModel):
    """One way to have a product.

    Attributes:
        item_id: its number.
        options: name of each option -> its value.
        available: whether it is in stock.
    """

    model_config = ConfigDict(frozen=True)

    item_id: str
    options: dict[str, str]
    available: bool


class Product(BaseModel):
    """A product and its variants."""

    model_config = ConfigDict(frozen=True)

    name: str
    variants: Annotated[tuple[Variant, ...], BeforeValidator(_listed)]

    @property
    def available(self) -> tuple[Variant, ...]:
        """The variants in stock."""
        return tuple(variant for variant in self.variants if variant.available)

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options, in the order in which they first occur."""
        return tuple(dict.fromkeys(name for v in self.variants for name in v.options))

    def to_problem(self, *, noise: float = 0.0) -> Problem:
        """The problem of finding out the wanted item by asking for its options.

        The choices of a question are all values of an option, those of variants that are sold out
        included: a customer may well name one of them. An option with one value is not asked for.

        Args:
            noise: share of answers that are taken to be uniformly random.

        Raises:
            ProblemError: fewer than two variants are available, or nothing can be asked.
        """
        values = {
            name: tuple(dict.fromkeys(v.options[name] for v in self.variants if name in v.options))
            for name in self.options
        }
        return make_problem(
            {
                "name": self.name,
                "prompt": f"Which {self.name} does the customer want?",
                "dimensions": [{"name": "item", "values": [v.item_id for v in self.available]}],
                "target": "item",
                "questions": [
                    {
                        "text": f"Which {name}?",
                        "choices": choices,
                        "given": {
                            "item": {v.item_id: _row(v, name, choices) for v in self.available}
                        },
                    }
                    for name, choices in values.items()
                    if len(choices) > 1
                ],
                "settings": {"noise": noise},
            },
            self.name,
        )


def _row(variant: Variant, option: str, choices: Sequence[str]) -> tuple[float, ...]:
    """How likely each choice is if the variant is wanted; equal where it lacks the option."""
    if option not in variant.options:
        return (1 / len(choices),) * len(choices)
    return tuple(float(choice == variant.options[option]) for choice in choices)


@dataclass(frozen=True)
class Catalogue:
    """The products of a shop."""

    products: tuple[Product, ...]

    def product_of(self, item_id: str) -> Product:
        """The product with a variant of this number.

        Raises:
            UnusableCatalogue: there is none.
        """
        for product in self.products:
            if any(variant.item_id == item_id for variant in product.variants):
                return product
        raise UnusableCatalogue(f"No product of the catalogue has a variant {item_id!r}.")


@dataclass(frozen=True)
class VariantCase:
    """A customer who wants another variant of what was ordered.

    Attributes:
        task: the number of the task, within its split.
        split: train, dev or test; empty where tasks are not divided.
        product: the product.
        old: the item that was ordered.
        new: the item that is wanted, which is available.
    """

    task: str
    split: str
    product: Product
    old: str
    new: str


def load_catalogue(path: str | os.PathLike[str]) -> Catalogue:
    """Read the products of a checkout of tau-bench or tau2-bench, or of one JSON file.

    Args:
        path: the folder of the checkout, or a file with the products: a mapping (or a list, under
            `variants`) of `{"name": ..., "variants": {"item_id", "options", "available"}}`, by
            itself or under `products`.

    Raises:
        UnusableCatalogue: there is no such file, or it holds something else.
    """
    file = _first_file(Path(path), CATALOGUES, "products")
    data = _read_json(file)
    if isinstance(data, dict) and "products" in data:
        data = data["products"]
    try:
        products = _PRODUCTS.validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = " → ".join(map(str, first["loc"])) or "the whole"
        message = f"{file}: no catalogue of products. {place}: {first['msg']}."
        raise UnusableCatalogue(message) from None
    if not products:
        raise UnusableCatalogue(f"{file}: there are no products in this catalogue.")
    return Catalogue(products)


_PRODUCTS = TypeAdapter(Annotated[tuple[Product, ...], BeforeValidator(_listed)])


def load_cases(path: str | os.PathLike[str], catalogue: Catalogue) -> tuple[VariantCase, ...]:
    """Read who wants which variant from the tasks of a checkout of tau-bench or tau2-bench.

    Every task that exchanges or modifies items gives one case per item. A new item that is not
    available gives none: no question could lead to it. The Python files of tau-bench are parsed,
    never run.

    Args:
        path: the folder of the checkout.
        catalogue: its products.

    Raises:
        UnusableCatalogue: there are no tasks, or they are about other products.
    """
    root = Path(path)
    python = {split: root / PYTHON_TASKS.format(split) for split in SPLITS}
    found: list[tuple[str, str, Mapping[str, Any]]] = []
    for split, file in python.items():
        if file.is_file():
            found += [(split, task, change) for task, change in _python_changes(file)]
    if not any(file.is_file() for file in python.values()):
        file = _first_file(root, (JSON_TASKS,), "tasks")
        found = [("", task, change) for task, change in _json_changes(file)]
    return tuple(
        case for split, task, change in found for case in _cases(split, task, change, catalogue)
    )


def _cases(
    split: str, task: str, change: Mapping[str, Any], catalogue: Catalogue
) -> Iterator[VariantCase]:
    try:
        pairs = list(zip(change["item_ids"], change["new_item_ids"], strict=True))
    except (KeyError, TypeError, ValueError):
        raise UnusableCatalogue(
            f"Task {task}: an exchange needs as many `new_item_ids` as `item_ids`."
        ) from None
    for old, new in pairs:
        product = catalogue.product_of(new)
        if any(variant.item_id == new for variant in product.available):
            yield VariantCase(task, split, product, old, new)


def _python_changes(file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The number of the task and the arguments of every change of items in a Python file."""
    try:
        tree = ast.parse(_read(file), str(file))
    except SyntaxError as error:
        raise UnusableCatalogue(f"{file}:{error.lineno}: not a Python file of tasks.") from None
    for number, task in enumerate(_calls(tree, "Task")):
        for action in _calls(task, "Action"):
            try:
                parts = {k.arg: ast.literal_eval(k.value) for k in action.keywords}
            except ValueError:
                raise UnusableCatalogue(
                    f"{file}:{action.lineno}: an action that is not written out in full."
                ) from None
            if parts.get("name") in CHANGES:
                yield str(number), parts.get("kwargs", {})


def _calls(tree: ast.AST, name: str) -> list[ast.Call]:
    """The calls of a function in a tree, in the order of the text."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    named = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == name]
    return sorted(named, key=lambda call: (call.lineno, call.col_offset))


def _json_changes(file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The same from a JSON file of tau2-bench."""
    try:
        for task in _read_json(file):
            for action in (task.get("evaluation_criteria") or {}).get("actions") or ():
                if action["name"] in CHANGES:
                    yield str(task["id"]), action["arguments"]
    except (AttributeError, KeyError, TypeError):
        raise UnusableCatalogue(
            f"{file}: not a list of tasks with `id` and `evaluation_criteria`."
        ) from None


def _first_file(path: Path, places: tuple[str, ...], what: str) -> Path:
    """The path itself if it is a file, else the first of some places below it."""
    if path.is_file():
        return path
    for place in places:
        if (path / place).is_file():
            return path / place
    listed = " or ".join(places)
    raise UnusableCatalogue(
        f"{path} has no {what}: give the folder of a checkout of tau-bench or tau2-bench, with "
        f"{listed} in it."
    )


def _read_json(file: Path) -> Any:
    try:
        return json.loads(_read(file))
    except json.JSONDecodeError as error:
        raise UnusableCatalogue(
            f"{file}:{error.lineno}:{error.colno}: not JSON: {error.msg}."
        ) from None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UnusableCatalogue(f"{file} is not UTF-8 text.") from None
    except OSError as error:
        raise UnusableCatalogue(f"{file} cannot be read: {error.strerror or error}.") from None
