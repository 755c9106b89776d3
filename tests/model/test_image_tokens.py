"""The feature cache, and image files with their digests."""

from __future__ import annotations

import hashlib
import io
import json
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
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.images.decode import MAX_PIXELS
from hsfiq.model.encoders.encoder import Preprocessing
from hsfiq.model.image_tokens import (
    CacheReport,
    EncodedTokens,
    FeatureCache,
    TokenSource,
    default_root,
    open_image,
    prepare_all,
    rotated,
)
from hsfiq.model.runtime import Distributed
from hsfiq.model.token_files import ContentMemo
from tests.model.encoders.small_encoder import (
    CPU,
    SmallEncoder,
    assert_cached_equals_encoded,
    draw_image,
    draw_images,
    fill,
)
from tests.model.scorer.helpers import in_processes

pytestmark = pytest.mark.usefixtures("one_thread")

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [1, 3, 64])
def test_cached_tokens_equal_the_encoders(tmp_path: Path, dtype: torch.dtype, batch: int) -> None:
    images, encoder = draw_images(tmp_path / "images", 10), SmallEncoder()
    cache = FeatureCache.open(tmp_path / "cache", encoder, dtype)
    report = fill(cache, images, batch)
    assert report == CacheReport(n_computed=10, n_found=0, n_shared=0, unreadable={})
    assert_cached_equals_encoded(cache, encoder, images, dtype)
    reopened = FeatureCache.open(tmp_path / "cache", SmallEncoder(), dtype)
    assert fill(reopened, images) == CacheReport(0, 10, 0, {})
    assert_cached_equals_encoded(reopened, encoder, images, dtype)


def gradients(source: TokenSource, encoder: SmallEncoder) -> dict[str, Tensor]:
    """The gradients of one step on references and targets, with some images used twice."""
    encoder.zero_grad()
    references, targets = ["i3", "i0", "i7", "i3"], ["i1", "i0", "i2", "i9"]
    query = encoder.compose(source.tokens(references), ["a", "in red", "and", "longer, too"])
    gallery = encoder.gallery(source.tokens(targets))  # [B, L, D]
    scores = torch.einsum("qd,gld->qgl", query, gallery).amax(dim=2) / encoder.temperature
    torch.nn.functional.cross_entropy(scores, torch.arange(4)).backward()
    return {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_are_same_with_and_without_the_cache(tmp_path: Path, dtype: torch.dtype) -> None:
    images, encoder = draw_images(tmp_path / "images", 10), SmallEncoder()
    cache = FeatureCache.open(tmp_path / "cache", encoder, dtype)
    fill(cache, images)
    cached = gradients(cache, encoder)
    encoded = gradients(EncodedTokens(encoder, images, dtype, CPU), encoder)
    assert cached.keys() == encoded.keys() == {"project", "word", "temperature"}
    for name, gradient in cached.items():
        assert gradient.abs().max() > 0
        assert gradient.equal(encoded[name])


def test_returned_tokens_are_a_copy(tmp_path: Path) -> None:
    images, encoder = draw_images(tmp_path / "images", 2), SmallEncoder()
    cache = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)
    fill(cache, images)
    before = cache.tokens(["i0", "i1", "i0"])
    cache.tokens(["i0", "i1", "i0"]).zero_()
    assert cache.tokens(["i0", "i1", "i0"]).equal(before)
    assert before[0].equal(before[2])
    assert cache.tokens([]).shape == (0, *encoder.tokens_shape)


def test_only_what_is_missing_is_computed(tmp_path: Path) -> None:
    images, encoder = draw_images(tmp_path / "images", 12), SmallEncoder()
    first = {image_id: images[image_id] for image_id in list(images)[:5]}
    cache = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)
    fill(cache, first)
    steps = []
    report = cache.fill(
        images, batch=4, device=CPU, workers=2, on_progress=lambda *step: steps.append(step)
    )
    assert report == CacheReport(n_computed=7, n_found=5, n_shared=0, unreadable={})
    assert steps == [(4, 7), (7, 7)]
    assert encoder.n_encoded == 12
    assert_cached_equals_encoded(cache, encoder, images, torch.float16)


