"""Served images: copies without metadata, of files of every kind, also of files that change."""

from __future__ import annotations

import io
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image as Picture
from PIL.PngImagePlugin import PngInfo
from sqlalchemy import select

from hsfiq.annotate import image_copies
from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.image_copies import LONGEST_SIDE, ImageSize, WebCopies, cache_folder
from hsfiq.annotate.studio.figures import changed_images_cards
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Dataset, Image, ImageChange
from hsfiq.images.check import sha256_of
from hsfiq.images.display import find_fault
from hsfiq.images.folder import CHANGED, Fault
from hsfiq.study.images import accept_changed, check_and_record, check_shown, shown_images
from tests.annotate.page_requests import token_of, view
from tests.annotate.served_studies import (
    Place,
    all_of,
    browser_of,
    enrol,
    make_study,
    plain_browser,
    the_one,
    update_all,
)
from tests.annotate.studio.shown_figures import english
from tests.hsfiq.images.pictures import (
    COLOURS,
    HEIGHT,
    REFUSED,
    SHOWN,
    WIDTH,
    are_close,
    colours,
    encoded,
    quarters,
)

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


def test_a_copy_is_made_once_and_again_if_it_was_deleted(tmp_path: Path, folder: Path) -> None:
    source = tmp_path / "source.png"
    Picture.new("RGB", (30, 40), "red").save(source)
    first = WebCopies(folder).of(source, "thumbnail")
    assert isinstance(first, Path)
    date = first.stat().st_mtime_ns
    copies = WebCopies(folder)
    assert copies.of(source, "thumbnail") == first
    assert first.stat().st_mtime_ns == date
    shutil.rmtree(folder)
    again = copies.of(source, "thumbnail")
    assert isinstance(again, Path)
    assert again.is_file()
    Picture.new("RGB", (60, 80), "blue").save(source)
    assert copies.of(source, "thumbnail") != first


def test_a_file_that_is_not_an_image(tmp_path: Path, folder: Path) -> None:
    source, noise = tmp_path / "source.png", Picture.effect_noise((300, 400), 60)
    truncated = (encoded(noise, "JPEG")[:4000], b"RIFF\x10\0\0\0WEBPVP8 ")
    for content in (b"", b"no image at all", *truncated):
        source.write_bytes(content)
        assert isinstance(WebCopies(folder).of(source, "thumbnail"), Fault)
        assert list(folder.iterdir()) == []


def test_without_a_writable_folder(tmp_path: Path) -> None:
    source, blocked = tmp_path / "source.png", tmp_path / "file"
    Picture.new("RGB", (30, 40), "red").save(source)
    blocked.write_text("")
    copies = WebCopies(blocked / "cache")
    assert opened(copies.of(source, "thumbnail")).size == (30, 40)
    WebCopies(tmp_path / "new" / "cache")  # only the owner can enter it
    assert stat.S_IMODE((tmp_path / "new" / "cache").stat().st_mode) == 0o700


def test_no_other_file_is_served(database: Database) -> None:
    client = enrol(plain_browser(database), database)
    for token in ("..%2f..%2fetc%2fpasswd", "%2e%2e/study.db", "../study.db", "telltale-001",
                  "0" * 32, "%00", "practice-99", "practice--1", "practice-1.webp"):  # fmt: skip
        for path in (f"/image/{token}", f"/image/{token}/full", f"/image/{token}/full/../../x"):
            assert client.get(path).status_code == 404, path


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, TestClient]]:
    """A study that is served while its images are replaced."""
    place = Place(tmp_path_factory.mktemp("formats"))
    database = make_study(place)
    with TestClient(plain_app(Services.of(database)), follow_redirects=False) as client:
        yield place, enrol(client, database)
    database.close()


def replace_reference(
    place: Place, client: TestClient, suffix: str, content: bytes
) -> tuple[str, Path]:
    """Replace the file of the first question's reference image; its address and its new file."""
    token = token_of(view(client)["reference"])
    database: Database = open_database(place.url)
    name = the_one(database, select(Image.name).where(Image.token == token))
    database.close()
    for old in place.images.glob(f"{name}.*"):
        old.unlink()
    file = place.images / f"{name}{suffix}"
    file.write_bytes(content)
    return f"/image/{view(client)['reference']['token']}", file


def picture_at(client: TestClient, address: str) -> Picture.Image:
    answer = client.get(address)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/webp"
    picture = Picture.open(BytesIO(answer.content))
    assert picture.format == "WEBP"
    return picture


@pytest.mark.parametrize("kind", SHOWN)
def test_an_image_is_shown_right(study: tuple[Place, TestClient], kind: str) -> None:
    place, client = study
    suffix, content, expected = SHOWN[kind]
    address, _ = replace_reference(place, client, suffix, content())
    assert view(client)["reference"]["missing"] is False
    for path in (address, f"{address}/full"):
        picture = picture_at(client, path)
        assert (picture.mode, picture.size) == ("RGB", (WIDTH, HEIGHT))
        assert are_close(colours(picture), expected), colours(picture)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", REFUSED)
