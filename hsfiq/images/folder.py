"""Finding an image's file: any extension, in one folder or in subfolders."""

from __future__ import annotations

import os
import re
import time
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Literal, Protocol

from hsfiq.text import first_few, is_storable_text

# The ways in which an image file can be unusable.

FaultKind = Literal[
    "missing",
    "empty",
    "truncated",
    "undecodable",
    "too-large",
    "one-pixel",
    "unreadable",
    "changed",
]
"""`unreadable`: the disk or the memory failed, not the file; it may be readable the next time.
`changed`: the file has other bytes than those whose digest is recorded."""


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    why: str


NOT_REGULAR = Fault("unreadable", "is not a regular file")

CHANGED = Fault("changed", "has other bytes than when its digest was recorded")


SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"}

COCO_DIGITS = 12
"""The names of COCO's files (CIRCO) are numbers, padded with zeros to this length."""

SETTLED_NS = 2_000_000_000
"""A folder that has changed more recently may change again within one tick of its file system's
clock (2 s on FAT, the coarsest) without a new date, so its listing is not trusted yet."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One folder's image files and subfolders; `modified_ns` is None if it may still change."""

    modified_ns: int | None
    files: tuple[Path, ...]
    folders: tuple[Path, ...]


class ImageFolder:
    """The image files below a folder, by image id: name without extension, or path below it.

    FashionIQ's images exist as .png and .jpg, with and without category folders; CIRR's are in
    numbered folders. The folder is listed once, and images are looked up by id in this list, so
    no path that a browser sends is ever opened.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = Lock()
        self._listings: Mapping[Path, Listing] = {}
        self._files: Mapping[str, Path] = {}
        self._paths: Mapping[str, Path] = {}
        self.refresh()

    def find(self, name: str) -> Path | None:
        if (path := self._paths.get(name)) is not None:
            return path
        return next(filter(None, map(self._files.get, stems(name))), None)

    def refresh(self) -> bool:
        """List the folders whose files have been added, removed or renamed; whether any was."""
        with self._lock:
            listings = listings_below(self.root, self._listings)
            if listings == self._listings:
                return False
            self._listings = listings
            files = files_in(listings)
            start = len((self.root / "x").as_posix()) - 1
            self._paths = {path.as_posix()[start:]: path for path in files}
            self._files = {path.stem: path for path in files}
            return True

    def files(self) -> list[Path]:
        """All image files, sorted."""
        return files_in(self._listings)

    def names(self) -> list[str]:
        """Their paths below the folder."""
        return list(self._paths)

    def name_of(self, file: object) -> str:
        return str(Path(str(file)).relative_to(self.root))

    @property
    def n_readers(self) -> int:
        """How many threads read files at the same time."""
        return os.cpu_count() or 1

    def __len__(self) -> int:
        return len(self._files)


def image_files(root: Path) -> list[Path]:
    """The image files below a folder, sorted; of several with one name the last counts."""
    return files_in(listings_below(root, {}))


def files_in(listings: Mapping[Path, Listing]) -> list[Path]:
    return sorted(path for listing in listings.values() for path in listing.files)


def listings_below(root: Path, known: Mapping[Path, Listing]) -> dict[Path, Listing]:
    """A listing of the root and of every folder below it; known ones are kept while they hold."""
    listings: dict[Path, Listing] = {}
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            listings[folder] = current_listing(folder, known.get(folder))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        pending += listings[folder].folders
    return listings


def current_listing(folder: Path, known: Listing | None) -> Listing:
    modified_ns = folder.stat().st_mtime_ns  # before listing: what changes meanwhile has a new date
    if known is not None and known.modified_ns == modified_ns:
        return known
    is_settled = time.time_ns() - modified_ns > SETTLED_NS
    with os.scandir(folder) as scanned:
        entries = sorted(scanned, key=lambda entry: entry.name)
    return Listing(
        modified_ns if is_settled else None,
        tuple(Path(entry.path) for entry in entries if is_image_file(entry)),
        tuple(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)),
    )


def is_image_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is named as an image and is a regular file, or a link to one or to nothing yet.

    Reading anything else, such as a pipe, could wait forever.
    """
    if os.path.splitext(entry.name)[1].lower() not in SUFFIXES:  # noqa: PTH122 (no Path needed)
        return False
    return entry.is_file() or (entry.is_symlink() and not Path(entry.path).exists())


def stems(name: str) -> tuple[str, ...]:
    """The possible file names of the image with this id, without extension."""
    return (name, name.zfill(COCO_DIGITS)) if name.isdecimal() else (name,)


def usual_folder(folder: Path) -> Path | None:
    """The usual image folder within a dataset's folder, None if there is none."""
    names = ("images", "image_data", "img_raw", "cirr/img_raw", "COCO2017_unlabeled/unlabeled2017")
    named = next((folder / name for name in names if (folder / name).is_dir()), None)
    if named is None:
        return next(filter(has_cirr_layout, (folder, folder.absolute().parent)), None)
    return named


