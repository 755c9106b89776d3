"""Where training data comes from: FashionIQ, CIRR, the drawn catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hsfiq.atomic_files import sync
from hsfiq.drawn import DrawnTriplet, Garment, catalogue, corpus, draw_triplets, generator
from hsfiq.drawn.draw import write_images
from hsfiq.drawn.garments import CATEGORIES
from hsfiq.drawn.triplets import SHARES, target_split
from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import usual_folder
from hsfiq.model.data.parts import SPLITS, first_of, part_of, with_images
from hsfiq.model.data.triplets import Part, TrainingData, distinct
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.recipes.values import PoolRule
from hsfiq.readers import cirr as cirr_files
from hsfiq.readers import fashioniq as fashioniq_files
from hsfiq.readers.sources import Source

GARMENTS = 600
"""Of each category in the drawn catalogue that a scorer is trained on."""

TRIPLETS = 18_000
"""Drawn from it, of all three splits; half of them train."""

VALIDATION = 200
"""Triplets of each category that are validated on after every epoch, of those drawn for it."""

LEAST_GARMENTS = 40

CATALOGUE = "catalogue"
"""The folder of drawn pictures, where none is named."""


def read(
    recipe: Recipe, folder: Path | None, images: Path | None, limit: int | None
) -> TrainingData:
    """Read what a recipe trains on.

    Args:
        recipe: says which dataset and which pool.
        folder: the dataset's; None for the drawn catalogue.
        images: holds the images, in whatever layout, or will hold the drawn ones.
        limit: about how many training triplets to keep; all if None.

    Raises:
        UnreadableInput: the folder is not the dataset's, or too few images are there.
    """
    if folder is None:
        return drawn(images or Path(CATALOGUE), recipe.seed, *drawn_size(limit), recipe.pool)
    reader = cirr if recipe.dataset == "cirr" else fashioniq
    data = reader(folder, images, recipe.pool)
    return data if limit is None else first_of(data, limit)


def fashioniq(folder: Path, images: Path | None, rule: PoolRule) -> TrainingData:
    """Read the training and validation triplets of every category that is there.

    Args:
        folder: holds `captions/` and `image_splits/`.
        images: holds the images, in whatever layout; the dataset's usual folders if None.
        rule: which images can be negatives.

    Raises:
        UnreadableInput: with file and place; a split is missing, or no triplet has its images.
    """
    sources = {it.corpus: it for it in fashioniq_files.read(folder, splits=SPLITS)}
    parts = []
    for category in distinct(name.rpartition(".")[0] for name in sources):
        for split in SPLITS:
            if f"{category}.{split}" not in sources:
                raise UnreadableInput(
                    str(folder),
                    f"no captions of split {split!r} for {category}, only of the other",
                    f"add captions/cap.{category}.{split}.json, or take {category} away",
                )
        train, val = (sources[f"{category}.{split}"] for split in SPLITS)
        parts.append(part_of(category, train, val, rule))
    return with_images("fashioniq", parts, image_folder(folder, images))


def cirr(folder: Path, images: Path | None, rule: PoolRule) -> TrainingData:
    """Read CIRR's training and validation triplets; the arguments and errors are FashionIQ's."""
    sources = {source.corpus: source for source in cirr_files.read(folder, SPLITS)}
    part = part_of("cirr", sources["train"], sources["val"], rule)
    return with_images("cirr", [part], image_folder(folder, images))


def drawn(folder: Path, seed: int, per_category: int, n: int, rule: PoolRule) -> TrainingData:
    """Draw training and validation triplets, and into `folder` the pictures that are not there.

    Garments of held-out combinations are neither drawn nor anybody's candidates. Training's corpus
    has no validation target in it; validation's has training's targets, as what must not win.

    Args:
        folder: holds the pictures.
        seed: of the catalogue and the triplets.
        per_category: garments of each category.
        n: triplets of all splits together; `hsfiq.drawn.triplets.SHARES` says how many train.
        rule: which images can be negatives.

    Raises:
        CatalogueTooSmall: the garments give fewer triplets.
        UnreadableInput: the folder cannot be written to.
    """
    garments, triplets = draw_dataset(seed, per_category, n)
    draw_pictures(shown_of(garments), folder)
    return with_images("drawn", drawn_parts(garments, triplets, rule, folder), folder)


def drawn_parts(
    garments: Sequence[Garment], triplets: Sequence[DrawnTriplet], rule: PoolRule, folder: Path
) -> list[Part]:
    """What `drawn` makes of a catalogue; `folder` is where its pictures are."""
    parts = []
    for category in CATEGORIES:
        all_ = corpus(shown_of(garments), category)
        train, val = (
            Source(
                path=folder,
                corpus=f"{category}.{split}",
                images=tuple(garment.image_id for garment in candidates),
                triplets=tuple(
                    it.record() for it in triplets if (it.category, it.split) == (category, split)
                )[:most],
            )
            for split, candidates, most in (
                ("train", [it for it in all_ if target_split(it) == "train"], None),
                ("val", all_, VALIDATION),
            )
        )
        parts.append(part_of(category, train, val, rule))
    return parts


def shown_of(garments: Iterable[Garment]) -> tuple[Garment, ...]:
    """The garments that training may show: those of no held-out combination."""
    return tuple(garment for garment in garments if not garment.held_out)


def drawn_size(limit: int | None) -> tuple[int, int]:
    """Garments of each category, and triplets, that give about `limit` to train with."""
    share = 1.0 if limit is None else min(limit / (TRIPLETS * SHARES["train"]), 1.0)
    n = round(TRIPLETS * share)
    # A sixth: enough references for every triplet, those of `test` too.
    return min(GARMENTS, max(LEAST_GARMENTS, n // 12)), n


def draw_dataset(
    seed: int, per_category: int, n: int
) -> tuple[tuple[Garment, ...], tuple[DrawnTriplet, ...]]:
    """The catalogue and the triplets, of all three splits, that `drawn` takes its own from.

    Raises:
        CatalogueTooSmall: the garments give fewer triplets.
    """
    garments = catalogue(generator(seed, "catalogue"), per_category)
    return garments, draw_triplets(generator(seed, "training triplets"), garments, n)


def draw_pictures(garments: Iterable[Garment], folder: Path) -> None:
    """Draw the garments that have no picture in the folder yet; each file is whole or absent.

    Raises:
        UnreadableInput: the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        absent = [it for it in garments if not (folder / f"{it.image_id}.jpg").is_file()]
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as draft:
            write_images(absent, Path(draft))
            for path in sorted(Path(draft).iterdir()):
                sync(path)
                path.replace(folder / path.name)
    except OSError as error:
        raise UnreadableInput(str(folder), f"cannot be written ({error.strerror})") from error


def image_folder(folder: Path, images: Path | None) -> Path:
    """The folder of the images that was named, or where they mostly are.

    Raises:
        UnreadableInput: there is none.
    """
    if images is None:
        found = usual_folder(folder)
        if found is None:
            raise UnreadableInput(
                str(folder), "no folder of images here", "name theirs with --images"
            )
        return found
    if not images.is_dir():
        raise UnreadableInput(str(images), "there is no such folder", "name another with --images")
    return images
