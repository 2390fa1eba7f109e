"""Problem files: what they mean, and how their mistakes are shown."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from balar_core.dialogue import (
    Answered,
    Ask,
    Conclude,
    Dialogue,
    ElicitAnswers,
    ElicitLikelihoods,
    Need,
    ProposeQuestions,
    Reply,
    Settings,
)
from llm_oracles.oracle import run
from llm_oracles.problem import (
    Problem,
    ProblemError,
    UnknownProblem,
    find,
    load,
    load_packaged,
    make_problem,
    packaged,
    parse,
)
from llm_oracles.problem_oracle import NotInProblem, ProblemOracle
from llm_oracles.problem_schema import parse_setting

COIN = """\
name: coin
prompt: Which coin is it?
dimensions:
  - name: coin
    values: [fair, bent]
    prior: [likely, unlikely]
target: coin
questions:
  - text: Is it heads?
    choices: [yes, no]
    given:
      coin:
        fair: [0.5, 0.5]
        bent: [likely, unlikely]
"""


class Chooser:
    """A user who answers by the text of the question; the first choice otherwise."""

    def __init__(self, **answers: str) -> None:
        self.answers = {key.replace("_", " "): answer for key, answer in answers.items()}
        self.needs: list[Ask] = []

    async def fulfil(self, need: Need) -> Reply:
        assert isinstance(need, Ask)
        self.needs.append(need)
        words = need.question.text.lower()
        for key, answer in self.answers.items():
            if key in words:
                return Answered(choice=need.question.choices.index(answer))
        return Answered(choice=0)


def mistakes(text: str, source: str = "coin.yaml") -> list[str]:
    with pytest.raises(ProblemError) as caught:
        parse(text, source)
    return str(caught.value).split("\n")


def changed(old: str, new: str, text: str = COIN) -> str:
    assert text.count(old) == 1, f"{old!r} must stand once in the text"
    return text.replace(old, new)


# --- what a problem means ---------------------------------------------------------------------


def test_a_problem_answers_everything_a_dialogue_needs() -> None:
    problem = parse(COIN)
    dialogue = run(Dialogue.start(problem.setup("coin.yaml")), ProblemOracle(problem, Chooser()))
    assert dialogue.setup.origin == "coin.yaml"
    assert dialogue.answer_posterior() == pytest.approx({"fair": 0.8 * 0.5 / 0.56, "bent": 2 / 7})
    assert dialogue.conclusion is not None
    assert dialogue.conclusion.answer == "fair"


def test_scalars_stay_the_texts_that_were_written() -> None:
    text = changed("[yes, no]", "[on, 2020-01-01]", changed("[fair, bent]", "[1, 0x2]"))
    text = text.replace("fair:", "1:").replace("bent:", "0x2:")
    problem = parse(text)
    assert problem.dimensions[0].value_names == ("1", "0x2")
    assert problem.questions[0].choices == ("on", "2020-01-01")


def test_json_is_read_like_yaml_with_tabs_and_escapes() -> None:
    data = {
        "name": "coin",
        "prompt": "Which 🪙?",
        "dimensions": [{"name": "coin", "values": ["fair/good", "bent"]}],
        "questions": [
            {
                "text": "Heads?",
                "choices": ["yes", "no"],
                "given": {"coin": {"fair/good": [0.5, 0.5], "bent": [1, 0]}},
            }
        ],
        "settings": {"max_questions": 3, "alpha": 0.05},
    }
    text = json.dumps(data, indent="\t").replace("fair/good", "fair\\/good")
    problem = parse(text, "coin.json")
    assert problem.questions == make_problem(data).questions
    assert problem.setup() == make_problem(data).setup()
    assert problem.prompt == "Which 🪙?"
    assert problem.questions[0].given["coin"]["bent"] == (1.0, 0.0)
    assert problem.setup().settings.max_questions == 3
    assert problem.setup().settings.alpha == 0.05


def test_aliases_share_tables() -> None:
    more = """\
  - text: Once more?
    choices: [yes, no]
    given: *tables
