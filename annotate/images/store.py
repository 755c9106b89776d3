"""The image folders of all datasets; each is listed once, and again when an image is missing."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.images.changes import FoundChanges
from hsfiq.annotate.images.copies import ImageSize, WebCopies
from hsfiq.db.tables import Dataset
from hsfiq.images.faults import Fault
from hsfiq.images.folder import ImageFolder


class ImageContent(Protocol):
    """An image's address, and the digest of its file, None if it is not recorded."""

    @property
    def token(self) -> str: ...
    @property
    def sha256(self) -> str | None: ...


class StoredImage(ImageContent, Protocol):
    """An image, or what is known of one."""

    @property
    def dataset_id(self) -> int: ...
    @property
    def name(self) -> str: ...


class ImageStore:
    """Finds images' copies; a missing or broken image is looked for again at each request.

    An image whose file no longer has the recorded bytes is not shown, and is kept in `changes`.
    """

    def __init__(self, copies: WebCopies) -> None:
        self.copies = copies
        self.changes = FoundChanges()
        self._roots: dict[int, str | None] = {}
        self._folders: dict[str, ImageFolder] = {}
        self._lock = Lock()

    def file_of(
        self, session: Session, image: StoredImage, size: ImageSize = "thumbnail"
    ) -> Path | Fault:
        """The file to serve; a fault if the image's file is missing or cannot be displayed."""
        known = self._roots.get(image.dataset_id)
        copy = self._copy_below(known, image, size)
        if isinstance(copy, Fault):
            root = session.scalar(select(Dataset.image_root).where(Dataset.id == image.dataset_id))
            if root != known:
                self._roots[image.dataset_id] = root
                return self._copy_below(root, image, size)
        return copy

    def source_of(self, image: StoredImage) -> Path | None:
        """The image's own file, where it was last looked for; None if there is none."""
        root = self._roots.get(image.dataset_id)
        return None if root is None else self._folder(root).find(image.name)

    def copy_of(self, source: Path, image: ImageContent, size: ImageSize) -> Path | Fault:
        """The copy of an image whose file is known, made if needed."""
        copy = self.copies.of(source, size, image.sha256)
        if isinstance(copy, Fault) and copy.kind == "changed":
            self.changes.add(image.token)
        return copy

    def _copy_below(self, root: str | None, image: StoredImage, size: ImageSize) -> Path | Fault:
        """The copy of an image in this folder, made if needed."""
        if root is None:
            return Fault("missing", "its dataset has no image folder")
        folder = self._folder(root)
        copy = self._copy_in(folder, image, size)
        if isinstance(copy, Fault) and folder.refresh():
            copy = self._copy_in(folder, image, size)
        return copy

    def _copy_in(self, folder: ImageFolder, image: StoredImage, size: ImageSize) -> Path | Fault:
        source = folder.find(image.name)
        if source is None:
            return Fault("missing", "no file has this name")
        return self.copy_of(source, image, size)

    def _folder(self, root: str) -> ImageFolder:
        with self._lock:
            if root not in self._folders:
                self._folders[root] = ImageFolder(Path(root))
            return self._folders[root]
