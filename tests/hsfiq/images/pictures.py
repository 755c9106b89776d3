"""Small image files of every kind that data sets contain, and what they should look like."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, TypeAlias

from PIL import Image, ImageCms

from hsfiq.images.display import GROUND

Colour: TypeAlias = tuple[int, int, int]
Quarters: TypeAlias = tuple[Colour, Colour, Colour, Colour]
"""The colours of the upper left, upper right, lower left and lower right quarter."""

WIDTH, HEIGHT = 96, 64
RED, GREEN, BLUE, WHITE = (200, 30, 40), (20, 160, 60), (30, 60, 200), (255, 255, 255)
COLOURS: Quarters = (RED, GREEN, BLUE, WHITE)
BLACK_TO_WHITE: Quarters = ((0, 0, 0), (64, 64, 64), (160, 160, 160), (255, 255, 255))


def quarters(
    mode: str, values: Sequence[Any], size: tuple[int, int] = (WIDTH, HEIGHT)
) -> Image.Image:
    """An image whose four quarters have these values."""
    image = Image.new(mode, size)
    width, height = size[0] // 2, size[1] // 2
    for number, value in enumerate(values):
        left, top = number % 2 * width, number // 2 * height
        image.paste(value, (left, top, left + width, top + height))
    return image


def colours(image: Image.Image) -> Quarters:
    """The colours in the middle of an image's quarters."""
    picture = image.convert("RGB")
    points = [(x, y) for y in (1, 3) for x in (1, 3)]
    upper_left, upper_right, lower_left, lower_right = (
        picture.getpixel((x * picture.width // 4, y * picture.height // 4)) for x, y in points
    )
    return upper_left, upper_right, lower_left, lower_right  # type: ignore[return-value]


def are_close(quarters: Quarters, other: Quarters, tolerance: int = 6) -> bool:
    return all(
        abs(a - b) <= tolerance
        for first, second in zip(quarters, other, strict=True)
        for a, b in zip(first, second, strict=True)
    )


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def on_ground(colour: Colour, alpha: int) -> Colour:
    red, green, blue = (
        round((value * alpha + ground * (255 - alpha)) / 255)
        for value, ground in zip(colour, GROUND, strict=True)
    )
    return red, green, blue


def grey_16(**options: Any) -> bytes:
    return encoded(quarters("I;16", (0, 64 * 257, 160 * 257, 65535)), "PNG", **options)


def transparent(mode: str = "RGBA") -> Image.Image:
    image = quarters("RGBA", [(*RED, 255), (*GREEN, 128), (*BLUE, 0), (*WHITE, 255)])
    return image.convert(mode)


TRANSPARENT_COLOURS: Quarters = (RED, on_ground(GREEN, 128), GROUND, WHITE)


def palette_with_transparency(kind: str) -> bytes:
    """A palette image whose third colour is transparent."""
    image = quarters("P", (0, 1, 2, 3))
    image.putpalette([value for colour in COLOURS for value in colour])
    return encoded(image, kind, transparency=2)


def animated_gif() -> bytes:
    frames = [quarters("RGB", COLOURS), Image.new("RGB", (WIDTH, HEIGHT), "black")]
    return encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])


