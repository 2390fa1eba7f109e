"""JSON schemas of pydantic models, in the plain form that every server understands."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

__all__ = ["Words", "schema_of"]

Words = Annotated[str, Field(min_length=1, max_length=300)]
"""A name, a value, a question, a choice: neither empty nor without end, as small models like it."""


def schema_of(
    model: type[BaseModel],
    *,
    most: Mapping[str, int] | None = None,
    one_of: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """The schema of a model, without references, titles or defaults, every field required.

    Args:
        model: the model.
        most: name of a field that is a list -> its greatest length.
        one_of: name of a field that is a text -> the texts that it can be.

    >>> class Pick(BaseModel):
    ...     id: str
    >>> schema_of(Pick, one_of={"id": ["a", "b"]})["properties"]
    {'id': {'type': 'string', 'enum': ['a', 'b']}}
    """
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def plain(part: Any, field: str = "") -> Any:
        if isinstance(part, list):
            return [plain(item, field) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return plain(definitions[part["$ref"].rpartition("/")[2]], field)
        kept = {k: v for k, v in part.items() if k not in ("title", "default", "description")}
        if "properties" in kept:
            kept["properties"] = {k: plain(v, k) for k, v in kept["properties"].items()}
            kept |= {"required": list(kept["properties"]), "additionalProperties": False}
        for keyword in ("items", "anyOf"):
            if keyword in kept:
                kept[keyword] = plain(kept[keyword], field if keyword == "anyOf" else "")
        if kept.get("type") == "array" and most and field in most:
            kept["maxItems"] = most[field]
        if kept.get("type") == "string" and one_of and field in one_of:
            kept["enum"] = list(one_of[field])
        return kept

    result: dict[str, Any] = plain(schema)
    return result
