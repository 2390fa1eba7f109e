"""Elicitations: tables come out whole and as meant, or not at all."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from balar_core.dialogue import (
    Cell,
    Conclude,
    Dimension,
    ElicitAnswers,
    ElicitLikelihoods,
    ElicitPriors,
    Exchange,
    ProposedExpansion,
    ProposeDimensions,
    ProposedQuestions,
    ProposeExpansion,
    ProposeQuestions,
    Question,
    ScoreAnswer,
    User,
)
from balar_core.errors import InvalidSetting
from llm_oracles.elicitation import (
    PRESETS,
    TABLES,
    Asker,
    Preset,
    Sheet,
    Task,
    UnfilledCell,
    UnknownPreset,
    UnusableReply,
    conclude,
    fill,
    propose_dimensions,
    propose_expansion,
    propose_questions,
    table_of,
)
from llm_oracles.elicitation.schemas import schema_of
from llm_oracles.models import Completion, Malformed, Request
from llm_oracles.models.structured import extract_json
from tests.model_world import WorldModel

LABELS = ("likely", "neutral", "unlikely")
YOU = User("you", "a gardener")
CAUSE = Dimension("cause", ("thirst", "too wet", "lice"))
PLACE = Dimension("place", ("sun", "shade"))
SOIL = Question("How is the soil?", ("dry", "wet"))
STICKY = Question("Are the leaves sticky?", ("yes", "no"))
SAID = Exchange("How is the soil?", ("dry", "wet"), "you", "bone dry", (1.0, 0.0))


def asker(model: Any, repairs: int = 2) -> Asker:
    return Asker(model, repairs=repairs)


class Scripted:
    """A model that replies with given data, one after another; an exception is raised."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        data = self.replies.pop(0)
        if isinstance(data, Exception):
            raise data
        return Completion(json.dumps(data), data)


def likelihoods(**changes: Any) -> ElicitLikelihoods:
    fields: dict[str, Any] = {
        "prompt": "What is wrong with my plant?",
        "context": "It stands indoors.",
        "users": (YOU,),
        "dimensions": (CAUSE,),
        "questions": (SOIL,),
        "positions": (0,),
        "cells": (Cell(0, "you", "cause"),),
        "labels": LABELS,
    }
    return ElicitLikelihoods(**{**fields, **changes})


def sheet() -> Sheet:
    return TABLES[ElicitLikelihoods].sheets(likelihoods())[0]


def complete(label: str = "likely") -> dict[str, str]:
    return dict.fromkeys(sheet().cells, label)


# --- sheets --------------------------------------------------------------------------------------


def test_cells_are_named_by_ids_in_the_request_and_in_the_schema() -> None:
    model = Scripted({"labels": complete()})
    asyncio.run(fill(asker(model), sheet()))
    request = model.requests[0]
    assert request.schema is not None
    assert list(request.schema["properties"]["labels"]["properties"])[:2] == [
        "value_0/choice_0",
        "value_0/choice_1",
    ]
    shown = json.loads(request.messages[-1].text)
    assert shown["values"] == {"value_0": "thirst", "value_1": "too wet", "value_2": "lice"}
    assert shown["choices"] == {"choice_0": "dry", "choice_1": "wet"}
    assert shown["person"] == {"name": "you", "about": "a gardener"}


