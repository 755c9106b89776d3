"""Image files of any state become pictures, or say in what way they are broken. Needs Pillow."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError

from hsfiq.images.check import Fault

MAX_PIXELS = 89_478_485
"""More than these (256 MB as RGB) and a picture is refused: Pillow's own bound."""

_RIFF_HEAD = 8


class BrokenPicture(Exception):
    """A file that gives no picture; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.why)
        self.fault = fault


def fault_of(path: Path) -> Fault | None:
    """What is wrong with an image file, after decoding all of it; None where it is whole."""
    try:
        picture = decoded(path)
    except BrokenPicture as error:
        return error.fault
    if picture.size == (1, 1):
        return Fault("one-pixel", "has a single pixel, as shops send for a picture that is gone")
    return None


def upright(path: Path) -> Image.Image:
    """An image file's picture as RGB: turned as its EXIF data says, on white where it is clear.

    Raises:
        BrokenPicture: it gives none.
    """
    picture = decoded(path)
    try:
        turned = ImageOps.exif_transpose(picture)
        if not turned.has_transparency_data:
            return turned.convert("RGB")
        clear = turned.convert("RGBA")
        white = Image.new("RGBA", clear.size, "white")
        return Image.alpha_composite(white, clear).convert("RGB")
    except Exception as error:
        raise BrokenPicture(Fault("undecodable", f"cannot be shown ({said(error)})")) from error


def decoded(path: Path) -> Image.Image:
    """An image file's picture as it is stored, all of it decoded.

    Raises:
        BrokenPicture: it gives none, whatever the bytes.
    """
    if not path.is_file():
        raise BrokenPicture(Fault("undecodable", "is no file"))
    try:
        if path.stat().st_size == 0:
            raise BrokenPicture(Fault("empty", "has zero bytes"))
        with Image.open(path) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise Image.DecompressionBombError
            picture.load()
            return picture
    except BrokenPicture:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning, MemoryError) as error:
        fault = Fault("too-large", f"has more than {MAX_PIXELS:,} pixels, or than memory holds")
        raise BrokenPicture(fault) from error
    except UnidentifiedImageError as error:
        fault = Fault("undecodable", "is no image of a known kind")
        raise BrokenPicture(fault) from error
    except Exception as error:
        # Pillow's readers raise whatever they stumble over: struct.error, IndexError, ...
        is_cut = "truncated" in str(error).lower() or is_cut_riff(path)
        fault = Fault(
            "truncated" if is_cut else "undecodable", f"cannot be decoded ({said(error)})"
        )
        raise BrokenPicture(fault) from error


def is_cut_riff(path: Path) -> bool:
    """Whether a WebP file is shorter than its head says, which its decoder does not tell."""
    try:
        with path.open("rb") as file:
            head = file.read(_RIFF_HEAD)
            size = path.stat().st_size
    except OSError:
        return False
    return head[:4] == b"RIFF" and size < _RIFF_HEAD + int.from_bytes(head[4:], "little")


def said(error: Exception) -> str:
    """An error of Pillow's in one line."""
    strerror = getattr(error, "strerror", None)
    return " ".join(str(strerror or error).split()) or type(error).__name__
