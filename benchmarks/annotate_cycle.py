"""Time from submit to next question, compared with Potato and with the least it can take.

The servers run one after the other on this machine, each in its own process; the users are threads
of this process. A cycle is what each page's script does from pressing Next until the next
question's content has arrived: Potato saves, navigates and loads the page again; ours posts the
answer (committed and flushed to the disk) and gets the next question with the acknowledgement. The
limit (`benchmarks.limit`) is one such request to our server that inserts one row, durably, and has
its reply ready. Images are not timed: ours are fetched before Next is pressed.

`cpu_ms` is the processor time of a server's process for a cycle, which depends less on what else
the machine does; one user at a time, and warm. `statements` are those of one answer, with BEGIN.
`equal`: our side and Potato have stored exactly the answers that were given.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import event

from benchmarks import potato
from benchmarks.browsing import (
    User,
    answers,
    free_port,
    quantiles,
    time_cycles,
    wait_until,
)
from benchmarks.lab import cpu_of
from benchmarks.limit import LimitUser
from benchmarks.serving import (
    IMAGE_FOLDER,
    Annotator,
    Place,
    Server,
    answers_by_question,
    items,
    make_study,
)
from hsfiq.annotate.handlers import Services, submit
from hsfiq.annotate.payloads import read_submit

WARM_UP = 3
CASES = {1: 24, 8: 12, 32: 6}
"""Concurrent users -> timed cycles of each."""
FULL_CASES = {1: 40, 8: 40, 32: 40}
CPU_USERS, FULL_CPU_USERS = 4, 10
"""Users, one after the other; the processor time of their cycles is measured."""

GOALS = {1: 5.0, 8: None, 32: 8.0}
"""Concurrent users -> how many times as fast as Potato we want to be."""

COUNTED = 2
"""Answers of the person whose statements are counted: the last one's."""

MOST_OF_LIMIT = 3.0
"""The most times of the limit's processor time that an answer should take."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Median and 95th percentile of a server's cycles in milliseconds, by users; processor time."""

    quantiles: dict[int, tuple[float, float]]
    cpu_ms: float

    def facts(self, name: str, users: int) -> dict[str, float]:
        """The figures of so many users."""
        p50, p95 = self.quantiles[users]
        return {f"{name}_p50_ms": p50, f"{name}_p95_ms": p95}


def run(seed: int, full: bool) -> dict[str, Any]:
    """Time the three; the ratio is that of 32 users."""
    cases = FULL_CASES if full else CASES
    cpu_users = FULL_CPU_USERS if full else CPU_USERS
    n_questions = WARM_UP + max(cases.values()) + 2
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name) / "ours")
        place.folder.mkdir()
        tokens = make_study(place, 2 + sum(cases) + cpu_users, n_questions, seed)
        ours, n_statements = time_ours(place, tokens, cases, cpu_users, seed)
        limit = time_limit(Place(Path(name)), cases, cpu_users)
        theirs = time_theirs(place, Path(name) / "potato", cases, cpu_users)
        n_expected = sum(users * (WARM_UP + cycles) for users, cycles in cases.items())
        n_expected += cpu_users * (WARM_UP + max(cases.values()))
        n_others = n_questions + COUNTED  # of warming up and counting
        stored = {
            "ours": len(answers_by_question(place)) - n_others,
            "theirs": potato.stored_answers(Path(name) / "potato"),
        }
    return {
        "name": "annotate-cycle",
        "ratio": times_as_fast(theirs, ours, most_users := max(cases)),
        "ours": ours.quantiles[most_users][0],
        "theirs": theirs.quantiles[most_users][0],
        "limit": limit.quantiles[most_users][0],
        "unit": "ms, p50 of a cycle at 32 users",
        "equal": stored == {"ours": n_expected, "theirs": n_expected},
        "ours_cpu_ms": ours.cpu_ms,
        "theirs_cpu_ms": theirs.cpu_ms,
        "limit_cpu_ms": limit.cpu_ms,
        "times_of_limit_cpu": round(ours.cpu_ms / limit.cpu_ms, 2),
        "most_times_of_limit_cpu": MOST_OF_LIMIT,
        "statements": n_statements,
        "cases": [
            {
                "users": users,
                "ratio": times_as_fast(theirs, ours, users),
                "times_of_limit": times_as_fast(ours, limit, users),
                **ours.facts("ours", users),
                **theirs.facts("theirs", users),
                **limit.facts("limit", users),
                "goal": GOALS[users],
            }
            for users in cases
        ],
    }


def times_as_fast(slower: Timed, faster: Timed, users: int) -> float:
    """The ratio of the medians."""
    return round(slower.quantiles[users][0] / faster.quantiles[users][0], 2)


def time_ours(
    place: Place, tokens: list[str], cases: Mapping[int, int], cpu_users: int, seed: int
) -> tuple[Timed, int]:
    """Our side after one person has answered everything, and the statements of an answer.

    That makes every thumbnail: Potato's caches are warm, too.
    """
    unused = iter(tokens)

    def person() -> Annotator:
        annotator = Annotator(server.port, next(unused), Random(seed))
        annotator.enter()
        return annotator

    server = Server(place, free_port())
    server.start()
    try:
        first = person()
        while not first.is_done:
            first.cycle()
        first.browser.close()
        times = timed(person, server.pid, cases, cpu_users)
        return times, statements_of_an_answer(place, person())
    finally:
        server.kill()


def time_limit(place: Place, cases: Mapping[int, int], cpu_users: int) -> Timed:
    """The limit, in a database of its own."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.limit", place.url, str(port)]
    process = subprocess.Popen(command)
    try:
        wait_until(lambda: answers(port, "/healthz"), "the limit")
        return timed(lambda: LimitUser(port), process.pid, cases, cpu_users)
    finally:
        process.kill()
        process.wait()


def time_theirs(place: Place, folder: Path, cases: Mapping[int, int], cpu_users: int) -> Timed:
    """Potato's side."""
    port, names = free_port(), count()
    with potato.served(folder, place.folder / IMAGE_FOLDER, items(place), port) as pid:
        return timed(lambda: potato.PotatoUser(port, f"user-{next(names)}"), pid, cases, cpu_users)


def timed(
    new_user: Callable[[], User], pid: int, cases: Mapping[int, int], cpu_users: int
) -> Timed:
    """The cycles of new users of a server, and the processor time of its process."""
    times = {
        users: quantiles(time_cycles([new_user() for _ in range(users)], cycles, WARM_UP))
        for users, cycles in cases.items()
    }
    cycles, seconds = max(cases.values()), 0.0
    for _ in range(cpu_users):
        user = new_user()
        time_cycles([user], WARM_UP, 0)
        before = cpu_of(pid)
        time_cycles([user], cycles, 0)
        seconds += cpu_of(pid) - before
    return Timed(times, round(1000 * seconds / (cpu_users * cycles), 2))


def statements_of_an_answer(place: Place, person: Annotator) -> int:
    """How many statements an answer sends to the database, after others have."""
    database = place.database()
    services = Services.of(database)
    statements: list[str] = []

    def add(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(database.engine, "before_cursor_execute", add)
    for _ in range(COUNTED):
        statements.clear()
        payload = read_submit(json.dumps(person.submission()).encode())
        person.view = submit(services, person.browser.cookies, payload)["view"]
    database.close()
    return len(statements)
