"""A person who answers: what is shown, what is asked again, what is an error."""

import asyncio
import io
from pathlib import Path

import pytest

from balar_core.dialogue import (
    Answered,
    Ask,
    Conclude,
    Question,
    ScoreAnswer,
    ScoredAnswer,
    User,
)
from balar_core.errors import BalarError
from llm_oracles.human import Command, EndOfAnswers, HumanOracle, Keyboard, Source
from llm_oracles.problem_file import ProblemError
from llm_oracles.reading import UnclearAnswer
from llm_oracles.render import View, make_console
from llm_oracles.scripted import AnswerLines, AnswerSheet, InvalidAnswers, open_answers

LIGHT = Ask(
    question=Question("Does light hurt?", ("yes", "a little", "no"), note="Sunlight counts."),
    position=0,
    user=User("you"),
    information=0.3,
    expected=(0.5, 0.2, 0.3),
)


def make_view() -> View:
    console = make_console(io.StringIO(), plain=True)
    return View(console, plain=True)


def shown(view: View) -> str:
    assert isinstance(view.console.file, io.StringIO)
    return view.console.file.getvalue()


def ask(source: Source, view: View | None = None, **commands: Command) -> Answered:
    oracle = HumanOracle(source, view or make_view(), commands=commands)
    reply = asyncio.run(oracle.fulfil(LIGHT))
    assert isinstance(reply, Answered)
    return reply


def typed(text: str, view: View) -> Keyboard:
    return Keyboard(io.StringIO(text), view.console)


def lines(text: str) -> AnswerLines:
    return AnswerLines(io.BytesIO(text.encode()), "answers.txt")


def test_question_is_shown_with_note_and_numbered_choices() -> None:
    view = make_view()
    assert ask(typed("3\n", view), view) == Answered(choice=2)
    for text in ("Does light hurt?", "Sunlight counts.", "1  yes", "2  a little", "3  no"):
        assert text in shown(view)


def test_unclear_line_is_asked_again_with_the_choices() -> None:
    view = make_view()
    assert ask(typed("perhaps\n\nyes\n", view), view) == Answered(choice=0)
    assert '"perhaps" is none of the choices. The choices: 1 yes, 2 a little, 3 no.' in shown(view)
    assert "Nothing was typed." in shown(view)


def test_beginning_of_a_choice_is_echoed_in_full() -> None:
    view = make_view()
    assert ask(typed("a l\n", view), view) == Answered(choice=1)
    assert "= a little" in shown(view)


def test_several_choices_are_equal_evidence() -> None:
    view = make_view()
    expected = Answered(evidence=(1.0, 0.0, 1.0), reply="1 or 3")
    assert ask(typed("1 or 3\n", view), view) == expected
    assert "= yes or no" in shown(view)


def test_not_knowing_is_no_evidence() -> None:
    view = make_view()
    assert ask(typed("?\n", view), view) == Answered(unknown=True)


def test_command_runs_and_the_question_is_put_again() -> None:
    view = make_view()
    calls: list[str] = []
    why = Command("reasons", lambda: calls.append("why"))
    assert ask(typed("why\n/WHY\n2\n", view), view, why=why) == Answered(choice=1)
    assert calls == ["why", "why"]
    assert shown(view).count("Does light hurt?") == 3


def test_help_lists_every_command() -> None:
    view = make_view()
    ask(typed("help\n1\n", view), view, why=Command("reasons for asking", lambda: None))
    assert "why   reasons for asking" in shown(view)
    assert "help  this help" in shown(view)


def test_command_can_leave_the_question() -> None:
    class Leave(Exception):
        pass

    def leave() -> None:
        raise Leave

    view = make_view()
    with pytest.raises(Leave):
        ask(typed("quit\n", view), view, quit=Command("leave", leave))


def test_end_of_input_is_told_with_the_question() -> None:
    view = make_view()
    with pytest.raises(EndOfAnswers, match="Does light hurt"):
        ask(typed("", view), view)


def test_reply_in_free_text_is_scored_by_the_person() -> None:
    view = make_view()
    need = ScoreAnswer(LIGHT.question, 0, LIGHT.user, "only at noon", ("likely", "unlikely"))
    oracle = HumanOracle(typed("2\n", view), view)
    assert asyncio.run(oracle.fulfil(need)) == ScoredAnswer((0.0, 1.0, 0.0))
    assert "only at noon" in shown(view)


