"""Requests and completions: one JSON form, addresses that tell apart what differs."""

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core.errors import InvalidInput, InvalidSetting, InvalidText
from llm_oracles.models import Completion, Message, Request, TokenScore, TokenScores, Usage
from llm_oracles.models.values import (
    canonical_json,
    completion_from_data,
    completion_to_data,
    content_address,
)

HELLO = Request((Message("user", "Hello"),))

usages = st.builds(
    Usage,
    *[st.integers(0, 10**6)] * 5,
    cost=st.none() | st.integers(0, 2**20).map(lambda n: n / 64),
)
completions = st.builds(
    Completion,
    text=st.text(st.characters(exclude_categories=["Cs"])),
    data=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=2)
        ),
        max_leaves=5,
    ),
    finish_reason=st.none() | st.just("stop"),
    usage=usages,
    model=st.text("abc"),
    formats=st.lists(st.sampled_from(["json_schema", "text"]), max_size=2).map(tuple),
    token_logprobs=st.none()
    | st.lists(
        st.builds(TokenScore, st.text("ab"), st.floats(-9, 0), st.just((("a", -0.5),))), max_size=2
    ).map(tuple),
)


@given(completions)
def test_a_completion_survives_its_json_form(completion: Completion) -> None:
    text = canonical_json(completion_to_data(completion))
    assert completion_from_data(json.loads(text)) == completion


@given(usages, usages, usages)
def test_usages_add_up_in_any_order_and_nothing_changes_nothing(
    a: Usage, b: Usage, c: Usage
) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Usage() == a


@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"text": 3}, {"text": "x", "usage": {"prompt_tokens": "many"}}],
    ids=str,
)
def test_data_that_are_no_completion_are_refused(data: object) -> None:
    with pytest.raises(InvalidInput, match="no completion"):
        completion_from_data(data)


def test_whatever_the_reply_depends_on_gives_another_address() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"temperature": 0.7},
        {"temperature": None},
        {"seed": 1},
        {"seed": 2},
        {"max_tokens": 9},
        {"top_logprobs": 2},
        {"schema": {"type": "object"}},
        {"schema": {"type": "array"}},
        {"schema": {"type": "object", "title": "t"}},
        {"schema": {"title": "t", "type": "object"}},
        {"sample": 1},
        {"messages": (Message("system", "Hello"),)},
        {"messages": (Message("user", "Hello"), Message("user", ""))},
    ]
    requests = [dataclasses.replace(HELLO, **change) for change in changes]
    addresses = {content_address(request, who) for request in requests for who in ("a", "b")}
    assert len(addresses) == 2 * len(changes)


def test_what_the_reply_does_not_depend_on_leaves_the_address() -> None:
    first = dataclasses.replace(HELLO, purpose="priors")
    second = dataclasses.replace(HELLO, purpose="questions")
    assert content_address(first, "a") == content_address(second, "a")


def test_a_message_that_cannot_be_sent_is_refused_where_it_is_made() -> None:
    with pytest.raises(InvalidText, match="position 2"):
        Message("user", "ab\ud800")


@pytest.mark.parametrize(
    "change",
    [
        {"messages": ()},
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"max_tokens": 0},
        {"top_logprobs": -1},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        dataclasses.replace(HELLO, **change)


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": {1, 2}}], ids=str)
def test_values_without_a_json_text_are_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="no JSON text"):
        canonical_json(value)


def test_scores_need_a_number_for_each_token() -> None:
    with pytest.raises(InvalidInput, match="2 tokens, but 1"):
        TokenScores(("a", "b"), (-1.0,))