def test_an_image_is_refused_with_the_reason(study: tuple[Place, TestClient], kind: str) -> None:
    place, client = study
    suffix, content, fault_kind = REFUSED[kind]
    address, file = replace_reference(place, client, suffix, content())
    fault = find_fault(file)
    assert fault is not None
    assert fault.kind == fault_kind
    assert view(client)["reference"]["missing"] is True
    for path in (address, f"{address}/full"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.headers["cache-control"] == "no-store"
        assert answer.json() == {"error": fault.why}


LARGE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "JPEG": (".jpg", lambda: encoded(quarters("RGB", COLOURS, (7300, 5480)), "JPEG")),
    "PNG wider than WebP allows": (
        ".png",
        lambda: encoded(quarters("RGB", COLOURS, (20_000, 2_000)), "PNG", compress_level=1),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_image_of_40_megapixels_is_shown_right(study: tuple[Place, TestClient], kind: str) -> None:
    place, client = study
    suffix, content = LARGE[kind]
    address, _ = replace_reference(place, client, suffix, content())
    for path, size in ((address, "thumbnail"), (f"{address}/full", "full")):
        picture = picture_at(client, path)
        assert max(picture.size) == LONGEST_SIDE[size]
        assert are_close(colours(picture), COLOURS), colours(picture)


class Reference:
    """The reference image of the first question, and its file."""

    def __init__(self, client: TestClient, database: Database, place: Place) -> None:
        self.client = client
        token = token_of(view(client)["reference"])
        name = the_one(database, select(Image.name).where(Image.token == token))
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
    with closing(make_study(place)) as database:
        yield database


@pytest.fixture
def reference(database: Database, place: Place) -> Reference:
    return Reference(enrol(plain_browser(database), database), database, place)


def save(path: Path, size: tuple[int, int] = (60, 80)) -> None:
    Picture.new("RGB", size, "red").save(path)


def test_missing_and_broken_images_are_found_when_they_have_been_added_or_repaired(
    reference: Reference, place: Place, database: Database
) -> None:
    """Under any name and in any folder that a reader finds."""
    shown = view(reference.client)
    images = [shown["reference"], *shown["sets"][0], *shown["sets"][1]]
    copies = cache_folder(database)
    assert copies == place.folder / "study.db.thumbnails"
    assert len(list(copies.glob("*.webp"))) == len({image["token"] for image in images})
    file = reference.file
    for name in (f"{file.stem}.jpg", f"new/folder/{file.stem}.webp", file.name):
        file.unlink()
        assert reference.is_missing, name
        assert reference.client.get(reference.address).status_code == 404
        file = place.images / name
        file.parent.mkdir(parents=True, exist_ok=True)
        save(file)
        assert not reference.is_missing, name
        assert reference.size() == (60, 80)
    for repaired in (file, file.with_suffix(".webp")):  # readers prefer the second
        file.write_bytes(b"broken")
        assert reference.is_missing
        for size in ("", "/full"):
            assert reference.client.get(f"{reference.address}{size}").status_code == 404
        save(repaired)
        assert not reference.is_missing
        assert reference.size("/full") == (60, 80)


def test_an_image_folder_may_appear_later_or_be_another_one(
    reference: Reference, place: Place, database: Database
) -> None:
    moved = place.images.rename(place.folder / "moved")
    assert reference.is_missing
    moved.rename(place.images)
    assert not reference.is_missing
    place.images.rename(moved)
    assert reference.is_missing
    update_all(database, Dataset, image_root=str(moved))
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
        """What the page Watch shows."""
        self.services.images.changes.store(self.database)
        with self.database.reading() as session:
            study = list_studies(session)[0]
            cards = changed_images_cards(english, session, study, self.services.images)
            return [note.partition(": ")[2] for card in cards for note in card.notes[1:]]


@pytest.fixture
def served(place: Place, database: Database) -> Served:
    services = Services.of(database)
    return Served(browser_of(plain_app(services)), services, place)


def paint(path: Path, colour: str = "red") -> None:
    """Replace a file as most programs do: by another one of the same name."""
    draft = path.with_name("draft.part")
    Picture.new("RGB", (60, 80), colour).save(draft, "PNG")
    draft.replace(path)


def test_a_changed_file_is_not_shown_and_the_owner_sees_its_path(served: Served) -> None:
    original = served.file.read_bytes()
    first = served.client.get(served.address)
    assert first.status_code == 200
    assert served.changed_files() == []
    paint(served.file)
    for kind in ("", "/full"):
        assert served.answer(kind) == (404, CHANGED.why)
    assert view(served.client)["reference"]["missing"]
    assert served.changed_files() == [str(served.file)]
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


def test_a_touched_or_moved_file_keeps_its_copies_and_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copies = tmp_path / "source.png", WebCopies(tmp_path / "cache")
    paint(source)
    recorded = sha256_of(source)
    assert isinstance(recorded, str)
    first = copies.of(source, "thumbnail", recorded)
    os.utime(source, (1, 1))
    moved = source.rename(tmp_path / "moved.png")
    assert WebCopies(tmp_path / "cache").of(moved, "thumbnail", recorded) == first
    assert copies.has(moved, "thumbnail", recorded)
    copies.of(moved, "thumbnail", recorded)
    monkeypatch.setattr(image_copies, "sha256_of", None)  # for its digest
    assert isinstance(copies.of(moved, "thumbnail", recorded), Path)


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
    return all_of(database, select(ImageChange.image_id))
