"""What a typed line means: labels, texts, beginnings, several, not knowing, commands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core.questions import Question
from llm_oracles.reading import (
    Choices,
    CommandWord,
    UnclearAnswer,
    choice_labels,
    listed,
    understand,
)

PAIN = Question("How bad is it?", ("mild", "strong", "very strong", "Très fort"))
COMMANDS = {"back", "why", "quit", "help"}


def positions(line: str, question: Question = PAIN) -> tuple[int, ...]:
    meaning = understand(line, question, COMMANDS)
    assert isinstance(meaning, Choices)
    return meaning.positions


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1", (0,)),
        (" 3 ", (2,)),
        ("４", (3,)),
        ("strong", (1,)),
        ("MILD", (0,)),
        ("very  strong", (2,)),
        ("Tre\u0300s fort", (3,)),
        ("m", (0,)),
        ("v", (2,)),
        ("1 or 3", (0, 2)),
        ("3,1", (0, 2)),
        ("1, 2, or 3", (0, 1, 2)),
        ("mild or v", (0, 2)),
        ("2;2", (1,)),
        ("?", ()),
        ("dk", ()),
        ("Don't know", ()),
        ("don’t know", ()),
    ],
)
def test_line_names_choices(line: str, expected: tuple[int, ...]) -> None:
    assert positions(line) == expected


@pytest.mark.parametrize(
    "line",
    ["", "   ", "0", "5", "99999999999999999999", "-1", "1.5", "severe", "1 or", "1 or 9", "/"],
)
def test_line_that_names_no_choice_is_never_guessed(line: str) -> None:
    with pytest.raises(UnclearAnswer):
        understand(line, PAIN, COMMANDS)


def test_beginning_of_two_choices_is_unclear_and_names_both() -> None:
    question = Question("Which pain?", ("stabbing", "stinging", "dull"))
    with pytest.raises(UnclearAnswer, match=r"1 \(stabbing\) or 2 \(stinging\)"):
        understand("st", question, COMMANDS)


def test_whole_text_is_no_beginning_of_a_longer_one() -> None:
    question = Question("Which animal?", ("cat", "catfish"))
    assert positions("cat", question) == (0,)


@pytest.mark.parametrize("line", ["back", "BACK", "/back", "/ back"])
def test_command_is_recognised_with_and_without_slash(line: str) -> None:
    assert understand(line, PAIN, COMMANDS) == CommandWord("back")


def test_choice_that_is_called_like_a_command_wins_and_says_so() -> None:
    question = Question("Where does it hurt?", ("neck", "back"))
    meaning = understand("back", question, COMMANDS)
    assert isinstance(meaning, Choices)
    assert meaning.positions == (1,)
    assert "/back" in meaning.hint
    assert understand("/back", question, COMMANDS) == CommandWord("back")
    assert positions("2", question) == (1,)


def test_command_that_begins_a_choice_is_unclear() -> None:
    question = Question("Where does it hurt?", ("neck", "back of the head"))
    with pytest.raises(UnclearAnswer, match=r"2 \(back of the head\).*type /back"):
        understand("back", question, COMMANDS)


def test_choice_called_dont_know_is_a_choice_and_the_question_mark_is_not() -> None:
    question = Question("Does it run in the family?", ("yes", "no", "don't know"))
    assert positions("don't know", question) == (2,)
    assert positions("?", question) == ()


def test_choices_that_begin_with_digits_have_letters_so_that_numbers_mean_their_text() -> None:
    legs = Question("How many legs?", ("0", "2", "4", "6"))
    assert listed(legs) == "a 0, b 2, c 4, d 6"
    assert positions("4", legs) == (2,)
    assert positions("c", legs) == (2,)
    with pytest.raises(UnclearAnswer):
        understand("3", legs, COMMANDS)


def test_no_label_is_the_text_of_another_choice() -> None:
    question = Question("Which?", ("b", "a", "1"))
    assert listed(question) == "#1 b, #2 a, #3 1"
    assert [positions(line, question) for line in ("b", "#2", "1")] == [(0,), (1,), (2,)]


def test_text_with_comma_or_the_word_or_is_one_choice() -> None:
    question = Question("When?", ("morning or noon", "evening, night"))
    assert positions("morning or noon", question) == (0,)
    assert positions("evening, night", question) == (1,)
    assert positions("1 or 2", question) == (0, 1)


def test_message_about_an_unclear_line_holds_no_control_character() -> None:
    with pytest.raises(UnclearAnswer) as caught:
        understand("\x1b]0;title\x07", PAIN, COMMANDS)
    assert "\x1b" not in str(caught.value)
    assert r"\x1b]0;title" in str(caught.value)


@given(st.lists(st.text(min_size=1, max_size=6), min_size=2, max_size=30))
def test_every_choice_can_be_named_by_its_label_and_by_its_text(texts: list[str]) -> None:
    try:
        question = Question("Which?", tuple(texts))
    except ValueError:
        return
    for position, label in enumerate(choice_labels(question)):
        assert positions(label, question) == (position,)
        assert positions(question.choices[position], question) == (position,)
