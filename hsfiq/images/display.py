"""An image as people see it, on annotators' pages and on contact sheets. Needs Pillow."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Final

from PIL import Image, ImageCms, ImageOps
from PIL.Image import Resampling

from hsfiq.images.decode import UndecodableImage, decoded, one_line
from hsfiq.images.folder import Fault
from hsfiq.images.store import Original

GROUND: Final = (217, 217, 217)
"""Behind transparent parts, in light and dark mode alike: white and black garments both show."""


def displayable(image: Image.Image) -> Image.Image:
    """Return the image upright, in sRGB and on `GROUND`, in mode RGB; the argument may change.

    Raises:
        UndecodableImage: the image is a placeholder of one pixel, or cannot be converted.
    """
    if image.size == (1, 1):
        why = "has a single pixel: a shop's placeholder for a deleted image"
        raise UndecodableImage(Fault("one-pixel", why))
    try:
        ImageOps.exif_transpose(image, in_place=True)
        if image.has_transparency_data:
            return _on_ground(_in_srgb(_converted(image, "RGBA")))
        if image.mode not in ("L", "CMYK"):
            image = _converted(image, "RGB")
        return _converted(_in_srgb(image), "RGB")
    except MemoryError as error:
        raise UndecodableImage(Fault("unreadable", "does not fit into the free memory")) from error
    except Exception as error:
        fault = Fault("undecodable", f"cannot be displayed ({one_line(error)})")
        raise UndecodableImage(fault) from error


def find_fault(path: Original) -> Fault | None:
    """Decode a file completely and return what is wrong with it, None if it can be displayed."""
    try:
        with decoded(path) as image:
            displayable(image)
    except UndecodableImage as error:
        return error.fault
    return None


def _converted(image: Image.Image, mode: str) -> Image.Image:
    """The image in this mode; unlike Pillow's `convert`, without a copy if it has the mode."""
    return image if image.mode == mode else image.convert(mode)


def _in_srgb(image: Image.Image) -> Image.Image:
    """Convert from an embedded colour profile, which copies for browsers do not have.

    A profile that cannot be used is ignored, as browsers do.
    """
    profile = image.info.get("icc_profile")
    if not profile:
        return image
    mode = "RGBA" if image.mode == "RGBA" else "RGB"
    try:
        embedded = ImageCms.ImageCmsProfile(BytesIO(profile))
        if "srgb" in ImageCms.getProfileDescription(embedded).lower():
            return image
        converted = ImageCms.profileToProfile(
            image,
            embedded,
            ImageCms.createProfile("sRGB"),
            outputMode=mode,
            inPlace=image.mode == mode,
        )
    except (ImageCms.PyCMSError, OSError, ValueError):
        return image
    return image if converted is None else converted


def _on_ground(image: Image.Image) -> Image.Image:
    ground = Image.new("RGB", image.size, GROUND)
    ground.paste(image, (0, 0), image)
    return ground


# Pictures of people, written anew so that nothing but the picture is left. Needs Pillow.

QUALITY = 88
"""Of the JPEG files."""


@dataclass(frozen=True, slots=True)
class Reencoded:
    """A JPEG file without any metadata."""

    content: bytes
    width: int
    height: int


def reencoded(content: bytes, longest_side: int, max_pixels: int) -> Reencoded:
    """The picture upright, in RGB, with sides of at most so many pixels.

    `max_pixels` is the largest number before.

    Raises:
        UndecodableImage: it is not an image, or broken, or too large.
    """
    with decoded(content, longest_side, max_pixels) as image:
        picture = displayable(image)
        picture.thumbnail((longest_side, longest_side), Resampling.LANCZOS)
        picture.info.clear()  # Pillow writes a comment that it has read
        file = BytesIO()
        picture.save(file, "JPEG", quality=QUALITY)
    return Reencoded(file.getvalue(), picture.width, picture.height)
