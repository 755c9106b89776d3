"""Answers under kill -9: 30 people answer while the server is killed and started again.

Participants enrol and consent while the server is being killed, and send each answer, always with
the same submit key as the page does, until it is acknowledged. In the end each acknowledged answer
must be stored in one row, and no pair may have more answers than the design requires.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import select

from benchmarks.browsing import Refusal, free_port, quantiles, wait_until
from benchmarks.serving import Annotator, Place, Server, answers_by_question, make_study
from hsfiq.collect.protocol import SubmitPayload
from hsfiq.db.tables import Response

PEOPLE = 30
ROUNDS, FULL_ROUNDS = 6, 20
QUESTIONS = 200
SHORTEST, LONGEST = 0.3, 1.5
"""Seconds between the first acknowledged answer after a start and the next kill."""

FIRST_WAIT, LONGEST_WAIT = 0.05, 0.8
"""Seconds before a request that was not answered is repeated; doubled each time."""


@dataclass(slots=True)
class Ledger:
    """Submit keys that the server acknowledged, the seconds each took, and images per question.

    `repeated` has the seconds before each repetition of a request without an answer.
    """

    acknowledged: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    images: list[int] = field(default_factory=list)
    repeated: list[float] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


def run(seed: int, full: bool) -> dict[str, Any]:
    """Soak for some rounds and count."""
    with tempfile.TemporaryDirectory() as name:
        return soak(Place(Path(name)), FULL_ROUNDS if full else ROUNDS, seed)


def soak(place: Place, rounds: int, seed: int, people: int = PEOPLE) -> dict[str, Any]:
    """Let people answer during `rounds` kills of the server, then check the stored answers."""
    rng = Random(seed)
    tokens = make_study(place, people, QUESTIONS, seed, checks=True)
    server = Server(place, free_port())
    server.start()
    ledger = Ledger()
    annotators = [Annotator(server.port, token, Random(n)) for n, token in enumerate(tokens)]
    threads = [
        threading.Thread(target=answer_on, args=(annotator, ledger), daemon=True)
        for annotator in annotators
    ]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        n_acknowledged = len(ledger.acknowledged)
        while len(ledger.acknowledged) == n_acknowledged and are_alive(threads):
            time.sleep(0.05)
        time.sleep(rng.uniform(SHORTEST, LONGEST))
        server.kill()
        server.start()
    ledger.over.set()
    wait_until(lambda: not are_alive(threads), "every annotator")
    server.kill()
    return summarize(place, ledger, people, rounds)


def are_alive(threads: Sequence[threading.Thread]) -> bool:
    """Whether any thread is running."""
    return any(thread.is_alive() for thread in threads)


def answer_on(person: Annotator, ledger: Ledger) -> None:
    """Answer until the run is over; retry every answer until the server replies."""
    retry(person, person.enter, ledger)
    while not ledger.over.is_set() and not person.is_done:
        retry(person, person.pass_checks, ledger)
        body = person.submission()
        begun = time.perf_counter()

        def submit(body: SubmitPayload = body) -> None:
            person.view = person.post("/submit", body)["view"]

        if retry(person, submit, ledger):
            ledger.seconds.append(time.perf_counter() - begun)
            ledger.acknowledged.append(body["submit_key"])
    person.browser.close()


def retry(person: Annotator, action: Callable[[], None], ledger: Ledger) -> bool:
    """Repeat until the server replies; False if it refused."""
    is_refused, wait = False, FIRST_WAIT
    while True:
        try:
            action()
        except Refusal as refusal:
            if refusal.status < 500:
                # The check was answered just before a kill: reload the state, as the page does.
                ledger.refusals.append(str(refusal))
                action, is_refused = person.enter, True
                continue
        except (OSError, http.client.HTTPException):
            person.browser.close()
        else:
            return not is_refused
        time.sleep(wait)
        ledger.repeated.append(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def summarize(place: Place, ledger: Ledger, people: int, restarts: int) -> dict[str, Any]:
    """Compare acknowledged with stored answers, and these with the design.

    Nobody revises here, so a second row of a question is a duplicate; the design requires `people`
    answers to each pair.
    """
    database = place.database()
    with database.reading() as session:
        stored = set(session.scalars(select(Response.submit_key)))
    database.close()
    rows = answers_by_question(place)
    judged = Counter(pair_id for pair_id, _, _ in rows)
    p50, p95 = quantiles(ledger.seconds)
    return {
        "name": "soak",
        "annotators": people,
        "acknowledged": len(ledger.acknowledged),
        "stored": sum(count for _, _, count in rows),
        "lost": sum(key not in stored for key in ledger.acknowledged),
        "duplicated": sum(count - 1 for _, _, count in rows),
        "overlap_exceeded": sum(count > people for count in judged.values()),
        "refused": len(ledger.refusals),
        "restarts": restarts,
        "p50_ms": p50,
        "p95_ms": p95,
        "cases": [],
    }
