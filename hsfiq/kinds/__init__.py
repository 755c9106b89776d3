"""Question kinds: the task of a study's questions, one module for each kind.

A kind's module has how many sets a question shows, which answers are valid, which questions have a
known answer, how a simulated annotator answers, and its releases: studies of pairs have two, `hs`
and `hp`, any other study one, named after its kind. `KINDS` names them all. The modules of the same
names in `hsfiq.analysis.kinds`, `annotate/static/page/kind_*.js` and the texts in
`annotate/languages` are the rest.
"""

from typing import TYPE_CHECKING, Literal

from hsfiq.errors import UnreadableInput
from hsfiq.kinds.arena import ARENA
from hsfiq.kinds.images import IMAGES
from hsfiq.kinds.kind import Kind, KindOptions, ReleaseKind, Rules, ShownAnswer
from hsfiq.kinds.pair import PAIR
from hsfiq.kinds.query import QUERY
from hsfiq.kinds.ranking import RANKING
from hsfiq.kinds.search import SEARCH
from hsfiq.kinds.single import SINGLE

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (PAIR, SINGLE, IMAGES, RANKING, QUERY, SEARCH, ARENA)
}
DEFAULT_KIND = PAIR.name
"""The kind of a study whose file names none; texts that name no kind are its own."""

if TYPE_CHECKING:
    KindName = str
else:  # what reads study.toml names the values that there are
    KindName = Literal[tuple(KINDS)]

RELEASE_KINDS: dict[str, ReleaseKind] = {
    release.name: release for kind in KINDS.values() for release in kind.releases
}
KIND_OF_RELEASE: dict[str, Kind] = {
    release.name: kind for kind in KINDS.values() for release in kind.releases
}
"""The question kind of the studies that have a release, by the name of its kind."""


def release_kinds_of(question_kind: str) -> list[str]:
    """The names of the releases of a study with this question kind."""
    return [release.name for release in KINDS[question_kind].releases]


def require_release_kind(name: str, question_kind: str, study: str) -> None:
    """Raise `UnreadableInput` unless studies of this question kind have this release."""
    names = release_kinds_of(question_kind)
    if name not in names:
        raise UnreadableInput(
            "--release",
            f"the questions of study {study} are of kind {question_kind}, so it has no {name}",
            f"its releases: {' and '.join(names)}",
        )


__all__ = [
    "DEFAULT_KIND",
    "KINDS",
    "KIND_OF_RELEASE",
    "RELEASE_KINDS",
    "Kind",
    "KindName",
    "KindOptions",
    "ReleaseKind",
    "Rules",
    "ShownAnswer",
    "release_kinds_of",
    "require_release_kind",
]
