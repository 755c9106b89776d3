"""What the data can and cannot say, in plain words made from the release itself."""

from __future__ import annotations

import json
from math import isnan
from typing import TYPE_CHECKING

import pandas as pd

from hsfiq.analysis.data.answers import contradicts
from hsfiq.analysis.reports.cells import ends, number
from hsfiq.analysis.resampling.interval import FEW_CLUSTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hsfiq.analysis.analyze import Analysis
    from hsfiq.analysis.data.release import Release
    from hsfiq.analysis.details import Details

Caveat = tuple[str, str]

FUNNEL = {
    "handed-on": "left by a participant for the next",
    "check": "asked as attention checks",
    "unanswered": "handed out and not answered",
    "skipped": "skipped for a missing image",
    "excluded": "answered by excluded participants",
    "irrelevant": "flagged irrelevant",
    "contradicts": "with a preference against the scores",
    "failed-checks": "of forms with a failed check",
    "min-seconds": "answered too fast",
}
"""The rules of a release's funnel, in words."""


def caveats(release: Release, analysis: Analysis, details: Details) -> tuple[Caveat, ...]:
    """Say what one must know before reading the figures.

    Args:
        release: what was analysed.
        analysis: its main figures.
        details: what lies behind them.

    Returns:
        Heading and sentences of each point; only what is true of this release.
    """
    if not len(release.preferences):
        return (("There are no answers", "The release is empty, so every figure is undefined."),)
    return (
        *_noted(analysis),
        *_people(release, analysis),
        *_left_out(release),
        *_base_rate(release, analysis),
        *_rules(analysis),
        *_coverage(analysis),
        *_missing(analysis),
        *_two_confirmations(release),
        *_overlap(analysis, details),
        *_categories(details),
        *_sensitivity(details),
    )


def sentence(said: str) -> str:
    """What is said as a sentence of its own."""
    return f"{said[0].upper()}{said[1:]}."


def _noted(analysis: Analysis) -> Iterator[Caveat]:
    if analysis.notes:
        yield "What is judged here", " ".join(map(sentence, analysis.notes))


def _people(release: Release, analysis: Analysis) -> Iterator[Caveat]:
    about = analysis.release
    if about.simulated:
        yield (
            "Nobody was asked",
            (
                "The answers come from simulated annotators. Every figure describes the "
                "simulation, and none what people think."
            ),
        )
    who = "simulated annotators" if about.simulated else "people"
    triplets = _n_triplets(release)
    taken = "" if about.taken is None else f"{sentence(about.taken)} "
    repeated = ""
    if triplets is not None and triplets < about.n_questions:
        repeated = f" The questions are about {triplets:,} triplets, so that some come again."
    yield (
        "What was asked",
        (
            f"{taken}{about.n_participants:,} "
            f"{who if about.n_participants != 1 else 'participant'} "
            f"compared two retrieved sets in {about.n_questions:,} questions and scored each set: "
            f"{about.n_sets:,} scores.{repeated}"
        ),
    )
    if about.n_participants < 2:
        yield (
            "One participant",
            (
                "With a single participant nothing is known of how much people differ: there are "
                "no intervals, and nothing carries over to other people."
            ),
        )
    elif about.n_participants < FEW_CLUSTERS:
        yield (
            "Few participants",
            (
                f"{about.n_participants} participants are few: intervals that resample them tend "
                "to be too short. Read them as the least there is of doubt."
            ),
        )


def _n_triplets(release: Release) -> int | None:
    if "triplet_id" not in release.queries:
        return None
    asked = release.queries["query_id"].isin(release.preferences["query_id"])
    return int(release.queries.loc[asked, "triplet_id"].nunique())


def _left_out(release: Release) -> Iterator[Caveat]:
    """What the release's own filters took out; nothing where no manifest says."""
    try:
        steps = json.loads((release.folder / "manifest.json").read_text(encoding="utf-8"))
        dropped = {
            str(step["rule"]): int(step["dropped"])
            for step in steps["funnel"]["steps"]
            if step["dropped"]
        }
    except (OSError, ValueError, KeyError, TypeError):
        return
    if dropped:
        said = ", ".join(f"{n:,} {FUNNEL.get(rule, rule)}" for rule, n in dropped.items())
        yield "What was left out", f"Not in the release: {said}."
    else:
        yield "What was left out", "Nothing: the release holds every question that was handed out."


