"""Reading training data: FashionIQ, CIRR, or the drawn catalogue."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from hsfiq.atomic_files import explained_write_errors, sync
from hsfiq.drawn import DrawnTriplet, Garment, catalogue, corpus, draw_triplets, generator
from hsfiq.drawn.garments import CATEGORIES
from hsfiq.drawn.triplets import SHARES, target_split
from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import ImageFolder, usual_folder
from hsfiq.model.recipes import CaptionRule, PoolRule, Recipe
from hsfiq.model.system_recipes import SystemRecipe
from hsfiq.readers import datasets
from hsfiq.records import Source

# How a triplet's captions become the text that the encoder reads.
#
# Joining and cleaning are two steps: `mining_text` is the text of a query in mining, validation and
# scoring, `training_text` its text in training, and a retriever's `clean_text` cleans both.

_ENDS = ".?, "


def mining_text(captions: Sequence[str]) -> str:
    """The deterministic text of a triplet's query.

    FashionIQ's two captions are joined as "C1 and c2" (CLIP4Cir, SPRC, QuRe), both stripped of
    '.', '?', ',' and blanks, the first capitalised. CIRR's single caption is left unchanged.
    """
    if len(captions) == 1:
        return captions[0]
    first, second = _two(captions)
    return f"{first.capitalize()} and {second}"


def training_text(captions: Sequence[str], rule: CaptionRule, u: float) -> str:
    """One of the `training_texts`, each with equal probability, by `u`, uniform in [0, 1)."""
    if not 0 <= u < 1:
        raise ValueError(f"u must be in [0, 1), not {u}")
    texts = training_texts(captions, rule)
    return texts[int(len(texts) * u)]


def training_texts(captions: Sequence[str], rule: CaptionRule) -> tuple[str, ...]:
    """The texts of a triplet in training.

    Those of the rule `four-way` are "C1 and c2", "C2 and c1", "C1" and "C2"; a single caption
    (CIRR) stays unchanged.
    """
    if rule == "joined" or len(captions) == 1:
        return (mining_text(captions),)
    first, second = _two(captions)
    return (
        f"{first.capitalize()} and {second}",
        f"{second.capitalize()} and {first}",
        first.capitalize(),
        second.capitalize(),
    )


def _two(captions: Sequence[str]) -> tuple[str, str]:
    if len(captions) != 2:
        raise ValueError(f"a triplet has one or two captions, not {len(captions)}")
    return captions[0].strip(_ENDS), captions[1].strip(_ENDS)


# What a training run reads: triplets, their candidates, and image files.
#
# Images may be missing, as in most copies of FashionIQ. `TrainingData` records everything that is
# left out for them, and `missing_lines` and `missing_text` report it.

MISSING_FILE = "missing_images.txt"


@dataclass(frozen=True, slots=True)
class Example:
    """A triplet with a known target; `pool` names its candidates in training or validation."""

    triplet_id: str
    reference: str
    target: str
    captions: tuple[str, ...]
    pool: str
    subset: tuple[str, ...] = ()  # CIRR: the other five images of its image set


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A training pool or a validation corpus with missing images."""

    kind: Literal["pool", "corpus"]
    name: str
    n_available: int
    n_images: int


@dataclass(frozen=True, slots=True)
class Part:
    """The triplets that share one pool and one corpus, whether or not their images exist."""

    name: str
    train: tuple[Example, ...]
    val: tuple[Example, ...]
    pool: tuple[str, ...]
    corpus: tuple[str, ...]

    def images(self) -> Iterable[str]:
        """Every image, some more than once."""
        for example in (*self.train, *self.val):
            yield from (example.reference, example.target)
        yield from self.pool
        yield from self.corpus


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The triplets for training, and the triplets that select the best epoch.

    Attributes:
        pools: the candidates of training negatives by name (FashionIQ: its categories), each image
            once, in the order of its file.
        corpora: the candidates of validation, by the same names.
        images: the files of all these images, by id.
        missing: the images without a file.
        dropped: the triplets left out for them.
        parts: everything, before images were left out.

    Raises:
        UnreadableInput: a target is not among its candidates, or these are fewer than two.
    """

    name: str
    train: tuple[Example, ...]
    val: tuple[Example, ...]
    pools: dict[str, tuple[str, ...]]
    corpora: dict[str, tuple[str, ...]]
    images: dict[str, Path]
    missing: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        self._check("pool", self.train, self.pools)
        self._check("corpus", self.val, self.corpora)

    def _check(
        self, kind: str, examples: Iterable[Example], candidates: dict[str, tuple[str, ...]]
    ) -> None:
        members = {name: set(images) for name, images in candidates.items()}
        for name, images in members.items():
            if len(images) < 2:
                raise UnreadableInput(
                    f"{self.name}: {kind} {name!r}",
                    f"has {len(images)} images, but a target needs at least one other",
                    "add the missing images",
                )
        for example in examples:
            if example.target not in members.get(example.pool, ()):
                raise UnreadableInput(
                    f"{self.name}: triplet {example.triplet_id}",
                    f"its target {example.target!r} is not in the {kind} {example.pool!r}",
                )


def missing_lines(data: TrainingData) -> tuple[str, ...]:
    """The report on missing images for the terminal; empty if none is missing."""
    if not data.missing:
        return ()
    n_images = len(data.images) + len(data.missing)
    n_triplets = len(data.train) + len(data.val) + len(data.dropped)
    lines = [
        (
            f"{len(data.missing):,} of {n_images:,} images are missing; {len(data.dropped):,} of "
            f"{n_triplets:,} triplets are skipped for this reason ({MISSING_FILE} lists both)"
        )
    ]
    for part in data.incomplete:
        line = f"{part.kind} {part.name}: {part.n_available:,} of {part.n_images:,} images"
        if part.kind == "corpus":
            line += "; recall on it is not comparable with published figures"
        lines.append(line)
    return tuple(lines)


def missing_text(data: TrainingData) -> str:
    """The content of `missing_images.txt`: one id per line, images before triplets."""
    lines = [f"# images without a file: {len(data.missing)}", *data.missing]
    lines += [f"# triplets skipped for them: {len(data.dropped)}", *data.dropped]
    return "\n".join(lines) + "\n"


def rows_by_pool(examples: Sequence[Example]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, example in enumerate(examples):
        rows.setdefault(example.pool, []).append(row)
    return rows


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The distinct names, in order of first occurrence."""
    return tuple(dict.fromkeys(names))


