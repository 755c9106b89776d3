"""The answer of a release: its verdicts, the statistics that disagree, and its sensitivity.

The verdicts of all pairs by the primary statistic are one family of tests; all tests by other
statistics are a second one. Both are adjusted by Holm's method (1979).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, isnan
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from hsfiq.analysis.data.columns import looked_up, metric_difference, optional_column
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.provenance import triplets_of
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord, SparseRecord, json_value
from hsfiq.analysis.people.participants import participants
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Clusters, ratio
from hsfiq.analysis.resampling.intervals import LEVEL
from hsfiq.analysis.sensitivity import (
    MIN_SECONDS,
    PRACTICE,
    JackknifeRange,
    jackknife_range,
    rho_without_each,
    rules,
)
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.comparison import STATISTICS, Comparison, compare_by
from hsfiq.analysis.statistics.correlation import WithinQuery, within_query
from hsfiq.analysis.systems.strengths import strengths_from_counts
from hsfiq.analysis.systems.systems import compared_systems, names_of, won_by_first
from hsfiq.analysis.verdicts import (
    ALPHA,
    METRIC_STATISTICS,
    NEUTRAL,
    SYSTEM_STATISTICS,
    Kind,
    Tested,
    Verdict,
    compared_metrics,
    compared_systems_by,
    decided,
    p_of_equivalence,
)
from hsfiq.errors import UnreadableInput
from hsfiq.releases.folder import filters_in, manifest_of
from hsfiq.text import count_text

# How verdicts are decided, and what was decided.


@dataclass(frozen=True)
class DecisionRules(SparseRecord):
    """How verdicts are decided.

    Attributes:
        statistic: the primary one.
        margin: differences below it do not matter; None if there is none.
        pair: the pair in question; None for the best two.
        exclusions: the filters that the study declared; None if it declared no rules.
        declared: whether the study declared these rules before it was opened.
        has_pair: whether the pair is compared.
    """

    question: Kind
    statistic: str
    margin: float | None = None
    alpha: float = ALPHA
    pair: tuple[str, str] | None = None
    exclusions: tuple[str, ...] | None = None
    declared: bool = False
    has_pair: bool = True

    @classmethod
    def of(cls, release: Release, question: Kind, margin: float | None = None) -> DecisionRules:
        """The rules that the study declared, unless another margin is given; or the default."""
        plan = release.plan
        if plan is None or plan.question != question:
            primary = (SYSTEM_STATISTICS if question == "systems" else METRIC_STATISTICS)[0]
            return cls(question, primary, margin)
        chosen = plan.margin if margin is None else margin
        is_declared = chosen == plan.margin
        rest = (plan.alpha, plan.pair, plan.exclusions, is_declared)
        return cls(question, plan.statistic, chosen, *rest)


@dataclass(frozen=True)
class Doubt(SparseRecord):
    """The question's pair again, by another statistic or without some answers.

    Attributes:
        about: the difference from the answer.
        n_dropped: how many answers are excluded; None for another statistic.
        verdict: on the same pair; None, with a `reason`, if it cannot be computed.
        change: "unchanged", "reversed", or the new word of the verdict.
        others: the other pairs whose word changes.
    """

    about: str
    n_dropped: int | None
    verdict: Verdict | None = None
    change: str | None = None
    others: tuple[tuple[str, str], ...] = ()
    reason: str | None = None

    @property
    def changes(self) -> bool:
        return self.change not in (None, "unchanged") or bool(self.others)


@dataclass(frozen=True)
class WorstCase(SparseRecord):
    """A verdict if all missing answers had favored b.

    Attributes:
        n_missing: how many questions were excluded or not answered; None if not recorded.
        difference, change: in that case; NaN and None if `n_missing` is unknown.
        tipping_point: the least number of answers for b that brings the difference to 0; None if
            it is undefined, for `reason`.
    """

    a: str
    b: str
    n_missing: int | None
    difference: float = UNDEFINED
    change: str | None = None
    tipping_point: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Answer(JsonRecord):
    """The answer of a release to its question.

    Attributes:
        verdict: on the pair that was declared, or else on the best two.
        others: the verdicts by all other statistics, adjusted as one family.
        doubts: those that change a verdict first, those that cannot be computed last.
        without_each: the range of the difference without one participant; None if undefined.
        worst_cases: for each verdict, the possible effect of missing answers.
        people_to_decide: about how many participants would give a power of 80% if the true
            difference equals this estimate; None unless the verdict is undecided.
        excluded: how many questions each of the release's filters removed, and the filters that
            could not be applied; None if not recorded.
        gaps_by_person: each participant's own difference, if it is defined.
    """

    rules: DecisionRules
    verdicts: Sequence[Verdict]
    verdict: Verdict
    others: Sequence[Verdict]
    doubts: Sequence[Doubt]
    without_each: JackknifeRange | None
    worst_cases: Sequence[WorstCase]
    people_to_decide: int | None
    excluded: Excluded | None
    gaps_by_person: Sequence[float]

    @property
    def exclusions_as_declared(self) -> bool | None:
        """Whether the release has the filters that the study declared; None if it declared none."""
        if self.rules.exclusions is None or self.excluded is None:
            return None
        return sorted(self.rules.exclusions) == sorted(self.excluded.filters)

    def disagreements(self, verdict: Verdict) -> list[Verdict]:
        """The verdicts of other statistics that disagree about the same pair."""
        return [
            other
            for other in self.others
            if other.pair == verdict.pair
            and other.verdict == "better"
            and change_of(verdict, other) != "unchanged"
        ]

    def to_json(self) -> dict[str, object]:
        fields = {
            "rules": self.rules.to_json(),
            "exclusions_as_declared": self.exclusions_as_declared,
            "pair": [self.verdict.a, self.verdict.b],
            "other_statistics": json_value(self.others),
            "disagreements": [
                [each.a, each.b, each.statistic]
                for verdict in self.verdicts
                for each in self.disagreements(verdict)
            ],
            "people_to_decide": self.people_to_decide,
            "doubts": json_value(self.doubts),
            "people": {
                "n": len(self.gaps_by_person),
                "for_a": sum(each > 0 for each in self.gaps_by_person),
                "for_b": sum(each < 0 for each in self.gaps_by_person),
            },
            "one_participant_left_out": json_value(self.without_each),
            "missing_answers": json_value(self.worst_cases),
            "excluded": json_value(self.excluded),
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, eq=False)
class _Study:
    """The inputs of the answer; `values` is empty in a question about systems."""

    release: Release
    values: MetricValues
    bootstrap: Bootstrap
    rules: DecisionRules

    @cached_property
    def kinds(self) -> _AnswerKinds:
        return _AnswerKinds.of(self.release)

    def tested(self, release: Release) -> list[Tested]:
        statistic, margin = self.rules.statistic, self.rules.margin
        if not self.values:
            return compared_systems_by(statistic, release, self.bootstrap, margin)
        differences = compare_by(statistic, release, self.values, self.bootstrap)
        return compared_metrics(differences, statistic, margin)

    def others(
        self, comparisons: Sequence[Comparison], within: WithinQuery | None
    ) -> list[Verdict]:
        """The verdicts by all other statistics, on all pairs."""
        if not self.values:
            others = [name for name in SYSTEM_STATISTICS if name != self.rules.statistic]
            by = [compared_systems_by(name, self.release, self.bootstrap) for name in others]
        else:
            differences = {
                name: [(each.metric, each.other, getattr(each, name)) for each in comparisons]
                for name in STATISTICS
                if name != self.rules.statistic
            }
            within = within or within_query(self.release, self.values, self.bootstrap)
            differences["within_query"] = [
                (each.metric, each.other, each.spearman) for each in within.differences
            ]
            by = [compared_metrics(each, name) for name, each in differences.items()]
        return decided([each for tested in by for each in tested], self.rules.alpha)


def answer(
    release: Release,
    values: MetricValues,
    bootstrap: Bootstrap,
    comparisons: Sequence[Comparison],
    margin: float | None = None,
    within: WithinQuery | None = None,
) -> Answer | None:
    """Answer which of the metrics agrees best, or without metrics, which system people prefer.

    None if there is no pair to compare. `within` saves computing it again.
    """
    question: Kind = "metrics" if values else "systems"
    study = _Study(release, values, bootstrap, DecisionRules.of(release, question, margin))
    if values:
        statistic = study.rules.statistic
        found = [(each.metric, each.other, getattr(each, statistic)) for each in comparisons]
        tested = compared_metrics(found, statistic, study.rules.margin)
    else:
        tested = study.tested(release)
    if not tested:
        return None
    verdicts = [
        replace(each, simulated=release.simulated) for each in decided(tested, study.rules.alpha)
    ]
    first = _of_pair(verdicts, study.rules.pair)
    if first is None:
        first = verdicts[0]
        study = replace(study, rules=replace(study.rules, has_pair=study.rules.pair is None))
    others = [
        replace(each, simulated=release.simulated) for each in study.others(comparisons, within)
    ]
    excluded = excluded_from(release)
    return Answer(
        rules=study.rules,
        verdicts=verdicts,
        verdict=first,
        others=others,
        doubts=_sorted([*_by_statistic(first, others), *_by_answers(study, verdicts, first)]),
        without_each=_without_each(study, first),
        worst_cases=[
            _worst_case(study, tested, number, verdict, excluded)
            for number, verdict in enumerate(verdicts)
        ],
        people_to_decide=_people_to_decide(release, first, study.rules.alpha / len(verdicts)),
        excluded=excluded,
        gaps_by_person=_gaps_by_person(study, first),
    )


def _of_pair(verdicts: Sequence[Verdict], pair: tuple[str, str] | None) -> Verdict | None:
    return next((each for each in verdicts if pair and each.pair == frozenset(pair)), None)


def change_of(before: Verdict, after: Verdict) -> str:
    """The change of a verdict on the same pair: "unchanged", "reversed" or a's new verdict."""
    if before.verdict == "better" == after.verdict:
        return "unchanged" if before.a == after.a else "reversed"
    if after.verdict == "better":
        return "better" if before.a == after.a else "worse"
    return "unchanged" if before.verdict == after.verdict else after.verdict


