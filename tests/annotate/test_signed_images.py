"""The addresses of images: for whom, for which content and for how long they are valid."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from PIL import Image as Picture
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.cookies import BETWEEN_PARTICIPANTS, COOKIE, COOKIE_PURPOSE, Signer, tokens_in
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.image_copies import ImageStore, WebCopies, cache_folder
from hsfiq.annotate.images import WEEK
from hsfiq.collect import owner
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Image
from hsfiq.db.tables import Participant
from hsfiq.study.images import check_and_record
from tests.annotate.page_requests import token_of, view
from tests.annotate.served_studies import Place, browser_of, enrol, make_study, the_one

SIZES = ("", "/full")


@pytest.fixture
def images(place: Place) -> Iterator[Database]:
    """The database of a study whose image files the test may change."""
    with closing(make_study(place)) as database:
        yield database


def client_of(database: Database, signer: Signer | None = None) -> TestClient:
    """A browser of a process that has just started."""
    services = Services.of(database)
    if signer is not None:
        services = Services(database, signer, services.images, services.retrievers)
    return browser_of(plain_app(services))


def images_of(current_view: dict[str, Any]) -> list[dict[str, Any]]:
    return [current_view["reference"], *current_view["sets"][0], *current_view["sets"][1]]


def addresses_of(current_view: dict[str, Any]) -> list[str]:
    """Those of both sizes of all images."""
    tokens = [image["token"] for image in images_of(current_view)]
    return [f"/image/{token}{size}" for token, size in product(tokens, SIZES)]


@contextmanager
def statements_of(database: Database) -> Iterator[list[str]]:
    """The statements within the block."""
    statements: list[str] = []

    def count(_c: Any, _u: Any, statement: str, _p: Any, _x: Any, _m: Any) -> None:
        statements.append(statement)

    event.listen(database.engine, "before_cursor_execute", count)
    yield statements
    event.remove(database.engine, "before_cursor_execute", count)


def test_browsers_keep_images_and_a_known_image_needs_no_database(images: Database) -> None:
    client = enrol(client_of(images), images)
    wanted = addresses_of(view(client))
    with statements_of(images) as first:
        before = [client.get(address).content for address in wanted]
    assert first
    with statements_of(images) as later:
        for address, content in zip(wanted, before, strict=True):
            answer = client.get(address)
            assert (answer.status_code, answer.content) == (200, content)
            assert answer.headers["content-type"] == "image/webp"
            assert answer.headers["cache-control"] == f"private, max-age={WEEK}, immutable"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert not {"etag", "last-modified", "content-disposition"} & set(answer.headers)
    assert later == []


def test_a_damaged_copy_is_never_sent(images: Database) -> None:
    """Neither of an image that the process knows, nor of one that it does not know yet."""
    client = enrol(client_of(images), images)
    wanted = addresses_of(view(client))
    before = [client.get(address).content for address in wanted]
    for damaged in (b"", b"garbage"):
        for copy in cache_folder(images).iterdir():
            copy.write_bytes(damaged)
        new = client_of(images)
        new.cookies = client.cookies
        half = len(wanted) // 2
        after = [client.get(address).content for address in wanted[:half]]
        after += [new.get(address).content for address in wanted[half:]]
        assert after == before


def test_answers_with_and_without_the_database_are_equal(images: Database, place: Place) -> None:
    """One process knows all images, another none: it has just started, perhaps on another host."""
    with images.reading() as session:
        check_and_record(images, list_studies(session)[0].name)
    client, other = (enrol(client_of(images), images) for _ in range(2))
    shown = images_of(view(client))
    own, foreign = addresses_of(view(client)), addresses_of(view(other))
    altered = [address.replace(".", ".1", 1) for address in own]
    for address in own:
        assert client.get(address).status_code == 200
    changed, missing, broken = (file_of(images, place, image) for image in shown[:3])
    Picture.new("RGB", (60, 80), "red").save(changed)
    missing.unlink()
    broken.write_bytes(b"broken")
    statuses = []
    for address in (*own, *foreign, *altered, "/image/practice-1", "/image/practice-99"):
        new = client_of(images)
        new.cookies = client.cookies
        answers = [browser.get(address) for browser in (client, new)]
        known, unknown = (
            (answer.status_code, sorted(answer.headers.items()), answer.content)
            for answer in answers
        )
        assert known == unknown
        statuses.append(known[0])
    n = len(own)
    assert statuses == [404] * 6 + [200] * (n - 6) + [404] * 2 * n + [200, 404]


def file_of(database: Database, place: Place, image: dict[str, Any]) -> Any:
    name = the_one(database, select(Image.name).where(Image.token == token_of(image)))
    return place.images / f"{name}.png"


def test_nobody_else_can_use_an_address(annotator: TestClient, database: Database) -> None:
    own, (other, stranger) = view(annotator), (client_of(database) for _ in range(2))
    foreign = view(enrol(other, database))
    for address in addresses_of(own):
        assert annotator.get(address).status_code == 200
        assert other.get(address).status_code == 404
        assert stranger.get(address).status_code == 401
    tokens = {token_of(image): image["token"] for image in images_of(own)}
    for image in images_of(foreign):
        assert tokens.get(token_of(image)) != image["token"]


def test_a_shared_browser_shows_the_images_of_each_participant(database: Database) -> None:
    signer = Services.of(database).signer
    clients = [enrol(client_of(database), database) for _ in range(2)]
    shown = [addresses_of(view(client))[0] for client in clients]
    both = [tokens_in(dict(client.cookies), signer)[0] for client in clients]
    shared = client_of(database)
    shared.cookies.set(COOKIE, signer.sign(COOKIE_PURPOSE, BETWEEN_PARTICIPANTS.join(both)))
    assert [shared.get(address).status_code for address in shown] == [200, 200]


def test_an_address_ends_with_the_next_week(
    annotator: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, now = addresses_of(view(annotator))[0], time.time()
    statuses = {}
    for weeks in (-2, -1, 0, 1, 2):
        monkeypatch.setattr(time, "time", lambda weeks=weeks: now + weeks * WEEK)
        statuses[weeks] = annotator.get(address).status_code
    assert statuses == {-2: 404, -1: 200, 0: 200, 1: 200, 2: 404}


def test_a_forgotten_participant_sees_no_further_address(
    annotator: TestClient, database: Database
) -> None:
    address = addresses_of(view(annotator))[0]
    with database.writing() as session:
        owner.forget(session, session.scalars(select(Participant)).one())
    assert annotator.get("/question").status_code == 401
    # What was shown before is shown until the address ends.
    assert annotator.get(address).status_code == 200


def test_addresses_outlast_a_rotated_key(database: Database) -> None:
    old, new = b"o" * 32, b"n" * 32
    browsers = [client_of(database, Signer(*keys)) for keys in ((old,), (new, old), (new,))]
    first = enrol(browsers[0], database)
    address = addresses_of(view(first))[0]
    statuses = []
    for browser in browsers:
        browser.cookies = first.cookies
        statuses.append(browser.get(address).status_code)
    assert statuses == [200, 200, 401]
    renewed = addresses_of(view(browsers[1]))[0]
    assert renewed != address
    assert browsers[1].get(renewed).status_code == 200


def test_an_address_depends_on_the_bytes_alone(images: Database, place: Place) -> None:
    """Several hosts may have copies of a folder, with other dates."""
    client = enrol(client_of(images), images)
    before = addresses_of(view(client))
    for file in place.images.iterdir():
        os.utime(file, (1, 1))
    store = ImageStore(WebCopies(place.folder / "another host"))
    services = Services.of(images)
    other = browser_of(plain_app(Services(images, services.signer, store, services.retrievers)))
    other.cookies = client.cookies
    assert addresses_of(view(other)) == before
    assert other.get(before[0]).content == client.get(before[0]).content


def test_two_first_requests_find_the_folder_at_the_same_time(
    images: Database, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ImageStore(WebCopies(place.folder / "copies of a new process"))
    find_root = store._find_root

    def find_root_after_another(session: Session, dataset_id: int) -> object:
        find_root(session, dataset_id)
        return find_root(session, dataset_id)

    monkeypatch.setattr(store, "_find_root", find_root_after_another)
    with images.reading() as session:
        image = session.scalars(select(Image)).first()
        assert image is not None
        assert isinstance(store.file_of(session, image), Path)
