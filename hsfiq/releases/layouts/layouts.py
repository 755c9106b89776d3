"""The layouts that `--layout` adds to a release, made of the tables in its folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.releases.layouts.csv_files import write_csv
from hsfiq.releases.layouts.packed_images import Pictures, write_images
from hsfiq.releases.layouts.trl import write_trl
from hsfiq.releases.layouts.webdataset import write_webdataset
from hsfiq.study.publication import LeftOut, Publication

# What an export adds to a release's tables, or leaves out of them, because its owner says so.

Layout = Literal["hpfiq", "trl", "csv", "webdataset"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)


@dataclass(frozen=True, slots=True)
class Extras:
    """The options of an export that concern its files.

    Attributes:
        layouts: further files, made of the tables.
        images: whether the image files are packed.
        without: the omitted data: the texts that participants wrote (reasons, and answers to
        free-text questions), or the answers to questions at the end.
        publication: in place of the study's `[release]`.
    """

    layouts: tuple[Layout, ...] = ()
    images: bool = False
    without: tuple[LeftOut, ...] = ()
    publication: Publication | None = None


PATTERNS: dict[Layout, str] = {
    "hpfiq": "hpfiq.json",
    "trl": "trl*.parquet",
    "csv": "*.csv",
    "webdataset": "webdataset*.tar",
}
"""The files of each layout."""
OF_PAIRS: tuple[Layout, ...] = ("hpfiq", "trl", "webdataset")


def require_extras(extras: Extras, kind: str, licence: str) -> None:
    """Raise `UnreadableInput` for options that the release does not support."""
    for name in extras.layouts:
        if name == "hpfiq" and kind != "hp":
            raise UnreadableInput("--layout hpfiq", f"is for hp, not for {kind}", "--release hp")
        if name in OF_PAIRS and kind not in ("hs", "hp"):
            what = f"needs preferences between two sets, which {kind} releases do not contain"
            raise UnreadableInput(f"--layout {name}", what, "use csv, or the Parquet files")
    if "webdataset" in extras.layouts and not extras.images:
        raise UnreadableInput(
            "--layout webdataset", "needs the image files", "add --with-images to publish them"
        )
    if extras.images and not licence:
        raise UnreadableInput(
            "--with-images",
            "publishes image files, but the release has no license",
            "name the license in [release] of study.toml, or of the file of --about",
        )


def write_layouts(
    folder: Path, tables: Collection[str], extras: Extras, pictures: Pictures | None
) -> list[str]:
    """Write the layouts to a folder with tables; return notes on omissions.

    Raises:
        NothingToDo: hpfiq.json was asked for, and the folder has none (the notes say why).
    """
    if "hpfiq" in extras.layouts and not (folder / "hpfiq.json").is_file():
        raise NothingToDo("the answers cannot be written in this layout", where="--layout hpfiq")
    notes: list[str] = []
    if "csv" in extras.layouts:
        write_csv(folder, tables)
    if "trl" in extras.layouts:
        notes += write_trl(folder, pictures)
    if pictures is not None:
        notes += absent_images(write_images(folder, pictures))
        if "webdataset" in extras.layouts:
            notes += write_webdataset(folder, pictures)
    return notes


def layout_files(folder: Path, layouts: Collection[Layout]) -> dict[str, list[str]]:
    """The names of the files of each layout."""
    return {
        name: sorted(path.name for path in folder.glob(pattern))
        for name, pattern in PATTERNS.items()
        if name in layouts
    }


def absent_images(n_absent: int) -> Iterable[str]:
    if n_absent:
        yield f"{n_absent:,} images are absent or cannot be decoded; they are null in `images`"
