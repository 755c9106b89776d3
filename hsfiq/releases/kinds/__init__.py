"""The kinds of releases: which tables and files each question kind's answers become.

Studies of pairs have two, `hs` and `hp`; any other study has one, named after its question kind.
"""

from hsfiq.errors import UnreadableInput
from hsfiq.releases.kinds.arena import ARENA_RELEASE
from hsfiq.releases.kinds.images import IMAGES_RELEASE
from hsfiq.releases.kinds.kind import ReleaseKind
from hsfiq.releases.kinds.pair import HP, HS
from hsfiq.releases.kinds.query import QUERY_RELEASE
from hsfiq.releases.kinds.ranking import RANKING_RELEASE
from hsfiq.releases.kinds.search import SEARCH_RELEASE
from hsfiq.releases.kinds.single import SINGLE_RELEASE

RELEASE_KINDS: dict[str, ReleaseKind] = {
    kind.name: kind
    for kind in (
        HS,
        HP,
        SINGLE_RELEASE,
        IMAGES_RELEASE,
        RANKING_RELEASE,
        QUERY_RELEASE,
        SEARCH_RELEASE,
        ARENA_RELEASE,
    )
}


def release_kinds_of(question_kind: str) -> list[str]:
    """The names of the releases of a study with this question kind."""
    return [kind.name for kind in RELEASE_KINDS.values() if kind.question_kind == question_kind]


def require_release_kind(name: str, question_kind: str, study: str) -> None:
    """Raise `UnreadableInput` unless such a study has this release."""
    names = release_kinds_of(question_kind)
    if name not in names:
        raise UnreadableInput(
            "--release",
            f"the questions of study {study} are of kind {question_kind}, so it has no {name}",
            f"there is {' and '.join(names)}",
        )


__all__ = ["RELEASE_KINDS", "ReleaseKind", "release_kinds_of", "require_release_kind"]
