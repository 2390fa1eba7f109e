"""Everything that can be wrong with a problem whose shape is right, all of it at once."""

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from balar_core.dialogue import Setup
from balar_core.errors import BalarError
from balar_core.labels import LabelMap
from balar_core.space import StateSpace
from balar_core.tables import check_possible
from balar_core.text import canonical

from .problem_file import Keys
from .problem_schema import (
    DimensionEntry,
    Problem,
    QuestionEntry,
    RowEntry,
    TablesEntry,
    parse_setting,
    rows_of,
    setting_types,
)

__all__ = ["Found", "find_mistakes", "suggestion"]

Found = tuple[Keys, str]
"""The place of a mistake in the problem, and what is wrong there."""


def find_mistakes(problem: Problem) -> list[Found]:
    """All mistakes of a problem; an empty list means that it can be used."""
    found = [
        *_check_texts(problem),
        *_check_users(problem),
        *_check_dimensions(problem),
        *_check_questions(problem),
        *_check_answers(problem),
        *_check_settings(problem),
        *_check_rows(problem),
    ]
    return found or list(_check_zeros(problem))


def suggestion(name: str, known: Iterable[str], what: str) -> str:
    """A sentence that names what is known, the closest first.

    >>> suggestion("migrane", ["tension", "migraine"], "values")
    "Did you mean 'migraine'? The values are 'tension', 'migraine'."
    """
    names = list(known)
    folded = {canonical(other): other for other in names}
    close = difflib.get_close_matches(canonical(name), folded, n=1)
    listed = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
    sentence = f"The {what} are {listed}." if names else f"There are no {what}."
    return f"Did you mean {folded[close[0]]!r}? {sentence}" if close else sentence


def _attempt(keys: Keys, make: Callable[[], object]) -> Iterator[Found]:
    """What the engine itself has to say against a value."""
    try:
        make()
    except BalarError as error:
        yield keys, str(error)


def _doubles(names: Iterable[str], places: Iterable[Keys], what: str) -> Iterator[Found]:
    seen: dict[str, str] = {}
    for name, keys in zip(names, places, strict=True):
        first = seen.setdefault(canonical(name), name)
        if first is not name:
            same = "" if first == name else f" (compared without case and marks, it is {first!r})"
            yield keys, f"The {what} {name!r} is there already{same}; rename or remove one of them."


def _check_texts(problem: Problem) -> Iterator[Found]:
    if not canonical(problem.name):
        yield ("name",), "The problem needs a name that can be seen."
    yield from _attempt(("prompt",), lambda: Setup(problem.prompt))
    yield from _attempt(("context",), lambda: Setup("?", problem.context))


def _check_users(problem: Problem) -> Iterator[Found]:
    if not problem.users:
        yield ("users",), "There is nobody to ask; name a user, or leave `users` out."
    for i, user in enumerate(problem.users):
        yield from _attempt(("users", i), lambda user=user: user.core)  # type: ignore[misc]
    names = [user.name for user in problem.users]
    yield from _doubles(names, [("users", i) for i in range(len(names))], "user")


def _dimensions(problem: Problem) -> Iterator[tuple[Keys, DimensionEntry]]:
    for i, dimension in enumerate(problem.dimensions):
        yield ("dimensions", i), dimension
    for i, expansion in enumerate(problem.expansions):
        yield ("expansions", i), expansion


def _questions(problem: Problem) -> Iterator[tuple[Keys, QuestionEntry]]:
    for i, question in enumerate(problem.questions):
        yield ("questions", i), question
    for i, expansion in enumerate(problem.expansions):
        for j, question in enumerate(expansion.questions):
            yield ("expansions", i, "questions", j), question


def _check_dimensions(problem: Problem) -> Iterator[Found]:
    if not problem.dimensions:
        yield ("dimensions",), "There is no dimension; name at least one thing to find out."
    dimensions = list(_dimensions(problem))
    for keys, dimension in dimensions:
        names = dimension.value_names
        doubles = list(_doubles(names, [(*keys, "values", i) for i in range(len(names))], "value"))
        yield from doubles or _attempt(keys, lambda d=dimension: d.core)  # type: ignore[misc]
    places = [(*keys, "name") for keys, _ in dimensions]
    yield from _doubles([d.name for _, d in dimensions], places, "dimension")
    if problem.target is not None:
        names = tuple(d.name for d in problem.dimensions)
        if problem.target not in names:
            yield (
                ("target",),
                f"There is no dimension {problem.target!r} from the start. "
                + suggestion(problem.target, names, "dimensions"),
            )