def signed_as(verdict: Verdict, other: Verdict) -> Verdict:
    """`other`, on the same pair, as the difference of a less b of `verdict`."""
    if verdict.a == other.a or isnan(other.difference):
        return other
    ci = other.ci and replace(other.ci, low=-other.ci.high, high=-other.ci.low)
    return replace(other, a=verdict.a, b=verdict.b, difference=-other.difference, ci=ci)


def standard_error(verdict: Verdict) -> float:
    """The standard error of a difference, towards 0; NaN if its interval is undefined."""
    ci = verdict.ci
    if ci is None or not ci.low < ci.high:
        return UNDEFINED
    errors = stats.norm if ci.df is None else stats.t(ci.df)
    return float((verdict.difference - ci.low) / errors.ppf((1 + LEVEL) / 2))


POWER = 0.8
MOST_PEOPLE = 100_000
"""Larger numbers of people are unrealistic and are not reported."""


def _people_to_decide(release: Release, verdict: Verdict, alpha: float) -> int | None:
    """The number of people for a two-sided test at level alpha, if the variance falls with it."""
    error = standard_error(verdict)
    if verdict.verdict != "undecided" or isnan(error) or verdict.difference <= 0:
        return None
    quantiles = float(stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(POWER))
    people = release.n_participants * (quantiles * error / verdict.difference) ** 2
    return ceil(people) if people < MOST_PEOPLE else None


