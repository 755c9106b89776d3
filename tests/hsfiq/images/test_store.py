"""Images in stores: Moto's S3 in a process, fsspec's memory, and a web server with a listing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.browsing import wait_until
from benchmarks.stores import KEY, SECRET
from hsfiq.errors import UnreadableInput
from hsfiq.images import store
from hsfiq.images.check import sha256_of
from hsfiq.images.decode import UndecodableImage, decoded
from hsfiq.images.folder import Fault, ImageFolder, OwnImages
from hsfiq.images.store import (
    AWAY,
    StoreAddress,
    StoreAway,
    StoreFolder,
    StoreKind,
    final_error,
    listed_lines,
    open_images,
    root_named,
)
from hsfiq.images.stored_copies import BoundedFolder, read_copy, write_copy
from tests.stores import BUCKET, S3, picture

PHOTOS = {f"a/b{n}.jpg": picture(n) for n in range(4)} | {"a/00007.png": picture(7)}
OTHERS = {"a/readme.txt": b"no image", "ab/c.jpg": picture(9)}


def opened(text: str) -> StoreFolder:
    images = open_images(root_named(text))
    assert isinstance(images, StoreFolder)
    return images


def for_a_server(text: str) -> StoreFolder:
    return StoreFolder(StoreAddress(text), waits=False)


@pytest.fixture
def address(s3: S3) -> str:
    """A bucket of this test alone."""
    bucket = f"test-{uuid4().hex}"
    s3.put(PHOTOS | OTHERS, bucket)
    return f"s3://{bucket}"


def put(s3: S3, address: str, key: str, content: bytes) -> None:
    s3.client().put_object(Bucket=address.removeprefix("s3://"), Key=key, Body=content)


# ----------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "text",
    [
        f"s3://{KEY}:{SECRET}@bucket/a",
        f"https://{SECRET}@example.com/list.txt",
        f"https://example.com/list.txt?X-Amz-Signature={SECRET}",
        f"az://container/a#{SECRET}",
    ],
)
def test_secrets_in_an_address_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UnreadableInput, match="leave them out") as error:
        root_named(text)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["ftp://host/a", "s3:///a", "http://example.com/list", "hf://models/a/b", "hf://datasets/a"],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(UnreadableInput):
        root_named(text)


@given(st.text("abc/.~é 0:", max_size=20))
def test_paths_are_folders(text: str) -> None:
    root = root_named(f"/{text}")
    assert root == Path(f"/{text}")


NAMES = st.lists(st.text("ab é", min_size=1, max_size=5).map(str.strip), min_size=1, max_size=3)
PATHS = NAMES.filter(all).map("/".join).map("{}.jpg".format)


@given(st.lists(PATHS, unique=True, max_size=8))
def test_a_listing_has_relative_paths_or_addresses(paths: list[str]) -> None:
    text = "\r\n\n".join([*paths, "https://other.example/x/y.png"])
    listed = {path: location for path, location, _, _ in listed_lines("https://h/d/list.txt", text)}
    assert listed == {path: f"https://h/d/{path}" for path in paths} | {
        "other.example/x/y.png": "https://other.example/x/y.png"
    }


@pytest.mark.parametrize(
    "line",
    ["http://169.254.169.254/a.jpg", "file:///etc/a.jpg", "https://u:p@h/a.jpg", "a.jpg?key=1"],
)
def test_a_listing_leads_nowhere_else(line: str) -> None:
    with pytest.raises(UnreadableInput, match="line 2"):
        list(listed_lines("https://h/d/list.txt", f"a.jpg\n{line}\n"))


# ------------------------------------------------------------------------- the same as a folder


def test_a_store_has_what_a_folder_has(s3: S3, address: str, tmp_path: Path) -> None:
    for key, content in (PHOTOS | OTHERS).items():
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_bytes(content)
    folder, images = ImageFolder(tmp_path / "a"), opened(f"{address}/a/")
    assert images.names() == folder.names() == ["00007.png", "b0.jpg", "b1.jpg", "b2.jpg", "b3.jpg"]
    assert len(images) == len(folder) == 5
    for name in ("b0", "b1.jpg", "00007", "readme", "c", "../ab/c"):
        ours, theirs = images.find(name), folder.find(name)
        assert (ours is None) == (theirs is None), name
        if ours is not None and theirs is not None:
            assert sha256_of(ours) == sha256_of(theirs)
            assert images.name_of(ours) == folder.name_of(theirs)
    own = OwnImages(images)
    assert own.id_of("b2") == OwnImages(folder).id_of("b2") == "b2.jpg"


def test_memory_is_a_store_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(store.KINDS, "memory", StoreKind("fsspec", (), {}))
    files = fsspec.filesystem("memory")
    files.pipe({f"/shop/{key}": content for key, content in PHOTOS.items()})
    images = opened("memory://shop/a")
    found = images.find("b1")
    assert found is not None
    assert found.read_bytes() == PHOTOS["a/b1.jpg"]
    files.pipe("/shop/a/b1.jpg", picture(99))
    assert found.read_bytes() == PHOTOS["a/b1.jpg"]  # as it was listed
    again = opened("memory://shop/a").find("b1")
    assert again is not None
    assert again.version != found.version
    assert again.read_bytes() == picture(99)


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """A web server of this folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    site = tmp_path / "site"
    (site / "a").mkdir(parents=True)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", site
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_web_server_with_a_listing(web: tuple[str, Path]) -> None:
    url, site = web
    for key, content in PHOTOS.items():
        (site / key).write_bytes(content)
    lines = [f"{url}/a/b0.jpg", "a/b1.jpg", "a/b2.jpg", "", "a/gone.jpg", "a/notes.txt"]
    (site / "list.txt").write_text("\n".join(lines), encoding="utf-8")
    images = opened(f"{url}/list.txt")
    assert images.names() == ["a/b0.jpg", "a/b1.jpg", "a/b2.jpg", "a/gone.jpg"]
    found, gone = images.find("a/b0.jpg"), images.find("gone")
    assert found is not None
    assert gone is not None
    assert found.read_bytes() == PHOTOS["a/b0.jpg"]
    assert sha256_of(gone) == Fault("missing", "has been removed")
    # A command reads again what has no version.
    (site / "a" / "b0.jpg").write_bytes(picture(50))
    changed = opened(f"{url}/list.txt").find("a/b0.jpg")
    assert changed is not None
    assert changed.read_bytes() == picture(50)


