"""A feature cache after kills, concurrent use, damage and full disks: complete rows or one line."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import torch

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.model.encoders.encoder import Preprocessing
from hsfiq.model.image_tokens import CacheReport, FeatureCache
from hsfiq.model.token_files import HEADER_BYTES
from tests.model.encoders.small_encoder import (
    SmallEncoder,
    assert_cached_equals_encoded,
    draw_images,
    fill,
)
from tests.processes import Fork

pytestmark = pytest.mark.usefixtures("one_thread")


def filled(tmp_path: Path, n: int = 3) -> FeatureCache:
    cache = FeatureCache.open(tmp_path / "cache", SmallEncoder(), torch.float16)
    fill(cache, draw_images(tmp_path / "images", n))
    return cache


def assert_refused(tmp_path: Path, message: str) -> None:
    with pytest.raises(UnreadableInput, match=message) as raised:
        FeatureCache.open(tmp_path / "cache", SmallEncoder(), torch.float16)
    assert "; delete the folder" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_truncated_foreign_or_absent_file_is_noticed(tmp_path: Path) -> None:
    tokens = filled(tmp_path).folder / "tokens.bin"
    os.truncate(tokens, tokens.stat().st_size - 1)
    assert_refused(tmp_path, "tokens.bin: is truncated: 2 rows of the 3 indexed")
    other_cache = FeatureCache.open(tmp_path / "cache", SmallEncoder(seed=1), torch.float16)
    fill(other_cache, draw_images(tmp_path / "images", 3))
    tokens.write_bytes((other_cache.folder / "tokens.bin").read_bytes())
    assert_refused(tmp_path, "tokens.bin: was not written for these settings")
    tokens.unlink()
    assert_refused(tmp_path, "tokens.bin: is missing, and 3 rows are indexed")


def test_a_damaged_index_is_noticed(tmp_path: Path) -> None:
    index = filled(tmp_path).folder / "index.sqlite3"
    with closing(sqlite3.connect(index)) as connection, connection:
        connection.execute("DELETE FROM rows WHERE row = 1")
    assert_refused(tmp_path, "index.sqlite3: is damaged")
    index.write_bytes(b"rubbish" * 1000)
    assert_refused(tmp_path, "index.sqlite3: is damaged")


def test_an_open_cache_refills_a_deleted_folder(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    for file in cache.folder.iterdir():
        file.unlink()
    cache.folder.rmdir()
    images = draw_images(tmp_path / "images", 3)
    assert fill(cache, images) == CacheReport(3, 0, 0, {})
    assert_cached_equals_encoded(cache, SmallEncoder(), images, torch.float16)


def test_a_full_disk_is_detected_before_writing(tmp_path: Path) -> None:
    encoder = SmallEncoder()
    encoder.tokens_shape = (257, 10**13)
    cache = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)
    with pytest.raises(UnreadableInput, match=r"2 images take 10,280,000.0 GB, and .* are free"):
        fill(cache, draw_images(tmp_path / "images", 2))
    assert encoder.n_encoded == 0
    assert not (tmp_path / "cache").exists()


def test_an_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = FeatureCache.open(tmp_path / "file" / "cache", SmallEncoder(), torch.float16)
    with pytest.raises(UnreadableInput, match=r"cannot be written \(.+\); correct this or name"):
        fill(cache, draw_images(tmp_path / "images", 1))


def write_line(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def fill_folder() -> None:
    """Fill the cache of a folder, and print the progress."""
    torch.set_num_threads(1)
    folder, pause, limit, size = Path(sys.argv[1]), float(sys.argv[2]), *map(int, sys.argv[3:])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    images = {path.stem: path for path in sorted((folder / "images").iterdir())}

    def on_progress(done: int, _of: int) -> None:
        time.sleep(pause)
        write_line(f"{done}")

    try:
        encoder = SmallEncoder(preprocessing=Preprocessing(size=size))
        cache = FeatureCache.open(folder / "cache", encoder, torch.float16)
        write_line("open")
        report = cache.fill(
            images, batch=2, device=torch.device("cpu"), workers=2, on_progress=on_progress
        )
        write_line(f"computed {report.n_computed}")
    except HsfiqError as error:
        sys.exit(str(error))


class Filling:
    """Another process that fills the cache and prints its progress."""

    def __init__(
        self, folder: Path, *, pause: float = 0.0, limit: int = 1 << 40, size: int = 8
    ) -> None:
        name = f"fill-{len(list(folder.glob('fill-*')))}"
        self.printed, self.errors = folder / f"{name}.txt", folder / f"{name}-errors.txt"
        words = [folder, str(pause), str(limit), str(size)]
        self.process = Fork(fill_folder, words, self.printed, self.errors)

    def wait_for_lines(self, n: int) -> str:
        """Return what the process has printed as soon as that is at least n lines."""
        while True:
            has_ended = self.process.poll() is not None
            printed = self.printed.read_text() if self.printed.exists() else ""
            if printed.count("\n") >= n:
                return printed
            assert not has_ended, self.errors.read_text()
            time.sleep(0.001)


def test_a_disk_that_becomes_full_leaves_complete_rows(tmp_path: Path) -> None:
    images = draw_images(tmp_path / "images", 12)
    encoder = SmallEncoder(preprocessing=Preprocessing(size=80))
    row_bytes = 20 * 20 * 6 * 2
    # No file may grow further than six rows and a half: more than the index needs.
    limit = HEADER_BYTES + 6 * row_bytes + row_bytes // 2
    filling = Filling(tmp_path, limit=limit, size=80)
    assert filling.process.wait() == 1
    errors = filling.errors.read_text()
    assert "cannot be written (" in errors
    assert errors.count("\n") == 1
    cache = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)
    report = fill(cache, images)
    assert 2 <= report.n_found <= 6
    assert report.n_found + report.n_computed == 12
    assert_cached_equals_encoded(cache, encoder, images, torch.float16)


@pytest.mark.parametrize(("lines", "pause"), [(1, 0.0), (2, 0.05), (5, 0.0), (12, 0.01)])
def test_killed_process_leaves_only_complete_rows(tmp_path: Path, lines: int, pause: float) -> None:
    images = draw_images(tmp_path / "images", 40)
    filling = Filling(tmp_path, pause=pause)
    printed = filling.wait_for_lines(lines)
    filling.process.send_signal(signal.SIGKILL)
    filling.process.wait()
    assert "computed" not in printed
    encoder = SmallEncoder()
    cache = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)
    report = fill(cache, images)
    assert report.n_found + report.n_computed == 40
    assert encoder.n_encoded == report.n_computed
    if lines > 1:
        assert report.n_found >= 2  # the first batch is made safe at once
    assert_cached_equals_encoded(cache, encoder, images, torch.float16)


@pytest.mark.parametrize("extra_bytes", [b"x", b"x" * 48, b"x" * 1000])
def test_data_after_the_last_listed_row_is_overwritten(tmp_path: Path, extra_bytes: bytes) -> None:
    cache = filled(tmp_path, 3)
    with (cache.folder / "tokens.bin").open("ab") as file:
        file.write(extra_bytes)
    images = draw_images(tmp_path / "images", 7)
    reopened = FeatureCache.open(tmp_path / "cache", SmallEncoder(), torch.float16)
    assert fill(reopened, images) == CacheReport(n_computed=4, n_found=3, n_shared=0, unreadable={})
    assert_cached_equals_encoded(reopened, SmallEncoder(), images, torch.float16)
    assert (cache.folder / "tokens.bin").stat().st_size == HEADER_BYTES + 7 * 48


@pytest.mark.parametrize("remaining", [[], ["lock"], ["tokens.bin"], ["tokens.bin", "about.json"]])
def test_an_incomplete_folder_is_completed(tmp_path: Path, remaining: list[str]) -> None:
    cache = filled(tmp_path, 3)
    for file in cache.folder.iterdir():
        if file.name not in remaining:
            file.unlink()
    (cache.folder / ".tokens.bin-7.draft").write_bytes(b"hsf")
    images = draw_images(tmp_path / "images", 3)
    reopened = FeatureCache.open(tmp_path / "cache", SmallEncoder(), torch.float16)
    assert fill(reopened, images) == CacheReport(3, 0, 0, {})
    assert_cached_equals_encoded(reopened, SmallEncoder(), images, torch.float16)


def test_two_processes_at_once_compute_each_image_once(tmp_path: Path) -> None:
    images = draw_images(tmp_path / "images", 20)
    first = Filling(tmp_path, pause=0.02)
    assert first.wait_for_lines(1).startswith("open\n")
    both = [first, Filling(tmp_path)]
    assert [filling.process.wait() for filling in both] == [0, 0]
    assert [filling.errors.read_text() for filling in both] == ["", ""]
    computed = [int(filling.printed.read_text().split("computed")[1]) for filling in both]
    assert sum(computed) == 20
    cache = FeatureCache.open(tmp_path / "cache", SmallEncoder(), torch.float16)
    assert fill(cache, images) == CacheReport(0, 20, 0, {})
    assert_cached_equals_encoded(cache, SmallEncoder(), images, torch.float16)


def test_rows_appended_by_another_cache_are_used(tmp_path: Path) -> None:
    images = draw_images(tmp_path / "images", 6)
    first_cache = FeatureCache.open(tmp_path / "cache", SmallEncoder(), torch.float16)
    second_cache = FeatureCache.open(tmp_path / "cache", SmallEncoder(), torch.float16)
    fill(first_cache, {name: images[name] for name in ("i0", "i1")})
    before = first_cache.tokens(["i0", "i1"])
    assert fill(second_cache, images).n_found == 2
    assert fill(first_cache, images).n_found == 6
    assert first_cache.tokens(["i0", "i1"]).equal(before)
    assert_cached_equals_encoded(first_cache, SmallEncoder(), images, torch.float16)
