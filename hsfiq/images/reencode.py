"""Pictures of people, written anew so that nothing but the picture is left. Needs Pillow."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO

from PIL.Image import Resampling

from hsfiq.images.decode import decoded
from hsfiq.images.display import displayable

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

    `max_pixels` are those that it may have before.

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
