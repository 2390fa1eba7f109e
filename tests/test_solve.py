"""`balar solve` against a real server on loopback: whole dialogues, resuming, replaying."""

import io
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from balar_core.dialogue import Dialogue
from llm_oracles.cli import main
from llm_oracles.cli.model_choice import ModelChoice
from llm_oracles.cli.trust import wishes
from llm_oracles.store import read_dialogue
from tests.chat_server import ChatServer
from tests.model_world import Change, answer
from tests.processes import BALAR, Terminal, make_environment

KEY = "sk-planted-0123456789"
SMALL = (
    *("--set", "max_dimensions=2"),
    *("--set", "max_values=3"),
    *("--set", "max_initial_questions=2"),
    *("--set", "max_choices=2"),
    *("--set", "max_states=9"),
    *("--max-questions", "2"),
)
AT = ("--base-url", "https://far.example/v1", "--model", "m")
CASE = ("Who broke the window?", "--answer", "Ann", "--answer", "Ben", *SMALL)


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


Solve = Callable[..., Done]


@pytest.fixture
def solve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Solve:
    """`balar solve` in this process and in a folder of its own, with some piped input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BALAR_API_KEY", KEY)

    def run(*arguments: str, input: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["balar", "solve", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(input.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        out, err = capsys.readouterr()
        return Done(ended.value.code, out, err)

    return run


def world(change: Change | None = None, **how: Any) -> ChatServer:
    """A server behind which the made-up model replies."""
    return ChatServer(answer=lambda body: answer(body, change), **how)


def at(server: ChatServer) -> tuple[str, ...]:
    return "--base-url", server.url, "--model", "m"


def purposes(server: ChatServer) -> Counter[str]:
    return Counter(body["response_format"]["json_schema"]["name"] for body in server.bodies)


def test_a_person_answers_in_numbers_and_in_words_of_their_own(
    solve: Solve, tmp_path: Path
) -> None:
    with world() as server:
        done = solve(*CASE, *at(server), input="1\nIt was loud, that is all I know.\n")
    assert (done.code, done.err) == (0, "")
    assert purposes(server) == {
        "dimensions": 1,
        "priors": 6,
        "questions": 1,
        "likelihoods": 4,
        "answers": 2,
        "score": 1,
        "conclusion": 1,
    }
    assert "This rests on:" in done.out
    assert "It was loud, that is all I know. = n0" in done.out
    assert "likelihoods      4       0         4           40       20" in done.out
    assert list(tmp_path.iterdir()) == []  # all is said, so nothing has to be kept


def test_users_played_by_a_model_answer_from_their_private_files(
    solve: Solve, tmp_path: Path
) -> None:
    (tmp_path / "ann.txt").write_text("Ann saw a bird.", encoding="utf-8")
    (tmp_path / "ben.txt").write_text("Ben was asleep.", encoding="utf-8")
    with world() as server:
        done = solve(
            *CASE,
            *at(server),
            *("--info", "Ann=ann.txt", "--info", "Ben=ben.txt", "--about", "Ben=a baker"),
            *("--user-model", "player", "--json"),
        )
    data = json.loads(done.out)
    assert done.code == 0
    assert data["answer"] in ("Ann", "Ben")
    assert {said["user"] for said in data["conversation"]} <= {"Ann", "Ben"}
    assert all(said["reply"] for said in data["conversation"])
    assert data["usage"]["calls"] == len(server.bodies)
    played = [body for body in server.bodies if body["model"] == "player"]
    assert len(played) == len(data["conversation"]) > 0
    private = [body for body in server.bodies if "saw a bird" in str(body["messages"])]
    assert all(body["model"] == "player" for body in private)


def test_a_solve_that_fails_goes_on_without_repeating_a_call(solve: Solve, tmp_path: Path) -> None:
    with world() as server:
        failed = solve(*CASE, *at(server), "--max-calls", "11", "--save", "s.json")
        assert failed.code == 1
        assert "The budget of 11 calls is spent" in failed.err
        assert "Go on with: balar solve --resume s.json" in failed.err
        assert len(server.bodies) == 11
        done = solve("--resume", "s.json", input="1\n2\n")
        assert done.code == 0
        asked = Counter(map(json.dumps, server.bodies))
    assert max(asked.values()) == 1
    assert sum(purposes(server).values()) == 1 + 6 + 1 + 4 + 2 + 1
    assert read_dialogue(tmp_path / "s.json").finished


def test_a_budget_that_is_spent_between_questions_concludes_with_what_is_known(
    solve: Solve,
) -> None:
    with world() as server:
        done = solve(*CASE, *at(server), "--max-calls", "14", "--json", input="1\nperhaps\n")
    data = json.loads(done.out)
    assert done.code == 0
    assert data["outcome"]["reason"] == "stopped"
    assert "14 calls is spent" in data["outcome"]["words"]
    assert data["answer"] == max(data["answers"], key=data["answers"].__getitem__)
    assert len(server.bodies) == 14


def test_the_same_cassette_gives_the_same_dialogue_to_the_last_bit(
    solve: Solve, tmp_path: Path
) -> None:
    with world() as server:
        solve(*CASE, *at(server), "--record", "c.jsonl", "--save", "a.json", input="1\nso-so\n")
    solve(*CASE, *at(server), "--replay", "c.jsonl", "--save", "b.json", input="1\nso-so\n")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    other = solve(*CASE, *at(server), "--replay", "c.jsonl", "--seed", "7")
    assert other.code == 1
    assert "holds no (further) reply" in other.err


def test_a_cache_answers_a_second_solve_without_a_single_call(solve: Solve) -> None:
    with world() as server:
        solve(*CASE, *at(server), "--cache", "c.sqlite", input="1\n1\n")
        before = len(server.bodies)
        again = solve(*CASE, *at(server), "--cache", "c.sqlite", input="1\n1\n")
        assert again.code == 0
        assert len(server.bodies) == before


def test_a_model_that_never_fills_a_cell_ends_in_an_error_that_names_it(
    solve: Solve, tmp_path: Path
) -> None:
    def spoil(purpose: str, data: Any, reply: Any) -> Any:
        if purpose == "likelihoods":
            reply["labels"].pop("value_1/choice_0", None)
        return reply

    with world(spoil) as server:
        done = solve(*CASE, *at(server), "--repairs", "1")
    assert done.code == 1
    assert "gave no usable label for value 'n1" in done.err
    assert "Traceback" not in done.err
    (saved,) = tmp_path.glob("*.balar.json")
    assert not any(reply.kind == "elicited_likelihoods" for reply in read_dialogue(saved).replies)


def test_the_key_is_sent_and_stands_nowhere(solve: Solve, tmp_path: Path) -> None:
    def fail(purpose: str, data: Any, reply: Any) -> Any:
        return {} if purpose == "questions" else reply

    with world(fail) as server:
        done = solve(*CASE, *at(server), "--record", "c.jsonl", "--save", "s.json")
        assert done.code == 1
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in done.out + done.err
    files = list(tmp_path.iterdir())
    assert len(files) >= 3
    assert not any(KEY.encode() in file.read_bytes() for file in files)


def test_a_verifier_looks_at_every_table(solve: Solve) -> None:
    def pass_all(purpose: str, data: Any, reply: Any) -> Any:
        return {"reason": "", "corrections": []} if purpose == "verify" else reply

    with world(pass_all) as server:
        done = solve(*CASE, *at(server), "--verifier", "judge", input="1\n2\n")
    assert done.code == 0
    assert purposes(server)["verify"] == 2 + 4 + 2
    judged = {body["model"] for body in server.bodies if "verify" in str(body["response_format"])}
    assert judged == {"judge"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Give a PROMPT"),
        (("Why?",), "--base-url URL --model NAME"),
        (("Why?", "--set", "colour=red"), "There is no setting 'colour'"),
        (("Why?", "--set", "alpha"), "has the form NAME=VALUE"),
        (("Why?", "--set", "alpha=2"), "alpha is 2"),
        (
            ("Why?", "--info", "Ann=missing.txt", "--base-url", "https://x/v1", "--model", "m"),
            "missing.txt cannot be read",
        ),
        (("Why?", "--about", "Ann=a", "--about", "Ann=b"), "given twice for 'Ann'"),
        (("Why?", "--price", "cheap", "--base-url", "https://x/v1", "--model", "m"), "--price"),
        (("Why?", *AT, "--price", "nan,1"), "price is nan"),
        (("Why?", *AT, "--temperature", "-1"), "error: The temperature is -1.0"),
        (("Why?", *AT, "--concurrency", "0"), "concurrency is 0"),
        (("Why?", *AT, "--set", "labels=3"), "There is no setting 'labels'"),
        (("Why?", "--base-url", "nowhere", "--model", "m"), "nowhere"),
        (("Why?", "--context", "missing.txt"), "missing.txt cannot be read"),
        (("Why?", "--base-url", "http://far.example/v1", "--model", "m"), "unencrypted"),
        (("Why?", *AT, "--key-env", "NOT_THERE"), "NOT_THERE is not set"),
        (("Why?", *AT, "--key-file", "missing.key"), "missing.key cannot be read"),
    ],
)
def test_wrong_use_is_told_without_a_traceback(
    solve: Solve, arguments: tuple[str, ...], words: str
) -> None:
    done = solve(*arguments)
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err


def test_what_belongs_to_the_start_cannot_be_changed_when_resuming(
    solve: Solve, tmp_path: Path
) -> None:
    with world() as server:
        solve(*CASE, *at(server), "--max-calls", "3", "--save", "s.json")
    done = solve("--resume", "s.json", "--alpha", "0.2")
    assert done.code == 2
    assert "--alpha belongs to the start" in done.err
    clash = solve(*CASE, *at(server), "--save", "s.json")
    assert "exists already" in clash.err


@pytest.mark.parametrize(
    ("kept", "typed", "wants"),
    [
        (ModelChoice("https://far/v1"), ModelChoice(), ["to call https://far/v1"]),
        (ModelChoice("https://far/v1"), ModelChoice("https://mine/v1"), []),
        (ModelChoice("https://far/v1"), ModelChoice("https://far/v1"), []),
        (ModelChoice("http://localhost:1/v1", key_file="/k"), ModelChoice(), []),
        (
            ModelChoice("http://localhost.far:1/v1"),
            ModelChoice(),
            ["to call http://localhost.far:1/v1"],
        ),
        (
            ModelChoice("https://far/v1", key_env="OTHER"),
            ModelChoice("https://mine/v1"),
            ["to send it the key in OTHER"],
        ),
        (ModelChoice(key_env="OTHER"), ModelChoice("https://mine/v1", key_env="OTHER"), []),
        (
            ModelChoice(key_file="/home/me/token", info=("Ann=/etc/hosts",), allow_plain_http=True),
            ModelChoice("https://mine/v1"),
            [
                "to send it the key in /home/me/token",
                "to send keys unencrypted",
                "to show it what is in /etc/hosts",
            ],
        ),
    ],
)
def test_what_only_a_saved_dialogue_says_has_to_be_trusted(
    kept: ModelChoice, typed: ModelChoice, wants: list[str]
) -> None:
    assert wishes(typed, kept) == wants


def test_a_saved_dialogue_of_a_stranger_sends_no_key_anywhere(solve: Solve, tmp_path: Path) -> None:
    with world() as server:
        solve(*CASE, *at(server), "--max-calls", "3", "--save", "s.json")
        saved = (tmp_path / "s.json").read_text("utf-8")
        away = saved.replace(server.url, "https://far.invalid/v1")
        assert away != saved
        (tmp_path / "s.json").write_text(away, encoding="utf-8")
        refused = solve("--resume", "s.json", input="1\n2\n")
        assert refused.code == 2
        assert "s.json wants to call https://far.invalid/v1" in refused.err
        assert "--trust" in refused.err
        assert len(server.bodies) == 3
        assert (tmp_path / "s.json").read_text("utf-8") == away
        trusted = solve("--resume", "s.json", "--trust", "--max-calls", "0")
        assert "The budget of 0 calls is spent" in trusted.err
        assert solve("--resume", "s.json", *at(server), input="1\n2\n").code == 0


def test_the_models_are_kept_with_the_dialogue_and_can_be_replaced() -> None:
    first = ModelChoice("http://a/v1", "small", price="1,2", info=("Ann=/a b.txt",))
    kept = ModelChoice.from_origin(first.origin)
    assert kept == first
    assert ModelChoice(model="large").over(kept) == ModelChoice(
        "http://a/v1", "large", price="1,2", info=("Ann=/a b.txt",)
    )


# --- at a terminal -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_environment(tmp_path_factory.mktemp("compiled"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs the pseudo-terminals of POSIX")
def test_ctrl_c_while_tables_fill_loses_no_call_and_the_person_goes_on_later(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with world(delay=0.3) as server:
        arguments = ["solve", *CASE, *at(server), "--save", "s.json", "--concurrency", "2"]
        terminal = Terminal(arguments, tmp_path, environment)
        terminal.wait_for(" of 11 calls")
        terminal.interrupt()
        terminal.wait_for("under way")
        assert terminal.end() == 130
        assert "balar solve --resume s.json" in terminal.shown
        before = len(server.bodies)
        assert before < 15
        resumed = Terminal(["solve", "--resume", "s.json"], tmp_path, environment)
        resumed.wait_for("> ")
        resumed.type("1")
        resumed.wait_for("> ")
        resumed.type("something of my own")
        assert resumed.end() == 0
        asked = Counter(map(json.dumps, server.bodies))
    assert max(asked.values()) == 1
    assert purposes(server) == {
        "dimensions": 1,
        "priors": 6,
        "questions": 1,
        "likelihoods": 4,
        "answers": 2,
        "score": 1,
        "conclusion": 1,
    }
    assert isinstance(read_dialogue(tmp_path / "s.json"), Dialogue)


@pytest.mark.slow
def test_a_solve_that_is_killed_goes_on_without_repeating_what_came_back(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with world(delay=0.1) as server:
        running = subprocess.Popen(
            [*BALAR, "solve", *CASE, *at(server), "--save", "s.json", "--concurrency", "1"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=tmp_path,
            env=environment,
        )
        while len(server.bodies) < 5:
            assert running.poll() is None
        running.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        running.wait(30)
        resumed = subprocess.run(
            [*BALAR, "solve", "--resume", "s.json"],
            input=b"1\n2\n",
            capture_output=True,
            cwd=tmp_path,
            env=environment,
            timeout=120,
        )
        assert resumed.returncode == 0
        asked = Counter(map(json.dumps, server.bodies))
    assert sum(asked.values()) - len(asked) <= 1  # the one that was under way when it was killed