def test_each_setting_has_its_own_folder(tmp_path: Path) -> None:
    encoders = [
        SmallEncoder(),
        SmallEncoder(seed=1),
        SmallEncoder(preprocessing=Preprocessing(size=8, pad_ratio=1.5)),
        SmallEncoder(preprocessing=Preprocessing(size=12)),
        SmallEncoder(preprocessing=Preprocessing(size=8, squeeze=True)),
        SmallEncoder(preprocessing=Preprocessing(size=8, mean=(0.5, 0.5, 0.5))),
        SmallEncoder(preprocessing=Preprocessing(size=8, std=(0.5, 0.5, 0.5))),
    ]
    folders = {
        FeatureCache.open(tmp_path, encoder, dtype).folder
        for encoder in encoders
        for dtype in DTYPES
    }
    assert len(folders) == len(encoders) * len(DTYPES)
    cache = FeatureCache.open(tmp_path, SmallEncoder(), torch.float16)
    assert cache.folder in folders
    assert fill(cache, {}) == CacheReport(0, 0, 0, {})
    assert list(tmp_path.iterdir()) == []  # neither opening nor filling with nothing writes
    with pytest.raises(HsfiqError, match=r"fp16, bf16, fp32, not as torch\.int8"):
        FeatureCache.open(tmp_path, SmallEncoder(), torch.int8)


def test_a_folder_describes_its_content(tmp_path: Path) -> None:
    cache = FeatureCache.open(tmp_path / "cache", SmallEncoder(), torch.bfloat16)
    fill(cache, draw_images(tmp_path / "images", 1))
    about = json.loads((cache.folder / "about.json").read_text())
    assert about["encoder"] == "small"
    assert about["frozen_id"] == SmallEncoder().frozen_id()
    assert about["preprocessing"]["size"] == 8
    assert about["dtype"] == "bfloat16"
    assert about["tokens_shape"] == [4, 6]


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HSFIQ_CACHE", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_root() == Path("/home/somebody/.cache/hsfiq/features")
    monkeypatch.setenv("HSFIQ_CACHE", "/data/features")
    assert default_root() == Path("/data/features")


pictures = st.integers(0, 5)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), pictures, pictures),
        st.tuples(st.just("break"), pictures, st.just(0)),
        st.tuples(st.just("remove"), pictures, st.just(0)),
        st.tuples(st.just("fill"), st.integers(1, 63), st.integers(1, 4)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0)),
    ),
    max_size=12,
)


@given(steps=steps)
def test_tokens_always_come_from_the_last_fill(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    encoder = SmallEncoder()
    cache = FeatureCache.open(folder / "cache", encoder, torch.float16)
    stored: dict[str, int | None] = {}  # what lies under an id now: a picture's seed, or rubbish
    last: dict[str, int] = {}  # and what lay there at the last fill
    kept: set[int] = set()
    by_seed = draw_images(folder, 6)

    for step, number, value in steps:
        path = folder / f"file{number}.png"
        if step == "put":
            path.write_bytes(by_seed[f"i{value}"].read_bytes())
            stored[f"file{number}"] = value
        elif step == "break":
            path.write_bytes(b"rubbish")
            stored[f"file{number}"] = None
        elif step == "remove":
            path.unlink(missing_ok=True)
            stored.pop(f"file{number}", None)
        elif step == "reopen":
            cache, last = FeatureCache.open(folder / "cache", encoder, torch.float16), {}
        else:
            requested = {f"file{i}": folder / f"file{i}.png" for i in range(6) if number >> i & 1}
            report = fill(cache, requested, batch=value)
            readable = {name: seed for name in requested if (seed := stored.get(name)) is not None}
            last = {name: seed for name, seed in last.items() if name not in requested} | readable
            assert report.unreadable.keys() == requested.keys() - readable.keys()
            assert report.n_found == sum(seed in kept for seed in readable.values())
            assert report.n_computed == len(set(readable.values()) - kept)
            assert report.n_found + report.n_computed + report.n_shared == len(readable)
            kept |= set(readable.values())

    assert encoder.n_encoded == len(kept)
    names = {name: by_seed[f"i{seed}"] for name, seed in last.items()}
    if names:
        assert_cached_equals_encoded(cache, encoder, names, torch.float16)
    for name in {f"file{i}" for i in range(6)} - last.keys():
        with pytest.raises(UnreadableInput, match=f"image {name}: has no tokens"):
            cache.tokens([name])


def test_unreadable_images_are_named_and_the_others_computed(tmp_path: Path) -> None:
    images, encoder = draw_images(tmp_path / "images", 5), SmallEncoder()
    images["i1"].write_bytes(b"")
    images["i2"].write_bytes(b"")
    images["i3"].write_bytes(images["i3"].read_bytes()[:90])
    images["absent"] = tmp_path / "images" / "absent.png"
    cache = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)
    report = fill(cache, images)
    assert (report.n_computed, report.n_found, report.n_shared) == (2, 0, 0)
    assert report.unreadable.keys() == {"i1", "i2", "i3", "absent"}
    for image_id, reason in report.unreadable.items():
        assert reason.startswith(f"{images[image_id]}: ")
        assert "\n" not in reason
    assert "has zero bytes" in report.unreadable["i1"]
    assert "has zero bytes" in report.unreadable["i2"]
    assert_cached_equals_encoded(
        cache, encoder, {name: images[name] for name in ("i0", "i4")}, torch.float16
    )
    with pytest.raises(UnreadableInput, match="image i3: has no tokens"):
        cache.tokens(["i0", "i3"])