def test_need_that_is_no_question_is_refused_by_name() -> None:
    view = make_view()
    need = Conclude("p", "", (), 1.0, None, "stopped", ())
    with pytest.raises(BalarError, match="conclude"):
        asyncio.run(HumanOracle(typed("1\n", view), view).fulfil(need))


# --- written answers -----------------------------------------------------------------------------


def test_written_answers_skip_comments_and_empty_lines() -> None:
    source = lines("\ufeff# a comment\n\n  \n yes \n# more\n2\n")
    assert ask(source) == Answered(choice=0)
    assert ask(source) == Answered(choice=1)
    with pytest.raises(EndOfAnswers):
        ask(source)


def test_last_line_without_a_line_break_counts() -> None:
    assert ask(lines("no")) == Answered(choice=2)


def test_unclear_written_answer_is_an_error_that_names_line_and_text() -> None:
    with pytest.raises(UnclearAnswer, match=r'^answers.txt, line 2: "maybe" is none.*1 yes'):
        ask(lines("# light\nmaybe\nyes\n"))


def test_written_answer_that_is_not_utf8_is_an_error_that_names_the_byte() -> None:
    source = AnswerLines(io.BytesIO(b"yes\nn\xf6\n"), "answers.txt")
    assert ask(source) == Answered(choice=0)
    with pytest.raises(InvalidAnswers, match=r"line 2: byte 2 \(0xf6\)"):
        ask(source)


def test_written_answers_are_read_only_as_far_as_needed() -> None:
    stream = io.BytesIO(b"yes\nno\n")
    assert ask(AnswerLines(stream, "pipe")) == Answered(choice=0)
    assert stream.read() == b"no\n"


def test_sheet_answers_by_question_without_regard_to_case_and_spaces() -> None:
    assert ask(AnswerSheet({"does  LIGHT hurt?": "a little"}, "sheet")) == Answered(choice=1)


def test_question_that_is_not_on_the_sheet_is_unknown_and_says_so() -> None:
    view = make_view()
    assert ask(AnswerSheet({"Other?": "yes"}, "sheet.yaml"), view) == Answered(unknown=True)
    assert "not in sheet.yaml" in shown(view)


def test_sheet_cannot_give_commands() -> None:
    back = Command("undo", lambda: pytest.fail("a sheet gave a command"))
    with pytest.raises(UnclearAnswer, match='the answer to "Does light hurt'):
        ask(AnswerSheet({"Does light hurt?": "back"}, "sheet"), None, back=back)


def test_sheet_that_answers_an_unknown_question_is_refused() -> None:
    with pytest.raises(InvalidAnswers, match='no question "Does noise hurt'):
        AnswerSheet({"Does noise hurt?": "yes"}, "sheet").check(["Does light hurt?"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "Does light hurt?: no\nHow many legs?: 4\n"),
        ("a.yml", "'Does light hurt?': 'no'\n'How many legs?': '4'\n"),
        ("a.json", '{"Does light hurt?": "no", "How many legs?": 4}'),
    ],
)
def test_sheet_keeps_answers_as_they_are_written(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    source = open_answers(tmp_path / name)
    assert ask(source) == Answered(choice=2)
    legs = Ask(Question("How many legs?", ("2", "4")), 1, User("you"), 0.1, (0.5, 0.5))
    assert source.read(legs) == "4"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.yaml", b"- yes\n- no\n", "no mapping"),
        ("a.yaml", b"A?: yes\nA?: no\n", r"a\.yaml:2:1: 'A\?' stands twice"),
        ("a.yaml", b"A?: yes\n a? : no\n", r"a\.yaml:2"),
        ("a.yaml", b"A?: yes\nB?: [yes, no]\n", r"a\.yaml:2:1: An answer is a text"),
        ("a.yaml", b"A?: 'yes\n", r"a\.yaml:"),
        ("a.yaml", b"", "nothing in it"),
        ("a.json", b'{"A?": {"x": 1}}', "An answer is a text"),
        ("a.json", b"\xff", "UTF-8"),
    ],
)
def test_bad_sheet_is_refused_with_its_place(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ProblemError, match=message):
        open_answers(tmp_path / name)


def test_same_question_twice_in_other_letters_is_refused() -> None:
    with pytest.raises(InvalidAnswers, match="twice"):
        AnswerSheet({"A?": "yes", "a?": "no"}, "sheet")


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_answers_that_cannot_be_read_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidAnswers, match="cannot be read"):
        open_answers(tmp_path / name)
