"""Catalogues of products: read, made up, and how many questions their variants take."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from balar_core.dialogue import Dialogue
from balar_core.errors import InvalidSetting
from benchmarks.retail import count_questions
from llm_oracles.knowledge import KnowledgeOracle
from llm_oracles.oracle import run
from llm_oracles.retail import (
    Catalogue,
    UnusableCatalogue,
    load_cases,
    load_catalogue,
)
from llm_oracles.retail_made import make_catalogue

ROOT = Path(__file__).resolve().parents[1]
CATALOGUE = make_catalogue(seed=4, products=8)

TASKS = """
from somewhere import Action, Task

TASKS = [
    Task(
        user_id="a",
        instruction="Exchange the teapot.",
        actions=[
            Action(name="get_order_details", kwargs={"order_id": "#1"}),
            Action(
                name="exchange_delivered_order_items",
                kwargs={"item_ids": ["OLD", "OLD"], "new_item_ids": ["NEW", "GONE"]},
            ),
        ],
        outputs=[],
    ),
    Task(user_id="b", instruction="", actions=[], outputs=[]),
    Task(
        user_id="c",
        instruction="",
        actions=[
            Action(
                name="modify_pending_order_items",
                kwargs={"item_ids": ["NEW"], "new_item_ids": ["OLD"]},
            )
        ],
        outputs=[],
    ),
]
"""


def as_mappings(catalogue: Catalogue) -> dict[str, Any]:
    """Products as both benchmarks write them: mappings from numbers."""
    return {
        str(number): {
            "name": product.name,
            "product_id": str(number),
            "variants": {v.item_id: {**v.model_dump(), "price": 9.5} for v in product.variants},
        }
        for number, product in enumerate(catalogue.products)
    }


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def three() -> tuple[str, str, str]:
    """Two available items and one that is sold out, of the first product."""
    product = CATALOGUE.products[0]
    gone = next(v.item_id for v in product.variants if not v.available)
    return product.available[0].item_id, product.available[1].item_id, gone


@pytest.fixture
def tau(tmp_path: Path, three: tuple[str, str, str]) -> Path:
    old, new, gone = three
    folder = tmp_path / "tau_bench" / "envs" / "retail"
    write(folder / "data" / "products.json", json.dumps(as_mappings(CATALOGUE)))
    tasks = TASKS.replace("OLD", old).replace("NEW", new).replace("GONE", gone)
    write(folder / "tasks_test.py", tasks)
    return tmp_path


@pytest.fixture
def tau2(tmp_path: Path, three: tuple[str, str, str]) -> Path:
    old, new, gone = three
    folder = tmp_path / "data" / "tau2" / "domains" / "retail"
    write(folder / "db.json", json.dumps({"products": as_mappings(CATALOGUE), "orders": {}}))
    change = {"item_ids": [old, old], "new_item_ids": [new, gone]}
    tasks = [
        {"id": "7", "evaluation_criteria": {"actions": [{"name": "calculate", "arguments": {}}]}},
        {"id": "8", "evaluation_criteria": None},
        {
            "id": "9",
            "evaluation_criteria": {
                "actions": [{"name": "exchange_delivered_order_items", "arguments": change}]
            },
        },
    ]
    write(folder / "tasks.json", json.dumps(tasks))
    return tmp_path


def test_both_benchmarks_are_read_the_same(tau: Path) -> None:
    assert load_catalogue(tau) == CATALOGUE


def test_the_second_benchmark_and_a_single_file_are_read_as_well(tau2: Path) -> None:
    assert load_catalogue(tau2) == CATALOGUE
    listed = {"products": [product.model_dump() for product in CATALOGUE.products]}
    assert load_catalogue(write(tau2 / "own.json", json.dumps(listed))) == CATALOGUE


def test_cases_are_the_exchanges_for_available_items(
    tau: Path, three: tuple[str, str, str]
) -> None:
    old, new, _ = three
    cases = load_cases(tau, load_catalogue(tau))
    found = [(case.split, case.task, case.product.name, case.old, case.new) for case in cases]
    name = CATALOGUE.products[0].name
    assert found == [("test", "0", name, old, new), ("test", "2", name, new, old)]


def test_cases_are_read_from_json_too(tau2: Path, three: tuple[str, str, str]) -> None:
    old, new, _ = three
    (case,) = load_cases(tau2, load_catalogue(tau2))
    assert (case.split, case.task, case.old, case.new) == ("", "9", old, new)


def test_a_truthful_customer_ends_with_the_wanted_variant() -> None:
    problem = CATALOGUE.products[0].to_problem()
    for variant in CATALOGUE.products[0].available:
        dialogue = run(Dialogue.start(problem.setup()), KnowledgeOracle(problem, variant.item_id))
        assert dialogue.conclusion is not None
        assert dialogue.conclusion.answer == variant.item_id


def test_questions_offer_what_is_sold_out_too() -> None:
    product = CATALOGUE.products[0]
    for question in product.to_problem().questions:
        name = question.text.removeprefix("Which ").removesuffix("?")
        assert set(question.choices) == {v.options[name] for v in product.variants}


def test_made_up_catalogues_depend_on_their_seed_alone() -> None:
    assert make_catalogue(seed=4, products=8) == CATALOGUE
    assert make_catalogue(seed=5, products=8) != CATALOGUE
    for product in make_catalogue(seed=0).products:
        assert 2 <= len(product.available) <= 18
        assert 2 <= len(product.options) <= 5
        tuples = {tuple(v.options.items()) for v in product.variants}
        assert len(tuples) == len(product.variants)
    with pytest.raises(InvalidSetting, match="products is 0"):
        make_catalogue(seed=0, products=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "own.json:1:2: not JSON"),
        ("[]", "no products in this catalogue"),
        ('{"products": 3}', "no catalogue of products"),
        ('[{"name": "mug"}]', "0 → variants: Field required"),
        ('[{"name": "mug", "variants": [{"item_id": "1", "options": []}]}]', "options"),
    ],
)
def test_files_that_are_no_catalogue_are_refused_with_the_place(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UnusableCatalogue) as refused:
        load_catalogue(write(tmp_path / "own.json", text))
    assert message in str(refused.value)


def test_folders_and_tasks_that_are_not_a_checkout_are_refused(
    tmp_path: Path, tau: Path, three: tuple[str, str, str]
) -> None:
    with pytest.raises(UnusableCatalogue, match="no products: give the folder of a checkout"):
        load_catalogue(tmp_path / "nowhere")
    with pytest.raises(UnusableCatalogue, match="no tasks"):
        load_cases(tmp_path / "nowhere", CATALOGUE)
    tasks = tau / "tau_bench" / "envs" / "retail" / "tasks_test.py"
    whole = tasks.read_text(encoding="utf-8")
    for broken, message in (
        (whole.replace(three[0], "12345"), "variant '12345'"),
        (whole.replace('"new_item_ids"', '"other"'), "as many `new_item_ids`"),
        (whole.replace('["', "[load("), "tasks_test.py:.*not a Python file"),
        (whole.replace('"get_order_details"', "NAME"), "tasks_test.py:.*not written out in full"),
    ):
        write(tasks, broken)
        with pytest.raises(UnusableCatalogue, match=message):
            load_cases(tau, CATALOGUE)


@pytest.mark.slow
def test_greedy_information_asks_as_few_questions_as_the_real_catalogue_allows(
    shared_dir: Path,
) -> None:
    path = shared_dir / "data" / "tau2-retail" / "retail_variant_choice_derived.json"
    if not path.is_file():
        pytest.skip("needs shared/data/tau2-retail/retail_variant_choice_derived.json")
    questions = count_questions(load_catalogue(path))
    rounded = {order: round(mean, 2) for order, mean in questions.items()}
    assert rounded == {
        "most telling first": 2.02,
        "order of the options": 2.27,
        "random": 2.31,
        "least telling first": 2.59,
    }


def test_benchmarks_refuse_other_data_without_a_traceback(tmp_path: Path) -> None:
    table = write(tmp_path / "other.csv", "name,legs\ncat,4\nant,6\n")
    for benchmark, message in (
        ("benchmarks.zoo", "2 columns; the Zoo data set has 18"),
        ("benchmarks.retail", "not JSON"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", benchmark, "--data", str(table)],
            capture_output=True,
            encoding="utf-8",
            cwd=ROOT,
        )
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
