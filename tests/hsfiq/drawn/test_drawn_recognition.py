"""Garments recognized from pictures that were compressed twice."""

from __future__ import annotations

import io
from random import Random

import pytest
from PIL import Image

from hsfiq.drawn import Garment, catalogue
from hsfiq.drawn.pictures import distance_of, draw, drawn_small, recognize, small
from hsfiq.errors import UnreadableInput


def compressed(picture: Image.Image, kind: str, quality: int) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, quality=quality)
    return file.getvalue()


def served(garment: Garment, quality: int) -> bytes:
    """A garment's file as the page shows it."""
    stored = Image.open(io.BytesIO(compressed(draw(garment), "JPEG", 88)))
    return compressed(stored, "WEBP", quality)


@pytest.mark.parametrize("quality", [84, 95], ids=["thumbnail", "full"])
def test_a_served_picture_is_recognized(quality: int) -> None:
    for garment in Random(2).sample(catalogue(Random(1), 12), 8):
        assert recognize(served(garment, quality), "image") == garment


def test_the_distance_is_the_mean_squared_difference_of_all_levels() -> None:
    garment, other = catalogue(Random(4), 1)[:2]
    levels, others = (
        draw(each).resize((36, 48), Image.Resampling.BOX).tobytes() for each in (garment, other)
    )
    squares = [(level - beside) ** 2 for level, beside in zip(levels, others, strict=True)]
    distance = distance_of(small(draw(garment)), drawn_small(other))
    assert distance == sum(squares) / len(squares) > 0


def test_a_picture_of_something_else_is_not_recognized() -> None:
    plain = Image.new("RGB", (300, 400), "grey")
    with pytest.raises(UnreadableInput, match=r"image 5: shows no garment of the drawn catalogue"):
        recognize(compressed(plain, "JPEG", 88), "image 5")


@pytest.mark.parametrize("content", [b"", b"<html>", b"RIFF\0\0\0\0WEBPVP8 "], ids=repr)
def test_a_file_that_is_not_a_picture(content: bytes) -> None:
    with pytest.raises(UnreadableInput, match="not an image that can be read"):
        recognize(content, "image 5")
