"""Files that are uploaded in parts: resumed, recognised, unpacked or refused."""

from __future__ import annotations

import json
import stat
import struct
from errno import ENOTEMPTY
from pathlib import Path
from shutil import rmtree
from typing import Any
from zipfile import ZIP_STORED, ZipInfo

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hsfiq import uploads
from hsfiq.actors import OWNER, Role
from hsfiq.annotate.studio import images
from hsfiq.annotate.studio.setup import Setup
from hsfiq.collect.studies import list_studies
from hsfiq.drafts import Content, DraftFile, draw, image_root, images_of
from hsfiq.uploads import NEITHER, RESERVE, TOO_LARGE, TOO_MANY, Upload, uploads_of
from tests.annotate.owner.studies_in_progress import add_account, log_in
from tests.annotate.served_studies import browser_of
from tests.annotate.studio.conftest import StudioClient, fill
from tests.annotate.studio.uploading import folder_of, picture, send, send_part, zip_of

ZIP = zip_of({f"lamp-{n}.png": picture(n) for n in range(3)})
LINK = ZipInfo("lamp.png")
LINK.external_attr = (stat.S_IFLNK | 0o777) << 16


@pytest.fixture
def token(studio: StudioClient) -> str:
    return studio.new_draft()


# ------------------------------------------------------------------------------------------- parts


def test_parts_in_any_order_and_twice_are_the_file(studio: StudioClient, token: str) -> None:
    size = len(ZIP)
    early = send_part(studio, token, "a.zip", size, 100, ZIP[100:200]).json()["received"]
    first = send_part(studio, token, "a.zip", size, 0, ZIP[:100]).json()["received"]
    again = send_part(studio, token, "a.zip", size, 0, ZIP[:60]).json()["received"]
    overlap = send_part(studio, token, "a.zip", size, 50, ZIP[50:150]).json()["received"]
    assert (early, first, again, overlap) == (0, 100, 100, 150)
    assert send(studio, token, "a.zip", ZIP, part=37).count == 3


def test_an_upload_goes_on_after_the_server_was_killed(studio: StudioClient, token: str) -> None:
    send_part(studio, token, "a.zip", len(ZIP), 0, ZIP[:100])
    (upload,) = uploads_of(folder_of(studio, token))
    with upload.path("part").open("ab") as file:
        file.write(ZIP[100:130])  # written, but the server ended before it answered
    assert send_part(studio, token, "a.zip", len(ZIP), 0, b"").json()["received"] == 130
    assert f"{100 * 130 // len(ZIP)} %" in studio.get(f"draft/{token}/images").text
    assert send(studio, token, "a.zip", ZIP).count == 3
    assert uploads_of(folder_of(studio, token)) == []


