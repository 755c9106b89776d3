"""Every package decodes image files, or refuses them with the same reason."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from threading import Event, Lock, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from hsfiq.annotate.image_copies import WebCopies
from hsfiq.contact_sheet import load_pictures
from hsfiq.errors import UnreadableInput
from hsfiq.images import decode
from hsfiq.images.decode import MAX_PIXELS, PixelBudget, UndecodableImage, decoded
from hsfiq.images.display import find_fault
from hsfiq.model.image_tokens import open_image
from tests.hsfiq.images.pictures import (
    BLACK_TO_WHITE,
    COLOURS,
    SHOWN,
    are_close,
    colours,
    grey_16,
    quarters,
)
from tests.hsfiq.images.pictures import encoded as picture_bytes
from tests.studies import ROOT


def encoded(kind: str = "JPEG", size: tuple[int, int] = (60, 80)) -> bytes:
    file = BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(file, kind)
    return file.getvalue()


def progressive(n_more: int) -> bytes:
    """A JPEG with the usual scans, and so many more that are empty."""
    file = BytesIO()
    Image.new("L", (60, 80)).save(file, "JPEG", progressive=True)
    whole = file.getvalue()
    last_scan = whole[whole.rindex(b"\xff\xda") : -2]
    return whole[:-2] + n_more * last_scan + b"\xff\xd9"


def tiff_of_one_tile(side: int) -> bytes:
    """A grey TIFF of 100 x 100 pixels whose only tile has sides of `side` pixels."""
    tile = zlib.compress(bytes(side * side))
    fields = [
        *((256, 4, 100), (257, 4, 100), (258, 3, 8), (259, 3, 8), (262, 3, 1), (277, 3, 1)),
        *((322, 4, side), (323, 4, side), (324, 4, 8), (325, 4, len(tile))),
    ]
    directory = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in fields)
    head = b"II*\0" + struct.pack("<I", 8 + len(tile))
    return head + tile + struct.pack("<H", len(fields)) + directory + bytes(4)


@pytest.mark.parametrize(("usual", "hostile", "reason"), [
    (lambda: progressive(0), lambda: progressive(200), "more than 100 scans"),
    (lambda: tiff_of_one_tile(112), lambda: tiff_of_one_tile(2000), "more than 1,000,000 pixels"),
    (lambda: encoded("PNG"), lambda: encoded("PNG", (70_000, 1)), "65,535 pixels on a side"),
])  # fmt: skip
def test_a_small_file_that_is_much_to_decode_is_refused(
    usual: Callable[[], bytes], hostile: Callable[[], bytes], reason: str
) -> None:
    with decoded(usual(), max_pixels=1_000_000) as image:
        assert image.size in ((60, 80), (100, 100))
    with pytest.raises(UndecodableImage, match=reason), decoded(hostile(), max_pixels=1_000_000):
        pass


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_an_image_of_too_many_pixels_is_refused_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    Image.new("1", (10_000, 10_000)).save(path)

    fault = find_fault(path)
    assert fault is not None
    assert fault.kind == "too-large"
    _, reasons = load_pictures(["large"], lambda _: path, 100)
    assert reasons == {"large": "image too-large"}
    thumbnails = WebCopies(tmp_path / "cache")
    assert thumbnails.of(path, "thumbnail") == fault
    assert thumbnails.of(path, "full") == fault
    with pytest.raises(UnreadableInput) as raised, open_image(path):
        pass
    assert raised.value.where == str(path)
    assert raised.value.what == fault.why
    assert f"{MAX_PIXELS:,} pixels" in fault.why


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_truncated_file_is_undecodable(kind: str, tmp_path: Path) -> None:
    complete = encoded(kind, (200, 260))
    path = tmp_path / "image"
    path.write_bytes(complete)
    assert find_fault(path) is None
    for share in (0.01, 0.3, 0.6, 0.9):
        path.write_bytes(complete[: int(len(complete) * share)])
        fault = find_fault(path)
        assert fault is not None
        assert fault.kind == "truncated" or share == 0.01


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=60)
@given(data=st.data())
def test_any_bytes_give_an_image_or_a_fault(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(encoded(data.draw(st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "TIFF"]))))
    places = st.integers(0, len(content) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=8)):
        content[place] = byte
    damaged = bytes(content[: data.draw(st.integers(0, len(content)))])
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(damaged)
    fault = find_fault(path)
    if fault is None:
        with decoded(path) as image:
            content = image.tobytes()
        assert content
        with decoded(damaged) as image:
            assert image.tobytes() == content
    else:
        assert "\n" not in fault.why


@pytest.mark.parametrize("kind", ["16-bit grey", "transparent GIF", "CMYK", "BMP"])
def test_contact_sheets_show_what_annotators_see(kind: str, tmp_path: Path) -> None:
    suffix, content, expected = SHOWN[kind]
    path = tmp_path / f"image{suffix}"
    path.write_bytes(content())
    shown, reasons = load_pictures(["image"], lambda _: path, 96)
    assert reasons == {}
    assert are_close(colours(shown["image"]), expected)


def test_encoders_get_16_bit_grey_as_8_bit_grey(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(grey_16())
    with open_image(path) as image:
        assert image.mode == "L"
        assert colours(image) == BLACK_TO_WHITE


def test_a_jpeg_is_decoded_in_a_reduced_size_if_that_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "large.jpg"
    path.write_bytes(encoded("JPEG", (1600, 1200)))
    for at_least, size in ((None, (1600, 1200)), (700, (1600, 1200)), (300, (400, 300))):
        with decoded(path, at_least) as image:
            assert image.size == size


# -------------------------------------------------------------------------------------- memory


def test_reserved_pixels_never_exceed_the_limit() -> None:
    budget, lock, reserved, most = PixelBudget(10), Lock(), 0, 0

    def reserve(pixels: int) -> None:
        nonlocal reserved, most
        with budget.reserved(pixels):
            with lock:
                reserved += pixels
                most = max(most, reserved)
            with lock:
                reserved -= pixels

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(reserve, [1, 10, 3, 7, 5, 5, 9, 2] * 40))
    assert reserved == 0
    assert 10 <= most <= budget.limit


def test_a_second_large_image_waits_until_the_first_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(encoded("PNG", (60, 80)))
    monkeypatch.setattr(decode, "BUDGET", PixelBudget(60 * 80))
    is_decoded = Event()

    def decode_second() -> None:
        with decoded(path):
            is_decoded.set()

    second = Thread(target=decode_second)
    with decoded(path):
        second.start()
        assert not is_decoded.wait(0.2)
    second.join()
    assert is_decoded.is_set()


def test_a_refused_image_releases_its_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(encoded("PNG", (200, 260))[:-200])
    monkeypatch.setattr(decode, "BUDGET", PixelBudget(200 * 260))
    for _ in range(3):
        fault = find_fault(path)
        assert fault is not None
        assert fault.kind == "truncated"


SIDE = 4096
"""Half of the longest side that a square image may have."""

PEAK = f"""
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from hsfiq.annotate.image_copies import LONGEST_SIDE, WebCopies
from hsfiq.images import decode
from hsfiq.images.decode import MAX_PIXELS, PixelBudget

