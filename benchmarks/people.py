"""Time from submit to next question for people who think, behind nginx, on PostgreSQL.

People think for 15 seconds on average and fetch images as browsers do. `cores` is the CPU time of
the processes that answer, by second; nginx, PostgreSQL and the people are not counted. The goal is
a p95 below 40 ms and a third of a core for 300 people. `benchmarks.lab` says what it needs.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.browsing import quantiles, wait_until
from benchmarks.lab import PostgresPlace, cpu_seconds, new_database, proxied
from benchmarks.serving import Annotator, make_study
from benchmarks.soak import Ledger
from benchmarks.soak_workers import THINKING, Size, start

PEOPLE = 300
TABLE_PEOPLE, TABLE_WORKERS = (100, 300, 600), (1, 2, 4)
SECONDS, TABLE_SECONDS = 45.0, 90.0

ENTERING = 60
"""Seconds until everybody has the first images, for which there are further questions."""


def run(seed: int, full: bool) -> dict[str, Any]:
    """300 people and one worker; with `full`, three crowds and 1, 2 and 4 workers each."""
    if full:
        cases = [
            measure(people, workers, TABLE_SECONDS, seed)
            for people in TABLE_PEOPLE
            for workers in TABLE_WORKERS
        ]
    else:
        cases = [measure(PEOPLE, 1, SECONDS, seed)]
    return {
        "name": "people",
        "unit": "ms from submit to next question",
        "thinking_seconds": THINKING,
        "errors": sum(case["refused"] for case in cases),
        "cases": cases,
    }


def measure(
    people: int, workers: int, seconds: float, seed: int, thinking: float = THINKING
) -> dict[str, Any]:
    size = Size(people, seconds + ENTERING, thinking)
    with tempfile.TemporaryDirectory() as name, new_database() as url:
        place = PostgresPlace(Path(name), url)
        tokens = make_study(place, people + 1, size.questions, seed)
        with proxied(place, workers) as (server, proxy):
            first, *others = [
                Annotator(proxy.port, token, Random(n)) for n, token in enumerate(tokens)
            ]
            see_all(first)
            ledger = Ledger()
            threads = start(others, ledger, thinking)
            wait_until(lambda: len(ledger.images) >= people, "every person's first question", 600)
            used, own, begun = cpu_seconds(server), own_cpu_seconds(), time.monotonic()
            n_before, images_before = len(ledger.seconds), sum(ledger.images)
            time.sleep(seconds)
            elapsed, timed = time.monotonic() - begun, ledger.seconds[n_before:]
            used, own = cpu_seconds(server) - used, own_cpu_seconds() - own
            n_images = sum(ledger.images) - images_before
            ledger.over.set()
            for thread in threads:
                thread.join()
    p50, p95 = quantiles(timed)
    return {
        "people": people,
        "workers": workers,
        "submits": len(timed),
        "images": n_images,
        "refused": len(ledger.refusals),
        "p50_ms": p50,
        "p95_ms": p95,
        "cores": round(used / elapsed, 2),
        "cores_of_people": round(own / elapsed, 2),
    }


def see_all(person: Annotator) -> None:
    """Answer every question, so that all thumbnails are made."""
    person.enter()
    while not person.is_done:
        person.fetch_images()
        person.cycle()
    person.browser.close()


def own_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
