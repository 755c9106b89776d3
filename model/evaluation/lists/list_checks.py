"""Checking that ranked lists hold candidates only; and notes on the lists of a part."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath

from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.benchmarks import Benchmark, Part, Query
from hsfiq.records import RankedList


@dataclass(slots=True)
class ListChecks:
    """Checks the lists of a part, and counts what the notes report."""

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

    def candidates_of(self, query: Query, where: str, ranked: RankedList) -> tuple[str, ...]:
        """The candidates of a list, best first; refuse images that are not of the split."""
        if self.candidates is not None:
            for image in ranked.images:
                if image not in self.candidates and image not in self.left_out:
                    has_extension = PurePath(image).stem in self.candidates
                    raise UnreadableInput(
                        where,
                        f"image {image!r} is not among the {len(self.candidates):,} candidates",
                        "leave out the folder and the extension"
                        if has_extension
                        else "rank only the corpus of this split",
                    )
        self.n_lists += 1
        self.named.update(ranked.images)
        scores = ranked.scores or ()
        self.n_rising += any(score < following for score, following in pairwise(scores))
        kept = self._without_reference(query, ranked.images)
        if self.left_out:
            kept = tuple(image for image in kept if image not in self.left_out)
            self.n_cut += len(kept) < len(ranked.images)
        return kept

    def members_of(self, query: Query, where: str, ranked: RankedList) -> tuple[str, ...]:
        """The members of the image set in a ranking of it, best first; refuse other images."""
        for image in ranked.images:
            if image not in query.subset and image != query.reference:
                raise UnreadableInput(where, f"image {image!r} is not in the query's image set")
        return self._without_reference(query, ranked.images)

    def _without_reference(self, query: Query, images: tuple[str, ...]) -> tuple[str, ...]:
        self.n_with_reference += query.reference in images
        if self.keeps_reference:
            return images
        return tuple(image for image in images if image != query.reference)

    def notes(self, benchmark: Benchmark) -> list[str]:
        notes = []
        if self.n_cut:
            notes.append(
                f"{self.n_cut:,} of {self.n_lists:,} lists named images outside of the union; "
                "these were removed, which gives the ranking of the union alone"
            )
        if self.n_with_reference and not self.keeps_reference:
            notes.append(
                f"lists that held their query's reference: {self.n_with_reference:,}; "
                "it was removed before counting"
            )
        if self.n_rising:
            notes.append(
                f"in {self.n_rising:,} of {self.n_lists:,} lists a score is above the one before "
                "it; the order of the list (in TREC files the rank) counted, not the scores"
            )
        if benchmark.name == "fashioniq" and self.n_lists:
            notes += self._protocol_notes()
        return notes

    def _protocol_notes(self) -> list[str]:
        """Signs that FashionIQ's lists were made under another protocol."""
        notes = []
        if not self.n_with_reference:
            notes.append(
                "no list holds its query's reference: was it removed? Most protocols keep it as "
                "a candidate (CoVR's does not), and figures without it are higher"
            )
        images = self.part.corpus.images or ()
        union = {image for query in self.part.queries for image in (query.reference, query.target)}
        if self.part.corpus.name == "split" and len(union) < len(images) and self.named <= union:
            notes.append(
                f"ALL listed images are in the union of references and targets ({len(union):,} "
                f"images), though the corpus is the split ({len(images):,}): the lists were "
                "probably made over the union, whose figures are higher; see --corpus union"
            )
        return notes