def _base_rate(release: Release, analysis: Analysis) -> Iterator[Caveat]:
    bias = analysis.position_bias
    if bias.reason is not None:
        yield "No preferences", f"Position bias and preference rates are undefined: {bias.reason}."
        return
    rate = f"{number(bias.rate)}" + (f" {ends((bias.ci.low, bias.ci.high))}" if bias.ci else "")
    beyond = bias.p_clustered < 0.05
    unnamed = release.sets.get("system", pd.Series(dtype=object)).isna().all()
    cause = (
        " As the systems are not named, a habit of people and a better system behind set 1 "
        "cannot be told apart."
        if beyond and unnamed
        else ""
    )
    yield (
        "The base rate is not 0.5" if beyond else "The base rate",
        (
            f"Set 1 was preferred in {rate} of the questions"
            f"{', more than chance explains' if beyond and bias.rate > 0.5 else ''}"
            f"{', less than chance explains' if beyond and bias.rate < 0.5 else ''}: a metric that "
            f"knows nothing gets {number(bias.rate)} by the published rules.{cause}"
        ),
    )
    if bias.human_ties:
        yield (
            "Human ties",
            (
                f"In {bias.human_ties:,} question{'s' if bias.human_ties > 1 else ''} neither set "
                "was preferred; preference rates leave them out."
            ),
        )


def _rules(analysis: Analysis) -> Iterator[Caveat]:
    said = []
    for name, metric in analysis.metrics.items():
        rates = metric.preference
        found = [
            rate.rate
            for rate in (rates.ge, rates.gt, rates.ge_swapped, rates.gt_swapped)
            if not isnan(rate.rate)
        ]
        if found and max(found) - min(found) >= 0.01:
            said.append(f"{name} from {number(min(found))} to {number(max(found))}")
    if said:
        yield (
            "A preference rate depends on its rule",
            (
                "The published rules look at set 1 alone and differ in > or >=. By that choice, "
                f"and by which set is called set 1, the same answers give {'; '.join(said)}. Quote "
                "the symmetric rate with its coverage, or tie_half."
            ),
        )


def _coverage(analysis: Analysis) -> Iterator[Caveat]:
    said = [
        f"{name} ties on {number(rates.metric_ties / rates.base_rate.n, 'percent')} of the pairs"
        for name, metric in analysis.metrics.items()
        if (rates := metric.preference).metric_ties and rates.base_rate.n
    ]
    if said:
        yield (
            "What metrics leave open",
            f"{'; '.join(said)}. Rules with a strict > say nothing of these pairs.",
        )


def _missing(analysis: Analysis) -> Iterator[Caveat]:
    for name, metric in analysis.metrics.items():
        if metric.missing.n:
            named = ", ".join(metric.missing.first)
            more = ", ..." if metric.missing.n > len(metric.missing.first) else ""
            yield (
                f"{name} is incomplete",
                (
                    f"It has no value for {metric.missing.n:,} of {analysis.release.n_sets:,} sets "
                    f"({named}{more}); its figures leave them out."
                ),
            )


def _two_confirmations(release: Release) -> Iterator[Caveat]:
    asked = release.preferences
    unequal = (asked["preferred"] != 0) & (asked["score_1"] != asked["score_2"])
    n = int(unequal.sum())
    if n:
        agree = 1 - int(contradicts(asked).sum()) / n
        yield (
            "Preferences and scores are not two confirmations",
            (
                f"Of {n:,} pairs with a preference and two different scores, "
                f"{number(agree, 'percent')} prefer the higher score: one person gave both. A "
                "metric that agrees with the scores agrees with the preferences, without this "
                "being new evidence."
            ),
        )


def _overlap(analysis: Analysis, details: Details) -> Iterator[Caveat]:
    found = details.ceiling
    if not isnan(found.scores.alpha):
        yield (
            "People overlap",
            (
                f"{found.n_sets:,} of {analysis.release.n_sets:,} sets were judged by somebody "
                "else too: agreement is known there (alpha of the scores "
                f"{number(found.scores.alpha)}), and so is how well people foretell each other."
            ),
        )
    else:
        yield (
            "Agreement between people is unknown",
            (
                f"{f'Only {found.n_sets:,}' if found.n_sets else 'None'} of "
                f"{analysis.release.n_sets:,} sets {'was' if found.n_sets == 1 else 'were'} judged "
                "by two people. So neither the agreement of people nor the best that a metric "
                "could reach can be computed."
            ),
        )


def _categories(details: Details) -> Iterator[Caveat]:
    if details.categories.note is not None:
        yield "Categories", sentence(details.categories.note)


def _sensitivity(details: Details) -> Iterator[Caveat]:
    changed = [row.rule for row in details.sensitivity.rows if row.changes]
    if changed:
        yield (
            "Conclusions depend on which answers count",
            f"They change {'; '.join(changed)}. See the sensitivity table.",
        )
