"""Our side of the load tests: a study on drawn garments, `hsfiq serve`, and participants."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final, cast

from sqlalchemy import func, select

from benchmarks.browsing import Browser, answers, wait_until
from hsfiq.collect import participants
from hsfiq.collect.protocol import CheckPayload, QuestionView, SubmitPayload, View
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Pair, Question, Response, RetrievedSet, Study
from hsfiq.demo.study import DrawnQuery, ruled_lists, store_queries
from hsfiq.drawn import catalogue, corpus, draw_split, generator
from hsfiq.drawn.pictures import write_images
from hsfiq.simulate.participant import sum_of
from hsfiq.study.config import Checks, Design, Presentation, StudyConfig
from hsfiq.study.design import draw_study

CATEGORY: Final = "dress"
GARMENTS = 60
IMAGE_FOLDER = "images"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a study's database and images."""

    folder: Path

    @property
    def url(self) -> str:
        """The database URL."""
        return f"sqlite:///{self.folder / 'hsfiq.db'}"

    def database(self) -> Database:
        return open_database(self.url)


def make_study(
    place: Place,
    n_people: int,
    n_questions: int,
    seed: int,
    *,
    checks: bool = False,
    studies: int = 1,
    n_garments: int = GARMENTS,
) -> list[str]:
    """Studies in each of which so many people judge the same queries; all invitations' tokens."""
    garments = catalogue(generator(seed, "catalogue"), n_garments)
    garments = corpus(garments, CATEGORY)
    write_images(garments, place.folder / IMAGE_FOLDER)
    triplets = draw_split(generator(seed, "triplets"), garments, CATEGORY, "val", n_questions)
    queries = [DrawnQuery(triplet, is_reversed=False) for triplet in triplets]
    tokens: list[str] = []
    database = place.database()
    with database.writing() as session:
        lists = ruled_lists(garments, queries, seed)
        keys = store_queries(session, place.folder, garments, queries, lists)
        for number in range(studies):
            config = StudyConfig(
                study=Presentation(name=f"load-{number}", title="Which shop understood you?"),
                design=Design(
                    questions_per_form=-(-n_questions // 2),
                    annotators_per_query=n_people,
                    seed=seed + number,
                ),
                checks=Checks(arithmetic=checks),
            )
            study = draw_study(session, config, keys)
            people = participants.invite(session, study.id, n_people, now=datetime.now(UTC))
            tokens += [person.token for person in people]
    database.close()
    return tokens


def items(place: Place) -> list[dict[str, object]]:
    """The study's questions for any tool: text, reference and sets as file names."""
    database = place.database()
    with database.reading() as session:
        pairs = session.scalars(select(Pair).join(Study).order_by(Pair.id)).all()
        references = [pair.query.triplet.reference for pair in pairs]
        questions: list[dict[str, object]] = [
            {
                "id": f"q{number:03}",
                "text": pair.query.text,
                "reference": f"{reference.name}.jpg" if reference else None,
                "set_1": file_names(pair.first),
                "set_2": file_names(pair.second),
            }
            for number, (pair, reference) in enumerate(zip(pairs, references, strict=True))
        ]
    database.close()
    return questions


def file_names(retrieved: RetrievedSet | None) -> list[str]:
    members = retrieved.images if retrieved else []
    return [f"{member.image.name}.jpg" for member in members]


class Server:
    """`hsfiq serve` as a process of its own, which may be killed and started again."""

    def __init__(self, place: Place, port: int, options: Sequence[str] = ()) -> None:
        self.place, self.port, self.options = place, port, options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.place.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hsfiq", "serve", "--port", str(self.port), *self.options],
                env=os.environ | {"HSFIQ_DATABASE_URL": self.place.url},
                stdout=log, stderr=log,
            )  # fmt: skip
        wait_until(lambda: answers(self.port, "/healthz"), "hsfiq serve")

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        """End it as its owner does: SIGTERM."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else os.getpid()

    def resident_mb(self) -> float:
        """The current memory of the process."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        return round(int(match[1]) / 1024, 1) if match else 0.0


@dataclass(slots=True)
class Annotator:
    """A participant: sends what the page's scripts send, in the same order."""

    port: int
    token: str
    rng: Random
    browser: Browser = field(init=False)
    view: View = field(init=False)

    def __post_init__(self) -> None:
        self.browser = Browser(self.port)

    def enter(self) -> None:
        """Follow the personal link, which assigns the forms; consent and practise, once."""
        self.browser.get(f"/start/{self.token}")
        self.view = json.loads(self.browser.get("/question"))
        if self.view["step"] == "consent":
            self.view = self.post("/consent", {"agrees": True})
        if self.view["step"] == "practice":
            self.view = self.post("/practice", {})

    def enter_once(self) -> None:
        """Enter the study, once only."""
        if not self.browser.cookies:
            self.enter()

    def start_over(self) -> None:
        """Go back to the first question, to revise every answer."""
        self.view = json.loads(self.browser.get("/question/1"))

    @property
    def is_done(self) -> bool:
        """Whether all questions are answered."""
        return bool(self.view["step"] == "done")

    def cycle(self) -> None:
        """Submit an answer; the acknowledgement holds the next question."""
        self.pass_checks()
        reply = self.post("/submit", self.submission())
        self.view = reply["view"]

    def submission(self) -> SubmitPayload:
        """The payload of one press of Next, with a submit key of its own."""
        view = cast("QuestionView", self.view)
        return {
            "assignment": view["assignment"],
            "submit_key": secrets.token_hex(16),
            "answer": {
                "judgement": {
                    "score_1": self.rng.randint(1, 5),
                    "score_2": self.rng.randint(1, 5),
                    "preferred": self.rng.randint(1, 2),
                    "confirmed": False,
                },
                "irrelevant": False,
                "reason": None,
                "active_seconds": 1.0,
                "seconds_since_first_interaction": 0.5,
            },
            "images": {
                "reference": "shown",
                "sets": [["shown" for _ in shown] for shown in view["sets"]],
            },
        }

    def fetch_images(self) -> int:
        """Fetch the images of the question and those of the next that the browser does not have.

        How many it fetched.
        """
        if self.view["step"] != "question":
            return 0
        shown = [image for images in self.view["sets"] for image in images]
        if self.view["reference"]:
            shown.append(self.view["reference"])
        present = [image["token"] for image in shown if not image["missing"]]
        return self.fetch([*present, *self.view["next_images"]])

    def fetch(self, tokens: Iterable[str]) -> int:
        """Fetch those images that the browser does not have; how many."""
        return sum(self.browser.fetch(f"/image/{token}") for token in tokens)

    def pass_checks(self) -> None:
        """Answer the arithmetic checks before the question."""
        while self.view["step"] == "check":
            answer = sum_of(self.view["prompt"])
            payload: CheckPayload = {"assignment": self.view["assignment"], "given": answer}
            self.view = self.post("/check", payload)["view"]

    def post(self, path: str, payload: Mapping[str, object]) -> Any:
        """Send JSON and read the reply."""
        reply = self.browser.send("POST", path, json.dumps(payload).encode(), "application/json")
        return json.loads(reply)


def answers_by_question(place: Place) -> list[tuple[int, int, int]]:
    """For each question that has answers: pair id, question id and number of rows."""
    database = place.database()
    with database.reading() as session:
        rows = session.execute(
            select(Question.pair_id, Question.id, func.count(Response.id))
            .join(Response, Response.question_id == Question.id)
            .group_by(Question.pair_id, Question.id)
        ).all()
    database.close()
    return [(pair_id, question_id, count) for pair_id, question_id, count in rows]
