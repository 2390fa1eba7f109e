"""Needs, replies and setups to and from JSON data (see `balar_core.codec`)."""

import json
import typing
from typing import cast

from ..codec import dumps, loads, read, read_kind, to_data
from .needs import Ask, Conclude, Need, Reply

__all__ = ["dumps", "from_data", "loads", "need_key", "read", "to_data"]

KINDS: dict[str, type] = {
    cls.kind: cls for cls in (*typing.get_args(Need), *typing.get_args(Reply))
}
"""Every kind of need and reply by its name."""


def from_data(data: object) -> Need | Reply:
    """The need or reply that `to_data` wrote.

    Raises:
        InvalidInput: the data are not exactly one need or reply; the message says where.

    >>> from_data({"kind": "answered", "unknown": True}).unknown
    True
    """
    return cast("Need | Reply", read_kind(KINDS, data))


def need_key(need: Need) -> str:
    """What is asked, as one canonical string: equal for equal needs on every machine.

    Numbers that inference produced are left out (or rounded, inside a conversation), so that a
    recording made in one precision is found again in another.
    """
    data = to_data(need)
    if isinstance(need, Ask):
        del data["information"], data["expected"]
    if isinstance(need, Conclude):
        del data["probability"]
        if need.answers is not None:
            data["answers"] = [answer for answer, _ in need.answers]
    for exchange in data.get("conversation", ()):
        exchange["evidence"] = [round(weight, 6) for weight in exchange["evidence"]]
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