def test_tokens_too_large_for_fp16_are_refused_and_fit_bf16(tmp_path: Path) -> None:
    images, encoder = draw_images(tmp_path / "images", 2), SmallEncoder(scale=1e6)
    small = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)
    with pytest.raises(UnreadableInput, match=r"i\d\.png: .* too large for fp16; store .* bf16"):
        fill(small, images)
    reopened = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)
    assert len(reopened.tokens([])) == 0
    large = FeatureCache.open(tmp_path / "cache", encoder, torch.bfloat16)
    assert fill(large, images).n_computed == 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_tokens_are_refused(tmp_path: Path, dtype: torch.dtype) -> None:
    encoder = SmallEncoder(scale=float("nan"))
    cache = FeatureCache.open(tmp_path / "cache", encoder, dtype)
    with pytest.raises(UnreadableInput, match="small gives tokens that are NaN or infinite"):
        fill(cache, draw_images(tmp_path / "images", 1))


def test_what_was_computed_before_an_error_is_kept(tmp_path: Path) -> None:
    images, encoder = draw_images(tmp_path / "images", 6), SmallEncoder()
    cache = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)

    def stop(n_done: int, _: int) -> None:
        if n_done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.fill(images, batch=2, device=CPU, workers=2, on_progress=stop)

    reopened = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)
    assert fill(reopened, images) == CacheReport(n_computed=2, n_found=4, n_shared=0, unreadable={})


def fill_share(
    distributed: Distributed, images: dict[str, Path], folder: Path
) -> tuple[int, CacheReport, Tensor]:
    """Fill a cache as one of several processes, all of which have begun before any goes on."""
    encoder = SmallEncoder()
    encode, n_encoded = encoder.image_tokens, 0

    def counted(pixels: Tensor) -> Tensor:
        nonlocal n_encoded
        if not n_encoded:
            distributed.wait()
        n_encoded += len(pixels)
        return encode(pixels)

    encoder.image_tokens = counted  # type: ignore[method-assign]
    cache = FeatureCache.open(folder, encoder, torch.float16)
    shares = {"rank": distributed.rank, "processes": distributed.size}
    report = cache.fill(images, batch=2, device=CPU, workers=1, **shares)
    return n_encoded, report, cache.tokens([name for name in images if name != "broken"])


def test_processes_share_the_images(tmp_path: Path) -> None:
    images = draw_images(tmp_path / "images", 24)
    images["broken"] = tmp_path / "images" / "broken.png"
    images["broken"].write_bytes(b"no picture")
    results = in_processes(3, fill_share, images, tmp_path / "cache")
    expected = EncodedTokens(SmallEncoder(), images, torch.float16, CPU)
    for n_encoded, report, tokens in results:
        assert n_encoded >= 2  # a batch; how many more depends on how fast the others are
        assert list(report.unreadable) == ["broken"]
        assert tokens.equal(expected.tokens(list(images)[:-1]))
    assert [rotated(range(6), rank, 3)[0] for rank in range(3)] == [0, 2, 4]
    reopened = FeatureCache.open(tmp_path / "cache", SmallEncoder(), torch.float16)
    del images["broken"]
    assert fill(reopened, images) == CacheReport(0, 24, 0, {})


def test_an_encoder_with_an_unexpected_shape_is_refused(tmp_path: Path) -> None:
    encoder = SmallEncoder()
    encoder.tokens_shape = (4, 7)
    cache = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)
    with pytest.raises(ValueError, match=r"gives \[1, 4, 6\], not \[4, 7\]"):
        fill(cache, draw_images(tmp_path / "images", 1))


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
    kind: str, changes: list[tuple[int, int]], end: int, tmp_path_factory: pytest.TempPathFactory
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
    assert prepared[0].reason == f"{images['i0']}: has just changed; run the command again"
    assert prepared[1].pixels is not None


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
