"""A whole dialogue with a person: explaining, going back, saving, resuming, concluding."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from balar_core.dialogue import Answered, Dialogue
from balar_core.errors import CorruptDialogue, ImpossibleEvidence
from llm_oracles.history import ChangedProblem, check_unchanged, steps
from llm_oracles.human import EndOfAnswers, Keyboard
from llm_oracles.problem import Problem, parse
from llm_oracles.render import View, make_console
from llm_oracles.report import dumps, report
from llm_oracles.scripted import AnswerLines
from llm_oracles.session import Ending, Matter, Session
from llm_oracles.store import FileTrouble, free_path, read_dialogue, write_dialogue

PLANT = """
name: plant
prompt: What is wrong with my plant?
dimensions:
  - {name: cause, values: [thirst, "too wet", lice], prior: [0.5, 0.3, 0.2]}
  - {name: place, values: [sun, shade], prior: [0.6, 0.4]}
target: cause
questions:
  - text: How is the soil?
    choices: [dry, wet]
    given: {cause: {thirst: [0.9, 0.1], too wet: [0.05, 0.95], lice: [0.5, 0.5]}}
  - text: Are the leaves sticky?
    choices: [yes, no]
    given: {cause: {thirst: [0.05, 0.95], too wet: [0.05, 0.95], lice: [0.9, 0.1]}}
  - text: Do the leaves bend to the window?
    choices: [yes, no]
    given: {place: {sun: [0.2, 0.8], shade: [0.8, 0.2]}}
  - text: Is the pot heavy?
    choices: [yes, no]
    given: {cause: {thirst: [0.2, 0.8], too wet: [0.8, 0.2], lice: [0.5, 0.5]}}
settings: {max_questions: 4, alpha: 0.01}
"""

BALL = """
name: ball
prompt: Which ball was drawn?
dimensions: [{name: ball, values: [red, green, blue]}]
questions:
  - text: Is it red?
    choices: [yes, no]
    given: {ball: {red: [1, 0], green: [0, 1], blue: [0, 1]}}
  - text: Which letter is on it?
    choices: [A, B, C]
    given: {ball: {red: [0.2, 0.4, 0.4], green: [0, 0.6, 0.4], blue: [0, 0.4, 0.6]}}