def has_cirr_layout(folder: Path) -> bool:
    """Whether CIRR's images are in train/, dev/ and test1/ beside cirr/, as CLIP4Cir has them."""
    has_images = any((folder / split).is_dir() for split in ("train", "dev", "test1"))
    return has_images and (folder / "cirr" / "captions").is_dir()


# The images of own data: files below a folder, named by their paths.
#
# An image's id is its path below the folder, with "/" and the extension: `shirts/red 1.jpg`. People
# also write it without the extension, without the folders, or both, where that names one file.

LONGEST_ID = 200


class UnknownName(ValueError):
    """A name that stands for no image or for several; `remedy` says what to write."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


class NamedImages(Protocol):
    """The images of a folder or of a store."""

    @property
    def root(self) -> object: ...
    def names(self) -> list[str]: ...


class OwnImages:
    """The ids of the images of a folder or of a store."""

    def __init__(self, images: NamedImages) -> None:
        self.root = images.root
        self._ids: tuple[defaultdict[str, list[str]], ...] = tuple(
            defaultdict(list) for _ in range(4)
        )
        self.names = images.names()
        self.n_images = len(self.names)
        for image in self.names:
            if is_storable_text(image):
                for ids, spelling in zip(self._ids, spellings(image), strict=True):
                    ids[spelling].append(image)

    def id_of(self, name: str) -> str:
        """The id of the image that a name stands for; `UnknownName` if there is not just one."""
        written = as_written(name)
        images = self.matches(name)
        if not images:
            if (other := self._others.get(written)) is not None:
                raise UnknownName(*other)
            what = f"no file below {self.root} is image {name!r}"
            raise UnknownName(what, self._remedy(written))
        if len(images) > 1:
            what = f"image {name!r} can be {first_few(images)}"
            raise UnknownName(what, "write its path and its extension")
        if len(images[0]) > LONGEST_ID:
            what = f"the path of image {name!r} has {len(images[0]):,} characters"
            raise UnknownName(what, f"shorten it to {LONGEST_ID}")
        return images[0]

    def matches(self, name: str) -> list[str]:
        """The ids of the images that a name may stand for."""
        written = as_written(name)
        return next((ids[written] for ids in self._ids if written in ids), [])

    def nearest(self, name: str) -> str | None:
        """The image whose name is most like one that stands for none; its numbers are the same."""
        key = plain_key(name)
        same_numbers = self._keys.get(numbers_in(key), {})
        if key in same_numbers:
            return same_numbers[key]
        near = get_close_matches(key, list(same_numbers)[:MOST_COMPARED], 1, LEAST_LIKENESS)
        return same_numbers[near[0]] if near else None

    @cached_property
    def _keys(self) -> dict[tuple[str, ...], dict[str, str]]:
        """The images by the numbers in their names, and by the names without punctuation."""
        keys: defaultdict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
        for spelling, images in self._ids[0].items():
            key = plain_key(spelling)
            keys[numbers_in(key)][key] = images[0]
        return keys

    @cached_property
    def _other_case(self) -> dict[str, str]:
        """An image for each way to write it, in lower case; the most exact ways count first."""
        return {
            spelling.casefold(): images[0]
            for ids in reversed(self._ids)
            for spelling, images in reversed(ids.items())
        }

    @cached_property
    def _others(self) -> dict[str, tuple[str, str]]:
        """What is wrong with the files and folders that are no images, and the remedy."""
        others: dict[str, tuple[str, str]] = {}
        if not isinstance(self.root, Path):
            return others
        start = len((self.root / "x").as_posix()) - 1
        for path in sorted(self.root.rglob("*")):
            image = path.as_posix()[start:]
            if plain(image) in self._ids[0]:
                continue
            if path.suffix.lower() in SUFFIXES:
                wrong = f"{path} is not a regular file", "put the image's file in its place"
            elif path.is_file():
                wrong = f"{path}: format not supported", "convert it to JPEG or PNG"
            else:
                continue
            others |= dict.fromkeys(spellings(image), wrong)
        return others

    def _remedy(self, written: str) -> str:
        """Name a file that differs only in upper and lower case."""
        image = self._other_case.get(written.casefold())
        return "write its path below that folder" if image is None else f"there is {image}"


MOST_COMPARED, LEAST_LIKENESS = 2_000, 0.75
"""How many names are compared with one that is wrong, and how like it another must be."""


def plain_key(name: str) -> str:
    """A name without folders, extension, punctuation and the zeros before numbers."""
    stem = PurePosixPath(as_written(name)).stem.casefold()
    return re.sub(r"0*(\d+)", r"\1", re.sub(r"[\W_]+", "", stem))


def numbers_in(key: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+", key))


def as_written(name: str) -> str:
    return plain(name.replace("\\", "/").removeprefix("./"))


def spellings(image: str) -> tuple[str, ...]:
    """The ways to write an image's id, the most exact first."""
    path = plain(image)
    stem = os.path.splitext(path)[0]  # noqa: PTH122 (Path is slow for 20,000 images)
    return path, stem, path.rpartition("/")[2], stem.rpartition("/")[2]


def plain(name: str) -> str:
    """The name in one of the two ways in which Unicode can write accents and Korean letters."""
    return unicodedata.normalize("NFC", name)
