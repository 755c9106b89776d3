"""Verifying a release's tables against each other: keys, references, counts, parts and answers."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hsfiq.ids import question_id
from hsfiq.kinds.tables import Table
from hsfiq.releases.folder import MANIFEST, Batch, ReleaseFolder
from hsfiq.releases.privacy import ALIKE, ASKED, TABLE, compared_fields, uniqueness
from hsfiq.releases.splits import SPLITS_BY, SplitBy, triplet_of
from hsfiq.releases.untrusted import shortened
from hsfiq.text import count_text, one_line

# What is wrong with a release: the file, the row and the column, and what.

FIRST = 5
"""So many findings are kept of each file and column; the others are counted."""
MOST = 500
"""So many are kept in all."""
LONGEST = 500
"""Characters of what is wrong, which may quote a value."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong; `row` is a line of the JSON lines and a row of Parquet, from 1."""

    file: str
    what: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        row = f", row {self.row:,}" if self.row is not None else ""
        column = f", {self.column}" if self.column is not None else ""
        return one_line(f"{self.file}{row}{column}: {self.what}")


@dataclass(slots=True)
class Findings:
    """The first findings of each file and column, how many there are, and notes.

    A note says what could not be verified, or what differs between versions of hsfiq.
    """

    first: list[Finding] = field(default_factory=list)
    n: int = 0
    notes: list[str] = field(default_factory=list)
    _counts: Counter[tuple[str, str | None]] = field(default_factory=Counter)

    def add(
        self, file: str, what: str, *, row: int | None = None, column: str | None = None
    ) -> None:
        self.n += 1
        if len(self.first) < MOST and self._counts[file, column] < FIRST:
            self._counts[file, column] += 1
            column = None if column is None else shortened(column)
            self.first.append(Finding(file, shortened(what, LONGEST), row, column))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


# The ids of a release in a temporary SQLite file, so that they need not be in memory.

SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of the release: its row in the main table, and whose and about what it is."""

    row: int
    participant: str
    query: str


class Scratch:
    """Keys of tables, with the rows that have them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.participants: set[str] = set()
        connection.execute("pragma journal_mode = off")
        connection.execute("pragma synchronous = off")
        connection.execute("begin")
        connection.execute(
            "create table keys (place text, key text, row int, primary key (place, key))"
            " without rowid"
        )
        connection.execute(
            "create table questions (id text primary key, row int, participant text, query text)"
            " without rowid"
        )
        connection.execute(
            "create table sets (id text primary key, row int, question text, participant text,"
            " query text, facts text) without rowid"
        )

    def add_keys(
        self, place: str, keys: Iterable[tuple[int, str]]
    ) -> Iterator[tuple[int, str, int]]:
        """Keep keys of a table; those that an earlier row has, with both rows."""
        for row, key in keys:
            added = self.connection.execute(
                "insert or ignore into keys values (?, ?, ?)", (place, key, row)
            )
            if not added.rowcount:
                yield row, key, self.row_of(place, key)

    def row_of(self, place: str, key: str) -> int:
        (row,) = self.connection.execute(
            "select row from keys where place = ? and key = ?", (place, key)
        ).fetchone()
        return int(row)

    def unknown(self, place: str, values: Sequence[str]) -> set[str]:
        """Those of the values that are no key of the table."""
        rows = self.connection.execute(
            "select value from json_each(?) where not exists"
            " (select 1 from keys where place = ? and key = value)",
            (json.dumps(values), place),
        )
        return {value for (value,) in rows}

    def add_questions(self, rows: Iterable[Sequence[Any]]) -> None:
        self.connection.executemany("insert or ignore into questions values (?, ?, ?, ?)", rows)

    def asked(self, ids: Iterable[str | None]) -> dict[str, Asked]:
        """Those of the questions that the main table has."""
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ is not None]
        rows = self.connection.execute(
            "select q.id, row, participant, query from questions q"
            " join json_each(?) on q.id = value",
            (json.dumps(wanted),),
        )
        return {id_: Asked(*facts) for id_, *facts in rows}

    def has_participant(self, participant: str) -> bool:
        if not self.participants:
            rows = self.connection.execute("select distinct participant from questions")
            self.participants = {name for (name,) in rows}
        return participant in self.participants

    def add_sets(self, rows: Iterable[Sequence[Any]]) -> None:
        self.connection.executemany("insert or ignore into sets values (?, ?, ?, ?, ?, ?)", rows)

    def sets(self, ids: Iterable[str | None]) -> dict[str, dict[str, Any]]:
        """The facts about those of the sets that the release has."""
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ is not None]
        rows = self.connection.execute(
            "select s.id, question, facts from sets s join json_each(?) on s.id = value",
            (json.dumps(wanted),),
        )
        return {id_: {"question_id": own, **json.loads(facts)} for id_, own, facts in rows}