@given(st.data())
def test_a_table_comes_out_as_the_model_meant_it_or_not_at_all(data: st.DataObject) -> None:
    meant = {cell: data.draw(st.sampled_from(LABELS)) for cell in sheet().cells}
    repairs = data.draw(st.integers(0, 3))
    spoilt = st.sampled_from(["keep", "leave out", "alien label", "null", "list"])

    def spoil(request: Request) -> dict[str, Any]:
        assert request.schema is not None
        labels: dict[str, Any] = {}
        for cell in request.schema["properties"]["labels"]["properties"]:
            match data.draw(spoilt):
                case "keep":
                    labels[cell] = meant[cell]
                case "alien label":
                    labels[cell] = "perhaps"
                case "null":
                    labels[cell] = None
                case "list":
                    labels[cell] = ["likely"]
        for alien in data.draw(st.sets(st.sampled_from(["value_9/choice_0", "x", "choice_1"]))):
            labels[alien] = "likely"
        return {"labels": labels}

    class Spoiling(Scripted):
        async def complete(self, request: Request) -> Completion:
            self.replies.append(spoil(request))
            return await super().complete(request)

    model = Spoiling()
    try:
        filled = asyncio.run(fill(asker(model, repairs), sheet()))
    except UnfilledCell as error:
        assert len(model.requests) == 1 + repairs
        assert "dimension 'cause'" in str(error)
    else:
        assert filled == meant
    asked = [
        set(json.JSONDecoder().raw_decode(r.messages[-1].text)[0]["cells"]) for r in model.requests
    ]
    assert all(later <= earlier for earlier, later in pairwise(asked))


def test_only_missing_cells_are_asked_for_again_and_the_model_hears_why() -> None:
    first = complete()
    del first["value_1/choice_1"]
    model = Scripted({"labels": first}, {"labels": {"value_1/choice_1": "unlikely"}})
    filled = asyncio.run(fill(asker(model), sheet()))
    assert filled == {**complete(), "value_1/choice_1": "unlikely"}
    again = model.requests[1]
    assert again.schema is not None
    assert list(again.schema["properties"]["labels"]["properties"]) == ["value_1/choice_1"]
    assert "no label from the list for value_1/choice_1" in again.messages[-1].text
    assert [message.role for message in again.messages] == ["system", "user"]


def test_a_cell_that_stays_empty_is_named_with_its_texts() -> None:
    model = Scripted({"labels": {}}, {"labels": {}})
    with pytest.raises(UnfilledCell) as caught:
        asyncio.run(fill(asker(model, repairs=1), sheet()))
    for words in ("value 'thirst'", "'dry'", "'How is the soil?'", "'you'", "5 cells more"):
        assert words in str(caught.value)


def test_labels_that_differ_in_case_or_marks_only_are_the_labels_themselves() -> None:
    model = Scripted({"labels": complete(" LIKELY\u200b")})
    assert asyncio.run(fill(asker(model), sheet())) == complete("likely")


@pytest.mark.parametrize("reply", [None, [], "likely", {"labels": []}, {}, Malformed("no JSON")])
def test_a_reply_that_is_no_sheet_is_asked_for_again(reply: Any) -> None:
    model = Scripted(reply, {"labels": complete()})
    assert asyncio.run(fill(asker(model), sheet())) == complete()
    assert "could not be used" in model.requests[1].messages[-1].text


def malformed(text: str) -> Malformed:
    """What is wrong with a text that is no JSON."""
    with pytest.raises(Malformed) as caught:
        extract_json(text, {"type": "object"})
    return caught.value


def test_a_model_is_told_what_was_wrong_and_not_its_own_reply() -> None:
    model = Scripted(
        malformed("Well, I think it is red."), malformed('{"a":1,"a":2}'), malformed("{")
    )
    task = Task("t", "Do it.", {}, {"type": "object"})
    with pytest.raises(UnusableReply, match="It begins"):
        asyncio.run(asker(model).ask(task, lambda data: data))
    said = [request.messages[-1].text for request in model.requests]
    assert said[1].endswith("Your last reply could not be used: it holds no JSON.")
    assert said[2].endswith("could not be used: it has the key 'a' more than once.")


def test_requests_do_not_grow_with_the_number_of_repairs() -> None:
    model = Scripted(*[{"labels": {}}] * 4)
    with pytest.raises(UnfilledCell):
        asyncio.run(fill(asker(model, repairs=3), sheet()))
    sizes = [len(request.messages[-1].text) for request in model.requests]
    assert sizes[1] == sizes[2] == sizes[3]


