"""Recordings: exact replay, files that survive interruption, helpful gaps."""

import asyncio
import json
from pathlib import Path

import pytest

from balar_core.dialogue import Answered, Ask, Dialogue, Need, Question, Reply, Stopped, User
from llm_oracles.oracle import run
from llm_oracles.problem import load_packaged
from llm_oracles.problem_oracle import ProblemOracle
from llm_oracles.recorded import (
    CorruptRecording,
    MissingRecording,
    RecordedOracle,
    Recorder,
    in_words,
)

HEADACHE = load_packaged("headache")


class Scripted:
    """A user with fixed answers, who stops when they run out."""

    def __init__(self, *choices: int) -> None:
        self.choices = list(choices)

    async def fulfil(self, need: Need) -> Reply:
        return Answered(choice=self.choices.pop(0)) if self.choices else Stopped()


def start() -> Dialogue:
    return Dialogue.start(HEADACHE.setup())


def finished(*choices: int) -> Dialogue:
    return run(start(), ProblemOracle(HEADACHE, Scripted(*choices)))


def ask(text: str, choice: str = "yes") -> Ask:
    return Ask(Question(text, (choice, "no")), 0, User("you"), 0.1, (0.5, 0.5))


@pytest.mark.parametrize("choices", [(0, 1, 0, 1, 0, 1, 0, 1, 0), (1, 0)])
def test_a_dialogue_replays_exactly_from_its_own_replies(choices: tuple[int, ...]) -> None:
    dialogue = finished(*choices)
    assert run(start(), RecordedOracle.of(dialogue)).replies == dialogue.replies


def test_a_partial_dialogue_replays_up_to_where_it_ends() -> None:
    partial = Dialogue.replay(HEADACHE.setup(), finished(0, 1, 0, 1).replies[:6])
    saved: list[Dialogue] = []
    with pytest.raises(MissingRecording, match="No reply is recorded: ask you"):
        run(start(), RecordedOracle.of(partial), lambda d, need, reply: saved.append(d))
    assert saved[-1] == partial


def test_a_recorded_file_replays_the_dialogue(tmp_path: Path) -> None:
    path = tmp_path / "visit.jsonl"
    oracle = Recorder(ProblemOracle(HEADACHE, Scripted(0, 1, 0)), path)
    dialogue = run(start(), oracle)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(dialogue.replies)
    assert all(json.loads(line).keys() == {"need", "reply"} for line in lines)
    assert run(start(), RecordedOracle.load(path)).replies == dialogue.replies


def test_the_same_need_twice_gets_its_replies_in_order() -> None:
    need = ask("Sure?")
    oracle = RecordedOracle([(need, Answered(choice=0)), (need, Answered(choice=1))])

    assert fulfil(oracle, need) == Answered(choice=0)
    assert fulfil(oracle, need) == Answered(choice=1)
    with pytest.raises(MissingRecording, match="given already: ask you 'Sure\\?'"):
        fulfil(oracle, need)


def test_numbers_that_inference_produced_do_not_matter_for_finding_a_reply() -> None:
    recorded = ask("Sure?")
    elsewhere = Ask(recorded.question, 0, recorded.user, 0.1000001, (0.4999999, 0.5000001))
    assert fulfil(RecordedOracle([(recorded, Answered(choice=1))]), elsewhere).choice == 1


def test_a_missing_recording_names_the_similar_ones() -> None:
    pairs = [(ask(text), Answered(choice=0)) for text in ("Does light hurt?", "Is it cold?")]
    oracle = RecordedOracle(pairs)
    with pytest.raises(MissingRecording) as caught:
        fulfil(oracle, ask("Does light hurt you?"))
    message = str(caught.value)
    assert message.startswith("No reply is recorded: ask you 'Does light hurt you?'.")
    assert message.index("'Does light hurt?'") < message.index("'Is it cold?'")
    with pytest.raises(MissingRecording, match="with another prompt, conversation or choices"):
        fulfil(oracle, ask("Is it cold?", "very"))
    with pytest.raises(MissingRecording, match="0 replies, none of this kind"):
        fulfil(RecordedOracle([]), ask("Is it cold?"))


def test_every_need_has_words() -> None:
    dialogue = start()
    words = []
    for reply in finished(0, 1, 0, 1).replies:
        words += [in_words(need) for need in dialogue.needs]
        dialogue = dialogue.tell(reply)
    assert "elicit priors for kind of headache, trigger, course" in words
    assert any(text.startswith("elicit likelihoods of 'On how many days") for text in words)


def test_a_line_cut_short_is_left_out_and_writing_goes_on_after_the_last_whole_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "visit.jsonl"
    first, second = ask("One?"), ask("Zwei: Łódź, naïve, 😀?")
    fulfil(Recorder(Scripted(0), path), first)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"need": {"kind": "as')
    assert fulfil(RecordedOracle.load(path), first) == Answered(choice=0)
    fulfil(Recorder(Scripted(1), path), second)
    assert path.read_bytes().startswith(whole)
    assert "Łódź, naïve, 😀" in path.read_text(encoding="utf-8")
    assert fulfil(RecordedOracle.load(path), second) == Answered(choice=1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "Not JSON"),
        ("[]", "an object with 'need' and 'reply'"),
        ('{"need": {"kind": "ask"}, "reply": {"kind": "stopped"}}', "ask has no field"),
        ('{"need": {"kind": "stopped"}, "reply": {"kind": "stopped"}}', "is no need"),
        ('{"need": {"kind": "nope"}, "reply": {"kind": "stopped"}}', "'nope'"),
        ('{"need": NaN, "reply": {"kind": "stopped"}}', "NaN"),
    ],
)
def test_a_bad_line_is_shown_with_its_number(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "bad.jsonl"
    fulfil(Recorder(Scripted(0), path), ask("One?"))
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(CorruptRecording) as caught:
        RecordedOracle.load(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert words in str(caught.value)


def test_a_recording_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecording, match="cannot be read: No such file"):
        RecordedOracle.load(tmp_path / "none.jsonl")


def fulfil(oracle: RecordedOracle | Recorder, need: Need) -> Reply:
    return asyncio.run(oracle.fulfil(need))
