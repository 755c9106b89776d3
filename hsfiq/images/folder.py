"""Finding an image's file: any extension, in one folder or in subfolders."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp"}

COCO_DIGITS = 12
"""The names of COCO's files (CIRCO) are numbers, padded with zeros to this length."""


class ImageFolder:
    """The image files below a folder, by image id (the name without extension).

    FashionIQ's images exist as .png and .jpg, with and without category folders; CIRR's are in
    numbered folders. The folder is listed once, and images are looked up by id in this list, so
    no path that a browser sends is ever opened.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files = {path.stem: path for path in image_files(root)}

    def find(self, name: str) -> Path | None:
        return next(filter(None, map(self._files.get, stems(name))), None)

    def __len__(self) -> int:
        return len(self._files)


def image_files(root: Path) -> list[Path]:
    """The image files below a folder, sorted; of several with one name the last counts."""
    if not root.is_dir():
        return []
    return [path for path in sorted(root.rglob("*")) if path.suffix.lower() in SUFFIXES]


def stems(name: str) -> tuple[str, ...]:
    """The possible file names of the image with this id, without extension."""
    return (name, name.zfill(COCO_DIGITS)) if name.isdecimal() else (name,)


def usual_folder(folder: Path) -> Path | None:
    """The usual image folder within a dataset's folder, None if there is none."""
    names = ("images", "image_data", "img_raw", "cirr/img_raw")
    return next((folder / name for name in names if (folder / name).is_dir()), None)
