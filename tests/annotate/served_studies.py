"""Small studies with drawn images, and servers that can be killed."""

from __future__ import annotations

import asyncio
import colorsys
import secrets
import shutil
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import anyio
import uvicorn
from anyio.from_thread import BlockingPortal
from fastapi import FastAPI
from fastapi.testclient import TestClient
from PIL import Image as Picture
from PIL import ImageDraw
from PIL.Image import Resampling
from sqlalchemy import Select, func, select, update
from starlette.types import ASGIApp

from hsfiq.annotate.app import build_app, plain_app
from hsfiq.annotate.cookies import signer_of
from hsfiq.annotate.handlers import Services
from hsfiq.collect import participants
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, connect, open_database
from hsfiq.db.source_tables import Dataset, Image, Query, RankedList, System, Triplet
from hsfiq.db.tables import Participant
from hsfiq.db.types import Base
from hsfiq.http_server import server_settings
from hsfiq.study.config import (
    Checks,
    Design,
    Practice,
    Presentation,
    Queries,
    Questionnaire,
    StudyConfig,
)
from hsfiq.study.design import draw_study
from hsfiq.study.recruiting import Recruitment
from tests.annotate.page_requests import begin_form
from tests.databases import migrated_sqlite
from tests.processes import Fork, run_command_line

T = TypeVar("T")
Serve = Callable[["Place"], "ThreadServer"]
ServeStudy = Callable[..., "ThreadServer"]
Visit = Callable[..., tuple[TestClient, Database]]

STOP_SECONDS = 300
"""A server that has not stopped by then never will."""

QUERIES, K = 12, 5
SYSTEMS = ("telltale-alpha", "telltale-beta", "telltale-gamma")
TITLE = "Which shop understood you?"
TEXTS = (
    "is more green and has 3/4 sleeves",
    "is darker dotmark and has a  v-neck",
    "<script>alert(1)</script> is \u202eplain\u202c \N{DRESS}",
    "has stripes, is longer and looks a good deal more sporty than the one in the picture",
)


@dataclass(frozen=True)
class Place:
    """The folder of a test's study."""

    folder: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.file}"

    @property
    def file(self) -> Path:
        return self.folder / "study.db"

    @property
    def images(self) -> Path:
        return self.folder / "images"


@dataclass(frozen=True)
class PlaceOfKind(Place):
    """The folder of a study whose database may be PostgreSQL's."""

    database_url: str

    @property
    def url(self) -> str:
        return self.database_url


