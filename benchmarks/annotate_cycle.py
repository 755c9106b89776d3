"""Time from submit to next question, compared with Potato: same items and images, both warm.

The two servers run one after the other on this machine, each in its own process; the users are
threads of this process. A cycle is what each page's script does from pressing Next until the next
question's content has arrived: Potato saves, navigates and loads the page again; ours posts the
answer (committed and flushed to the disk) and gets the next question with the acknowledgement.
Images are not timed: ours are fetched before Next is pressed. `equal`: each side has stored exactly
the answers that were given.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import potato
from benchmarks.browsing import free_port, quantiles, time_cycles
from benchmarks.serving import (
    IMAGE_FOLDER,
    Annotator,
    Place,
    Server,
    answers_by_question,
    items,
    make_study,
)

WARM_UP = 3
CASES = {1: 24, 8: 12, 32: 6}
"""Concurrent users -> timed cycles of each."""
FULL_CASES = {1: 40, 8: 40, 32: 40}
GOALS = {1: 1.0, 8: None, 32: 3.0}


def run(seed: int, full: bool) -> dict[str, Any]:
    """Time both sides; the ratio is that of 32 users."""
    cases = FULL_CASES if full else CASES
    n_questions = WARM_UP + max(cases.values()) + 2
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name) / "ours")
        place.folder.mkdir()
        tokens = make_study(place, 1 + sum(cases), n_questions, seed)
        ours = time_ours(place, tokens, cases, seed)
        theirs = time_theirs(place, Path(name) / "potato", cases)
        n_expected = sum(users * (WARM_UP + cycles) for users, cycles in cases.items())
        stored = {
            "ours": len(answers_by_question(place)) - n_questions,  # of the warm-up participant
            "theirs": potato.stored_answers(Path(name) / "potato"),
        }
    rows = [
        {
            "users": users,
            "ratio": round(theirs[users][0] / ours[users][0], 2),
            "ours_p50_ms": ours[users][0],
            "ours_p95_ms": ours[users][1],
            "theirs_p50_ms": theirs[users][0],
            "theirs_p95_ms": theirs[users][1],
            "goal": GOALS[users],
        }
        for users in cases
    ]
    most_users = max(cases)
    return {
        "name": "annotate-cycle",
        "ratio": round(theirs[most_users][0] / ours[most_users][0], 2),
        "ours": ours[most_users][0],
        "theirs": theirs[most_users][0],
        "unit": "ms, p50 of a cycle at 32 users",
        "equal": stored == {"ours": n_expected, "theirs": n_expected},
        "cases": rows,
    }


def time_ours(
    place: Place, tokens: list[str], cases: dict[int, int], seed: int
) -> dict[int, tuple[float, float]]:
    """Median and 95th percentile of our cycles, in milliseconds, by users."""
    server = Server(place, free_port())
    server.start()
    try:
        unused = iter(tokens)
        first = Annotator(server.port, next(unused), Random(seed))
        first.enter()
        while not first.is_done:  # makes every thumbnail: Potato's caches are warm too
            first.cycle()
        first.browser.close()
        times = {}
        for users, cycles in cases.items():
            people = [Annotator(server.port, next(unused), Random(seed)) for _ in range(users)]
            for person in people:
                person.enter()
            times[users] = quantiles(time_cycles(people, cycles, WARM_UP))
        return times
    finally:
        server.kill()


def time_theirs(
    place: Place, folder: Path, cases: dict[int, int]
) -> dict[int, tuple[float, float]]:
    """The same for Potato."""
    port = free_port()
    with potato.served(folder, place.folder / IMAGE_FOLDER, items(place), port):
        times = {}
        for users, cycles in cases.items():
            people = [potato.PotatoUser(port, f"user-{users}-{n}") for n in range(users)]
            times[users] = quantiles(time_cycles(people, cycles, WARM_UP))
        return times
