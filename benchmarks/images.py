"""Images at signed addresses, compared with asking the database who may see each: same images.

One server has both: the page's addresses, and a route that reads the participant and the image from
the database for each request. `statements` and `cpu_ms` are the server's, per image.
32 clients fetch in turn; as they take CPU time, too, their waiting is more than the server's time.
`equal`: both sides send the same bytes.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from sqlalchemy import event, select

from benchmarks.browsing import answers, free_port, quantiles, time_cycles, wait_until
from benchmarks.lab import cpu_of
from benchmarks.serving import Annotator, Place, make_study
from hsfiq.annotate.app import build_app
from hsfiq.annotate.cookies import required_participant
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.images import HEADERS
from hsfiq.db.source_tables import Image
from hsfiq.http_server import server_settings
from hsfiq.images.stored_copies import read_copy

CLIENTS, QUESTIONS = 32, 10
REQUESTS, FULL_REQUESTS = 60, 400
"""Of each client and side."""

SIDES = {"database": "/by-database/", "signed": "/image/"}


def run(seed: int, full: bool) -> dict[str, Any]:
    """So many requests of each client and side."""
    return measure(CLIENTS, FULL_REQUESTS if full else REQUESTS, seed)


def measure(n_clients: int, requests: int, seed: int) -> dict[str, Any]:
    """Time both sides; the ratio is that of the server's CPU time per image."""
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        tokens = make_study(place, n_clients, QUESTIONS, seed)
        with served(place) as (port, pid, statements):
            people = [Annotator(port, token, Random(n)) for n, token in enumerate(tokens)]
            shown = [images_of(person) for person in people]
            is_equal = all(
                len({people[0].browser.get(path_of(side, image)) for side in SIDES}) == 1
                for image in shown[0]
            )
            cases: list[dict[str, Any]] = []
            for side in SIDES:
                clients = [
                    Client(person, [path_of(side, image) for image in images])
                    for person, images in zip(people, shown, strict=True)
                ]
                time_cycles(clients, QUESTIONS, 0)
                begun, used = statements.value, cpu_of(pid)
                seconds = time_cycles(clients, requests, 0)
                n = n_clients * requests
                p50, p95 = quantiles(seconds)
                cases.append({
                    "side": side,
                    "statements": round((statements.value - begun) / n, 3),
                    "cpu_ms": round(1000 * (cpu_of(pid) - used) / n, 2),
                    "p50_ms": p50,
                    "p95_ms": p95,
                })  # fmt: skip
            for person in people:
                person.browser.close()
    before, after = cases
    return {
        "name": "images",
        "unit": f"per image, of {n_clients} clients",
        "ratio": round(before["cpu_ms"] / after["cpu_ms"], 2),
        "equal": is_equal,
        "cases": cases,
    }


def images_of(person: Annotator) -> list[str]:
    """The addresses of all images of the first question."""
    person.enter()
    person.fetch_images()
    view: Any = person.view
    return [image["token"] for images in view["sets"] for image in images]


def path_of(side: str, address: str) -> str:
    return SIDES[side] + (address if side == "signed" else address.partition(".")[0])


class Client:
    """A browser that fetches some images again and again, without keeping them."""

    def __init__(self, person: Annotator, paths: list[str]) -> None:
        self._browser, self._paths = person.browser, cycle(paths)

    def cycle(self) -> None:
        self._browser.get(next(self._paths))


@contextmanager
def served(place: Place) -> Iterator[tuple[int, int, Synchronized[int]]]:
    """The port and process of a server of both sides, and the statements that it has executed."""
    context = multiprocessing.get_context("spawn")
    statements, port = context.Value("q", 0), free_port()
    process = context.Process(target=serve, args=(place, port, statements))
    process.start()
    try:
        wait_until(lambda: answers(port, "/healthz"), "the server")
        yield port, process.pid or 0, statements
    finally:
        process.terminate()
        process.join()


def serve(place: Place, port: int, statements: Synchronized[int]) -> None:
    database = place.database()
    services = Services.of(database)

    def count(*_: object) -> None:
        with statements.get_lock():
            statements.value += 1

    event.listen(database.engine, "before_cursor_execute", count)
    app = build_app(database, services)
    add_slow_images(app, services)
    uvicorn.Server(server_settings(app, "127.0.0.1", port)).run()


def add_slow_images(app: FastAPI, services: Services) -> None:
    @app.get("/by-database/{token}")
    def thumbnail(request: Request, token: str) -> Response:
        with services.database.reading() as session:
            required_participant(session, request.cookies, services.signer)
            image = session.scalars(select(Image).where(Image.token == token)).one()
            copy = services.images.file_of(session, image)
            assert isinstance(copy, Path)
            return Response(read_copy(copy), media_type="image/webp", headers=HEADERS)
