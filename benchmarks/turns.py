"""How long a turn takes while ten people search: from the text sent to the list, and its images.

A system of the small size ranks 6,000 images in a process of its own. Each person thinks between
two turns. Nine people send the requests of the page: `list` is from sending the text until the list
is there, two requests; `fetched`, until the files of its images are there, too, one after the
other. The tenth person uses the page in a real Chromium: `painted` is from the key that sends the
text until all images of the list are decoded and a frame with them is painted. The machine's load
average is that of the last minute.
"""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.browsing import free_port, quantiles
from benchmarks.live import IMAGES
from benchmarks.painted_turns import in_chromium
from benchmarks.searching import K, RetrieverProcess, Searcher, make_searches, new_searchers
from benchmarks.serving import Place, Server

PEOPLE = 10
TURNS, FULL_TURNS = 8, 40
PAUSE = 1.0
"""Seconds that people think between two turns, on average."""

GOAL_MS = 300


def run(seed: int, full: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        place, retriever = Place(Path(name)), RetrieverProcess(seed)
        tokens = make_searches(place, [retriever.url], PEOPLE, seed)
        server = Server(place, free_port())
        server.start()
        try:
            n_turns = FULL_TURNS if full else TURNS
            with ThreadPoolExecutor(PEOPLE) as pool:
                people = new_searchers(server.port, tokens[1:])
                browser = pool.submit(in_chromium, server.port, tokens[0], n_turns, PAUSE, seed)
                times = list(pool.map(lambda person: turns_of(person, n_turns), people))
                painted = browser.result()
            load = os.getloadavg()[0]
        finally:
            server.kill()
            retriever.kill()
    seconds = {
        "list": [listed for own in times for listed, _ in own],
        "fetched": [fetched for own in times for _, fetched in own],
        "painted": painted,
    }
    cases: list[dict[str, Any]] = []
    for until, own in seconds.items():
        p50, p95 = quantiles(own)
        cases.append({"until": until, "turns": len(own), "p50_ms": p50, "p95_ms": p95})
    return {
        "name": "turns",
        "people": PEOPLE,
        "images": IMAGES,
        "k": K,
        "cores": os.cpu_count(),
        "load": round(load, 1),
        "goal_p95_ms": GOAL_MS,
        "met": all(case["p95_ms"] < GOAL_MS for case in cases),
        "cases": cases,
    }


def turns_of(person: Searcher, n_turns: int) -> list[tuple[float, float]]:
    """For each turn, the seconds until its list and until its images are there."""
    person.enter()
    seconds: list[tuple[float, float]] = []
    while len(seconds) < n_turns and not person.is_done:
        path, body = person.payload()
        if path != "/search/turn":
            person.send(path, body)
            continue
        time.sleep(person.rng.uniform(0, 2 * PAUSE))
        begun = time.perf_counter()
        person.send(path, body)
        person.send(*person.payload())
        listed = time.perf_counter() - begun
        person.fetch_images()
        seconds.append((listed, time.perf_counter() - begun))
    person.browser.close()
    return seconds
