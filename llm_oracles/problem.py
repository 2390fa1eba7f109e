"""Problems: everything a dialogue needs, written down beforehand, so that no model is called.

    problem = load("my-problem.yaml")          # or load_packaged("headache")
    dialogue = Dialogue.start(problem.setup())

The format is described in docs/problems.md.
"""

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from balar_core.errors import BalarError

from .problem_checks import find_mistakes, suggestion
from .problem_file import Document, Keys, Mistake, ProblemError, read_document, read_text
from .problem_schema import Problem

__all__ = [
    "Mistake",
    "Problem",
    "ProblemError",
    "UnknownProblem",
    "find",
    "load",
    "load_packaged",
    "make_problem",
    "packaged",
    "parse",
]


class UnknownProblem(BalarError, LookupError):
    """There is neither a file nor a packaged problem of this name."""


def load(path: str | os.PathLike[str]) -> Problem:
    """Read a problem from a YAML or JSON file.

    Raises:
        ProblemError: the file cannot be read, or something is wrong in it; all mistakes at once.
    """
    return parse(read_text(path), os.fspath(path))


def parse(text: str, source: str = "problem.yaml") -> Problem:
    """Read a problem from YAML or JSON text.

    Args:
        text: the text.
        source: what the text is called in messages.

    Raises:
        ProblemError: something is wrong; all mistakes at once.

    >>> parse("{name: coin, prompt: 'Is it fair?', promt: again}", "coin.yaml")
    Traceback (most recent call last):
        ...
    llm_oracles.problem_file.ProblemError: coin.yaml:1:1: `dimensions` is missing.
    coin.yaml:1:1: `questions` is missing.
    coin.yaml:1:37: promt: There is no field 'promt' here. Did you mean 'prompt'? ...
    """
    return _make(read_document(text, source), source)


def make_problem(data: Mapping[str, Any], source: str = "") -> Problem:
    """Make a problem from nested Python data of the same form as a problem file.

    Raises:
        ProblemError: something is wrong; all mistakes at once.
    """
    return _make(Document(dict(data), {(): (0, 0)}), source)


def packaged() -> tuple[str, ...]:
    """The names of the problems that come with balar.

    >>> "headache" in packaged()
    True
    """
    found = (Path(entry.name) for entry in files(__package__).joinpath("problems").iterdir())
    return tuple(sorted(path.stem for path in found if path.suffix == ".yaml"))


def load_packaged(name: str) -> Problem:
    """Read a problem that comes with balar.

    Raises:
        UnknownProblem: there is none of this name.
    """
    if name not in packaged():
        raise UnknownProblem(
            f"There is no packaged problem {name!r}. {suggestion(name, packaged(), 'problems')}"
        )
    text = files(__package__).joinpath("problems", f"{name}.yaml").read_text(encoding="utf-8")
    return parse(text, f"{name}.yaml")


def find(name: str) -> Problem:
    """The packaged problem of this name, else the problem in the file of this name.

    Write `./headache` for a file that has the name of a packaged problem.

    Raises:
        UnknownProblem: there is neither.
        ProblemError: there is such a file, but something is wrong with it.
    """
    if name in packaged():
        return load_packaged(name)
    if not os.path.lexists(name):
        raise UnknownProblem(
            f"{name!r} is neither a file nor a packaged problem. "
            + suggestion(name, packaged(), "packaged problems")
        )
    return load(name)


def _make(document: Document, source: str) -> Problem:
    def mistake(keys: Keys, message: str) -> Mistake:
        line, column = document.place(keys)
        return Mistake(line, column, _where(keys), message)

    found = list(document.mistakes)
    problem, details = _validate(document.data)
    found += [mistake(*_translate(detail)) for detail in details]
    if problem is not None:
        found += [mistake(keys, message) for keys, message in find_mistakes(problem)]
    if found or problem is None:
        raise ProblemError(source, found)
    return problem


def _validate(data: Any) -> tuple[Problem | None, list[ErrorDetails]]:
    """The problem in the data, if it has the right shape once unknown fields are left out."""
    try:
        return Problem.model_validate(data), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    unknown = [tuple(d["loc"]) for d in details if d["type"] == "extra_forbidden"]
    if len(unknown) < len(details):
        return None, details
    return _validate(_without(data, unknown))[0], details


def _without(data: Any, left_out: list[Keys], keys: Keys = ()) -> Any:
    """A copy of nested data without the parts at the given places."""
    if isinstance(data, Mapping):
        kept = {key: value for key, value in data.items() if (*keys, key) not in left_out}
        return {key: _without(value, left_out, (*keys, key)) for key, value in kept.items()}
    if isinstance(data, list | tuple):
        return [_without(item, left_out, (*keys, i)) for i, item in enumerate(data)]
    return data


def _where(keys: Keys) -> str:
    """The way to a place as people write it.

    >>> _where(("questions", 2, "choices"))
    'questions[2].choices'
    """
    parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return "".join(parts).removeprefix(".")


_MESSAGES = {
    "string_type": "This has to be a text, not {kind}.",
    "string_unicode": "The text holds a lone surrogate, which cannot be stored; remove it.",
    "tuple_type": "This has to be a list, not {kind}.",
    "dict_type": "This has to be a mapping (key: value), not {kind}.",
    "model_type": "This has to be a mapping (key: value), not {kind}.",
    "float_parsing": "This has to be a number, not {kind}.",
    "float_type": "This has to be a number, not {kind}.",
}


def _translate(detail: ErrorDetails) -> tuple[Keys, str]:
    """The place and the words of something that has the wrong shape."""
    keys = tuple(detail["loc"])
    if detail["type"] == "missing":
        return keys[:-1], f"`{keys[-1]}` is missing."
    if detail["type"] == "extra_forbidden":
        return keys, f"There is no field {keys[-1]!r} here. {_fields_hint(keys)}"
    template = _MESSAGES.get(detail["type"])
    if template is None:
        return keys, f"{detail['msg'][:1].upper()}{detail['msg'][1:]}."
    return keys, template.format(kind=_kind(detail["input"]))


def _fields_hint(keys: Keys) -> str:
    """The fields there are where an unknown one stands, found by walking the models."""
    model: Any = Problem
    for key in keys[:-1]:
        if isinstance(key, str):
            model = _entry_model(model.model_fields[key].annotation)
    return suggestion(str(keys[-1]), model.model_fields, "fields")


def _entry_model(annotation: Any) -> Any:
    """The model inside an annotation such as `tuple[Model, ...] | None`."""
    if hasattr(annotation, "model_fields"):
        return annotation
    inner = (_entry_model(part) for part in getattr(annotation, "__args__", ()))
    return next((model for model in inner if model is not None), None)


def _kind(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return repr(value) if value != "" else "nothing"
