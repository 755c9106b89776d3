"""Decode image files of any state, or say why they cannot be decoded. Needs Pillow.

Annotators' images, contact sheets, `hsfiq images check` and the encoders all decode here, so the
same files are accepted by all of them.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from PIL import Image, ImageOps, UnidentifiedImageError

from hsfiq.images.faults import Fault

MAX_PIXELS = 89_478_485
"""The largest image that is accepted (256 MB as RGB): Pillow's own limit."""

_RIFF_HEADER_SIZE = 8


class UndecodableImage(Exception):
    """A file that cannot be decoded as an image; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.why)
        self.fault = fault


def decode(source: Path | bytes) -> Image.Image:
    """Decode an image, a file or its content, as stored: its EXIF orientation is not applied."""
    if isinstance(source, bytes):
        return _decode_stream(BytesIO(source))
    if not source.is_file():
        raise UndecodableImage(Fault("undecodable", "is not a file"))
    try:
        stream = source.open("rb")
    except OSError as error:
        raise UndecodableImage(
            Fault("undecodable", f"cannot be read ({error.strerror})")
        ) from error
    with stream:
        return _decode_stream(stream)


def _decode_stream(stream: BinaryIO) -> Image.Image:
    try:
        if not stream.read(1):
            raise UndecodableImage(Fault("empty", "has zero bytes"))
        stream.seek(0)
        with Image.open(stream) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError
            image.load()
            return image
    except UndecodableImage:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning, MemoryError) as error:
        fault = Fault("too-large", f"has more than {MAX_PIXELS:,} pixels or does not fit in memory")
        raise UndecodableImage(fault) from error
    except UnidentifiedImageError as error:
        raise UndecodableImage(Fault("undecodable", "is not a known image format")) from error
    except Exception as error:
        # Pillow's decoders raise many types for damaged files: struct.error, IndexError, ...
        is_truncated = "truncated" in str(error).lower() or _is_truncated_riff(stream)
        raise UndecodableImage(
            Fault(
                "truncated" if is_truncated else "undecodable",
                f"cannot be decoded ({_one_line(error)})",
            )
        ) from error


def upright(image: Image.Image) -> Image.Image:
    """Apply the EXIF orientation and convert to RGBA if there is transparency, else to RGB."""
    try:
        turned = ImageOps.exif_transpose(image)
        return turned.convert("RGBA" if turned.has_transparency_data else "RGB")
    except Exception as error:
        fault = Fault("undecodable", f"cannot be displayed ({_one_line(error)})")
        raise UndecodableImage(fault) from error


def on_white(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def find_fault(path: Path) -> Fault | None:
    """Decode a file completely and return what is wrong with it, None if it is usable."""
    try:
        image = decode(path)
    except UndecodableImage as error:
        return error.fault
    if image.size == (1, 1):
        return Fault("one-pixel", "has a single pixel: a shop's placeholder for a deleted image")
    return None


def _is_truncated_riff(stream: BinaryIO) -> bool:
    """Whether a WebP file is shorter than its header says, which its decoder does not report."""
    try:
        stream.seek(0)
        header = stream.read(_RIFF_HEADER_SIZE)
        size = stream.seek(0, 2)
    except (OSError, ValueError):
        return False
    return header[:4] == b"RIFF" and size < _RIFF_HEADER_SIZE + int.from_bytes(header[4:], "little")


def _one_line(error: Exception) -> str:
    strerror = getattr(error, "strerror", None)
    return " ".join(str(strerror or error).split()) or type(error).__name__
