"""Reading image files in parallel and preprocessing them for the encoder.

An EXIF orientation is not applied, as in the published code (`PIL.Image.open` and nothing more), so
that tokens equal those of the papers.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.images.decode import UndecodableImage, decoded
from hsfiq.images.faults import FaultKind
from hsfiq.model.encoders.preprocessing import Preprocessing

REMEDIES: dict[FaultKind, str] = {"too-large": "make it smaller", "unreadable": "run this again"}


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
            raise UnreadableInput(str(path), "was changed just now", "run this again")
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
