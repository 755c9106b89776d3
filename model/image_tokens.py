"""The sources of an image's tokens: the cache, the encoder at each call, or the memory."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from PIL import Image
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.images.decode import UndecodableImage, decoded
from hsfiq.images.folder import FaultKind
from hsfiq.model.encoders.encoder import FrozenEncoder, Preprocessing
from hsfiq.model.token_files import ContentMemo, Layout, TokenFiles

# Reading image files in parallel and preprocessing them for the encoder.
#
# An EXIF orientation is not applied, as in the published code (`PIL.Image.open` and nothing more),
# so that tokens equal those of the papers.

REMEDIES: dict[FaultKind, str] = {
    "too-large": "reduce its size",
    "unreadable": "run the command again",
}


@contextmanager
def open_image(path: Path) -> Iterator[Image.Image]:
    """Open and fully decode an image file; UnreadableInput if it is absent, broken or too large."""
    with _decoded(_bytes_of(path), path) as image:
        yield image


@dataclass(frozen=True, slots=True)
class Prepared:
    """A preprocessed image: its pixels, or the reason, in one line, why there are none."""

    path: Path
    sha256: str
    pixels: Tensor | None  # [3, size, size]
    reason: str = ""


def prepare_all(
    files: Iterable[tuple[str, Path]], preprocessing: Preprocessing, *, workers: int, ahead: int
) -> Generator[Prepared, None, None]:
    """Read, decode and preprocess files in parallel, in order.

    Args:
        files: with the sha256 of their content; a file that no longer has it counts as unreadable.
        workers: threads; Pillow decodes and resizes without holding Python's global lock.
        ahead: the most images in progress or waiting, which bounds memory.
    """
    with ThreadPoolExecutor(workers) as pool:
        pending: deque[Future[Prepared]] = deque()
        try:
            for sha256, path in files:
                if len(pending) >= ahead:
                    yield pending.popleft().result()
                pending.append(pool.submit(_prepare, sha256, path, preprocessing))
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _prepare(sha256: str, path: Path, preprocessing: Preprocessing) -> Prepared:
    try:
        data = _bytes_of(path)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise UnreadableInput(str(path), "has just changed", "run the command again")
        with _decoded(data, path) as image:
            return Prepared(path, sha256, preprocessing(image))
    except UnreadableInput as error:
        return Prepared(path, sha256, None, str(error))


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableInput(str(path), f"cannot be read ({error.strerror})") from error


@contextmanager
def _decoded(data: bytes, path: Path) -> Iterator[Image.Image]:
    try:
        with decoded(data) as image:
            yield image
    except UndecodableImage as error:
        remedy = REMEDIES.get(error.fault.kind, "replace it with a complete image")
        raise UnreadableInput(str(path), error.fault.why, remedy) from error


# The feature cache: the tokens of every image, computed once and kept.
#
# A frozen encoder always gives an image the same tokens. For FashionIQ's 74,381 images and ViT-L,
# 257 x 1024 numbers each, they take 39 GB in fp16: a file that is mapped into memory and only
# appended to (`hsfiq.model.token_files`).

TOKENS_DTYPE = torch.float16
"""The dtype that tokens are stored in: the published code's image encoder computes in it."""

ENCODER_BATCH = 32
"""Images encoded at once."""

Item = TypeVar("Item")
Store = Callable[[Sequence[str], Tensor], None]
"""Stores rows [B, P, W] of B contents (sha256)."""


