"""`balar calibrate`: what labels, oracles and users are worth, from saved dialogues."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..printable import printable

if TYPE_CHECKING:
    from balar_core.calibration import Calibration, Report
    from balar_core.logged import LoggedDialogue

__all__ = ["calibrate_command"]

_SAID = frozenset(("truth", "answer", "oracle"))
"""What a file can say about a dialogue."""

EXAMPLES = """\b
balar calibrate *.balar.json
balar calibrate *.balar.json --about known.yaml
"""


@click.command("calibrate", short_help="Learn from saved dialogues.", epilog=EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--about",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="What is known about the dialogues (.yaml or .json): the name of a file, and for it the "
    "truth (dimension: value), the answer of a closed set, and the oracle that filled its tables.",
)
@click.option(
    "--fit",
    "fitted",
    type=click.Choice(["labels", "temperatures", "reliabilities"]),
    multiple=True,
    help="Fit only this (again for more). All three by default.",
)
@click.option(
    "--bins",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Of the calibration error.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def calibrate_command(
    files: tuple[Path, ...], about: Path | None, fitted: tuple[str, ...], bins: int, as_json: bool
) -> None:
    """Fit labels, oracles and users to the saved dialogues in FILES.

    Learned are the weights of the labels, how sharp the tables of every oracle should be, and how
    reliable every user is. Scores are of the same dialogues, before and after.
    """
    from balar_core.calibration import calibrate
    from balar_core.logged import calibration_data

    data = calibration_data(_logged(files, about))
    found = calibrate(
        data,
        bins=bins,
        **{  # type: ignore[arg-type]
            name: not fitted or name in fitted
            for name in ("labels", "temperatures", "reliabilities")
        },
    )
    if as_json:
        click.echo(json.dumps(_as_data(found), ensure_ascii=False, indent=1))
        return
    for line in _lines(found, bins):
        click.echo(printable(line))


def _logged(files: tuple[Path, ...], about: Path | None) -> "list[LoggedDialogue]":
    from balar_core.errors import InvalidInput
    from balar_core.logged import LoggedDialogue

    from ..store import read_dialogue

    known = {} if about is None else _known(about)
    names = {name for path in files for name in (str(path), path.name)}
    for name in known:
        if name not in names:
            raise InvalidInput(f"{about} is about {name!r}, which is not among the files given.")
    logged = []
    for path in files:
        entry = known.get(str(path), known.get(path.name, {}))
        known_here = {"name": str(path), **entry}
        logged.append(LoggedDialogue(read_dialogue(path), **known_here))
    return logged


def _known(about: Path) -> "dict[str, Mapping[str, Any]]":
    import yaml

    from balar_core.errors import InvalidInput

    from ..store import read_text

    try:
        known = yaml.safe_load(read_text(about))
    except yaml.YAMLError as error:
        raise InvalidInput(f"{about} is neither YAML nor JSON: {error}") from None
    if not isinstance(known, Mapping):
        raise InvalidInput(f"{about} holds no mapping from names of files to what is known.")
    for name, entry in known.items():
        if not isinstance(entry, Mapping) or not _SAID.issuperset(entry):
            raise InvalidInput(
                f"{about} says of {name!r}: {entry!r}. It can say "
                f"{', '.join(f'`{said}`' for said in sorted(_SAID))}, no more."
            )
    return dict(known)


def _as_data(found: "Calibration") -> dict[str, Any]:
    return {
        "labels": dict(found.labels.weights),
        "temperatures": dict(found.temperatures),
        "reliabilities": dict(found.reliabilities),
        "before": asdict(found.before),
        "after": asdict(found.after),
        "converged": found.converged,
    }


def _lines(found: "Calibration", bins: int) -> "list[str]":
    before, after = found.before, found.after
    lines = [f"{'':<28}{'before':>8}{'after':>8}"]
    rows = [
        ("log score of answers (nats)", before.log_score, after.log_score),
        ("Brier score", before.brier, after.brier),
        (f"calibration error ({bins} bins)", before.calibration_error, after.calibration_error),
    ]
    lines += [f"{name:<28}{first:>8.3f}{then:>8.3f}" for name, first, then in rows]
    lines += _truth_lines(before, after)
    lines.append(f"({after.answers} answers; the same dialogues before and after)")
    lines += ["", "oracle, its temperature, and its labels"]
    for oracle, temperature in found.temperatures.items():
        weights = ", ".join(f"{n}: {w:.3g}" for n, w in found.labels_of(oracle).weights)
        lines.append(f"  {oracle}  {temperature:.2f}  {{{weights}}}")
    lines += ["", "user, and the share of answers that are no random choice"]
    lines += [f"  {user}  {share:.2f}" for user, share in found.reliabilities.items()]
    if not found.converged:
        lines += ["", "The fit has not come to an end; take these numbers as rough."]
    return lines


def _truth_lines(before: "Report", after: "Report") -> "list[str]":
    if before.truth_log_score is None or after.truth_log_score is None:
        return []
    name = f"log score of {after.truths} truths"
    return [f"{name:<28}{before.truth_log_score:>8.3f}{after.truth_log_score:>8.3f}"]
