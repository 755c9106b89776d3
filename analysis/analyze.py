"""All statistics of a release at once: how well metrics agree with people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from hsfiq.analysis.answer import Answer, Excluded, answer, excluded_from
from hsfiq.analysis.data import kind_release, provenance
from hsfiq.analysis.data.columns import looked_up
from hsfiq.analysis.data.metrics import (
    GivenScores,
    Metric,
    MetricValues,
    Recall,
    ScoreColumn,
    parse_metric,
)
from hsfiq.analysis.data.release import Release, read_release, release_of_tables
from hsfiq.analysis.data.scores import find_scores
from hsfiq.analysis.json_results import JsonRecord, json_value
from hsfiq.analysis.kinds import STATISTICS, KindStatistics
from hsfiq.analysis.people.agreement import IntraRater, intra_rater
from hsfiq.analysis.people.judges import JudgeAgreement, judge_agreement
from hsfiq.analysis.people.participants import (
    Grouping,
    Participants,
    PlaceAndTime,
    groups_of_people,
    participants,
    place_and_time,
)
from hsfiq.analysis.people.reliability import Overlap, overlap
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Unit
from hsfiq.analysis.resampling.ranks import as_numbers
from hsfiq.analysis.score_effects import AnswerModel, answer_model
from hsfiq.analysis.sensitivity import Sensitivity, sensitivity
from hsfiq.analysis.statistics.accuracy import (
    Margins,
    PairwiseAccuracy,
    margins,
    pairwise_accuracies,
)
from hsfiq.analysis.statistics.comparison import Comparison, compare_all
from hsfiq.analysis.statistics.correlation import (
    Correlation,
    Normality,
    WithinParticipant,
    WithinQuery,
    normality,
    spearman,
    within_participant,
    within_query,
)
from hsfiq.analysis.statistics.preference import (
    PositionBias,
    PreferenceRates,
    RateGivenTie,
    given_tie,
    position_bias,
    preference_rates,
)
from hsfiq.analysis.systems.ranks import MetricRank, metric_ranks
from hsfiq.analysis.systems.systems import Systems, duels_of, systems
from hsfiq.analysis.verdicts import Equivalence, Verdict, equivalences
from hsfiq.text import count_text

# What an analysis starts from: a release, metrics, and resamples for the intervals.


@dataclass(frozen=True, eq=False)
class Inputs:
    release: Release
    metrics: tuple[Metric, ...]
    bootstrap: Bootstrap


@dataclass(frozen=True, eq=False)
class KindInputs:
    """The inputs of an analysis of a kind other than `pair`."""

    release: kind_release.JudgedRelease
    statistics: KindStatistics
    metrics: tuple[Metric, ...]
    bootstrap: Bootstrap


def load_kind_inputs(
    folder: Path,
    metrics: Sequence[str],
    scores: Sequence[Path] = (),
    *,
    part: str | None = None,
    unit: Unit | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
) -> KindInputs:
    """Read a release of a kind in `STATISTICS`; arguments and errors as those of `load_inputs`."""
    statistics = STATISTICS[kind_release.kind_of(folder)]
    parsed = tuple(parse_metric(name) for name in metrics)
    release = kind_release.read_judged(
        folder,
        statistics.main,
        statistics.columns,
        scores,
        nullable=statistics.nullable,
        of_sets=statistics.of_sets,
    )
    if part is not None:
        release = kind_release.take_judged_part(release, part)
    bootstrap = Bootstrap.of_rows(
        release.answers,
        release.triplets,
        unit=unit,
        n_resamples=n_resamples,
        seed=seed,
    )
    return KindInputs(release, statistics, parsed, bootstrap)


ReleaseLike = Release | Path | str | Mapping[str, pd.DataFrame]
"""A release, its folder, or its tables by name: `preferences`, `sets` and `queries`."""
ScoresLike = Sequence[Path | str] | Path | str | Mapping[str, pd.DataFrame]
"""Scores files, or tables of scores by the metric's name."""


