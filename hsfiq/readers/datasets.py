"""Reading FashionIQ, CIRR, CIRCO and FISD, and recognizing a folder of them by its files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from hsfiq.errors import UnreadableInput
from hsfiq.ids import triplet_id
from hsfiq.readers.files import Place, numbered_lines, open_place, parse_json, read_text
from hsfiq.records import Source, Triplet

# CIRCO's annotations (github.com/miccunifi/CIRCO).
#
# `<split>.json`, in the folder itself or in `annotations/`, lists {reference_img_id,
# relative_caption, id, ...}; val adds {target_img_id, gt_img_ids, semantic_aspects}. The images are
# COCO's 2017 unlabelled ones, listed in `image_info_unlabeled2017.json`. An image's id is a number:
# here written in decimal without padding.

INDEX = "image_info_unlabeled2017.json"
MAX_DECIMALS = 12
"""Of a COCO id, as in the names of its image files."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """One query; `target`, `truths` (target first) and `aspects` are those of val only."""

    query_id: str
    reference: str
    caption: str
    target: str | None
    truths: tuple[str, ...]
    aspects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Annotations:
    """A split's queries in the file's order; `images` is None if the folder has no `INDEX`."""

    path: Path
    queries: tuple[Annotation, ...]
    images: tuple[str, ...] | None


def read_circo_annotations(folder: Path, split: str) -> Annotations:
    """Read a split's annotations, and the list of COCO's images if it is in a subfolder."""
    names = (f"{split}.json", f"annotations/{split}.json")
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise UnreadableInput(
            str(folder), f"has neither {names[0]} nor {names[1]}", "name CIRCO's folder"
        )
    queries: dict[str, Annotation] = {}
    for place in open_place(path).list():
        query = read_query(place)
        if query.query_id in queries:
            raise place.wrong(f"the id {query.query_id} occurs twice")
        queries[query.query_id] = query
    index = min(folder.rglob(INDEX), default=None)
    return Annotations(path, tuple(queries.values()), None if index is None else read_index(index))


def read_query(place: Place) -> Annotation:
    target, truths, aspects = None, [], []
    query_id = number(place.key("id"))
    if "target_img_id" in place.value:
        target = number(place.key("target_img_id"))
        answers = place.key("gt_img_ids")
        truths = [number(truth) for truth in answers.list()]
        if target not in truths or len(set(truths)) < len(truths):
            raise answers.wrong("must be the target and other images, each once")
        aspects = [aspect.name() for aspect in place.key("semantic_aspects").list()]
    return Annotation(
        query_id=query_id,
        reference=number(place.key("reference_img_id")),
        caption=place.key("relative_caption").text(),
        target=target,
        truths=tuple(sorted(truths, key=lambda truth: truth != target)),
        aspects=tuple(dict.fromkeys(aspects)),
    )


def read_index(path: Path) -> tuple[str, ...]:
    images = open_place(path).key("images").list()
    return tuple(dict.fromkeys(number(image.key("id")) for image in images))


def number(place: Place) -> str:
    return canonical(str(place.integer()), place.where.removesuffix(": "))


def canonical(image: str, where: str) -> str:
    """The id without its padding (`000000057413`); `UnreadableInput` if it is not a COCO id."""
    if not (image.isascii() and image.isdecimal() and len(image) <= MAX_DECIMALS):
        raise UnreadableInput(
            where, f"{image!r} is not a COCO image id", "it must have 1 to 12 digits"
        )
    return str(int(image))


# FashionIQ's captions and split files (github.com/XiaoxiaoGuo/fashion-iq).
#
# `captions/cap.<category>.<split>.json` lists {candidate (the reference), target, captions: two};
# the test files have no target. `image_splits/split.<category>.<split>.json` lists image ids.

# Not CIRR's files, cap.rc2.<split>.json.
_CAPTIONS = re.compile(r"cap\.(?!rc2\.)(?P<category>[\w-]{1,39})\.(?P<split>[\w-]{1,39})\.json")


def read_fashioniq(
    folder: Path, categories: Sequence[str] = (), splits: Sequence[str] = ()
) -> list[Source]:
    """Read the captions files of a FashionIQ folder, each with the split file beside it.

    Without `categories` or `splits`, all are read.
    """
    files = captions_files(folder)
    if not files:
        raise UnreadableInput(
            str(folder),
            "has no captions/cap.<category>.<split>.json",
            "name the folder that holds captions/ and image_splits/",
        )
    for wanted, position, what in ((categories, 0, "category"), (splits, 1, "split")):
        known = sorted({key[position] for key in files})
        for name in wanted:
            if name not in known:
                raise UnreadableInput(
                    str(folder), f"no captions of {what} {name!r}", f"there are {', '.join(known)}"
                )
    chosen = [
        (key, path)
        for key, path in files.items()
        if (not categories or key[0] in categories) and (not splits or key[1] in splits)
    ]
    if not chosen:
        raise UnreadableInput(str(folder), "no captions file has both that category and that split")
    return [
        read_fashioniq_split(folder, category, split, path) for (category, split), path in chosen
    ]


def captions_files(folder: Path) -> dict[tuple[str, str], Path]:
    paths = {}
    for path in sorted((folder / "captions").glob("cap.*.json")):
        match = _CAPTIONS.fullmatch(path.name)
        if match:
            paths[match["category"], match["split"]] = path
    return paths


def read_fashioniq_split(folder: Path, category: str, split: str, captions: Path) -> Source:
    corpus = folder / "image_splits" / f"split.{category}.{split}.json"
    images = open_place(corpus).names()
    known = set(images)
    triplets = [
        read_fashioniq_triplet(place, triplet_id(category, split, index), category, split, known)
        for index, place in enumerate(open_place(captions).list())
    ]
    return Source(captions, f"{category}.{split}", images, tuple(triplets))


def read_fashioniq_triplet(
    place: Place, external_id: str, category: str, split: str, known: set[str]
) -> Triplet:
    captions = place.key("captions").list()
    if len(captions) != 2:
        raise place.wrong(f"{len(captions)} captions instead of 2")
    return Triplet(
        external_id=external_id,
        reference=known_image(place.key("candidate"), known),
        target=known_image(place.key("target"), known) if "target" in place.value else None,
        captions=tuple(caption.text() for caption in captions),
        category=category,
        split=split,
    )


def known_image(place: Place, known: set[str]) -> str:
    name = place.name()
    if name not in known:
        raise place.wrong(f"image {name!r} is not in the split file")
    return name


# CIRR's captions and split files, release rc2 (github.com/Cuberick-Orion/CIRR).
#
# `captions/cap.rc2.<split>.json` lists {pairid, reference, target_hard, caption, img_set, ...},
# where test1 has no target; `image_splits/split.rc2.<split>.json` maps image ids to paths. Both may
# lie in `cirr/`.


def read_cirr(folder: Path, splits: Sequence[str] = ()) -> list[Source]:
    """Read the captions files of a CIRR folder, each with the split file beside it."""
    root = folder / "cirr" if (folder / "cirr" / "captions").is_dir() else folder
    files = {
        path.name.removeprefix("cap.rc2.").removesuffix(".json"): path
        for path in sorted((root / "captions").glob("cap.rc2.*.json"))
    }
    if not files:
        raise UnreadableInput(
            str(folder),
            "has no captions/cap.rc2.<split>.json",
            "name the folder that holds captions/ and image_splits/",
        )
    for name in splits:
        if name not in files:
            raise UnreadableInput(
                str(folder), f"no captions of split {name!r}", f"there are {', '.join(files)}"
            )
    return [
        read_cirr_split(root, split, path)
        for split, path in files.items()
        if not splits or split in splits
    ]


def read_cirr_split(root: Path, split: str, captions: Path) -> Source:
    corpus = open_place(root / "image_splits" / f"split.rc2.{split}.json")
    images = tuple(name for name, _ in corpus.items())
    known = set(images)
    triplets: dict[str, Triplet] = {}
    image_sets = {}
    for place in open_place(captions).list():
        triplet = read_cirr_triplet(place, split, known)
        if triplet.external_id in triplets:
            raise place.wrong(f"the pairid {triplet.external_id} occurs twice")
        triplets[triplet.external_id] = triplet
        if "img_set" in place.value:
            members = place.key("img_set").key("members").list()
            image_sets[triplet.external_id] = tuple(member.name() for member in members)
    return Source(captions, split, images, tuple(triplets.values()), image_sets)


def read_cirr_triplet(place: Place, split: str, known: set[str]) -> Triplet:
    pair = place.key("pairid")
    return Triplet(
        external_id=Place(str(pair.integer()), pair.where).name(),
        reference=known_image(place.key("reference"), known),
        target=known_image(place.key("target_hard"), known)
        if "target_hard" in place.value
        else None,
        captions=(place.key("caption").text(),),
        split=split,
    )


# Reading a folder of FashionIQ, CIRR or CIRCO, recognized by its files.

_CIRCO_SPLITS = ("val", "test")


def read_folder(
    folder: Path, categories: Sequence[str] = (), splits: Sequence[str] = ()
) -> list[Source]:
    """Read the splits of a folder of FashionIQ, CIRR or CIRCO; all, if none are named."""
    dataset = dataset_of(folder)
    if categories and dataset != "fashioniq":
        raise UnreadableInput("--category", f"{dataset} has no categories", "leave it out")
    if dataset == "circo":
        return [read_circo(folder, name) for name in splits or circo_splits(folder)]
    if dataset == "cirr":
        return read_cirr(folder, splits)
    return read_fashioniq(folder, categories, splits)


def dataset_of(folder: Path) -> str:
    places = (folder / "captions", folder / "cirr" / "captions")
    if any(any(place.glob("cap.rc2.*.json")) for place in places):
        return "cirr"
    if captions_files(folder):
        return "fashioniq"
    if circo_splits(folder):
        return "circo"
    raise UnreadableInput(
        str(folder),
        "is not a folder of FashionIQ, CIRR or CIRCO",
        "name the one that holds captions/ and image_splits/, or CIRCO's annotations/",
    )


def circo_splits(folder: Path) -> list[str]:
    places = (folder, folder / "annotations")
    return [name for name in _CIRCO_SPLITS if any((p / f"{name}.json").is_file() for p in places)]


def read_circo(folder: Path, split: str) -> Source:
    """Read a CIRCO split; its corpus is empty if COCO's index is not in the folder."""
    annotations = read_circo_annotations(folder, split)
    triplets = tuple(
        Triplet(query.query_id, query.reference, query.target, (query.caption,), split=split)
        for query in annotations.queries
    )
    truths = {query.query_id: query.truths for query in annotations.queries if query.truths}
    return Source(annotations.path, split, annotations.images or (), triplets, truths=truths)