def default_root() -> Path:
    """`$HSFIQ_CACHE`, else `~/.cache/hsfiq/features`."""
    named = os.environ.get("HSFIQ_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "hsfiq" / "features"


@dataclass(frozen=True, slots=True)
class CacheReport:
    """The result of filling; the three counts and `unreadable` add up to the images."""

    n_computed: int
    n_found: int
    """Images whose content had its tokens already."""
    n_shared: int
    """Images with the same content as one computed now."""
    unreadable: dict[str, str]
    """The reason, in one line, by image id."""


class FeatureCache:
    """The tokens of images for one encoder, its preprocessing and a dtype.

    Tokens are stored by content: the same picture under two ids is stored once, and a changed file
    is another picture. An id refers to the content that the last `fill` found under it.
    """

    def __init__(self, files: TokenFiles, encoder: FrozenEncoder, memo: ContentMemo) -> None:
        self._files = files
        self._encoder = encoder
        self._memo = memo
        self._row_of: dict[str, int] = {}

    @classmethod
    def open(
        cls, root: Path, encoder: FrozenEncoder, dtype: torch.dtype = TOKENS_DTYPE
    ) -> FeatureCache:
        """Open the cache below `root`, which need not exist; only `fill` writes.

        UnreadableInput if the files are truncated, or not of this cache.
        """
        layout = Layout.of(encoder, dtype)
        files = TokenFiles(root / layout.key, layout)
        return cls(files, encoder, ContentMemo(root / "contents.sqlite3"))

    @property
    def folder(self) -> Path:
        return self._files.folder

    def fill(
        self,
        images: Mapping[str, Path],
        *,
        device: torch.device,
        batch: int = ENCODER_BATCH,
        workers: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        rank: int = 0,
        processes: int = 1,
    ) -> CacheReport:
        """Compute the tokens that are missing; afterwards `tokens` knows these images.

        While another process fills the same cache, this waits and then uses its rows. After a kill
        at any time, the next process computes only what is still missing.

        Several processes that call this together share the work, without messages: each begins at
        another place of the list, goes round it, and leaves out what others have stored meanwhile.

        Args:
            workers: threads that read, decode and preprocess; one for each CPU if None.
            on_progress: called after every batch with the number of contents done and to do.

        Raises:
            UnreadableInput: the disk has no room for the missing tokens (then nothing is written),
                the folder cannot be written, or tokens do not fit the dtype.
        """
        workers = workers or os.cpu_count() or 1
        contents = self._memo.read(images, workers=workers)
        paths = {content: images[image_id] for image_id, content in contents.sha256.items()}
        self._files.refresh()
        self._check_room(len(self._missing(paths)))
        self._memo.remember(contents)
        broken: dict[str, str] = {}
        known = set(self._files.row_of)
        with self._encoder_on(device):
            if self._missing(paths):
                with self._storing(alone=processes == 1) as store:
                    known = set(self._files.row_of)
                    to_do = rotated(list(self._missing(paths).items()), rank, processes)
                    for done, failed in self._compute(store, to_do, batch, device, workers):
                        broken |= failed
                        if on_progress is not None:
                            on_progress(done, len(to_do))
        unreadable = contents.unreadable | self._assign_rows(contents.sha256, images, broken)
        n_found = sum(content in known for content in contents.sha256.values())
        n_computed = sum(c in self._files.row_of and c not in known for c in paths)
        n_shared = len(images) - len(unreadable) - n_found - n_computed
        return CacheReport(n_computed, n_found, n_shared, unreadable)

    def tokens(self, image_ids: Sequence[str]) -> Tensor:
        """Copy images' tokens, in any order and with repetitions: [B, P, W] in the stored dtype.

        UnreadableInput if the last `fill` with this image found no tokens for it, or none had it.
        """
        return self._files.read([self._row(image_id) for image_id in image_ids])

    def _row(self, image_id: str) -> int:
        row = self._row_of.get(image_id)
        if row is None:
            raise UnreadableInput(
                f"image {image_id}",
                "has no tokens",
                "check that its file exists and is a complete image",
            )
        return row

    def _missing(self, paths: Mapping[str, Path]) -> dict[str, Path]:
        return {
            content: path for content, path in paths.items() if content not in self._files.row_of
        }

    def _check_room(self, n_rows: int) -> None:
        existing = next(folder for folder in self.folder.parents if folder.is_dir())
        needed, free = self._files.bytes_needed(n_rows), shutil.disk_usage(existing).free
        if n_rows and needed > free:
            raise UnreadableInput(
                str(self.folder),
                f"the tokens of {n_rows:,} images take {needed / 1e9:,.1f} GB, and"
                f" {free / 1e9:,.1f} GB are free",
                "free disk space or name another folder",
            )

    @contextmanager
    def _encoder_on(self, device: torch.device) -> Iterator[None]:
        """Move the image encoder to the device; afterwards it leaves the memory to others."""
        modules = self._encoder.image_modules()
        for module in modules:
            module.to(device)
        try:
            yield
        finally:
            for module in modules:
                module.to("cpu")

    @contextmanager
    def _storing(self, *, alone: bool) -> Iterator[Store]:
        """What stores rows; alone, no other process stores any until the block ends."""
        if not alone:
            yield self._store_new
            return
        with self._files.appending() as appender:
            yield appender.append

    def _store_new(self, contents: Sequence[str], tokens: Tensor) -> None:
        """Store the rows that no other process has stored meanwhile."""
        with self._files.appending() as appender:
            new = [row for row, each in enumerate(contents) if each not in self._files.row_of]
            appender.append([contents[row] for row in new], tokens[new])

    def _compute(
        self,
        store: Store,
        paths: Sequence[tuple[str, Path]],
        batch: int,
        device: torch.device,
        workers: int,
    ) -> Iterator[tuple[int, dict[str, str]]]:
        """Compute and store rows; yields after each batch the number done, and who failed why."""
        done = 0

        def missing() -> Iterator[tuple[str, Path]]:
            nonlocal done
            for content, path in paths:
                if content in self._files.row_of:  # another process has stored it meanwhile
                    done += 1
                else:
                    yield content, path

        prepared = prepare_all(
            missing(), self._encoder.preprocessing, workers=workers, ahead=2 * batch + workers
        )
        with closing(prepared):
            while images := list(islice(prepared, batch)):
                readable = [image for image in images if image.pixels is not None]
                if readable:
                    tokens = self._encode(readable, device)
                    store([image.sha256 for image in readable], tokens)
                done += len(images)
                yield done, {image.sha256: image.reason for image in images if image.reason}

    def _encode(self, images: Sequence[Prepared], device: torch.device) -> Tensor:
        """Encode images: [B, P, W] in the stored dtype, on `device`."""
        layout = self._files.layout
        pixels = torch.stack([image.pixels for image in images if image.pixels is not None])
        with torch.inference_mode():
            exact = self._encoder.image_tokens(pixels.to(device))  # [B, P, W]
            stored = exact.to(layout.dtype)
            # Checking the largest alone is several times faster than checking all.
            flat = exact.flatten(1)  # [B, P * W]
            largest = torch.maximum(flat.amax(dim=1), -flat.amin(dim=1))  # [B], NaN stays NaN
            fits = torch.isfinite(largest.to(layout.dtype)).tolist()
        if stored.shape != (len(images), *layout.shape):
            raise ValueError(f"the encoder gives {list(stored.shape)}, not {list(layout.shape)}")
        for image, peak, fit in zip(images, largest.tolist(), fits, strict=True):
            if not fit and math.isfinite(peak):
                raise UnreadableInput(
                    str(image.path), "its tokens are too large for fp16", "store them as bf16"
                )
            if not fit:
                raise UnreadableInput(
                    str(image.path),
                    f"{layout.encoder} gives tokens that are NaN or infinite",
                    "check the encoder's weights and precision",
                )
        return stored

    def _assign_rows(
        self, contents: Mapping[str, str], images: Mapping[str, Path], broken: Mapping[str, str]
    ) -> dict[str, str]:
        """Assign to each id the row of its content; returns why some have none."""
        unreadable = {}
        for image_id in images:
            self._row_of.pop(image_id, None)
        for image_id, content in contents.items():
            row = self._files.row_of.get(content)
            if row is not None:
                self._row_of[image_id] = row
                continue
            path, reason = str(images[image_id]), broken[content]
            unreadable[image_id] = (
                reason if reason.startswith(f"{path}: ") else f"{path}: holds the same as {reason}"
            )
        return unreadable


def rotated(items: Sequence[Item], rank: int, processes: int) -> list[Item]:
    """The items from the place on where the process of this rank begins."""
    start = rank * len(items) // processes
    return [*items[start:], *items[:start]]


# The sources of an image's tokens: the cache, the encoder each time, or the memory.


class TokenSource(Protocol):
    """Gives images' tokens: a filled `FeatureCache`, or a class below."""

    def tokens(self, image_ids: Sequence[str]) -> Tensor:
        """Images' tokens [B, P, W] without gradients; UnreadableInput if an image has none."""
        ...


class MoreTokens:
    """A source's tokens, and those of further images, which are held in memory."""

    def __init__(self, source: TokenSource, more: Mapping[str, Tensor]) -> None:
        """`more` are the tokens [P, W] of images that the source does not have, on the CPU."""
        self._source = source
        self._more = more

    def tokens(self, image_ids: Sequence[str]) -> Tensor:
        rows = [
            self._more[image_id] if image_id in self._more else self._source.tokens([image_id])[0]
            for image_id in image_ids
        ]
        return torch.stack(rows)  # [B, P, W]


class EncodedTokens:
    """Tokens computed from the image files at every call: the slow reference for the cache.

    Encoders may round differently in batches of other sizes, so the two agree to the bit if the
    batches do, or if the encoder's results do not depend on them.
    """

    def __init__(
        self,
        encoder: FrozenEncoder,
        images: Mapping[str, Path],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Encode these files, by image id, with an encoder on `device`; round tokens to `dtype`."""
        self._encoder = encoder
        self._images = images
        self._dtype = dtype
        self._device = device

    def tokens(self, image_ids: Sequence[str]) -> Tensor:
        """Open, preprocess and encode: [B, P, W] in `dtype`, on `device`."""
        distinct = list(dict.fromkeys(image_ids))  # a batch names many images several times
        with ThreadPoolExecutor(thread_name_prefix="decode") as decoders:
            prepared = dict(zip(distinct, decoders.map(self._pixels, distinct), strict=True))
        pixels = torch.stack([prepared[image_id] for image_id in image_ids])  # [B, 3, size, size]
        with torch.no_grad():
            return self._encoder.image_tokens(pixels.to(self._device)).to(self._dtype)

    def _pixels(self, image_id: str) -> Tensor:
        path = self._images.get(image_id)
        if path is None:
            raise UnreadableInput(
                f"image {image_id}", "has no tokens", "check that its file exists"
            )
        with open_image(path) as image:
            return self._encoder.preprocessing(image)  # [3, size, size]
