"""One list at a time: candidates only, and what has to be said of a part's lists together."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath

from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.benchmark import Benchmark, Part, Query
from hsfiq.records import RankedList


@dataclass(slots=True)
class Cleaned:
    """What was found in the lists of a part."""

    part: Part
    keeps_reference: bool
    candidates: frozenset[str] | None = field(init=False)
    left_out: frozenset[str] = field(init=False)
    named: set[str] = field(default_factory=set)
    n_lists: int = 0
    n_with_reference: int = 0
    n_cut: int = 0
    n_rising: int = 0

    def __post_init__(self) -> None:
        images = self.part.corpus.images
        self.candidates = None if images is None else frozenset(images)
        self.left_out = frozenset(self.part.corpus.left_out)

    def notes(self, benchmark: Benchmark) -> list[str]:
        """What a reader of the figures has to know of the lists."""
        notes = []
        if self.n_cut:
            notes.append(
                f"{self.n_cut:,} of {self.n_lists:,} lists named images outside of the union; "
                "these were taken out, which gives the ranking of the union alone"
            )
        if self.n_with_reference and not self.keeps_reference:
            notes.append(
                f"lists that held their query's reference: {self.n_with_reference:,}; "
                "it was taken out before counting"
            )
        if self.n_rising:
            notes.append(
                f"in {self.n_rising:,} of {self.n_lists:,} lists a score is above the one before "
                "it; the order of the list (in TREC files the rank) counted, not the scores"
            )
        if benchmark.name == "fashioniq" and self.n_lists:
            notes += self.protocol_notes()
        return notes

    def protocol_notes(self) -> list[str]:
        """Signs that FashionIQ's lists were made under another protocol."""
        notes = []
        if not self.n_with_reference:
            notes.append(
                "no list holds its query's reference: was it taken out? Most protocols keep it as "
                "a candidate (CoVR's does not), and figures without it are higher"
            )
        images = self.part.corpus.images or ()
        union = {image for query in self.part.queries for image in (query.reference, query.target)}
        if self.part.corpus.name == "split" and len(union) < len(images) and self.named <= union:
            notes.append(
                f"ALL listed images lie in the union of references and targets ({len(union):,} "
                f"images), though the corpus is the split ({len(images):,}): the lists were "
                "probably made over the union, whose figures are higher; see --corpus union"
            )
        return notes


def clean(cleaned: Cleaned, query: Query, where: str, ranked: RankedList) -> tuple[str, ...]:
    """The list's candidates.

    Raises:
        UnreadableInput: an image of the list is no image of the split.
    """
    images = ranked.images
    if cleaned.candidates is not None:
        for image in images:
            if image not in cleaned.candidates and image not in cleaned.left_out:
                bare = PurePath(image).stem in cleaned.candidates
                raise UnreadableInput(
                    where,
                    f"image {image!r} is not among the {len(cleaned.candidates):,} candidates",
                    "leave out the folder and the extension"
                    if bare
                    else "rank the corpus of this split and nothing else",
                )
    cleaned.n_lists += 1
    cleaned.named.update(images)
    cleaned.n_rising += rises(ranked)
    kept = without_reference(cleaned, query, images)
    if cleaned.left_out:
        kept = tuple(image for image in kept if image not in cleaned.left_out)
        cleaned.n_cut += len(kept) < len(images)
    return kept


def clean_subset(cleaned: Cleaned, query: Query, where: str, ranked: RankedList) -> tuple[str, ...]:
    """The members of the image set, of which the list must be.

    Raises:
        UnreadableInput: an image of the list is not of the image set.
    """
    for image in ranked.images:
        if image not in query.subset and image != query.reference:
            raise UnreadableInput(where, f"image {image!r} is not of the query's image set")
    return without_reference(cleaned, query, ranked.images)


def without_reference(cleaned: Cleaned, query: Query, images: tuple[str, ...]) -> tuple[str, ...]:
    """The images without the reference, where that is no candidate."""
    cleaned.n_with_reference += query.reference in images
    if cleaned.keeps_reference:
        return images
    return tuple(image for image in images if image != query.reference)


def rises(ranked: RankedList) -> bool:
    """Whether a score is above the one before it."""
    return ranked.scores is not None and any(a < b for a, b in pairwise(ranked.scores))
