"""A study whose images are in S3: shown from the cache without the store, and later with it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect
from sqlalchemy import select

from benchmarks.browsing import wait_until
from benchmarks.stores import KEY, SECRET
from hsfiq.annotate.image_copies import ImageStore, WebCopies
from hsfiq.db import source_tables
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Dataset
from hsfiq.db.tables import Response
from hsfiq.images import store
from hsfiq.images.folder import CHANGED, Fault
from hsfiq.images.store import AWAY
from hsfiq.study.images import check_and_record
from tests.annotate.page_requests import answer_body, view
from tests.annotate.question_page import OpenPage, answer
from tests.annotate.served_studies import (
    K,
    Place,
    Server,
    all_of,
    garment,
    make_study,
    newcomer,
    update_all,
)
from tests.stores import S3, found_by_clients, s3_server

BUCKET, PREFIX = "telltale-bucket", "telltale/prefix"
N_IMAGES = 60


@pytest.fixture(scope="module")
def moto() -> Iterator[S3]:
    with s3_server() as server:
        objects = {f"{PREFIX}/telltale-{n:03d}.png": garment(n, 90) for n in range(N_IMAGES)}
        server.put(objects, BUCKET)
        yield server


@pytest.fixture
def s3(moto: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """The store of the images, with an empty cache."""
    with found_by_clients(moto, tmp_path / "cache", monkeypatch):
        yield moto


@pytest.fixture
def study(s3: S3, place: Place) -> Iterator[Database]:
    """A study whose images have been read once."""
    make_study(place).close()
    database = open_database(place.url)
    update_all(database, Dataset, image_root=f"s3://{BUCKET}/{PREFIX}")
    states = check_and_record(database, "telltale-study")
    assert states.passed
    assert states.new
    yield database
    database.close()


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    server = Server(place)
    yield server
    server.kill()


def thumbnails(place: Place) -> int:
    return len(list(Path(f"{place.file}.thumbnails").glob("*.webp")))


def forget_originals(tmp_path: Path) -> None:
    for path in (tmp_path / "cache" / "hsfiq" / "stores").glob("*.image"):
        path.unlink()


def images_of(client: httpx.Client) -> list[httpx.Response]:
    question = view(client)  # type: ignore[arg-type]
    shown = [question["reference"], *(image for images in question["sets"] for image in images)]
    assert not any(image["missing"] for image in shown)
    return [client.get(f"/image/{image['token']}") for image in shown]


@pytest.mark.slow
@pytest.mark.parametrize("outage", ["reset", "fall_silent"])
def test_cached_questions_are_answered_without_the_store(
    s3: S3, study: Database, server: Server, place: Place, tmp_path: Path, outage: str
) -> None:
    server.start()
    n_shown = len(list((tmp_path / "cache" / "hsfiq" / "stores").glob("*.image")))
    wait_until(lambda: thumbnails(place) >= n_shown, "the thumbnails")
    getattr(s3.proxy, outage)()
    forget_originals(tmp_path)
    with httpx.Client(base_url=server.url, follow_redirects=True, timeout=60) as client:
        client.get(f"/start/{newcomer(place)}")
        for number in range(3):
            if number == 1:
                server.stop(signal.SIGKILL)  # it forgets what it has in memory
                server.start()
            replies = images_of(client)
            assert [reply.status_code for reply in replies] == [200] * (2 * K + 1)
            question = view(client)  # type: ignore[arg-type]
            reply = client.post("/submit", json=answer_body(question, f"{number:016x}"))
            assert reply.status_code == 200, reply.text
            for text in (reply.text, *(str(image.headers) for image in replies)):
                assert BUCKET not in text
    server.stop(signal.SIGTERM)
    assert len(all_of(study, select(Response))) == 3
    said = server.log.read_bytes() + place.file.read_bytes()
    for secret in (KEY, SECRET):
        assert secret.encode() not in said


@pytest.mark.browser
@pytest.mark.slow
def test_a_page_recovers_when_the_store_does(
    s3: S3, study: Database, server: Server, tmp_path: Path, open_page: OpenPage
) -> None:
    s3.proxy.reset()
    forget_originals(tmp_path)
    server.start()
    page = open_page(server, images=lambda route: route.continue_())
    expect(page.locator(".failed")).to_have_count(2 * K + 1, timeout=30_000)
    s3.proxy.recover()
    expect(page.locator(".failed")).to_have_count(0, timeout=60_000)
    answer(page)
    wait_until(lambda: len(all_of(study, select(Response))) == 1, "the answer", 30)
    server.stop(signal.SIGTERM)
    (row,) = all_of(study, select(Response))
    assert row.skipped is None


def test_images_that_are_not_in_the_store_are_missing(
    s3: S3, study: Database, tmp_path: Path
) -> None:
    images = ImageStore(WebCopies(tmp_path / "copies"))
    with study.writing() as session:
        image = session.scalars(select(source_tables.Image)).first()
        assert image is not None
        assert not images.is_missing(session, image)
        image.name = "another"
        assert images.is_missing(session, image)


def test_a_changed_object_is_not_shown(
    s3: S3, study: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = ImageStore(WebCopies(tmp_path / "copies"))
    statement = select(source_tables.Image).where(source_tables.Image.sha256.is_not(None))
    with study.reading() as session:
        image = session.scalars(statement).first()
        assert image is not None
        assert not isinstance(images.file_of(session, image), Fault)
        key = f"{PREFIX}/{image.name}.png"
        content = s3.client().get_object(Bucket=BUCKET, Key=key)["Body"].read()
        try:
            s3.client().put_object(Bucket=BUCKET, Key=key, Body=garment(99, 90))
            assert not isinstance(images.file_of(session, image), Fault)  # as last listed
            monkeypatch.setattr(store, "RELIST_AFTER", 0.0)
            monkeypatch.setattr(store, "RELIST_MISSING_AFTER", 0.0)
            wait_until(lambda: images.file_of(session, image) == CHANGED, "the new listing", 20)
            assert images.is_missing(session, image)
        finally:
            s3.client().put_object(Bucket=BUCKET, Key=key, Body=content)


def test_a_copy_is_shown_though_nothing_is_known_of_the_object(
    s3: S3, study: Database, tmp_path: Path
) -> None:
    statement = select(source_tables.Image).where(source_tables.Image.sha256.is_not(None))
    with study.reading() as session:
        first, second = session.scalars(statement).all()[:2]
        ImageStore(WebCopies(tmp_path / "copies")).file_of(session, first)
        forget_originals(tmp_path)
        s3.proxy.reset()
        later = ImageStore(WebCopies(tmp_path / "copies"))
        assert isinstance(later.file_of(session, first), Path)
        assert later.file_of(session, second) == AWAY
        assert not later.is_missing(session, second)


def test_copies_stay_within_a_bound(
    s3: S3, study: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HSFIQ_IMAGE_CACHE_GB", "0.000003")
    images = ImageStore(WebCopies(tmp_path / "copies"))
    statement = select(source_tables.Image).where(source_tables.Image.sha256.is_not(None))
    with study.reading() as session:
        rows = session.scalars(statement).all()
        for row in rows:
            copy = images.file_of(session, row)
            assert isinstance(copy, Path)
            assert images.content_where_known(row, "thumbnail") is not None
    sizes = [path.stat().st_size for path in (tmp_path / "copies").glob("*.webp")]
    assert len(sizes) < len(rows)
    assert sum(sizes) <= 3000 + max(sizes) + 150
