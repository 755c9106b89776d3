"""A server's work in a database of 50,000 answers, and with `--full` in one of 5,000,000, too.

Each database has four studies (`benchmarks.many_answers`): one of 5,000 answers in every case,
and one with half of the others. Everything runs in this process, on SQLite and, if
`HSFIQ_TEST_POSTGRES_URL` names a server, on PostgreSQL, except the commands whose peak memory is
measured. `growth` is the ratio of the times in the larger and the smaller database. `scans` are
the large tables that a query reads from end to end. The slowest query is the one that takes longest
when it is run again. `hsfiq analyze` is not here: it reads releases, not the database.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.engine import make_url

from benchmarks.many_answers import AT_WORK, FULL, LARGE, SMALL, UNBEGUN, Part, make_database
from benchmarks.query_plans import full_scans, plan_of, recorded_statements, slowest
from benchmarks.watch_page import watch_page
from hsfiq import cli
from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.collect.participants import invite
from hsfiq.collect.progress import progress_of
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database, connect, open_database
from hsfiq.simulate.participant import sum_of

SIZE, FULL_SIZE = 50_000, 5_000_000
POSTGRES = "HSFIQ_TEST_POSTGRES_URL"
REPEATS = 5
SUBMITS = 20
START = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def run(seed: int, full: bool) -> dict[str, Any]:
    return measure([SIZE, FULL_SIZE] if full else [SIZE], seed)


def measure(sizes: list[int], seed: int) -> dict[str, Any]:
    """Measure databases of so many answers on each kind of database there is."""
    kinds = ["sqlite", "postgresql"] if POSTGRES in os.environ else ["sqlite"]
    cases = []
    for kind in kinds:
        of_size = [measure_one(kind, size, seed) for size in sizes]
        cases += [
            {"database": kind, "first_ms": before["ms"], **case}
            | {"growth": round(case["ms"] / before["ms"], 1)}
            for before, case in zip(of_size[0], of_size[-1], strict=True)
        ]
    return {"name": "five-million", "sizes": sizes, "load": os.getloadavg()[0], "cases": cases}


def markdown(result: dict[str, Any]) -> str:
    """A table of the times, and below it the plans of the slowest queries."""
    sizes = " and ".join(f"{size:,}" for size in result["sizes"])
    lines = [
        f"{sizes} answers; load of the machine at the end: {result['load']:.1f}",
        "",
        "| database | work | ms, smallest | ms, largest | ratio | statements | peak MB | scans |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {case['database']} | {case['work']} | {case['first_ms']:,.0f} | {case['ms']:,.0f} "
        f"| {case['growth']} | {case.get('statements', '')} | {case.get('peak_mb', '')} "
        f"| {', '.join(case.get('scans', ()))} |"
        for case in result["cases"]
    ]
    for case in result["cases"]:
        if "plan" in case:
            lines += [
                "",
                f"{case['database']}, {case['work']}: {case['slowest_ms']} ms",
                case["slowest"],
                *(f"    {line}" for line in case["plan"]),
            ]
    return "\n".join(lines)


def measure_one(kind: str, n_answers: int, seed: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name, database_url(kind, Path(name)) as url:
        begun = time.perf_counter()
        parts = {part.name: part for part in make_database(url, n_answers, seed)}
        filled = time.perf_counter() - begun
        print(f"{kind}: {n_answers:,} answers in {filled:.0f} s", file=sys.stderr)
        return measure_database(url, Path(name), parts)


@contextmanager
def database_url(kind: str, folder: Path) -> Iterator[str]:
    """A new SQLite file, or a new database of the server, which is dropped afterwards."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'answers.db'}"
        return
    server, name = make_url(os.environ[POSTGRES]), f"hsfiq_benchmark_{secrets.token_hex(6)}"
    engine = connect(os.environ[POSTGRES]).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f'CREATE DATABASE "{name}"'))
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
        engine.dispose()


