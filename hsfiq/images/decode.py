"""Decoding image files of any state, within limits, or saying why they cannot be. Needs Pillow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from threading import Condition, Lock
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from hsfiq.images.folder import Fault
from hsfiq.images.store import Original

# A limit on the pixels that are in memory at the same time, whatever the number of threads.

MAX_PIXELS = 8192 * 8192
"""The largest image that is accepted: 256 MiB in memory, because Pillow pads RGB to four bytes."""


class PixelBudget:
    """Threads reserve the pixels of an image before they decode it, and wait while there are none.

    First come, first served: many small images never keep a large one waiting.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._reserved = 0
        self._queue = Lock()
        self._released = Condition()

    @contextmanager
    def reserved(self, pixels: int) -> Iterator[None]:
        """Reserve at most `limit` pixels until the block ends. Blocks must not be nested."""
        with self._queue, self._released:
            self._released.wait_for(lambda: self._reserved + pixels <= self.limit)
            self._reserved += pixels
        try:
            yield
        finally:
            with self._released:
                self._reserved -= pixels
                self._released.notify()


BUDGET = PixelBudget(MAX_PIXELS)
"""Of this process: one image of the largest size, or as many smaller ones as fit."""


Image.init()
FORMATS = tuple(
    name
    for name in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
    if name in Image.OPEN  # AVIF needs Pillow 11.3
)
"""What is recognized, by content. Others of Pillow's formats start programs or set no limits."""

MAX_SIDE = 65_535
"""Pixels of a side, as in JPEG. Pillow needs memory for each row, even if the row is short."""

MAX_SCANS = 100
"""Scans of a progressive JPEG: each scan decodes all pixels again. libjpeg writes 10 by default."""
_SCAN = b"\xff\xda"
_TILE_WIDTH, _TILE_HEIGHT = 322, 323

_BLOCK_SIZE = 64 * 1024 * 1024
Image.core.set_block_size(_BLOCK_SIZE)  # type: ignore[attr-defined]
"""Pillow's unit of memory. Of smaller ones (16 MiB by default), glibc keeps many after they are
freed, separately for each thread, so that a server's memory would grow to gigabytes."""

_RIFF_HEADER_SIZE = 8

_FTYP_HEADER_SIZE = 12
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


class UndecodableImage(Exception):
    """A file that cannot be decoded as an image; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.why)
        self.fault = fault


@contextmanager
def decoded(
    source: Original | bytes, at_least: int | None = None, max_pixels: int = MAX_PIXELS
) -> Iterator[Image.Image]:
    """Decode an image, a file or its content; of an animation, the first picture.

    It is as stored, without its EXIF orientation applied, but 16-bit grey becomes 8-bit. Other
    threads may wait for its memory, so keep the block short and decode nothing else in it.

    Args:
        source: the file, the object of a store, or the content.
        at_least: the size that is needed; a JPEG with longer sides may be decoded at a half, a
            quarter or an eighth of its size.
        max_pixels: of a larger image, only the header is read.

    Raises:
        UndecodableImage: the image is broken or too large.
    """
    with _opened(source) as stream:
        with _refusals(stream):
            if not stream.read(1):
                raise UndecodableImage(Fault("empty", "has zero bytes"))
            stream.seek(0)
            opened = Image.open(stream, formats=FORMATS)
            pixels = _pixels_to_decode(opened)
            if fault := _excess(opened, pixels, max_pixels, stream):
                raise UndecodableImage(fault)
            if at_least is not None:
                opened.draft(None, (at_least, at_least))
        with BUDGET.reserved(pixels):
            with _refusals(stream):
                opened.load()
                image = _eight_bits(opened)
            yield image


def _pixels_to_decode(opened: Image.Image) -> int:
    """The pixels that decoding needs at once; a TIFF file's tile may be larger than the image."""
    pixels = opened.width * opened.height
    if isinstance(opened, TiffImageFile):
        tile = [opened.tag_v2.get(tag, 0) for tag in (_TILE_WIDTH, _TILE_HEIGHT)]
        pixels = max(pixels, tile[0] * tile[1])
    return pixels


def _excess(image: Image.Image, pixels: int, max_pixels: int, stream: BinaryIO) -> Fault | None:
    """Why decoding would take too much memory or time."""
    if pixels > max_pixels:
        return too_large(max_pixels)
    if max(image.size) > MAX_SIDE:
        return Fault("too-large", f"has more than {MAX_SIDE:,} pixels on a side")
    if image.info.get("progressive") and _has_many_scans(stream):
        return Fault("too-large", f"has more than {MAX_SCANS} scans (save it as a baseline JPEG)")
    return None


