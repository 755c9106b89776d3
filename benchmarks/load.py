"""A complete study at once: 61 participants x 50 questions over HTTP, with the real app.

There is no pause between answers. Images are fetched as browsers do, each once, and not timed. With
`--full` the participants then revise their answers until there are 10,000 submits: memory must not
grow. Then a second study is answered with log-normal pauses of about `THINKING` seconds, roughly
twenty times faster than people. `python -m benchmarks people` has people who think for 15 seconds.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.browsing import free_port, quantiles
from benchmarks.serving import Annotator, Place, Server, answers_by_question, make_study

PEOPLE, QUESTIONS = 61, 50
THINKING = 1.2
SUBMITS = 10_000


def run(seed: int, full: bool) -> dict[str, Any]:
    """Answer a study without pauses, and another with them."""
    cases = [answer_study(PEOPLE, seed, pause=0.0, submits=SUBMITS if full else 0)]
    if full:
        cases.append(answer_study(PEOPLE, seed, pause=THINKING, submits=0))
    return {
        "name": "load",
        "unit": "ms from submit to next question",
        "participants": PEOPLE,
        "questions": PEOPLE * QUESTIONS,
        "errors": sum(case["errors"] for case in cases),
        "cases": cases,
    }


def answer_study(people: int, seed: int, pause: float, submits: int) -> dict[str, Any]:
    """Everybody answers everything; then revisions until there are `submits` in all."""
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        tokens = make_study(place, people, QUESTIONS, seed, checks=True)
        server = Server(place, free_port())
        crowd = [Annotator(server.port, token, Random(n)) for n, token in enumerate(tokens)]
        server.start()
        try:
            memory = [server.resident_mb()]
            seconds, errors = all_at_once(crowd, pause)
            memory.append(server.resident_mb())
            while len(seconds) < submits:
                for person in crowd:
                    person.start_over()
                extra_seconds, failed = all_at_once(crowd, 0.0)
                seconds += extra_seconds
                errors += failed
                memory.append(server.resident_mb())
        finally:
            server.kill()
            for person in crowd:
                person.browser.close()
        answered = len(answers_by_question(place))
    p50, p95 = quantiles(seconds)
    return {
        "pause": pause,
        "submits": len(seconds),
        "errors": len(errors),
        "unanswered": people * QUESTIONS - answered,
        "p50_ms": p50,
        "p95_ms": p95,
        "memory_mb": memory,
    }


def all_at_once(crowd: list[Annotator], pause: float) -> tuple[list[float], list[str]]:
    """Each person in a thread answers until nothing is left; seconds of each submit, and errors."""
    seconds: list[float] = []
    errors: list[str] = []

    def work(person: Annotator) -> None:
        try:
            person.enter_once()
            while not person.is_done:
                person.fetch_images()
                if pause:
                    time.sleep(pause * person.rng.lognormvariate(0, 0.5))
                begun = time.perf_counter()
                person.cycle()
                seconds.append(time.perf_counter() - begun)
        except Exception as error:  # noqa: BLE001 (counted and shown: the run must go on)
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=(person,)) for person in crowd]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seconds, errors