def measure_database(url: str, folder: Path, parts: Mapping[str, Part]) -> list[dict[str, Any]]:
    with closing(open_database(url)) as database:
        rows = [
            shown(measured(database, name, work, repeats))
            for name, (work, repeats) in works(database, url, parts).items()
        ]
    return rows + [shown(in_own_process(*each)) for each in commands(url, folder)]


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Print what was just measured: the largest database takes minutes."""
    print(f"{row['work']}: {row['ms']:,.0f} ms", file=sys.stderr, flush=True)
    return row


def works(
    database: Database, url: str, parts: Mapping[str, Part]
) -> dict[str, tuple[Callable[[], object], int]]:
    """What is timed, and how often."""
    services = Services.of(database)
    client = TestClient(plain_app(services), follow_redirects=False)

    def progress(study: str) -> object:
        with database.reading() as session:
            return progress_of(session, named(session, study))

    def command(*arguments: str) -> object:
        with redirect_stdout(StringIO()):
            return cli.run([*arguments, "--database", url])

    people = iter(range(parts[LARGE].n_people - UNBEGUN - AT_WORK, parts[LARGE].n_people))
    page = Page(client)
    return {
        "welcome page": (lambda: client.get("/"), REPEATS),
        "arrival": (Arrivals(database, client, LARGE), REPEATS),
        "arrival, all forms taken": (Arrivals(database, client, FULL), REPEATS),
        "opening": (lambda: page.open(parts[LARGE].token(next(people))), REPEATS),
        "submit and next question": (page.submit, SUBMITS),
        "watch, small study": (lambda: watch_page(database, SMALL), REPEATS),
        "watch, large study": (lambda: watch_page(database, LARGE), REPEATS),
        "progress, small study": (lambda: progress(SMALL), REPEATS),
        "progress, large study": (lambda: progress(LARGE), REPEATS),
        "hsfiq study list": (lambda: command("study", "list"), 1),
        "hsfiq participant list, large study": (
            lambda: command("participant", "list", "--study", LARGE), 1,
        ),
        "hsfiq participant release": (
            lambda: command("participant", "release", "--study", LARGE), 1,
        ),
    }  # fmt: skip


def commands(url: str, folder: Path) -> list[tuple[str, list[str]]]:
    hsfiq = str(Path(sys.executable).parent / "hsfiq")
    backup = folder / f"backup{'.dump' if url.startswith('postgresql') else '.db'}"
    export = ["export", "--study", LARGE, "--release", "hs", "--out", str(folder / "release")]
    return [
        ("hsfiq export, large study", [hsfiq, *export, "--database", url]),
        ("hsfiq db backup", [hsfiq, "db", "backup", str(backup), "--database", url]),
    ]


def named(session: Any, study: str) -> Any:
    return find_study(session, study)


@dataclass
class Arrivals:
    """Somebody who follows an invitation gets a place."""

    database: Database
    client: TestClient
    study: str

    def __post_init__(self) -> None:
        with self.database.writing() as session:
            study = named(session, self.study)
            people = invite(session, study.id, REPEATS, now=datetime.now(UTC))
            self.tokens = iter([person.token for person in people])

    def __call__(self) -> None:
        self.client.cookies.clear()
        response = self.client.get(f"/start/{next(self.tokens)}")
        if response.status_code >= 400:
            raise RuntimeError(f"an arrival was answered with {response.status_code}")


@dataclass
class Page:
    """The page of somebody at work."""

    client: TestClient

    def open(self, token: str) -> None:
        self.client.cookies.clear()
        self.client.get(f"/start/{token}")
        self.view = self.client.get("/question").json()

    def submit(self) -> None:
        while self.view["step"] == "check":
            check = {"assignment": self.view["assignment"], "given": sum_of(self.view["prompt"])}
            self.view = self.posted("/check", check)
        shown = [["shown"] * len(images) for images in self.view["sets"]]
        answer = {
            "judgement": {"score_1": 4, "score_2": 2, "preferred": 1, "confirmed": False},
            "irrelevant": False, "reason": None,
            "active_seconds": 1.0, "seconds_since_first_interaction": 0.5,
        }  # fmt: skip
        self.view = self.posted("/submit", {
            "assignment": self.view["assignment"], "submit_key": secrets.token_hex(16),
            "answer": answer, "images": {"reference": "shown", "sets": shown},
        })  # fmt: skip

    def posted(self, path: str, payload: Mapping[str, object]) -> Any:
        response = self.client.post(path, json=payload)
        if response.status_code >= 400:
            raise RuntimeError(f"{path}: {response.text}")
        return response.json()["view"]


def measured(
    database: Database, name: str, work: Callable[[], object], repeats: int
) -> dict[str, Any]:
    """The median time of some work, and the statements of doing it once."""
    with recorded_statements() as recorded:
        seconds = [timed_call(work)]
    n_statements = len(recorded.statements)
    seconds += [timed_call(work) for _ in range(repeats - 1)]
    queries = recorded.queries()
    with database.engine.connect() as connection:
        scans = sorted({table for query in queries for table in full_scans(connection, query)})
        query, longest = slowest(connection, queries)
        plan = plan_of(connection, query)
    return {
        "work": name,
        "ms": round(1000 * median(seconds), 1),
        "statements": n_statements,
        "scans": scans,
        "slowest_ms": round(1000 * longest, 1),
        "slowest": " ".join(query.text.split())[:300],
        "plan": plan,
    }


def timed_call(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def in_own_process(name: str, command: list[str]) -> dict[str, Any]:
    """Time a command; a small process starts it, because peaks begin with that of who starts it."""
    begun = time.perf_counter()
    started = subprocess.run(
        [sys.executable, "-c", START, *command], stdout=subprocess.PIPE, check=True
    )
    seconds = time.perf_counter() - begun
    return {"work": name, "ms": round(1000 * seconds, 1), "peak_mb": int(started.stdout) // 1024}