def _has_many_scans(stream: BinaryIO) -> bool:
    """Count the marker of a scan, which the compressed pixels of a JPEG cannot contain."""
    place = stream.tell()
    stream.seek(0)
    n_scans = stream.read().count(_SCAN)
    stream.seek(place)
    return n_scans > MAX_SCANS


def too_large(max_pixels: int) -> Fault:
    return Fault("too-large", f"has more than {max_pixels:,} pixels")


def header_fault(path: Original) -> Fault | None:
    """What the first bytes of a file show to be wrong; `decoded` also finds damage after them."""
    try:
        with _opened(path) as stream, _refusals(stream):
            Image.open(stream, formats=FORMATS)
    except UndecodableImage as error:
        return error.fault
    return None


@contextmanager
def _opened(source: Original | bytes) -> Iterator[BinaryIO]:
    if not isinstance(source, Path):
        try:
            content = source if isinstance(source, bytes) else source.read_bytes()
        except OSError as error:
            raise UndecodableImage(_unreadable(error)) from error
        yield BytesIO(content)
        return
    if not source.is_file():
        raise UndecodableImage(Fault("undecodable", "is not a file"))
    try:
        stream = source.open("rb")
    except OSError as error:
        raise UndecodableImage(_unreadable(error)) from error
    with stream:
        yield stream


@contextmanager
def _refusals(stream: BinaryIO) -> Iterator[None]:
    """Turn whatever Pillow raises in this block into `UndecodableImage`."""
    try:
        yield
    except UndecodableImage:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UndecodableImage(too_large(MAX_PIXELS)) from error
    except MemoryError as error:
        raise UndecodableImage(Fault("unreadable", "does not fit into the free memory")) from error
    except UnidentifiedImageError as error:
        raise UndecodableImage(_unknown_format(stream)) from error
    except Exception as error:
        # Pillow's decoders raise many types for damaged files: struct.error, IndexError, ...
        if isinstance(error, OSError) and error.errno is not None:
            raise UndecodableImage(_unreadable(error)) from error
        is_truncated = "truncated" in str(error).lower() or _is_truncated_riff(stream)
        raise UndecodableImage(
            Fault(
                "truncated" if is_truncated else "undecodable",
                f"cannot be decoded ({one_line(error)})",
            )
        ) from error


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit grey to 8 bits; Pillow's own conversion makes all but the darkest 255 white."""
    if image.mode in ("I", "F"):
        raise UndecodableImage(Fault("undecodable", "has 32-bit pixels, whose range is not known"))
    if not image.mode.startswith("I;16"):
        return image
    wide = image.convert("I")
    grey = wide.point(_grey_of_16_bits(), "L")
    transparent = image.info.get("transparency")  # the one shade that is transparent
    if transparent is not None:
        alpha = [255] * 65536
        alpha[transparent] = 0
        grey.putalpha(wide.point(alpha, "L"))
        del grey.info["transparency"]
    grey.format = image.format
    return grey


@cache
def _grey_of_16_bits() -> list[int]:
    return [round(value / 257) for value in range(65536)]


def _is_truncated_riff(stream: BinaryIO) -> bool:
    """Whether a WebP file is shorter than its header says, which its decoder does not report."""
    try:
        stream.seek(0)
        header = stream.read(_RIFF_HEADER_SIZE)
        size = stream.seek(0, 2)
    except (OSError, ValueError):
        return False
    return header[:4] == b"RIFF" and size < _RIFF_HEADER_SIZE + int.from_bytes(header[4:], "little")


def _unknown_format(stream: BinaryIO) -> Fault:
    """Names the format of many phones, whose files are often renamed to .jpg."""
    stream.seek(0)
    header = stream.read(_FTYP_HEADER_SIZE)
    if header[4:8] == b"ftyp" and header[8:] in _HEIC_BRANDS:
        return Fault(
            "undecodable", "is a HEIC image: format not supported (convert it to JPEG or PNG)"
        )
    return Fault("undecodable", "is not a known image format")


def _unreadable(error: OSError) -> Fault:
    return Fault("unreadable", f"cannot be read ({error.strerror})")


def one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