def test_a_complete_file_is_put_in_place_at_the_next_visit(
    studio: StudioClient, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hsfiq.annotate.studio.images.settle", lambda *_, **__: None)
    send_part(studio, token, "a.zip", len(ZIP), 0, ZIP)
    waiting = studio.get(f"draft/{token}/images").text
    assert "data-refresh=2" in waiting
    assert "reading ..." in waiting
    monkeypatch.undo()
    assert send(studio, token, "a.zip", ZIP).count == 3


@pytest.mark.parametrize(
    ("size", "stamp"), [(len(ZIP) + 1, "1"), (len(ZIP), "2")], ids=["size", "date"]
)
def test_another_size_or_date_is_another_file(
    studio: StudioClient, token: str, size: int, stamp: str
) -> None:
    send_part(studio, token, "a.zip", len(ZIP), 0, ZIP[:100])
    other = send_part(studio, token, "a.zip", size, 0, b"", stamp=stamp)
    assert other.json()["received"] == 0


@pytest.mark.parametrize(
    ("name", "fields", "body", "status", "why"),
    [
        ("../a.zip", {}, b"", 422, "a file cannot have this name"),
        ("a\\b.zip", {}, b"", 422, "a file cannot have this name"),
        ("a\x00.zip", {}, b"", 422, "a file cannot have this name"),
        (".hidden", {}, b"", 422, "a file cannot have this name"),
        ("", {}, b"", 422, "a file cannot have this name"),
        ("ä" * 200, {}, b"", 422, "a file cannot have this name"),
        ("a.zip", {"size": 0}, b"", 422, "the file is empty"),
        ("a.zip", {"size": "-5"}, b"", 422, "the file is empty"),
        ("a.zip", {"size": "many"}, b"", 422, "the file is empty"),
        ("a.zip", {"size": 999_999_999_999}, b"", 422, "the file is empty"),
        ("a.zip", {"size": 10}, b"x" * 11, 422, "the file is longer than announced"),
        ("a.zip", {"size": 2**22}, b"x" * (2**20 + 1), 413, "more than 1024 kB"),
    ],
)
def test_what_is_no_part_of_a_file_is_refused(
    studio: StudioClient, token: str, name: str, fields: dict[str, Any], body: bytes,
    status: int, why: str,
) -> None:  # fmt: skip
    reply = send_part(studio, token, name, fields.pop("size", 5), 0, body, **fields)
    assert reply.status_code == status
    assert why in reply.json().get("error", "")
    assert not (folder_of(studio, token).parent / "a.zip").exists()


def test_only_owners_upload_and_see(studio: StudioClient, token: str) -> None:
    paths = ("images", "image/lamp-1.png", "rows.csv")
    for name, role in (("ana", Role.ANALYST), ("hal", Role.HELPER)):
        add_account(studio.database, name, role)
        other = browser_of(studio.app)
        log_in(other, name=name)
        assert send_part(replaced(studio, other), token, "a.zip", 5, 0, b"").status_code == 403
        assert [other.get(f"/owner/draft/{token}/{path}").status_code for path in paths] == [
            403, 403, 403,
        ]  # fmt: skip
    stranger = replaced(studio, browser_of(studio.app))
    assert send_part(stranger, token, "a.zip", 5, 0, b"").status_code in (303, 401, 403)
    foreign = studio.client.post(
        f"/owner/draft/{token}/upload?name=a.zip&size=5", headers={"sec-fetch-site": "cross-site"}
    )
    assert foreign.status_code == 403
    assert uploads_of(folder_of(studio, token)) == []
    assert send_part(studio, "0" * 16, "a.zip", 5, 0, b"").status_code == 422


def replaced(studio: StudioClient, client: Any) -> StudioClient:
    return StudioClient(client, studio.database, studio.app)


def test_a_full_disk_is_said_before_an_upload(
    studio: StudioClient, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "free_space", lambda _: RESERVE + len(ZIP))
    assert "0 GB are free" in studio.get(f"draft/{token}/images").text
    refused = send_part(studio, token, "b.zip", len(ZIP) + 1, 0, b"")
    assert (refused.status_code, "too little space" in refused.text) == (422, True)
    assert uploads_of(folder_of(studio, token)) == []
    monkeypatch.setattr(uploads, "free_space", lambda _: RESERVE + len(ZIP) + 1)
    large = zip_of({"a.png": picture(0, 400), "b.png": picture(1, 400)})
    monkeypatch.setattr(uploads, "free_space", lambda _: RESERVE + len(large))
    assert send(studio, token, "c.zip", large).note == "the disk has too little space for this"


def test_files_are_for_their_owner_only(studio: StudioClient, token: str) -> None:
    send(studio, token, "a.zip", ZIP)
    folder = folder_of(studio, token)
    for path in (folder, *folder.rglob("*")):
        assert path.suffix == ".record" or path.stat().st_mode & 0o077 == 0, path


# ------------------------------------------------------------------------------------- archives


def test_images_of_an_archive_keep_their_folders(studio: StudioClient, token: str) -> None:
    content = zip_of({
        "shop/a.png": picture(1),
        "shop\\b.jpg": picture(2, form="JPEG"),
        "e\u0301.png": picture(3),
        "shop/.hidden.png": b"x",
        "__MACOSX/shop/a.png": b"x",
        "shop/inner.zip": ZIP,
        "shop/readme.txt": b"hello",
        "shop/broken.png": b"no image",
        "shop/short.jpg": picture(4, form="JPEG")[:300],
        "shop//a.png": picture(5),
    })  # fmt: skip
    file = send(studio, token, "shop.zip", content)
    draft = studio.draft(token)
    images = images_of(draft.content, draft.folder)
    assert images is not None
    assert (file.role, file.count) == ("images", 3)
    assert sorted(images.names) == ["shop/a.png", "shop/b.jpg", "\u00e9.png"]
    page = studio.get(f"draft/{token}/images").text
    for said in ("5 other files are left out", "shop/inner.zip", "occurs twice", "All 3 images"):
        assert said in page
    assert "hidden" not in page.split("<main")[1].split("5 other")[1][:300]


def test_names_of_korean_windows_are_read(studio: StudioClient, token: str) -> None:
    info = ZipInfo("x" * len("램프.png".encode("cp949")))
    content = zip_of({info: picture()}).replace(b"x" * 8, "램프.png".encode("cp949"))
    send(studio, token, "lamps.zip", content)
    draft = studio.draft(token)
    images = images_of(draft.content, draft.folder)
    assert images is not None
    assert images.names == ["램프.png"]
    assert studio.client.get(f"/owner/draft/{token}/image/램프.png").status_code == 200


def encrypted() -> bytes:
    content = bytearray(ZIP)
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(signature) + at] |= 1
    return bytes(content)


