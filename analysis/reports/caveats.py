"""The limits of a report: its caveats and the methods of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from hsfiq.analysis.analyze import Analysis, Details
from hsfiq.analysis.data.columns import contradictions, has_preference, looked_up
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.reports.document import (
    Block,
    Section,
    bounds_text,
    number_text,
    read_toml,
    table,
)
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.intervals import FEW_CLUSTERS
from hsfiq.analysis.statistics.comparison import Comparison
from hsfiq.text import count_text

if TYPE_CHECKING:
    pass


# What the data can and cannot show, in sentences made from the release itself.

Caveat = tuple[str, str]
TWO_WAY = "participant x triplet"


def caveats(release: Release, analysis: Analysis) -> tuple[Caveat, ...]:
    """The heading and text of each limitation of the data."""
    if not len(release.preferences):
        return (("There are no answers", "The release is empty, so every figure is undefined."),)
    return (
        *_shared_triplets(analysis),
        *_data(release, analysis),
        *_few_participants(analysis),
        *_base_rate(release, analysis),
        *_rules(analysis),
        *_metric_ties(analysis),
        *_dependent_evidence(release),
        *([] if analysis.details is None else _of_details(analysis, analysis.details)),
    )


def _of_details(analysis: Analysis, details: Details) -> Iterator[Caveat]:
    yield from _overlap(analysis, details)
    yield from _categories(details)


def sentence(text: str) -> str:
    """A clause as a sentence: capitalised, with a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def _shared_triplets(analysis: Analysis) -> Iterator[Caveat]:
    shared, ci = analysis.shared_triplets, analysis.position_bias.ci
    if not shared.n_shared or ci is None:
        return
    text = f"{sentence(shared.clause)} Answers to the same triplet depend on each other. "
    if ci.unit == TWO_WAY:
        text += (
            "Intervals and p-values therefore account for participants and triplets, so they "
            "generalize to other people and other queries."
        )
    else:
        text += (
            f"Intervals and p-values resample only one (unit: {ci.unit}), so they are too narrow "
            "to generalize to other people and other queries."
        )
    yield "Participants share triplets", text


def _data(release: Release, analysis: Analysis) -> Iterator[Caveat]:
    summary = analysis.release
    people = ("simulated annotator", None) if summary.simulated else ("participant", "people")
    text = (
        f"{count_text(summary.n_participants, *people)} compared two retrieved sets in "
        f"{count_text(summary.n_questions, 'question')} and scored each set: "
        f"{count_text(summary.n_sets, 'score')}."
    )
    if summary.taken is not None:
        text = f"{sentence(summary.taken)} {text}"
    if "triplet_id" in release.queries:
        n = int(looked_up(release.preferences["query_id"], release.triplets).nunique())
        if n < summary.n_questions:
            triplets = count_text(n, "triplet")
            text += f" The questions cover {triplets}, so some triplets appear repeatedly."
    yield "The data", text


def _few_participants(analysis: Analysis) -> Iterator[Caveat]:
    n = analysis.release.n_participants
    if n < 2:
        text = (
            "With a single participant, the variation between people is unknown: there are no "
            "intervals, and the figures do not generalize to other people."
        )
        yield "One participant", text
    elif n < FEW_CLUSTERS:
        text = (
            f"There are only {n} participants. The intervals are wider to account for this, but so "
            "few people cannot show how much people differ."
        )
        yield "Few participants", text


def _base_rate(release: Release, analysis: Analysis) -> Iterator[Caveat]:
    bias = analysis.position_bias
    if bias.reason is not None:
        yield "No preferences", f"Position bias and preference rates are undefined: {bias.reason}."
        return
    rate = number_text(bias.rate)
    interval = f" {bounds_text((bias.ci.low, bias.ci.high))}" if bias.ci else ""
    text = f"Set 1 was preferred in {rate}{interval} of the questions"
    is_biased = bias.p_clustered < 0.05
    if is_biased and bias.rate != 0.5:
        text += f", {'more' if bias.rate > 0.5 else 'less'} often than expected by chance"
    text += f". By the published rules, an uninformative metric therefore gets {rate}."
    if is_biased and release.sets.get("system", pd.Series(dtype=object)).isna().all():
        text += (
            " Because the systems are not named, position bias cannot be distinguished from better "
            "systems having returned set 1."
        )
    yield "The base rate is not 0.5" if is_biased else "The base rate", text
    if bias.human_ties:
        questions = count_text(bias.human_ties, "question")
        text = f"In {questions} neither set was preferred; preference rates exclude them."
        yield "Human ties", text


def _rules(analysis: Analysis) -> Iterator[Caveat]:
    ranges = []
    for name, metric in analysis.metrics.items():
        rates = metric.preference
        by_rule = (rates.ge.rate, rates.gt.rate, rates.ge_swapped.rate, rates.gt_swapped.rate)
        defined = [rate for rate in by_rule if not isnan(rate)]
        if defined and max(defined) - min(defined) >= 0.01:
            ranges.append(f"{name} from {number_text(min(defined))} to {number_text(max(defined))}")
    if ranges:
        text = (
            "The published rules consider only set 1 and differ in using > or >=. Depending on "
            "that choice, and on which set is called set 1, the same answers give different "
            f"rates: {'; '.join(ranges)}. Report the symmetric rate with its coverage, or "
            "tie_half."
        )
        yield "Preference rates depend on the rule", text


