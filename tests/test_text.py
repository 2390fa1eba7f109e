"""Names: when two are the same, what may be stored, and questions made of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import Dimension, Question, User
from balar_core.errors import InvalidDimension, InvalidInput, InvalidQuestion, InvalidText
from balar_core.text import canonical, check_distinct, check_text


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("é", "e\u0301"),
        ("\uff21", "A"),
        ("\u00a0Yes", "yes"),
        ("\u200bYes", "YES"),
        ("\ufeffyes", "yes"),
        ("ß", "SS"),
        ("a  b", "a\tb"),
        ("İ", "i\u0307"),
        ("no", "NO "),
    ],
)
def test_names_that_look_the_same_are_the_same(a: str, b: str) -> None:
    assert canonical(a) == canonical(b)
    with pytest.raises(InvalidText, match="Names 0 and 1 are duplicates"):
        check_distinct([a, b], "Names")


@pytest.mark.parametrize(("a", "b"), [("o", "ö"), ("1", "l"), ("yes", "yes!"), ("a b", "ab")])
def test_names_that_differ_stay_different(a: str, b: str) -> None:
    check_distinct([a, b], "Names")


@given(st.text())
def test_canonical_form_is_its_own_canonical_form(text: str) -> None:
    assert canonical(canonical(text)) == canonical(text)


def test_display_text_is_kept_as_given() -> None:
    text = "  Ｄoes\u00a0it\u200b hurt? "
    assert check_text(text, "a question") == text
    assert Question(text, ("Ja", "Nein")).text == text


@pytest.mark.parametrize("text", ["\ud800", "ab\udfffc"])
def test_lone_surrogate_is_refused_with_its_position(text: str) -> None:
    position = next(i for i, c in enumerate(text) if "\ud800" <= c <= "\udfff")
    with pytest.raises(InvalidText, match=rf"a note .* at position {position}"):
        check_text(text, "a note")


@pytest.mark.parametrize("text", ["", " ", "\u200b", "\t\n\ufeff"])
def test_text_without_anything_to_see_is_refused_unless_allowed(text: str) -> None:
    with pytest.raises(InvalidText, match="is empty"):
        check_text(text, "a name")
    assert check_text(text, "a note", empty=True) == text


@pytest.mark.parametrize("value", [True, 0, 1.5, None, b"x", ["x"]])
def test_only_strings_are_names(value: object) -> None:
    with pytest.raises(InvalidText, match="names are strings"):
        check_text(value, "a name")


def test_labels_that_look_like_positions_are_only_labels() -> None:
    assert Dimension("digit", ("1", "0", "2")).values == ("1", "0", "2")
    for values in ((True, False), (0, 1)):
        with pytest.raises(InvalidDimension, match="names are strings"):
            Dimension("digit", values)  # type: ignore[arg-type]


def test_duplicate_choices_are_refused_with_both_positions() -> None:
    with pytest.raises(InvalidQuestion, match="choices 0 and 2 are duplicates: 'Yes'"):
        Question("Does it hurt?", ("Yes", "No", "Yes"))
    with pytest.raises(InvalidQuestion, match=r"choices 0 and 1 are duplicates.*without case"):
        Question("Does it hurt?", ("Yes", "\u200byes"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Question("", ("a", "b")), "text of a question is empty"),
        (lambda: Question("q", ("a",)), "at least two"),
        (lambda: Question("q", ("a", " ")), "choice 1 of question 'q' is empty"),
        (lambda: Question("q", "ab"), "give a tuple"),  # type: ignore[arg-type]
        (lambda: User(""), "name of a user is empty"),
        (lambda: User("u", "\ud800"), "lone surrogate"),
        (lambda: Dimension("d", ("a",)), "at least two"),
        (lambda: Dimension("d", "ab"), "give a tuple"),  # type: ignore[arg-type]
        (lambda: Dimension("d", ("a", "A")), "values 0 and 1 are duplicates"),
    ],
)
def test_malformed_questions_users_and_dimensions_are_refused(make: object, words: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidInput, match=words):
        make()