@cache
def garment(number: int, width: int = 300) -> bytes:
    """The PNG of a plain garment whose colour and stripes depend on its number."""
    red, green, blue = colorsys.hsv_to_rgb(number * 0.137 % 1, 0.45, 0.85)
    tone = (int(255 * red), int(255 * green), int(255 * blue))
    picture = Picture.new("RGB", (300, 400), "white")
    pen = ImageDraw.Draw(picture)
    body = [(90, 60), (130, 80), (170, 80), (210, 60), (270, 150), (225, 175), (215, 150)]
    pen.polygon([*body, (215, 360), (85, 360), (85, 150), (75, 175), (30, 150)], fill=tone)
    for stripe in range(number % 5):
        pen.line([(88, 190 + 34 * stripe), (212, 190 + 34 * stripe)], fill="white", width=7)
    png = BytesIO()
    picture.resize((width, width * 4 // 3), Resampling.NEAREST).save(png, "PNG")
    return png.getvalue()


def make_study(
    place: Place,
    *,
    queries: int = QUERIES,
    missing: frozenset[int] = frozenset(),
    n_identical: int = 0,
    image_width: int = 90,
    texts: Sequence[str] = TEXTS,
    presentation: Mapping[str, Any] | None = None,
    recruitment: Mapping[str, Any] | None = None,
    practice: Practice | None = None,
    checks: Checks | None = None,
    questionnaire: Questionnaire | None = None,
    **design: Any,
) -> Database:
    """Twelve queries, three systems, one open study, and image files but for some.

    For the first `n_identical` queries all systems return the same images. Images are small,
    because servers and browsers decode each of them.
    """
    place.images.mkdir(parents=True)
    if place.url == f"sqlite:///{place.file}":
        place.file.write_bytes(migrated_sqlite())
        place.file.chmod(0o600)
    database = open_database(place.url)
    rng = Random(7)
    with database.writing() as session:
        dataset = Dataset(name="telltale-dataset", image_root=str(place.images))
        session.add(dataset)
        session.flush()
        images = [Image(dataset_id=dataset.id, name=f"telltale-{n:03d}") for n in range(60)]
        systems = [System(name=name) for name in SYSTEMS]
        session.add_all([*images, *systems])
        session.flush()
        for number, image in enumerate(images):
            if number not in missing:
                (place.images / f"{image.name}.png").write_bytes(garment(number, image_width))
        triplets = [
            Triplet(
                dataset_id=dataset.id,
                external_id=f"telltale.val.{number}",
                category="shirt",
                split="val",
                reference_id=images[number % 20].id,
                target_id=images[20 + number % 20].id,
                captions=[texts[number % len(texts)]],
            )
            for number in range(queries)
        ]
        session.add_all(triplets)
        session.flush()
        asked = [
            Query(triplet_id=triplet.id, suffix="", text=texts[number % len(texts)])
            for number, triplet in enumerate(triplets)
        ]
        session.add_all(asked)
        session.flush()
        candidates = [image.id for image in images[12:]]
        for number, query in enumerate(asked):
            image_ids: list[int] = []
            for system in systems:
                if not image_ids or number >= n_identical:
                    image_ids = rng.sample(candidates, K)
                session.add(RankedList(system_id=system.id, query_id=query.id, image_ids=image_ids))
        session.flush()
        draw_study(
            session,
            StudyConfig(
                study=Presentation(
                    **({"name": "telltale-study", "title": TITLE} | dict(presentation or {}))
                ),
                design=Design(
                    **({"k": K, "questions_per_form": 3, "forms_per_participant": 2} | design)
                ),
                practice=practice or Practice(),
                queries=Queries(dataset=dataset.name),
                checks=checks or Checks(),
                recruitment=Recruitment(**dict(recruitment or {})),
                questionnaire=questionnaire or Questionnaire(),
            ),
            [query.id for query in asked],
        )
    return database


def browser_of(app: FastAPI) -> TestClient:
    """A browser without a cookie, whose address no other has: the app throttles by address."""
    browser = TestClient(app, follow_redirects=False, client=(secrets.token_hex(8), 50000))
    browser.portal = usual_portal()
    return browser


@cache
def usual_portal() -> BlockingPortal:
    """An event loop in a thread, for the requests of all browsers of this process.

    A browser without it starts a thread with an event loop, and one for the handler, each time.
    """
    started: Future[BlockingPortal] = Future()

    async def run() -> None:
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    threading.Thread(target=anyio.run, args=(run,), daemon=True).start()
    return started.result()


def begin(client: TestClient, database: Database) -> TestClient:
    """Press Begin on the welcome page."""
    with database.reading() as session:
        study = list_studies(session)[0]
    assert client.post("/enrol", data=begin_form(client, study.id)).status_code == 303
    return client


def enrol(client: TestClient, database: Database) -> TestClient:
    """Press Begin, agree, and go through the practice question."""
    begin(client, database)
    assert client.post("/consent", json={"agrees": True}).status_code == 200
    assert client.post("/practice", json={}).status_code == 200
    return client


def newcomer(place: Place, *, is_ready: bool = True) -> str:
    """The token of a new participant, with consent and practice if `is_ready`."""
    database, now = open_database(place.url), datetime.now(UTC)
    with database.writing() as session:
        study = list_studies(session)[0]
        (participant,) = participants.invite(session, study.id, 1, now=now)
        if is_ready:
            participants.enrol_invited(session, participant, now=now)
            participants.consent(participant, now=now)
            participant.practised_at = now
    database.close()
    return participant.token


def the_one(database: Database, statement: Select[tuple[T]]) -> T:
    """The one value or row that the statement selects."""
    with database.reading() as session:
        return session.scalars(statement).one()


def all_of(database: Database, statement: Select[tuple[T]]) -> list[T]:
    with database.reading() as session:
        return list(session.scalars(statement))


def count(database: Database, table: type[Base] = Participant) -> int:
    """The number of a table's rows."""
    return the_one(database, select(func.count()).select_from(table))


def update_all(database: Database, table: type[Base] = Participant, **values: object) -> None:
    """Change every row of a table."""
    with database.writing() as session:
        session.execute(update(table).values(**values))


def plain_browser(database: Database) -> TestClient:
    """A browser of the app without Gradio, which is slow to mount."""
    return browser_of(plain_app(Services.of(database)))


def set_status(database: Database, status: str) -> None:
    with database.writing() as session:
        list_studies(session)[0].status = status


# --------------------------------------------------------------------------------- servers


class UsualAddress:
    """A port of this process, on which its servers listen in turn.

    The browser's cache goes by the address. A socket that accepts no connection keeps the port
    until the process ends.
    """

    def __init__(self) -> None:
        self.is_free = threading.Lock()
        kept = self.bound(0)
        self.port: int = kept.getsockname()[1]
        kept.detach()

    @staticmethod
    def bound(port: int) -> socket.socket:
        """A socket that shares the port with other sockets of this user."""
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(("127.0.0.1", port))
        return bound

    def listener(self) -> socket.socket:
        return self.bound(self.port)


@cache
def usual_address() -> UsualAddress:
    return UsualAddress()


class EndingServer(uvicorn.Server):
    """A server that closes all connections at its end, also those whose requests took too long."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # until their sockets are closed


class ThreadServer:
    """An app, served by a thread of this process; at its usual address, if that is free."""

    def __init__(self, place: Place, database: Database, app: ASGIApp) -> None:
        self.place, self.database = place, database
        self.server = EndingServer(server_settings(app, "127.0.0.1", 0))

    def start(self) -> None:
        address = usual_address()
        self.is_at_usual = address.is_free.acquire(blocking=False)
        sockets = [address.listener()] if self.is_at_usual else None
        self.thread = threading.Thread(target=self.server.run, args=(sockets,))
        self.thread.start()
        while not self.server.started:
            if not self.thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.02)
        (listening,) = self.server.servers
        self.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        if self.is_at_usual:
            usual_address().is_free.release()
        self.database.close()


class Server:
    """`hsfiq serve`, or another command that serves, which can be stopped and started again.

    What it prints is in `log`, in the place's folder.
    """

    def __init__(
        self, place: Place, *words: str, command: Callable[[], object] = run_command_line
    ) -> None:
        self.place, self.command = place, command
        self.log = place.folder / "server.log"
        self.log.unlink(missing_ok=True)  # of another test in this folder
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.words = (*(words or ("serve", "--database", place.url)), "--port", str(self.port))
        self.process: Fork | None = None

    def start(self) -> None:
        self.process = Fork(self.command, self.words, self.log)
        while self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/healthz", timeout=1):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"the server ended with {self.process.poll()}")

    def stop(self, number: signal.Signals) -> int:
        """Send it a signal, and return its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def kill(self) -> None:
        if self.process:
            self.stop(signal.SIGKILL)


class ReusedStudy:
    """A copy of a study's database, copied again before each test.

    Images and the app's copies of them are shared, so a test that changes them needs its own app.
    """

    def __init__(self, template: Place, folder: Path) -> None:
        self.template, self.place = template, Place(folder)
        original = open_database(template.url)
        signer_of(original)  # each copy has the same signing key, which the app keeps
        original.close()
        self.database = Database(connect(self.place.url))

    @cached_property
    def app(self) -> FastAPI:
        return build_app(self.database)

    def server(self) -> ThreadServer:
        return ThreadServer(self.place, self.database, self.app)

    def restore(self) -> None:
        """Give the study its first state again."""
        self.database.close()
        for suffix in ("", "-wal", "-shm"):
            self.place.file.with_name(self.place.file.name + suffix).unlink(missing_ok=True)
        shutil.copyfile(self.template.file, self.place.file)
