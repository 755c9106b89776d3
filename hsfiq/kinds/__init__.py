"""Question kinds: what a study asks about each query, one module for each kind.

A kind's module has its rules: how many sets a question shows, and which answers are valid.
`KINDS` names them all. The modules of the same names in `hsfiq.releases.kinds` and
`hsfiq.analysis.kinds`, `hsfiq.simulate.participant` and `annotate/static/page/kind_*.js` are
the rest.
"""

from hsfiq.kinds.arena import ARENA
from hsfiq.kinds.images import IMAGES
from hsfiq.kinds.kind import Judgement, Kind, KindName, KindOptions, Rules, ShownAnswer
from hsfiq.kinds.pair import PAIR
from hsfiq.kinds.query import QUERY
from hsfiq.kinds.ranking import RANKING
from hsfiq.kinds.search import SEARCH
from hsfiq.kinds.single import SINGLE

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (PAIR, SINGLE, IMAGES, RANKING, QUERY, SEARCH, ARENA)
}

__all__ = ["KINDS", "Judgement", "Kind", "KindName", "KindOptions", "Rules", "ShownAnswer"]