def turned(kind: str, orientation: int) -> bytes:
    """A file that is to be shown as `COLOURS` after its EXIF orientation has been applied."""
    stored: dict[int, Image.Transpose] = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    image = quarters("RGB", COLOURS)
    if orientation in stored:
        image = image.transpose(stored[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(image, kind, exif=exif)


def cmyk() -> bytes:
    return encoded(quarters("RGB", COLOURS).convert("CMYK"), "JPEG", quality=95)


def swapped_profile() -> bytes:
    """The profile of a colour space like sRGB, but with the primaries of red and blue swapped."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    profile = profile.replace("sRGB".encode("utf-16-be"), "test".encode("utf-16-be"))
    return profile.replace(b"rXYZ", b"????").replace(b"bXYZ", b"rXYZ").replace(b"????", b"bXYZ")


SWAPPED: Quarters = (RED[::-1], GREEN[::-1], BLUE[::-1], WHITE)  # type: ignore[assignment]


def rgb_48() -> bytes:
    """A PNG of 16 bits a channel, which Pillow cannot write."""
    rows = []
    for y in range(HEIGHT):
        row = [COLOURS[2 * (2 * y // HEIGHT) + 2 * x // WIDTH] for x in range(WIDTH)]
        values = [257 * value for colour in row for value in colour]
        rows.append(b"\0" + struct.pack(f">{len(values)}H", *values))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


SHOWN: dict[str, tuple[str, Callable[[], bytes], Quarters]] = {
    "PNG": (".png", lambda: encoded(quarters("RGB", COLOURS), "PNG"), COLOURS),
    "JPEG": (".jpg", lambda: encoded(quarters("RGB", COLOURS), "JPEG", quality=95), COLOURS),
    "WebP": (".webp", lambda: encoded(quarters("RGB", COLOURS), "WEBP", lossless=True), COLOURS),
    "GIF": (".gif", lambda: encoded(quarters("RGB", COLOURS), "GIF"), COLOURS),
    "animated GIF": (".gif", animated_gif, COLOURS),
    "BMP": (".bmp", lambda: encoded(quarters("RGB", COLOURS), "BMP"), COLOURS),
    "TIFF with another extension": (
        ".png", lambda: encoded(quarters("RGB", COLOURS), "TIFF"), COLOURS
    ),
    "8-bit grey": (
        ".png",
        lambda: encoded(quarters("L", (0, 64, 160, 255)), "PNG"),
        BLACK_TO_WHITE,
    ),
    "1 bit": (
        ".png",
        lambda: encoded(quarters("1", (0, 255, 255, 0)), "PNG"),
        ((0, 0, 0), WHITE, WHITE, (0, 0, 0)),
    ),
    "16-bit grey": (".png", grey_16, BLACK_TO_WHITE),
    "16-bit grey TIFF": (
        ".png",
        lambda: encoded(quarters("I;16", (0, 64 * 257, 160 * 257, 65535)), "TIFF"),
        BLACK_TO_WHITE,
    ),
    "16-bit grey with a transparent shade": (
        ".png",
        lambda: grey_16(transparency=160 * 257),
        (*BLACK_TO_WHITE[:2], GROUND, BLACK_TO_WHITE[3]),
    ),
    "16-bit RGB": (".png", rgb_48, COLOURS),
    "transparent PNG": (".png", lambda: encoded(transparent(), "PNG"), TRANSPARENT_COLOURS),
    "transparent WebP": (
        ".webp",
        lambda: encoded(transparent(), "WEBP", lossless=True, exact=True),
        TRANSPARENT_COLOURS,
    ),
    "transparent grey": (
        ".png",
        lambda: encoded(
            quarters("LA", ((0, 255), (64, 128), (160, 0), (255, 255))), "PNG"
        ),
        ((0, 0, 0), on_ground((64, 64, 64), 128), GROUND, WHITE),
    ),
    "transparent palette": (
        ".png", lambda: palette_with_transparency("PNG"), (RED, GREEN, GROUND, WHITE)
    ),
    "transparent GIF": (
        ".gif", lambda: palette_with_transparency("GIF"), (RED, GREEN, GROUND, WHITE)
    ),
    "transparent shade of RGB": (
        ".png",
        lambda: encoded(quarters("RGB", COLOURS), "PNG", transparency=BLUE),
        (RED, GREEN, GROUND, WHITE),
    ),
    "CMYK": (".jpg", cmyk, COLOURS),
    "colour profile": (
        ".png",
        lambda: encoded(quarters("RGB", COLOURS), "PNG", icc_profile=swapped_profile()),
        SWAPPED,
    ),
    "broken colour profile": (
        ".png",
        lambda: encoded(quarters("RGB", COLOURS), "PNG", icc_profile=b"no profile"),
        COLOURS,
    ),
    **{
        f"{kind} turned, orientation {orientation}": (
            f".{kind.lower()}",
            lambda kind=kind, orientation=orientation: turned(kind, orientation),  # type: ignore[misc]
            COLOURS,
        )
        for kind in ("JPEG", "PNG")
        for orientation in range(1, 9)
    },
}  # fmt: skip
"""By kind: extension, content, and what people see."""

REFUSED: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "too many pixels": (
        ".png", lambda: encoded(Image.new("1", (10_000, 10_000)), "PNG"), "too-large"
    ),
    "32-bit grey": (
        ".png", lambda: encoded(quarters("F", (0.0, 0.2, 0.7, 1.0)), "TIFF"), "undecodable"
    ),
    "PostScript": (".png", lambda: encoded(quarters("RGB", COLOURS), "EPS"), "undecodable"),
    "one pixel": (".png", lambda: encoded(Image.new("RGB", (1, 1)), "PNG"), "one-pixel"),
    "empty": (".png", lambda: b"", "empty"),
    "HTML": (".jpg", lambda: b"<html>Not Found</html>", "undecodable"),
    "truncated": (
        ".jpg", lambda: encoded(quarters("RGB", COLOURS), "JPEG")[:-300], "truncated"
    ),
}  # fmt: skip
"""By kind: extension, content, and the kind of its fault."""
