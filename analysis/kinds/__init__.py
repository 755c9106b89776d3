"""The statistics of question kinds other than `pair`, one module for each."""

from hsfiq.analysis.kinds.images import IMAGES
from hsfiq.analysis.kinds.kind import KindAnalysis, KindStatistics
from hsfiq.analysis.kinds.query import QUERY
from hsfiq.analysis.kinds.ranking import RANKING
from hsfiq.analysis.kinds.search import SEARCH
from hsfiq.analysis.kinds.single import SINGLE

STATISTICS: dict[str, KindStatistics] = {
    "single": SINGLE,
    "images": IMAGES,
    "ranking": RANKING,
    "query": QUERY,
    "search": SEARCH,
}
"""By the kind of a release."""

__all__ = ["STATISTICS", "KindAnalysis", "KindStatistics"]
