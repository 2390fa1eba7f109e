"""The command `balar` at a real terminal: prompts, colours, Ctrl-C."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import BALAR, Terminal, make_environment, write_problems

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="needs the pseudo-terminals of POSIX"
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_environment(tmp_path_factory.mktemp("compiled"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_problems(tmp_path)
    return tmp_path


def test_interactive_dialogue_from_help_to_conclusion(
    folder: Path, environment: dict[str, str]
) -> None:
    terminal = Terminal(["run", "plant.yaml"], folder, environment)
    assert "How is the soil?" in terminal.wait_for("> ")
    terminal.type("perhaps")
    assert "none of the choices" in terminal.wait_for("> ")
    terminal.type("why")
    assert "Taken alone it bears on" in terminal.wait_for("> ")
    terminal.type("wet")
    assert "Question 2" in terminal.wait_for("> ")
    terminal.type("back")
    assert "Question 1" in terminal.wait_for("> ")
    for answer in ("1", "no", "2", "n"):
        terminal.type(answer)
        terminal.wait_for(">" if answer != "n" else "Most likely")
    assert terminal.end() == 0
    assert "\x1b[1m" in terminal.shown
    assert "█" in terminal.shown


def test_person_can_answer_while_json_goes_to_a_file(
    folder: Path, environment: dict[str, str]
) -> None:
    with (folder / "out.json").open("wb") as file:
        terminal = Terminal(["run", "plant.yaml", "--json"], folder, environment, stdout=file)
        assert "How is the soil?" in terminal.wait_for("> ")
        terminal.type("1")
        terminal.wait_for("> ")
        terminal.type("stop")
        assert terminal.end() == 0
    data = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert data["outcome"]["reason"] == "stopped"
    assert "Most likely as a whole" in terminal.shown


def test_no_colour_where_nobody_wants_it(folder: Path, environment: dict[str, str]) -> None:
    terminal = Terminal(["run", "plant.yaml"], folder, {**environment, "NO_COLOR": "1"})
    terminal.wait_for("> ")
    terminal.type("stop")
    assert terminal.end() == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", terminal.shown)


def test_plain_terminal_sees_no_escape_sequence_of_ours(
    folder: Path, environment: dict[str, str]
) -> None:
    terminal = Terminal(["run", "plant.yaml", "--plain"], folder, {**environment, "TERM": "dumb"})
    terminal.wait_for("> ")
    terminal.type("1")
    terminal.wait_for("> ")
    terminal.type("stop")
    assert terminal.end() == 0
    assert not re.search(r"\x1b\[[0-9;]*m", terminal.shown)
    assert terminal.shown.isascii()


def test_ctrl_c_leaves_at_once_and_what_was_said_is_saved(
    folder: Path, environment: dict[str, str]
) -> None:
    terminal = Terminal(["run", "plant.yaml", "--save", "s.json"], folder, environment)
    terminal.wait_for("> ")
    terminal.type("dry")
    terminal.wait_for("> ")
    terminal.interrupt()
    assert terminal.end() == 130
    assert "Traceback" not in terminal.shown
    assert "balar run --resume s.json" in terminal.shown
    resumed = Terminal(["run", "--resume", "s.json"], folder, environment)
    assert "Question 2" in resumed.wait_for("> ")
    resumed.type("stop")
    assert resumed.end() == 0


def test_interrupt_signal_ends_a_wait_for_a_pipe(folder: Path, environment: dict[str, str]) -> None:
    waiting = subprocess.Popen(
        [*BALAR, "run", "plant.yaml"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={**environment, "PYTHONUNBUFFERED": "1"},
    )
    assert waiting.stdout is not None
    while b"2  wet" not in waiting.stdout.readline():
        assert waiting.poll() is None
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 130
    assert err.decode().splitlines()[-1] == "interrupted"
    assert b"Traceback" not in err


def test_end_of_typing_saves_like_quit(folder: Path, environment: dict[str, str]) -> None:
    terminal = Terminal(["run", "plant.yaml"], folder, environment)
    terminal.wait_for("> ")
    terminal.type("1")
    terminal.wait_for("> ")
    terminal.type("\x04")
    assert terminal.end() == 0
    assert (folder / "plant.balar.json").is_file()