def load_inputs(
    release: ReleaseLike,
    metrics: Sequence[Metric | str] | Metric | str,
    scores: ScoresLike = (),
    *,
    part: str | None = None,
    unit: Unit | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
) -> Inputs:
    """Read a release and its scores files, and draw the resamples.

    Args:
        metrics: metrics or their names, or a single one: `recall@5`, or the name of a scores file.
        scores: further scores files, or one, each a metric with the file's name; or tables of
            scores by the metric's name.
        part: "train", "test" or "unused" to keep only the questions of that part of its split.
        unit: the resampled unit: "participant", "triplet", "participant-triplet" or "row"; by
            default as the design requires (see `Bootstrap.of_rows`).

    Raises:
        UnreadableInput: a file cannot be read, or a metric, the part or the unit is unknown.
    """
    if isinstance(metrics, str | Recall | ScoreColumn | GivenScores):
        metrics = [metrics]
    given = scores if isinstance(scores, Mapping) else {}
    if isinstance(scores, str | Path):
        scores = [scores]
    parsed = tuple(_metric(each, given) for each in metrics)
    files = [] if isinstance(scores, Mapping) else [Path(file) for file in scores]
    if isinstance(release, Mapping):
        release = release_of_tables(release)
    if not isinstance(release, Release):
        release = read_release(Path(release), files)
    elif files:
        release = replace(release, scores={**release.scores, **find_scores(release.folder, files)})
    if part is not None:
        release = provenance.take_part(release, part)
    bootstrap = Bootstrap.of_release(
        release,
        unit=unit,
        n_resamples=n_resamples,
        seed=seed,
    )
    return Inputs(release, parsed, bootstrap)


def _metric(metric: Metric | str, given: Mapping[str, pd.DataFrame]) -> Metric:
    if not isinstance(metric, str):
        return metric
    return GivenScores(metric, given[metric]) if metric in given else parse_metric(metric)


# The main figures of each category on its own.

BETWEEN = "each participant judged one category, so differences may be due to different people"
WITHIN = "participants judged several categories, so these are compared within people too"


@dataclass(frozen=True)
class CategoryFigures(JsonRecord):
    """The figures of one category; the coverage of a rate is of this category's questions."""

    n_questions: int
    n_participants: int
    position_bias: PositionBias
    spearman: Mapping[str, Correlation]
    preference: Mapping[str, PreferenceRates]

    def to_json(self) -> dict[str, object]:
        return {
            "n_questions": self.n_questions,
            "n_participants": self.n_participants,
            "position_bias": self.position_bias.to_json(),
            "metrics": {
                name: {
                    "spearman": self.spearman[name].to_json(),
                    "preference_rate": self.preference[name].to_json(),
                }
                for name in self.spearman
            },
        }


@dataclass(frozen=True)
class Categories(JsonRecord):
    """The categories; `note`: whether the same people judged several, None for fewer than two."""

    figures: Mapping[str, CategoryFigures]
    note: str | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        if self.reason is not None:
            return {"categories": None, "reason": self.reason}
        fields = {"categories": json_value(self.figures)}
        return fields if self.note is None else {**fields, "note": self.note}


def categories(release: Release, values: MetricValues, bootstrap: Bootstrap) -> Categories:
    """Measure each category of a release on its own; each resamples its own clusters."""
    if "category" not in release.queries:
        return Categories({}, reason="the release names no categories")
    of_query = release.queries.set_index("query_id")["category"]
    of_question = looked_up(release.preferences["query_id"], of_query).replace("", None)
    names = sorted(str(name) for name in of_question.dropna().unique())
    if not names:
        return Categories({}, reason="no question has a category")
    n_judged = of_question.groupby(release.preferences["participant_id"]).nunique()
    note = BETWEEN if (n_judged <= 1).all() else WITHIN
    return Categories(
        {name: _figures(release.subset(of_question == name), values, bootstrap) for name in names},
        note if len(names) > 1 else None,
    )


def _figures(category: Release, values: MetricValues, settings: Bootstrap) -> CategoryFigures:
    bootstrap = settings.for_release(category)
    preferences = category.preferences
    return CategoryFigures(
        n_questions=len(preferences),
        n_participants=category.n_participants,
        position_bias=position_bias(preferences, bootstrap),
        spearman={name: spearman(category.sets, each, bootstrap) for name, each in values.items()},
        preference={
            name: preference_rates(preferences, each, bootstrap) for name, each in values.items()
        },
    )


CHOSEN_PAIRS = (
    "the pairs were chosen because a scorer was uncertain about them: agreement on them is not "
    "agreement in general"
)
"""The note on a release whose pairs `hsfiq study next` has chosen."""


def _study_notes(release: Release) -> Iterator[str]:
    if release.is_chosen:
        yield CHOSEN_PAIRS
    if release.shown_at is not None:
        yield (
            f"results by system could be seen from {release.shown_at} on, before the study was "
            "closed"
        )


MAX_NAMED = 5
"""The number of sets without a value that are named; all are counted."""


