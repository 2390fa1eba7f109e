"""The command `balar` as people and programs use it, with pipes and files."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from llm_oracles.store import read_dialogue
from tests.commands import Balar
from tests.processes import BALAR, make_environment, write_problems
from tests.test_session import PLANT


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_environment(tmp_path_factory.mktemp("compiled"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_problems(tmp_path)
    return tmp_path


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def balar(folder: Path, balar: Balar, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, run in this process and in `folder`, with some piped input."""
    monkeypatch.chdir(folder)

    def run(*arguments: str, input: str = "", **variables: str) -> Done:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(input.encode())))
        return Done(*balar(*arguments))

    return run


@pytest.fixture
def process(folder: Path, environment: dict[str, str]) -> Run:
    """The command, run in a process of its own, with some piped input."""

    def run(*arguments: str, input: bytes = b"", **variables: str) -> Done:
        done = subprocess.run(
            [*BALAR, *arguments],
            input=input,
            capture_output=True,
            cwd=folder,
            env={**environment, **variables},
            timeout=120,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


# --- help and errors -----------------------------------------------------------------------------


def test_help_and_version_import_nothing_that_takes_long() -> None:
    program = (
        "import sys\n"
        "from llm_oracles.cli.main import cli\n"
        "cli.main(sys.argv[1:], standalone_mode=False)\n"
        "heavy = {'jax', 'numpy', 'rich', 'pydantic', 'yaml', 'asyncio'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    for arguments in (["--help"], ["run", "--help"], ["--version"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True
        )
        assert done.returncode == 0
        assert done.stderr == "[]\n"


def test_unknown_problem_is_an_error_that_suggests_the_nearest(process: Run) -> None:
    done = process("run", "headach")
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: 'headach' is neither a file nor a packaged problem.")
    assert "Did you mean 'headache'?" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "Give a PROBLEM"),
        (["run", "plant.yaml", "--alpha", "2"], "alpha is 2.0"),
        (["run", "plant.yaml", "--max-questions", "-1"], "max_questions is -1"),
        (["run", "plant.yaml", "--target", "cause"], "about tables"),
        (["run", "plant.yaml", "--answers", "missing.txt"], "missing.txt cannot be read"),
        (["run", "--resume", "missing.json"], "'missing.json' does not exist"),
        (["run", "--resume", "plant.yaml"], "plant.yaml: This is not a saved dialogue"),
        (["run", "plant.yaml", "--save", "ball.yaml"], "ball.yaml exists already"),
        (["run", "some.csv"], "--target"),
        (["rum"], "No such command 'rum'"),
    ],
)
def test_wrong_use_is_an_error_that_names_the_way_out(
    balar: Run, arguments: list[str], words: str
) -> None:
    done = balar(*arguments)
    assert done.code == 2
    assert words in " ".join(done.err.split())
    assert done.out == ""


def test_error_text_cannot_command_the_terminal(balar: Run) -> None:
    done = balar("run", "x\x1b[2Jy")
    assert done.code == 2
    assert "\x1b" not in done.err


def test_reader_that_goes_away_is_no_error(folder: Path, environment: dict[str, str]) -> None:
    command = f"{' '.join(BALAR)} problem show headache | head -n 0"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.stderr == ""


# --- answers from pipes and files ----------------------------------------------------------------


def test_piped_answers_lead_to_the_conclusion(process: Run) -> None:
    done = process("run", "plant.yaml", input=b"dry\nno\nno\nno\n")
    assert done.code == 0, done.err
    assert done.err == ""
    assert "\x1b" not in done.out
    assert done.out.startswith("What is wrong with my plant?")
    assert "Asked 4 of 4 questions." in done.out
    assert "thirst" in done.out


def test_json_is_the_only_thing_on_standard_output(process: Run) -> None:
    done = process("run", "plant.yaml", "--json", input=b"dry\nno\nno\nno\n")
    assert done.code == 0
    assert done.err == ""
    data = json.loads(done.out)
    assert data["problem"] == "plant"
    assert data["answer"] == "thirst"
    assert data["state"]["values"]["cause"] == "thirst"
    assert data["conversation"][0]["question"] == "How is the soil?"
    assert data["entropy"]["after"] < data["entropy"]["before"]