# FISD ("A Sanity Check on Composed Image Retrieval", section 3.1): triplets in six aspects.
#
# Its files are not published, so this layout is our own: `<aspect>.json`, a list, or
# `<aspect>.jsonl`, a line for each triplet: {id, reference, target, hard_negative, caption}, with
# image ids, one or a list of them as `hard_negative`; other keys are ignored. Every aspect has its
# own corpus: the images of its triplets, in the order of the file. An image belongs to one triplet
# of an aspect.

Aspect = Literal["cardinality", "addition", "negation", "change", "background", "complex"]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
"""In the order of the paper's Table 1."""

ABOUT_DRAWN = "drawn.json"
"""In a folder of drawn aspects, with their seed and sizes."""


@dataclass(frozen=True, slots=True)
class FisdTriplet:
    triplet_id: str
    reference: str
    target: str
    hard_negatives: tuple[str, ...]
    caption: str

    @property
    def images(self) -> tuple[str, ...]:
        return (self.reference, self.target, *self.hard_negatives)


def read_fisd(folder: Path) -> dict[Aspect, tuple[FisdTriplet, ...]]:
    """Read all six aspects.

    Raises:
        UnreadableInput: a file is missing or empty, an id occurs twice, or an image does.
    """
    return {aspect: read_aspect(folder, aspect) for aspect in ASPECTS}


