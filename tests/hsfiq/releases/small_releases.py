"""A small release of every kind, and ways to break a release on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import select

from hsfiq.answer_rules import Answer
from hsfiq.db.engine import Database, open_database
from hsfiq.db.search_tables import SearchFeedback, SearchList, SearchTurn
from hsfiq.db.source_tables import Image
from hsfiq.db.tables import Question, Study
from hsfiq.kinds import KIND_OF_RELEASE
from hsfiq.kinds.search_rows import Retriever, Searches
from hsfiq.releases.export import export_releases
from hsfiq.releases.folder import content_digest
from hsfiq.releases.import_release import open_valid, restore
from hsfiq.releases.layouts.layouts import Extras
from hsfiq.releases.splits import Split
from hsfiq.study.config import Checks, Design
from hsfiq.study.design import draw_study
from hsfiq.study.filters import Filters
from hsfiq.study.searches import Described
from tests.arenas import Voter, draw_arena
from tests.hsfiq.samples import new_database
from tests.studies import NOW, Seat, config, draw, make_queries, pair_answer, set_status

Rows = list[dict[str, Any]]
WITHOUT_SUMS = Checks(arithmetic=False)
JUDGEMENTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "single": lambda number: {"score": 1 + number % 5},
    "ranking": lambda number: {"ranks": ([1, 2, 3], [2, 3, 1])[number % 2]},
    "images": lambda number: {"relevance": [number % 2, 1]},
    "query": lambda number: {"verdict": ("VALIDATED", "QUERY_TOO_BROAD")[number % 2]},
}


def small_pair_study(database: Database) -> int:
    """Ten triplets in either order, five participants; answers that differ, one is flagged."""
    queries = make_queries(database, {"shirt": 10}, both_orders=True, length=5)
    design = Design(questions_per_form=2, forms_per_participant=2, seed=1)
    key = draw(database, queries, design, checks=WITHOUT_SUMS)
    for person in range(5):
        seat = Seat.taken(database, key)
        for place, question in enumerate(seat.question_ids):
            score = 1 + (person + place) % 4
            reason = "too dark" if person + place == 0 else None
            seat.submit(
                question,
                pair_answer(score, 5 - score, 1 if score > 2 else 2, person + place == 0, reason),
            )
    set_status(database, key, "closed")
    return key


def small_study_of(database: Database, kind: str) -> int:
    """A closed study of a kind with some answers."""
    if kind == "pair":
        return small_pair_study(database)
    if kind == "arena":
        key = draw_arena(database)
        voter = Voter.enrolled(database, key)
        for number, question in enumerate(voter.question_ids()):
            voter.vote(question, number % 3)
            voter.vote(question, 0, both_bad=True)
    elif kind == "search":
        key = small_searches(database)
    else:
        design = Design(
            kind=kind, k=2, questions_per_form=3, forms_per_participant=1, seed=1,
            annotators_per_query=2, **({"sets": 3} if kind == "ranking" else {}),
        )  # fmt: skip
        key = draw(database, make_queries(database, {"shirt": 3}), design, checks=WITHOUT_SUMS)
        for _ in range(2):
            seat = Seat.taken(database, key)
            for number, question in enumerate(seat.question_ids):
                seat.submit(question, Answer(JUDGEMENTS[kind](number)))
    set_status(database, key, "closed")
    return key


def small_searches(database: Database) -> int:
    """Searches of two turns each, which the participant left."""
    queries = make_queries(database, {"shirt": 3}, systems=())
    design = Design(kind="search", k=2, questions_per_form=3, forms_per_participant=1, seed=1)
    retriever = Retriever("alpha", "http://127.0.0.1:1/alpha")
    with database.writing() as session:
        names = frozenset(session.scalars(select(Image.name)))
        described = {"alpha": Described("1", "small", len(names), "0" * 64, names)}
        wanted = replace(
            config(design, checks=WITHOUT_SUMS),
            searches=Searches(task="target-shown", retrievers=(retriever,)),
        )
        key = draw_study(session, wanted, queries, retrievers=described).id
    voter = Voter.enrolled(database, key)
    for question in voter.question_ids():
        with database.writing() as session:
            reference = session.get_one(Question, question).pair.query.triplet.reference_id
            for number in (1, 2):
                turn = SearchTurn(
                    question_id=question, number=number, submit_key=f"press-{number}",
                    reference_id=reference, text=f"red {number}", asked_at=NOW, pasted=False,
                )  # fmt: skip
                session.add(turn)
                session.flush()
                session.add(SearchList(
                    turn_id=turn.id, side=1, listed_at=NOW, seconds=0.1, image_ids=[reference],
                    scores=[1.0], rank=3, ties=0, system_version="1", corpus_sha256="0" * 64,
                ))  # fmt: skip
                session.add(SearchFeedback(
                    turn_id=turn.id, satisfaction=number, images="s s", active_seconds=1.0,
                    given_at=NOW + timedelta(minutes=number),
                ))  # fmt: skip
    return key


def write_release(
    database: Database,
    study: int,
    kind: str,
    folder: Path,
    split: Split | None = None,
    filters: Filters | None = None,
    extras: Extras | None = None,
) -> Path:
    with database.reading() as session:
        row = session.get_one(Study, study)
        export_releases(session, row, [kind], filters or Filters(), split, extras, folder=folder)
    return folder


def only_study(database: Database) -> int:
    """The key of the database's only study."""
    with database.reading() as session:
        return session.scalars(select(Study.id)).one()