def _metric_ties(analysis: Analysis) -> Iterator[Caveat]:
    shares = [
        f"{name} ties on {number_text(rates.metric_ties / rates.base_rate.n, 'percent')} of the "
        "pairs"
        for name, metric in analysis.metrics.items()
        if (rates := metric.preference).metric_ties and rates.base_rate.n
    ]
    if shares:
        yield "Metric ties", f"{'; '.join(shares)}. Rules with a strict > exclude these pairs."


def _dependent_evidence(release: Release) -> Iterator[Caveat]:
    answers = release.preferences
    decided = has_preference(answers) & (answers["score_1"] != answers["score_2"])
    n = int(decided.sum())
    if n:
        agree = number_text(1 - int(contradictions(answers).sum()) / n, "percent")
        text = (
            f"Of {count_text(n, 'pair')} with a preference and two different scores, {agree} "
            "prefer the higher score: the same person gave both. A metric that agrees with the "
            "scores will also agree with the preferences, which adds no evidence for it."
        )
        yield "Preferences and scores are not independent evidence", text


def _overlap(analysis: Analysis, details: Details) -> Iterator[Caveat]:
    overlap, sets = details.overlap, count_text(analysis.release.n_sets, "set")
    if isnan(overlap.scores.alpha):
        count = f"Only {overlap.n_sets:,}" if overlap.n_sets else "None"
        text = (
            f"{count} of {sets} {'was' if overlap.n_sets < 2 else 'were'} scored by "
            "two people, so neither inter-annotator agreement nor the highest correlation "
            "that a metric could reach can be estimated."
        )
        yield "Inter-annotator agreement is unknown", text
    else:
        text = (
            f"{overlap.n_sets:,} of {sets} were scored by more than one person. On "
            "these sets, inter-annotator agreement (Krippendorff's alpha of the scores "
            f"{number_text(overlap.scores.alpha)}), how well one annotator predicts another and "
            "the highest correlation that a metric could reach can be estimated."
        )
        yield "Overlap between annotators", text


def _categories(details: Details) -> Iterator[Caveat]:
    if details.categories.note is not None:
        yield "Categories", sentence(details.categories.note)


# The section on how each figure is computed: its formula and source.


class Method(NamedTuple):
    """How a figure is computed: its key in the columns of tables, its name, formula and source.

    `details` is the complete definition, for the documentation, if the formula is not enough.
    """

    key: str
    name: str
    formula: str
    source: str
    details: str = ""


FIGURE_METHODS = tuple(Method(**method) for method in read_toml("methods.toml")["methods"])
METHOD_NUMBERS = {method.key: number for number, method in enumerate(FIGURE_METHODS, 1)}
"""The note number of each method."""


def methods_section(bootstrap: Bootstrap, comparisons: Sequence[Comparison]) -> Section:
    rows = tuple(
        (str(number), method.name, method.formula, method.source)
        for number, method in enumerate(FIGURE_METHODS, 1)
    )
    blocks: list[Block] = [intervals_text(bootstrap)]
    swaps = comparisons[0].spearman.swaps if comparisons else None
    if swaps is not None:
        permutations = count_text(swaps.n, "permutation")
        blocks.append(
            f"Tests of differences: {permutations}, seed {swaps.seed}, p = (b + 1) / "
            "(permutations + 1)."
        )
    blocks += [
        (
            "results.json and tables/*.csv hold the figures in full precision, each with its n, "
            "clusters, method and seed. An undefined figure is a dash here and null in JSON, "
            "always with a reason."
        ),
        table("methods", rows),
    ]
    return Section("methods", "Methods", tuple(blocks))


def intervals_text(bootstrap: Bootstrap) -> str:
    """How intervals are computed with these resamples."""
    resamples = count_text(bootstrap.n_resamples, "resample")
    clusters = count_text(bootstrap.n_clusters_of(None), "cluster")
    draws = (
        f"{resamples}, seed {bootstrap.seed}, unit: {bootstrap.unit} ({clusters} in the release). "
        "Whole clusters are drawn with replacement. All figures use the same draws, so differences "
        "are paired. Means and rates need no draws: their variance follows from the sums of each "
        "cluster's errors."
    )
    if len(bootstrap.parts) > 1:
        return (
            "Intervals: 95%, Student's t. Participants share triplets, so the variance is that "
            "over resampled participants, plus that over resampled triplets, less that over "
            "resampled answers of one participant to one triplet (Cameron, Gelbach and Miller "
            f"2011), with Satterthwaite's degrees of freedom; {draws}"
        )
    return (
        "Intervals: 95%, Student's t with the variance over the resamples, and the degrees of "
        "freedom of the effective number of clusters, which is smaller if some have many more "
        f"answers than others (Carter, Schnepel and Steigerwald 2017); {draws}"
    )