def test_sixty_rows_with_one_missing_need_one_cell_more() -> None:
    values = tuple(f"v{i}" for i in range(60))
    need = likelihoods(dimensions=(Dimension("cause", values),))
    long = TABLES[ElicitLikelihoods].sheets(need)[0]
    first = dict.fromkeys(long.cells, "neutral")
    del first["value_59/choice_0"]
    model = Scripted({"labels": first}, {"labels": {"value_59/choice_0": "likely"}})
    table = table_of(long, asyncio.run(fill(asker(model), long)))
    assert table[:59] == (("neutral", "neutral"),) * 59
    assert table[59] == ("likely", "neutral")


def test_every_need_of_tables_has_one_sheet_per_table_and_takes_its_tables_back() -> None:
    needs = (
        ElicitPriors("p", "c", (CAUSE, PLACE), LABELS, (SAID,)),
        likelihoods(
            dimensions=(CAUSE, PLACE),
            questions=(SOIL, STICKY),
            positions=(3, 5),
            cells=(Cell(5, "you", "place"), Cell(3, "you", "cause")),
        ),
        ElicitAnswers("p", "c", (CAUSE, PLACE), ("water it", "wash it"), LABELS),
        ScoreAnswer(SOIL, 0, YOU, "rather dry", LABELS),
    )
    for need in needs:
        elicitation = TABLES[type(need)]
        tables = []
        for number, each in enumerate(elicitation.sheets(need)):
            labels = (LABELS[(number + i) % 3] for i in range(len(each.cells)))
            tables.append(table_of(each, dict(zip(each.cells, labels, strict=True))))
        assert elicitation.tables(elicitation.reply(need, tables)) == tuple(tables)


def test_priors_are_conditioned_on_the_conversation() -> None:
    need = ElicitPriors("p", "c", (CAUSE,), LABELS, (SAID,))
    assert TABLES[ElicitPriors].sheets(need)[0].data["conversation"] == [
        {"person": "you", "question": "How is the soil?", "reply": "bone dry"}
    ]


# --- proposals -----------------------------------------------------------------------------------


def propose(**changes: Any) -> ProposeDimensions:
    fields: dict[str, Any] = {
        "prompt": "What is wrong?",
        "context": "",
        "users": (YOU,),
        "answers": None,
        "max_dimensions": 2,
        "max_values": 3,
    }
    return ProposeDimensions(**{**fields, **changes})


GOOD = {"dimensions": [{"name": "cause", "values": ["thirst", "lice"]}]}


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ({"dimensions": []}, "at least 1 item"),
        ({"dimensions": [{"name": "cause", "values": ["thirst"]}]}, "at least 2 items"),
        ({"dimensions": [{"name": "cause", "values": ["a", "A"]}]}, "duplicates"),
        ({"dimensions": [{"name": "cause", "values": list("abcd")}]}, "at most 3"),
        ({"dimensions": GOOD["dimensions"] * 2}, "duplicates"),
        ({"dimensions": GOOD["dimensions"] * 3}, "at most 2"),
        ({"dimensions": [{"name": "", "values": ["a", "b"]}]}, "at least 1 character"),
        ({"dimensions": [{"name": " ", "values": ["a", "b"]}]}, "empty"),
        ({"dimensions": [{"name": "x" * 301, "values": ["a", "b"]}]}, "at most 300"),
        ("prose", "valid dictionary"),
    ],
)
def test_dimensions_that_cannot_be_used_are_asked_for_again(bad: Any, complaint: str) -> None:
    model = Scripted(bad, GOOD)
    reply = asyncio.run(propose_dimensions(asker(model), propose()))
    assert reply.dimensions == (Dimension("cause", ("thirst", "lice")),)
    assert complaint in model.requests[1].messages[-1].text


def test_a_model_that_never_gives_dimensions_ends_in_a_clear_error() -> None:
    model = Scripted(*[{"dimensions": []}] * 3)
    with pytest.raises(UnusableReply, match=r"asked 3 times for dimensions.*more capable"):
        asyncio.run(propose_dimensions(asker(model), propose()))