def _check_questions(problem: Problem) -> Iterator[Found]:
    if not problem.questions:
        yield ("questions",), "There is no question; nothing could be found out."
    questions = list(_questions(problem))
    places = [(*keys, "text") for keys, _ in questions]
    yield from _doubles([q.text for _, q in questions], places, "question")
    users = {user.name for user in problem.users}
    for keys, question in questions:
        choices = question.choices
        places = [(*keys, "choices", i) for i in range(len(choices))]
        doubles = list(_doubles(choices, places, "choice"))
        yield from doubles or _attempt(keys, lambda q=question: q.core)  # type: ignore[misc]
        yield from _check_asked(keys, question, users)
        if not (question.given or question.given_for):
            message = "Its answer tells nothing; give it a table (`given`) for some dimension."
            yield keys, message


def _check_asked(keys: Keys, question: QuestionEntry, users: set[str]) -> Iterator[Found]:
    asked = question.ask if question.ask is not None else tuple(users)
    if not asked:
        yield (*keys, "ask"), "Nobody is to be asked this; name a user, or leave `ask` out."
    for i, name in enumerate(question.ask or ()):
        if name not in users:
            message = f"There is no user {name!r}. {suggestion(name, sorted(users), 'users')}"
            yield (*keys, "ask", i), message
    for name in question.given_for:
        if name not in asked:
            message = f"{name!r} is not asked this. {suggestion(name, sorted(asked), 'users')}"
            yield (*keys, "given_for", name), message


def _check_answers(problem: Problem) -> Iterator[Found]:
    if problem.answers is None:
        return
    if problem.target is not None:
        message = "The answer is a dimension (`target`) or one of `answers`; keep one of the two."
        yield ("target",), message
    names = problem.answers.names
    places: list[Keys] = [("answers", "choices", i) for i in range(len(names))]
    doubles = list(_doubles(names, places, "answer"))
    setup = lambda: Setup("?", answers=names)  # noqa: E731
    yield from doubles or _attempt(("answers", "choices"), setup)
    if not problem.answers.given:
        message = "The answers depend on no dimension; give them a table (`given`)."
        yield ("answers",), message


def _check_settings(problem: Problem) -> Iterator[Found]:
    known = dict(setting_types())
    for name, value in problem.settings.items():
        keys = ("settings", name)
        if name == "labels":
            yield keys, "The label map has a place of its own: `labels`, beside `settings`."
        elif name not in known:
            yield keys, f"There is no setting {name!r}. {suggestion(name, known, 'settings')}"
        else:
            yield from _attempt(keys, lambda n=name, v=value: parse_setting(n, v))  # type: ignore[misc]
            yield from _check_limit(problem, name)
    if _restricts_users(problem) and _setting(problem, "min_information") == 0:
        message = "With min_information 0 a user may be asked what `ask` keeps from them; raise it."
        yield ("settings", "min_information"), message
    yield from _check_size(problem)


def _restricts_users(problem: Problem) -> bool:
    everybody = {user.name for user in problem.users}
    return any(q.ask is not None and set(q.ask) != everybody for q in problem.all_questions)


def _setting(problem: Problem, name: str) -> int | float | str | None:
    """A setting that the problem gives, or None if it does not or if it is wrong."""
    try:
        return parse_setting(name, problem.settings[name])
    except (KeyError, BalarError):
        return None


def _check_limit(problem: Problem, name: str) -> Iterator[Found]:
    limit, held = _setting(problem, name), problem.held.get(name, 0)
    if isinstance(limit, int) and limit < held:
        yield (
            ("settings", name),
            f"{name} is {limit}, but the problem holds {held}; leave it out to allow for all.",
        )