def imported(release: Path, path: Path) -> Database:
    """A new database with the study that a release is imported as."""
    opened, database = open_valid(release), new_database(path)
    with database.writing() as session:
        restore(session, opened)
    return database


@cache
def small_study_file(kind: str) -> tuple[bytes, int]:
    """The content of a SQLite file with the small study of a kind, and the study's key."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        database = new_database(path)
        key = small_study_of(database, kind)
        database.close()
        return path.read_bytes(), key


def small_study_at(path: Path, kind: str) -> tuple[Database, int]:
    """A copy of the database with the small study of a kind, and the study's key."""
    content, key = small_study_file(kind)
    path.write_bytes(content)
    return open_database(f"sqlite:///{path}"), key


@cache
def small_release_files(kind: str) -> dict[str, bytes]:
    """The files of a release of a kind, of its small study."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        database, key = small_study_at(folder / "study.db", KIND_OF_RELEASE[kind].name)
        write_release(database, key, kind, folder / "release")
        database.close()
        return {path.name: path.read_bytes() for path in (folder / "release").iterdir()}


def small_release(kind: str, folder: Path) -> OnDisk:
    """A copy of the release of a kind; it has no folders within."""
    folder.mkdir()
    for name, content in small_release_files(kind).items():
        (folder / name).write_bytes(content)
    return OnDisk(folder)


class OnDisk:
    """A release that a test changes; the digests in the manifest follow, unless told otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(self, table: str) -> Rows:
        rows: Rows = pq.read_table(self.folder / f"{table}.parquet").to_pylist()
        return rows

    def change(self, table: str, change: Callable[[Rows], Any]) -> None:
        """Change the rows in place, in the Parquet file and in the JSON lines."""
        path = self.folder / f"{table}.parquet"
        schema, rows = pq.read_schema(path), self.rows(table)
        change(rows)
        self.write(table, rows, schema)

    def write(self, table: str, rows: Rows, schema: pa.Schema) -> None:
        loose = pa.schema([pa.field(field.name, field.type) for field in schema])
        pq.write_table(pa.Table.from_pylist(rows, loose), self.folder / f"{table}.parquet")
        lines = [json.dumps(row, ensure_ascii=False, default=lambda t: t.isoformat()) + "\n"
                 for row in rows]  # fmt: skip
        (self.folder / f"{table}.jsonl").write_text("".join(lines), encoding="utf-8")

    def retype(self, table: str, column: str, type_: pa.DataType, values: list[Any]) -> None:
        """Write a column with another type."""
        schema, rows = pq.read_schema(self.folder / f"{table}.parquet"), self.rows(table)
        place = schema.get_field_index(column)
        for row, value in zip(rows, values, strict=True):
            row[column] = value
        self.write(table, rows, schema.set(place, pa.field(column, type_)))

    def json(self, name: str, change: Callable[[Any], Any]) -> None:
        path = self.folder / name
        value = json.loads(path.read_text(encoding="utf-8"))
        change(value)
        path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def agree(self) -> None:
        """Make the digests in croissant.json and in the manifest those of the files.

        So is the digest of the content.
        """

        def digests(croissant: Any) -> None:
            for entry in croissant["distribution"]:
                if (self.folder / entry["contentUrl"]).exists():
                    entry["sha256"] = self.digest(entry["contentUrl"])

        def listed(manifest: Any) -> None:
            for name, entry in manifest["files"].items():
                if (path := self.folder / name).exists():
                    entry.update(sha256=self.digest(name), bytes=path.stat().st_size)
            digests = {name: entry["sha256"] for name, entry in manifest["files"].items()}
            manifest["content_sha256"] = content_digest(manifest, digests)

        self.json("croissant.json", digests)
        self.json("manifest.json", listed)

    def digest(self, name: str) -> str:
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()
