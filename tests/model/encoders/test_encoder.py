"""Preprocessing equals the steps of CLIP4Cir's code, one by one."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from hsfiq.model.encoders.encoder import (
    CLIP_MEAN,
    CLIP_STD,
    Preprocessing,
    crop_to_square,
    target_pad,
    to_rgb,
)

sides = st.integers(1, 60)
ratios = st.sampled_from([1.0, 1.1, 1.25, 1.5, 2.0])


def noise(width: int, height: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    bands = len(Image.new(mode, (1, 1)).getbands())
    values = np.random.default_rng(seed).integers(0, 256, (height, width, bands), dtype=np.uint8)
    if mode == "P":
        image = Image.fromarray(values[:, :, 0]).convert("P")
        image.putpalette(np.random.default_rng(1).integers(0, 256, 768, dtype=np.uint8).tobytes())
        return image
    return Image.frombytes(mode, (width, height), values.tobytes())


def pad_literally(pixels: np.ndarray, ratio: float) -> np.ndarray:
    """TargetPad by its definition: r = max / min, m = max / ratio, hp and vp, zeros."""
    height, width = pixels.shape[:2]
    if max(width, height) / min(width, height) < ratio:
        return pixels
    m = max(width, height) / ratio
    hp, vp = max(int((m - width) / 2), 0), max(int((m - height) / 2), 0)
    padded = np.zeros((height + 2 * vp, width + 2 * hp, *pixels.shape[2:]), dtype=np.uint8)
    padded[vp : vp + height, hp : hp + width] = pixels
    return padded


def cubic(x: float) -> float:
    x = abs(x)
    if x < 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def resize_literally(line: np.ndarray, length: int) -> np.ndarray:
    """Bicubic (a = -0.5) along the first axis, with a wider support for shrinking, as in Pillow."""
    scale = len(line) / length
    wide = max(scale, 1.0)
    resized = []
    for i in range(length):
        centre = (i + 0.5) * scale
        first = max(int(centre - 2 * wide + 0.5), 0)
        last = min(int(centre + 2 * wide + 0.5), len(line))
        weights = np.array([cubic((j + 0.5 - centre) / wide) for j in range(first, last)])
        resized.append(np.tensordot(weights / weights.sum(), line[first:last], axes=1))
    return np.clip(np.round(np.array(resized)), 0, 255)


@given(
    width=sides, height=sides, ratio=ratios, mode=st.sampled_from(["L", "P", "RGB", "RGBA", "CMYK"])
)
@example(width=50, height=40, ratio=1.25, mode="RGB")  # the ratio itself is padded, by nothing
@example(width=5, height=4, ratio=1.25, mode="L")
@example(width=51, height=40, ratio=1.25, mode="RGB")
@example(width=49, height=40, ratio=1.25, mode="RGB")
@example(width=1, height=60, ratio=1.25, mode="RGBA")
def test_padding_is_target_pad(width: int, height: int, ratio: float, mode: str) -> None:
    image = noise(width, height, mode)
    padded = target_pad(image, ratio)
    assert padded.mode == mode
    np.testing.assert_array_equal(np.array(padded), pad_literally(np.array(image), ratio))


@given(width=sides, height=sides, size=st.integers(1, 40))
@example(width=33, height=32, size=32)
@example(width=3, height=49, size=7)
def test_shorter_side_is_resized_and_the_middle_cut_out(width: int, height: int, size: int) -> None:
    image = noise(width, height)
    short, long = sorted(image.size)
    resized_long = int(size * long / short)  # torchvision's Resize(int)
    new_width, new_height = (size, resized_long) if width <= height else (resized_long, size)
    resized = np.array(image.resize((new_width, new_height), Image.Resampling.BICUBIC))
    top, left = round((new_height - size) / 2.0), round((new_width - size) / 2.0)  # its CenterCrop
    square = crop_to_square(image, size)
    np.testing.assert_array_equal(
        np.array(square), resized[top : top + size, left : left + size], strict=True
    )


@given(width=st.integers(1, 30), height=st.integers(1, 30), size=st.integers(1, 20))
def test_resizing_is_bicubic(width: int, height: int, size: int) -> None:
    image = noise(width, height)
    short = min(width, height)
    new_width, new_height = size * width // short, size * height // short
    rows = resize_literally(np.array(image, dtype=np.float64).transpose(1, 0, 2), new_width)
    resized = resize_literally(rows.transpose(1, 0, 2), new_height)
    top, left = round((new_height - size) / 2), round((new_width - size) / 2)
    square = np.array(crop_to_square(image, size), dtype=np.float64)
    # Pillow computes in whole numbers, twice: two steps of 256 apart at most.
    assert np.abs(square - resized[top : top + size, left : left + size]).max() <= 2


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16"])
@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (30, 24), (31, 24)])
def test_every_mode_and_size_becomes_normalised_pixels(mode: str, size: tuple[int, int]) -> None:
    image = noise(*size, mode) if mode not in {"1", "I;16"} else Image.new(mode, size, 1)
    preprocessing = Preprocessing(size=16)
    pixels = preprocessing(image)
    # In the order of the published code: pad, resize, crop, convert.
    square = np.array(crop_to_square(target_pad(image, 1.25), 16).convert("RGB"))
    literal = torch.from_numpy(square).permute(2, 0, 1).to(torch.float32).div(255)
    literal = literal.sub(torch.tensor(CLIP_MEAN)[:, None, None])
    literal = literal.div(torch.tensor(CLIP_STD)[:, None, None])
    assert pixels.dtype == torch.float32
    assert pixels.is_contiguous()
    assert torch.equal(pixels, literal)


def test_the_input_image_is_unchanged() -> None:
    image = noise(40, 10)
    before = image.tobytes()
    Preprocessing(size=16)(image)
    assert image.tobytes() == before
    assert image.size == (40, 10)


def test_a_palette_with_transparency_loses_it_without_a_warning() -> None:
    image = noise(9, 7, "P")
    image.info["transparency"] = bytes(range(256))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = image.convert("RGB").tobytes()
    assert to_rgb(image).tobytes() == expected


@pytest.mark.parametrize(("size", "ratio"), [(0, 1.25), (-1, 1.25), (224, 0.99), (224, math.nan)])
def test_impossible_settings_are_refused(size: int, ratio: float) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        Preprocessing(size=size, pad_ratio=ratio)


def test_a_squeezed_image_is_resized_whole() -> None:
    image = noise(40, 20)
    pixels = Preprocessing(size=16, mean=(0, 0, 0), std=(1, 1, 1), squeeze=True)(image)
    values = np.asarray(image, dtype=np.float64)
    narrow = resize_literally(values.transpose(1, 0, 2), 16).transpose(1, 0, 2)
    # Pillow rounds to bytes after each direction.
    expected = resize_literally(np.clip(np.round(narrow), 0, 255), 16).transpose(2, 0, 1) / 255
    assert np.abs(pixels.numpy() - np.clip(expected, 0, 1)).max() <= 1 / 255
    padded = Preprocessing(16, 2.0, mean=(0, 0, 0), std=(1, 1, 1), squeeze=True)(image)
    assert pixels.equal(padded)
