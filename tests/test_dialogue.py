"""The dialogue: a fold over replies that nothing wrong can change."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balar_core import errors
from balar_core.dialogue import (
    Answered,
    CellTable,
    Concluded,
    Dialogue,
    Dimension,
    ElicitedAnswers,
    ElicitedLikelihoods,
    ElicitedPriors,
    ProposedDimensions,
    ProposedExpansion,
    ProposedQuestions,
    Question,
    ScoredAnswer,
    Settings,
    Setup,
    Stopped,
    User,
    from_data,
    need_key,
    to_data,
)
from balar_core.dialogue.codec import loads

from .compilation import compilations
from .scripted_world import ScriptedWorld

YES_NO = Question("Is it so?", ("yes", "no"))
AB = Dimension("d", ("a", "b"))
TABLE = (("likely", "unlikely"), ("unlikely", "likely"))


def begun(
    *,
    settings: Settings | None = None,
    questions: tuple[Question, ...] = (YES_NO,),
    tables: dict[int, object] | None = None,
    **setup: object,
) -> Dialogue:
    """A dialogue over one dimension of two values that is about to ask."""
    d = Dialogue.start(Setup("What now?", settings=settings or Settings(), **setup))
    d = d.tell(ProposedDimensions((AB,)))
    d = d.tell(ElicitedPriors(((0.5, 0.5),)))
    d = d.tell(ProposedQuestions(questions))
    given_tables = tuple(
        CellTable(q, user.name, "d", (tables or {}).get(q, TABLE))
        for q in range(len(questions))
        for user in d.setup.users
    )
    return d.tell(ElicitedLikelihoods(given_tables))


def world_setup(**settings: object) -> Setup:
    return Setup(
        "What is wanted?",
        context="nothing else is known",
        users=(User("ann", "knows a little"), User("bob")),
        answers=("one", "two", "three"),
        settings=Settings(min_information=0.0, alpha=0.01, **settings),
    )


class TestTheFold:
    def test_a_dialogue_asks_until_it_is_finished(self) -> None:
        d = ScriptedWorld(1).play(Dialogue.start(world_setup()))
        assert d.finished
        assert d.outcome is not None
        assert d.conclusion == Concluded("one", "so it is")
        assert len(d.asked) == len(set(d.asked)) == len(d.conversation)
        assert sum(d.answer_posterior().values()) == pytest.approx(1, abs=1e-5)

    @given(seed=st.integers(0, 10**6), cut=st.floats(0, 1))
    def test_resuming_from_any_prefix_equals_the_straight_run(self, seed: int, cut: float) -> None:
        setup = world_setup(max_questions=4)
        straight = ScriptedWorld(seed, expansions=1).play(Dialogue.start(setup))
        at = round(cut * len(straight.replies))
        prefix = Dialogue.replay(setup, straight.replies[:at])
        resumed = Dialogue.from_json(prefix.to_json())
        assert resumed == prefix
        for reply in straight.replies[at:]:
            resumed = resumed.tell(reply)
        assert resumed == straight
        assert resumed.asked == straight.asked
        assert resumed.marginals() == straight.marginals()
        assert resumed.outcome == straight.outcome
        assert np.array_equal(resumed.belief.log_joint, straight.belief.log_joint)

    def test_telling_leaves_the_old_dialogue_as_it_was(self) -> None:
        d = begun()
        before, text = d.marginals(), d.to_json()
        yes, no = d.tell(Answered(choice=0)), d.tell(Answered(choice=1))
        assert d.marginals() == before
        assert d.to_json() == text
        assert yes.marginals()["d"]["a"] == pytest.approx(0.8, abs=1e-6)
        assert no.marginals()["d"]["a"] == pytest.approx(0.2, abs=1e-6)

    def test_needs_that_do_not_wait_for_each_other_come_together(self) -> None:
        d = Dialogue.start(Setup("What now?", answers=("x", "y")))
        d = d.tell(ProposedDimensions((AB,)))
        kinds = [need.kind for need in d.needs]
        assert kinds == ["elicit_priors", "propose_questions", "elicit_answers"]
        priors = ElicitedPriors((("likely", "likely"),))
        answers = ElicitedAnswers((TABLE,))
        questions = ProposedQuestions((YES_NO,))
        one = d.tell(priors).tell(questions).tell(answers)
        other = d.tell(answers).tell(questions).tell(priors)
        assert one.needs == other.needs
        assert one.need.kind == "elicit_likelihoods"

    def test_back_is_the_dialogue_before_the_last_answer(self) -> None:
        d = begun(questions=(YES_NO, Question("Really?", ("yes", "no"))))
        assert d.tell(Answered(choice=0)).back() == d
        assert d.tell(Answered(reply="well, you know")).back() == d
        with pytest.raises(errors.UnexpectedReply, match="nothing to undo"):
            d.back()

    def test_every_need_survives_json(self) -> None:
        seen = set()

        def check(dialogue: Dialogue) -> None:
            for need in dialogue.needs:
                seen.add(need.kind)
                assert from_data(json.loads(json.dumps(to_data(need)))) == need

        setup = world_setup()
        check(Dialogue.start(setup))
        for seed in range(4):
            ScriptedWorld(seed, expansions=1).play(Dialogue.start(setup), each=check)
        assert len(seen) == 9

    def test_need_keys_ignore_what_inference_computed(self) -> None:
        ask = begun().need
        assert need_key(ask) == need_key(dataclasses.replace(ask, information=0.5, expected=()))
        assert need_key(ask) != need_key(dataclasses.replace(ask, position=3))


class TestTheDecision:
    def test_an_asked_pair_is_never_asked_again(self) -> None:
        users = (User("ann"), User("bob"))
        d = begun(settings=Settings(alpha=1e-6), users=users)
        asked = []
        while d.need.kind == "ask":
            asked.append((d.need.position, d.need.user.name))
            d = d.tell(Answered(unknown=True))
            if d.need.kind == "propose_expansion":
                d = d.tell(ProposedExpansion(None))
        assert asked == [(0, "ann"), (0, "bob")]
        assert d.outcome.reason == "nothing_informative"

    def test_a_question_that_is_settled_is_not_asked_and_the_reason_is_shown(self) -> None:
        useless = ((0.5, 0.5), (0.5001, 0.4999))
        d = begun(tables={0: useless}, settings=Settings(alpha=1e-6))
        assert d.need.kind == "propose_expansion"
        d = d.tell(ProposedExpansion(None))
        assert d.outcome.reason == "nothing_informative"
        (candidate,) = d.explain().candidates
        assert candidate.state == "settled"
        assert "tells enough" in d.explain().words

    def test_zero_questions_stop_at_once_with_the_best_state(self) -> None:
        d = begun(settings=Settings(max_questions=0))
        assert d.outcome.reason == "question_budget"
        assert d.map_state() == ({"d": "a"}, pytest.approx(0.5))

    def test_no_rounds_stop_at_once(self) -> None:
        assert begun(settings=Settings(max_rounds=0)).outcome.reason == "round_budget"

    def test_stopping_is_possible_at_any_moment(self) -> None:
        assert Dialogue.start(Setup("What now?")).tell(Stopped()).outcome.reason == "stopped"
        d = begun().tell(Stopped("no time"))
        assert d.outcome.words == "Stop: no time."
        assert d.need.kind == "conclude"
        d = d.tell(Concluded())
        with pytest.raises(errors.UnexpectedReply, match="ended already"):
            d.tell(Stopped())

    def test_a_sure_dimension_ends_the_questions(self) -> None:
        d = begun(settings=Settings(alpha=0.25, max_states=3)).tell(Answered(choice=1))
        assert d.outcome.reason == "dimensions_settled"
        assert d.need.state == (("d", "b"),)

    def test_a_target_dimension_is_the_answer(self) -> None:
        d = begun(settings=Settings(alpha=0.25), target="d").tell(Answered(choice=1))
        assert d.outcome.reason == "answer_settled"
        assert d.answer_posterior()["b"] == pytest.approx(0.8, abs=1e-6)
        with pytest.raises(errors.InvalidInput, match="one of 'a', 'b'"):
            d.tell(Concluded("c"))
        with pytest.raises(errors.InvalidSetting, match="'colour' is not among"):
            Dialogue.start(Setup("?", target="colour")).tell(ProposedDimensions((AB,)))

    @pytest.mark.parametrize(("horizon", "kind"), [("questions", "expand"), ("rounds", "ask")])
    def test_the_horizon_is_the_paper_s_unless_the_code_s_is_chosen(
        self, horizon: str, kind: str
    ) -> None:
        # Gap about 0.36 nats, best information about 0.02 nats, 3 questions or 100 rounds left.
        weak = ((0.6, 0.4), (0.4, 0.6))
        settings = Settings(horizon=horizon, max_questions=3, alpha=0.1)
        d = begun(settings=settings, tables={0: weak})
        assert d.explain().action == kind
        assert d.explain().gap > 3 * d.explain().candidates[0].information

    def test_expansion_keeps_the_old_marginals_and_asks_about_the_new_dimension(self) -> None:
        d = begun(settings=Settings(alpha=1e-6, max_questions=1)).tell(
            ProposedExpansion(Dimension("e", ("x", "y", "z")))
        )
        assert [need.kind for need in d.needs] == ["elicit_priors", "propose_questions"]
        assert d.needs[1].targets == ("e", "d")
        before = d.marginals()["d"]
        d = d.tell(ElicitedPriors(((0.2, 0.3, 0.5),)))
        d = d.tell(ProposedQuestions((Question("And e?", ("yes", "no")),)))
        assert {(c.question, c.dimension) for c in d.need.cells} == {(0, "e"), (1, "d"), (1, "e")}
        row = ("likely", "unlikely")
        d = d.tell(
            ElicitedLikelihoods(
                (
                    CellTable(0, "you", "e", None),
                    CellTable(1, "you", "d", None),
                    CellTable(1, "you", "e", (row, row, tuple(reversed(row)))),
                )
            )
        )
        assert d.marginals()["d"] == pytest.approx(before, abs=1e-6)
        assert d.marginals()["e"] == pytest.approx({"x": 0.2, "y": 0.3, "z": 0.5}, abs=1e-6)

    def test_an_answer_to_another_open_question_is_taken_in_too(self) -> None:
        d = begun(questions=(YES_NO, Question("Really?", ("yes", "no"))), tables={1: None})
        assert d.need.position == 0
        d = d.tell(Answered(choice=1, position=1))
        assert d.asked == ((1, "you"),)
        with pytest.raises(errors.AlreadyAsked, match=r"'Really\?'"):
            d.tell(Answered(choice=1, position=1))


class TestBadReplies:
    """Each is a specific error that names the thing; nothing changes."""

    @pytest.mark.parametrize(
        ("reply", "error", "match"),
        [
            (Answered(), errors.InvalidEvidence, "empty"),
            (Answered(reply=" "), errors.InvalidEvidence, "empty"),
            (Answered(choice=2), errors.InvalidEvidence, "Choice 2 does not exist"),
            (Answered(choice=-1), errors.InvalidEvidence, "Choice -1"),
            (Answered(choice=True), errors.InvalidEvidence, "position"),
            (Answered(choice=0, unknown=True), errors.InvalidEvidence, "more than one"),
            (Answered(evidence=(1.0,)), errors.InvalidEvidence, "1 entries and .* 2 choices"),
            (Answered(evidence=(0.0, 0.0)), errors.InvalidEvidence, "all zero"),
            (Answered(evidence=(-1.0, 2.0)), errors.InvalidEvidence, "not negative"),
            (Answered(evidence=(float("nan"), 1.0)), errors.InvalidEvidence, "finite"),
            (Answered(evidence=("likely", "maybe")), errors.InvalidLabel, "'maybe'"),
            (Answered(choice=0, position=7), errors.UnknownPair, "no question 7"),
            (Answered(choice=0, user="eve"), errors.UnknownPair, "no user 'eve'"),
            (ScoredAnswer(("likely", "likely")), errors.UnexpectedReply, "waiting for 'answered'"),
            (ProposedDimensions((AB,)), errors.UnexpectedReply, "waiting for 'answered'"),
            (Concluded(), errors.UnexpectedReply, "waiting for 'answered'"),
            ("yes", errors.UnexpectedReply, "'str'"),
        ],
    )
    def test_a_wrong_answer_changes_nothing(
        self, reply: object, error: type[Exception], match: str
    ) -> None:
        d = begun()
        before = d.to_json()
        with pytest.raises(error, match=match):
            d.tell(reply)
        assert d.to_json() == before
        assert d.tell(Answered(choice=0)).asked == ((0, "you"),)

    def test_impossible_evidence_names_the_question_and_the_choice(self) -> None:
        certain = ((1.0, 0.0), (1.0, 0.0))
        d = begun(tables={0: certain}, settings=Settings(min_information=0.0, max_states=3))
        assert d.need.kind == "ask"
        with pytest.raises(errors.ImpossibleEvidence, match=r"'Is it so\?', answer 'no'"):
            d.tell(Answered(choice=1))
        assert d.tell(Answered(choice=0)).asked == ((0, "you"),)

    @pytest.mark.parametrize(
        ("dimensions", "error", "match"),
        [
            ((), errors.InvalidDimension, "no dimension"),
            ((AB, AB), errors.InvalidDimension, "0 and 1 are duplicates"),
            ((AB, Dimension("D ", ("x", "y"))), errors.InvalidDimension, "duplicates"),
            (
                (Dimension("d", ("1", "2", "3", "4", "5")),),
                errors.InvalidDimension,
                "max_values is 4",
            ),
            (
                tuple(Dimension(f"d{i}", ("x", "y")) for i in range(6)),
                errors.InvalidDimension,
                "max_dimensions is 5",
            ),
        ],
    )
    def test_wrong_dimensions_are_refused(
        self, dimensions: tuple[Dimension, ...], error: type[Exception], match: str
    ) -> None:
        d = Dialogue.start(Setup("What now?"))
        with pytest.raises(error, match=match):
            d.tell(ProposedDimensions(dimensions))
        assert d.need.kind == "propose_dimensions"

    def test_a_space_over_the_cap_says_how_large_and_what_to_do(self) -> None:
        d = Dialogue.start(Setup("What now?", settings=Settings(max_states=100)))
        four = tuple(Dimension(f"d{i}", ("w", "x", "y", "z")) for i in range(4))
        with pytest.raises(errors.StateSpaceTooLarge, match=r"= 256 joint .* cap is 100 .* raise"):
            d.tell(ProposedDimensions(four))

    @pytest.mark.parametrize(
        ("tables", "match"),
        [
            ((), "1 table.* missing: question 'Is it so"),
            ((CellTable(0, "you", "d", TABLE),) * 2, "two tables for question 'Is it so"),
            ((CellTable(1, "you", "d", TABLE),), "number 1.*not asked"),
            ((CellTable(0, "eve", "d", TABLE),), "user 'eve'.*not asked"),
            ((CellTable(0, "you", "e", TABLE),), "dimension 'e'; it was not asked"),
            ((CellTable(0, "you", "d", TABLE[:1]),), "1 rows for 2 values"),
            ((CellTable(0, "you", "d", (("likely",),) * 2),), "has 1 entries; 2 are needed"),
            ((CellTable(0, "you", "d", (("maybe", "likely"),) * 2),), "label 'maybe'"),
            ((CellTable(0, "you", "d", ((0.6, 0.6),) * 2),), "sums to 1.2"),
            ((CellTable(0, "you", "d", ((-0.1, 1.1),) * 2),), "not negative"),
            ((CellTable(0, "you", "d", ((0.0, 0.0),) * 2),), "all zero"),
            ((CellTable(0, "you", "d", ((1.0, "likely"),) * 2),), "mixes labels and numbers"),
        ],
    )
    def test_wrong_tables_are_refused(self, tables: tuple[CellTable, ...], match: str) -> None:
        d = Dialogue.start(Setup("What now?")).tell(ProposedDimensions((AB,)))
        d = d.tell(ElicitedPriors(((0.5, 0.5),))).tell(ProposedQuestions((YES_NO,)))
        with pytest.raises(errors.InvalidInput, match=match):
            d.tell(ElicitedLikelihoods(tables))
        assert d.tell(ElicitedLikelihoods((CellTable(0, "you", "d", TABLE),))).need.kind == "ask"

    def test_zeros_that_contradict_each_other_name_the_states(self) -> None:
        other = Dimension("e", ("x", "y", "z"))
        d = Dialogue.start(Setup("What now?")).tell(ProposedDimensions((AB, other)))
        d = d.tell(ElicitedPriors(((0.5, 0.5), (0.2, 0.3, 0.5))))
        d = d.tell(ProposedQuestions((YES_NO,)))
        first, second = ((1.0, 0.0), (0.0, 1.0)), ((0.0, 1.0), (0.5, 0.5), (1.0, 0.0))
        with pytest.raises(errors.InvalidTable, match="d='a', e='x'; d='b', e='z'"):
            d.tell(
                ElicitedLikelihoods(
                    (CellTable(0, "you", "d", first), CellTable(0, "you", "e", second))
                )
            )

    def test_a_question_that_exists_already_is_refused(self) -> None:
        d = begun(settings=Settings(alpha=1e-6, max_questions=1))
        d = d.tell(ProposedExpansion(Dimension("e", ("x", "y"))))
        with pytest.raises(errors.InvalidQuestion, match="duplicates"):
            d.tell(ProposedQuestions((Question("is it  so?", ("yes", "no")),)))

    @pytest.mark.parametrize(
        ("setting", "value"),
        [
            ("alpha", float("nan")),
            ("alpha", -0.1),
            ("alpha", 1.5),
            ("beta", "1"),
            ("noise", True),
            ("horizon", "forever"),
            ("max_questions", -1),
            ("max_states", 1.5),
            ("min_information", float("inf")),
        ],
    )
    def test_settings_out_of_range_are_named(self, setting: str, value: object) -> None:
        with pytest.raises(errors.InvalidSetting, match=setting):
            Settings(**{setting: value})


class TestSavedDialogues:
    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ("", "Not JSON"),
            ("[]", 'no "format"'),
            ('{"format": "balar-dialogue", "version": 99}', "version 99"),
            ('{"format": "balar-dialogue", "version": 1}', "setup is None"),
            ("[" * 100_000, "nested too deeply"),
            (b"\xff", "Not UTF-8"),
        ],
    )
    def test_what_is_not_a_dialogue_is_refused_with_the_reason(
        self, text: str | bytes, match: str
    ) -> None:
        with pytest.raises(errors.CorruptDialogue, match=match):
            Dialogue.from_json(text)

    def test_a_damaged_reply_is_named_by_its_number(self) -> None:
        data = json.loads(begun().to_json())
        data["replies"][1]["priors"][0][0] = 0.9
        with pytest.raises(errors.CorruptDialogue, match=r"Reply 1 \(elicited_priors\).*sums"):
            Dialogue.from_json(json.dumps(data))
        data["replies"][1]["colour"] = "red"
        with pytest.raises(errors.CorruptDialogue, match=r"Reply 1.*unknown field 'colour'"):
            Dialogue.from_json(json.dumps(data))

    def test_json_is_strict(self) -> None:
        for text, match in (
            ('{"a": NaN}', "NaN"),
            ('{"a": 1, "a": 2}', "'a' stands twice"),
            ('{"a": 1e999}', None),
        ):
            if match is None:
                assert loads(text)["a"] == float("inf")
            else:
                with pytest.raises(errors.InvalidInput, match=match):
                    loads(text)
        with pytest.raises(errors.InvalidInput, match="finite"):
            from_data({"kind": "scored_answer", "evidence": [1e999, 1]})

    def test_text_beyond_ascii_is_kept_as_it_is(self) -> None:
        question = Question("Où est Łódź?", ("là-bas", "{0.__class__}"))
        d = begun(questions=(question,))
        assert "Łódź" in d.to_json()
        assert Dialogue.from_json(d.to_json()).questions == (question,)


class TestCompilation:
    def test_ten_expansions_compile_little_and_a_second_dialogue_nothing(self) -> None:
        def play(seed: int) -> Dialogue:
            settings = Settings(
                max_states=10**6,
                alpha=1e-9,
                min_information=0.0,
                expand_multiplier=0.02,
                max_questions=10,
            )
            world = ScriptedWorld(seed, expansions=10)
            return world.play(Dialogue.start(Setup("What now?", settings=settings)))

        with compilations() as first:
            d = play(0)
        assert len(d.dimensions) == 13
        assert len(d.asked) == 10
        assert first[0] <= 16
        with compilations() as second:
            d = play(1)
        assert len(d.dimensions) == 13
        assert second[0] == 0

    def test_thresholds_do_not_compile(self) -> None:
        begun().tell(Answered(choice=0)).explain()
        with compilations() as count:
            for alpha in (0.05, 0.1, 0.2):
                settings = Settings(alpha=alpha, min_information=alpha / 100, max_questions=9)
                begun(settings=settings).tell(Answered(choice=1)).explain()
        assert count[0] == 0