"""
    problem = parse(changed("    given:\n", "    given: &tables\n") + more)
    assert problem.questions[0].given == problem.questions[1].given


def test_limits_follow_from_what_the_problem_holds() -> None:
    settings = load_packaged("headache").setup().settings
    assert settings.max_dimensions == 3
    assert settings.max_initial_questions == 8
    assert settings.max_values == settings.max_choices == 3
    assert settings.max_new_questions == 1
    assert settings.noise == 0
    assert settings.max_questions == 9


def test_the_prior_is_uniform_where_none_is_given() -> None:
    problem = parse(changed("    prior: [likely, unlikely]\n", ""))
    assert problem.dimensions[0].prior_row == (0.5, 0.5)


def test_notes_of_values_become_part_of_the_note_of_their_dimension() -> None:
    problem = parse(changed("[fair, bent]", "[fair, {value: bent, note: heads are heavier}]"))
    assert problem.dimensions[0].core.note == "bent: heads are heavier"


TWO_WITNESSES = (
    COIN
    + """\
    given_for:
      Ben:
        coin: {fair: [0.5, 0.5], bent: [0.1, 0.9]}
  - text: Is it heavy?
    choices: [yes, no]
    ask: Ada
    given:
      coin: {fair: [0.1, 0.9], bent: [0.9, 0.1]}
users: [Ada, {name: Ben, public: He sees everything mirrored.}]
"""
)


def test_users_may_have_tables_of_their_own_and_questions_kept_from_them() -> None:
    problem = parse(TWO_WITNESSES)
    user = Chooser()
    dialogue = Dialogue.start(problem.setup())
    cells = {}
    oracle = ProblemOracle(problem, user)

    async def until_asked() -> None:
        nonlocal dialogue
        while not isinstance(dialogue.need, Ask):
            assert dialogue.need is not None
            reply = await oracle.fulfil(dialogue.need)
            if isinstance(dialogue.need, ElicitLikelihoods):
                cells.update({(t.question, t.user): t.table for t in reply.tables})
            dialogue = dialogue.tell(reply)

    asyncio.run(until_asked())
    assert cells[0, "Ada"] == ((0.5, 0.5), ("likely", "unlikely"))
    assert cells[0, "Ben"] == ((0.5, 0.5), (0.1, 0.9))
    assert cells[1, "Ben"] is None
    finished = run(dialogue, ProblemOracle(problem, user))
    assert (1, "Ben") not in finished.asked
    assert {user.name for user in finished.setup.users} == {"Ada", "Ben"}


EXPANDING = (
    COIN
    + """\
settings: {alpha: 0.01}
expansions:
  - name: light
    values: [bright, dim]
    questions:
      - text: Can you see it well?
        choices: [yes, no]
        given:
          light: {bright: [0.9, 0.1], dim: [0.1, 0.9]}
          coin: {fair: [0.9, 0.1], bent: [0.2, 0.8]}
