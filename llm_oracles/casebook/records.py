"""Reading the published files of benchmarks, with errors that name the record.

Files are either a JSON list of records or JSON lines, one record a line. Fields that nobody needs
are not looked at.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from balar_core.codec import loads
from balar_core.errors import BalarError, InvalidInput

from ..mistakes import in_words
from ..store import read_text
from .case import Case

__all__ = ["CaseFileError", "Index", "Record", "Words", "read_cases"]


class CaseFileError(InvalidInput):
    """A file does not hold cases in their published format; the message names the record."""


class Record(BaseModel):
    """A record; a field of another type than published is a mistake, and is not converted."""

    model_config = ConfigDict(strict=True, frozen=True)


Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Index = int | Words
R = TypeVar("R", bound=Record)


def read_cases(
    path: Path, kind: type[R], identity: Callable[[R], Index], case: Callable[[R, str], Case]
) -> tuple[Case, ...]:
    """The cases of a file.

    Args:
        path: the file.
        kind: what a record looks like.
        identity: what a record is called; no two may be called the same.
        case: makes a case of a record and its name; raises `BalarError` if it cannot be one.

    Raises:
        FileTrouble: the file cannot be read.
        CaseFileError: a record is not as published; the message names it and what is wrong.
    """
    cases: list[Case] = []
    places: dict[str, str] = {}
    for place, data in _items(path):
        try:
            record = kind.model_validate(data)
            name = str(identity(record))
            if name in places:
                raise InvalidInput(f"It is called {name}, as {places[name]} is already.")
            made = case(record, name)
            made.setup()
        except ValidationError as error:
            mistakes = in_words(error, "the record", count=True)
            raise CaseFileError(
                f"{path}, {place}{_called(data)}: {mistakes} Take the file as it was published, "
                "or mend or remove the record."
            ) from None
        except BalarError as error:
            raise CaseFileError(f"{path}, {place}{_called(data)}: {error}") from None
        places[name] = place
        cases.append(made)
    if not cases:
        raise CaseFileError(f"{path} holds no cases.")
    return tuple(cases)


def _items(path: Path) -> Iterator[tuple[str, Any]]:
    """The records and where they stand, counted from 1."""
    text = read_text(path)
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield f"line {number}", _parse(line, f"{path}, line {number}")
        return
    data = _parse(text, str(path))
    if not isinstance(data, list):
        raise CaseFileError(
            f"{path} holds no list of records; a file of one record a line ends in .jsonl."
        )
    yield from ((f"record {number}", item) for number, item in enumerate(data, start=1))


def _parse(text: str, where: str) -> Any:
    try:
        return loads(text)
    except InvalidInput as error:
        raise CaseFileError(f"{where} is no JSON: {error}") from None


def _called(data: Any) -> str:
    """What a record calls itself, to find it by."""
    if isinstance(data, dict):
        for field in ("index", "id"):
            if isinstance(data.get(field), int | str):
                return f" ({field} {str(data[field])[:40]})"
    return ""