def read_aspect(folder: Path, aspect: Aspect) -> tuple[FisdTriplet, ...]:
    triplets: dict[str, FisdTriplet] = {}
    seen: dict[str, str] = {}
    path = aspect_file(folder, aspect)
    for place in places_in(path):
        triplet = read_fisd_triplet(place)
        if triplet.triplet_id in triplets:
            raise place.wrong(f"the id {triplet.triplet_id!r} occurs twice")
        for image in triplet.images:
            if image in seen:
                raise place.wrong(
                    f"the image {image!r} is also in triplet {seen[image]!r}",
                    "an image belongs to one triplet of an aspect, in one role",
                )
            seen[image] = triplet.triplet_id
        triplets[triplet.triplet_id] = triplet
    if not triplets:
        raise UnreadableInput(str(path), "holds no triplet")
    return tuple(triplets.values())


def aspect_file(folder: Path, aspect: Aspect) -> Path:
    paths = [folder / f"{aspect}.{extension}" for extension in ("json", "jsonl")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise UnreadableInput(
            str(folder),
            f"has neither {paths[0].name} nor {paths[1].name}",
            f"a file for each of {', '.join(ASPECTS)}; docs/reference/fisd.md has the layout",
        )
    return path


def places_in(path: Path) -> Iterator[Place]:
    if path.suffix == ".json":
        yield from open_place(path).list()
        return
    for number, line in numbered_lines(read_text(path)):
        yield Place(parse_json(line, str(path), number), f"{path}: line {number}: ")


def read_fisd_triplet(place: Place) -> FisdTriplet:
    negative = place.key("hard_negative")
    several = negative.list() if isinstance(negative.value, list) else [negative]
    if not several:
        raise negative.wrong("a triplet needs at least one hard negative")
    return FisdTriplet(
        triplet_id=place.key("id").name(),
        reference=place.key("reference").name(),
        target=place.key("target").name(),
        hard_negatives=tuple(each.name() for each in several),
        caption=place.key("caption").text(),
    )
