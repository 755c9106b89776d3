"""Image files become pictures, or one line that says why not.

A picture is taken as its file stores it: an EXIF orientation is left alone, as the published code
does (`PIL.Image.open` and nothing more), so that tokens are those of the papers.
"""

from __future__ import annotations

import hashlib
import io
from collections import deque
from collections.abc import Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, UnidentifiedImageError
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.preprocessing import Preprocessing

MAX_PIXELS = 89_478_485
"""More than these (256 MB as RGB) and a picture is refused: Pillow's own bound."""


def open_image(path: Path) -> Image.Image:
    """Open and fully decode an image file.

    Raises:
        UnreadableInput: the file is absent, empty, truncated, corrupt, no image, or a picture of
            more than `MAX_PIXELS`.
    """
    return decode(_bytes_of(path), path)


def decode(data: bytes, path: Path) -> Image.Image:
    """Decode an image file's bytes; `path` is where an error says they lay.

    Raises:
        UnreadableInput: as `open_image`, whatever the bytes.
    """
    if not data:
        raise _broken(path, "is empty")
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError
            image.load()
            return image
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadableInput(
            str(path), f"has more than {MAX_PIXELS:,} pixels", "make it smaller"
        ) from error
    except UnidentifiedImageError as error:
        raise _broken(path, "is no image of a known kind") from error
    except Exception as error:
        # Pillow's readers raise whatever they stumble over: struct.error, IndexError, ...
        said = " ".join(str(error).split()) or type(error).__name__
        raise _broken(path, f"cannot be decoded ({said})") from error


@dataclass(frozen=True, slots=True)
class Prepared:
    """An image on its way to the encoder."""

    path: Path
    sha256: str
    """Of the content it was expected to have."""
    pixels: Tensor | None
    """[3, size, size], None where the file is unreadable."""
    reason: str = ""
    """Why it is unreadable, in one line."""


def prepare_all(
    files: Mapping[str, Path], preprocessing: Preprocessing, *, workers: int, ahead: int
) -> Generator[Prepared, None, None]:
    """Read, decode and preprocess files in parallel, in order.

    Args:
        files: where each content lies, by its sha256. A file that no longer has this content
            comes out as unreadable.
        preprocessing: makes pixels of a picture.
        workers: threads; Pillow decodes and resizes without holding Python's lock.
        ahead: how many images are in the making or wait to be taken, at most: it bounds memory.
    """
    with ThreadPoolExecutor(workers) as pool:
        pending: deque[Future[Prepared]] = deque()
        try:
            for sha256, path in files.items():
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
        return Prepared(path, sha256, preprocessing(decode(data, path)))
    except UnreadableInput as error:
        return Prepared(path, sha256, None, str(error))


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableInput(str(path), f"cannot be read ({error.strerror})") from error


def _broken(path: Path, what: str) -> UnreadableInput:
    return UnreadableInput(str(path), what, "replace it with a whole image")