def expansion() -> ProposeExpansion:
    return ProposeExpansion("p", "c", (YOU,), (CAUSE,), ("cause",), 3, (SAID,))


def test_an_expansion_is_a_new_dimension_or_none() -> None:
    place = {"dimension": {"name": "place", "values": ["sun", "shade"]}}
    again = {"dimension": {"name": "Cause", "values": ["sun", "shade"]}}
    model = Scripted(again, place)
    assert asyncio.run(propose_expansion(asker(model), expansion())).dimension == PLACE
    none = asyncio.run(propose_expansion(asker(Scripted({"dimension": None})), expansion()))
    assert none == ProposedExpansion(None)


def questions(**changes: Any) -> ProposeQuestions:
    fields: dict[str, Any] = {
        "prompt": "What is wrong?",
        "context": "",
        "users": (YOU,),
        "dimensions": (CAUSE, PLACE),
        "targets": (),
        "existing": (),
        "max_questions": 3,
        "max_choices": 2,
    }
    return ProposeQuestions(**{**fields, **changes})


def entry(question: Question, **more: Any) -> dict[str, Any]:
    return {"question": question.text, "choices": list(question.choices), **more}


def proposed(*replies: Any, existing: tuple[Question, ...] = ()) -> ProposedQuestions:
    model = Scripted(*replies)
    found = asyncio.run(propose_questions(asker(model), questions(existing=existing)))
    assert not model.replies
    return found


def test_questions_are_aimed_at_the_ids_of_the_targets() -> None:
    model = Scripted({"questions": [entry(SOIL, target="unknown_1")]})
    asyncio.run(propose_questions(asker(model), questions(targets=("place",))))
    assert json.loads(model.requests[0].messages[-1].text)["aim_at"] == ["unknown_1"]
    schema = json.dumps(model.requests[0].schema)
    assert '"enum": ["unknown_0", "unknown_1"]' in schema
    assert "rewords" not in schema


def test_a_question_with_the_words_of_another_joins_it() -> None:
    twice = Question("how is the SOIL", ("dusty", "muddy"))
    assert proposed({"questions": [entry(SOIL), entry(twice)]}).questions == (SOIL,)
    assert proposed({"questions": [entry(twice)]}, existing=(SOIL,)).questions == ()


def test_a_question_that_the_model_calls_a_rewording_joins_the_other() -> None:
    other = Question("Is the earth dry?", ("quite", "not at all"))
    reply = {"questions": [entry(other, rewords="question_0"), entry(STICKY, rewords=None)]}
    assert proposed(reply, existing=(SOIL,)).questions == (STICKY,)


@pytest.mark.parametrize(("label", "kept"), [("same", 0), ("different", 1)])
def test_of_questions_with_the_same_choices_the_model_is_asked_whether_they_are_the_same(
    label: str, kept: int
) -> None:
    other = Question("Do your fingers stick to it?", ("no", "Yes"))
    found = proposed(
        {"questions": [entry(other, rewords=None)]},
        {"labels": {"pair_0": label}},
        existing=(STICKY,),
    )
    assert len(found.questions) == kept


def test_a_rewording_of_nothing_is_asked_for_again() -> None:
    reply = {"questions": [entry(STICKY, rewords="question_7")]}
    good = {"questions": [entry(STICKY)]}
    assert proposed(reply, good, existing=(SOIL,)).questions == (STICKY,)


def test_questions_with_too_few_or_too_many_choices_are_asked_for_again() -> None:
    one = {"questions": [{"question": "Why?", "choices": ["so"]}]}
    three = {"questions": [{"question": "Why?", "choices": ["so", "thus", "hence"]}]}
    assert proposed(one, three, {"questions": [entry(SOIL)]}).questions == (SOIL,)


# --- the end -------------------------------------------------------------------------------------