def test_end_of_answers_has_its_own_exit_code_and_saves(process: Run, folder: Path) -> None:
    done = process("run", "plant.yaml", "--save", "s.json", "--json", input=b"dry\n")
    assert done.code == 3
    assert "Go on with: balar run --resume s.json" in done.err
    data = json.loads(done.out)
    assert data["finished"] is False
    assert data["questions"]["asked"] == 1
    assert (folder / "s.json").is_file()


def test_unclear_line_is_an_error_that_names_it_and_keeps_what_came_before(
    balar: Run, folder: Path
) -> None:
    done = balar("run", "plant.yaml", "--save", "s.json", input="dry\n# hm\nperhaps\n")
    assert done.code == 2
    assert 'error: standard input, line 3: "perhaps" is none of the choices.' in done.err
    assert len(read_dialogue(folder / "s.json").asked) == 1


def test_answers_come_from_lines_or_from_a_sheet(balar: Run, folder: Path) -> None:
    (folder / "lines.txt").write_text("# mine\ndry\nno\nno\nno\n", encoding="utf-8")
    (folder / "sheet.yaml").write_text(
        "How is the soil?: dry\nAre the leaves sticky?: no\nIs the pot heavy?: no\n",
        encoding="utf-8",
    )
    by_line = json.loads(balar("run", "plant.yaml", "--json", "--answers", "lines.txt").out)
    by_sheet = json.loads(balar("run", "plant.yaml", "--json", "--answers", "sheet.yaml").out)
    assert by_line["marginals"]["cause"] == pytest.approx(by_sheet["marginals"]["cause"], rel=1e-5)
    assert by_line["marginals"]["place"]["sun"] > by_sheet["marginals"]["place"]["sun"]


def test_sheet_about_another_problem_is_refused(balar: Run, folder: Path) -> None:
    (folder / "sheet.yaml").write_text("Is it red?: yes\n", encoding="utf-8")
    done = balar("run", "plant.yaml", "--answers", "sheet.yaml")
    assert done.code == 2
    assert 'no question "Is it red?"' in done.err


def test_contradiction_is_a_failure_that_names_the_question(balar: Run) -> None:
    done = balar("run", "ball.yaml", input="no\nA\n")
    assert done.code == 1
    assert "Which letter is on it?" in done.err


def test_settings_of_the_command_line_hold(balar: Run) -> None:
    done = balar("run", "plant.yaml", "--max-questions", "1", "--json", input="dry\n")
    assert json.loads(done.out)["outcome"]["reason"] == "question_budget"
    sure = balar("run", "plant.yaml", "--alpha", "0.5", "--json", input="dry\n")
    assert json.loads(sure.out)["outcome"]["reason"] == "answer_settled"


@pytest.mark.parametrize("columns", ["20", "40", "100"])
def test_output_fits_any_width(balar: Run, columns: str) -> None:
    done = balar(
        "run", "plant.yaml", "--plain", input="why\nquestions\ndry\nno\nno\nno\n", COLUMNS=columns
    )
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= int(columns)
    assert done.out.isascii()


# --- saving and resuming -------------------------------------------------------------------------


def test_quit_and_resume_equals_going_straight_through(process: Run, folder: Path) -> None:
    straight = process("run", "plant.yaml", "--json", input=b"dry\nno\nno\nno\n")
    left = process("run", "plant.yaml", input=b"dry\nno\nquit\n")
    assert left.code == 0
    assert "balar run --resume plant.balar.json" in left.out
    resumed = process("run", "--resume", "plant.balar.json", "--json", input=b"no\nno\n")
    assert resumed.code == 0, resumed.err
    assert json.loads(resumed.out) == json.loads(straight.out)
    again = process("run", "--resume", "plant.balar.json", "--json")
    assert json.loads(again.out) == json.loads(straight.out)


