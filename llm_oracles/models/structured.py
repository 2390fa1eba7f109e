"""Asking for JSON and finding it in a reply, however well a server supports schemas."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn

from ..printable import printable
from .errors import Malformed
from .values import Message, canonical_json

__all__ = [
    "FORMATS",
    "Format",
    "excerpt",
    "extract_json",
    "refuses_format",
    "strict",
    "told_schema",
]

Format = Literal["json_schema", "json_object", "text"]
"""A way to ask for JSON: the server enforces the schema, or JSON at least, or nothing."""

FORMATS: tuple[Format, ...] = ("json_schema", "json_object", "text")
"""The formats, strictest first."""

EXCERPT = 200
"""The longest excerpt of a reply in a message (characters)."""

_KINDS: Mapping[str, type] = {"object": dict, "array": list}
_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_FORMAT_WORDS = re.compile(
    r"response_?format|json_?schema|json_object|json mode|structured.?output|guided|grammar",
    re.IGNORECASE,
)


def strict(schema: Any) -> Any:
    """The schema with closed objects all of whose properties are required.

    That is what servers demand that enforce schemas strictly. Defaults are left out, since nothing
    may be missing.

    >>> strict({"type": "object", "properties": {"a": {"type": "string", "default": ""}}})
    {'type': 'object', 'properties': {'a': {'type': 'string'}},
     'additionalProperties': False, 'required': ['a']}
    """
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return [strict(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {
        # The names of properties and definitions are no keywords, nor are constant values.
        key: {name: strict(item) for name, item in value.items()}
        if key in ("properties", "$defs", "definitions")
        else value
        if key in ("enum", "const")
        else strict(value)
        for key, value in schema.items()
        if key != "default"
    }
    if "properties" in closed:
        closed["additionalProperties"] = False
        closed["required"] = list(closed["properties"])
    return closed


def told_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> tuple[Message, ...]:
    """The messages with the schema in words, for servers that do not enforce it."""
    told = (
        "Reply with one JSON value and nothing else: no Markdown, no remarks. "
        f"It must follow this JSON schema:\n{canonical_json(schema)}"
    )
    last = messages[-1]
    if last.role != "user":
        return (*messages, Message("user", told))
    return (*messages[:-1], Message("user", f"{last.text}\n\n{told}"))


def refuses_format(message: str) -> bool:
    """Whether an error of a server is about the way in which JSON was asked for."""
    return _FORMAT_WORDS.search(message) is not None


def extract_json(text: str, schema: Mapping[str, Any]) -> Any:
    r"""The JSON value in a reply.

    The reply may be the value itself, the value in a Markdown fence, or prose round exactly one
    value; reasoning in `<think>` marks before it is skipped. Nothing is guessed: where brackets
    would leave a choice, keys come twice or numbers are not finite, the reply is malformed.

    Raises:
        Malformed: there is no such value, or more than one.

    >>> extract_json('<think>{"a": 1}</think>Here:\n```json\n{"a": 2}\n```', {"type": "object"})
    {'a': 2}
    """
    kind = _KINDS.get(schema.get("type", ""), object)
    candidate = text.strip()
    if re.search("</?think>", candidate) and not _is_json(candidate):
        candidate = _after_reasoning(candidate, text)
    fenced = _FENCE.findall(candidate)
    if len(fenced) == 1 and not _is_json(candidate):
        candidate = fenced[0].strip()
    if not _is_json(candidate):
        candidate = _outermost(candidate, text)
    value = _parse(candidate, text)
    if not isinstance(value, kind):
        _fail(f"is a JSON {_name(value)}, not an {schema['type']}", text)
    return value


def excerpt(text: str) -> str:
    """The beginning of a text, fit to be shown."""
    shown = printable(" ".join(text[: 2 * EXCERPT].split()))
    return shown if len(shown) <= EXCERPT else shown[:EXCERPT] + "…"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _after_reasoning(candidate: str, text: str) -> str:
    _, end, rest = candidate.rpartition("</think>")
    if not end:
        _fail("holds reasoning without an end", text)
    return rest.strip()


def _outermost(candidate: str, text: str) -> str:
    """The one bracketed part of a text; before and after it there are no brackets."""
    begin = re.search(r"[\[{]", candidate)
    if begin is None:
        _fail("holds no JSON", text)
    try:
        _, end = json.JSONDecoder().raw_decode(candidate, begin.start())
    except (ValueError, RecursionError):
        _fail("holds no sound JSON", text)
    if re.search(r"[\[\]{}]", candidate[: begin.start()] + candidate[end:]):
        _fail("holds more brackets than those of one JSON value", text)
    return candidate[begin.start() : end]


def _parse(candidate: str, text: str) -> Any:
    """Strict parsing: no key twice, no number that is not finite, nothing that is not UTF-8."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            _fail(f"has the key {excerpt(twice)!r} more than once", text)
        return found

    def finite(name: str) -> NoReturn:
        _fail(f"holds {name}, which is no JSON number", text)

    value = json.loads(candidate, object_pairs_hook=once, parse_constant=finite)
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        _fail("holds a lone surrogate, which no file can hold", text)
    except ValueError:
        _fail("holds a number that is not finite", text)
    return value


def _name(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _fail(what: str, text: str) -> NoReturn:
    shown = excerpt(text)
    raise Malformed(
        f"The reply {what}. It begins: {shown!r}. The server may ignore `response_format`; "
        "a larger model, or one that is made to follow schemas, may do better.",
        fault=f"it {what}",
        excerpt=shown,
    )
