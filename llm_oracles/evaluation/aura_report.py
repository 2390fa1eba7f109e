"""The published figures of AURA, recomputed from its released result files.

Every figure stands beside the claim that is made with it. Where seeds are repeats of one query,
tests are given over queries and over all (query, seed) cells; the latter take the repeats to be
independent of each other.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from balar_core.budget import AURA_STEPS

from ..facts import evidence_coverage
from .aura_files import Cell, Release, ReleaseError, Row, shown
from .coverage import needed_facts
from .statistics import Comparison, cluster_means, cohen_kappa, compare, holm, rate

__all__ = ["Figure", "aura_report", "contrast"]

QUERIES = "implicit_intent_queries_v2.json"
MAIN = "rq_intent_v2_multiseed.json"
CONDITIONS = ("literal", "no_intent", "tom", "fixed_probe", "oracle_intent")
AURA, BASELINE, FIXED = "tom", "no_intent", "fixed_probe"
SIGNIFICANT = 0.05

Score = Callable[[Row], float | None]


@dataclass(frozen=True)
class Figure:
    """One recomputed number.

    Attributes:
        topic: what it belongs to.
        name: what it is.
        value: the number; None where it cannot be computed.
        claim: what is claimed of it, if anything is.
        holds: whether the claim holds; None without a claim.
        note: what else should be known.
    """

    topic: str
    name: str
    value: float | None
    claim: str = ""
    holds: bool | None = None
    note: str = ""


Section = Callable[[Release], Iterator[Figure]]


def aura_report(release: Release) -> list[Figure]:
    """All figures that the files of a release allow.

    A section whose file is missing or damaged becomes one figure without a value that says so.
    """
    figures: list[Figure] = []
    for topic, section in _SECTIONS.items():
        try:
            with np.errstate(divide="raise", invalid="raise"):
                figures += map(_without_nan, section(release))
        except ReleaseError as error:
            figures.append(Figure(topic, "not recomputed", None, note=str(error)))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            note = f"a file of this section is not as released: {error!r}"
            figures.append(Figure(topic, "not recomputed", None, note=note))
    return figures


def _without_nan(figure: Figure) -> Figure:
    if figure.value is None or not math.isnan(figure.value):
        return figure
    return replace(figure, value=None, note="; ".join(filter(None, [figure.note, "undefined"])))


def contrast(
    first: Mapping[Cell, Row], second: Mapping[Cell, Row], score: Score
) -> dict[str, Comparison]:
    """First minus second on the cells that have both scores: at query and at cell level.

    Raises:
        ReleaseError: no two cells have both scores.
    """
    differences, queries = [], []
    for cell in first.keys() & second.keys():
        a, b = score(first[cell]), score(second[cell])
        if a is not None and b is not None:
            differences.append((cell, a - b))
    differences.sort()
    if len(differences) < 2:
        raise ReleaseError("Two conditions have fewer than two scored cells in common.")
    values = np.array([difference for _, difference in differences])
    queries = [query for (_, query), _ in differences]
    return {
        "query": compare(cluster_means(values, queries), "query"),
        "cell": compare(values, "cell"),
    }


def _coverage(row: Row) -> float | None:
    score: float | None = row["implicit_score"]
    return score


def _accuracy(row: Row) -> float | None:
    found = row["factual_accuracy"]
    return found.get("accuracy") if isinstance(found, dict) else None


def _mean(rows: Mapping[Cell, Row], score: Score) -> float:
    values = [value for row in rows.values() if (value := score(row)) is not None]
    if not values:
        raise ReleaseError("A condition has no scored rows.")
    return float(np.mean(values))


def _probes(row: Row) -> float:
    return float(row.get("probes", row.get("tool_calls", 0)))


def _rounds_to(value: float, claimed: float, digits: int) -> bool:
    return round(value, digits) == claimed


def _headline(release: Release) -> Iterator[Figure]:
    topic = "coverage, AURA - ReAct"
    levels = contrast(release.rows(MAIN, AURA), release.rows(MAIN, BASELINE), _coverage)
    delta = levels["cell"].difference
    yield Figure(topic, "difference", delta, "+0.07", _rounds_to(delta, 0.07, 2))
    for level, found in levels.items():
        where = f"{level} level, n = {found.units}"
        assumed = "takes the seeds of a query for independent" if level == "cell" else ""
        yield Figure(topic, f"paired t ({where})", found.t)
        yield Figure(topic, f"p of t ({where})", found.t_p, "p < 1e-6", found.t_p < 1e-6, assumed)
        yield Figure(topic, f"p of sign flips ({where})", found.sign_flip_p, note=assumed)
        yield Figure(topic, f"p of Wilcoxon ({where})", found.wilcoxon_p, note=assumed)
        low, high = found.bootstrap_interval.low, found.bootstrap_interval.high
        yield Figure(topic, f"bootstrap 95 % low ({where})", low, note=assumed)
        yield Figure(topic, f"bootstrap 95 % high ({where})", high, note=assumed)
        interval = found.effect_interval
        note = f"95 %: {interval.low:.3f} to {interval.high:.3f}"
        yield Figure(topic, f"effect size d_z ({where})", found.effect, note=note)


def _scenes(release: Release) -> Iterator[Figure]:
    topic = "coverage by scene"
    found = _grouped(release, "scene")
    for level in ("query", "cell"):
        p = {name: levels[level].t_p for name, levels in found.items()}
        count = sum(value < SIGNIFICANT for value in p.values())
        yield Figure(topic, f"significant scenes ({level} level)", count, "3 of 4", count == 3)
        adjusted = holm(list(p.values()))
        for (name, value), corrected in zip(p.items(), adjusted, strict=True):
            yield Figure(topic, f"p, {name} ({level} level)", value, note=f"Holm: {corrected:.3g}")


def _kinds(release: Release) -> Iterator[Figure]:
    topic = "coverage by kind of need"
    for name, levels in _grouped(release, "subcategory").items():
        found = levels["query"]
        yield Figure(
            topic, f"difference, {name}", found.difference, note=f"query p {found.t_p:.2g}"
        )
    aura, baseline = release.rows(MAIN, AURA), release.rows(MAIN, BASELINE)
    others = {cell: row for cell, row in aura.items() if row["subcategory"] != "availability"}
    rest = contrast(others, baseline, _coverage)["query"]
    note = f"query p {rest.t_p:.2g}"
    yield Figure(topic, "difference without availability", rest.difference, note=note)
    unnamed = {query["id"] for query in _queries(release) if query["agent_subject"] is None}
    some = {cell: row for cell, row in aura.items() if cell[1] in unnamed}
    found = contrast(some, baseline, _coverage)["query"]
    note = f"{found.units} queries"
    yield Figure(topic, "difference where nobody is named", found.difference, note=note)


def _grouped(release: Release, key: str) -> dict[str, dict[str, Comparison]]:
    aura, baseline = release.rows(MAIN, AURA), release.rows(MAIN, BASELINE)
    names = sorted({row[key] for row in aura.values()})
    if not names:
        raise ReleaseError(f"{MAIN} has no rows of {AURA!r}.")
    return {
        name: contrast(
            {cell: row for cell, row in aura.items() if row[key] == name}, baseline, _coverage
        )
        for name in names
    }


def _conditions(release: Release) -> Iterator[Figure]:
    topic = "all conditions"
    needs = {query["id"]: needed_facts(query) for query in _queries(release)}
    named = {query["id"] for query in _queries(release) if query["agent_subject"] is not None}
    evidence = {}
    for condition in CONDITIONS:
        rows = release.rows(MAIN, condition)
        yield Figure(topic, f"{condition}: coverage by the judge", _mean(rows, _coverage))
        yield Figure(topic, f"{condition}: probes", _mean(rows, _probes))
        yield Figure(topic, f"{condition}: recall of gold tools", _mean(rows, _gold_recall))
        evidence[condition] = {
            cell: {"evidence": evidence_coverage(needs[cell[1]], shown(row))}
            for cell, row in rows.items()
            if cell[1] in named
        }
        mean = _mean(evidence[condition], _evidence)
        yield Figure(topic, f"{condition}: evidence coverage", mean, note=f"{len(named)} queries")
    found = contrast(evidence[AURA], evidence[BASELINE], _evidence)["query"]
    note = f"t {found.t:.2f}, query p {found.t_p:.2g}"
    yield Figure(topic, "evidence coverage, AURA - ReAct", found.difference, note=note)
    fixed = contrast(release.rows(MAIN, FIXED), release.rows(MAIN, AURA), _coverage)["query"]
    note = f"query p {fixed.t_p:.2g}; the fixed control is handed gold labels"
    yield Figure(topic, "coverage, fixed probe - AURA", fixed.difference, note=note)


def _gold_recall(row: Row) -> float:
    gold = set(row["gold_required_tools"])
    return len(gold & set(row["tools_called"])) / len(gold)


def _evidence(row: Row) -> float:
    share: float = row["evidence"]
    return share


def _queries(release: Release) -> list[Row]:
    queries: list[Row] = release.read(QUERIES)["queries"]
    return queries


def _budget(release: Release) -> Iterator[Figure]:
    topic = "budget B(g)"
    routed = release.rows("rq2_aura_gap_routed_multiseed.json", "AURA_GapRouted")
    cases = {
        "100 queries, cap 3": [
            (row["gap"], 3, frame["policy_routed_probes"], row["tools_called"])
            for row in release.rows(MAIN, AURA).values()
            for frame in [row["intent_frame"]]
        ],
        "50 factual queries, cap 5": [
            (row["gap"], 5, row["recommended_probes"], row["actual_probes"])
            for row in routed.values()
        ],
    }
    for name, rows in cases.items():
        matched = bound = 0
        for gap, cap, wanted, called in rows:
            distinct = list(dict.fromkeys(wanted))
            budget = AURA_STEPS.budget(gap, cap=cap)
            matched += called == distinct[:budget]
            bound += budget < len(distinct)
        note = f"of {len(rows)} rows"
        yield Figure(topic, f"{name}: rows with the probes of B(g)", matched, note=note)
        yield Figure(topic, f"{name}: rows where the budget bound", bound, note=note)
    gaps, probes = _columns(release.rows(MAIN, AURA), "gap", "probes")
    r = float(np.corrcoef(gaps, probes)[0, 1])
    yield Figure(topic, "correlation of gap and probes, 100 queries", r)


def _columns(rows: Mapping[Cell, Row], *names: str) -> list[list[float]]:
    return [[float(row[name]) for row in rows.values()] for name in names]


_BACKBONES = {
    "claude-haiku-4.5, 100 queries": "rq_intent_v2_claudehaiku45_seed42.json",
    "claude-haiku-4.5, 25 queries": "rq2_implicit_intent_claudehaiku45_seed42.json",
    "qwen-plus, 25 queries": "rq2_implicit_intent_qwenplus_seed42.json",
    "gemini-2.5-flash, 25 queries": "rq2_implicit_intent_gemini25flash_seed42.json",
}
_PROMPTS = {
    "first prompt": "rq2_implicit_intent_v2_with_second_order.json",
    "clean prompt": "rq_intent_clean_prompt_multiseed.json",
    "no few-shot examples": "rq_intent_no_fewshot_multiseed.json",
}


def _backbones(release: Release) -> Iterator[Figure]:
    for name, file in _BACKBONES.items():
        found = contrast(release.rows(file, AURA), release.rows(file, BASELINE), _coverage)["query"]
        claimed = file == "rq_intent_v2_claudehaiku45_seed42.json"
        yield Figure(
            "other backbones",
            f"difference, {name}",
            found.difference,
            "+0.086" if claimed else "",
            _rounds_to(found.difference, 0.086, 3) if claimed else None,
            f"query p {found.t_p:.2g}",
        )


def _prompts(release: Release) -> Iterator[Figure]:
    for name, file in _PROMPTS.items():
        aura, baseline = release.rows(file, AURA), release.rows(file, BASELINE)
        found = contrast(aura, baseline, _coverage)["query"]
        note = (
            f"{_mean(aura, _coverage):.3f} against {_mean(baseline, _coverage):.3f}; "
            f"query p {found.t_p:.2g}"
        )
        yield Figure("prompt ablation", f"difference, {name}", found.difference, note=note)


def _fewer_probes(release: Release) -> Iterator[Figure]:
    topic = "probes saved, 50 factual queries"
    aura = release.rows("rq2_aura_gap_routed_multiseed.json", "AURA_GapRouted")
    fixed = release.rows("rq2_fixed_probe_multiseed.json", "Fixed_Probe")
    planned = release.rows("rq2_extra_baselines_multiseed.json", "Plan_and_Solve")
    saved = 1 - _mean(aura, _probes) / _mean(fixed, _probes)
    note = "against calling all eight tools every time"
    yield Figure(topic, "against all tools", saved, "82 %", _rounds_to(saved, 0.82, 2), note)
    saved = 1 - _mean(aura, _probes) / _mean(planned, _probes)
    yield Figure(topic, "against Plan-and-Solve", saved)
    for name, others in {"all tools": fixed, "Plan-and-Solve": planned}.items():
        found = contrast(others, aura, _accuracy)["query"]
        note = f"query p {found.t_p:.2g}"
        yield Figure(topic, f"accuracy, {name} - AURA", found.difference, note=note)


def _violations(release: Release) -> Iterator[Figure]:
    topic = "forbidden tools called"
    file = "rq2_privacy_distractor_multiseed.json"
    for condition in release.read(file)["baselines"]:
        rows = release.rows(file, condition).values()
        known = [
            row["privacy_violation"] for row in rows if row.get("privacy_violation") is not None
        ]
        share = rate(sum(known), len(known))
        is_aura = condition == "AURA_GapRouted"
        yield Figure(
            topic,
            f"{condition}: share of rows",
            share.value,
            "0" if is_aura else "",
            share.successes == 0 if is_aura else None,
            f"{share.successes} of {share.trials}; at most {share.exact.high:.3f} (exact 95 %)",
        )


def _agreement(release: Release) -> Iterator[Figure]:
    topic = "agreement of annotators"
    first = release.read("iaa_annotator_1.json")["ratings"]
    second = release.read("iaa_annotator_2.json")["ratings"]
    gold = {str(query["id"]): query["subcategory"] for query in _queries(release)}
    items = sorted(first.keys() & second.keys() & gold.keys())

    def labels(ratings: Mapping[str, Any]) -> list[Any]:
        return [ratings[item] for item in items]

    kappa = cohen_kappa(labels(first), labels(second))
    note = f"{len(items)} of {len(gold)} queries"
    yield Figure(topic, "kappa", kappa, "0.61", _rounds_to(kappa, 0.61, 2), note)
    stored = release.read("iaa_implicit_intent.json")["pairwise_kappa"]
    for pair in stored.values():
        yield Figure(topic, "kappa in the released summary", pair["kappa"], "0.61", False)
    for name, ratings in {"first": first, "second": second}.items():
        yield Figure(topic, f"kappa, {name} - gold", cohen_kappa(labels(ratings), labels(gold)))


def _adaptive(release: Release) -> Iterator[Figure]:
    topic = "adaptive budget, 25 queries"
    claims = release.read("adaptive_budget_stats.json")["global"]
    rows = release.rows("rq2_implicit_intent_v2_with_second_order.json", AURA)
    gaps, probes, scores = _columns(rows, "gap", "probes", "implicit_score")
    found = {
        "gap_mean": np.mean(gaps),
        "probes_mean": np.mean(probes),
        "pearson_gap_probes": np.corrcoef(gaps, probes)[0, 1],
        "pearson_gap_implicit": np.corrcoef(gaps, scores)[0, 1],
    }
    for name, value in found.items():
        claimed = claims[name]
        yield Figure(topic, name, float(value), str(claimed), _rounds_to(float(value), claimed, 4))


def _by_budget(release: Release) -> Iterator[Figure]:
    file = "rq6_probe_budget_pareto_multiseed.json"
    content = release.read(file)
    for budget, claimed in content["statistics"]["per_budget"].items():
        seeds = [found["per_budget"][budget]["avg_ga"] for found in content["per_seed"].values()]
        value, claim = float(np.mean(seeds)), claimed["avg_ga_mean"]
        holds = abs(value - claim) < 1e-3
        yield Figure("grounding by budget", f"budget {budget}", value, str(claim), holds)


_SECTIONS: dict[str, Section] = {
    "coverage, AURA - ReAct": _headline,
    "coverage by scene": _scenes,
    "coverage by kind of need": _kinds,
    "all conditions": _conditions,
    "budget B(g)": _budget,
    "other backbones": _backbones,
    "prompt ablation": _prompts,
    "probes saved, 50 factual queries": _fewer_probes,
    "forbidden tools called": _violations,
    "agreement of annotators": _agreement,
    "adaptive budget, 25 queries": _adaptive,
    "grounding by budget": _by_budget,
}
