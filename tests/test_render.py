"""What is drawn: harmless text, bars that add up, any width, with and without colour."""

import io
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from balar_core.questions import Question
from llm_oracles.printable import printable
from llm_oracles.render import ASCII, UNICODE, View, bar, make_console, percent


def drawn(view: View) -> str:
    stream = view.console.file
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


def make_view(width: int = 80, *, plain: bool = False, encoding: str = "utf-8") -> View:
    class Stream(io.StringIO):
        @property
        def encoding(self) -> str:
            return encoding

    console = make_console(Stream(), plain=plain)
    console.width = width
    return View(console, plain=plain)


@given(st.text())
def test_printable_text_holds_nothing_that_commands_a_terminal(text: str) -> None:
    commands = ("Cc", "Cs", "Zl", "Zp")
    assert not [c for c in printable(text) if unicodedata.category(c) in commands]


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\ufeff", "\u200b"])
def test_printable_text_shows_marks_that_reorder_or_hide(mark: str) -> None:
    assert printable(f"a{mark}b") == f"a\\u{ord(mark):04x}b"


def test_printable_text_keeps_writing_of_all_kinds() -> None:
    text = "Łódź — naïve “quotes” 日本語 می‌خواهم 👩‍🔬"
    assert printable(text) == text


def test_printable_text_keeps_line_breaks_only_on_demand() -> None:
    assert printable("a\nb\r") == r"a\nb\r"
    assert printable("a\nb\r", lines=True) == "a\nb\\r"


@given(st.integers(1, 60), st.sampled_from([UNICODE, ASCII]))
def test_bars_grow_with_probability_and_fill_their_width_exactly_at_one(width, glyphs) -> None:
    lengths = [bar(k / 40, width, glyphs) for k in range(41)]
    assert lengths[0] == ""
    assert lengths[-1] == glyphs.parts[-1] * width
    assert all(len(a) <= len(b) for a, b in pairwise(lengths))


@pytest.mark.parametrize("probability", [1e-9, 0.004, 0.996, 1 - 1e-9])
def test_only_certainty_is_shown_as_certain(probability: float) -> None:
    assert percent(probability) in ("<1%", ">99%")


def test_markup_and_emoji_codes_in_texts_are_literal() -> None:
    view = make_view()
    view.question(Question("Is it [red]red[/red]?", ("[bold]yes", ":smile:"), note="[link=x]"))
    view.beliefs({"[dim]": {"[/]": 0.25, "[on red]b": 0.75}})
    shown = drawn(view)
    for text in ("[red]red[/red]", "[bold]yes", ":smile:", "[link=x]", "[dim]", "[/]", "[on red]b"):
        assert text in shown


def test_escape_sequences_in_texts_do_not_reach_the_terminal() -> None:
    view = make_view()
    view.problem("clear\x1b[2J", "bell\x07")
    view.question(Question("title\x1b]0;x\x07?", ("a\x9b1m", "b\rc")))
    view.beliefs({"n\x1b": {"v\x1b[31m": 0.5, "w": 0.5}})
    assert not set(drawn(view)) & set("\x1b\x07\x9b\r")
    assert r"clear\x1b[2J" in drawn(view)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    view = make_view(width)
    view.problem("A rather long prompt that has to be wrapped somewhere. " * 3, "context " * 20)
    view.progress(3, 10, "the second witness", 12.3456, 0.6612)
    view.question(Question("日本語の長い質問文" * 6, ("はい" * 30, "no " * 40), note="n" * 90))
    view.beliefs({"d" * 70: {"値" * 50: 0.5, "w": 0.5}}, {"d" * 70: {"値" * 50: 0.2, "w": 0.8}})
    assert max(cell_len(line) for line in drawn(view).splitlines()) <= width


def test_plain_view_is_ascii_without_escape_sequences_even_on_a_terminal() -> None:
    view = make_view(plain=True)
    view.progress(1, 2, None, 1.0, 0.5)
    view.question(Question("Yes?", ("yes", "no"), note="a note"))
    view.beliefs({"d": {"a": 0.7, "b": 0.3}}, {"d": {"a": 0.5, "b": 0.5}})
    assert drawn(view).isascii()
    assert drawn(view).replace("\n", "").isprintable()


def test_console_that_cannot_show_blocks_is_drawn_on_in_ascii() -> None:
    view = make_view(encoding="ascii")
    view.beliefs({"d": {"a": 0.7, "b": 0.3}})
    assert drawn(view).isascii()


def test_only_dimensions_that_moved_are_drawn_after_an_answer() -> None:
    view = make_view()
    before = {"kind": {"a": 0.5, "b": 0.5}, "cause": {"x": 0.3, "y": 0.7}}
    now = {"kind": {"a": 0.9, "b": 0.1}, "cause": {"x": 0.301, "y": 0.699}}
    view.beliefs(now, before)
    lines = drawn(view).splitlines()
    assert [line.split() for line in lines if "%" in line] == [
        ["a", bar(0.9, 32), "90%", "+40"],
        ["b", bar(0.1, 32), "10%", "-40"],
    ]
    assert "unchanged: cause" in drawn(view)


def test_many_values_are_cut_to_the_likeliest_and_the_rest_is_summed() -> None:
    weights = {f"animal {k}": (k + 1) / 5050 for k in range(100)}
    view = make_view()
    view.beliefs({"animal": weights})
    rows = [line.split() for line in drawn(view).splitlines() if "%" in line]
    assert [row[:2] for row in rows[:-1]] == [["animal", str(k)] for k in range(99, 92, -1)]
    assert rows[-1][:2] == ["93", "others"]
    assert rows[-1][-1] == percent(sum(list(weights.values())[:93]))
