"""Frozen values to and from JSON data: strict, lossless, without surprises.

A value is written as an object with its fields; a value with a `kind` (a need or a reply) carries
it. Reading is strict: an unknown or missing field, a wrong type, or a number that is not finite is
an error that says where.
"""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Self, TypeVar, cast

from .errors import InvalidInput
from .labels import LabelMap

__all__ = ["Json", "dumps", "loads", "read", "read_kind", "to_data"]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Json:
    """Any JSON value, frozen: equal and hashed by its canonical text.

    Attributes:
        text: the value as JSON with sorted names and no blanks.

    >>> Json.of({"b": 1, "a": [True, None]})
    Json(text='{"a":[true,null],"b":1}')
    >>> Json.of({"b": 1, "a": [True, None]}).value["a"]
    [True, None]
    """

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _canonical(loads(self.text)))

    @classmethod
    def of(cls, value: object) -> Self:
        """Freeze JSON-able data (or pass a frozen value through).

        Raises:
            InvalidInput: something that JSON cannot hold, or a number that is not finite.
        """
        return value if isinstance(value, cls) else cls(_canonical(value))

    @property
    def value(self) -> Any:
        """The value, as a fresh copy."""
        return json.loads(self.text)


def _canonical(value: object) -> str:
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
        )
        text.encode()  # a lone surrogate could not be written
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{_shown(value)} cannot be written as JSON: {error}.") from None


def to_data(value: object) -> Any:
    """A frozen value as JSON-able data.

    >>> from balar_core.questions import Question
    >>> to_data(Question("Really?", ("yes", "no")))
    {'text': 'Really?', 'choices': ['yes', 'no'], 'note': ''}
    """
    if isinstance(value, LabelMap):
        return dict(value.weights)
    if isinstance(value, Json):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        data = {f.name: to_data(getattr(value, f.name)) for f in dataclasses.fields(value)}
        kind = getattr(value, "kind", None)
        return {"kind": kind, **data} if kind else data
    if isinstance(value, tuple | list):
        return [to_data(item) for item in value]
    return value


def read_kind(kinds: Mapping[str, type], data: object) -> Any:
    """The value of one of several kinds that `to_data` wrote.

    Args:
        kinds: the classes by their kinds.
        data: an object with a `"kind"`.

    Raises:
        InvalidInput: the data are not exactly one such value; the message says where.
    """
    if not isinstance(data, dict):
        raise InvalidInput(f"A need or reply is an object with a 'kind', not {_shown(data)}.")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise InvalidInput(f"kind is {_shown(kind)}; the kinds are {', '.join(kinds)}.")
    fields = {name: item for name, item in data.items() if name != "kind"}
    return _read(kinds[kind], fields, kind)


def read(cls: type[T], data: object, where: str) -> T:
    """A value of the given class from data; `where` begins the path in messages."""
    return cast(T, _read(cls, data, where))


def dumps(data: object, indent: int | None = None) -> str:
    """JSON text: UTF-8 as it is, no NaN or infinity.

    Raises:
        InvalidInput: a number in the data is not finite.
    """
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:
        raise InvalidInput("A number that is not finite cannot be written as JSON.") from None


def loads(text: str | bytes) -> Any:
    """Read JSON text strictly: no NaN, no infinity, no object with a doubled name.

    Raises:
        InvalidInput: not JSON; the message gives the position.
    """

    def refuse(constant: str) -> None:
        raise InvalidInput(f"{constant} is not a number that JSON knows.")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(pairs)
        if len(data) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(f"The name {twice!r} stands twice in one object.")
        return data

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"Not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"Not UTF-8: {error.reason} at byte {error.start}.") from None
    except RecursionError:
        raise InvalidInput("The JSON is nested too deeply.") from None


def _read(hint: Any, data: object, where: str) -> object:
    if hint is LabelMap:
        if not isinstance(data, dict):
            raise InvalidInput(f"{where} is {_shown(data)}; it is an object label -> weight.")
        return LabelMap.of(data)
    if hint is Json:
        return Json.of(data)
    if dataclasses.is_dataclass(hint):
        return _read_fields(cast(type, hint), data, where)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _read_union(args, data, where)
    if origin is tuple:
        if not isinstance(data, list):
            raise InvalidInput(f"{where} is {_shown(data)}; a list is needed.")
        if args[-1] is Ellipsis:
            return tuple(_read(args[0], item, f"{where}[{i}]") for i, item in enumerate(data))
        if len(data) != len(args):
            raise InvalidInput(f"{where} has {len(data)} entries; {len(args)} are needed.")
        pairs = zip(args, data, strict=True)
        return tuple(_read(arg, item, f"{where}[{i}]") for i, (arg, item) in enumerate(pairs))
    return _read_scalar(hint, data, where)


def _read_scalar(hint: Any, data: object, where: str) -> object:
    if hint is float and isinstance(data, int | float) and not isinstance(data, bool):
        try:
            number = float(data)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise InvalidInput(f"{where} is {_shown(data)}; a finite number is needed.")
        return number
    if hint in (str, int, bool) and type(data) is hint:
        return data
    if hint is type(None) and data is None:
        return None
    raise InvalidInput(f"{where} is {_shown(data)}; a value of type {_name(hint)} is needed.")


def _read_union(options: tuple[Any, ...], data: object, where: str) -> object:
    """A union of None and lists: the first option that fits; the last one explains."""
    if data is None and type(None) in options:
        return None
    options = tuple(option for option in options if option is not type(None))
    for option in options[:-1]:
        try:
            return _read(option, data, where)
        except InvalidInput:
            continue
    if isinstance(data, list) and {isinstance(item, str) for item in data} == {True, False}:
        raise InvalidInput(f"{where} is {_shown(data)}; use labels only, or numbers only.")
    return _read(options[-1], data, where)


def _read_fields(cls: type, data: object, where: str) -> object:
    if not isinstance(data, dict):
        raise InvalidInput(f"{where} is {_shown(data)}; an object is needed.")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for name in data:
        if name not in fields:
            raise InvalidInput(
                f"{where} has the unknown field {name!r}; its fields are {', '.join(fields)}."
            )
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _read(hints[name], data[name], f"{where}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InvalidInput(f"{where} has no field {name!r}; it is needed.")
    return cls(**values)


def _shown(data: object) -> str:
    text = repr(data)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _name(hint: Any) -> str:
    return "null" if hint is type(None) else getattr(hint, "__name__", str(hint))