assert decode.BUDGET.limit == MAX_PIXELS == {(2 * SIDE) ** 2}
decode.BUDGET = PixelBudget({SIDE**2})
LONGEST_SIDE["full"] //= 2
copies = WebCopies(Path("copies"))
wanted = list(product(map(Path, sys.argv[1:]), ("thumbnail", "full")))
with ThreadPoolExecutor(len(wanted)) as pool:
    made = list(pool.map(lambda pair: copies.of(*pair), wanted))
assert all(isinstance(copy, Path) for copy in made), made
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["VmHWM"].removesuffix("kB\\n"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_memory_does_not_grow_with_the_number_of_requests(tmp_path: Path) -> None:
    """Everything has a quarter of the pixels that it may have; the largest take seconds.

    The peak is that of the interpreter: `ru_maxrss` is at least what the parent had.
    """
    values = [(*colour, 200) for colour in COLOURS]
    large = picture_bytes(quarters("RGBA", values, (SIDE, SIDE)), "PNG", compress_level=1)
    names = [f"{number}.png" for number in range(2)]
    for name in names:
        (tmp_path / name).write_bytes(large)
    process = subprocess.run(
        [sys.executable, "-c", PEAK, *names],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(process.stdout) < 400_000  # 4 at once: more than 600,000 without a limit


def test_an_image_of_the_most_pixels_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "largest.png"
    Image.new("1", (2 * SIDE, 2 * SIDE)).save(path)
    with decoded(path) as image:
        assert image.width * image.height == MAX_PIXELS


def test_a_folder_is_undecodable(tmp_path: Path) -> None:
    with pytest.raises(UndecodableImage, match="is not a file"):
        decoded(tmp_path).__enter__()
