"""Served images: made once, without metadata of the original file."""

from __future__ import annotations

import io
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image as Picture
from PIL.PngImagePlugin import PngInfo
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.image_copies import LONGEST_SIDE, ImageSize, WebCopies, cache_folder
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Image
from hsfiq.images.folder import Fault
from tests.annotate.page_requests import token_of, view
from tests.annotate.served_studies import Place, enrol, make_study

SECRET = b"telltale-secret"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cache = tmp_path / "cache"
    cache.mkdir()
    return cache


def opened(path: Path | Fault) -> Picture.Image:
    assert isinstance(path, Path)
    return Picture.open(io.BytesIO(path.read_bytes()))


def test_a_thumbnail_is_small_and_the_full_image_complete(tmp_path: Path, folder: Path) -> None:
    source = tmp_path / "source.png"
    picture = Picture.effect_noise((900, 1200), 60).convert("RGB")
    note = PngInfo()
    note.add_text("Comment", SECRET.decode())
    picture.save(source, pnginfo=note)
    thumbnails = WebCopies(folder)
    small, full = (opened(thumbnails.of(source, kind)) for kind in ("thumbnail", "full"))
    assert (small.format, small.size) == ("WEBP", (384, LONGEST_SIDE["thumbnail"]))
    assert full.convert("RGB").tobytes() == picture.tobytes()
    assert not any(SECRET in path.read_bytes() for path in folder.iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_only_the_owner_can_enter_the_folder_of_the_copies(tmp_path: Path) -> None:
    WebCopies(tmp_path / "new" / "cache")
    assert stat.S_IMODE((tmp_path / "new" / "cache").stat().st_mode) == 0o700


def test_metadata_is_removed_and_the_orientation_applied(tmp_path: Path, folder: Path) -> None:
    source = tmp_path / "source.jpg"
    exif = Picture.Exif()
    exif[0x0112] = 6  # lies on its side
    exif[0x010E] = SECRET.decode()
    Picture.new("RGB", (40, 20), "red").save(source, exif=exif, comment=SECRET)
    assert SECRET in source.read_bytes()
    sizes: list[ImageSize] = ["thumbnail", "full"]
    for size in sizes:
        web_copy = WebCopies(folder).of(source, size)
        assert opened(web_copy).size == (20, 40)
        assert not opened(web_copy).getexif()
        assert isinstance(web_copy, Path)
        assert SECRET not in web_copy.read_bytes()


def test_a_copy_is_made_once(tmp_path: Path, folder: Path) -> None:
    source = tmp_path / "source.png"
    Picture.new("RGB", (30, 40), "red").save(source)
    first = WebCopies(folder).of(source, "thumbnail")
    assert isinstance(first, Path)
    date = first.stat().st_mtime_ns
    assert WebCopies(folder).of(source, "thumbnail") == first
    assert first.stat().st_mtime_ns == date
    Picture.new("RGB", (60, 80), "blue").save(source)
    assert WebCopies(folder).of(source, "thumbnail") != first


@pytest.mark.parametrize("content", [
    b"",
    b"no image at all",
    b"\x89PNG\r\n\x1a\n" + b"\0" * 40,
    b"\xff\xd8\xff\xe0" + b"\0" * 400,
    b"RIFF\x10\0\0\0WEBPVP8 ",
    b"<svg xmlns='http://www.w3.org/2000/svg'/>",
], ids=["empty", "text", "png", "jpeg", "webp", "svg"])  # fmt: skip
def test_a_file_that_is_not_an_image(tmp_path: Path, folder: Path, content: bytes) -> None:
    source = tmp_path / "source.png"
    source.write_bytes(content)
    assert isinstance(WebCopies(folder).of(source, "thumbnail"), Fault)
    assert list(folder.iterdir()) == []


def test_a_truncated_image(tmp_path: Path, folder: Path) -> None:
    source = tmp_path / "source.jpg"
    Picture.effect_noise((300, 400), 60).save(source)
    source.write_bytes(source.read_bytes()[:4000])
    assert isinstance(WebCopies(folder).of(source, "thumbnail"), Fault)


def test_without_a_writable_folder(tmp_path: Path) -> None:
    source = tmp_path / "source.png"
    Picture.new("RGB", (30, 40), "red").save(source)
    blocked = tmp_path / "file"
    blocked.write_text("")
    copies = WebCopies(blocked / "cache")
    assert opened(copies.of(source, "thumbnail")).size == (30, 40)


@pytest.fixture
def annotator_and_database(place: Place) -> Iterator[tuple[TestClient, Database]]:
    """An annotator of a study with separate images, and its database."""
    database = make_study(place)
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as client:
        yield enrol(client, database), database
    database.close()


def test_copies_are_stored_beside_the_database(
    annotator_and_database: tuple[TestClient, Database], place: Place
) -> None:
    client, database = annotator_and_database
    current_view = view(client)
    images = [current_view["reference"], *current_view["sets"][0], *current_view["sets"][1]]
    assert cache_folder(database) == place.folder / "study.db.thumbnails"
    assert len(list(cache_folder(database).glob("*.webp"))) == len(
        {image["token"] for image in images}
    )


def test_a_broken_file_counts_as_missing(
    annotator_and_database: tuple[TestClient, Database], place: Place
) -> None:
    client, database = annotator_and_database
    reference = view(client)["reference"]
    address, token = reference["token"], token_of(reference)
    with database.reading() as session:
        name = session.scalars(select(Image.name).where(Image.token == token)).one()
    (place.images / f"{name}.png").write_bytes(b"broken")
    shutil.rmtree(cache_folder(database))
    with TestClient(plain_app(Services.of(database)), cookies=client.cookies) as new_client:
        assert view(new_client)["reference"]["missing"] is True
        for path in (f"/image/{address}", f"/image/{address}/full"):
            assert new_client.get(path).status_code == 404


@pytest.mark.parametrize("token", [
    "..%2f..%2fetc%2fpasswd", "%2e%2e/study.db", "../study.db", "telltale-001", "0" * 32, "%00",
    "practice-99", "practice--1", "practice-1.webp",
])  # fmt: skip
def test_no_other_file_is_served(
    annotator_and_database: tuple[TestClient, Database], token: str
) -> None:
    client, _ = annotator_and_database
    for path in (f"/image/{token}", f"/image/{token}/full", f"/image/{token}/full/../../x"):
        assert client.get(path).status_code == 404