# Doubts: the same pair by other statistics, and without answers that may be doubted.

MOST_CATEGORIES = 6
FASTEST = 0.25  # of the people


def _sorted(doubts: Sequence[Doubt]) -> list[Doubt]:
    return sorted(doubts, key=lambda each: (each.verdict is None, not each.changes))


def _by_statistic(first: Verdict, others: Sequence[Verdict]) -> Iterator[Doubt]:
    for other in others:
        if other.pair == first.pair:
            if other.verdict == "undefined":
                yield Doubt(other.statistic, None, reason=other.reason)
                continue
            is_decided = "better" in (first.verdict, other.verdict)
            change = change_of(first, other) if is_decided else "unchanged"
            yield Doubt(other.statistic, None, signed_as(first, other), change)


def _by_answers(study: _Study, verdicts: Sequence[Verdict], first: Verdict) -> Iterator[Doubt]:
    n = len(study.release.preferences)
    for about, kept in _choices(study, first):
        if isinstance(kept, str):
            yield Doubt(about, None, reason=kept)
        elif kept.sum() < n:
            yield _doubt(study, about, kept, verdicts, first)


def _doubt(
    study: _Study, about: str, kept: pd.Series[bool], verdicts: Sequence[Verdict], first: Verdict
) -> Doubt:
    n_dropped = int((~kept).sum())
    again: dict[frozenset[str], Verdict] = {}
    if kept.any():
        tested = study.tested(study.release.subset(kept))
        again = {
            each.pair: replace(each, simulated=study.release.simulated)
            for each in decided(tested, study.rules.alpha)
        }
    if first.pair not in again:
        left = "the other answers do not compare this pair" if kept.any() else "no answer is left"
        return Doubt(about, n_dropped, reason=left)
    if again[first.pair].verdict == "undefined" != first.verdict:
        return Doubt(about, n_dropped, reason=again[first.pair].reason)
    return Doubt(
        about,
        n_dropped,
        signed_as(first, again[first.pair]),
        change_of(first, again[first.pair]),
        tuple(
            (each.a, each.b)
            for each in verdicts
            if each is not first
            and each.pair in again
            and change_of(each, again[each.pair]) != "unchanged"
        ),
    )


