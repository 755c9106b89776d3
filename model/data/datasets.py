"""Reading training data: FashionIQ, CIRR, or the drawn catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hsfiq.atomic_files import explained_write_errors, sync
from hsfiq.drawn import DrawnTriplet, Garment, catalogue, corpus, draw_triplets, generator
from hsfiq.drawn.garments import CATEGORIES
from hsfiq.drawn.pictures import write_images
from hsfiq.drawn.triplets import SHARES, target_split
from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import usual_folder
from hsfiq.model.data.parts import SPLITS, first_of, part_of, with_images
from hsfiq.model.data.triplets import Part, TrainingData, distinct
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.recipes.system_recipe import SystemRecipe
from hsfiq.model.recipes.values import PoolRule
from hsfiq.readers import cirr as cirr_files
from hsfiq.readers import fashioniq as fashioniq_files
from hsfiq.readers.sources import Source

GARMENTS = 600
"""Garments of each category in the drawn catalogue for training."""

TRIPLETS = 18_000
"""Triplets drawn from it for all three splits; half of them train."""

VALIDATION = 200
"""The most validation triplets of each category."""

LEAST_GARMENTS = 40

CATALOGUE = "catalogue"
"""The default folder of drawn pictures."""


def read_training_data(
    recipe: Recipe | SystemRecipe, folder: Path | None, images: Path | None, limit: int | None
) -> TrainingData:
    """Read the training data of a recipe; None for `folder` is the drawn catalogue.

    `images` holds the images, in any layout, or is the folder to draw pictures into; `limit` is
    about how many training triplets to keep. UnreadableInput if too few images are left.
    """
    if folder is None:
        return drawn(images or Path(CATALOGUE), recipe.seed, *drawn_size(limit), recipe.pool)
    reader = cirr if recipe.dataset == "cirr" else fashioniq
    data = reader(folder, images, recipe.pool)
    return data if limit is None else first_of(data, limit)


def fashioniq(folder: Path, images: Path | None, rule: PoolRule) -> TrainingData:
    """Read every category in the folder; UnreadableInput if no triplet has its images."""
    sources = {source.corpus: source for source in fashioniq_files.read(folder, splits=SPLITS)}
    parts = []
    for category in distinct(name.rpartition(".")[0] for name in sources):
        for split in SPLITS:
            if f"{category}.{split}" not in sources:
                raise UnreadableInput(
                    str(folder),
                    f"has {category} captions for one split, but none for {split!r}",
                    f"add captions/cap.{category}.{split}.json, or remove {category}",
                )
        train, val = (sources[f"{category}.{split}"] for split in SPLITS)
        parts.append(part_of(category, train, val, rule))
    return with_images("fashioniq", parts, image_folder(folder, images))


def cirr(folder: Path, images: Path | None, rule: PoolRule) -> TrainingData:
    """Read CIRR's training and validation triplets; raises as `fashioniq`."""
    sources = {source.corpus: source for source in cirr_files.read(folder, SPLITS)}
    part = part_of("cirr", sources["train"], sources["val"], rule)
    return with_images("cirr", [part], image_folder(folder, images))


def drawn(folder: Path, seed: int, per_category: int, n: int, rule: PoolRule) -> TrainingData:
    """Draw training and validation triplets, and the missing pictures into `folder`.

    Garments of held-out combinations are neither drawn nor candidates. The training pool has no
    validation target; the validation corpus has the training targets as distractors.

    CatalogueTooSmall if the garments give fewer than `n` triplets, all splits together.
    """
    garments, triplets = draw_dataset(seed, per_category, n)
    draw_pictures(shown_of(garments), folder)
    return with_images("drawn", drawn_parts(garments, triplets, rule, folder), folder)


def drawn_parts(
    garments: Sequence[Garment], triplets: Sequence[DrawnTriplet], rule: PoolRule, folder: Path
) -> list[Part]:
    parts = []
    for category in CATEGORIES:
        shown = corpus(shown_of(garments), category)
        pool = [garment for garment in shown if target_split(garment) == "train"]
        train, val = (
            Source(
                path=folder,
                corpus=f"{category}.{split}",
                images=tuple(garment.image_id for garment in candidates),
                triplets=tuple(
                    triplet.record()
                    for triplet in triplets
                    if (triplet.category, triplet.split) == (category, split)
                )[:most],
            )
            for split, candidates, most in (("train", pool, None), ("val", shown, VALIDATION))
        )
        parts.append(part_of(category, train, val, rule))
    return parts


def shown_of(garments: Iterable[Garment]) -> tuple[Garment, ...]:
    return tuple(garment for garment in garments if not garment.held_out)


def drawn_size(limit: int | None) -> tuple[int, int]:
    """The garments per category and the triplets for about `limit` training triplets."""
    share = 1.0 if limit is None else min(limit / (TRIPLETS * SHARES["train"]), 1.0)
    n = round(TRIPLETS * share)
    # Enough references for every triplet, also those of `test`.
    return min(GARMENTS, max(LEAST_GARMENTS, n // 12)), n


def draw_dataset(
    seed: int, per_category: int, n: int
) -> tuple[tuple[Garment, ...], tuple[DrawnTriplet, ...]]:
    """The catalogue and the triplets of all splits; CatalogueTooSmall if it gives fewer."""
    garments = catalogue(generator(seed, "catalogue"), per_category)
    return garments, draw_triplets(generator(seed, "training triplets"), garments, n)


def draw_pictures(garments: Iterable[Garment], folder: Path) -> None:
    """Draw the garments that have no picture in the folder yet, each file atomically."""
    with explained_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        missing = [
            garment for garment in garments if not (folder / f"{garment.image_id}.jpg").is_file()
        ]
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as draft:
            write_images(missing, Path(draft))
            for path in sorted(Path(draft).iterdir()):
                sync(path)
                path.replace(folder / path.name)


def image_folder(folder: Path, images: Path | None) -> Path:
    if images is not None and not images.is_dir():
        raise UnreadableInput(str(images), "there is no such folder", "name another with --images")
    chosen = images or usual_folder(folder)
    if chosen is None:
        raise UnreadableInput(str(folder), "has no folder of images", "name it with --images")
    return chosen