def boasting() -> bytes:
    """An archive whose file says that it has four billion bytes."""
    content = bytearray(zip_of({"a.png": picture()}))
    at = content.find(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<L", 4_000_000_000)
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (zip_of({"../up.png": picture()}), "a path in the archive leads out of it"),
        (zip_of({"a/../../up.png": picture()}), "a path in the archive leads out of it"),
        (zip_of({"/etc/up.png": picture()}), "a path in the archive leads out of it"),
        (zip_of({"C:\\up.png": picture()}), "a path in the archive leads out of it"),
        (zip_of({LINK: b"/etc/passwd"}), "the archive has links: pack the files themselves"),
        (encrypted(), "the archive has a password: pack it without one"),
        (
            zip_of({"bomb.png": bytes(200_000_000)}),
            "its files are more than 100 times as large as itself",
        ),
        (boasting(), "its files are more than 100 times as large as itself"),
        (ZIP[:-30], "the archive is damaged"),
        (ZIP[:40] + ZIP[60:], "the archive is damaged"),
        (b"PK\x05\x06" + bytes(18), NEITHER),
        (zip_of({"inner.zip": ZIP, "a.txt": b"hi"}), NEITHER),
        (zip_of({"a.png": b"no image"}), "a.png is not a known image format"),
        (b"Rar!\x1a\x07" + bytes(40), "this archive is no zip: pack the files as a zip"),
        (bytes(257) + b"ustar" + bytes(300), "this archive is no zip: pack the files as a zip"),
        (b"%PDF-1.4 hello", NEITHER),
        (b"Dear all, I think\nthat it is", NEITHER),
        (bytes(50), NEITHER),
        (picture(form="TIFF"), NEITHER),
    ],
    ids=range(19),
)  # fmt: skip
def test_other_files_are_not_used_for_a_reason(
    studio: StudioClient, token: str, content: bytes, why: str
) -> None:
    file = send(studio, token, "given.xyz", content)
    assert (file.role, why in file.note) == ("unused", True), file.note
    assert not list(folder_of(studio, token).glob("images/*"))
    assert "Not used:" in studio.get(f"draft/{token}/images").text
    assert studio.draft(token).content.of_role("images") == []


def test_one_image_too_many(studio: StudioClient, token: str) -> None:
    many = zip_of({f"{n}.png": b"" for n in range(20_001)}, ZIP_STORED)
    assert send(studio, token, "many.zip", many).note == TOO_MANY
    assert not list(folder_of(studio, token).glob("images/*"))


def test_images_of_all_files_count(
    studio: StudioClient, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_FILES", 4)
    send(studio, token, "a.zip", ZIP)
    assert send(studio, token, "b.zip", ZIP, stamp="2").note == TOO_MANY
    monkeypatch.setattr(uploads, "MOST_BYTES", 2 * len(ZIP))
    refused = send_part(studio, token, "c.zip", 2 * len(ZIP), 0, b"")
    assert (refused.status_code, refused.json()["error"]) == (422, TOO_LARGE)


# ------------------------------------------------------------------------ several files, and tables


def test_files_are_replaced_removed_and_brought_back(studio: StudioClient, token: str) -> None:
    send(studio, token, "a.zip", ZIP)
    send(studio, token, "b.zip", zip_of({"lamp-1.png": picture(9), "b.png": picture(8)}))
    assert names_of(studio, token) == ["b.png", "lamp-0.png", "lamp-1.png", "lamp-2.png"]
    draft = studio.draft(token)
    root = image_root(draft.content, draft.folder)
    assert (root / "lamp-1.png").read_bytes() == picture(9)
    removed = remove(studio, token, "b.zip").json()
    assert (removed["say"], removed["undo"]) == ("b.zip was removed.", {"act": "undo"})
    assert names_of(studio, token) == ["lamp-0.png", "lamp-1.png", "lamp-2.png"]
    studio.act(f"draft/{token}/images", "undo")
    assert len(names_of(studio, token)) == 4
    send(studio, token, "c.zip", zip_of({"c.png": picture(7)}), replaces="a.zip")
    assert names_of(studio, token) == ["b.png", "c.png", "lamp-1.png"]
    studio.act(f"draft/{token}/images", "undo")
    assert len(names_of(studio, token)) == 4
    assert remove(studio, token, "x").status_code == 422


def remove(studio: StudioClient, token: str, name: str) -> Any:
    given = {"act": "remove", "name": name}
    return studio.client.post(f"/owner/draft/{token}/images", json=given)


def names_of(studio: StudioClient, token: str) -> list[str]:
    draft = studio.draft(token)
    images = images_of(draft.content, draft.folder)
    return [] if images is None else sorted(images.names)


def test_what_is_incomplete_can_be_removed(studio: StudioClient, token: str) -> None:
    key = send_part(studio, token, "a.zip", len(ZIP), 0, ZIP[:100]).json()["key"]
    studio.act(f"draft/{token}/images", "forget", key=key)
    assert list((folder_of(studio, token) / "incoming").iterdir()) == []
    assert send_part(studio, token, "a.zip", len(ZIP), 0, b"").json()["received"] == 0


def test_a_single_image_is_recognised(studio: StudioClient, token: str) -> None:
    send(studio, token, "one.png", picture())
    assert names_of(studio, token) == ["one.png"]


def sheet(rows: list[list[str]], place: Path) -> bytes:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in rows:
        book.active.append(row)
    book.save(place)
    return place.read_bytes()


ROWS = [["query_id", "text"], ["q1", "darker"], ["q2", "longer"]]
CSV = "\n".join(map(",".join, ROWS)).encode()
LISTS = json.dumps({"q1": ["a", "b"], "q2": ["b", "c"]}).encode()


def test_tables_are_recognised_by_content(studio: StudioClient, token: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"query_id": ["q1"], "text": ["darker"]}), tmp_path / "q.parquet")
    queries = {
        "queries.csv": CSV,
        "queries.json": b'{"query_id": "q1", "text": "darker"}\n',
        "table.txt": CSV.replace(b",", b";"),
        "sheet.csv": sheet(ROWS, tmp_path / "sheet.xlsx"),
        "q.bin": (tmp_path / "q.parquet").read_bytes(),
    }
    for name, content in queries.items():
        file = send(studio, token, name, content)
        assert file.role == "queries", name
        page = studio.get(f"draft/{token}/images").text
        assert "“darker”" in page, name
        assert [each.name for each in studio.draft(token).content.of_role("queries")] == [file.name]
    trec = b"".join(b"q1 Q0 a%d %d 0.5 mine\n" % (n, n) for n in range(1, 4))
    csv_lists = b"query_id,rank,image_id\nq1,1,a\nq1,2,b\n"
    for name, content in {"l.json": LISTS, "r.txt": trec, "l.csv": csv_lists}.items():
        assert send(studio, token, name, content).role == "lists", name
    assert [each.role for each in studio.draft(token).content.files] == ["queries", *["lists"] * 3]