def _choices(study: _Study, first: Verdict) -> Iterator[tuple[str, pd.Series[bool] | str]]:
    """Yield each way to exclude answers, with the kept ones or why it cannot be applied."""
    release, answers = study.release, study.release.preferences
    people = answers["participant_id"]
    if not study.values:
        shown = answers["system_1"].isin(first.pair) & answers["system_2"].isin(first.pair)
        yield "direct comparisons only", shown & (answers["system_1"] != answers["system_2"])
    for rule, dropped in rules(answers, MIN_SECONDS, PRACTICE):
        yield rule, dropped if isinstance(dropped, str) else ~dropped
    of_triplet = triplets_of(answers["query_id"], release.triplets)
    drawn = np.random.default_rng(study.bootstrap.seed).permutation(len(answers))
    yield "one judgment per triplet", ~of_triplet.iloc[drawn].duplicated().reindex(of_triplet.index)
    outliers = {each.participant for each in participants(release, {}).outliers}
    yield (
        f"without {count_text(len(outliers), 'outlying participant')}",
        ~people.astype(str).isin(outliers),
    )
    seconds = optional_column(answers, "active_seconds").groupby(people).median().dropna()
    fastest = seconds.nsmallest(int(FASTEST * len(seconds))).index
    yield "without the fastest quarter of people", ~people.isin(fastest)
    if "category" in release.queries:
        category = looked_up(
            answers["query_id"], release.queries.set_index("query_id")["category"]
        ).replace("", None)
        for name in category.value_counts().index[:MOST_CATEGORIES]:
            yield f"{name} only", category == name


# The difference of each person alone.


def _gaps_by_person(study: _Study, first: Verdict) -> tuple[float, ...]:
    """For metrics, the difference in tie_half; for systems, the rate of a in direct comparisons."""
    answers = study.release.preferences
    if study.values:
        rows, set_1, differences = _usable_pairs(study, first)
        hits = [preference.tie_half(each, set_1).hits for each in differences]
        gaps = np.subtract(*hits, dtype=np.float64)
    else:
        rows = compared_systems(answers, [first.a, first.b])
        won = won_by_first(rows)
        gaps = np.where(rows["first"] == 0, won, 1 - won) - NEUTRAL
    means = pd.Series(gaps, index=rows.index).groupby(rows["participant_id"]).mean()
    return tuple(float(each) for each in means)


def _usable_pairs(
    study: _Study, first: Verdict
) -> tuple[pd.DataFrame, NDArray[np.bool_], list[FloatArray]]:
    """The questions that both metrics of a verdict can be measured on: `usable_pairs`."""
    answers = study.release.preferences
    gaps = (metric_difference(answers, study.values[name]) for name in (first.a, first.b))
    return preference.usable_pairs(answers, *gaps)


# The jackknife: the difference without each participant.


def _without_each(study: _Study, first: Verdict) -> JackknifeRange | None:
    clusters = Clusters.of_column(study.release.preferences, "participant_id")
    if clusters.size < 2 or isnan(first.difference):
        return None
    without = WITHOUT_EACH[study.rules.statistic](study, first, clusters)
    found = jackknife_range(without, [str(name) for name in clusters.numbers.sort_values().index])
    return None if found.reason is not None else found