def test_resuming_works_from_another_folder(balar: Run, folder: Path) -> None:
    balar("run", "plant.yaml", "--save", "s.json", input="dry\n")
    (folder / "elsewhere").mkdir()
    (folder / "s.json").rename(folder / "elsewhere" / "s.json")
    done = balar("run", "--resume", "elsewhere/s.json", "--json", input="no\nno\nno\n")
    assert done.code == 0, done.err


def test_problem_that_has_changed_is_refused(balar: Run, folder: Path) -> None:
    balar("run", "plant.yaml", "--save", "s.json", input="dry\n")
    (folder / "plant.yaml").write_text(PLANT.replace("[0.9, 0.1]", "[0.8, 0.2]"), encoding="utf-8")
    done = balar("run", "--resume", "s.json", input="no\n")
    assert done.code == 2
    assert "has changed since the dialogue was saved" in done.err


def test_saved_dialogue_of_a_lost_problem_can_be_given_the_problem_anew(
    balar: Run, folder: Path
) -> None:
    balar("run", "plant.yaml", "--save", "s.json", input="dry\n")
    (folder / "plant.yaml").rename(folder / "moved.yaml")
    lost = balar("run", "--resume", "s.json", input="no\n")
    assert lost.code == 2
    assert "plant.yaml" in lost.err
    found = balar("run", "moved.yaml", "--resume", "s.json", "--json", input="no\nno\nno\n")
    assert found.code == 0, found.err


def test_settings_cannot_be_changed_on_the_way(balar: Run) -> None:
    balar("run", "plant.yaml", "--save", "s.json", input="dry\n")
    done = balar("run", "--resume", "s.json", "--alpha", "0.2")
    assert done.code == 2
    assert "start of a dialogue" in done.err


def test_table_is_run_and_resumed_without_repeating_its_options(balar: Run, folder: Path) -> None:
    (folder / "animals.csv").write_text(
        "frog,green,4,x\nbee,yellow,6,y\ncanary,yellow,2,z\ngrasshopper,green,6,x\n",
        encoding="utf-8",
    )
    table = ["run", "animals.csv", "--no-header", "--target", "1", "--ignore", "column 4"]
    straight = balar(*table, "--json", input="6\nyellow\n")
    assert straight.code == 0, straight.err
    assert json.loads(straight.out)["answer"] == "bee"
    balar(*table, "--save", "s.json", input="6\n")
    resumed = balar("run", "--resume", "s.json", "--json", input="yellow\n")
    assert resumed.code == 0, resumed.err
    assert json.loads(resumed.out) == json.loads(straight.out)


# --- problems and doctor -------------------------------------------------------------------------


def test_packaged_problems_are_listed_shown_and_fine(balar: Run) -> None:
    listed = balar("problem", "list")
    assert "headache" in listed.out
    shown = balar("problem", "show", "headache")
    assert "dimensions" in shown.out and "questions" in shown.out


def test_check_tells_what_a_good_problem_holds(balar: Run) -> None:
    done = balar("problem", "check", "plant.yaml")
    assert done.code == 0
    assert done.out == "fine: 2 dimensions, 6 states, 4 questions\n"


def test_check_shows_every_mistake_with_its_place(balar: Run, folder: Path) -> None:
    (folder / "bad.yaml").write_text(
        PLANT.replace("target: cause", "target: sauce").replace("[0.9, 0.1]", "[0.9, 0.3]", 1),
        encoding="utf-8",
    )
    done = balar("problem", "check", "bad.yaml")
    assert done.code == 1
    places = re.findall(r"^bad\.yaml:(\d+):\d+: ", done.out, re.MULTILINE)
    assert places == ["7", "11"]
    assert done.err == "2 mistakes\n"


def test_doctor_finds_the_arithmetic_right(process: Run) -> None:
    done = process("doctor")
    assert done.code == 0
    assert "self-check  fine" in done.out
    assert "float32" in done.out
    assert "float64" in process("doctor", JAX_ENABLE_X64="1").out