def _check_size(problem: Problem) -> Iterator[Found]:
    try:
        dimensions = tuple(entry.core for entry in problem.dimensions)
    except BalarError:
        return
    if len({canonical(d.name) for d in dimensions}) < max(len(dimensions), 1):
        return
    limit = _setting(problem, "max_states")
    size = {"max_states": limit} if isinstance(limit, int) else {}
    yield from _attempt(("dimensions",), lambda: StateSpace(dimensions, **size))


def _check_rows(problem: Problem) -> Iterator[Found]:
    """Every prior, and every row of every table."""
    label_mistakes = list(_check_labels(problem))
    yield from label_mistakes
    if label_mistakes:
        return
    rows = _Rows(problem)
    for keys, dimension in _dimensions(problem):
        if dimension.prior is not None:
            yield from rows.row((*keys, "prior"), dimension.prior, len(dimension.values), "values")
    for keys, question in _questions(problem):
        choices = len(question.choices)
        yield from rows.tables((*keys, "given"), question.given, choices, "choices")
        for user, tables in question.given_for.items():
            yield from rows.tables((*keys, "given_for", user), tables, choices, "choices")
    if problem.answers is not None:
        given, count = problem.answers.given, len(problem.answers.choices)
        yield from rows.tables(("answers", "given"), given, count, "answers")


def _check_labels(problem: Problem) -> Iterator[Found]:
    if problem.labels is None:
        return
    yield from _attempt(("labels",), lambda: LabelMap.of(problem.labels or {}))
    for label in problem.labels:
        try:
            float(label)
        except ValueError:
            continue
        yield ("labels", label), f"A label that reads as a number ({label}) is none; rename it."


class _Rows:
    """Checks rows and tables against the dimensions and the label map of a problem."""

    def __init__(self, problem: Problem) -> None:
        self.labels = problem.label_map
        self.dimensions = {d.name: d for d in problem.all_dimensions}

    def tables(self, keys: Keys, tables: TablesEntry, width: int, what: str) -> Iterator[Found]:
        for name, table in tables.items():
            place = (*keys, name)
            if name not in self.dimensions:
                hint = suggestion(name, self.dimensions, "dimensions")
                yield place, f"There is no dimension {name!r}. {hint}"
                continue
            values = self.dimensions[name].value_names
            missing = [value for value in values if value not in table]
            if missing:
                listed = ", ".join(map(repr, missing))
                yield place, f"There is no row for {listed}; every value of {name!r} needs one."
            for value, row in table.items():
                if value not in values:
                    hint = suggestion(value, values, "values")
                    yield (*place, value), f"{value!r} is not a value of {name!r}. {hint}"
                yield from self.row((*place, value), row, width, what)

    def row(self, keys: Keys, row: RowEntry, width: int, what: str) -> Iterator[Found]:
        if len(row) != width:
            yield keys, f"There are {len(row)} entries for {width} {what}; give one for each."
            return
        unknown = [
            (i, cell)
            for i, cell in enumerate(row)
            if isinstance(cell, str) and cell not in self.labels.names
        ]
        for i, label in unknown:
            hint = suggestion(str(label), self.labels.names, "labels")
            yield (*keys, i), f"{label!r} is not a label. {hint}"
        if not unknown:
            yield from _attempt(keys, lambda: self.labels.distribution(row, "The row"))


def _check_zeros(problem: Problem) -> Iterator[Found]:
    """Zeros in the tables of several dimensions that leave a state without any choice."""
    if _setting(problem, "noise"):
        return
    space = StateSpace(tuple(d.core for d in problem.all_dimensions), max_states=sys.maxsize)

    def check(keys: Keys, given: TablesEntry) -> Iterator[Found]:
        tables = []
        for dimension in space.dimensions:
            rows = rows_of(given.get(dimension.name), dimension)
            row = problem.label_map.distribution
            tables.append(None if rows is None else np.stack([row(cells) for cells in rows]))
        yield from _attempt(keys, lambda: check_possible(space, tables, "Together"))

    for keys, question in _questions(problem):
        yield from check((*keys, "given"), question.given)
        for user in question.given_for:
            yield from check((*keys, "given_for", user), question.tables_for(user))
    if problem.answers is not None and problem.answers.given:
        yield from check(("answers", "given"), problem.answers.given)
