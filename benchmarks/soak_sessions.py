"""Searches under kill -9: 30 people search while the app and the retrievers are killed in turn.

Every press of a button is sent, always with the same submit key, until it is acknowledged. In the
end each acknowledged text, ending and judgement must be stored in one row, and each turn must have
the lists of all its systems or none.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import func, select

from benchmarks.browsing import Browser, Refusal, free_port, wait_until
from benchmarks.searching import (
    Addressed,
    Killable,
    RetrieverProcess,
    Searcher,
    make_searches,
    new_searchers,
)
from benchmarks.serving import Place, Server
from benchmarks.soak import are_alive
from hsfiq.db.search_tables import SearchEnding, SearchFeedback, SearchList, SearchTurn
from hsfiq.db.tables import Response

PEOPLE = 30
KILLS, FULL_KILLS = 4, 16
SHORTEST, LONGEST = 0.5, 2.0
"""Seconds between a first acknowledgement after a start and the next kill."""

RELOAD_STATUSES = (403, 409)
"""The page loads the current view where a step was stored just before a kill."""

BUSY = 503
"""Another request keeps the database locked: the page offers to try again."""


@dataclass(slots=True)
class Ledger:
    """The submit keys that the server has acknowledged, by path."""

    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    n_lists: int = 0
    n_opinions: int = 0
    refusals: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def n_acknowledged(self) -> int:
        return sum(map(len, self.acknowledged.values()))


def run(seed: int, full: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        kills = FULL_KILLS if full else KILLS
        return soak(Place(Path(name)), kills, seed, [RetrieverProcess(seed)])


def soak(
    place: Place, kills: int, seed: int, retrievers: Sequence[Addressed], people: int = PEOPLE
) -> dict[str, Any]:
    """Let people search during so many kills, then compare what is stored.

    With two retrievers or more, they search in an arena.
    """
    rng = Random(seed)
    tokens = make_searches(place, [retriever.url for retriever in retrievers], people, seed)
    server = Server(place, free_port())
    server.start()
    ledger = Ledger()
    threads = [
        threading.Thread(target=search_on, args=(person, ledger), daemon=True)
        for person in new_searchers(server.port, tokens)
    ]
    for thread in threads:
        thread.start()
    try:
        for kill in range(kills):
            before = ledger.n_acknowledged
            while ledger.n_acknowledged == before and are_alive(threads):
                time.sleep(0.05)
            time.sleep(rng.uniform(SHORTEST, LONGEST))
            victims: list[Killable] = [server, *retrievers]
            killed = victims[kill % len(victims)]
            killed.kill()
            killed.start()
        ledger.over.set()
        wait_until(lambda: not are_alive(threads), "every participant")
    finally:
        server.kill()
        for retriever in retrievers:
            retriever.kill()
    return summarize(place, ledger, people, kills, len(retrievers))


def search_on(person: Searcher, ledger: Ledger) -> None:
    """Search until the run is over; repeat every request until the server replies."""
    repeat(person, None, ledger)
    while not ledger.over.is_set() and not person.is_done:
        path, body = person.payload()
        if repeat(person, (path, body), ledger):
            ledger.n_lists += path == "/search/list"
            if "submit_key" in body:
                ledger.acknowledged.setdefault(path, []).append(body["submit_key"])
                ledger.n_opinions += body.get("opinion") is not None
    person.browser.close()


def repeat(person: Searcher, request: tuple[str, dict[str, Any]] | None, ledger: Ledger) -> bool:
    """Send until the server replies; False if the page was loaded instead (None: that is all)."""
    wanted = request
    while True:
        try:
            if request is None:
                person.enter()
            else:
                person.send(*request)
        except Refusal as refusal:
            if refusal.status == BUSY:
                time.sleep(0.2)
                continue
            if refusal.status not in RELOAD_STATUSES:
                raise
            ledger.refusals.append(str(refusal))
            request = None
        except (OSError, http.client.HTTPException):
            person.browser.close()
            cookies, person.browser = person.browser.cookies, Browser(person.port)
            person.browser.cookies = cookies
            time.sleep(0.05)
        else:
            return request is not None and request is wanted


def summarize(
    place: Place, ledger: Ledger, people: int, kills: int, n_retrievers: int
) -> dict[str, Any]:
    database = place.database()
    with database.reading() as session:
        stored = {
            "/search/turn": session.scalars(select(SearchTurn.submit_key)).all(),
            "/search/stop": session.scalars(select(SearchEnding.submit_key)).all(),
            "/submit": session.scalars(select(Response.submit_key)).all(),
        }
        lists = Counter(session.scalars(select(SearchList.turn_id)))
        n_opinions = session.scalar(select(func.count(SearchFeedback.turn_id))) or 0
    database.close()
    own = {path: [key for key in keys if key != "query"] for path, keys in stored.items()}
    return {
        "name": "soak-sessions",
        "participants": people,
        "acknowledged": ledger.n_acknowledged,
        "stored": sum(map(len, own.values())),
        "lost": sum(
            key not in set(own[path]) for path, keys in ledger.acknowledged.items() for key in keys
        ),
        "duplicated": sum(len(keys) - len(set(keys)) for keys in own.values()),
        "lists": lists.total(),
        "half_turns": sum(n != min(n_retrievers, 2) for n in lists.values()),
        "refused": len(ledger.refusals),
        "kills": kills,
        "cases": [
            {"request": path, "acknowledged": len(ledger.acknowledged.get(path, ())),
             "stored": len(keys)}
            for path, keys in own.items()
        ] + [{"request": "opinions", "acknowledged": ledger.n_opinions, "stored": n_opinions}],
    }  # fmt: skip
