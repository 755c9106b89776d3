"""The images of own data: files below a folder, named by their paths.

An image's id is its path below the folder, with "/" and the extension: `shirts/red 1.jpg`. People
also write it without the extension, without the folders, or both, where that names one file.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from functools import cached_property
from pathlib import Path, PurePosixPath

from hsfiq.images.folder import SUFFIXES, image_files
from hsfiq.text import first_few, is_storable_text

LONGEST_ID = 200


class UnknownName(ValueError):
    """A name that stands for no image or for several; `remedy` says what to write."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


class OwnImages:
    """The ids of the image files below a folder, which is listed once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._ids: tuple[defaultdict[str, list[str]], ...] = tuple(
            defaultdict(list) for _ in range(4)
        )
        for path in image_files(root):
            image = path.relative_to(root).as_posix()
            if is_storable_text(image):
                for ids, spelling in zip(self._ids, spellings(image), strict=True):
                    ids[spelling].append(image)

    def id_of(self, name: str) -> str:
        """The id of the image that a name stands for; `UnknownName` if there is not just one."""
        written = plain(name.replace("\\", "/").removeprefix("./"))
        images = next((ids[written] for ids in self._ids if written in ids), [])
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

    @cached_property
    def _others(self) -> dict[str, tuple[str, str]]:
        """What is wrong with the files and folders that are no images, and the remedy."""
        others: dict[str, tuple[str, str]] = {}
        for path in sorted(self.root.rglob("*")):
            image = path.relative_to(self.root).as_posix()
            if path.suffix.lower() in SUFFIXES:
                wrong = f"{path} is not a regular file", "put the image's file in its place"
            elif path.is_file():
                wrong = f"{path}: format not supported", "convert it to JPEG or PNG"
            else:
                continue
            if plain(image) not in self._ids[0]:
                others |= dict.fromkeys(spellings(image), wrong)
        return others

    def _remedy(self, written: str) -> str:
        """Name a file that differs only in upper and lower case."""
        for ids in self._ids:
            for spelling, images in ids.items():
                if spelling.casefold() == written.casefold():
                    return f"there is {images[0]}"
        return "write its path below that folder"


def spellings(image: str) -> tuple[str, ...]:
    """The ways to write an image's id, the most exact first."""
    path = PurePosixPath(plain(image))
    return str(path), str(path.with_suffix("")), path.name, path.stem


def plain(name: str) -> str:
    """The name in one of the two ways in which Unicode can write accents and Korean letters."""
    return unicodedata.normalize("NFC", name)
