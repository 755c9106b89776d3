"""Images in S3 compared with the same on disk, and people who answer while the store is away.

Two servers have the same study of 2,000 images, one in a folder and one in Moto's S3, and so many
people each, who answer at the same time. Thumbnails are made first, as a server does. `ratio` is
that of the 95th percentiles of the images' answers; the goal is at most 1.2. Then the store refuses
connections for half of the outage and is silent for the other half, while people go on.
`not_shown` are images that a view called missing or that were not sent; `lost` are answers that
were acknowledged and are not stored.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import select, update

from benchmarks.browsing import Refusal, answers, free_port, quantiles, wait_until
from benchmarks.serving import IMAGE_FOLDER, Annotator, Place, Server, make_study
from benchmarks.tcp_proxy import TcpProxy
from hsfiq.db.source_tables import Dataset
from hsfiq.db.tables import Response
from hsfiq.drawn import catalogue, corpus, generator
from hsfiq.drawn.pictures import write_images
from hsfiq.study.images import check_and_record

GARMENTS, OTHERS = 1920, 80
"""All dresses that can be drawn, which the study shows, and some shirts beside them."""

PEOPLE, QUESTIONS = 50, 160
THINKING = 4.0
ENTERING = 20.0
"""Seconds within which everybody enters; the time afterwards is measured."""

SECONDS, FULL_SECONDS = 60.0, 300.0
OUTAGE = 60.0
BUCKET = "images"
KEY, SECRET = "telltale-key", "telltale-secret"


@dataclass(slots=True)
class Side:
    """People of one server: the seconds of each image, and what went wrong."""

    server: Server
    people: list[Annotator]
    image_seconds: list[float] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    not_shown: int = 0
    refused: int = 0

    def answer_on(self, person: Annotator, over: threading.Event) -> None:
        if over.wait(person.rng.uniform(0, ENTERING)):
            return
        person.enter()
        while not over.is_set() and not person.is_done:
            self.fetch_images(person)
            if over.wait(min(person.rng.expovariate(1 / THINKING), 4 * THINKING)):
                break
            body = person.submission()
            try:
                person.view = person.post("/submit", body)["view"]
            except Refusal:
                self.refused += 1
            else:
                self.acknowledged.append(body["submit_key"])
        person.browser.close()

    def fetch_images(self, person: Annotator) -> None:
        view: Any = person.view
        if view["step"] != "question":
            return
        shown = [view["reference"], *(image for images in view["sets"] for image in images)]
        self.not_shown += sum(image["missing"] for image in shown)
        for token in [*(image["token"] for image in shown), *view["next_images"]]:
            begun = time.perf_counter()
            try:
                if person.browser.fetch(f"/image/{token}"):
                    self.image_seconds.append(time.perf_counter() - begun)
            except Refusal:
                self.not_shown += 1

    def lost(self) -> int:
        """The acknowledged answers that are not stored."""
        database = self.server.place.database()
        with database.reading() as session:
            stored = set(session.scalars(select(Response.submit_key)))
        database.close()
        return len(set(self.acknowledged) - stored)


def run(seed: int, full: bool) -> dict[str, Any]:
    """A minute with the store and one without; five with it if `full`."""
    return measure(GARMENTS, PEOPLE, FULL_SECONDS if full else SECONDS, OUTAGE, seed)


def measure(
    n_garments: int, people: int, seconds: float, outage: float, seed: int
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        proxy = opened.enter_context(s3())[1]
        os.environ.update(variables(proxy.port), XDG_CACHE_HOME=name)
        disk, store = Place(Path(name) / "disk"), Place(Path(name) / "store")
        disk.folder.mkdir()
        tokens = make_study(disk, people, QUESTIONS, seed, n_garments=n_garments)
        folder = disk.folder / IMAGE_FOLDER
        others = catalogue(generator(seed, "others"), OTHERS)
        write_images(corpus(others, "shirt"), folder)
        shutil.copytree(disk.folder, store.folder)
        shutil.rmtree(store.folder / IMAGE_FOLDER)
        upload(folder)
        sides = {}
        for place, address in ((disk, str(folder)), (store, f"s3://{BUCKET}")):
            n_shown = record(place, address)
            server = Server(place, free_port())
            server.start()
            opened.callback(server.stop)
            # Other seeds on each side: in step, the people of one would always be served first.
            rngs = (Random(f"{place.folder.name} {n}") for n in range(people))
            persons = [Annotator(server.port, *each) for each in zip(tokens, rngs, strict=True)]
            sides[place.folder.name] = Side(server, persons)
        for side in sides.values():
            wait_for_thumbnails(side.server.place, n_shown)
        result = compare(sides, proxy, seconds, outage)
        return {"images": len(list(folder.iterdir())), "people_of_each": people, **result}


def compare(
    sides: dict[str, Side], proxy: TcpProxy, seconds: float, outage: float
) -> dict[str, Any]:
    over = threading.Event()
    threads = [
        threading.Thread(target=side.answer_on, args=(person, over))
        for side in sides.values()
        for person in side.people
    ]
    for thread in threads:
        thread.start()
    time.sleep(ENTERING + 2 * THINKING)
    entered = {where: len(side.image_seconds) for where, side in sides.items()}
    before = {where: len(side.acknowledged) for where, side in sides.items()}
    time.sleep(seconds)
    timed = {where: side.image_seconds[entered[where] :] for where, side in sides.items()}
    during = {where: len(side.acknowledged) - before[where] for where, side in sides.items()}
    ended = {where: len(side.image_seconds) for where, side in sides.items()}
    before = {where: len(side.acknowledged) for where, side in sides.items()}
    proxy.reset()
    time.sleep(outage / 2)
    proxy.recover()
    proxy.fall_silent()
    time.sleep(outage / 2)
    without = {where: side.image_seconds[ended[where] :] for where, side in sides.items()}
    in_outage = {where: len(side.acknowledged) - before[where] for where, side in sides.items()}
    proxy.recover()
    over.set()
    for thread in threads:
        thread.join()
    cases: list[dict[str, Any]] = []
    for where, side in sides.items():
        p50, p95 = quantiles(timed[where])
        cases.append({
            "images_in": where,
            "images_sent": len(timed[where]),
            "p50_ms": p50,
            "p95_ms": p95,
            "p95_ms_in_outage": quantiles(without[where])[1],
            "answers": during[where],
            "answers_in_outage": in_outage[where],
            "not_shown": side.not_shown,
            "refused": side.refused,
            "lost": side.lost(),
        })  # fmt: skip
    disk, store = cases
    return {
        "name": "stores",
        "unit": "ms of an image's answer",
        "ratio": round(store["p95_ms"] / disk["p95_ms"], 3),
        "outage_seconds": outage,
        "cases": cases,
    }


def record(place: Place, address: str) -> int:
    """Record the digests of the study's images, which are here; how many contents they have."""
    database = place.database()
    with database.writing() as session:
        session.execute(update(Dataset).values(image_root=address))
    states = check_and_record(database, "load-0")
    assert states.passed, states.warnings()
    database.close()
    return len({image.sha256 for image in states.new})


def wait_for_thumbnails(place: Place, number: int) -> None:
    """Until the server has made so many."""
    folder = Path(f"{place.folder / 'hsfiq.db'}.thumbnails")
    wait_until(lambda: len(list(folder.glob("*.webp"))) >= number, "every thumbnail", 900)


def upload(folder: Path) -> None:
    import s3fs  # noqa: PLC0415 (of the extra `stores`)

    files = s3fs.S3FileSystem()
    files.mkdir(BUCKET)
    files.put([str(path) for path in sorted(folder.iterdir())], f"{BUCKET}/")


def variables(port: int) -> dict[str, str]:
    """Those of a client of S3 at this port."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@contextmanager
def s3() -> Iterator[tuple[int, TcpProxy]]:
    """Moto's S3 as a process: its port, and the proxy in front of it."""
    port = free_port()
    program = f"from moto.server import main; main(['-p', '{port}'])"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    proxy = TcpProxy("127.0.0.1", port)
    try:
        wait_until(lambda: answers(port, "/moto-api/"), "Moto")
        yield port, proxy
    finally:
        proxy.reset()
        process.terminate()
        process.wait()
