"""The drawn catalogue's triplets as a benchmark: those that validate a training, and unseen ones.

`val` is what `model.data.datasets.drawn` validates on, against the garments that training may show.
`test` asks for held-out combinations, against the whole catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hsfiq.drawn import DrawnTriplet, Garment, corpus
from hsfiq.drawn.garments import CATEGORIES
from hsfiq.model.data.datasets import VALIDATION, draw_dataset, drawn_parts, drawn_size, shown_of
from hsfiq.model.data.parts import with_files
from hsfiq.model.data.texts import mining_text
from hsfiq.model.evaluation.benchmark import Benchmark, Corpus, Part, Query
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.training.run import content_sha256

Split = Literal["val", "test"]

CORPORA: dict[Split, str] = {"val": "without held-out", "test": "catalogue"}
"""What the two splits' corpora are called."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Garments and triplets of all splits; `notes` say where they are not the training's."""

    garments: tuple[Garment, ...]
    triplets: tuple[DrawnTriplet, ...]
    notes: tuple[str, ...] = ()

    def candidates(self, split: Split) -> tuple[Garment, ...]:
        """What a split's queries are ranked against, and ask with."""
        return self.garments if split == "test" else shown_of(self.garments)


def catalogue_of(recipe: Recipe, data: Mapping[str, Any]) -> Catalogue:
    """The catalogue that a scorer was trained on, or the whole one that its seed draws.

    No garment is a target in two splits, whatever is drawn (`hsfiq.drawn.triplets`): any catalogue
    is a fair test, but only the training's own gives the figures of its validation.

    Args:
        recipe: the scorer's.
        data: what its checkpoint says of its training data.
    """
    if data.get("name") == "drawn":
        n_train = data["n_train"]
        # A limit gives so many triplets, or one more or less.
        for limit in (n_train, n_train - 1, n_train + 1):
            garments, triplets = draw_dataset(recipe.seed, *drawn_size(limit))
            if is_trained_on(garments, triplets, recipe, data):
                return Catalogue(garments, triplets)
        note = "the triplets are others than the scorer's training was validated on"
        return Catalogue(*draw_dataset(recipe.seed, *drawn_size(None)), (note,))
    return Catalogue(*draw_dataset(recipe.seed, *drawn_size(None)))


def is_trained_on(
    garments: tuple[Garment, ...],
    triplets: tuple[DrawnTriplet, ...],
    recipe: Recipe,
    data: Mapping[str, Any],
) -> bool:
    """Whether a checkpoint's training data were made of these."""
    parts = drawn_parts(garments, triplets, recipe.pool, Path())
    everything = {garment.image_id: Path() for garment in garments}
    return content_sha256(with_files("drawn", parts, everything, "drawn")) == data.get("sha256")


def drawn(catalogue: Catalogue, split: Split) -> Benchmark:
    """A split of a catalogue, a part for each category. The reference stays a candidate."""
    parts = []
    for category in CATEGORIES:
        queries = [
            query_of(it)
            for it in catalogue.triplets
            if (it.category, it.split) == (category, split)
        ]
        images = tuple(it.image_id for it in corpus(catalogue.candidates(split), category))
        asked = tuple(queries[:VALIDATION] if split == "val" else queries)
        parts.append(Part(category, asked, Corpus(CORPORA[split], images)))
    return Benchmark("drawn", split, tuple(parts), keeps_reference=True)


def query_of(triplet: DrawnTriplet) -> Query:
    """The query that validation asks."""
    return Query(
        query_id=triplet.external_id,
        reference=triplet.reference.image_id,
        text=mining_text(triplet.captions),
        target=triplet.target.image_id,
    )
