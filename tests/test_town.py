"""The town: the same every time, private where it should be, and wrong where people are wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balar_core.probing import Policy, ToolCall
from llm_oracles.facts import Fact
from llm_oracles.town import (
    DAY,
    KINDS,
    TOOLS,
    Activity,
    FailedCall,
    Outlook,
    begin,
    call,
    day,
    make_queries,
    read_words,
    step,
    town_facts,
    values_of,
)
from llm_oracles.town.people import STREET
from llm_oracles.town.tools import HEARSAY, PRIVATE

seeds = st.integers(0, 10_000)


@pytest.fixture(scope="module")
def outlook() -> Outlook:
    return Outlook.learn(range(500, 508))


def test_a_seed_gives_the_same_day_and_another_seed_another() -> None:
    assert day(3) == day(3)
    assert day(3)[-1] != day(4)[-1]
    assert len(day(3)) == DAY


def test_a_step_depends_on_the_moment_alone_and_changes_nothing_in_it() -> None:
    moments = day(3)
    before = repr(moments[20])
    assert step(moments[20]) == moments[21]
    assert repr(moments[20]) == before


@given(seeds)
@settings(max_examples=10)
def test_people_walk_between_places_and_remember_whom_they_met(seed: int) -> None:
    earlier = begin(seed)
    for town in day(seed)[1:]:
        for name in town.names:
            assert town.private[name].strain >= 0
            was, now = earlier.public[name].place, town.public[name].place
            assert was == now or STREET in (was, now)
        for (believer, other), record in town.records.items():
            together = town.public[believer].place == town.public[other].place
            assert believer != other
            if record.tick == town.tick:
                assert together
            else:
                assert record == earlier.records[believer, other]
        assert {e.name for e in town.events} <= set(town.names)
        earlier = town


def test_beliefs_are_mistaken_at_once_or_become_old() -> None:
    fresh, old = [], []
    for seed in range(6):
        for town in day(seed):
            for (_, other), record in town.records.items():
                right = record.availability == town.private[other].availability
                (fresh if record.tick == town.tick else old).append(right)
    assert 0.75 < np.mean(fresh) < 0.85
    assert np.mean(old) < np.mean(fresh) - 0.1


def test_sleepers_do_not_want_to_talk_and_trouble_strains() -> None:
    closed, struck, others = [], [], []
    for seed in range(12):
        for town in day(seed)[1:]:
            recent = {event.name for event in town.events if event.tick == town.tick}
            for name in town.names:
                private = town.private[name]
                if town.public[name].activity is Activity.ASLEEP:
                    closed.append(private.availability == "not at all")
                (struck if name in recent else others).append(private.mood == "strained")
    assert np.mean(closed) > 0.9
    assert np.mean(struck) > np.mean(others) + 0.4


def test_tools_read_the_moment_and_only_private_ones_tell_private_things() -> None:
    town = day(5)[18]
    who, other = town.names[:2]
    for field in PRIVATE:
        wanted = ToolCall.of("private_state_of", person=who, field=field)
        assert call(town, wanted) == {field: str(getattr(town.private[who], field))}
    facts = town_facts(town)
    believed = call(town, ToolCall.of("belief_of", believer=who, about=other))
    assert believed["mood"] == facts[Fact(who, "mood", other)]
    place = town.public[who].place
    assert call(town, ToolCall.of("who_is_at", place=place))[who] == town.public[who].activity
    plan = call(town, ToolCall.of("plan_of", person=who))
    assert plan["activity"] in set(Activity)
    allowed = [tool.name for tool in TOOLS if Policy(withhold=("private.*",)).allows(tool)]
    assert allowed == ["who_is_at", "plan_of", "hearsay_about", "belief_of"]


def test_hearsay_is_right_as_often_as_it_says_and_the_same_when_asked_again() -> None:
    right = []
    for seed in range(8):
        for town in day(seed)[1:]:
            for name in town.names:
                wanted = ToolCall.of("hearsay_about", person=name)
                heard = call(town, wanted)
                assert heard == call(town, wanted)
                right.append(heard["mood"] == town.private[name].mood)
    assert np.mean(right) == pytest.approx(HEARSAY, abs=0.03)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (ToolCall.of("read_minds"), "no tool 'read_minds'"),
        (ToolCall.of("plan_of"), "exactly these arguments: person"),
        (ToolCall.of("plan_of", person="Nobody"), "called 'Nobody'"),
        (ToolCall.of("private_state_of", person="Ivo", field="age"), "no field 'age'"),
    ],
)
def test_calls_that_cannot_be_made_say_what_is_wrong(wanted: ToolCall, words: str) -> None:
    town = day(7)[10]
    assert "Ivo" in town.names
    with pytest.raises(FailedCall, match=words):
        call(town, wanted)


def test_queries_are_of_five_kinds_and_their_answers_are_known() -> None:
    town = day(11)[20]
    queries = make_queries(town, per_kind=4)
    assert [query.kind for query in queries] == [kind for kind in KINDS for _ in range(4)]
    for query in queries:
        assert query.needed
        for fact in query.needed:
            assert query.truth[fact] in values_of(fact)
            assert bool(fact.about) == (query.kind == "second_order")
            assert fact.holder in query.text or fact.holder in town.present(
                read_words(query.text, town.names).place
            )
        assert bool(query.forbidden) == (query.kind == "second_order")


def test_the_same_words_may_stand_for_different_needs(outlook: Outlook) -> None:
    words = read_words("What is Ada doing?", ["Ada", "Ben"])
    assert set(outlook.meant(words)) == {"availability", "mood"}
    assert sum(outlook.meant(words).values()) == pytest.approx(1)
    assert set(outlook.needed(words)) == {("availability", False), ("mood", False)}
    assert outlook.needed(read_words("Never heard", [])) == {}


def test_what_was_counted_in_other_towns_predicts_a_new_one(outlook: Outlook) -> None:
    gains = []
    for seed in range(3):
        town = day(seed)[20]
        for fact, value in town_facts(town).items():
            prior = outlook.prior(town, fact)
            assert prior.sum() == pytest.approx(1)
            gains.append(np.log(prior[values_of(fact).index(value)] * prior.size))
    assert np.mean(gains) > 0.1


def test_readings_describe_what_the_tools_return(outlook: Outlook) -> None:
    town = day(5)[18]
    who, other = town.names[:2]
    facts = [Fact(who, "mood"), Fact(who, "goal"), Fact(who, "availability", other)]
    readings = outlook.readings(town, facts)
    tools = [reading.call.tool for reading in readings]
    assert tools == [
        "private_state_of", "hearsay_about", "private_state_of", "plan_of", "belief_of",
    ]  # fmt: skip
    for reading in readings:
        assert call(town, reading.call)[reading.path[0]] in reading.question.choices
        assert sum(table is not None for table in reading.tables) == 1
