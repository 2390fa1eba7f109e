"""`balar eval`: how well policies meet implicit needs, and what published figures are made of."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..printable import printable

if TYPE_CHECKING:
    from ..evaluation.cases import Case

__all__ = ["eval_group"]

EXAMPLES = """\b
balar eval implicit-intent
balar eval implicit-intent --plot pareto.svg --seed 7
balar eval implicit-intent --data implicit_intent_queries_v2.json --policy aura --policy mi
balar eval aura-report --results aura/
"""


@click.group(
    "eval", short_help="Measure probe policies; recompute published figures.", epilog=EXAMPLES
)
def eval_group() -> None:
    """Measure how well probe policies meet implicit needs. No model is called."""


@eval_group.command("implicit-intent")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Public queries of AURA (version 2); queries about made-up towns by default.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the first town.")
@click.option("--towns", type=int, default=2, show_default=True, help="How many towns.")
@click.option(
    "--per-kind",
    type=int,
    default=3,
    show_default=True,
    help="Queries of each of five kinds about each of four moments of a town.",
)
@click.option("--policy", "names", multiple=True, metavar="NAME", help="Only this policy (again).")
@click.option(
    "--reference",
    default="fixed-3",
    show_default=True,
    metavar="NAME",
    help="The policy that the others are compared with.",
)
@click.option("--unenforced", is_flag=True, help="Let forbidden tools be called, and count them.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw coverage against probes (.png or .svg).",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def implicit_intent(
    data: Path | None,
    seed: int,
    towns: int,
    per_kind: int,
    names: tuple[str, ...],
    reference: str,
    unenforced: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare policies that decide how many probes a query is worth, and which."""
    from ..evaluation.intent import evaluate, points, summarise, to_data
    from ..evaluation.pareto import check_plot, draw
    from ..evaluation.policies import POLICIES, find_policies
    from ..evaluation.tables import intent_lines
    from ..report import dumps

    policies = find_policies(names) if names else POLICIES
    find_policies([reference])
    if reference not in [policy.name for policy in policies]:
        policies = (*find_policies([reference]), *policies)
    if plot is not None:
        check_plot(plot)
    cases = _cases(data, seed, towns, per_kind)
    outcomes = evaluate(cases, policies, enforce=not unenforced)
    summaries = summarise(outcomes)
    if plot is not None:
        title = f"{len(cases)} queries, {'made-up towns' if data is None else data.name}"
        draw(points(summaries, policies), plot, title=title, coverage="needs answered right")
    if as_json:
        click.echo(dumps(to_data(outcomes, policies, reference)))
        return
    for line in intent_lines(outcomes, summaries, policies, reference):
        click.echo(printable(line))


def _cases(data: Path | None, seed: int, towns: int, per_kind: int) -> "list[Case]":
    if data is None:
        from ..evaluation.town_cases import town_cases

        return town_cases(seed=seed, towns=towns, per_kind=per_kind)
    from ..evaluation.public_cases import public_cases

    return public_cases(data)


@eval_group.command("aura-report")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    metavar="DIR",
    required=True,
    help="The folder with the released result files.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON list.")
def aura_report_command(results: Path, as_json: bool) -> None:
    """Recompute the published figures of AURA from its result files, beside the claims."""
    from ..evaluation.aura_files import Release
    from ..evaluation.aura_report import aura_report
    from ..evaluation.tables import figure_lines
    from ..report import dumps

    figures = aura_report(Release.open(results))
    if as_json:
        click.echo(dumps({"figures": [asdict(figure) for figure in figures]}))
        return
    for line in figure_lines(figures):
        click.echo(printable(line))
