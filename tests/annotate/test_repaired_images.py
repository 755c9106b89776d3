"""Images that are added, repaired, changed or removed while the study is served."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image as Picture
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.image_copies import WebCopies
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, Image
from hsfiq.images.folder import Fault
from tests.annotate.page_requests import token_of, view
from tests.annotate.served_studies import Place, enrol, make_study


class Reference:
    """The reference image of the first question, and its file."""

    def __init__(self, client: TestClient, database: Database, place: Place) -> None:
        self.client = client
        token = token_of(view(client)["reference"])
        with database.reading() as session:
            name = session.scalars(select(Image.name).where(Image.token == token)).one()
        self.file = place.images / f"{name}.png"

    @property
    def address(self) -> str:
        """That of the thumbnail, as a view has it now."""
        return f"/image/{view(self.client)['reference']['token']}"

    @property
    def is_missing(self) -> bool:
        return bool(view(self.client)["reference"]["missing"])

    def size(self, kind: str = "") -> tuple[int, int]:
        answer = self.client.get(f"{self.address}{kind}")
        assert answer.status_code == 200
        return Picture.open(BytesIO(answer.content)).size


@pytest.fixture
def database(place: Place) -> Iterator[Database]:
    database = make_study(place)
    yield database
    database.close()


@pytest.fixture
def reference(database: Database, place: Place) -> Iterator[Reference]:
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as client:
        yield Reference(enrol(client, database), database, place)


def save(path: Path, size: tuple[int, int] = (60, 80)) -> None:
    Picture.new("RGB", size, "red").save(path)


def test_a_missing_image_is_found_when_it_has_been_added(reference: Reference) -> None:
    reference.file.unlink()
    assert reference.is_missing
    assert reference.client.get(reference.address).status_code == 404
    save(reference.file)
    assert not reference.is_missing
    assert reference.size() == (60, 80)


@pytest.mark.parametrize("place_of", ["{stem}.jpg", "new/folder/{stem}.webp"])
def test_it_is_found_under_another_name_and_in_a_new_folder(
    reference: Reference, place_of: str
) -> None:
    reference.file.unlink()
    assert reference.is_missing
    path = reference.file.parent / place_of.format(stem=reference.file.stem)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(path)
    assert not reference.is_missing


def test_a_broken_image_is_shown_when_it_has_been_repaired(reference: Reference) -> None:
    reference.file.write_bytes(b"broken")
    assert reference.is_missing
    save(reference.file)
    assert not reference.is_missing
    assert reference.size("/full") == (60, 80)


def test_a_file_that_readers_prefer_replaces_a_broken_one(reference: Reference) -> None:
    reference.file.write_bytes(b"broken")
    assert reference.is_missing
    save(reference.file.with_suffix(".webp"))
    assert not reference.is_missing


def test_a_folder_that_appears_later(reference: Reference, place: Place) -> None:
    moved = place.images.rename(place.folder / "moved")
    assert reference.is_missing
    moved.rename(place.images)
    assert not reference.is_missing


def test_another_image_folder_of_the_dataset(
    reference: Reference, place: Place, database: Database
) -> None:
    moved = place.images.rename(place.folder / "moved")
    assert reference.is_missing
    with database.writing() as session:
        session.scalars(select(Dataset)).one().image_root = str(moved)
    assert not reference.is_missing


def test_a_changed_image_has_another_address(reference: Reference) -> None:
    """It has no recorded digest, so the page shows what its file holds now."""
    first = reference.address
    assert reference.client.get(first).status_code == 200
    assert reference.address == first
    save(reference.file)
    assert reference.client.get(first).status_code == 404
    assert reference.address != first
    assert reference.size() == reference.size("/full") == (60, 80)


def test_a_change_that_keeps_size_and_date_is_noticed(tmp_path: Path) -> None:
    source, copies = tmp_path / "source.bmp", WebCopies(tmp_path / "cache")
    Picture.new("RGB", (30, 40), "red").save(source)
    before, first = source.stat(), copies.of(source, "full")
    Picture.new("RGB", (30, 40), "blue").save(source)
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    while source.stat().st_ctime_ns == before.st_ctime_ns:  # within one tick of the clock
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = copies.of(source, "full")
    assert isinstance(first, Path)
    assert isinstance(second, Path)
    assert first.read_bytes() != second.read_bytes()


def test_a_disk_that_fails_once_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copies = tmp_path / "source.png", WebCopies(tmp_path / "cache")
    save(source)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", fail_to_read)
        fault = copies.of(source, "thumbnail")
    assert isinstance(fault, Fault)
    assert fault.kind == "unreadable"
    assert isinstance(copies.of(source, "thumbnail"), Path)


def fail_to_read(*_: object) -> None:
    raise OSError(5, "Input/output error")


def test_a_deleted_copy_is_made_again(tmp_path: Path) -> None:
    source, copies = tmp_path / "source.png", WebCopies(tmp_path / "cache")
    save(source)
    copies.of(source, "thumbnail")
    shutil.rmtree(tmp_path / "cache")
    again = copies.of(source, "thumbnail")
    assert isinstance(again, Path)
    assert again.is_file()
