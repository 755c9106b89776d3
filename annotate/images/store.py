"""The image folders of all datasets; each is listed once, and again when an image is missing."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.images.copies import ImageSize, WebCopies
from hsfiq.db.tables import Dataset
from hsfiq.images.faults import Fault
from hsfiq.images.folder import ImageFolder


class StoredImage(Protocol):
    """An image, or what is known of one."""

    @property
    def dataset_id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def token(self) -> str: ...


class ImageStore:
    """Finds images' copies; a missing or broken image is looked for again at each request."""

    def __init__(self, copies: WebCopies) -> None:
        self.copies = copies
        self._roots: dict[int, str | None] = {}
        self._folders: dict[str, ImageFolder] = {}
        self._lock = Lock()

    def file_of(
        self, session: Session, image: StoredImage, size: ImageSize = "thumbnail"
    ) -> Path | Fault:
        """The file to serve; a fault if the image's file is missing or cannot be displayed."""
        known = self._roots.get(image.dataset_id)
        copy = self.copy_of(known, image.name, size)
        if isinstance(copy, Fault):
            root = session.scalar(select(Dataset.image_root).where(Dataset.id == image.dataset_id))
            if root != known:
                self._roots[image.dataset_id] = root
                return self.copy_of(root, image.name, size)
        return copy

    def copy_of(self, root: str | None, name: str, size: ImageSize) -> Path | Fault:
        """The copy of an image in this folder, made if needed."""
        if root is None:
            return Fault("missing", "its dataset has no image folder")
        folder = self._folder(root)
        copy = self._copy_in(folder, name, size)
        if isinstance(copy, Fault) and folder.refresh():
            copy = self._copy_in(folder, name, size)
        return copy

    def _copy_in(self, folder: ImageFolder, name: str, size: ImageSize) -> Path | Fault:
        path = folder.find(name)
        if path is None:
            return Fault("missing", "no file has this name")
        return self.copies.of(path, size)

    def _folder(self, root: str) -> ImageFolder:
        with self._lock:
            if root not in self._folders:
                self._folders[root] = ImageFolder(Path(root))
            return self._folders[root]
