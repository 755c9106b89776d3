"""Images whose files no longer have the bytes that were recorded when the study was created."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image as Picture
from sqlalchemy import select

from hsfiq.annotate import image_copies
from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.image_copies import WebCopies
from hsfiq.annotate.owner.cards import changed_images_card
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Image, ImageChange
from hsfiq.images.check import sha256_of
from hsfiq.images.folder import CHANGED, Fault
from hsfiq.study.images import accept_changed, check_and_record, check_shown, shown_images
from tests.annotate.page_requests import token_of, view
from tests.annotate.served_studies import Place, enrol, make_study


class Served:
    """A study whose digests are recorded, the page of a participant, and its reference's file."""

    def __init__(self, client: TestClient, services: Services, place: Place) -> None:
        self.client, self.services = client, services
        self.database, self.study = services.database, ""
        with self.database.reading() as session:
            self.study = list_studies(session)[0].name
        check_and_record(self.database, self.study)
        reference = view(enrol(client, self.database))["reference"]
        self.address = f"/image/{reference['token']}"
        with self.database.reading() as session:
            token = token_of(reference)
            name = session.scalars(select(Image.name).where(Image.token == token)).one()
        self.file = place.images / f"{name}.png"

    def answer(self, kind: str = "") -> tuple[int, str]:
        """The status, and the colour of the picture's middle or the reason."""
        answer = self.client.get(f"{self.address}{kind}")
        if answer.status_code != 200:
            return answer.status_code, str(answer.json()["error"])
        picture = Picture.open(BytesIO(answer.content)).convert("RGB")
        middle = picture.getpixel((picture.width // 2, picture.height // 2))
        return 200, "red" if middle == pytest.approx((255, 0, 0), abs=8) else "other"

    def changed_files(self) -> list[str]:
        """What the dashboard shows."""
        self.services.images.changes.store(self.database)
        with self.database.reading() as session:
            study = list_studies(session)[0]
            card = changed_images_card(session, study, self.services.images)
        return [] if card is None else [note.partition(": ")[2] for note in card.notes[1:]]


@pytest.fixture
def served(place: Place) -> Iterator[Served]:
    database = make_study(place)
    services = Services.of(database)
    with TestClient(plain_app(services), follow_redirects=False) as client:
        yield Served(client, services, place)
    database.close()


def paint(path: Path, colour: str = "red") -> None:
    """Replace a file as most programs do: by another one of the same name."""
    draft = path.with_name("draft.part")
    Picture.new("RGB", (60, 80), colour).save(draft, "PNG")
    draft.replace(path)


def test_a_changed_file_is_not_shown_and_the_owner_sees_its_path(served: Served) -> None:
    assert served.answer()[0] == 200
    assert served.changed_files() == []
    paint(served.file)
    for kind in ("", "/full"):
        assert served.answer(kind) == (404, CHANGED.why)
    assert view(served.client)["reference"]["missing"]
    assert served.changed_files() == [str(served.file)]


def test_a_restored_file_is_shown_again(served: Served) -> None:
    original = served.file.read_bytes()
    first = served.client.get(served.address)
    paint(served.file)
    assert served.answer()[0] == 404
    served.file.write_bytes(original)
    again = served.client.get(served.address)
    assert (again.status_code, again.content) == (200, first.content)
    assert served.changed_files() == []


def test_an_accepted_file_has_another_address(served: Served) -> None:
    old = served.address
    assert served.answer()[0] == 200
    paint(served.file)
    assert served.changed_files() == []
    assert served.answer()[0] == 404
    with served.database.reading() as session:
        states = check_shown(shown_images(session, list_studies(session)[0]))
    accept_changed(served.database, states)
    assert served.client.get(old).status_code == 404
    served.address = f"/image/{view(served.client)['reference']['token']}"
    assert served.address != old
    assert served.answer() == (200, "red")
    assert served.answer("/full") == (200, "red")
    assert served.changed_files() == []


def test_a_touched_or_moved_file_keeps_its_copies(tmp_path: Path) -> None:
    source, copies = tmp_path / "source.png", WebCopies(tmp_path / "cache")
    paint(source)
    recorded = sha256_of(source)
    assert isinstance(recorded, str)
    first = copies.of(source, "thumbnail", recorded)
    os.utime(source, (1, 1))
    moved = source.rename(tmp_path / "moved.png")
    assert WebCopies(tmp_path / "cache").of(moved, "thumbnail", recorded) == first
    assert copies.has(moved, "thumbnail", recorded)


def test_a_file_is_read_for_its_digest_once_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copies = tmp_path / "source.png", WebCopies(tmp_path / "cache")
    paint(source)
    recorded = sha256_of(source)
    assert isinstance(recorded, str)
    copies.of(source, "thumbnail", recorded)
    monkeypatch.setattr(image_copies, "sha256_of", None)
    assert isinstance(copies.of(source, "thumbnail", recorded), Path)


def test_a_file_that_is_replaced_while_it_is_decoded_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copies = tmp_path / "source.png", WebCopies(tmp_path / "cache")
    paint(source)
    recorded = sha256_of(source)
    assert isinstance(recorded, str)
    reduced = image_copies.reduced

    def replaced(path: Path, size: image_copies.ImageSize) -> object:
        paint(source, "blue")
        return reduced(path, size)

    with monkeypatch.context() as patch:
        patch.setattr(image_copies, "reduced", replaced)
        assert copies.of(source, "thumbnail", recorded) == CHANGED
    assert not any((tmp_path / "cache").iterdir())
    paint(source)
    assert not isinstance(copies.of(source, "thumbnail", recorded), Fault)


def test_the_server_stores_what_it_finds(served: Served) -> None:
    changes = served.services.images.changes
    paint(served.file)
    with changes.stored_in(served.database):
        served.answer()
        while not stored_changes(served.database):
            threading.Event().wait(0.01)
    served.answer()
    changes.store(served.database)
    assert len(stored_changes(served.database)) == 1


def stored_changes(database: Database) -> list[int]:
    with database.reading() as session:
        return list(session.scalars(select(ImageChange.image_id)))
