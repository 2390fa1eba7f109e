"""Tables of objects: reading, making questions of columns, guessing objects."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from balar_core.dialogue import Answered, Ask, Dialogue, Question, User
from balar_core.errors import InvalidInput, InvalidSetting
from llm_oracles.attributes import Attribute, Useless, make_attribute
from llm_oracles.knowledge import KnowledgeOracle, KnowledgeTable, load_table
from llm_oracles.oracle import run
from llm_oracles.problem import Problem, ProblemError

ANIMALS = """\
name,legs,can fly,home
frog,4,0,pond
duck,2,1,pond
ant,6,0,hill
bat,2,1,
"""


def write(tmp_path: Path, text: str, name: str = "animals.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def guess(problem: Problem, truth: str) -> Dialogue:
    return run(Dialogue.start(problem.setup()), KnowledgeOracle(problem, truth))


def best(dialogue: Dialogue) -> set[str]:
    posterior = dialogue.answer_posterior()
    assert posterior is not None
    most = max(posterior.values())
    return {name for name, p in posterior.items() if p >= most * (1 - 1e-5)}


# --- columns -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "choices", "codes"),
    [
        (["0", "1", "", "1"], ("no", "yes"), (0, 1, None, 1)),
        (["TRUE", "false"], ("no", "yes"), (1, 0)),
        (["y", "n", "Y"], ("no", "yes"), (1, 0, 1)),
        (["10", "9", "9.0", "-1"], ("-1", "9", "10"), (2, 1, 1, 0)),
        (["item 10", "item 9", "Item 9"], ("item 9", "item 10"), (1, 0, 0)),
        (["b", "a", "\u200bB"], ("a", "b"), (1, 0, 1)),
        (["1_0", "nan", "2"], ("1_0", "2", "nan"), (0, 2, 1)),
    ],
)
def test_a_column_offers_its_different_values_in_order(
    cells: list[str], choices: tuple[str, ...], codes: tuple[int | None, ...]
) -> None:
    attribute = make_attribute("column", cells)
    assert isinstance(attribute, Attribute)
    assert (attribute.choices, attribute.codes) == (choices, codes)


def test_many_numbers_are_divided_into_ranges_of_about_equal_counts() -> None:
    attribute = make_attribute("weight", [str(n) for n in range(1, 21)] + [""])
    assert isinstance(attribute, Attribute)
    assert attribute.choices == ("1 to 5", "6 to 10", "11 to 15", "16 to 20")
    assert attribute.codes == (*(n // 5 for n in range(20)), None)
    assert "20 different numbers" in attribute.note


def test_equal_numbers_are_never_divided() -> None:
    cells = [str(n) for n in range(10)] + ["50"] * 100 + ["60", "70", "80"]
    attribute = make_attribute("weight", cells, max_choices=5)
    assert isinstance(attribute, Attribute)
    assert attribute.choices == ("0 to 9", "50", "60 to 80")


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (["", ""], "is empty"),
        (["1", "1.0", ""], "nothing but '1'"),
        (["red", "Red"], "nothing but 'red'"),
        ([f"text {i}" for i in range(13)], "13 different texts, more than the 12"),
    ],
)
def test_a_column_of_no_use_says_why(cells: list[str], why: str) -> None:
    useless = make_attribute("column", cells)
    assert isinstance(useless, Useless)
    assert why in useless.note


# --- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (ANIMALS, {}),
        ("\ufeff" + ANIMALS.replace("\n", "\r\n") + "\r\n\r\n", {}),
        (ANIMALS.replace(",", ";"), {}),
        (ANIMALS.replace(",", "\t"), {}),
        (ANIMALS.replace(",", " | "), {}),
        (ANIMALS.replace(",", "#"), {"delimiter": "#"}),
        (ANIMALS.replace("pond", '"pond"'), {}),
    ],
)
def test_a_table_is_read_whatever_divides_its_cells(
    tmp_path: Path, text: str, options: dict[str, str]
) -> None:
    table = load_table(write(tmp_path, text), "name", **options)  # type: ignore[arg-type]
    assert table.names == ("frog", "duck", "ant", "bat")
    assert table.columns["home"] == ("pond", "pond", "hill", "")
    assert list(table.columns) == ["legs", "can fly", "home"]


@pytest.mark.parametrize(("target", "ignore"), [("1", "4"), (1, (4,)), ("column 1", ["column 4"])])
def test_columns_without_names_go_by_their_numbers(
    tmp_path: Path, target: str | int, ignore: object
) -> None:
    body = ANIMALS.split("\n", 1)[1]
    table = load_table(write(tmp_path, body), target, header=False, ignore=ignore)  # type: ignore[arg-type]
    assert table.target == "column 1"
    assert list(table.columns) == ["column 2", "column 3"]


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("", "name", ":1:1: There is nothing in this file."),
        ("\n\n", "name", ":1:1: There is nothing in this file."),
        ("name,legs\n", "name", ":1:1: There are no rows in this table."),
        ("name,legs\na,1\nb\nc,1,2\n", "name", ":3:1: There are 1 cells here, but 2 columns."),
        ("name,legs\na,1\nb\nc,1,2\n", "name", ":4:1: There are 3 cells here, but 2 columns."),
        ('name,legs\n"a\nb",1\nc\n', "name", ":4:1: There are 1 cells here, but 2 columns."),
        ("name,legs\na,1\n ,2\n", "name", ":3:1: There is no 'name'; every row needs a name."),
        ('name,legs\na,1\n"b,2\n', "name", ":3:1: Not a table: unexpected end of data."),
        ("name,Name\na,1\n", "name", ":1:1: Columns 1 and 2 are both called 'Name'"),
        ("name,legs\na,1\n", "nmae", "There is no column 'nmae'. Did you mean 'name'?"),
        ("name,legs\na,1\n", "3", "The columns are 'name', 'legs'. A number from 1"),
        ("name,legs\na,1\n", "0", "There is no column '0'"),
    ],
)
def test_a_bad_table_shows_its_lines(tmp_path: Path, text: str, target: str, expected: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ProblemError) as caught:
        load_table(path, target)
    lines = str(caught.value).split("\n")
    assert all(line.startswith(f"{path}:") for line in lines)
    assert any(expected in line for line in lines), lines


def test_a_table_that_is_not_utf8_shows_where(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("name,home\nfrog,Teich\nduck,Fluß\n".encode("latin-1"))
    with pytest.raises(ProblemError, match=r"latin\.csv:3:9: byte 0xdf is not UTF-8"):
        load_table(path, "name")


def test_the_target_cannot_be_ignored(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="both the target and left out"):
        load_table(write(tmp_path, ANIMALS), "name", ignore=["NAME"])


@pytest.mark.parametrize("delimiter", ["", "ab", "\n", '"'])
def test_a_delimiter_is_one_character(tmp_path: Path, delimiter: str) -> None:
    with pytest.raises(InvalidSetting, match="The delimiter is"):
        load_table(write(tmp_path, ANIMALS), "name", delimiter=delimiter)


# --- problems ----------------------------------------------------------------------------------


def table(**columns: str) -> KnowledgeTable:
    """A table from columns of blank-separated cells; `-` is an empty cell."""
    cells = {key: tuple(t.replace("-", "") for t in text.split()) for key, text in columns.items()}
    names = cells.pop("name")
    return KnowledgeTable("name", names, cells)


def rows(problem: Problem, question: int = 0) -> dict[str, tuple[float, ...]]:
    return {
        name: tuple(float(cell) for cell in row)
        for name, row in problem.questions[question].given["name"].items()
    }


def test_each_row_is_a_hypothesis_and_an_empty_cell_says_nothing() -> None:
    problem = table(name="a b c", legs="2 4 -").to_problem()
    assert rows(problem) == {"a": (1, 0), "b": (0, 1), "c": (0.5, 0.5)}
    assert problem.questions[0].text == "legs?"
    assert problem.target == "name"
    assert problem.setup().settings.noise == 0.01
    assert problem.setup().settings.max_questions == 1


def test_equal_names_are_told_apart_by_their_rows() -> None:
    problem = table(name="frog toad Frog", legs="2 4 4").to_problem()
    assert problem.dimensions[0].value_names == ("frog (row 1)", "toad", "Frog (row 3)")
    assert any("2 rows are called 'frog'" in note for note in problem.notes)


def test_no_row_is_lost_to_a_name_that_looks_told_apart() -> None:
    columns = {"legs": ("2", "4", "6")}
    clashing = KnowledgeTable("name", ("frog", "frog", "frog (row 1)"), columns)
    with pytest.raises(ProblemError, match="rename it"):
        clashing.to_problem()


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidInput, match="'legs' has 1 cells for 2 names"):
        table(name="a b", legs="2")


def test_samples_of_one_name_are_counted() -> None:
    samples = table(name="a a A b", legs="2 2 4 -", wild="1 0 - 1")
    problem = samples.to_problem(rows="samples", smoothing=1.0)
    assert problem.dimensions[0].prior == (0.75, 0.25)
    assert rows(problem, 0) == {"a": (2.5 / 4, 1.5 / 4), "b": (0.5, 0.5)}
    assert rows(problem, 1) == {"a": (1.5 / 3, 1.5 / 3), "b": (0.25, 0.75)}
    bare = samples.to_problem(rows="samples", smoothing=0.0, prior="uniform")
    assert bare.dimensions[0].prior_row == (0.5, 0.5)
    assert rows(bare, 0) == {"a": (2 / 3, 1 / 3), "b": (0.5, 0.5)}


def test_questions_and_prompt_can_be_worded() -> None:
    problem = table(name="a b", legs="2 4").to_problem(
        prompt="Who is it?", questions={"legs": "How many legs?"}, settings={"alpha": 0.01}
    )
    assert (problem.prompt, problem.questions[0].text) == ("Who is it?", "How many legs?")
    assert problem.setup().settings.alpha == 0.01
    with pytest.raises(InvalidInput, match="Did you mean 'legs'"):
        table(name="a b", legs="2 4").to_problem(questions={"leg": "?"})


def test_what_is_left_out_is_noted_and_nothing_left_is_an_error() -> None:
    problem = table(name="a b", legs="2 4", eyes="2 2").to_problem()
    assert [question.text for question in problem.questions] == ["legs?"]
    assert any("'eyes' holds nothing but '2'" in note for note in problem.notes)
    with pytest.raises(ProblemError, match="No column is left"):
        table(name="a b", eyes="2 2").to_problem()
    with pytest.raises(ProblemError, match="has 1 value"):
        table(name="a a", legs="2 4").to_problem(rows="samples")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"smoothing": -1.0}, "smoothing is -1.0"),
        ({"smoothing": float("nan")}, "smoothing is nan"),
        ({"rows": "lines"}, "rows is 'lines'"),
        ({"prior": "flat"}, "prior is 'flat'"),
        ({"bins": 1}, "bins is 1"),
        ({"max_choices": 1}, "max_choices is 1"),
    ],
)
def test_an_argument_out_of_range_is_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        table(name="a b", legs="2 4").to_problem(**arguments)  # type: ignore[arg-type]


def test_noise_out_of_range_is_named() -> None:
    with pytest.raises(ProblemError, match="noise is 2"):
        table(name="a b", legs="2 4").to_problem(noise=2)


# --- the oracle --------------------------------------------------------------------------------


def answer(oracle: KnowledgeOracle, text: str, choices: tuple[str, ...]) -> Answered:
    need = Ask(Question(text, choices), 0, User("you"), 0.1, (1 / len(choices),) * len(choices))
    reply = asyncio.run(oracle.fulfil(need))
    assert isinstance(reply, Answered)
    return reply


def test_the_truthful_user_reads_the_row_and_does_not_know_empty_cells() -> None:
    animals = table(name="a b c", legs="2 4 -")
    assert answer(KnowledgeOracle(animals, "B"), "legs?", ("2", "4")) == Answered(choice=1)
    assert answer(KnowledgeOracle(animals, "c"), "legs?", ("2", "4")) == Answered(unknown=True)


def test_flipped_answers_are_the_stated_share_and_repeat_with_the_seed() -> None:
    animals = table(name="a b", **{f"q{i}": "0 1" for i in range(400)}).to_problem()

    def answers(seed: int) -> list[int | None]:
        oracle = KnowledgeOracle(animals, "a", flip=0.5, seed=seed)
        return [answer(oracle, f"q{i}?", ("no", "yes")).choice for i in range(400)]

    first = answers(1)
    assert first == answers(1)
    assert first != answers(2)
    assert 70 <= sum(choice == 1 for choice in first) <= 130


def test_the_oracle_names_what_it_cannot_use() -> None:
    animals = table(name="ant bat", legs="6 2")
    with pytest.raises(InvalidInput, match=r"There is no name 'at'\. Did you mean"):
        KnowledgeOracle(animals, "at")
    with pytest.raises(InvalidSetting, match="needs a seed"):
        KnowledgeOracle(animals, "ant", flip=0.1)
    with pytest.raises(InvalidSetting, match="flip is 2"):
        KnowledgeOracle(animals, "ant", flip=2, seed=0)
    with pytest.raises(InvalidInput, match="has no target"):
        KnowledgeOracle(animals.to_problem().model_copy(update={"target": None}), "ant")


def test_one_wrong_answer_does_not_lose_the_truth_while_noise_is_allowed_for() -> None:
    patterns = {f"q{i}": " ".join(str((n >> i % 3) & 1) for n in range(8)) for i in range(9)}
    animals = table(name=" ".join("abcdefgh"), **patterns)
    problem = animals.to_problem(noise=0.1, settings={"alpha": 0.001})
    dialogue = Dialogue.start(problem.setup())
    oracle = KnowledgeOracle(problem, "f")
    wrong = True
    while not dialogue.finished:
        assert dialogue.need is not None
        reply = asyncio.run(oracle.fulfil(dialogue.need))
        if isinstance(reply, Answered) and wrong:
            assert reply.choice is not None
            reply, wrong = Answered(choice=1 - reply.choice), False
        dialogue = dialogue.tell(reply)
    assert best(dialogue) == {"f"}


# --- the zoo -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def zoo(shared_dir: Path) -> KnowledgeTable:
    path = shared_dir / "data" / "zoo" / "zoo.csv"
    if not path.is_file():
        pytest.skip("needs shared/data/zoo/zoo.csv")
    return load_table(path, 1, header=False, ignore=18)


@pytest.mark.parametrize("noise", [0.01, 0.0])
def test_truthful_answers_end_with_exactly_the_animals_of_the_same_attributes(
    zoo: KnowledgeTable, noise: float
) -> None:
    problem = zoo.to_problem(noise=noise)
    names = problem.dimensions[0].value_names
    patterns = list(zip(*zoo.columns.values(), strict=True))
    assert len(names) == 101
    assert len(set(patterns)) == 59
    assert {"frog (row 26)", "frog (row 27)"} <= set(names)
    for name, pattern in zip(names, patterns, strict=True):
        alike = {n for n, other in zip(names, patterns, strict=True) if other == pattern}
        assert best(guess(problem, name)) == alike


def test_legs_are_sorted_as_numbers_and_flags_become_yes_and_no(zoo: KnowledgeTable) -> None:
    choices = [question.choices for question in zoo.to_problem().questions]
    assert choices[12] == ("0", "2", "4", "5", "6", "8")
    assert set(choices) == {choices[12], ("no", "yes")}


def test_the_class_can_be_learned_from_samples(shared_dir: Path, zoo: KnowledgeTable) -> None:
    path = shared_dir / "data" / "zoo" / "zoo.csv"
    problem = load_table(path, 18, header=False, ignore=1).to_problem(rows="samples")
    assert len(problem.dimensions[0].values) == 7
    for kind in problem.dimensions[0].value_names:
        assert best(guess(problem, kind)) == {kind}


@pytest.mark.slow
def test_the_benchmark_shows_that_the_most_telling_order_asks_least(zoo: KnowledgeTable) -> None:
    command = [sys.executable, "-m", "benchmarks.zoo", "--data", zoo.source]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [*command, "--noise", "0", "--seeds", "2"], capture_output=True, text=True, cwd=root
    )
    assert done.returncode == 0, done.stderr
    means = {
        name: float(line.split(name)[1].split()[0])
        for line in done.stdout.splitlines()
        for name in ("most telling first", "order of the columns", "random ")
        if line.startswith(f"  {name}")
    }
    assert len(means) == 3
    assert means["most telling first"] < min(means["order of the columns"], means["random "])


# --- the reference page ------------------------------------------------------------------------


def test_the_program_of_the_reference_page_prints_what_the_page_says(tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[1] / "docs" / "knowledge.md"
    found = re.findall(
        r"<!-- (\w+) -->\n```\w+\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
    blocks = dict(found)
    write(tmp_path, blocks["table"])
    done = subprocess.run(
        [sys.executable, "-c", blocks["program"]], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == blocks["output"]
