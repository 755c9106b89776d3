"""Searches that begin from a participant's own picture, as their page sends them."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import as_completed as as_answered
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from io import BytesIO
from pathlib import Path
from select import select as answered_of
from urllib.parse import urlsplit

import anyio
import httpx
import pytest
from PIL import Image
from sqlalchemy import func, select

from hsfiq.annotate import payloads
from hsfiq.annotate.searches import (
    ARRIVING_AT_ONCE,
    ARRIVING_IN_ALL,
    READ_AT_ONCE,
    TooMany,
    Uploads,
)
from hsfiq.collect import owner
from hsfiq.db.search_tables import SearchTurn, SearchUpload
from hsfiq.db.tables import Participant, Question
from hsfiq.ids import question_id
from hsfiq.images.decode import BUDGET
from hsfiq.kinds.search import RECORDS_FILE
from hsfiq.releases.folder import read_lists
from hsfiq.sessions.record import read
from tests.annotate.owner.studies_in_progress import PASSWORD, set_owner
from tests.annotate.served_studies import all_of, the_one
from tests.drawn_retriever import DrawnRetriever
from tests.hsfiq.samples import hsfiq, rows
from tests.question_kinds.drawn_catalogue import STUDY, Catalogue
from tests.question_kinds.search_pages import (
    SEARCHES,
    Listener,
    SearchPage,
    arena_queries,
    create_search,
    image_names,
    in_base64,
)

ORIENTATION, GPS, MAKE = 0x0112, 0x8825, 0x010F
SECRET = "telltale-camera"


def photo(colour: str = "red") -> bytes:
    """A photo that was taken sideways, with the place and the camera in its EXIF data."""
    image = Image.new("RGB", (1600, 800), colour)
    exif = Image.Exif()
    exif[ORIENTATION], exif[MAKE] = 6, SECRET
    exif.get_ifd(GPS)[1] = "N"
    file = BytesIO()
    image.save(file, "JPEG", exif=exif, comment=SECRET.encode())
    return file.getvalue()


def png(side: int, mode: str = "1") -> bytes:
    file = BytesIO()
    Image.new(mode, (side, side)).save(file, "PNG")
    return file.getvalue()


def picture_of(page: SearchPage) -> bytes:
    answer = page.http.get(f"/image/{page.view['start']['token']}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.headers["cache-control"].startswith("private")
    return answer.content


@pytest.fixture(scope="module")
def study(catalogue: Catalogue, rivals: list[Listener]) -> Iterator[str]:
    made = create_search(catalogue, rivals[0], "uploads", "own-wish", "uploads = true")
    yield made
    catalogue.close(made)


@pytest.fixture
def page(catalogue: Catalogue, study: str) -> Iterator[SearchPage]:
    """A new participant, who leaves afterwards: the study has places for two."""
    with closing(SearchPage(catalogue, study)) as made:
        yield made
    forget_all(catalogue, study)


def forget_all(catalogue: Catalogue, study: str) -> None:
    with catalogue.database.writing() as session:
        row = catalogue.study(session, study)
        for person in session.scalars(select(Participant).where(Participant.study_id == row.id)):
            owner.forget(session, person)


def n_uploads(catalogue: Catalogue) -> int:
    return the_one(catalogue.database, select(func.count()).select_from(SearchUpload)) or 0


def test_the_first_text_is_about_the_picture(
    page: SearchPage, catalogue: Catalogue, rivals: list[Listener]
) -> None:
    assert (page.view["may_upload"], page.view["is_own_picture"]) == (True, False)
    query_image = page.view["start"]
    view = page.upload(photo())
    assert (view["may_upload"], view["is_own_picture"]) == (False, True)
    assert view["start"] != query_image
    stored = picture_of(page)
    with Image.open(BytesIO(stored)) as image:
        assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (512, 1024))  # upright
        assert not image.getexif()
        assert set(image.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    assert SECRET.encode() not in stored
    assert b"Exif" not in stored

    (turn,) = page.ask("is blue")["turns"]
    assert turn["reference"] == view["start"]
    (search,) = rivals[0].last.searches
    ((name, content),) = search.images.items()
    assert (search.turns[0].reference, base64.b64decode(content)) == (name, stored)
    page.ask("is red", opinion=page.opinion(nearest=None))
    assert page.view["turns"][1]["reference"] == view["start"]  # nothing came nearer
    page.ask("is green")
    assert page.view["turns"][2]["reference"] == turn_image(page, 1, 0)
    assert rivals[0].last.searches[0].images == search.images
    assert page.current() == page.view
    with catalogue.database.reading() as session:
        turns = session.scalars(select(SearchTurn).order_by(SearchTurn.id.desc()).limit(3)).all()
        assert [turn.reference_id is None for turn in turns] == [False, True, True]


def turn_image(page: SearchPage, turn: int, place: int) -> object:
    return page.view["turns"][turn]["lists"][0][place]


def test_a_picture_is_sent_again_but_never_replaced(page: SearchPage, catalogue: Catalogue) -> None:
    before = n_uploads(catalogue)
    key = {"submit_key": "key-of-the-picture", "assignment": page.view["assignment"]}
    view = page.upload(photo(), **key)
    assert page.upload(photo(), **key) == view
    page.upload(photo("blue"), 409, **key)
    page.upload(photo("blue"), 409)
    assert n_uploads(catalogue) == before + 1
    view = page.ask("is red")
    page.upload(photo(), 200, **key)  # the reply had been lost
    page.upload(photo("blue"), 409)
    page.stop()
    page.judge(why="enough")
    page.ask("is red")  # the second search, without a picture
    page.upload(photo(), 409)
    assert n_uploads(catalogue) == before + 1


def test_a_second_picture_is_refused_before_it_is_decoded(page: SearchPage) -> None:
    page.upload(photo())
    assert "only one picture" in page.upload(b"no picture at all", 409)["error"]
    assert "only one picture" in page.upload(png(10_000), 409)["error"]


def test_one_picture_of_a_participant_is_decoded_at_a_time(
    page: SearchPage, catalogue: Catalogue, study: str
) -> None:
    """Meanwhile others are answered, although decoding goes on only after the block."""

    def send(number: int) -> int:
        with httpx.Client(base_url=catalogue.server.url, cookies=page.http.cookies) as browser:
            payload = {
                "assignment": page.view["assignment"],
                "submit_key": f"key-of-browser-{number:05}",
                "picture": in_base64(photo()),
            }
            return browser.post("/search/upload", json=payload, timeout=60).status_code

    with closing(SearchPage(catalogue, study)) as other, ThreadPoolExecutor(4) as pool:
        with BUDGET.reserved(BUDGET.limit):
            sent = as_answered([pool.submit(send, number) for number in range(4)])
            refused = [next(sent).result() for _ in range(3)]
            assert other.current() == other.view
        assert refused == [429] * 3
        assert [answer.result() for answer in sent] == [200]


def test_few_pictures_are_decoded_at_a_time() -> None:
    lock, both_run = threading.Lock(), threading.Barrier(READ_AT_ONCE)
    running, most = 0, 0

    def store() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both_run.wait()
        with lock:
            running -= 1

    async def send_all() -> None:
        uploads = Uploads()
        async with anyio.create_task_group() as group:
            for number in range(5 * READ_AT_ONCE):
                group.start_soon(uploads.read, [f"participant {number}"], store)

    with ThreadPoolExecutor() as pool:  # browser tests have an event loop in this thread
        pool.submit(anyio.run, send_all).result()
    assert most == READ_AT_ONCE


def cookies_of(page: SearchPage) -> str:
    return "; ".join(f"{name}={value}" for name, value in page.http.cookies.items())


def begin_upload(catalogue: Catalogue, cookies: str) -> HTTPConnection:
    """Send the head of an upload of 5,000 bytes."""
    address = urlsplit(catalogue.server.url)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=60)
    connection.putrequest("POST", "/search/upload")
    headers = {"Content-Type": "application/json", "Content-Length": "5000", "Cookie": cookies}
    for header in headers.items():
        connection.putheader(*header)
    connection.endheaders()
    return connection


def test_pictures_are_refused_before_they_are_sent(page: SearchPage, catalogue: Catalogue) -> None:
    """To unknown browsers, and to a participant who is sending several."""
    with closing(begin_upload(catalogue, "none=")) as unknown:
        assert unknown.getresponse().status == 401
    with ExitStack() as stack:
        connections = {
            connection.sock: connection
            for connection in [
                begin_upload(catalogue, cookies_of(page)) for _ in range(ARRIVING_AT_ONCE + 1)
            ]
            if stack.enter_context(closing(connection))
        }
        answered, _, _ = answered_of(connections, (), ())
        assert [connections.pop(each).getresponse().status for each in answered] == [429]
        for sock, connection in connections.items():
            sock.send(b" " * 5000)
            assert connection.getresponse().status == 400
    page.upload(photo())


def test_pictures_that_arrive_are_limited_in_all() -> None:
    uploads = Uploads()
    with ExitStack() as stack:
        for number in range(ARRIVING_IN_ALL):
            stack.enter_context(uploads.arriving([f"p{number}"]))
        with pytest.raises(TooMany, match="many pictures"), uploads.arriving(["another"]):
            pass
    with uploads.arriving(["another"]):
        pass


def test_a_picture_that_does_not_arrive_in_time_is_refused(
    page: SearchPage, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads, "LONGEST_ARRIVAL", 0.2)
    with closing(begin_upload(catalogue, cookies_of(page))) as connection:
        assert connection.getresponse().status == 408


def test_what_is_no_picture_is_refused(page: SearchPage, catalogue: Catalogue) -> None:
    before, whole = n_uploads(catalogue), photo()
    for content, status in (
        (b"", 422),
        (b"a text file that is named .jpg", 422),
        (whole[: len(whole) // 2], 422),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 5\n", 422),
        (png(1), 422),
        (png(5_001), 413),
        (whole + b" " * 6 * 2**20, 413),
        (whole + b" " * 9 * 2**20, 413),
    ):
        page.upload(content, status)
    page.upload(whole, 422, picture="no base64!")
    page.upload(whole, 422, submit_key="short")
    page.upload(whole, 403, assignment="search:1:0.altered")
    assert n_uploads(catalogue) == before
    assert page.current() == page.view
    for path in ("/search/turn", "/search/list"):  # other bodies are as small as before
        answer = page.http.post(
            path, content=b" " * 2**20, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 413


def test_nobody_else_sees_a_picture(page: SearchPage, catalogue: Catalogue, study: str) -> None:
    page.upload(photo())
    address = f"/image/{page.view['start']['token']}"
    assert picture_of(page)
    set_owner(catalogue.database)
    with closing(SearchPage(catalogue, study)) as other:
        assert other.http.get(address).status_code == 403
        assert page.view["start"]["token"] not in json.dumps(other.view)
        other.http.cookies.clear()
        assert other.http.get(address).status_code == 401
        with catalogue.database.reading() as session:
            row = session.scalars(select(SearchUpload)).one()
            name = outside_id(session.get_one(Question, row.question_id))
            person, key = name.partition(".")[0], catalogue.study(session, study).id
        owners = [
            f"/owner/upload?study={study}&name={name}",
            f"/owner/study/{key}/watch?person={person}&answer={name}",
        ]
        assert other.http.get(owners[0]).headers["content-type"] != "image/jpeg"
        other.http.post("/owner/login", data={"password": PASSWORD})
        assert other.http.get(owners[0]).content == picture_of(page)
        assert f"upload?study={study}&amp;name={name}" in other.http.get(owners[1]).text
        assert other.http.get(f"{owners[0]}0").status_code == 404


def outside_id(question: Question) -> str:
    person = question.form.participant
    assert person is not None
    return question_id(person.name, question.form.name or "", question.place)


def test_a_release_has_no_picture(
    catalogue: Catalogue, rivals: list[Listener], tmp_path: Path
) -> None:
    study = create_search(catalogue, rivals[0], "upload-release", "own-wish", "uploads = true")
    with closing(SearchPage(catalogue, study)) as page:
        page.upload(photo())
        page.ask("is blue")
        page.ask("is red")
        page.stop()
        page.judge(why="enough")
        page.ask("is red")
        page.stop(1)
        page.judge()
        name = page.view.get("step")
    assert name == "done"
    catalogue.close(study)
    folder = tmp_path / "release"
    catalogue.hsfiq("export", "--study", study, "--release", "search", "--out", folder)
    release = catalogue.release(study, "search")
    sessions, turns = rows(release, "sessions"), rows(release, "turns")
    assert [row["uploaded"] for row in sessions] == [True, False]
    assert [turn["reference_id"] is None for turn in turns] == [True, False, False]
    digests = all_of(catalogue.database, select(SearchUpload.sha256))
    for path in folder.iterdir():
        content = path.read_bytes()
        assert b"JFIF" not in content
        assert not [digest for digest in digests if digest.encode() in content]
    assert "`uploaded` | true or false | whether the participant uploaded a picture" in (
        folder / "README.md"
    ).read_text(encoding="utf-8")
    first, _ = read(folder / RECORDS_FILE)
    assert [each.reference is None for each in first.rounds] == [True, False]
    measured = hsfiq("sessions", "measure", folder / RECORDS_FILE, "--k", "1", "--json")
    assert measured.code == 0, measured.err
    analyzed = hsfiq("analyze", folder, "--resamples", "50", "--json")
    assert analyzed.code == 0, analyzed.err
    assert len(read_lists(folder)) == 2  # a scorer needs the reference


def test_forgetting_deletes_the_picture(page: SearchPage, catalogue: Catalogue, study: str) -> None:
    before = n_uploads(catalogue)
    page.upload(photo())
    page.ask("is red")
    address = f"/image/{page.view['start']['token']}"
    assert n_uploads(catalogue) == before + 1
    forget_all(catalogue, study)
    assert n_uploads(catalogue) == before
    assert page.http.get(address).status_code == 401


def test_an_arena_takes_pictures_and_says_so(catalogue: Catalogue, rivals: list[Listener]) -> None:
    queries = arena_queries(rivals).replace("rounds = 3\n", "rounds = 3\nuploads = true\n")
    study = catalogue.create("arena", name="arena-uploads", queries=queries)
    with closing(SearchPage(catalogue, study)) as page:
        page.upload(photo())
        page.ask("is red")
        page.ask("is blue")
        assert [len(images) for images in page.view["turns"][0]["lists"]] == [3, 3]
        assert rivals[0].last == rivals[1].last
        with closing(SearchPage(catalogue, study)) as other:
            guidelines = json.dumps(other.http.get("/opening").json())
            public = [other.http.get(path).text for path in ("/", f"/leaderboard/{study}")]
        assert "not published, and no other participant sees it" in guidelines
        assert not [text for text in public if "upload/" in text or "JFIF" in text]
        assert page.http.post("/language", json={"language": "en", "number": None}).is_success
    catalogue.close(study)


def test_a_study_without_uploads_takes_none(catalogue: Catalogue, rivals: list[Listener]) -> None:
    study = create_search(catalogue, rivals[0], "no-uploads", "own-wish")
    before = n_uploads(catalogue)
    with closing(SearchPage(catalogue, study)) as page:
        assert not page.view["may_upload"]
        page.upload(photo(), 403)
        opening = json.dumps(page.http.get("/opening").json()["study"])
        assert "picture of your own" not in opening
    assert n_uploads(catalogue) == before
    catalogue.close(study)


def test_every_retriever_must_accept_pictures(catalogue: Catalogue) -> None:
    blind = DrawnRetriever(image_names(catalogue))
    queries = SEARCHES.format(task="own-wish", url=blind.url, more="uploads = true")
    path = catalogue.folder / "refused-uploads.toml"
    path.write_text(STUDY.format(name="refused", kind="search", design="", queries=queries, k=3))
    refused = hsfiq("study", "create", path, "--database", catalogue.place.url)
    blind.stop()
    assert refused.code == 2
    assert "telltale-system does not accept participants' pictures" in refused.err
