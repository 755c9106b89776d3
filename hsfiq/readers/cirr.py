"""CIRR's captions and split files, release rc2 (github.com/Cuberick-Orion/CIRR).

`captions/cap.rc2.<split>.json` lists {pairid, reference, target_hard, caption, img_set, ...}, where
test1 has no target; `image_splits/split.rc2.<split>.json` maps image ids to paths. Both may lie in
`cirr/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.readers.fashioniq import known_image
from hsfiq.readers.files import Place, open_place
from hsfiq.readers.sources import Source
from hsfiq.records import Triplet


def read(folder: Path, splits: Sequence[str] = ()) -> list[Source]:
    """Read the captions files of a CIRR folder, each with the split file beside it."""
    root = folder / "cirr" if (folder / "cirr" / "captions").is_dir() else folder
    files = {
        path.name.removeprefix("cap.rc2.").removesuffix(".json"): path
        for path in sorted((root / "captions").glob("cap.rc2.*.json"))
    }
    if not files:
        raise UnreadableInput(
            str(folder),
            "no captions/cap.rc2.<split>.json here",
            "name the folder that holds captions/ and image_splits/",
        )
    for name in splits:
        if name not in files:
            raise UnreadableInput(
                str(folder), f"no captions of split {name!r}", f"there are {', '.join(files)}"
            )
    return [
        read_split(root, split, path)
        for split, path in files.items()
        if not splits or split in splits
    ]


def read_split(root: Path, split: str, captions: Path) -> Source:
    corpus = open_place(root / "image_splits" / f"split.rc2.{split}.json")
    images = tuple(name for name, _ in corpus.items())
    known = set(images)
    triplets: dict[str, Triplet] = {}
    image_sets = {}
    for place in open_place(captions).list():
        triplet = read_triplet(place, split, known)
        if triplet.external_id in triplets:
            raise place.wrong(f"the pairid {triplet.external_id} occurs twice")
        triplets[triplet.external_id] = triplet
        if "img_set" in place.value:
            members = place.key("img_set").key("members").list()
            image_sets[triplet.external_id] = tuple(member.name() for member in members)
    return Source(captions, split, images, tuple(triplets.values()), image_sets)


def read_triplet(place: Place, split: str, known: set[str]) -> Triplet:
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