@dataclass(frozen=True)
class ReleaseSummary(kind_release.AnalysedRelease):
    """What was analyzed: `n_questions` of `n_questions_in_all`, with `n_sets`."""

    n_questions_in_all: int
    n_sets: int

    @classmethod
    def of(cls, release: Release) -> ReleaseSummary:
        return cls(
            **cls.facts_of(release, release.preferences),
            n_questions_in_all=len(release.whole.preferences),
            n_sets=len(release.sets),
        )

    @property
    def taken(self) -> str | None:
        """Which part was analyzed, in words; None for all questions."""
        if self.part is None:
            return None
        return (
            f"{provenance.PARTS[self.part]} of the release: "
            f"{self.n_questions:,} of {count_text(self.n_questions_in_all, 'question')}"
        )


@dataclass(frozen=True)
class MissingSets(JsonRecord):
    """The sets for which a metric has no value: their number and the set_id of the first few."""

    n: int
    first: tuple[str, ...]


@dataclass(frozen=True)
class MetricAnalysis(JsonRecord):
    """How one metric agrees with people.

    Attributes:
        within: the same correlation within participants.
        pairwise: its pairwise accuracy with ties, against "preference" and "score".
        given_tie: its preference rate where another metric ties, by that metric's name.
    """

    normality: Normality
    spearman: Correlation
    within: WithinParticipant
    preference: PreferenceRates
    missing: MissingSets
    pairwise: Mapping[str, PairwiseAccuracy]
    margins: Margins
    given_tie: Mapping[str, RateGivenTie] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        rates = self.preference.to_json()
        if self.given_tie:
            rates["given_tie"] = json_value(self.given_tie)
        return {
            "normality": self.normality.to_json(),
            "spearman": self.spearman.to_json(),
            "within_participant": self.within.to_json(),
            "preference_rate": rates,
            "pairs": self.preference.pairs_to_json(),
            "pairwise_accuracy": json_value(self.pairwise),
            "margin": self.margins.to_json(),
            "missing": self.missing.to_json(),
        }


@dataclass(frozen=True)
class Details(JsonRecord):
    systems: Systems
    participants: Participants
    categories: Categories
    overlap: Overlap
    place_and_time: PlaceAndTime
    groups_of_people: Mapping[str, Grouping]
    repeated_pairs: IntraRater
    sensitivity: Sensitivity
    within_query: WithinQuery


@dataclass(frozen=True)
class Analysis(JsonRecord):
    """The figures of one release, in full precision; undefined ones are NaN beside a reason.

    Attributes:
        shared_triplets: how many triplets were judged by several participants.
        human_score: normality of the human scores, over all sets.
        position_bias: P(set 1 preferred).
        metrics: the results of each metric, by name, in the order asked for.
        details: systems, participants, categories, overlap, sensitivity; None if not asked for.
        answer_model: what contributes to the scores; None if not asked for.
        equivalences: which systems and metrics are equivalent; None if no margin was given.
        notes: cautions about the figures: a metric whose scorer was trained on these answers, pairs
            that are no random sample.
        judges: of each metric that is a judge, whether it agrees as well as people do.
        answer: the verdicts on every two metrics or, without a metric, on every two systems; None
            if there are no two.
        excluded: the excluded questions; None if the release does not record them.
    """

    release: ReleaseSummary
    shared_triplets: provenance.SharedTriplets
    human_score: Normality
    position_bias: PositionBias
    metrics: Mapping[str, MetricAnalysis]
    comparisons: Sequence[Comparison]
    details: Details | None = None
    answer_model: AnswerModel | None = None
    equivalences: Sequence[Equivalence] | None = None
    notes: Sequence[str] = ()
    judges: Mapping[str, JudgeAgreement] = field(default_factory=dict)
    answer: Answer | None = None
    excluded: Excluded | None = None

    @property
    def verdicts(self) -> Sequence[Verdict]:
        return () if self.answer is None else self.answer.verdicts

    @property
    def metric_ranks(self) -> dict[str, list[MetricRank]]:
        """The ranks of the metrics by each statistic that compares them."""
        rates = {name: metric.preference for name, metric in self.metrics.items()}
        values = {
            "spearman": {name: metric.spearman.rho for name, metric in self.metrics.items()},
            "tie_half": {name: rate.tie_half.rate for name, rate in rates.items()},
            "symmetric": {name: rate.symmetric.rate for name, rate in rates.items()},
        }
        return {name: metric_ranks(self.comparisons, values[name], name) for name in values}

    def to_json(self) -> dict[str, object]:
        """Return the analysis as strictly valid JSON: NaN is null, beside a "reason"."""
        return {
            "verdicts": json_value(self.verdicts),
            **({} if self.answer is None else {"answer": self.answer.to_json()}),
            "release": self.release.to_json(),
            "shared_triplets": self.shared_triplets.to_json(),
            "notes": list(self.notes),
            "human_score": {"normality": self.human_score.to_json()},
            "position_bias": self.position_bias.to_json(),
            "metrics": json_value(self.metrics),
            "comparisons": json_value(self.comparisons),
            "metric_ranks": json_value(self.metric_ranks),
            **({"judges": json_value(self.judges)} if self.judges else {}),
            **({} if self.details is None else self.details.to_json()),
            **({} if self.answer_model is None else {"answer_model": self.answer_model.to_json()}),
            **(
                {} if self.equivalences is None else {"equivalences": json_value(self.equivalences)}
            ),
        }


