"""What replies mean, whatever servers send; JSON found exactly or not at all; strict schemas."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from llm_oracles.models import Completion, Malformed, Message, ModelError
from llm_oracles.models.protocol import failure, parse_body, read_reply, read_tokens
from llm_oracles.models.structured import excerpt, extract_json, strict, told_schema
from llm_oracles.models.values import canonical_json, completion_to_data

WORDS = [
    *("choices", "message", "content", "refusal", "finish_reason", "logprobs", "token", "logprob"),
    *("top_logprobs", "error", "code", "usage", "prompt_tokens", "completion_tokens", "model"),
    *("text", "stop", "length"),
]
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-9, 10**20)
    | st.floats(allow_nan=True)
    | st.sampled_from(WORDS)
    | st.text(st.characters(exclude_categories=[]), max_size=4)
)
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5)
    ),
    max_leaves=20,
)


def completion_with(part: Any) -> dict[str, Any]:
    """A completion in one place of which there may be anything."""
    message = {"content": part, "refusal": None}
    return {"choices": [{"message": message, "finish_reason": "stop", "logprobs": None}]}


replies = (
    anything
    | anything.map(completion_with)
    | st.tuples(anything, anything, anything).map(
        lambda parts: {
            "model": parts[0],
            "choices": [
                {
                    "message": {"content": "x"},
                    "finish_reason": parts[1],
                    "logprobs": {
                        "content": [{"token": "a", "logprob": -1, "top_logprobs": parts[2]}]
                    },
                }
            ],
        }
    )
)


@given(replies)
def test_any_reply_is_a_completion_that_can_be_stored_or_a_model_error(data: Any) -> None:
    try:
        reply = read_reply(data)
    except ModelError as problem:
        assert str(problem)
        str(problem).encode()
        return
    stored = completion_to_data(
        Completion(
            reply.text,
            finish_reason=reply.finish_reason,
            model=reply.model,
            token_logprobs=reply.token_logprobs,
        )
    )
    canonical_json(stored).encode()


@given(status=st.integers(200, 599), data=anything)
def test_any_status_and_error_has_a_meaning(status: int, data: Any) -> None:
    body = json.dumps(data).encode()
    found = failure(status, parse_body(body), body, url="http://x", retry_after=None, final=False)
    assert status < 300 or isinstance(found, ModelError)
    if found is not None:
        str(found).encode()
    tokens = read_tokens(data)
    assert tokens is None or min(tokens.prompt, tokens.completion) >= 0


@given(st.binary())
def test_any_body_is_json_or_nothing(body: bytes) -> None:
    data = parse_body(body)
    found = failure(200, data, body, url="http://x", retry_after=None, final=False)
    assert (found is None) == (
        data is not None and not (isinstance(data, dict) and "error" in data)
    )


texts = st.text(st.characters(exclude_categories=["Cs"]))
prose = texts.filter(lambda text: not set(text) & set("[]{}`<>"))
objects = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-9, 9) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@given(value=objects, before=prose, after=prose, ascii_only=st.booleans(), fenced=st.booleans())
def test_a_value_in_prose_or_a_fence_is_found_exactly(
    value: Any, before: str, after: str, ascii_only: bool, fenced: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    if fenced:
        assume("```" not in text)
        text = f"\n```json\n{text}\n```\n"
    assert extract_json(before + text + after, {"type": "object"}) == value


@given(objects, st.data())
def test_a_value_that_is_cut_short_is_never_taken_for_another(value: Any, data: Any) -> None:
    text = json.dumps({"rows": [value, value]})
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(Malformed):
        extract_json(text[:cut], {"type": "object"})


@given(texts)
def test_text_is_json_or_malformed_and_nothing_else(text: str) -> None:
    try:
        extract_json(text, {})
    except Malformed as problem:
        assert len(problem.excerpt) <= 201


def test_a_schema_is_closed_and_complete_at_every_depth_and_its_data_are_left_alone() -> None:
    schema = {
        "$defs": {"required": {"type": "object", "properties": {"default": {"type": "string"}}}},
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": {"$ref": "#/$defs/required"}, "default": []},
            "either": {"anyOf": [{"type": "object", "properties": {}}, {"type": "null"}]},
            "pick": {"enum": [{"default": 1}, "a"], "default": "a"},
        },
    }
    closed = strict(schema)
    assert closed["required"] == ["rows", "either", "pick"]
    assert closed["additionalProperties"] is False
    inner = closed["$defs"]["required"]
    assert inner["properties"] == {"default": {"type": "string"}}
    assert (inner["required"], inner["additionalProperties"]) == (["default"], False)
    assert closed["properties"]["either"]["anyOf"][0]["additionalProperties"] is False
    assert closed["properties"]["pick"] == {"enum": [{"default": 1}, "a"]}
    assert strict(closed) == closed


def test_braces_in_messages_and_schemas_stay_as_they_are() -> None:
    text = 'Use {"a": 1} or {b}? {0.__class__}'
    schema = {"type": "object", "properties": {text: {"type": "string"}}}
    (told,) = told_schema((Message("user", text),), schema)
    assert told.text.startswith(text)
    assert json.loads(told.text.split("JSON schema:\n")[1]) == schema
    _, own = told_schema((Message("assistant", "Yes?"),), schema)[-2:]
    assert own.role == "user"


def test_an_excerpt_is_short_and_commands_no_terminal() -> None:
    shown = excerpt("a\n\x1b[31m" + "b" * 10_000)
    assert shown.startswith("a \\x1b[31mb")
    assert len(shown) == 201