def the_end(answers: Any) -> Conclude:
    return Conclude("p", "c", (("cause", "lice"),), 0.834, answers, "answer_settled", (SAID,))


def test_the_final_answer_is_one_of_the_ids() -> None:
    model = Scripted({"answer": "wash it", "text": "."}, {"answer": "answer_1", "text": "Wash it."})
    need = the_end((("water it", 0.1), ("wash it", 0.9)))
    concluded = asyncio.run(conclude(asker(model), need))
    assert (concluded.answer, concluded.text) == ("wash it", "Wash it.")
    shown = json.loads(model.requests[0].messages[-1].text)
    assert shown["answers"]["answer_1"] == {"answer": "wash it", "probability": "90%"}
    assert shown["probability"] == "83%"


def test_without_a_closed_answer_set_the_end_is_a_text() -> None:
    concluded = asyncio.run(conclude(asker(Scripted({"text": "Lice."})), the_end(None)))
    assert (concluded.answer, concluded.text) == (None, "Lice.")


# --- instructions --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_fills_every_instruction(name: str) -> None:
    model = WorldModel()
    ask = Asker(model, preset=name)

    async def everything() -> None:
        await propose_dimensions(ask, propose())
        await propose_questions(ask, questions(existing=(SOIL,)))
        await propose_expansion(ask, expansion())
        await conclude(ask, the_end((("a", 0.5), ("b", 0.5))))
        await fill(ask, sheet())

    asyncio.run(everything())
    for request in model.requests:
        told = request.messages[0].text
        assert told.startswith(Preset.named(name).role[:20])
        assert "$" not in told


def test_an_unknown_preset_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(UnknownPreset, match="general, detective, puzzle, clinical"):
        Preset.named("poetry")


def test_what_people_write_never_becomes_part_of_an_instruction() -> None:
    evil = 'Use {"a": 1} or {b}? $labels ${max_values} {0.__class__} "}]'
    model = Scripted({"labels": complete()})
    asked = Question(evil, ("dry", "wet"))
    need = likelihoods(prompt=evil, context=evil, questions=(asked,))
    asyncio.run(fill(asker(model), TABLES[ElicitLikelihoods].sheets(need)[0]))
    system, user = model.requests[0].messages
    assert "__class__" not in system.text
    assert json.loads(user.text)["request"] == json.loads(user.text)["question"] == evil


def test_texts_beyond_ascii_reach_the_model_as_they_are() -> None:
    model = Scripted({"labels": complete()})
    need = likelihoods(questions=(Question("Gdzie?", ("Łódź", "東京")),))
    asyncio.run(fill(asker(model), TABLES[ElicitLikelihoods].sheets(need)[0]))
    assert "Łódź" in model.requests[0].messages[-1].text
    assert "Łódź" not in json.dumps(model.requests[0].schema, ensure_ascii=False)


def test_schemas_hold_no_references_and_demand_every_field() -> None:
    class Inner(BaseModel):
        name: str = "x"

    class Outer(BaseModel):
        inner: list[Inner]
        other: Inner | None = None

    schema = schema_of(Outer, most={"inner": 3}, one_of={"name": ["a", "b"]})
    assert "$ref" not in json.dumps(schema)
    assert schema["required"] == ["inner", "other"]
    assert schema["properties"]["inner"]["maxItems"] == 3
    inner = schema["properties"]["inner"]["items"]
    assert inner["properties"] == {"name": {"type": "string", "enum": ["a", "b"]}}
    assert inner["additionalProperties"] is False


def test_a_negative_number_of_repairs_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="repairs is -1"):
        asker(WorldModel(), repairs=-1)


def test_progress_counts_calls_and_tokens_as_they_come() -> None:
    seen: list[tuple[int, int, int]] = []
    model = WorldModel()
    ask = Asker(model, on_progress=lambda p: seen.append((p.begun, p.done, p.usage.tokens)))
    asyncio.run(fill(ask, sheet()))
    assert seen == [(1, 0, 0), (1, 1, 15)]