def _rates_without_each(study: _Study, first: Verdict, clusters: Clusters) -> FloatArray:
    rows, set_1, differences = _usable_pairs(study, first)
    kept = np.ones(len(rows), dtype=bool)
    if study.rules.statistic == "symmetric":
        kept = np.all([each != 0 for each in differences], axis=0)
    codes = clusters.codes_of(rows)[kept]
    rates = []
    for each in differences:
        terms = preference.tie_half(each[kept], set_1[kept])
        rates.append(
            ratio(
                *(_less_each(part * 1.0, codes, clusters) for part in (terms.hits, terms.counted))
            )
        )
    return np.asarray(rates[0] - rates[1])


def _rhos_without_each(study: _Study, first: Verdict, clusters: Clusters) -> FloatArray:
    both = study.values[first.a].notna() & study.values[first.b].notna()
    rhos = [
        rho_without_each(study.release, study.values[name].where(both), clusters)
        for name in (first.a, first.b)
    ]
    return np.asarray(rhos[0] - rhos[1])


def _win_rates_without_each(study: _Study, first: Verdict, clusters: Clusters) -> FloatArray:
    table = study.kinds
    n_kinds = len(table.kinds)
    of_person = np.bincount(
        clusters.codes_of(table.rows) * n_kinds + table.kind, minlength=clusters.size * n_kinds
    )
    counts: FloatArray = table.counts - of_person.reshape(clusters.size, n_kinds)
    return table.win_rate(first, table.kinds, counts) - NEUTRAL


def _mean_scores_without_each(study: _Study, first: Verdict, clusters: Clusters) -> FloatArray:
    sets = study.release.sets
    means = []
    for name in (first.a, first.b):
        rows = sets[sets["system"] == name]
        codes, scores = clusters.codes_of(rows), rows["score"].to_numpy(np.float64)
        totals = (_less_each(part, codes, clusters) for part in (scores, np.ones_like(scores)))
        means.append(ratio(*totals))
    return np.asarray(means[0] - means[1])


def _less_each(values: NDArray[Any], codes: Any, clusters: Clusters) -> FloatArray:
    return np.asarray(values.sum() - np.bincount(codes, values, clusters.size), dtype=np.float64)


WITHOUT_EACH: Mapping[str, Callable[[_Study, Verdict, Clusters], FloatArray]] = {
    "tie_half": _rates_without_each,
    "symmetric": _rates_without_each,
    "spearman": _rhos_without_each,
    "win_rate": _win_rates_without_each,
    "mean_score": _mean_scores_without_each,
}


