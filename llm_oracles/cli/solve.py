"""`balar solve`: a dialogue about any request, with language models in place of a problem file."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .model_choice import ModelChoice, model_options, pairs
from .terminal import ANSWERS_ENDED, check_files, hold, interactive, make_view, typed_or_piped
from .trust import check_trust

if TYPE_CHECKING:
    from balar_core.dialogue import Dialogue, Settings
    from balar_core.questions import User

    from ..gauge import Gauge
    from ..interruption import Interruption
    from ..model_stack import ModelStack
    from ..oracle import Oracle
    from ..render import View
    from ..session import Matter

__all__ = ["solve_command"]

EXAMPLES = """\b
balar solve "Which bike should I buy?" --base-url http://localhost:8000/v1 --model qwen
balar solve "Who did it?" --context case.txt --preset detective --answer Ann --answer Ben \\
    --info Ann=ann.txt --info Ben=ben.txt --base-url URL --model NAME
balar solve --resume which-bike-should-i-buy.balar.json
"""


@dataclass(frozen=True)
class Files:
    """Where a dialogue and its calls are kept.

    Attributes:
        save: the dialogue.
        cache: the replies of the models.
        unwanted: files that are kept only as long as the dialogue is not finished.
    """

    save: Path | None
    cache: Path | None
    unwanted: tuple[Path, ...] = ()

    @classmethod
    def choose(cls, stem: str, save: Path | None, models: ModelChoice, *, replay: bool) -> "Files":
        """The files that were named, and others beside them where none were."""
        from ..store import free_path

        if replay:
            return cls(save, None)
        kept = save or free_path(stem, Path())
        cache = Path(models.cache) if models.cache else kept.with_name(f"{kept.name}.calls")
        named = {save, Path(models.cache) if models.cache else None}
        return cls(kept, cache, tuple(file for file in (kept, cache) if file not in named))

    def clean_up(self) -> None:
        """Remove what nobody needs any more."""
        for file in self.unwanted:
            file.unlink(missing_ok=True)


@click.command(
    "solve", short_help="Find out what somebody wants, with a language model.", epilog=EXAMPLES
)
@click.argument("prompt", required=False)
@click.option(
    "--context", type=click.Path(path_type=Path), metavar="FILE", help="What everybody may know."
)
@click.option("--answer", "answers", metavar="TEXT", multiple=True, help="A possible final answer.")
@click.option(
    "--about", metavar="USER=TEXT", multiple=True, help="A user, and what everybody may know."
)
@model_options
@click.option("--max-questions", type=int, metavar="N", help="Ask at most N questions.")
@click.option(
    "--alpha", type=float, metavar="A", help="Stop when the answer is 1-A sure (default 0.1)."
)
@click.option(
    "--set", "given", metavar="NAME=VALUE", multiple=True, help="Any other setting of a dialogue."
)
@click.option("--max-calls", type=int, metavar="N", help="Make at most N calls now.")
@click.option("--max-tokens", type=int, metavar="N", help="Read and write at most N tokens now.")
@click.option("--max-cost", type=float, metavar="C", help="Spend at most C now (see --price).")
@click.option("--max-seconds", type=float, metavar="S", help="Make calls for at most S seconds.")
@click.option(
    "--record", type=click.Path(path_type=Path), metavar="FILE", help="Add all replies to FILE."
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Take all replies from FILE, and call nobody.",
)
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE", help="Keep the dialogue in FILE."
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Go on with the dialogue in FILE, and keep it there.",
)
@click.option(
    "--trust",
    is_flag=True,
    help="With --resume: use the server, the key and the files that FILE names, without asking.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.option("--show-belief/--no-show-belief", default=True, help="Draw what each answer changed.")
@click.option("--plain", is_flag=True, help="No colour, and drawings in ASCII only.")
def solve_command(
    prompt: str | None,
    context: Path | None,
    answers: tuple[str, ...],
    about: tuple[str, ...],
    models: ModelChoice,
    max_questions: int | None,
    alpha: float | None,
    given: tuple[str, ...],
    max_calls: int | None,
    max_tokens: int | None,
    max_cost: float | None,
    max_seconds: float | None,
    record: Path | None,
    replay: Path | None,
    save: Path | None,
    resume: Path | None,
    trust: bool,
    as_json: bool,
    show_belief: bool,
    plain: bool,
) -> None:
    """Find out what is meant by PROMPT: a model proposes and judges, people answer.

    You are asked at the terminal, with numbers or in your own words; users with --info are played
    by a model. Every reply of a model is kept until the dialogue is finished, so that Ctrl-C or a
    crash costs nothing: --resume goes on without repeating a call.
    """
    from ..gauge import Gauge
    from ..interruption import Interrupted, Interruption
    from ..model_stack import ModelStack
    from ..models import Budget, ReplayingModel
    from ..session import Session

    check_files(save, resume)
    started = {
        "PROMPT": prompt,
        "--context": context,
        "--answer": answers,
        "--about": about,
        "--max-questions": max_questions,
        "--alpha": alpha,
        "--set": given,
    }
    if resume is not None:
        dialogue, models = _resume(resume, models, started, trusted=trust or replay is not None)
    elif prompt is None:
        raise click.UsageError("Give a PROMPT: what is to be found out; or --resume FILE.")
    else:
        settings = _settings(models, max_questions, alpha, given)
        dialogue = _start(prompt, context, answers, about, models, settings)
    view = make_view(as_json=as_json, quiet=as_json and not interactive(), plain=plain)
    files = Files.choose(_stem(dialogue), save or resume, models, replay=replay is not None)
    interruption, gauge = Interruption(models.at_once), Gauge(view.console)
    stack = ModelStack(
        models.open() if replay is None else ReplayingModel(replay),
        interruption,
        budget=Budget(max_calls, max_tokens, max_cost, max_seconds),
        cache=files.cache,
        record=record,
    )
    with stack:
        session = Session(
            _matter(dialogue, models, stack, interruption, gauge),
            dialogue,
            typed_or_piped(view),
            view,
            save=files.save,
            show_belief=show_belief,
        )
        try:
            ended = hold(session, lambda: _stop(interruption))
        except Interrupted:
            raise KeyboardInterrupt from None
        finally:
            gauge.hide()
            _tell_usage(view, stack)
    if session.dialogue.finished:
        files.clean_up()
    if as_json:
        click.echo(_report(session.dialogue, stack))
    if ended:
        raise click.exceptions.Exit(ANSWERS_ENDED)


def _start(
    prompt: str,
    context: Path | None,
    answers: tuple[str, ...],
    about: tuple[str, ...],
    models: ModelChoice,
    settings: "Settings",
) -> "Dialogue":
    from balar_core.dialogue import Dialogue, Setup

    from ..store import read_text

    setup = Setup(
        prompt,
        "" if context is None else read_text(context),
        _users(about, models),
        answers or None,
        settings=settings,
        origin=models.origin,
    )
    return Dialogue.start(setup)


def _users(about: tuple[str, ...], models: ModelChoice) -> "tuple[User, ...]":
    """Everybody who is named, in the order of being named; else the person at the terminal."""
    from balar_core.questions import User

    public = pairs("--about", "USER=TEXT", about)
    names = dict.fromkeys((*public, *models.private_files())) or ("you",)
    return tuple(User(name, public.get(name, "")) for name in names)


def _settings(
    models: ModelChoice, max_questions: int | None, alpha: float | None, given: tuple[str, ...]
) -> "Settings":
    from balar_core.dialogue import Settings

    from ..elicitation import Preset

    wanted: dict[str, Any] = {}
    choices = Preset.named(models.preset or "general").max_choices
    if choices is not None:
        wanted["max_choices"] = choices
    if max_questions is not None:
        wanted["max_questions"] = max_questions
    if alpha is not None:
        wanted["alpha"] = alpha
    known = [field.name for field in fields(Settings) if field.name != "labels"]
    for name, value in pairs("--set", "NAME=VALUE", given).items():
        if name not in known:
            raise click.UsageError(f"There is no setting {name!r}; there are {', '.join(known)}.")
        try:
            wanted[name] = json.loads(value)
        except json.JSONDecodeError:
            wanted[name] = value
    return Settings(**wanted)


def _resume(
    path: Path, models: ModelChoice, started: dict[str, Any], *, trusted: bool
) -> "tuple[Dialogue, ModelChoice]":
    from ..store import read_dialogue

    for name, value in started.items():
        if value not in (None, ()):
            raise click.UsageError(f"{name} belongs to the start of a dialogue.")
    dialogue = read_dialogue(path)
    kept = ModelChoice.from_origin(dialogue.setup.origin)
    if not trusted:
        check_trust(path, models, kept)
    return dialogue, models.over(kept)


def _stem(dialogue: "Dialogue") -> str:
    return "-".join(dialogue.setup.prompt.lower().split()[:6])


def _matter(
    dialogue: "Dialogue",
    models: ModelChoice,
    stack: "ModelStack",
    interruption: "Interruption",
    gauge: "Gauge",
) -> "Matter":
    """What the session is about: all but the person's answers comes from the models."""
    from ..elicitation import Sampling
    from ..llm_oracle import LLMOracle
    from ..models import BudgetExceeded
    from ..session import Matter
    from ..simulated_user import SimulatedUser
    from ..store import read_text
    from ..verifier import Verifier

    def asking() -> dict[str, Any]:
        return {
            "preset": models.preset or "general",
            "sampling": Sampling(models.temperature or 0.0, models.seed),
            "repairs": 2 if models.repairs is None else models.repairs,
            "on_progress": gauge.watch(),
        }

    def oracle(users: "Oracle") -> "Oracle":
        found: Oracle = LLMOracle(
            stack.model, users=users, granularity=models.granularity or "table", **asking()
        )
        if models.verifier is not None:
            found = Verifier(found, stack.model, **asking())
        return interruption.guard_oracle(found)

    others = {
        name: SimulatedUser(stack.model, read_text(file), **asking())
        for name, file in models.private_files().items()
    }
    return Matter(
        _stem(dialogue),
        oracle,
        others=others,
        free_text=True,
        evidence=True,
        enough=(BudgetExceeded,),
        command="balar solve",
    )


def _stop(interruption: "Interruption") -> bool:
    """At Ctrl-C: let the calls under way come to their end, unless this is the second time."""
    if interruption.stopped or not interruption.under_way:
        return False
    interruption.stop()
    click.echo(
        f"\nWaiting for {interruption.under_way} calls that are under way, so that they are not "
        "lost. Press Ctrl-C again to leave at once.",
        err=True,
    )
    return True


def _tell_usage(view: "View", stack: "ModelStack") -> None:
    if stack.trace.events:
        view.line()
        view.line(stack.trace.table(), "dim")


def _report(dialogue: "Dialogue", stack: "ModelStack") -> str:
    from ..report import dumps, report

    return dumps({**report(dialogue, _stem(dialogue)), "usage": asdict(stack.trace.usage)})
