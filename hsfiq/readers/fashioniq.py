"""FashionIQ's captions and split files (github.com/XiaoxiaoGuo/fashion-iq).

`captions/cap.<category>.<split>.json` lists {candidate (the reference), target, captions: two};
the test files have no target. `image_splits/split.<category>.<split>.json` lists image ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.ids import triplet_id
from hsfiq.readers.files import Place, open_place
from hsfiq.readers.sources import Source
from hsfiq.records import Triplet

# Not CIRR's files, cap.rc2.<split>.json.
_CAPTIONS = re.compile(r"cap\.(?!rc2\.)(?P<category>[\w-]{1,39})\.(?P<split>[\w-]{1,39})\.json")


def read(folder: Path, categories: Sequence[str] = (), splits: Sequence[str] = ()) -> list[Source]:
    """Read the captions files of a FashionIQ folder, each with the split file beside it.

    Without `categories` or `splits`, all are read.
    """
    files = captions_files(folder)
    if not files:
        raise UnreadableInput(
            str(folder),
            "no captions/cap.<category>.<split>.json here",
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
    return [read_split(folder, category, split, path) for (category, split), path in chosen]


def captions_files(folder: Path) -> dict[tuple[str, str], Path]:
    paths = {}
    for path in sorted((folder / "captions").glob("cap.*.json")):
        match = _CAPTIONS.fullmatch(path.name)
        if match:
            paths[match["category"], match["split"]] = path
    return paths


def read_split(folder: Path, category: str, split: str, captions: Path) -> Source:
    corpus = folder / "image_splits" / f"split.{category}.{split}.json"
    images = open_place(corpus).names()
    known = set(images)
    triplets = [
        read_triplet(place, triplet_id(category, split, index), category, split, known)
        for index, place in enumerate(open_place(captions).list())
    ]
    return Source(captions, f"{category}.{split}", images, tuple(triplets))


def read_triplet(
    place: Place, external_id: str, category: str, split: str, known: set[str]
) -> Triplet:
    captions = place.key("captions").list()
    if len(captions) != 2:
        raise place.wrong(f"{len(captions)} captions, a triplet has 2")
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
