"""A study of very many participants: what `hsfiq study status` and the page Watch cost.

Each participant has answered four questions; each question is about one of 120 queries and the sets
of two systems. `cases` are `hsfiq study status` and the first look at the page Watch, with its
figures, in a new process. `within_bounds` is whether each of them needs at most 600 MB and 5 s of
processor time, which other load on the machine hardly changes, and whether a page needs 300 ms.

`pages` are the processor times of the page Watch without its figures, in milliseconds: its first
page and others, a search, filters and orders, and a participant. There, people have finished,
stopped, given up, been paid or left out, and have failed checks. They are measured on SQLite and,
if `HSFIQ_TEST_POSTGRES_URL` names a server of this machine, on PostgreSQL, whose processes count.
`growth` compares the largest study with one of 200 participants, for the slowest page.

`ratio` is that of the memory that two ways to compute the confidence sequence of participants'
preferences add: `ours` takes the participants in blocks and follows a mean until it is excluded,
`theirs` keeps the capital after every participant against every mean. `equal` is whether both find
the same ends, and whether the database counts the participants' standings as a loop over the
participants does. Both sides have a smaller study, because of what the second one needs.

Each of these runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from secrets import token_hex
from typing import Any

import numpy as np
from sqlalchemy import insert, select, text
from sqlalchemy.orm import Session

from benchmarks.copied_rows import copy_rows
from benchmarks.five_million import POSTGRES, database_url
from benchmarks.many_answers import restart_keys
from benchmarks.million_answers import STUDY_VALUES
from benchmarks.watch_page import watch_page
from hsfiq.analysis.json_results import FloatArray
from hsfiq.analysis.resampling.intervals import LEVEL
from hsfiq.analysis.sequential import GRID, NODES, SHARES, confidence_sequence
from hsfiq.collect.answers import count_stored_answers
from hsfiq.collect.progress import count_standings, participants_of
from hsfiq.collect.review import win_shares
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database, connect, open_database
from hsfiq.db.postgres import limit_waiting
from hsfiq.db.schema import upgrade
from hsfiq.db.source_tables import Dataset, Image, Query, System, Triplet
from hsfiq.db.tables import (
    Form,
    Pair,
    Participant,
    Question,
    Response,
    RetrievedImage,
    RetrievedSet,
    Study,
)
from hsfiq.db.types import Base, digest_of
from hsfiq.study.config import Design, Presentation, StudyConfig, stored_config

SIZE, FULL_SIZES = 20_000, (5_000, 10_000, 20_000)
COMPARED, FULL_COMPARED = 1_500, 5_000
MOST_MB, MOST_SECONDS = 600, 5.0
FEW_PEOPLE, MOST_PAGE_MS, REPEATS = 200, 300, 5
PAGES = {
    "first": "", "last": "page=9999", "search": "q=p12", "to decide": "show=to+decide",
    "stopped": "show=stopped", "failed a check": "show=failed", "by state": "sort=state",
    "by time": "sort=-time", "participant": "person=p100&show=to+decide",
}  # fmt: skip
"""The addresses of pages."""

START = """import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
took = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = round(took.ru_utime + took.ru_stime, 2)
print(json.dumps({"cpu_seconds": seconds, "peak_mb": took.ru_maxrss // 1024}))"""
"""A small process that starts a command: a peak begins with the memory of who starts it."""

STUDY, SYSTEMS = "crowd", ("system_a", "system_b")
QUERIES, ANSWERS, K = 120, 4, 5
IMAGES = QUERIES * len(SYSTEMS) * K


def run(seed: int, full: bool) -> dict[str, Any]:
    """Measure 20,000 participants; `full`: fewer, too, and more for the comparison."""
    return measure(seed, FULL_SIZES if full else (SIZE,), FULL_COMPARED if full else COMPARED)


def measure(seed: int, sizes: tuple[int, ...], n_compared: int) -> dict[str, Any]:
    """Measure studies of these sizes, and compare the two ways in one of `n_compared`."""
    with tempfile.TemporaryDirectory() as name:
        cases = [
            {"work": work, "participants": n_people, **took}
            for n_people in sizes
            for url in [make_database(f"sqlite:///{name}/{n_people}.db", n_people, seed)]
            for work, took in (("study status", timed_status(url)), ("watch", opened(url)))
        ]
        pages = measured_pages(Path(name), max(sizes), seed)
        url = make_database(f"sqlite:///{name}/compared.db", n_compared, seed)
        ours, theirs = (in_own_process(work, url) for work in ("blocks", "everything"))
    largest = [case for case in cases if case["participants"] == max(sizes)]
    return {
        "name": "participants",
        "ratio": round(theirs["grown_mb"] / ours["grown_mb"], 1),
        "ours": ours["grown_mb"],
        "theirs": theirs["grown_mb"],
        "unit": "MB",
        "compared_participants": n_compared,
        "our_cpu_seconds": ours["cpu_seconds"],
        "their_cpu_seconds": theirs["cpu_seconds"],
        "equal": ours["found"] == theirs["found"],
        "within_bounds": all(
            case["peak_mb"] <= MOST_MB and case["cpu_seconds"] <= MOST_SECONDS for case in largest
        )
        and all(max(case["pages"].values()) <= MOST_PAGE_MS for case in pages),
        "pages": pages,
        "cases": cases,
    }


# ------------------------------------------------------------------------------------------- works


def timed_status(url: str) -> dict[str, Any]:
    """What the command takes once its modules are compiled."""
    hsfiq = str(Path(sys.executable).parent / "hsfiq")
    command = [sys.executable, "-c", START, hsfiq, "study", "status", "--study", STUDY]
    output_of([*command, "--database", url])
    begun = time.perf_counter()
    took = json.loads(output_of([*command, "--database", url]))
    return {"seconds": round(time.perf_counter() - begun, 2), **took}


def opened(url: str) -> dict[str, Any]:
    """What somebody who opens the page of a server that has just started waits for."""
    took = in_own_process("watch", url)
    return {name: took[name] for name in ("seconds", "cpu_seconds", "peak_mb")}


def in_own_process(work: str, url: str) -> dict[str, Any]:
    printed = output_of([sys.executable, "-m", "benchmarks.participants", work, url])
    took: dict[str, Any] = json.loads(printed)
    return took


def output_of(command: list[str]) -> bytes:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout


def work_alone(name: str, url: str) -> None:
    """Do a work in this process, and print what it took and found."""
    before, begun, cpu = memory_mb("VmRSS"), time.perf_counter(), time.process_time()
    found = WORKS[name](url)
    peak = memory_mb("VmHWM")
    took = {
        "seconds": round(time.perf_counter() - begun, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "peak_mb": peak,
        "grown_mb": max(peak - before, 1),
    }
    print(json.dumps(took | {"found": found}))


def memory_mb(name: str) -> int:
    """A figure of this process alone: its peak as a resource begins with that of its parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (kilobytes,) = re.findall(rf"^{name}:\s*(\d+)", status, re.MULTILINE)
    return int(kilobytes) // 1024


def show_watch(url: str) -> object:
    with closing(open_database(url)) as database:
        return watch_page(database, STUDY)


def measured_pages(folder: Path, n_people: int, seed: int) -> list[dict[str, Any]]:
    """The pages of a large study on each kind of database, compared with those of a small one."""
    cases = []
    for kind in ("sqlite", "postgresql") if POSTGRES in os.environ else ("sqlite",):
        times = []
        for number in (FEW_PEOPLE, n_people):
            (folder / f"{kind}-{number}").mkdir()
            with database_url(kind, folder / f"{kind}-{number}") as url:
                vary(make_database(url, number, seed))
                times.append(in_own_process("pages", url)["found"])
        few, many = times
        growth = round(max(many.values()) / max(few.values()), 1)
        cases.append({"database": kind, "participants": n_people, "growth": growth, "pages": many})
    return cases


def show_pages(url: str) -> object:
    """The processor time of each page in milliseconds, once the process has shown it."""
    with closing(open_database(url)) as database:
        limit_waiting(database.engine)  # as a server does
        return {name: page_ms(database, query) for name, query in PAGES.items()}


def page_ms(database: Database, query: str) -> int:
    """The least of several times: others may be longer, as figures are read in the background."""
    watch_page(database, STUDY, query)
    times = []
    for _ in range(REPEATS):
        begun = processor_seconds(database)
        watch_page(database, STUDY, query)
        times.append(processor_seconds(database) - begun)
    return round(1000 * min(times))


def processor_seconds(database: Database) -> float:
    """What this process has used, and those of PostgreSQL that work for it."""
    seconds, engine = time.process_time(), database.engine
    if engine.dialect.name == "postgresql":
        backends = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        with engine.connect() as connection:
            for (pid,) in connection.execute(text(backends)):
                used = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[13:15]
                seconds += sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
    return seconds


def follow_in_blocks(url: str) -> object:
    """The ends of the confidence sequence, and the standings as the database counts them."""
    with closing(open_database(url)) as database, database.reading() as session:
        sequence = confidence_sequence(finished_shares(session))
        return [sequence.low.tolist(), sequence.high.tolist(), standings(session, count_standings)]


def keep_everything(url: str) -> object:
    """The same by the obvious way."""

    def counted(session: Session, study: Study) -> dict[str, int]:
        return Counter(person.standing for person in participants_of(session, study))

    with closing(open_database(url)) as database, database.reading() as session:
        values = finished_shares(session)
        means = np.arange(1, GRID) / GRID
        up, down = values / means[:, None], (1 - values) / (1 - means[:, None])
        gains = np.array([np.cumsum(np.log(b * up + (1 - b) * down), axis=1) for b in SHARES])
        capital = np.logaddexp.reduce(gains, axis=0) - np.log(NODES)  # (means, participants)
        kept = np.maximum.accumulate(capital, axis=1) < -np.log(1 - LEVEL)
        low = [0.0, *((np.flatnonzero(own)[0]) / GRID for own in kept.T)]
        high = [1.0, *((np.flatnonzero(own)[-1] + 2) / GRID for own in kept.T)]
        return [low, high, standings(session, counted)]


def finished_shares(session: Session) -> FloatArray:
    study = find_study(session, STUDY)
    assert study is not None
    return np.array([share for share, _ in win_shares(session, study).by_pair[SYSTEMS]])


def standings(
    session: Session, count: Callable[[Session, Study], dict[str, int]]
) -> dict[str, int]:
    study = find_study(session, STUDY)
    assert study is not None
    return count(session, study)


WORKS: dict[str, Callable[[str], object]] = {
    "watch": show_watch,
    "pages": show_pages,
    "blocks": follow_in_blocks,
    "everything": keep_everything,
}


# ------------------------------------------------------------------------------------------- rows


def make_database(url: str, n_people: int, seed: int) -> str:
    """Fill a new SQLite file or an empty PostgreSQL database; its URL."""
    rng, engine = Random(seed), connect(url)
    if engine.dialect.name == "postgresql":
        upgrade(engine)
    engine.dispose()
    with closing(open_database(url)) as database:
        with database.engine.begin() as connection:
            config = StudyConfig(
                study=Presentation(name=STUDY, title="A crowd"),
                design=Design(questions_per_form=ANSWERS, forms_per_participant=1),
            )
            values = STUDY_VALUES | {
                "id": 1, "name": STUDY, "status": "open", "forms_per_participant": 1,
                "design": stored_config(config),
            }  # fmt: skip
            connection.execute(insert(Dataset), {"id": 1, "name": "fashioniq", "image_root": None})
            connection.execute(insert(Study), values)
            for table, rows in rows_of(n_people, rng).items():
                copy_rows(connection, table, rows)
        with database.writing() as session:
            count_stored_answers(session, session.scalars(select(Study)).one())
    return url


VARIED = (
    "UPDATE studies SET origin = 'collected'",
    "UPDATE participants SET status = 'excluded' WHERE id % 100 = 1",
    "UPDATE participants SET status = 'returned' WHERE id % 100 = 2",
    (
        "DELETE FROM responses WHERE question_id IN"
        " (SELECT id FROM questions WHERE form_id % 20 = 3 AND place >= 2)"
    ),
    (
        "INSERT INTO checks (form_id, place, kind, question_id, expected)"
        " SELECT form_id, place, 'gold', id, '1' FROM questions WHERE place = 1"
    ),
    "UPDATE responses SET reason = 'too broad' WHERE question_id % 40 = 0",
    (
        "INSERT INTO payments (participant_id, kind, cents, currency, state, recorded_at)"
        " SELECT id, 'approve', 90, 'GBP', 'confirmed', seen_at FROM participants"
        " WHERE status = 'active' AND id % 20 <> 3 AND id % 3 <> 0"
    ),
)
"""What makes the participants of a study differ."""


def vary(url: str) -> None:
    with closing(open_database(url)) as database:
        with database.engine.begin() as connection:
            if database.engine.dialect.name == "postgresql":
                restart_keys(connection)
            for statement in VARIED:
                connection.execute(text(statement))
        with database.writing() as session:
            count_stored_answers(session, session.scalars(select(Study)).one())
        with database.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("ANALYZE"))


def rows_of(n_people: int, rng: Random) -> dict[type[Base], Iterator[dict[str, Any]]]:
    """The rows of each table, in the order in which they refer to each other."""
    queries, people = range(1, QUERIES + 1), range(1, n_people + 1)
    n_systems, now = len(SYSTEMS), datetime.now(UTC)
    began = {person: now - timedelta(seconds=60 * (n_people - person)) for person in people}
    questions = [(person, place) for person in people for place in range(ANSWERS)]
    return {
        System: ({"id": key, "name": name} for key, name in enumerate(SYSTEMS, start=1)),
        Image: (
            {"id": key, "dataset_id": 1, "name": f"B{key:09}", "token": token_hex(16)}
            for key in range(1, IMAGES + 1)
        ),
        Triplet: (
            {
                "id": key, "dataset_id": 1, "external_id": f"dress.val.{key}", "category": "dress",
                "split": "val", "reference_id": key, "target_id": key + 1, "captions": ["darker"],
            }
            for key in queries
        ),
        Query: ({"id": key, "triplet_id": key, "suffix": "", "text": "darker"} for key in queries),
        RetrievedSet: (
            {"id": n_systems * (query - 1) + system, "query_id": query, "system_id": system}
            for query in queries
            for system in range(1, n_systems + 1)
        ),
        RetrievedImage: (
            {"set_id": set_id, "rank": rank, "image_id": K * (set_id - 1) + rank + 1}
            for set_id in range(1, n_systems * QUERIES + 1)
            for rank in range(K)
        ),
        Pair: (
            {
                "id": key, "study_id": 1, "query_id": key,
                "first_id": n_systems * (key - 1) + 1, "second_id": n_systems * key,
            }
            for key in queries
        ),
        Participant: (
            {
                "id": person, "study_id": 1, "name": f"p{person}", "status": "active",
                "source": "open", "token_hash": digest_of(f"token-{person}"),
                "created_at": began[person], "enrolled_at": began[person],
                "consented_at": began[person], "practised_at": began[person],
                "seen_at": began[person] + timedelta(minutes=2),
            }
            for person in people
        ),
        Form: (
            {
                "id": person, "study_id": 1, "number": person, "batch": person, "category": "dress",
                "participant_id": person, "position": 1, "name": "form_1", "n_questions": ANSWERS,
            }
            for person in people
        ),
        Question: (
            {
                "id": ANSWERS * (person - 1) + place + 1, "form_id": person, "place": place,
                "pair_id": (ANSWERS * person + place) % QUERIES + 1, "swapped": rng.random() < 0.5,
                "reassigned": False,
            }
            for person, place in questions
        ),
        Response: (
            {
                "question_id": ANSWERS * (person - 1) + place + 1, "revision": 1,
                "submit_key": f"{person}-{place}", "score_1": rng.randint(1, 5),
                "score_2": rng.randint(1, 5), "preferred": rng.randint(1, 2), "irrelevant": False,
                "submitted_at": began[person] + timedelta(seconds=20 * (place + 1)),
                "active_seconds": round(rng.lognormvariate(3, 0.6), 3), "text_version": 1,
                "language": "en",
            }
            for person, place in questions
        ),
    }  # fmt: skip


if __name__ == "__main__":
    work_alone(*sys.argv[1:])
