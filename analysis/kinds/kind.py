"""The common part of the statistics of all question kinds: tables of figures with their methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from hsfiq.analysis.data.kind_release import AnalysedRelease, JudgedRelease
from hsfiq.analysis.data.metrics import Metric
from hsfiq.analysis.json_results import JsonRecord
from hsfiq.analysis.people.agreement import Level, agreement
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate
from hsfiq.analysis.sessions.measure import SessionAnalysis
from hsfiq.errors import UnreadableInput

UNNAMED = "(no system named)"

REFERENCES = {
    "agreement": (0.0, "as chance would agree"),
    "pairwise_rates": (0.5, "each before the other equally often"),
    "strengths": (0.0, "mean of the systems"),
    "correlation": (0.0, "no correlation"),
    "metrics": (0.5, "chance"),
}
"""The neutral value of a table of figures, by its name, and its label in charts."""


@dataclass(frozen=True)
class Figures(JsonRecord):
    """A table of figures.

    Attributes:
        rows_are: the subject of a row, such as "system".
        rows: figures by the row's name, then by the column's.
        method: how the figures are computed.
    """

    name: str
    title: str
    rows_are: str
    rows: Mapping[str, Mapping[str, Estimate]]
    method: str

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows.values() for name in row))


@dataclass(frozen=True)
class KindStatistics:
    """The statistics of one question kind.

    Attributes:
        main: the release's main table, and `columns` the used columns.
        figures: the tables of figures.
        has_metrics: whether a metric of sets can be compared with the answers.
        nullable, of_sets: further columns of the main table and of `sets`; they may hold nulls.
        measures: those of sessions, for searches; None if there is no session.
    """

    main: str
    columns: tuple[str, ...]
    figures: Callable[[JudgedRelease, Sequence[Metric], Bootstrap], list[Figures]]
    has_metrics: bool = True
    nullable: tuple[str, ...] = ()
    of_sets: tuple[str, ...] = ()
    measures: Callable[[JudgedRelease, Bootstrap], SessionAnalysis | None] | None = None


@dataclass(frozen=True)
class KindSummary(AnalysedRelease):
    """A summary of the analyzed release."""

    n_queries: int

    @classmethod
    def of(cls, release: JudgedRelease) -> KindSummary:
        n_queries = int(release.answers["query_id"].nunique())
        return cls(**cls.facts_of(release, release.answers), n_queries=n_queries)


@dataclass(frozen=True)
class KindAnalysis(JsonRecord):
    """All figures of a release of a kind other than `pair`."""

    release: KindSummary
    tables: Sequence[Figures]
    measures: SessionAnalysis | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "release": self.release.to_json(),
            **({} if self.measures is None else {"measures": self.measures.to_json()}),
            **{table.name: table.to_json() for table in self.tables},
        }


def analyze_judged(
    release: JudgedRelease,
    statistics: KindStatistics,
    metrics: Sequence[Metric],
    bootstrap: Bootstrap,
) -> KindAnalysis:
    """Compute a kind's figures; UnreadableInput if the release does not have a metric."""
    if metrics and not statistics.has_metrics:
        what = f"releases of kind {release.kind} have no human scores of sets"
        raise UnreadableInput("--metric", what, "leave it out")
    tables = statistics.figures(release, metrics, bootstrap)
    measures = statistics.measures(release, bootstrap) if statistics.measures else None
    return KindAnalysis(KindSummary.of(release), tables, measures)


def by_query(release: JudgedRelease, bootstrap: Bootstrap) -> Bootstrap:
    """The same resamples, of triplets."""
    return Bootstrap.of_rows(
        release.answers,
        release.triplets,
        unit="triplet",
        n_resamples=bootstrap.n_resamples,
        seed=bootstrap.seed,
    )


def alpha_of(ratings: pd.DataFrame, level: Level) -> Estimate:
    """Krippendorff's alpha; `ratings` is as for `agreement`, n counts the judgements compared."""
    result = agreement(ratings, level)
    return Estimate(result.alpha, result.n_ratings, result.ci, result.reason)


def system_names(rows: pd.DataFrame) -> pd.Series[str]:
    return rows["system"].fillna(UNNAMED).astype(str)
