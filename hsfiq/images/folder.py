"""Where an image's file lies: any extension, flat or in folders, or absent."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp"}

COCO_DIGITS = 12
"""COCO's files (CIRCO) are called by the image's number, padded with zeros to this length."""


class ImageFolder:
    """The image files below a folder, by image id (the name without extension).

    FashionIQ's images circulate as .png and .jpg, flat and in category folders; CIRR's lie in
    numbered folders. The folder is read once: an image is only ever found by its id in this
    list, never by a path that somebody sends.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files = {path.stem: path for path in image_files(root)}

    def find(self, name: str) -> Path | None:
        """The file of the image with this id, None where it is absent."""
        return next(filter(None, map(self._files.get, stems(name))), None)

    def __len__(self) -> int:
        return len(self._files)


def image_files(root: Path) -> list[Path]:
    """The image files below a folder, in the order in which the last of one name counts."""
    if not root.is_dir():
        return []
    return [path for path in sorted(root.rglob("*")) if path.suffix.lower() in SUFFIXES]


def stems(name: str) -> tuple[str, ...]:
    """What the file of the image with this id may be called, without extension."""
    return (name, name.zfill(COCO_DIGITS)) if name.isdecimal() else (name,)


def usual_folder(folder: Path) -> Path | None:
    """Where a dataset's folder mostly keeps its images, None where none of these is there."""
    names = ("images", "image_data", "img_raw", "cirr/img_raw")
    return next((folder / name for name in names if (folder / name).is_dir()), None)