def analyze(
    release: Release,
    metrics: Sequence[Metric],
    bootstrap: Bootstrap | None = None,
    *,
    in_detail: bool = False,
    with_answer_model: bool = False,
    margin: float | None = None,
) -> Analysis:
    """Measure how well metrics agree with people, or, without a metric, which systems they prefer.

    Args:
        metrics: duplicates count once. With two or more, each also gets its preference rate where
            another one ties, and every two are compared.
        bootstrap: the resamples for all intervals; by default as the release's design requires.
        in_detail: compute the details too, which takes about as long again.
        with_answer_model: fit the model of the scores too, which takes seconds to minutes.
        margin: test which systems and metrics are equivalent, with this margin.

    Raises:
        UnreadableInput: the release does not have a metric, or its scores file does not fit.
    """
    # All values are read before anything is computed, so a wrong name is reported at once.
    values = {str(metric): metric.values(release) for metric in metrics}
    bootstrap = bootstrap or Bootstrap.of_release(release)
    notes = (
        *provenance.training_notes(release, list(values)),
        *provenance.judge_notes(release, list(values)),
    )
    numbers = {name: as_numbers(each) for name, each in values.items()}
    comparisons = compare_all(release, numbers, bootstrap)
    further = details(release, values, bootstrap) if in_detail else None
    tested = None
    if margin is not None:
        duels = duels_of(release, bootstrap) if further is None else further.systems.duels
        tested = equivalences(margin, comparisons, duels)
    return Analysis(
        release=ReleaseSummary.of(release),
        shared_triplets=provenance.SharedTriplets.of(release.preferences, release.triplets),
        human_score=normality(release.sets["score"]),
        position_bias=position_bias(release.preferences, bootstrap),
        metrics={
            name: _analyze_metric(release, name, values[name], numbers, bootstrap)
            for name in values
        },
        comparisons=comparisons,
        details=further,
        answer_model=answer_model(release) if with_answer_model else None,
        equivalences=tested,
        notes=(*notes, *_study_notes(release)),
        judges={
            name: judge_agreement(release, numbers[name])
            for name in provenance.judges_among(release, list(values))
        },
        answer=answer(
            release,
            numbers,
            bootstrap,
            comparisons,
            margin,
            None if further is None else further.within_query,
        ),
        excluded=excluded_from(release),
    )


def details(release: Release, values: MetricValues, bootstrap: Bootstrap) -> Details:
    """Compute the details; UnreadableInput if a scores file with a system's name does not fit."""
    numbers = {name: as_numbers(each) for name, each in values.items()}
    return Details(
        systems=systems(release, values, bootstrap),
        participants=participants(release, numbers),
        categories=categories(release, numbers, bootstrap),
        overlap=overlap(release, numbers, bootstrap),
        place_and_time=place_and_time(release, values, bootstrap),
        groups_of_people=groups_of_people(release, numbers, bootstrap),
        repeated_pairs=intra_rater(release, bootstrap),
        sensitivity=sensitivity(release, numbers, bootstrap),
        within_query=within_query(release, numbers, bootstrap),
    )


def _analyze_metric(
    release: Release,
    name: str,
    values: pd.Series[float],
    numbers: MetricValues,
    bootstrap: Bootstrap,
) -> MetricAnalysis:
    own = numbers[name]
    preferences = release.preferences
    missing = own.index[own.isna()]
    return MetricAnalysis(
        normality=normality(values),
        spearman=spearman(release.sets, own, bootstrap),
        within=within_participant(release.sets, own, bootstrap),
        preference=preference_rates(preferences, own, bootstrap),
        missing=MissingSets(len(missing), tuple(str(set_id) for set_id in missing[:MAX_NAMED])),
        pairwise=pairwise_accuracies(
            preferences, values, bootstrap, ties_allowed=release.ties_allowed
        ),
        margins=margins(preferences, values, bootstrap),
        given_tie={
            other: given_tie(preferences, own, numbers[other], bootstrap)
            for other in numbers
            if other != name
        },
    )