"""
"""Only red balls can have an A, so that "no" and then "A" contradict each other."""


@pytest.fixture
def plant() -> Problem:
    return parse(PLANT, "plant.yaml")


def make_view() -> View:
    console = make_console(io.StringIO(), plain=True)
    console.width = 100
    return View(console, plain=True)


def shown(view: View) -> str:
    assert isinstance(view.console.file, io.StringIO)
    return view.console.file.getvalue()


def start(problem: Problem) -> Dialogue:
    return Dialogue.start(problem.setup())


def written(problem: Problem, text: str, **options: object) -> Session:
    """A session whose answers are written beforehand."""
    source = AnswerLines(io.BytesIO(text.encode()), "answers")
    dialogue = options.pop("dialogue", None) or start(problem)
    return Session(Matter.of_problem(problem), dialogue, source, make_view(), **options)


def typed(problem: Problem, text: str, view: View, **options: object) -> Session:
    """A session with somebody who types."""
    return Session(
        Matter.of_problem(problem),
        start(problem),
        Keyboard(io.StringIO(text), view.console),
        view,
        **options,
    )


def test_session_ends_with_the_answer_and_says_how_it_got_there(plant: Problem) -> None:
    view = make_view()
    session = typed(plant, "dry\nno\nno\nno\n", view)
    assert session.run() is Ending.FINISHED
    assert session.dialogue.finished
    text = shown(view)
    assert text.startswith("What is wrong with my plant?")
    assert "Question 1 of at most 4 - uncertainty 1.70 nats" in text
    assert "How is the soil?" in text
    assert "\nthirst\n" in text
    assert len(session.dialogue.asked) == 4
    assert "Asked 4 of 4 questions." in text
    assert "Most likely as a whole" in text


def test_notes_of_the_author_are_shown_first_and_many_are_counted() -> None:
    notes = ", ".join(f"note {k}" for k in range(8))
    problem, view = parse(PLANT + f"notes: [{notes}]\n", "plant.yaml"), make_view()
    typed(problem, "stop\n", view).run()
    assert shown(view).splitlines()[1:7] == [*(f"note {k}" for k in range(5)), "(3 more notes)"]


def test_belief_is_drawn_only_if_wanted(plant: Problem) -> None:
    view, quiet = make_view(), make_view()
    typed(plant, "dry\nno\nno\nno\n", view).run()
    typed(plant, "dry\nno\nno\nno\n", quiet, show_belief=False).run()
    assert "unchanged: place" in shown(view)
    assert "unchanged" not in shown(quiet)


def test_not_knowing_changes_nothing_and_is_not_asked_again(plant: Problem) -> None:
    session = written(plant, "?\n?\n?\n?\n")
    session.run()
    marginals = session.dialogue.marginals()
    assert marginals["cause"] == pytest.approx({"thirst": 0.5, "too wet": 0.3, "lice": 0.2})
    assert len(set(session.dialogue.asked)) == len(session.dialogue.asked)


def test_why_tells_numbers_dimensions_and_the_runner_up(plant: Problem) -> None:
    view = make_view()
    typed(plant, "why\nstop\n", view).run()
    text = shown(view)
    assert "It is expected to tell" in text
    assert "Taken alone it bears on: cause" in text
    assert "Predicted answers" in text
    assert "Next best: " in text


def test_questions_are_ranked_with_their_state(plant: Problem) -> None:
    view = make_view()
    typed(plant, "dry\nquestions\nstop\n", view).run()
    rows = [line.split() for line in shown(view).splitlines() if " open " in line]
    information = [float(row[0]) for row in rows]
    assert information == sorted(information, reverse=True)
    assert [line for line in shown(view).splitlines() if line.split()[:1] == ["asked"]]


def test_belief_command_shows_every_dimension(plant: Problem) -> None:
    view = make_view()
    typed(plant, "belief\nstop\n", view, show_belief=False).run()
    assert {"cause", "place"} <= set(shown(view).splitlines())


def test_stop_concludes_with_what_is_known(plant: Problem) -> None:
    view = make_view()
    session = typed(plant, "dry\nstop\n", view)
    assert session.run() is Ending.FINISHED
    outcome = session.dialogue.outcome
    assert outcome is not None and outcome.reason == "stopped"
    assert len(session.dialogue.asked) == 1
    assert "Asked 1 of 4 questions: 3 left unasked." in shown(view)
    assert report(session.dialogue, "plant")["questions"] == {"asked": 1, "total": 4, "saved": 0}


def test_questions_that_were_not_needed_are_saved(plant: Problem) -> None:
    view = make_view()
    sure = replace(plant.setup(), settings=replace(plant.setup().settings, alpha=0.3))
    session = Session(
        Matter.of_problem(plant),
        Dialogue.start(sure),
        Keyboard(io.StringIO("dry\n"), view.console),
        view,
    )
    session.run()
    assert "Asked 1 of 4 questions: 3 saved." in shown(view)
    assert report(session.dialogue, "plant")["questions"]["saved"] == 3


def test_going_back_is_as_if_the_answer_had_never_been_given(plant: Problem) -> None:
    straight = written(plant, "dry\nno\nno\nno\n")
    detour = written(plant, "wet\nyes\nback\nback\ndry\nno\nback\nno\nno\nno\n")
    straight.run()
    detour.run()
    assert detour.dialogue.replies == straight.dialogue.replies
    assert detour.dialogue.marginals() == straight.dialogue.marginals()


def test_going_back_before_the_first_answer_is_said_to_be_impossible(plant: Problem) -> None:
    view = make_view()
    typed(plant, "back\nstop\n", view).run()
    assert "Nothing has been answered yet" in shown(view)


def test_impossible_answer_can_be_given_anew() -> None:
    problem, view = parse(BALL, "ball.yaml"), make_view()
    session = typed(problem, "no\nA\nB\n", view)
    session.run()
    assert [r.choice for r in session.dialogue.replies if isinstance(r, Answered)] == [1, 1]
    assert "Answer differently, or go back." in shown(view)


def test_written_answer_that_is_impossible_is_an_error() -> None:
    session = written(parse(BALL, "ball.yaml"), "no\nA\nB\n")
    with pytest.raises(ImpossibleEvidence, match="Which letter"):
        session.run()
    assert len(session.dialogue.asked) == 1


def test_new_distinction_is_announced() -> None:
    problem = parse(
        PLANT
        + """