# ------------------------------------------------------------------------------- changes, the cache


def test_a_changed_object_is_noticed(s3: S3, address: str) -> None:
    before = opened(f"{address}/a").find("b0")
    assert before is not None
    digest = sha256_of(before)
    put(s3, address, "a/b0.jpg", picture(77))
    after = opened(f"{address}/a").find("b0")
    assert after is not None
    assert after == before  # the same image
    assert after.version != before.version
    assert sha256_of(after) != digest


def test_what_was_read_is_on_the_disk(s3: S3, address: str, tmp_path: Path) -> None:
    image = opened(address).find("a/b0.jpg")
    assert image is not None
    content = image.read_bytes()
    s3.proxy.reset()
    assert image.read_bytes() == content
    assert opened(address).find("a/b0.jpg") == image  # of the listing on the disk
    cached = [path.read_bytes() for path in (tmp_path / "cache" / "hsfiq" / "stores").iterdir()]
    assert any(content in each for each in cached)
    for each in cached:
        assert KEY.encode() not in each
        assert SECRET.encode() not in each


def test_a_damaged_file_of_the_cache_is_read_again(s3: S3, address: str, tmp_path: Path) -> None:
    image = opened(address).find("a/b0.jpg")
    assert image is not None
    content = image.read_bytes()
    for path in (tmp_path / "cache" / "hsfiq" / "stores").glob("*.image"):
        path.write_bytes(content[:-40])
    assert image.read_bytes() == content


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30), st.data())
def test_the_cache_stays_within_its_bound(sizes: list[int], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as name:
        folder = Path(name)
        patch.setenv("HSFIQ_IMAGE_CACHE_GB", "0.000001")  # 1,000 bytes
        bounded, times = BoundedFolder(folder), {}
        for number, size in enumerate(sizes):
            path = folder / f"{number}.image"
            write_copy(path, bytes(size - 1))
            times[path] = data.draw(st.integers(1, 10**6))
            os.utime(path, (times[path],) * 2)
        bounded.delete_excess()
        kept = set(folder.iterdir())
        assert sum(path.stat().st_size for path in kept) <= 1000
        gone = times.keys() - kept
        if gone and kept:
            assert max(times[path] for path in gone) <= min(times[path] for path in kept)
        if sum(size + 31 for size in sizes) <= 1000:
            assert not gone


def test_reading_a_copy_notes_its_use(tmp_path: Path) -> None:
    path = tmp_path / "x.image"
    write_copy(path, b"content")
    os.utime(path, (1000, 1000))
    assert read_copy(path) == b"content"
    assert time.time() - path.stat().st_mtime < 60


@pytest.mark.parametrize("size", ["0", "-1", "much", "nan", "inf"])
def test_the_bound_is_a_size(size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSFIQ_IMAGE_CACHE_GB", size)
    with pytest.raises(UnreadableInput, match="HSFIQ_IMAGE_CACHE_GB"):
        BoundedFolder(tmp_path)


# ------------------------------------------------------------------------- a store that is away


def test_a_store_that_refuses_connections(s3: S3, address: str) -> None:
    images = for_a_server(address)
    s3.proxy.reset()
    first, second = images.find("a/b0.jpg"), images.find("a/b1.jpg")
    assert first is not None
    assert second is not None
    with pytest.raises(StoreAway):
        first.read_bytes()
    begun = time.monotonic()
    assert sha256_of(second) == AWAY  # at once, without trying
    with pytest.raises(UndecodableImage), decoded(first):
        pass
    assert time.monotonic() - begun < 0.5
    s3.proxy.recover()
    wait_until(lambda: not isinstance(sha256_of(second), Fault), "the store", 30)
    assert first.read_bytes() == PHOTOS["a/b0.jpg"]


@pytest.mark.slow
def test_a_silent_store_keeps_nobody_waiting(s3: S3, address: str) -> None:
    images = for_a_server(address)
    s3.proxy.fall_silent()
    waited = []

    def read(name: str) -> None:
        begun = time.monotonic()
        image = images.find(name)
        assert image is not None
        assert sha256_of(image) == AWAY
        waited.append(time.monotonic() - begun)

    readers = [
        threading.Thread(target=read, args=(name,)) for _ in range(20) for name in images.names()
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(waited) == len(readers)
    assert max(waited) < store.PATIENCE + 5
    assert sum(wait > 2 for wait in waited) <= store.AT_ONCE
    s3.proxy.recover()
    first = images.find("a/b0.jpg")
    assert first is not None
    wait_until(lambda: not isinstance(sha256_of(first), Fault), "the store", 60)


def test_a_server_lists_again(s3: S3, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images = for_a_server(f"{address}/a")
    put(s3, address, "a/new.jpg", picture(1))
    assert images.find("new") is None
    assert not images.refresh()  # it was listed less than a minute ago
    monkeypatch.setattr(store, "RELIST_MISSING_AFTER", 0.0)
    images.refresh()
    wait_until(lambda: images.find("new") is not None, "the new image", 20)


def test_a_server_begins_without_its_store(s3: S3, address: str) -> None:
    s3.proxy.reset()
    images = for_a_server(address)
    assert not images.is_listed
    assert images.find("a/b0.jpg") is None
    s3.proxy.recover()
    wait_until(lambda: images.refresh() or images.is_listed, "the listing", 30)
    assert images.find("a/b0.jpg") is not None


# --------------------------------------------------------------------------------- wrong input


def test_a_bucket_that_does_not_exist(s3: S3) -> None:
    with pytest.raises(UnreadableInput, match="no such bucket"):
        opened("s3://nowhere/a")


def test_a_store_that_does_not_answer(s3: S3) -> None:
    s3.proxy.reset()
    with pytest.raises(UnreadableInput, match="does not answer"):
        opened(f"s3://{BUCKET}")


def test_missing_credentials_are_named(
    s3: S3, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(UnreadableInput, match="set AWS_SECRET_ACCESS_KEY"):
        opened(address)


def test_a_missing_package_is_named(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UnreadableInput, match=r"hsfiq\[stores\]"):
        opened(f"s3://{BUCKET}")


class ClientError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"refused for {SECRET}")
        self.status = status


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PermissionError(SECRET), PermissionError),
        (ClientError(403), PermissionError),
        (ClientError(404), FileNotFoundError),
        (FileNotFoundError(SECRET), FileNotFoundError),
    ],
)
def test_errors_that_stay_have_none_of_the_clients_words(
    error: Exception, kind: type[Exception]
) -> None:
    found = final_error(error)
    assert isinstance(found, kind)
    assert SECRET not in str(found)


@pytest.mark.parametrize("error", [ClientError(503), TimeoutError(), ConnectionResetError()])
def test_other_errors_are_tried_again(error: Exception) -> None:
    assert final_error(error) is None