@dataclass(frozen=True, eq=False)
class _AnswerKinds:
    """The questions between two systems by the systems shown and the answer.

    Attributes:
        kind: (n,) the kind of each of `rows`.
        kinds: (n_kinds, 3): the systems of set 1 and set 2, and `preferred`.
        counts: (n_kinds,).
    """

    names: Sequence[str]
    rows: pd.DataFrame
    kind: Any
    kinds: Any
    counts: FloatArray

    @classmethod
    def of(cls, release: Release) -> _AnswerKinds:
        names = names_of(release)
        rows = compared_systems(release.preferences, names)
        first, second, preferred = (
            rows[name].to_numpy(np.intp) for name in ("first", "second", "preferred")
        )
        shown = first * len(names) + second
        numbers, kind = np.unique(shown * 3 + preferred, return_inverse=True)
        kinds = np.column_stack([*np.divmod(numbers // 3, len(names)), numbers % 3])
        return cls(names, rows, kind, kinds, np.bincount(kind).astype(np.float64))

    def win_rate(self, verdict: Verdict, kinds: Any, counts: FloatArray) -> FloatArray:
        """The rate at which a is preferred to b, for each of (b, n_kinds) counts."""
        fitted = strengths_from_counts(kinds, counts, len(self.names))
        a, b = (self.names.index(name) for name in (verdict.a, verdict.b))
        return np.asarray(expit(fitted[:, a] - fitted[:, b]))

    def with_more(self, verdict: Verdict, n: int) -> float:
        """The win rate minus one half if n more answers had preferred b, half of them as set 1."""
        a, b = (self.names.index(name) for name in (verdict.a, verdict.b))
        kinds = np.vstack([self.kinds, [[a, b, 2], [b, a, 1]]])
        kinds, place = np.unique(kinds, axis=0, return_inverse=True)
        counts = np.bincount(place.ravel(), np.append(self.counts, [n / 2, n / 2]))[None]
        return float(self.win_rate(verdict, kinds, counts.astype(np.float64))[0]) - NEUTRAL


# Missing answers: the worst case, and the number that it takes.


@dataclass(frozen=True)
class Excluded(JsonRecord):
    """How many assigned questions a release lacks by rule, and which rules could not be applied.

    `filters` are those of the export, as `--filter` takes them.
    """

    dropped: Mapping[str, int]
    not_recorded: tuple[str, ...]
    filters: tuple[str, ...]

    @property
    def n_missing(self) -> int:
        return sum(n for rule, n in self.dropped.items() if rule not in NOT_MISSING)


NOT_MISSING = ("check", "handed-on")
"""Attention checks do not answer the question, and other people answered reassigned questions."""


def excluded_from(release: Release) -> Excluded | None:
    """The number of questions removed by each filter; None if the manifest does not record it."""
    try:
        manifest = manifest_of(release.folder, {})
        counts = {str(step["rule"]): step["dropped"] for step in manifest["funnel"]["steps"]}
        return Excluded(
            {rule: int(n) for rule, n in counts.items() if n},
            tuple(rule for rule, n in counts.items() if n is None),
            tuple(filters_in(manifest)) if "filters" in manifest else (),
        )
    except (UnreadableInput, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


UNKNOWN = "the release does not record how many of the assigned questions it lacks"
NO_WORST_CASE = "answers about preferences do not determine the worst case of this statistic"


def _worst_case(
    study: _Study,
    tested: Sequence[Tested],
    number: int,
    verdict: Verdict,
    excluded: Excluded | None,
) -> WorstCase:
    missing = None if excluded is None or study.release.part else excluded.n_missing
    blank = WorstCase(verdict.a, verdict.b, missing, reason=UNKNOWN if missing is None else None)
    after = _after_missing(study, verdict)
    if isinstance(after, str):
        return replace(blank, reason=after)
    blank = replace(blank, tipping_point=_tipping_point(after, verdict.n))
    if not missing:
        return blank
    difference = after(missing)
    share = verdict.n / (verdict.n + missing)
    error = standard_error(verdict) * share
    if isnan(difference) or isnan(error) or verdict.ci is None:
        reason = "the spread of the difference is unknown"
        return replace(blank, difference=difference, reason=reason)
    df = np.inf if verdict.ci.df is None else verdict.ci.df
    half = (verdict.difference - verdict.ci.low) * share
    size = abs(difference)
    a, b = (verdict.a, verdict.b) if difference >= 0 else (verdict.b, verdict.a)
    ci = replace(verdict.ci, low=size - half, high=size + half)
    worst = replace(verdict, a=a, b=b, difference=size, ci=ci)
    moved = Tested(
        worst,
        float(2 * stats.t.sf(size / error, df)),
        p_of_equivalence(worst, study.rules.margin),
    )
    family = [*tested[:number], moved, *tested[number + 1 :]]
    again = decided(family, study.rules.alpha)[number]
    return replace(blank, difference=difference, change=change_of(verdict, again))


def _after_missing(study: _Study, verdict: Verdict) -> Callable[[int], float] | str:
    """The difference if n more answers had favored b, or the reason why it is undefined."""
    if isnan(verdict.difference):
        return verdict.reason or "the difference is undefined"
    if study.rules.statistic == "win_rate":
        table = study.kinds
        return lambda n: table.with_more(verdict, n)
    if study.rules.statistic in ("tie_half", "symmetric"):
        n_now, difference = verdict.n, verdict.difference
        return lambda n: (n_now * difference - n) / (n_now + n)
    return NO_WORST_CASE


def _tipping_point(after: Callable[[int], float], n: int) -> int | None:
    """The least number of answers that brings the difference to 0; None if more than 64 n."""
    low, high = -1, 1
    while after(high) > 0:
        low, high = high, 2 * high
        if high > 64 * max(1, n):
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if after(middle) > 0 else (low, middle)
    return high
