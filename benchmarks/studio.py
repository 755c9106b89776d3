"""People who answer while owners upload, compute a report and train, compared with a quiet server.

The same people answer at a pace of their own on one server, first alone, then while an archive is
uploaded again and again and the server runs two jobs: a report, then the training of a scorer.
`ratio` is that of the 95th percentiles of an answer's acknowledgement; the goal is at most 250 ms
under load. `lost` are answers that were acknowledged and are not stored.
"""

from __future__ import annotations

import tempfile
import threading
import time
import urllib.request
import zipfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import select

from benchmarks.browsing import free_port, quantiles
from benchmarks.serving import IMAGE_FOLDER, Annotator, Place, Server, make_study
from hsfiq.access import new_hash, set_owner_password
from hsfiq.actors import OWNER
from hsfiq.db.studio_tables import Job
from hsfiq.db.tables import Response
from hsfiq.drafts import create_draft, new_content
from hsfiq.jobs import FOLDER, add_job

PEOPLE, QUESTIONS = 30, 160
THINKING = 2.0
SECONDS, FULL_SECONDS = 40.0, 120.0
LONGEST = 300.0
"""The server is busy until the jobs have ended, and at most so many seconds."""
PASSWORD = "a sentence of the benchmark"
PART = 1 << 20
COMMANDS = (
    ["export", "--study", "load-0", "--report", f"{FOLDER}/report"],
    ["train", "cirqrs-fashioniq", "--data", "drawn", "--limit", "400", "--out", f"{FOLDER}/run"],
)


@dataclass(slots=True)
class People:
    """The seconds until each answer of the people was acknowledged."""

    persons: list[Annotator]
    seconds: list[float] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)

    def answer(self, person: Annotator, over: threading.Event) -> None:
        person.enter()
        while not over.is_set() and not person.is_done:
            person.pass_checks()
            body = person.submission()
            begun = time.perf_counter()
            person.view = person.post("/submit", body)["view"]
            self.seconds.append(time.perf_counter() - begun)
            self.acknowledged.append(body["submit_key"])
            person.fetch_images()
            over.wait(min(person.rng.expovariate(1 / THINKING), 4 * THINKING))
        person.browser.close()


def run(seed: int, full: bool) -> dict[str, Any]:
    seconds = FULL_SECONDS if full else SECONDS
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        place = Place(Path(name))
        tokens = make_study(place, PEOPLE, QUESTIONS, seed)
        token = draft_for_uploads(place)
        server = Server(place, free_port())
        server.start()
        opened.callback(server.stop)
        rngs = (Random(f"{seed} {n}") for n in range(PEOPLE))
        people = People([Annotator(server.port, *each) for each in zip(tokens, rngs, strict=True)])
        over = threading.Event()
        threads = [
            threading.Thread(target=people.answer, args=(person, over)) for person in people.persons
        ]
        for thread in threads:
            thread.start()
        time.sleep(seconds / 4)
        quiet = timed(people, seconds)
        uploads = Uploads(server.port, token, archive_of(place))
        opened.callback(uploads.stop)
        job_id = start_jobs(place)
        uploads.start()
        busy = timed(people, seconds)
        before = len(people.seconds) - len(busy)
        wait_for_jobs(place, job_id, LONGEST - seconds)
        busy = people.seconds[before:]
        over.set()
        for thread in threads:
            thread.join()
        return result(quiet, busy, uploads.megabytes, place, job_id, people)


def timed(people: People, seconds: float) -> list[float]:
    before = len(people.seconds)
    time.sleep(seconds)
    return people.seconds[before:]


def result(
    quiet: list[float],
    busy: list[float],
    megabytes: float,
    place: Place,
    job_id: int,
    people: People,
) -> dict[str, Any]:
    cases: list[dict[str, Any]] = []
    for label, seconds in (("quiet", quiet), ("busy", busy)):
        p50, p95 = quantiles(seconds)
        cases.append({"server": label, "answers": len(seconds), "p50_ms": p50, "p95_ms": p95})
    database = place.database()
    with database.reading() as session:
        stored = set(session.scalars(select(Response.submit_key)))
        step = session.get_one(Job, job_id).step
    database.close()
    return {
        "name": "studio",
        "unit": "ms until an answer is acknowledged",
        "ratio": round(cases[1]["p95_ms"] / cases[0]["p95_ms"], 2),
        "uploaded_mb": round(megabytes, 1),
        "jobs_done": step,
        "lost": len(set(people.acknowledged) - stored),
        "cases": cases,
    }


def draft_for_uploads(place: Place) -> str:
    """A draft, and the owner's password."""
    database = place.database()
    with database.writing() as session:
        set_owner_password(session, new_hash(PASSWORD))
        token = create_draft(session, OWNER, new_content("uploads", "Uploads")).token
    database.close()
    return token


def start_jobs(place: Place) -> int:
    database = place.database()
    with database.writing() as session:
        job = add_job(session, OWNER, "report", "a report, then a training", COMMANDS)
    database.close()
    return job.id


def wait_for_jobs(place: Place, job_id: int, longest: float) -> None:
    database = place.database()
    ends = time.monotonic() + longest
    while time.monotonic() < ends:
        with database.reading() as session:
            if session.get_one(Job, job_id).state not in ("waiting", "running"):
                break
        time.sleep(1)
    database.close()


def archive_of(place: Place) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for image in sorted((place.folder / IMAGE_FOLDER).rglob("*")):
            if image.is_file():
                archive.write(image, image.name)
    return content.getvalue()


class Uploads:
    """Sends an archive part by part, as the page does, again and again under other names."""

    def __init__(self, port: int, token: str, archive: bytes) -> None:
        self.address = f"http://127.0.0.1:{port}/owner"
        self.token, self.archive, self.megabytes = token, archive, 0.0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        cookies = urllib.request.HTTPCookieProcessor()
        self.opener = urllib.request.build_opener(cookies)

    def start(self) -> None:
        fields = urlencode({"name": "owner", "password": PASSWORD}).encode()
        self.opener.open(f"{self.address}/login", fields).close()
        self.thread.start()

    def stop(self) -> None:
        self.over.set()
        self.thread.join()

    def run(self) -> None:
        number = 0
        while not self.over.is_set():
            number += 1
            for offset in range(0, len(self.archive), PART):
                self.send(f"images-{number}.zip", offset)

    def send(self, name: str, offset: int) -> None:
        body = self.archive[offset : offset + PART]
        asked = {"name": name, "size": len(self.archive), "stamp": "1", "offset": offset}
        address = f"{self.address}/draft/{self.token}/upload?{urlencode(asked)}"
        headers = {"Content-Type": "application/octet-stream"}
        self.opener.open(urllib.request.Request(address, body, headers)).close()
        self.megabytes += len(body) / 1e6
