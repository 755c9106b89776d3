"""Image files are opened or reported in one line, and their digests are remembered."""

from __future__ import annotations

import hashlib
import io
import os
import sqlite3
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from hsfiq.errors import UnreadableInput
from hsfiq.images.decode import MAX_PIXELS
from hsfiq.model.encoders.encoder import Preprocessing
from hsfiq.model.features import open_image, prepare_all
from hsfiq.model.token_files import ContentMemo
from tests.model.encoders.small_encoder import draw_image, draw_images


def encoded(kind: str) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, kind)
    return file.getvalue()


def png_of(width: int, height: int) -> bytes:
    """A PNG header with this size and nothing after it."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 1000) + b"IDAT"


# ------------------------------------------------------------------------------------- opening


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_an_image_is_loaded_completely(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(encoded(kind))

    with open_image(path) as image, Image.open(path) as opened:
        assert image.size == (30, 20)
        assert image.tobytes() == opened.tobytes()


def test_exif_orientation_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees
    Image.new("RGB", (30, 20)).save(path, exif=exif)

    with open_image(path) as image:
        assert image.size == (30, 20)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "has zero bytes"),
        (b"<html>not found</html>", "is not a known image format"),
        (encoded("JPEG")[:600], "cannot be decoded"),
        (encoded("PNG")[:600], "cannot be decoded"),
        (encoded("WEBP")[:100], "cannot be decoded"),
        (png_of(100_000, 100_000), f"has more than {MAX_PIXELS:,} pixels"),
        (png_of(60_000, 2_000), f"has more than {MAX_PIXELS:,} pixels"),
        (png_of(0, 5), "is not a known image format"),
    ],
    ids=["empty", "html", "jpeg", "png", "webp", "huge", "large", "flat"],
)
def test_a_broken_file_is_reported_in_one_line(tmp_path: Path, data: bytes, expected: str) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(data)

    with pytest.raises(UnreadableInput) as raised, open_image(path):
        pass

    message = str(raised.value)
    assert message.startswith(f"{path}: {expected}")
    assert "; " in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["absent.png", "folder"])
def test_a_path_that_is_not_a_file_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()

    expected = rf"{name}: cannot be read \("
    with pytest.raises(UnreadableInput, match=expected), open_image(tmp_path / name):
        pass


@given(
    kind=st.sampled_from(["PNG", "JPEG", "WEBP", "GIF"]),
    changes=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=8),
    end=st.integers(0, 3000),
)
def test_any_bytes_give_an_image_or_a_one_line_error(
    kind: str,
    changes: list[tuple[int, int]],
    end: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = bytearray(encoded(kind)[:end])
    for place, value in changes:
        if place < len(data):
            data[place] = value
    path = tmp_path_factory.getbasetemp() / "damaged.png"
    path.write_bytes(data)

    message = ""
    try:
        with open_image(path) as picture:
            assert picture.width * picture.height <= MAX_PIXELS
            assert picture.tobytes()
    except UnreadableInput as error:
        message = str(error)

    if message:
        assert message.startswith(f"{path}: ")
        assert "\n" not in message


# ------------------------------------------------------------------------------------- preparing


class Watched(Mapping[str, Path]):
    """Files, and how many of them have been requested."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files
        self.n_requested = 0

    def __getitem__(self, key: str) -> Path:
        self.n_requested += 1
        return self.files[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def by_content(images: dict[str, Path]) -> dict[str, Path]:
    return {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in images.values()}


@pytest.mark.parametrize(("workers", "ahead"), [(1, 1), (3, 2), (4, 100)])
def test_images_are_prepared_in_order(tmp_path: Path, workers: int, ahead: int) -> None:
    files = by_content(draw_images(tmp_path, 20))
    preprocessing = Preprocessing(size=8)

    prepared = list(prepare_all(files.items(), preprocessing, workers=workers, ahead=ahead))

    assert [image.sha256 for image in prepared] == list(files)
    for image, path in zip(prepared, files.values(), strict=True):
        assert image.pixels is not None
        with open_image(path) as picture:
            assert image.pixels.equal(preprocessing(picture))


def test_the_number_of_waiting_images_is_limited(tmp_path: Path) -> None:
    files = Watched(by_content(draw_images(tmp_path, 30)))
    prepared = prepare_all(files.items(), Preprocessing(size=8), workers=2, ahead=5)

    for n_taken in range(1, 20):
        next(prepared)
        assert files.n_requested <= n_taken + 5
    prepared.close()


def test_a_broken_file_does_not_stop_the_others(tmp_path: Path) -> None:
    images = draw_images(tmp_path, 3)
    images["i1"].write_bytes(images["i1"].read_bytes()[:80])
    files = by_content(images)

    prepared = list(prepare_all(files.items(), Preprocessing(size=8), workers=2, ahead=4))

    assert [image.pixels is None for image in prepared] == [False, True, False]
    assert prepared[1].reason.startswith(f"{images['i1']}: cannot be decoded")


def test_a_file_changed_since_listing_is_reported(tmp_path: Path) -> None:
    images = draw_images(tmp_path, 2)
    files = by_content(images)
    draw_image(images["i0"], seed=99)

    prepared = list(prepare_all(files.items(), Preprocessing(size=8), workers=1, ahead=1))

    assert prepared[0].reason == f"{images['i0']}: was changed just now; run this again"
    assert prepared[1].pixels is not None


# ------------------------------------------------------------------------------------- contents


def later() -> int:
    """Advance the clock so that every file is old enough to be remembered."""
    return time.time_ns() + 60_000_000_000


def replace_in_memo(path: Path, sha256: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE files SET sha256 = ?", (sha256,))


def test_contents_have_a_sha256_and_unreadable_files_are_named(tmp_path: Path) -> None:
    images = draw_images(tmp_path, 3)
    images |= {"same": tmp_path / "same.png", "absent": tmp_path / "absent.png"}
    images["same"].write_bytes(images["i1"].read_bytes())

    contents = ContentMemo(tmp_path / "memo").read(images, workers=2)

    assert contents.sha256 == {
        image_id: hashlib.sha256(path.read_bytes()).hexdigest()
        for image_id, path in images.items()
        if image_id != "absent"
    }
    assert list(contents.unreadable) == ["absent"]
    assert "absent.png: cannot be read (No such file" in contents.unreadable["absent"]
    assert not (tmp_path / "memo").exists()


def test_unchanged_files_are_not_read_again(tmp_path: Path) -> None:
    images = draw_images(tmp_path, 3)
    memo = ContentMemo(tmp_path / "memo", clock=later)
    memo.remember(memo.read(images, workers=1))
    replace_in_memo(memo.path, "remembered")

    second = memo.read(images, workers=1)

    assert set(second.sha256.values()) == {"remembered"}
    assert second.fresh == {}


def test_changed_files_are_read_again_even_with_equal_size_and_date(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    os.utime(path, ns=(0, 0))
    memo = ContentMemo(tmp_path / "memo", clock=later)
    memo.remember(memo.read({"a": path}, workers=1))
    changed = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == changed:  # until the file system's clock has ticked
        path.write_bytes(b"two")
        os.utime(path, ns=(0, 0))

    assert memo.read({"a": path}, workers=1).sha256 == {"a": hashlib.sha256(b"two").hexdigest()}


def test_a_file_written_just_now_is_not_remembered(tmp_path: Path) -> None:
    images = draw_images(tmp_path, 1)
    memo = ContentMemo(tmp_path / "memo")

    contents = memo.read(images, workers=1)
    memo.remember(contents)

    assert contents.fresh == {}
    assert not memo.path.exists()


def test_a_damaged_memo_is_reported_in_one_line(tmp_path: Path) -> None:
    memo = ContentMemo(tmp_path / "memo")
    memo.path.write_bytes(b"no database at all" * 100)

    with pytest.raises(UnreadableInput, match=r"memo: cannot be used .*; delete it"):
        memo.read({}, workers=1)