"""
)


def test_expansions_are_held_back_until_the_engine_expands() -> None:
    problem = parse(EXPANDING)
    oracle = ProblemOracle(problem, Chooser())
    seen: list[tuple[str, ...]] = []

    def on_reply(dialogue: Dialogue, need: Need, reply: Reply) -> None:
        if isinstance(need, ProposeQuestions):
            seen.append(tuple(question.text for question in reply.questions))

    dialogue = run(Dialogue.start(problem.setup()), oracle, on_reply)
    assert seen == [("Is it heads?",), ("Can you see it well?",)]
    assert [d.name for d in dialogue.dimensions] == ["coin", "light"]


def test_the_oracle_refuses_what_is_not_in_its_problem() -> None:
    coin, headache = parse(COIN), load_packaged("headache")
    dialogue = run(Dialogue.start(coin.setup()), ProblemOracle(coin, Chooser()))

    def replaying_needs() -> Iterator[Need]:
        replayed = Dialogue.start(dialogue.setup)
        for reply in dialogue.replies:
            yield from replayed.needs
            replayed = replayed.tell(reply)

    strange = ProblemOracle(headache, Chooser())
    refused = []
    for need in replaying_needs():
        try:
            asyncio.run(strange.fulfil(need))
        except NotInProblem as error:
            refused.append((need.kind, str(error)))
    assert {kind for kind, _ in refused} == {"elicit_priors", "elicit_likelihoods"}
    assert "'headache' has no dimension 'coin'" in refused[0][1]
    answers = ElicitAnswers("?", "", (), ("a", "b"), ())
    with pytest.raises(NotInProblem, match="does not have the answers 'a', 'b'"):
        asyncio.run(strange.fulfil(answers))


def test_conclusions_come_with_the_words_of_the_problem() -> None:
    headache = load_packaged("headache")
    assert headache.answers is not None
    texts = {entry.answer: entry.conclusion for entry in headache.answers.choices}
    names = headache.answers.names
    posterior = tuple((name, 0.6 if i == 2 else 0.1) for i, name in enumerate(names))
    need = Conclude("?", "", (("course", "passing"),), 0.5, posterior, "answer_settled", ())
    concluded = asyncio.run(ProblemOracle(headache, Chooser()).fulfil(need))
    assert (concluded.answer, concluded.text) == (names[2], texts[names[2]])
    open_ended = Conclude("?", "", (("course", "passing"),), 0.5, None, "question_budget", ())
    concluded = asyncio.run(ProblemOracle(headache, Chooser()).fulfil(open_ended))
    assert (concluded.answer, concluded.text) == (None, "")


# --- the packaged example ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "conclusion"),
    [
        (
            {"pain feel": "a tight band", "screen": "more than six hours", "begin": "slowly",
             "drink": "plenty", "sleep": "more than seven", "light": "no", "nose": "no"},
            "take a break from the screen",
        ),
        (
            {"pain feel": "pressure behind the nose", "nose": "yes", "light": "no",
             "drink": "hardly anything", "begin": "slowly", "sleep": "five to seven"},
            "drink and rest",
        ),
        (
            {"pain feel": "throbbing on one side", "light": "yes", "nose": "no",
             "drink": "some glasses", "sleep": "less than five", "begin": "slowly"},
            "lie down in a dark, quiet room",
        ),
        ({"ached": "more", "begin": "slowly", "nose": "no"}, "keep a diary and see a doctor"),
        ({"begin": "within a minute", "nose": "no"}, "get medical help now"),
    ],
)  # fmt: skip
def test_the_headache_comes_to_a_clear_answer_within_its_budget(
    answers: dict[str, str], conclusion: str
) -> None:
    problem = load_packaged("headache")
    user = Chooser(**answers)
    dialogue = run(Dialogue.start(problem.setup()), ProblemOracle(problem, user))
    assert dialogue.conclusion is not None
    assert dialogue.conclusion.answer == conclusion
    assert dialogue.conclusion.text
    assert dialogue.outcome is not None
    assert dialogue.outcome.reason == "answer_settled"
    assert 3 <= len(dialogue.asked) <= 8
    assert all(need.question.note for need in user.needs)


def test_the_headache_says_that_it_is_no_medical_advice() -> None:
    assert "not medical advice" in " ".join(load_packaged("headache").notes)


def test_problems_are_found_by_name_or_file(tmp_path: Path) -> None:
    path = tmp_path / "coin.yaml"
    path.write_text("\ufeff" + COIN, encoding="utf-8")
    assert find(str(path)) == load(path) == parse(COIN)
    assert all(find(name) == load_packaged(name) for name in packaged())
    with pytest.raises(UnknownProblem, match=r"neither a file nor a packaged.*mean 'headache'"):
        find("Headach")
    with pytest.raises(UnknownProblem, match="The problems are 'headache'"):
        load_packaged("stomach")


# --- mistakes ---------------------------------------------------------------------------------


def test_all_mistakes_are_shown_at_once_each_where_it_stands() -> None:
    text = changed("[yes, no]", "[yes, Yes]")
    text = changed("bent: [likely, unlikely]", "bnt: [likely, unlikly]", text)
    text = changed("[0.5, 0.5]", "[0.5, 0.6]", text)
    text = changed("target: coin", "target: coim\nsettings: {alhpa: 0.1, beta: 2}", text)
    found = mistakes(text)
    places = [re.match(r"coin\.yaml:(\d+:\d+): ([^:]+): ", line) for line in found]
    assert [(match[1], match[2]) for match in places if match] == [
        ("7:1", "target"),
        ("8:12", "settings.alhpa"),
        ("8:24", "settings.beta"),
        ("11:20", "questions[0].choices[1]"),
        ("13:7", "questions[0].given.coin"),
        ("14:9", "questions[0].given.coin.fair"),
        ("15:9", "questions[0].given.coin.bnt"),
        ("15:23", "questions[0].given.coin.bnt[1]"),
    ]
    assert len(found) == 8
    assert "Did you mean 'coin'?" in found[0]
    assert "Did you mean 'alpha'?" in found[1]
    assert "Did you mean 'bent'?" in found[6]
    assert "Did you mean 'unlikely'?" in found[7]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: coin\nprompt", "nmae: coin\nprompt", "1:1: `name` is missing."),
        ("name: coin\nprompt", "nmae: coin\nprompt", "1:1: nmae: There is no field 'nmae' here."),
        ("Which coin is it?", "", "2:1: prompt: the prompt is empty"),
        ("Which coin is it?", "[a]", "2:1: prompt: This has to be a text, not a list."),
        ("[fair, bent]", "fair", "5:5: dimensions[0].values: This has to be a list, not 'fair'."),
        ("[fair, bent]", "[fair]", "4:5: dimensions[0]: Dimension 'coin' has 1 value(s)"),
        ("[likely, unlikely]\ntarget", "[likely]\ntarget", "6:5: dimensions[0].prior: There are 1"),
        ("[likely, unlikely]\ntarget", "[1, x]\ntarget", "6:16: dimensions[0].prior[1]: 'x' is"),
        ("[likely, unlikely]\ntarget", "[1, .nan]\ntarget", "'.nan' is not a label"),
        ("[likely, unlikely]\ntarget", "[1, nan]\ntarget", "Entry 1 of The row is nan"),
        ("[likely, unlikely]\ntarget", "[2, -1]\ntarget", "entries are finite and not negative"),
        ("[likely, unlikely]\ntarget", "[0.5, likely]\ntarget", "mixes labels and numbers"),
        ("[likely, unlikely]\ntarget", "likely\ntarget", "A row is a list of labels or of numbers"),
        ("target: coin", "target: coin\ntarget: x", "8:1: 'target' stands twice here, first in"),
        ("target: coin", "labels: {likely: 0, unlikely: 1}", "7:1: labels: Label 'likely' has"),
        ("target: coin", "labels: {likely: x, unlikely: 1}", "7:10: labels.likely: This has to be"),
        ("target: coin", "labels: {0.5: 1, likely: 2, unlikely: 1}", "labels.0.5: A label that"),
        ("target: coin", "settings: {max_questions: many}", "it is a whole number"),
        ("target: coin", "settings: {max_values: 1}", "it is a whole number of 2 or more"),
        ("target: coin", "settings: {labels: {a: 1}}", "has a place of its own"),
        ("target: coin", "users: []", "7:1: users: There is nobody to ask"),
        ("target: coin", "users: [Ada, ADA]", "7:14: users[1]: The user 'ADA' is there already"),
        ("target: coin", "answers: {choices: [a]}", "The closed answer set has 1 answer(s)"),
        ("target: coin", "answers: {choices: [a, b]}", "The answers depend on no dimension"),
        ("target: coin", "target: coin\nanswers: {choices: [a, b]}", "7:1: target: The answer is"),
        ("[yes, no]", "[yes]", "has 1 choice(s); a question needs at least two"),
        ("[yes, no]", "[yes, '']", "9:5: questions[0]: choice 1 of question"),
        ("[yes, no]", "[yes, no]\n    ask: []", "Nobody is to be asked this"),
        ("[yes, no]", "[yes, no]\n    ask: [yuo]", "Did you mean 'you'?"),
        ("[yes, no]", "[yes, no]\n    given_for: {me: {}}", "'me' is not asked this"),
        ("      coin:\n        fair", "      coni:\n        fair", "no dimension 'coni'. Did you"),
        ("        fair: [0.5, 0.5]\n", "", "There is no row for 'fair'"),
        ("[0.5, 0.5]", "[0.5, 0.25, 0.25]", "There are 3 entries for 2 choices"),
        ("text: Is it heads?", 'text: "\\ud800"', "holds a lone surrogate"),
    ],
)
def test_a_mistake_is_named_with_its_place(old: str, new: str, expected: str) -> None:
    found = mistakes(changed(old, new))
    assert any(expected in line for line in found), found


def test_a_question_without_tables_is_a_mistake() -> None:
    text = COIN[: COIN.index("    given:")]
    assert "Its answer tells nothing" in mistakes(text)[0]


def test_zeros_that_leave_a_state_without_any_choice_are_a_mistake() -> None:
    other = "  - {name: light, values: [on, off]}\ntarget"
    text = changed("target", other)
    text = changed("[0.5, 0.5]", "[1, 0]", text) + "      light: {on: [0, 1], off: [1, 0]}\n"
    (found,) = mistakes(text)
    assert found.startswith("coin.yaml:12:5: questions[0].given: Together")
    assert "coin='fair', light='on'" in found
    assert parse(text + "settings: {noise: 0.01}\n").setup().settings.noise == 0.01


def test_a_limit_below_what_the_problem_holds_is_a_mistake() -> None:
    text = EXPANDING.replace("alpha: 0.01", "max_new_questions: 0")
    assert "max_new_questions is 0, but the problem holds 1" in mistakes(text)[0]


def test_a_restricted_question_needs_a_least_information() -> None:
    text = TWO_WITNESSES + "settings: {min_information: 0}\n"
    assert "a user may be asked what `ask` keeps from them" in mistakes(text)[0]


def test_too_many_states_are_refused_before_anything_is_made() -> None:
    dimensions = [{"name": f"d{i}", "values": [str(v) for v in range(9)]} for i in range(30)]
    question = {
        "text": "?",
        "choices": ["a", "b"],
        "given": {"d0": {str(v): [0.5, 0.5] for v in range(9)}},
    }
    data = {"name": "big", "prompt": "?", "dimensions": dimensions, "questions": [question]}
    with pytest.raises(ProblemError, match=r"dimensions: 9 x 9 x .* joint states"):
        make_problem(data)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ":1:1: There is nothing in it"),
        (b"# only a remark\n", ":1:1: There is nothing in it"),
        (b"name: a\n\tprompt: b\n", ":2:1: Not YAML: a tab stands where only blanks may"),
        (b"prompt: a: b\n", ":1:10: Not YAML: a colon and a blank inside a text"),
        (b"{name: who?, x: y}\n", ":1:11: Not YAML: a question mark in a text between {} or []"),
        (b"name: a\n---\nname: b\n", ":2:1: Not YAML: a second document"),
        (b"name: [a\n", ":2:1: Not YAML: "),
        (b"name: *nothing\n", ":1:7: Not YAML: found undefined alias"),
        (b"a: 1\nname: caf\xe9\n", ":2:10: byte 0xe9 is not UTF-8"),
        (b"name: a\x00b\n", ":1:8: U+0000 may not stand in a text file"),
        (b"just a text\n", ":1:1: This has to be a mapping"),
        (b"? [a]\n: b\n", ":1:3: A key has to be a text."),
        (b"[" * 100_000, "Nested more than 40 deep"),
        (b"a: &a [*a]\n", "An alias (*) that holds itself"),
        (
            b"a: &a [x, x, x, x, x, x, x, x, x]\n"
            + b"".join(b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9))
                       for c in range(ord("b"), ord("k"))),
            "More than 200,000 parts",
        ),
    ],
)  # fmt: skip
def test_a_file_that_is_no_problem_says_why(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(ProblemError) as caught:
        load(path)
    lines = str(caught.value).split("\n")
    assert all(line.startswith(f"{path}:") for line in lines)
    assert any(expected in line for line in lines), lines


def test_what_is_no_readable_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="There is no such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(ProblemError, match="This is a directory"):
        load(tmp_path)
    with pytest.raises(ProblemError, match="embedded null"):
        load("a\0b")
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * (4 * 1024 * 1024 + 1))
    with pytest.raises(ProblemError, match="larger than 4 MiB"):
        load(big)


def test_python_data_of_the_wrong_kind_are_mistakes_too() -> None:
    with pytest.raises(ProblemError, match="This has to be a text, not 3"):
        make_problem({"name": 3, "prompt": "?", "dimensions": [], "questions": []})
    with pytest.raises(ProblemError, match="An entry is a label or a number, not True"):
        data = {"name": "d", "values": ["a", "b"], "prior": [True, False]}
        make_problem({"name": "x", "prompt": "?", "dimensions": [data], "questions": []})


def test_a_problem_is_a_frozen_value() -> None:
    problem = parse(COIN)
    assert isinstance(problem, Problem)
    with pytest.raises(ValueError, match="frozen"):
        problem.name = "other"


# --- the reference page -----------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[1] / "docs" / "problems.md"


def blocks(mark: str = "") -> list[str]:
    """The YAML on the reference page; only what follows a mark, if one is given."""
    text = PAGE.read_text(encoding="utf-8")
    pattern = (rf"<!-- {mark} -->\n" if mark else "") + r"```yaml\n(.*?)```"
    return re.findall(pattern, text, re.DOTALL)


def test_the_example_of_the_reference_page_runs() -> None:
    (example,) = blocks("example")
    problem = parse(example, "lost-key.yaml")
    user = Chooser(coat="yes", hand="on coming home", hole="no")
    dialogue = run(Dialogue.start(problem.setup()), ProblemOracle(problem, user))
    assert dialogue.conclusion is not None
    assert dialogue.conclusion.answer in problem.dimensions[0].value_names
    assert 1 <= len(dialogue.asked) <= 4


def test_the_program_of_the_reference_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = blocks("example")
    (tmp_path / "lost-key.yaml").write_text(example, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    program = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    exec("\n".join(program), {})
    assert "'coat': 0." in capsys.readouterr().out.splitlines()[-1]


def test_the_answers_of_the_reference_page_fit_its_example() -> None:
    example, answers = blocks()
    problem = parse(changed("target: place\n", answers, example))
    dialogue = run(Dialogue.start(problem.setup()), ProblemOracle(problem, Chooser()))
    posterior = dialogue.answer_posterior()
    assert posterior is not None
    assert set(posterior) == {"search the coat", "ask Kim"}


def test_the_reference_page_shows_mistakes_as_they_are_printed() -> None:
    (example,) = blocks("example")
    row = "[likely, neutral, unlikely]"
    wrong = changed("target: place", "target: plaec", example)
    wrong = changed(f"prior: {row}", f"prior: {row.replace('neutral', 'nuetral')}", wrong)
    shown = re.findall(r"^lost-key\.yaml:.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert mistakes(wrong, "lost-key.yaml") == shown


def test_the_reference_page_gives_the_settings_and_their_defaults() -> None:
    section = PAGE.read_text(encoding="utf-8").split("### Settings")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `?([\w.]+)`? \|", section, re.MULTILINE)
    defaults = Settings()
    assert {name for name, _ in rows} == {f.name for f in fields(Settings)} - set(
        load_packaged("headache").held
    ) - {"labels"}
    for name, default in rows:
        assert parse_setting(name, default) == getattr(defaults, name)