@contextmanager
def scratch() -> Iterator[Scratch]:
    with TemporaryDirectory(prefix="hsfiq-verify-") as folder:
        connection = sqlite3.connect(Path(folder) / "ids.db", isolation_level=None)
        try:
            yield Scratch(connection)
        finally:
            connection.close()


# What the tables of a kind say of the same answer: ids, scores, systems, images and counts.


def check_answers(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    for table, check in release.kind.checks.items():
        if table not in release.tables:
            continue
        file = f"{table}.parquet"
        for batch in release.batches(table):
            sets = ids.sets(ids_of_sets(batch))
            for number, row in batch.numbered():
                # A null, a type or a column that is wrong has a finding of its own.
                with suppress(TypeError, KeyError, AttributeError):
                    for column, what in check(row, sets):
                        findings.add(file, what, row=number, column=column)
    if "turns" in release.tables and release.has("sessions", "question_id", "turns"):
        check_turns(release, findings)


def ids_of_sets(batch: Batch) -> Iterator[str]:
    for name in ("set_id", "set_1", "set_2"):
        yield from (value for value in batch.column(name) or () if value is not None)
    for values in batch.column("set_ids") or ():
        yield from values or ()


def check_turns(release: ReleaseFolder, findings: Findings) -> None:
    """Turns count from 1, and a search has as many as it says; votes are those of the turns."""
    counts: Counter[str] = Counter()
    voted: dict[tuple[str, int], tuple[Any, Any]] = {}
    for batch in release.batches("turns", "question_id", "turn", "preference", "both_bad"):
        for number, row in batch.numbered("question_id", "turn", "preference", "both_bad"):
            counts[row["question_id"]] += 1
            if row["turn"] != counts[row["question_id"]]:
                what = f"is {row['turn']}, and the turn before {counts[row['question_id']] - 1}"
                findings.add("turns.parquet", what, row=number, column="turn")
            if row["preference"] is not None:
                voted[row["question_id"], row["turn"]] = (row["preference"], row["both_bad"])
    for batch in release.batches("sessions", "question_id", "turns"):
        for number, row in batch.numbered("question_id", "turns"):
            if row["turns"] != counts[row["question_id"]]:
                what = f"is {row['turns']}, and turns.parquet has {counts[row['question_id']]}"
                findings.add("sessions.parquet", what, row=number, column="turns")
    if "votes" in release.tables:
        check_votes(release, voted, findings)


def check_votes(
    release: ReleaseFolder, voted: dict[tuple[str, int], tuple[Any, Any]], findings: Findings
) -> None:
    names = ("question_id", "turn", "preference", "both_bad")
    for batch in release.batches("votes", *names):
        for number, row in batch.numbered(*names):
            own = voted.pop((row["question_id"], row["turn"]), None)
            vote = (row["preference"], row["both_bad"])
            if own != vote:
                what = f"{vote} is not the vote in turns.parquet ({own})"
                findings.add("votes.parquet", what, row=number, column="preference")
    for question, number in list(voted)[:1]:
        findings.add("votes.parquet", f"lacks the vote in turn {number} of {question}")


# The manifest's figures: the funnel adds up, and its counts are those of the tables.

STRUCK = "struck-text"
"""Rows of `exclusions` about a text that was struck; its question is kept."""


def check_funnel(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    funnel = release.manifest.get("funnel")
    if not isinstance(funnel, Mapping) or not isinstance(funnel.get("steps"), list):
        findings.add(MANIFEST, "has no funnel", column="funnel")
        return
    dropped = dropped_by_rule(release, ids, findings)
    left = funnel.get("assigned")
    for place, step in enumerate(funnel["steps"]):
        where = f"funnel.steps[{place}]"
        rule, counted, after = step.get("rule"), step.get("dropped") or 0, step.get("left")
        if isinstance(left, int) and left - counted != after:
            what = f"{left:,} - {counted:,} is not {after}, which are left after {rule}"
            findings.add(MANIFEST, what, column=where)
        left = after
        in_table = dropped.pop(rule, 0)
        if "exclusions" in release.tables and counted != in_table:
            rows = count_text(in_table, "row")
            what = f"{rule} dropped {counted:,}, and exclusions.parquet has {rows} of it"
            findings.add(MANIFEST, what, column=where)
    if left != funnel.get("kept"):
        what = f"is {funnel.get('kept')}, and {left} are left after the last step"
        findings.add(MANIFEST, what, column="funnel.kept")
    for rule in dropped:
        findings.add("exclusions.parquet", f"rule {rule} is not in the funnel", column="rule")


def dropped_by_rule(
    release: ReleaseFolder, ids: Scratch, findings: Findings
) -> Counter[str | None]:
    """Count the rows of `exclusions`; a question in it is not in the main table, nor twice."""
    counts: Counter[str | None] = Counter()
    if not release.has("exclusions", "question_id", "rule"):
        return counts
    file, main = "exclusions.parquet", release.kind.main
    for batch in release.batches("exclusions", "question_id", "rule"):
        asked = ids.asked(batch.column("question_id") or ())
        dropped = []
        for number, row in batch.numbered("question_id", "rule"):
            question = row["question_id"]
            if row["rule"] == STRUCK:
                if question not in asked:
                    what = f"{question} is not in {main}.parquet"
                    findings.add(file, what, row=number, column="question_id")
                continue
            counts[row["rule"]] += 1
            dropped.append((number, str(question)))
            if question in asked:
                row_in_main = asked[question].row
                what = f"{question} was dropped, and is in {main}.parquet (row {row_in_main:,})"
                findings.add(file, what, row=number, column="question_id")
        for number, key, first in ids.add_keys("exclusions", dropped):
            what = f"{key} is in row {first:,}, too"
            findings.add(file, what, row=number, column="question_id")
    return counts


def check_counts(release: ReleaseFolder, findings: Findings) -> None:
    counts = release.manifest.get("counts")
    if not isinstance(counts, Mapping):
        findings.note(f"{MANIFEST} has no counts")
        return
    actual: dict[str, int] = {}
    main = release.kind.main
    if release.has(main, "participant_id"):
        actual["questions"] = release.n_rows(main)
        actual["participants"] = n_participants(release, main)
        kept = (release.manifest.get("funnel") or {}).get("kept")
        if kept != actual["questions"]:
            what = f"is {kept}, and {main}.parquet has {count_text(actual['questions'], 'row')}"
            findings.add(MANIFEST, what, column="funnel.kept")
    for table in ("sets", "queries"):
        if table in release.tables:
            actual[table] = release.n_rows(table)
    for name, number in actual.items():
        if counts.get(name) != number:
            what = f"is {counts.get(name)}, and the tables have {number:,}"
            findings.add(MANIFEST, what, column=f"counts.{name}")


def n_participants(release: ReleaseFolder, table: str) -> int:
    people: set[Any] = set()
    for batch in release.batches(table, "participant_id"):
        people.update(batch.column("participant_id") or ())
    return len(people)


def check_alike(release: ReleaseFolder, findings: Findings) -> None:
    """How alike participants are, as the manifest says, is what their answers give."""
    asked = [
        (row["field"], row["type"])
        for _, row in rows_of(release, "fields", "field", "asked", "type")
        if row["asked"] == ASKED["at_end"]
    ]
    rows = (row for _, row in rows_of(release, TABLE, "participant_id", "field", "number", "value"))
    alike = uniqueness(rows, compared_fields(asked))
    expected, stated = alike.facts() if alike else None, release.manifest.get(ALIKE)
    if stated is None and expected is not None:
        findings.note(f"{MANIFEST} has no {ALIKE}, which this hsfiq writes")
    elif stated != expected:
        what = f"is {stated}, and {TABLE}.parquet gives {expected}"
        findings.add(MANIFEST, what, column=ALIKE)


def rows_of(
    release: ReleaseFolder, table: str, *columns: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table with their numbers; none if the release lacks a column."""
    if release.has(table, *columns):
        for batch in release.batches(table, *columns):
            yield from batch.numbered(*columns)


def check_queries_are_used(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    """Each query has a question."""
    if not release.has("queries", "query_id"):
        return
    used = {query for (query,) in ids.connection.execute("select distinct query from questions")}
    for batch in release.batches("queries", "query_id"):
        for number, row in batch.numbered("query_id"):
            if row["query_id"] not in used:
                what = f"no question is about {row['query_id']}"
                findings.add("queries.parquet", what, row=number, column="query_id")


# The split: each question has a part, and no triplet or participant is in train and in test.


def check_split(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    split = release.manifest.get("split")
    if "splits" not in release.tables:
        if split is not None and "splits" not in release.broken:
            findings.add("splits.parquet", f"is missing, and {MANIFEST} has a split")
        return
    by = split.get("by") if isinstance(split, Mapping) else None
    if not isinstance(split, Mapping) or by not in SPLITS_BY:
        findings.add(MANIFEST, "does not say by what splits.parquet splits", column="split")
        return
    if not release.has("splits", "question_id", "part"):
        return
    members = Members(release, ids, by)
    counts = members.check(findings)
    check_part_counts(release, ids, split.get("n"), counts, findings)


class Members:
    """The triplets and participants of each part, of which what is held out is in one only."""

    def __init__(self, release: ReleaseFolder, ids: Scratch, by: SplitBy) -> None:
        self.release, self.ids = release, ids
        self.triplets = triplets_of(release) if by != "participant" else {}
        self.holds_people = by != "triplet"
        self.first: dict[tuple[str, str], dict[str, tuple[int, str]]] = {}

    def check(self, findings: Findings) -> Counter[str]:
        """Find what leaks; the number of questions of each part."""
        counts: Counter[str] = Counter()
        for batch in self.release.batches("splits", "question_id", "part"):
            asked = self.ids.asked(batch.column("question_id") or ())
            for number, row in batch.numbered("question_id", "part"):
                counts[row["part"]] += 1
                own = asked.get(row["question_id"])
                if own is not None and row["part"] in ("train", "test"):
                    for what in self.leaks(number, row["question_id"], row["part"], own):
                        findings.add("splits.parquet", what, row=number, column="part")
        return counts

    def leaks(self, number: int, question: str, part: str, own: Asked) -> Iterator[str]:
        held = [("triplet", id_) for id_ in sorted(self.triplets.get(own.query, ()))]
        held += [("participant", own.participant)] if self.holds_people else []
        for noun, id_ in held:
            seen = self.first.setdefault((noun, id_), {})
            seen.setdefault(part, (number, question))
            other = "test" if part == "train" else "train"
            if other in seen:
                row, first = seen[other]
                parts = f"{question} is in {part}, {first} (row {row:,}) in {other}"
                yield f"{noun} {id_} leaks: {parts}"


def check_part_counts(
    release: ReleaseFolder, ids: Scratch, stated: object, counts: Counter[str], findings: Findings
) -> None:
    """Each question has a part, and the manifest says how many are in each."""
    main = release.kind.main
    for batch in release.batches(main, "question_id"):
        questions = batch.column("question_id") or []
        without = ids.unknown("splits", questions)
        for place, question in enumerate(questions):
            if question in without:
                what = "has no part in splits.parquet"
                findings.add(f"{main}.parquet", what, row=batch.start + place, column="question_id")
    for part, number in stated.items() if isinstance(stated, Mapping) else ():
        if counts[part] != number:
            what = f"is {number}, and splits.parquet has {counts[part]:,}"
            findings.add(MANIFEST, what, column=f"split.n.{part}")


def triplets_of(release: ReleaseFolder) -> dict[str, set[str]]:
    """The triplets of each query: that of its own id, and the one that the table names."""
    if not release.has("queries", "query_id", "triplet_id"):
        return {}
    named: dict[str, str] = {}
    for batch in release.batches("queries", "query_id", "triplet_id"):
        for _, row in batch.numbered("query_id", "triplet_id"):
            named[row["query_id"]] = row["triplet_id"]
    known = {*named, *named.values()}
    return {
        query: {triplet_of(query, known), triplet_of(triplet, known)}
        for query, triplet in named.items()
    }


FACTS_OF_SETS = ("side", "system", "score", "rank", "image_ids")
IN_ANY_ORDER = ("exclusions", "repeats")
"""Tables about questions that the main table does not have."""


def index_keys(release: ReleaseFolder, table: Table, ids: Scratch, findings: Findings) -> None:
    """Keep the keys of a table, and what the main table and the sets say; refuse keys twice."""
    if not table.key or not release.has(table.name, *table.key):
        return
    is_main = table.name == release.kind.main
    extra = ("participant_id", "query_id")
    columns = [*table.key, *(extra if is_main else ())]
    if table.name == "sets":
        columns += ["question_id", *extra, *FACTS_OF_SETS]
    for batch in release.batches(table.name, *dict.fromkeys(columns)):
        rows = list(batch.numbered(*dict.fromkeys(columns)))
        keys = (
            (number, SEPARATOR.join(str(row[name]) for name in table.key)) for number, row in rows
        )
        for number, key, first in ids.add_keys(table.name, keys):
            what = f"{key.replace(SEPARATOR, ' ')} is in row {first:,}, too"
            findings.add(f"{table.name}.parquet", what, row=number, column=", ".join(table.key))
        if is_main:
            ids.add_questions(
                (row["question_id"], number, row["participant_id"], row["query_id"])
                for number, row in rows
            )
        if table.name == "sets":
            ids.add_sets(set_facts(number, row) for number, row in rows)


def set_facts(number: int, row: dict[str, Any]) -> tuple[Any, ...]:
    facts = json.dumps({name: row[name] for name in FACTS_OF_SETS})
    return (
        row["set_id"], number, row["question_id"], row["participant_id"], row["query_id"], facts
    )  # fmt: skip


def check_references(
    release: ReleaseFolder, table: Table, ids: Scratch, findings: Findings
) -> None:
    """What a column refers to is there."""
    for column in table:
        if column.refers_to is None or not release.has(table.name, column.name):
            continue
        target, _, name = column.refers_to.partition(".")
        if not release.has(target, name):
            continue
        for batch in release.batches(table.name, column.name):
            values = batch.column(column.name) or []
            wanted = {each for value in values for each in as_list(value)}
            if unknown := ids.unknown(target, sorted(wanted)):
                for place, value in enumerate(values):
                    for each in as_list(value):
                        if each in unknown:
                            findings.add(
                                f"{table.name}.parquet",
                                f"{each} is not in {target}.parquet ({name})",
                                row=batch.start + place, column=column.name,
                            )  # fmt: skip


def as_list(value: Any) -> list[str]:
    if value is None:
        return []
    return [each for each in value if each is not None] if isinstance(value, list) else [value]


class RowOwners:
    """Whose the rows of a table are, and whether they are in the order of the main table.

    The rows of a participant come together, as do those of a form, whose places ascend. Other
    tables have the order of the main one.
    """

    def __init__(
        self, release: ReleaseFolder, table: Table, ids: Scratch, findings: Findings
    ) -> None:
        self.release, self.table, self.ids, self.findings = release, table, ids, findings
        self.file = f"{table.name}.parquet"
        self.is_main = table.name == release.kind.main
        self.forms_seen: set[tuple[str, str]] = set()
        self.people_seen: set[str] = set()
        self.last: dict[str, Any] = {}
        self.last_row = 0

    def check(self) -> None:
        columns = [name for name in ("question_id", "participant_id", "query_id", "form", "place")
                   if name in self.table.names]  # fmt: skip
        if not self.release.has(self.table.name, columns[0]):
            return
        for batch in self.release.batches(self.table.name, *columns):
            if self.is_main:
                self.check_main(batch)
            elif "question_id" in columns:
                self.check_other(batch)
            else:
                self.check_people(batch)

    def wrong(self, row: int, column: str, what: str) -> None:
        self.findings.add(self.file, what, row=row, column=column)

    def check_main(self, batch: Batch) -> None:
        for number, row in batch.numbered():
            if not {"form", "place", "question_id", "participant_id"} <= row.keys():
                return
            person, form, place = row["participant_id"], row["form"], row["place"]
            expected = question_id(person, form, place)
            if row["question_id"] != expected:
                self.wrong(number, "question_id", f"is {row['question_id']}, not {expected}")
            if self.last.get("participant_id") != person:
                if person in self.people_seen:
                    what = f"the rows of {person} do not come together"
                    self.wrong(number, "participant_id", what)
                self.people_seen.add(person)
            if (self.last.get("participant_id"), self.last.get("form")) != (person, form):
                if (person, form) in self.forms_seen:
                    self.wrong(number, "form", f"the rows of form {form} do not come together")
                self.forms_seen.add((person, form))
            elif is_not_after(place, self.last["place"]):
                what = f"place {place} comes after place {self.last['place']} of the form"
                self.wrong(number, "place", what)
            self.last = row

    def check_other(self, batch: Batch) -> None:
        asked = self.ids.asked(batch.column("question_id") or ())
        is_out = self.table.name in IN_ANY_ORDER
        for number, row in batch.numbered():
            known = asked.get(row["question_id"])
            if is_out:
                continue
            if known is None:
                what = f"{row['question_id']} is not in {self.release.kind.main}.parquet"
                self.wrong(number, "question_id", what)
                continue
            for name, own in (("participant_id", known.participant), ("query_id", known.query)):
                if name in row and row[name] != own:
                    what = f"is {row[name]}, and in {self.release.kind.main}.parquet {own}"
                    self.wrong(number, name, what)
            if known.row < self.last_row:
                what = f"{row['question_id']} is not in the order of {self.release.kind.main}"
                self.wrong(number, "question_id", what)
            self.last_row = known.row

    def check_people(self, batch: Batch) -> None:
        """Rows about participants, such as answers at the end."""
        for number, row in batch.numbered():
            person = row["participant_id"]
            if not self.ids.has_participant(person):
                what = f"{person} has no row in {self.release.kind.main}.parquet"
                self.wrong(number, "participant_id", what)


def is_not_after(place: object, last: object) -> bool:
    return isinstance(place, int) and isinstance(last, int) and place <= last
