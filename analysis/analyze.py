"""All statistics of a release at once: how well metrics agree with people (design section 4.6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hsfiq.analysis.data.parts import PARTS
from hsfiq.analysis.data.provenance import learned
from hsfiq.analysis.details import Details, details
from hsfiq.analysis.resampling.draws import Draws
from hsfiq.analysis.statistics.compare import Comparison, compare_all
from hsfiq.analysis.statistics.correlation import Correlation, spearman
from hsfiq.analysis.statistics.margin import Margins, margins
from hsfiq.analysis.statistics.normality import Normality, normality
from hsfiq.analysis.statistics.pairwise import PairwiseAccuracy, pairwise_accuracies
from hsfiq.analysis.statistics.position import PositionBias, position_bias
from hsfiq.analysis.statistics.preference import PreferenceRates, Rate, given_tie, preference_rates
from hsfiq.analysis.statistics.within import WithinParticipant, within_participant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from hsfiq.analysis.data.metrics import Metric
    from hsfiq.analysis.data.release import Release

CHOSEN = (
    "the pairs were chosen for what their answers would teach a scorer that was unsure of them: "
    "agreement on them is not agreement in general"
)
"""What is said of a release whose pairs `hsfiq study next` has chosen."""

NAMED = 5
"""How many of the sets without a value are named; all are counted."""


@dataclass(frozen=True)
class ReleaseSummary:
    """What was analysed.

    Attributes:
        name: the release's name.
        version: its version.
        kind: "hs" or "hp".
        study: the study it comes from.
        simulated: whether the answers come from simulated annotators.
        part: the part of its split that was analysed: "train", "test" or "unused"; None for all.
        n_questions_in_all: how many questions it holds in all parts.
        n_questions: how many of them were analysed.
        n_sets: how many sets: two per question.
        n_participants: how many participants answered them.
    """

    name: str
    version: str
    kind: str
    study: str
    simulated: bool
    part: str | None
    n_questions_in_all: int
    n_questions: int
    n_sets: int
    n_participants: int

    @property
    def taken(self) -> str | None:
        """Which part was analysed, in words; None where all questions were."""
        if self.part is None:
            return None
        return (
            f"{PARTS[self.part]} of the release: "
            f"{self.n_questions:,} of {self.n_questions_in_all:,} questions"
        )

    def to_json(self) -> dict[str, object]:
        """Return all of it by the attributes' names."""
        return dict(vars(self))


@dataclass(frozen=True)
class MissingSets:
    """The sets for which a metric has no value.

    Attributes:
        n: how many.
        first: the first few, by set_id, in the release's order.
    """

    n: int
    first: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Return {"n", "first"}."""
        return {"n": self.n, "first": list(self.first)}


@dataclass(frozen=True)
class MetricAnalysis:
    """How one metric agrees with people.

    Attributes:
        normality: of the metric's values.
        spearman: its correlation with the human scores.
        preference: its preference rates.
        missing: the sets it has no value for.
        within: the same correlation within participants.
        pairwise: its pairwise accuracy with ties, against "preference" and "score".
        margins: its accuracy by how far apart two sets are.
        given_tie: its preference rate where another metric ties, by that metric's name.
    """

    normality: Normality
    spearman: Correlation
    within: WithinParticipant
    preference: PreferenceRates
    missing: MissingSets
    pairwise: Mapping[str, PairwiseAccuracy]
    margins: Margins
    given_tie: Mapping[str, Rate] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return the metric's part of the analysis."""
        rates = self.preference.to_json()
        if self.given_tie:
            rates["given_tie"] = {name: rate.to_json() for name, rate in self.given_tie.items()}
        return {
            "normality": self.normality.to_json(),
            "spearman": self.spearman.to_json(),
            "within_participant": self.within.to_json(),
            "preference_rate": rates,
            "pairs": self.preference.pairs_to_json(),
            "pairwise_accuracy": {name: each.to_json() for name, each in self.pairwise.items()},
            "margin": self.margins.to_json(),
            "missing": self.missing.to_json(),
        }


@dataclass(frozen=True)
class Analysis:
    """The figures of one release, in full precision; undefined ones are NaN beside a reason.

    Attributes:
        release: what was analysed.
        human_score: normality of the human scores, over all sets.
        position_bias: P(set 1 preferred).
        metrics: what was found of each metric, by name, in the order asked for.
        comparisons: every two metrics, on the same sets and pairs.
        details: systems, participants, categories, ceiling, sensitivity; None where not asked for.
        notes: what keeps figures from being what they look like: a metric whose scorer has learned
            from these answers, pairs that are no random sample.
    """

    release: ReleaseSummary
    human_score: Normality
    position_bias: PositionBias
    metrics: Mapping[str, MetricAnalysis]
    comparisons: Sequence[Comparison]
    details: Details | None = None
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, object]:
        """Return the analysis as strictly valid JSON: NaN is null, beside a "reason"."""
        return {
            "release": self.release.to_json(),
            "notes": list(self.notes),
            "human_score": {"normality": self.human_score.to_json()},
            "position_bias": self.position_bias.to_json(),
            "metrics": {name: metric.to_json() for name, metric in self.metrics.items()},
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
            **({} if self.details is None else self.details.to_json()),
        }


def analyze(
    release: Release,
    metrics: Sequence[Metric],
    draws: Draws | None = None,
    *,
    in_detail: bool = False,
) -> Analysis:
    """Measure how well metrics agree with people.

    Args:
        release: a release; it may be empty.
        metrics: the metrics; one that comes twice counts once. With two or more, each also gets
            its preference rate where another one ties, and every two are compared.
        draws: the resamples for all intervals; by default of the release's participants.
        in_detail: look behind the main figures too, which takes about as long again.

    Returns:
        The analysis.

    Raises:
        AnalysisError: the release does not have a metric, or its scores file does not fit.
    """
    # All metrics are found before anything is computed: a wrong name is told at once.
    values = {str(metric): metric.values(release) for metric in metrics}
    draws = draws or Draws.of(release)
    return Analysis(
        release=ReleaseSummary(
            name=release.name,
            version=release.version,
            kind=release.kind,
            study=release.study,
            simulated=release.simulated,
            part=None if release.part is None else release.part.name,
            n_questions_in_all=len(release.whole.preferences),
            n_questions=len(release.preferences),
            n_sets=len(release.sets),
            n_participants=release.n_participants,
        ),
        human_score=normality(release.sets["score"]),
        position_bias=position_bias(release.preferences, draws),
        metrics={name: _analyze_metric(release, name, values, draws) for name in values},
        comparisons=compare_all(release, values, draws),
        details=details(release, values, draws) if in_detail else None,
        notes=(*learned(release, list(values)), *([CHOSEN] if release.is_chosen else [])),
    )


def _analyze_metric(
    release: Release, name: str, values: Mapping[str, pd.Series[float]], draws: Draws
) -> MetricAnalysis:
    own = values[name]
    lost = own.index[own.isna()]
    return MetricAnalysis(
        normality=normality(own),
        spearman=spearman(release.sets, own, draws),
        within=within_participant(release.sets, own, draws),
        preference=preference_rates(release.preferences, own, draws),
        missing=MissingSets(len(lost), tuple(str(set_id) for set_id in lost[:NAMED])),
        pairwise=pairwise_accuracies(release.preferences, own, draws),
        margins=margins(release.preferences, own, draws),
        given_tie={
            other: given_tie(release.preferences, own, theirs, draws)
            for other, theirs in values.items()
            if other != name
        },
    )
