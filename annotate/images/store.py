"""The image folders of all datasets; each is listed once, and again when an image is missing."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.images.changes import FoundChanges
from hsfiq.annotate.images.copies import ImageSize, WebCopies
from hsfiq.collect.steps import ShownImage
from hsfiq.db import source_tables
from hsfiq.db.source_tables import Dataset
from hsfiq.images.folder import Fault, ImageFolder


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
    `known` are images that have been looked up, by token.
    """

    def __init__(self, copies: WebCopies) -> None:
        self.copies = copies
        self.changes = FoundChanges()
        self.known: dict[str, ShownImage] = {}
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
            root = self._find_root(session, image.dataset_id)
            if root != known:
                return self._copy_below(root, image, size)
        return copy

    def content_where_known(self, image: StoredImage, size: ImageSize) -> bytes | Fault:
        """What to send, where the dataset's folder was when it was last looked for.

        A copy that has been damaged is made again.
        """
        for _ in range(2):
            copy = self._copy_below(self._roots.get(image.dataset_id), image, size)
            if isinstance(copy, Fault):
                return copy
            content = self.copies.read(copy)
            if content is not None:
                return content
        return Fault("unreadable", "its copy cannot be read")

    def look_up(self, session: Session, token: str) -> ShownImage | None:
        """The image with this token, and its dataset's folder, as the database has them."""
        image = session.scalars(
            select(source_tables.Image).where(source_tables.Image.token == token)
        ).one_or_none()
        if image is None:
            return None
        self._find_root(session, image.dataset_id)
        self.known[token] = ShownImage(image.dataset_id, image.name, token, image.sha256)
        return self.known[token]

    def digest_of(self, session: Session, image: StoredImage) -> str | None:
        """The digest of an image's content: the recorded one, otherwise that of its file."""
        if image.sha256 is None and image.dataset_id not in self._roots:
            self._find_root(session, image.dataset_id)
        return self.digest_where_known(image)

    def digest_where_known(self, image: StoredImage) -> str | None:
        """As `digest_of`, where the dataset's folder was when it was last looked for."""
        if image.sha256 is not None:
            return image.sha256
        source = self.source_of(image)
        digest = None if source is None else self.copies.digest_of(source)
        return None if isinstance(digest, Fault) else digest

    def source_of(self, image: StoredImage) -> Path | None:
        """The image's own file, where it was last looked for; None if there is none."""
        root = self._roots.get(image.dataset_id)
        return None if root is None else self._folder(root).find(image.name)

    def copy_of(self, source: Path, image: ImageContent, size: ImageSize) -> Path | Fault:
        """The copy of an image whose file is known, made if needed."""
        copy = self.copies.of(source, size, image.sha256)
        if isinstance(copy, Fault) and copy.kind == "changed" and image.sha256 is not None:
            self.changes.add(image.token)
        return copy

    def _find_root(self, session: Session, dataset_id: int) -> str | None:
        """Where a dataset's folder is, as the database says now."""
        root = session.scalar(select(Dataset.image_root).where(Dataset.id == dataset_id))
        self._roots[dataset_id] = root
        return root

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