# Restricting triplets to the images that exist, and recording what is left out.

SPLITS = ("train", "val")


def part_of(name: str, train: Source, val: Source, rule: PoolRule) -> Part:
    examples = examples_of(train, name)
    pool = train.images if rule == "corpus" else tuple(example.target for example in examples)
    return Part(name, examples, examples_of(val, name), distinct(pool), distinct(val.images))


def examples_of(source: Source, pool: str) -> tuple[Example, ...]:
    """The triplets of one captions file; UnreadableInput if one has no target."""
    examples = []
    for triplet in source.triplets:
        if triplet.target is None:
            raise UnreadableInput(
                str(source.path),
                f"triplet {triplet.external_id} has no target",
                "training and validation need a target for each triplet",
            )
        members = source.image_sets.get(triplet.external_id, ())
        examples.append(
            Example(
                triplet.external_id,
                triplet.reference,
                triplet.target,
                triplet.captions,
                pool,
                subset=tuple(image for image in members if image != triplet.reference),
            )
        )
    return tuple(examples)


def with_images(name: str, parts: Sequence[Part], folder: Path) -> TrainingData:
    """Restrict the parts to the images in a folder, and record what is left out.

    Raises UnreadableInput if a split has no triplet left, or a pool or corpus under two images.
    """
    files = ImageFolder(folder)
    wanted = distinct(image for part in parts for image in part.images())
    images = {image: path for image in wanted if (path := files.find(image)) is not None}
    return with_files(name, parts, images, str(folder))


def without(data: TrainingData, images: Container[str]) -> TrainingData:
    """The same data without some of its images; raises as `with_images`."""
    left = {image: path for image, path in data.images.items() if image not in images}
    return with_files(data.name, data.parts, left, data.name)


def first_of(data: TrainingData, n: int) -> TrainingData:
    """The first triplets of each part, about n for training, and the candidates that they name."""
    n_each = -(-n // len(data.parts))
    parts = [
        Part(
            part.name,
            part.train[:n_each],
            part.val[:n_each],
            among(part.pool, named_by(part.train[:n_each])),
            among(part.corpus, named_by(part.val[:n_each])),
        )
        for part in data.parts
    ]
    return with_files(data.name, parts, data.images, data.name)


def named_by(examples: Sequence[Example]) -> set[str]:
    return {image for example in examples for image in (example.reference, example.target)}


def among(candidates: Sequence[str], images: Container[str]) -> tuple[str, ...]:
    return tuple(image for image in candidates if image in images)


def with_files(
    name: str, parts: Sequence[Part], images: dict[str, Path], where: str
) -> TrainingData:
    """Restrict the parts to these image files, by image id; `where` is for messages."""
    wanted = distinct(image for part in parts for image in part.images())
    kept = [available_part(part, images) for part in parts]
    train = tuple(example for part in kept for example in part.train)
    val = tuple(example for part in kept for example in part.val)
    for split, left in zip(SPLITS, (train, val), strict=True):
        if not left:
            raise UnreadableInput(
                where,
                f"no triplet of split {split!r} has both of its images "
                f"({len(images):,} of {len(wanted):,} images found)",
                "name the images' folder with --images",
            )
    remaining = {*train, *val}
    return TrainingData(
        name=name,
        train=train,
        val=val,
        # A category without any triplet needs no candidates.
        pools={part.name: part.pool for part in kept if part.train},
        corpora={part.name: part.corpus for part in kept if part.val},
        images=images,
        missing=tuple(sorted(set(wanted) - set(images))),
        dropped=tuple(
            example.triplet_id
            for part in parts
            for example in (*part.train, *part.val)
            if example not in remaining
        ),
        incomplete=tuple(incomplete_of(parts, kept)),
        parts=tuple(parts),
    )


def available_part(part: Part, images: Container[str]) -> Part:
    """The part without missing images and the triplets that name them."""
    train, val = (
        tuple(
            example
            for example in examples
            if example.reference in images and example.target in images
        )
        for examples in (part.train, part.val)
    )
    return Part(part.name, train, val, among(part.pool, images), among(part.corpus, images))


def incomplete_of(parts: Sequence[Part], kept: Sequence[Part]) -> Iterator[Incomplete]:
    for part, left in zip(parts, kept, strict=True):
        if len(left.pool) < len(part.pool):
            yield Incomplete("pool", part.name, len(left.pool), len(part.pool))
        if len(left.corpus) < len(part.corpus):
            yield Incomplete("corpus", part.name, len(left.corpus), len(part.corpus))


GARMENTS = 600
"""Garments of each category in the drawn catalogue for training."""

TRIPLETS = 18_000
"""Triplets drawn from it for all three splits; half of them are for training."""

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
    sources = {source.corpus: source for source in datasets.read_fashioniq(folder, splits=SPLITS)}
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
    sources = {source.corpus: source for source in datasets.read_cirr(folder, SPLITS)}
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
    from hsfiq.drawn.pictures import write_images  # noqa: PLC0415 (Pillow, which lists need not)

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
