"""Answers under kill -9: 30 people answer while the server is killed and started again.

Every person sends each answer until it is acknowledged, always under the same submit key, as the
page does. In the end each acknowledged answer must be stored, once, and no pair may have more
answers than the design wants.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import select

from benchmarks.browsing import Browser, Refusal, free_port, quantiles
from benchmarks.serving import Annotator, Place, Server, make_study, planned_and_answered
from hsfiq.tables import Response

PEOPLE = 30
ROUNDS, FULL_ROUNDS = 6, 20
QUESTIONS = 200
SHORTEST, LONGEST = 0.3, 1.5
"""Seconds between a start and the next kill."""


@dataclass(slots=True)
class Ledger:
    """What the server has acknowledged, by submit key, and how long each took."""

    acknowledged: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


def run(seed: int, full: bool) -> dict[str, Any]:
    """Soak for some rounds and count."""
    with tempfile.TemporaryDirectory() as name:
        return soak(Place(Path(name)), FULL_ROUNDS if full else ROUNDS, seed)


def soak(place: Place, rounds: int, seed: int, people: int = PEOPLE) -> dict[str, Any]:
    """Let people answer through `rounds` kills of the server, then hold both accounts together."""
    rng = Random(seed)
    tokens = make_study(place, people, QUESTIONS, seed, checks=True)
    server = Server(place, free_port())
    server.start()
    ledger = Ledger()
    threads = [
        threading.Thread(target=answer_on, args=(Annotator(server.port, token, Random(n)), ledger))
        for n, token in enumerate(tokens)
    ]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        time.sleep(rng.uniform(SHORTEST, LONGEST))
        server.kill()
        server.start()
    time.sleep(1)  # the last answers come through a server that stays
    ledger.over.set()
    for thread in threads:
        thread.join()
    server.kill()
    return account(place, ledger, people, rounds)


def answer_on(person: Annotator, ledger: Ledger) -> None:
    """Answer until it is over; whatever the server does, no answer is given up."""
    insist(person, person.arrive, ledger)
    while not ledger.over.is_set() and not person.is_done:
        insist(person, person.pass_checks, ledger)
        body = person.submission()
        begun = time.perf_counter()

        def submit(body: dict[str, Any] = body) -> None:
            person.view = person.post("/submit", body)["view"]

        if insist(person, submit, ledger):
            ledger.seconds.append(time.perf_counter() - begun)
            ledger.acknowledged.append(body["submit_key"])
    person.browser.close()


def insist(person: Annotator, action: Callable[[], None], ledger: Ledger) -> bool:
    """Do something until the server has answered; False if it refused, or if it is over."""
    while True:
        try:
            action()
        except Refusal as refusal:
            # A sum answered just before a kill is asked no more: load the state, as the page does.
            ledger.refusals.append(str(refusal))
            action = person.arrive
        except (OSError, http.client.HTTPException):
            if ledger.over.is_set():
                return False
            person.browser.close()
            cookies, person.browser = person.browser.cookies, Browser(person.port)
            person.browser.cookies = cookies
            time.sleep(0.05)
        else:
            return action is not person.arrive


def account(place: Place, ledger: Ledger, people: int, restarts: int) -> dict[str, Any]:
    """Hold what was acknowledged against what is stored."""
    database = place.database()
    with database.reading() as session:
        stored = Counter(session.scalars(select(Response.submit_key)))
    database.close()
    lost = [key for key in ledger.acknowledged if key not in stored]
    exceeded = [row for row in planned_and_answered(place) if row[2] > row[1]]
    p50, p95 = quantiles(ledger.seconds)
    return {
        "name": "soak",
        "annotators": people,
        "acknowledged": len(ledger.acknowledged),
        "stored": sum(stored.values()),
        "lost": len(lost),
        "duplicated": sum(count - 1 for count in stored.values())
        + len(ledger.acknowledged)
        - len(set(ledger.acknowledged)),
        "overlap_exceeded": len(exceeded),
        "refused": len(ledger.refusals),
        "restarts": restarts,
        "p50_ms": p50,
        "p95_ms": p95,
        "cases": [],
    }