expansions:
  - name: season
    values: [summer, winter]
    prior: [0.5, 0.5]
    questions:
      - {text: "Is it heated?", choices: [yes, no],
         given: {season: {summer: [0.1, 0.9], winter: [0.9, 0.1]}}}
""",
        "plant.yaml",
    )
    view = make_view()
    session = typed(problem, "2\n2\n2\n2\n", view)
    session.run()
    assert "I needed a new distinction: season (summer, winter)." in shown(view)
    assert "season" in session.dialogue.marginals()


def test_user_who_is_asked_is_named_where_there_are_several() -> None:
    problem = parse(PLANT + "users: [Ann, Bo]\n", "plant.yaml")
    view = make_view()
    typed(problem, "1\nquestions\nstop\n", view).run()
    assert "Question 1 of at most 4 for Ann" in shown(view)
    assert "How is the soil? (Bo)" in shown(view)


def test_texts_of_a_problem_cannot_command_the_terminal() -> None:
    text = PLANT.replace("How is the soil?", r'"How\e[2J [red]is[/] the soil?"')
    text = text.replace("[dry, wet]", r'["dry\a", "\x9bwet"]')
    view = make_view()
    typed(parse(text, "plant.yaml"), "why\nquestions\n1\nstop\n", view).run()
    assert r"How\x1b[2J [red]is[/] the soil?" in shown(view)
    assert not set(shown(view)) & set("\x1b\x07\x9b")


# --- files ---------------------------------------------------------------------------------------


def test_dialogue_is_in_its_file_before_the_first_question_and_after_every_answer(
    plant: Problem, tmp_path: Path
) -> None:
    path = tmp_path / "plant.json"
    with pytest.raises(EndOfAnswers):
        written(plant, "", save=path).run()
    assert len(read_dialogue(path).asked) == 0
    with pytest.raises(EndOfAnswers):
        written(plant, "dry\n", save=path).run()
    assert len(read_dialogue(path).asked) == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("before", [0, 1, 2])
def test_resuming_gives_the_same_as_going_straight_through(
    plant: Problem, tmp_path: Path, before: int
) -> None:
    answers = ["dry", "no", "no", "no"]
    straight = written(plant, "\n".join(answers))
    straight.run()
    path = tmp_path / "plant.json"
    with pytest.raises(EndOfAnswers):
        written(plant, "\n".join(answers[:before]), save=path).run()
    saved = read_dialogue(path)
    check_unchanged(plant, saved)
    resumed = written(plant, "\n".join(answers[before:]), dialogue=saved, save=path)
    resumed.run()
    assert resumed.dialogue.replies == straight.dialogue.replies
    assert read_dialogue(path).replies == straight.dialogue.replies
    assert report(resumed.dialogue, "plant") == report(straight.dialogue, "plant")


def test_quitting_saves_under_a_free_name_and_tells_how_to_go_on(
    plant: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plant.balar.json").write_text("something else", encoding="utf-8")
    view = make_view()
    session = typed(plant, "dry\nquit\n", view)
    assert session.run() is Ending.QUIT
    assert "balar run --resume plant-2.balar.json" in shown(view)
    assert len(read_dialogue(tmp_path / "plant-2.balar.json").asked) == 1
    assert (tmp_path / "plant.balar.json").read_text(encoding="utf-8") == "something else"


def test_end_of_typing_is_quitting(
    plant: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert typed(plant, "dry\n", make_view()).run() is Ending.QUIT
    assert (tmp_path / "plant.balar.json").is_file()


def test_file_that_cannot_be_written_is_noticed_before_the_first_question(
    plant: Problem, tmp_path: Path
) -> None:
    session = written(plant, "dry\n", save=tmp_path / "no" / "such" / "folder.json")
    with pytest.raises(FileTrouble, match="cannot be written"):
        session.run()
    assert session.dialogue.asked == ()


@pytest.mark.parametrize("name", ["../../etc/x", "über plan", "\x1b[2J", "", "a" * 300])
def test_name_of_a_problem_becomes_a_harmless_file_name(name: str, tmp_path: Path) -> None:
    path = free_path(name, tmp_path)
    assert path.parent == tmp_path
    assert path.name.isprintable()
    path.write_text("", encoding="utf-8")
    assert free_path(name, tmp_path) != path


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"format": "x"}'])
def test_file_that_holds_no_dialogue_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(CorruptDialogue, match=r"broken\.json"):
        read_dialogue(path)


def test_dialogue_cut_off_anywhere_is_refused(plant: Problem, tmp_path: Path) -> None:
    session = written(plant, "dry\nno\nno\nno\n")
    session.run()
    path = tmp_path / "cut.json"
    write_dialogue(session.dialogue, path)
    whole = path.read_bytes().rstrip()
    for length in range(0, len(whole), len(whole) // 20):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptDialogue):
            read_dialogue(path)


# --- a problem that has changed ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("What is wrong with my plant?", "What ails my plant?", "prompt"),
        ("target: cause", "context: A fern.\ntarget: cause", "context"),
        ("target: cause", "target: place", "target"),
        ("prior: [0.6, 0.4]", "prior: [0.4, 0.6]", "priors"),
        ("values: [sun, shade]", "values: [sun, dark]", "dimensions"),
        ("choices: [dry, wet]", "choices: [dry, moist]", "questions"),
        ("thirst: [0.9, 0.1]", "thirst: [0.8, 0.2]", "likelihood tables"),
        ("settings:", "labels: {a: 0.5}\nsettings:", "label map"),
    ],
)
def test_changed_problem_is_noticed_and_what_has_changed_is_named(
    plant: Problem, old: str, new: str, what: str
) -> None:
    session = written(plant, "dry\nno\nno\nno\n")
    session.run()
    text = PLANT.replace(old, new)
    if what == "dimensions":
        text = text.replace("shade: [0.8", "dark: [0.8")
    assert text != PLANT
    with pytest.raises(ChangedProblem, match=f"its {what} differ"):
        check_unchanged(parse(text, "plant.yaml"), session.dialogue)


def test_problem_with_other_limits_is_still_the_same(plant: Problem) -> None:
    session = written(plant, "dry\nno\nno\nno\n")
    session.run()
    check_unchanged(parse(PLANT.replace("alpha: 0.01", "alpha: 0.2"), "p"), session.dialogue)


# --- the report ----------------------------------------------------------------------------------


def test_report_holds_what_was_asked_and_what_was_learned(plant: Problem) -> None:
    session = written(plant, "dry\n?\nno\nno\n")
    session.run()
    dialogue = session.dialogue
    data = json.loads(dumps(report(dialogue, "plant")))
    asked = [step for step in steps(dialogue) if isinstance(step.reply, Answered)]
    assert [e["information"] for e in data["conversation"]] == pytest.approx(
        [step.need.information for step in asked if step.need is not None]
    )
    assert data["questions"] == {
        "asked": len(asked),
        "total": 4,
        "saved": 4 - len(asked),
    }
    assert data["entropy"]["before"] == pytest.approx(1.7027, abs=1e-4)
    assert data["entropy"]["after"] == pytest.approx(dialogue.entropy)
    assert data["answer"] == "thirst"
    assert sum(data["answers"].values()) == pytest.approx(1, abs=1e-5)
    assert data["finished"] is True


def test_report_writes_no_number_that_json_does_not_have() -> None:
    text = dumps({"a": [float("inf"), float("nan")], "b": {"c": -float("inf")}, "d": 0.5})
    assert json.loads(text) == {"a": [None, None], "b": {"c": None}, "d": 0.5}
