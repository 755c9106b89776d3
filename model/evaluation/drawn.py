"""The drawn catalogue as a benchmark.

`val` has the validation triplets of `model.data.drawn`; candidates are the garments that
training may show. `test` has held-out attribute combinations; candidates are all garments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hsfiq.drawn import DrawnTriplet, Garment, corpus
from hsfiq.drawn.garments import CATEGORIES
from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import read
from hsfiq.model.data import (
    CATALOGUE,
    VALIDATION,
    draw_dataset,
    draw_pictures,
    drawn_parts,
    drawn_size,
    mining_text,
    shown_of,
    with_files,
)
from hsfiq.model.encoders.registry import is_specification
from hsfiq.model.evaluation.benchmarks import Benchmark, Corpus, Part, Query
from hsfiq.model.recipes import Recipe
from hsfiq.model.retrieval.loading import recipe_of
from hsfiq.model.scorer.run import content_sha256
from hsfiq.model.system_recipes import DRAWN, SystemRecipe

Split = Literal["val", "test"]

CORPORA: dict[Split, str] = {"val": "without held-out", "test": "catalogue"}


UNTRAINED_SEED = 0
"""Draws the catalogue for a retriever that was not trained on any."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Garments and triplets of all splits, with a note if the training had others."""

    garments: tuple[Garment, ...]
    triplets: tuple[DrawnTriplet, ...]
    notes: tuple[str, ...] = ()

    def candidates(self, split: Split) -> tuple[Garment, ...]:
        return self.garments if split == "test" else shown_of(self.garments)


def catalogue_of(recipe: Recipe | SystemRecipe, data: Mapping[str, Any]) -> Catalogue:
    """The catalogue that a scorer was trained on, or else the one that its seed draws.

    No garment is a target in two splits (`hsfiq.drawn.triplets`), so that any catalogue is a fair
    test; but only the training's own gives the figures of its validation. `data` is what its
    checkpoint records about its training data.
    """
    if data.get("name") == "drawn":
        n_train = data["n_train"]
        # A limit gives that many triplets, or one more or less.
        for limit in (n_train, n_train - 1, n_train + 1):
            garments, triplets = draw_dataset(recipe.seed, *drawn_size(limit))
            if is_trained_on(garments, triplets, recipe, data):
                return Catalogue(garments, triplets)
        note = "the triplets differ from the validation triplets of the scorer's training"
        return Catalogue(*draw_dataset(recipe.seed, *drawn_size(None)), (note,))
    return Catalogue(*draw_dataset(recipe.seed, *drawn_size(None)))


def is_trained_on(
    garments: tuple[Garment, ...],
    triplets: tuple[DrawnTriplet, ...],
    recipe: Recipe | SystemRecipe,
    data: Mapping[str, Any],
) -> bool:
    parts = drawn_parts(garments, triplets, recipe.pool, Path())
    everything = {garment.image_id: Path() for garment in garments}
    return content_sha256(with_files("drawn", parts, everything, "drawn")) == data.get("sha256")


def drawn(catalogue: Catalogue, split: Split) -> Benchmark:
    """A split of a catalogue, one part for each category. The reference is a candidate."""
    parts = []
    for category in CATEGORIES:
        queries = [
            Query(
                query_id=triplet.external_id,
                reference=triplet.reference.image_id,
                text=mining_text(triplet.captions),
                target=triplet.target.image_id,
            )
            for triplet in catalogue.triplets
            if (triplet.category, triplet.split) == (category, split)
        ]
        garments = corpus(catalogue.candidates(split), category)
        images = tuple(garment.image_id for garment in garments)
        chosen = tuple(queries[:VALIDATION] if split == "val" else queries)
        parts.append(Part(category, chosen, Corpus(CORPORA[split], images)))
    return Benchmark("drawn", split, tuple(parts), keeps_reference=True)


def drawn_by_recipes(split: Split) -> Benchmark:
    """A split of the catalogue on which recipes train, unless their seed or limit is changed."""
    return drawn(Catalogue(*draw_dataset(DRAWN["seed"], *drawn_size(None))), split)


def drawn_for_scorer(
    split: Split, path: Path, images: Path | None
) -> tuple[Benchmark, Path, tuple[str, ...]]:
    """A split of the catalogue that a scorer was trained on, the folder of its pictures, and notes.

    Missing pictures are drawn into `images`; None for the scorer's own folder.
    """
    if is_specification(path):
        if images is None:
            raise UnreadableInput(
                str(path), "has no folder for the pictures", "name a folder with --images"
            )
        catalogue = Catalogue(*draw_dataset(UNTRAINED_SEED, *drawn_size(None)))
        draw_pictures(catalogue.candidates(split), images)
        return drawn(catalogue, split), images, ()
    checkpoint = read(path)
    catalogue = catalogue_of(recipe_of(checkpoint), checkpoint.about.get("data") or {})
    folder = images or checkpoint.path.parent / CATALOGUE
    draw_pictures(catalogue.candidates(split), folder)
    return drawn(catalogue, split), folder, catalogue.notes
