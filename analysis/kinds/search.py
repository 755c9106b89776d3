"""`search`: how searches over several turns went, and what satisfaction with their lists goes with.

The sets of such a release are the lists of its turns, and their scores the satisfaction; a list's
id is that of its search and the turn's number. Sessions that nobody finished are counted, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsfiq.analysis.data.judged import JudgedRelease
from hsfiq.analysis.data.metrics import Metric
from hsfiq.analysis.kinds.kind import Figures, KindStatistics
from hsfiq.analysis.kinds.searches import nearest, outcomes, satisfaction
from hsfiq.analysis.kinds.searches.measures import measures
from hsfiq.analysis.kinds.single import agreement_of_scores
from hsfiq.analysis.resampling.bootstrap import Bootstrap

COLUMNS = ("system", "task", "turns", "abandoned")
NULLABLE = (
    *("max_rounds", "stop", "declared_id", "resumed", "missed"),
    *("success", "ease", "would_go_on", "satisfaction"),
)


def figures(
    release: JudgedRelease, metrics: Sequence[Metric], bootstrap: Bootstrap
) -> list[Figures]:
    tables = outcomes.figures(release.answers, release.turns, bootstrap)
    if not len(release.sets):
        return tables
    judged = release.sets.dropna(subset=["score"])
    return [
        *tables,
        *satisfaction.figures(release, metrics, bootstrap),
        *nearest.figures(release, metrics, bootstrap),
        agreement_of_scores(judged, release.triplets),
    ]


SEARCH = KindStatistics(
    main="sessions", columns=COLUMNS, figures=figures, nullable=NULLABLE, measures=measures
)