def test_tables_that_cannot_be_read_say_why(studio: StudioClient, token: str) -> None:
    send(studio, token, "korean.csv", "번호,요청\n1,더 밝게\n".encode("cp949"))
    page = studio.get(f"draft/{token}/images").text
    assert "this is not UTF-8 text" in page or "neither images nor a table" in page
    send(studio, token, "unequal.csv", b"query_id,text\nq1,a,b\n")
    page = studio.get(f"draft/{token}/images").text
    assert "unequal.csv: line 2: 3 cells, but the first line has 2" in page
    assert "a table cannot be read" in page
    assert str(folder_of(studio, token)) not in page


def test_an_opened_study_takes_no_files(studio: StudioClient, token: str) -> None:
    fill(studio, token)
    draw(studio.database, token, OWNER)
    with studio.database.writing() as session:
        list_studies(session)[0].status = "open"
    refused = send_part(studio, token, "a.zip", len(ZIP), 0, b"")
    assert "fixed since the study was opened" in refused.json()["error"]
    assert "Choose files" not in studio.get(f"draft/{token}/images").text


# ---------------------------------------------------------------------------------- two processes


def test_an_upload_that_another_process_has_put_in_place_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "deleted-after-it-was-listed.json").symlink_to("nowhere")
    assert uploads_of(tmp_path) == []


def test_images_of_two_uploads_are_put_together_by_two_processes(tmp_path: Path) -> None:
    names = ("first", "second")
    for name in names:
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / f"{name}.png").write_bytes(picture())
    files = tuple(DraftFile(name=n, role="images", size=1, source=n) for n in names)
    content = Content(files=files)
    whole = image_root(content, tmp_path)

    def faster(_folder: Path, target: Path) -> Path:
        target.mkdir()
        (target / "first.png").write_bytes(picture())
        raise OSError(ENOTEMPTY, "Directory not empty")

    rmtree(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", faster)
        assert image_root(content, tmp_path) == whole


def test_a_page_made_while_a_file_is_put_in_place_asks_for_itself_again(
    studio: StudioClient, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its draft was read before the file was in place, and its uploads afterwards."""
    settle = images.settle
    monkeypatch.setattr(images, "settle", lambda *_, **__: None)
    assert send_part(studio, token, "a.zip", len(ZIP), 0, ZIP).status_code == 200

    def settle_at_once(setup: Setup, upload: Upload, **_: float) -> None:
        settle(setup, upload, patience=60)

    monkeypatch.setattr(images, "settle", settle_at_once)
    page = studio.get(f"draft/{token}/images").text
    assert ("All can be shown" in page, 'data-refresh="1"' in page) == (False, True)
    page = studio.get(f"draft/{token}/images").text
    assert ("All can be shown" in page, 'data-refresh="1"' in page) == (True, False)
