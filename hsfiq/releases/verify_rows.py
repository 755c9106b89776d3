"""Verifying a release's tables against each other: keys, references, counts, parts and answers.

The checks are queries of DuckDB over the Parquet files, within a fixed memory: what does not fit is
in temporary files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hsfiq.arrow_columns import TEXT
from hsfiq.errors import UnreadableInput
from hsfiq.kinds.kind import RowCheck
from hsfiq.kinds.tables import Table
from hsfiq.releases.folder import MANIFEST, ReleaseFolder
from hsfiq.releases.privacy import ALIKE, ASKED, TABLE, compared_fields, uniqueness
from hsfiq.releases.splits import SPLITS_BY, SplitBy, triplet_of
from hsfiq.releases.untrusted import shortened
from hsfiq.text import count_text, one_line

if TYPE_CHECKING:  # a tenth of a second to import
    import duckdb

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


# The tables as relations. Each has the columns of its description, of which those that the file
# lacks are null, and the row's number from 1 as "#".

MEMORY = "160MB"
"""Of DuckDB; a million answers are then verified in less than 500 MB altogether."""
THREADS = 2
SQL_TYPES = {
    "text": "varchar", "texts": "varchar[]", "flag": "boolean", "points": "integer",
    "whole": "integer", "wholes": "integer[]", "number": "double", "numbers": "double[]",
}  # fmt: skip
"""Of the types of columns that checks compare."""

TWICE = "select 1 from main_rows group by question_id having count(*) > 1 limit 1"
FIRST_ROWS = 'select * from main_rows qualify "#" = min("#") over (partition by question_id)'


class Relations:
    """The tables of a release in DuckDB; whatever columns are named, they are there."""

    def __init__(self, release: ReleaseFolder, connection: duckdb.DuckDBPyConnection) -> None:
        self.release, self.main = release, release.kind.main
        self.connection = connection

    def rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        cursor = self.connection.cursor()
        cursor.execute(query, list(values))
        while some := cursor.fetchmany(ROWS_AT_ONCE):
            yield from some

    def has(self, table: str, *columns: str) -> bool:
        return self.release.has(table, *columns)

    def dicts(self, table: str, *columns: str) -> Iterator[dict[str, Any]]:
        """The rows of a table in their order; none if the release lacks a column."""
        if self.has(table, *columns):
            for values in self.rows(f'select {quoted(*columns)} from "{table}" order by "#"'):
                yield dict(zip(columns, values, strict=True))


ROWS_AT_ONCE = 1_000


def quoted(*names: str) -> str:
    return ", ".join(f'"{name}"' for name in names)


@contextmanager
def relations(release: ReleaseFolder) -> Iterator[Relations]:
    """The comparable tables of a release.

    Raises:
        UnreadableInput: DuckDB cannot compare them, for example without space for its files.
    """
    import duckdb  # noqa: PLC0415 -- takes a tenth of a second

    with TemporaryDirectory(prefix="hsfiq-verify-") as name:
        folder = Path(name)
        connection = duckdb.connect(
            config={
                "memory_limit": MEMORY,
                "threads": THREADS,
                "temp_directory": str(folder / "spilled"),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
        try:
            for table in release.tables.values():
                connection.execute(view_of(release, table, folder))
            connection.execute(f'create view main_rows as from "{release.kind.main}"')
            is_twice = connection.execute(TWICE).fetchone() is not None
            asked = FIRST_ROWS if is_twice else "from main_rows"
            connection.execute(f"create view asked as {asked}")
            # The files of a stranger are read, and nothing else of this machine.
            readable = ", ".join(map(sql_text, (folder.resolve(), release.path.resolve())))
            connection.execute(f"set allowed_directories = [{readable}]")
            connection.execute("set enable_external_access = false")
            connection.execute("set lock_configuration = true")
            pa.default_memory_pool().release_unused()  # what comparing the files has left
            yield Relations(release, connection)
        except duckdb.Error as error:  # such as no space for temporary files
            what = f"cannot be compared ({shortened(one_line(str(error)))})"
            raise UnreadableInput(str(release.path), what) from error
        finally:
            connection.close()


def view_of(release: ReleaseFolder, table: Table, folder: Path) -> str:
    """The view of a table; a link to the file, whose name may have any characters, is made."""
    file = folder / f"{table.name}.parquet"
    file.symlink_to((release.path / file.name).resolve())
    present = set(release.schema(table.name).names)
    columns = [
        f"cast({quoted(column.name) if column.name in present else 'null'}"
        f" as {SQL_TYPES[column.type]}) as {quoted(column.name)}"
        for column in table
        if column.type in SQL_TYPES
    ]
    return (
        f'create view "{table.name}" as select file_row_number + 1 as "#", {", ".join(columns)}'
        f" from read_parquet({sql_text(file)}, file_row_number = true)"
    )


def sql_text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


# Keys, references, and whose the rows are.

IN_ANY_ORDER = ("exclusions", "repeats")
"""Tables about questions that the main table does not have."""


def check_keys(tables: Relations, table: Table, findings: Findings) -> None:
    """No two rows have the same key."""
    if not table.key or not tables.has(table.name, *table.key):
        return
    key = quoted(*table.key)
    twice = f'''
        with twice as (select {key}, min("#") as first from "{table.name}" group by {key}
                       having count(*) > 1)
        select t."#", t.first, {key} from (
            select * from "{table.name}" join twice using ({key})
        ) t where t."#" > t.first order by t."#"'''
    for row, first, *values in tables.rows(twice):
        what = f"{' '.join(map(str, values))} is in row {first:,}, too"
        findings.add(f"{table.name}.parquet", what, row=row, column=", ".join(table.key))


def check_references(tables: Relations, table: Table, findings: Findings) -> None:
    """What a column refers to is there."""
    for column in table:
        if column.refers_to is None or not tables.has(table.name, column.name):
            continue
        target, _, name = column.refers_to.partition(".")
        if not tables.has(target, name):
            continue
        each = f"unnest({quoted(column.name)})" if column.is_list else quoted(column.name)
        unknown = f'''
            select t."#", t.named from (select "#", {each} as named from "{table.name}") t
            where t.named is not null
              and not exists (select 1 from "{target}" where {quoted(name)} = t.named)
            order by t."#"'''
        for row, value in tables.rows(unknown):
            what = f"{value} is not in {target}.parquet ({name})"
            findings.add(f"{table.name}.parquet", what, row=row, column=column.name)


def check_owners(tables: Relations, table: Table, findings: Findings) -> None:
    """Whose the rows of a table are, and that they are in the order of the main table.

    The rows of a participant come together, as do those of a form, whose places ascend. Other
    tables have the order of the main one.
    """
    if table.name == tables.main:
        check_order_of_questions(tables, findings)
    elif "question_id" in table.names:
        if table.name not in IN_ANY_ORDER and tables.has(table.name, "question_id"):
            check_order_of_rows(tables, table, findings)
    elif tables.has(table.name, "participant_id"):
        missing = f'''
            select "#", participant_id from "{table.name}" t
            where not exists (select 1 from asked where participant_id = t.participant_id)
            order by "#"'''
        for row, person in tables.rows(missing):
            what = f"{person} has no row in {tables.main}.parquet"
            findings.add(f"{table.name}.parquet", what, row=row, column="participant_id")


def check_order_of_questions(tables: Relations, findings: Findings) -> None:
    main, file = tables.main, f"{tables.main}.parquet"
    if not tables.has(main, "form", "place", "question_id", "participant_id"):
        return
    expected = "participant_id || '.' || form || '.' || place"
    for row, own, right in tables.rows(
        f'select "#", question_id, {expected} from main_rows where question_id <> {expected}'
        ' order by "#"'
    ):
        findings.add(file, f"is {own}, not {right}", row=row, column="question_id")
    for row, person in tables.rows(apart("participant_id")):
        what = f"the rows of {person} do not come together"
        findings.add(file, what, row=row, column="participant_id")
    for row, _, form in tables.rows(apart("participant_id", "form")):
        what = f"the rows of form {form} do not come together"
        findings.add(file, what, row=row, column="form")
    places = f'''
        select "#", place, last from (
            select "#", place, (participant_id, form) as own, {before("place")} as last,
                   ({before("participant_id")}, {before("form")}) as own_before
            from main_rows
        ) where own = own_before and place <= last order by "#"'''
    for row, place, last in tables.rows(places):
        what = f"place {place} comes after place {last} of the form"
        findings.add(file, what, row=row, column="place")


def before(column: str) -> str:
    """The column in the row before."""
    return f'lag({quoted(column)}) over (order by "#")'


def apart(*columns: str) -> str:
    """The first rows of further groups of rows of the main table with the same values."""
    own, last = quoted(*columns), ", ".join(map(before, columns))
    return f'''
        select "#", {own} from (
            select "#", {own} from main_rows qualify "#" = 1 or ({own}) is distinct from ({last})
        ) qualify "#" > min("#") over (partition by {own}) order by "#"'''


def check_order_of_rows(tables: Relations, table: Table, findings: Findings) -> None:
    main, file = tables.main, f"{table.name}.parquet"
    owners = [name for name in ("participant_id", "query_id") if tables.has(table.name, name)]
    columns = ", ".join(f"t.{name} as {name}, a.{name} as own_{name}" for name in owners)
    differ = " or ".join(f"{name} is distinct from own_{name}" for name in owners) or "false"
    named = ", ".join(f"{name}, own_{name}" for name in owners)
    wrong = f'''
        select "#", question_id, of_main, of_main < last as is_early, {named} from (
            select *, last_value(of_main ignore nulls) over (
                order by "#" rows between unbounded preceding and 1 preceding
            ) as last
            from (select t."#" as "#", t.question_id, a."#" as of_main, {columns}
                  from "{table.name}" t left join asked a on a.question_id = t.question_id)
        ) where of_main is null or of_main < last or {differ} order by "#"'''
    for row, question, of_main, is_early, *values in tables.rows(wrong):
        if of_main is None:
            what = f"{question} is not in {main}.parquet"
            findings.add(file, what, row=row, column="question_id")
            continue
        for name, given, own in zip(owners, values[::2], values[1::2], strict=True):
            if given != own:
                what = f"is {given}, and in {main}.parquet {own}"
                findings.add(file, what, row=row, column=name)
        if is_early:
            what = f"{question} is not in the order of {main}"
            findings.add(file, what, row=row, column="question_id")


# What the tables of a kind say of the same answer: ids, scores, systems, images and counts.


def check_answers(tables: Relations, findings: Findings) -> None:
    present = tables.release.tables
    for table, checks in tables.release.kind.checks.items():
        for check in checks if table in present else ():
            if check.sets is None or "sets" in present:
                check_rows(tables, table, check, findings)
    if "turns" in present and tables.has("sessions", "question_id", "turns"):
        check_turns(tables, findings)


def check_rows(tables: Relations, table: str, check: RowCheck, findings: Findings) -> None:
    """Add the rows of a table that a check finds."""
    values = "".join(f', {sql} as "{name}"' for name, sql in check.values.items())
    source = f'"{table}" t {check.unnested}'
    source += f" join sets s on s.set_id = {check.sets}" if check.sets else ""
    wrong = (
        f'select * from (select t."#" as "#"{values} from {source})'
        f' where {check.where} order by "#"'
    )
    for row, *found in tables.rows(wrong):
        what = check.what.format(**dict(zip(check.values, found, strict=True)))
        findings.add(f"{table}.parquet", what, row=row, column=check.column)


def check_turns(tables: Relations, findings: Findings) -> None:
    """Turns count from 1, and a search has as many as it says; votes are those of the turns."""
    numbers = '''
        select "#", turn, expected from (
            select "#", turn,
                   row_number() over (partition by question_id order by "#") as expected
            from turns
        ) where turn is distinct from expected order by "#"'''
    for row, turn, expected in tables.rows(numbers):
        what = f"is {turn}, and the turn before {expected - 1}"
        findings.add("turns.parquet", what, row=row, column="turn")
    counts = '''
        select s."#", s.turns, coalesce(t.n, 0) from sessions s
        left join (select question_id, count(*) as n from turns group by question_id) t
            on t.question_id = s.question_id
        where s.turns is distinct from coalesce(t.n, 0) order by s."#"'''
    for row, stated, own in tables.rows(counts):
        what = f"is {stated}, and turns.parquet has {own}"
        findings.add("sessions.parquet", what, row=row, column="turns")
    if "votes" in tables.release.tables:
        check_votes(tables, findings)


def check_votes(tables: Relations, findings: Findings) -> None:
    same_turn = "t.question_id = v.question_id and t.turn = v.turn and t.preference is not null"
    votes = f'''
        select v."#", v.preference, v.both_bad, t."#", t.preference, t.both_bad
        from votes v left join turns t on {same_turn}
        where t.preference is distinct from v.preference or t.both_bad is distinct from v.both_bad
        order by v."#"'''
    for row, preference, both_bad, turn, *own in tables.rows(votes):
        in_turns = None if turn is None else tuple(own)
        what = f"{(preference, both_bad)} is not the vote in turns.parquet ({in_turns})"
        findings.add("votes.parquet", what, row=row, column="preference")
    missing = f"""
        select t.turn, t.question_id from turns t
        where t.preference is not null and not exists (select 1 from votes v where {same_turn})
        order by t."#" limit 1"""
    for number, question in tables.rows(missing):
        findings.add("votes.parquet", f"lacks the vote in turn {number} of {question}")


# The manifest's figures: the funnel adds up, and its counts are those of the tables.

STRUCK = "struck-text"
"""Rows of `exclusions` about a text that was struck; its question is kept."""


def check_funnel(tables: Relations, findings: Findings) -> None:
    funnel = tables.release.manifest.get("funnel")
    if not isinstance(funnel, Mapping) or not isinstance(funnel.get("steps"), list):
        findings.add(MANIFEST, "has no funnel", column="funnel")
        return
    dropped = dropped_by_rule(tables, findings)
    left = funnel.get("assigned")
    for place, step in enumerate(funnel["steps"]):
        where = f"funnel.steps[{place}]"
        rule, counted, after = step.get("rule"), step.get("dropped") or 0, step.get("left")
        if isinstance(left, int) and left - counted != after:
            what = f"{left:,} - {counted:,} is not {after}, which are left after {rule}"
            findings.add(MANIFEST, what, column=where)
        left = after
        in_table = dropped.pop(rule, 0)
        if "exclusions" in tables.release.tables and counted != in_table:
            rows = count_text(in_table, "row")
            what = f"{rule} dropped {counted:,}, and exclusions.parquet has {rows} of it"
            findings.add(MANIFEST, what, column=where)
    if left != funnel.get("kept"):
        what = f"is {funnel.get('kept')}, and {left} are left after the last step"
        findings.add(MANIFEST, what, column="funnel.kept")
    for rule in dropped:
        findings.add("exclusions.parquet", f"rule {rule} is not in the funnel", column="rule")


def dropped_by_rule(tables: Relations, findings: Findings) -> dict[str | None, int]:
    """Count the rows of `exclusions`; a question in it is not in the main table, nor twice."""
    if not tables.has("exclusions", "question_id", "rule"):
        return {}
    file, main = "exclusions.parquet", tables.main
    for row, question in tables.rows(
        """
        select "#", question_id from exclusions e
        where rule = ? and not exists (select 1 from asked a where a.question_id = e.question_id)
        order by "#"
        """,
        STRUCK,
    ):
        findings.add(file, f"{question} is not in {main}.parquet", row=row, column="question_id")
    for row, question, of_main in tables.rows(
        """
        select e."#", e.question_id, a."#" from exclusions e
        join asked a on a.question_id = e.question_id
        where e.rule is distinct from ? order by e."#"
        """,
        STRUCK,
    ):
        what = f"{question} was dropped, and is in {main}.parquet (row {of_main:,})"
        findings.add(file, what, row=row, column="question_id")
    for row, question, first in tables.rows(
        """
        select "#", question_id, min("#") over (partition by question_id) as first
        from exclusions where rule is distinct from ? qualify "#" > first order by "#"
        """,
        STRUCK,
    ):
        what = f"{question} is in row {first:,}, too"
        findings.add(file, what, row=row, column="question_id")
    counted = "select rule, count(*) from exclusions where rule is distinct from ? group by rule"
    return dict(tables.rows(counted, STRUCK))


def check_counts(tables: Relations, findings: Findings) -> None:
    release, main = tables.release, tables.main
    counts = release.manifest.get("counts")
    if not isinstance(counts, Mapping):
        findings.note(f"{MANIFEST} has no counts")
        return
    actual: dict[str, int] = {}
    if release.has(main, "participant_id"):
        actual["questions"] = release.n_rows(main)
        ((actual["participants"],),) = tables.rows(
            "select count(distinct participant_id) from main_rows"
        )
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


def check_alike(tables: Relations, findings: Findings) -> None:
    """How alike participants are, as the manifest says, is what their answers give."""
    asked = [
        (row["field"], row["type"])
        for row in tables.dicts("fields", "field", "asked", "type")
        if row["asked"] == ASKED["at_end"]
    ]
    rows = tables.dicts(TABLE, "participant_id", "field", "number", "value")
    alike = uniqueness(rows, compared_fields(asked))
    expected, stated = alike.facts() if alike else None, tables.release.manifest.get(ALIKE)
    if stated is None and expected is not None:
        findings.note(f"{MANIFEST} has no {ALIKE}, which this hsfiq writes")
    elif stated != expected:
        what = f"is {stated}, and {TABLE}.parquet gives {expected}"
        findings.add(MANIFEST, what, column=ALIKE)


def check_queries_are_used(tables: Relations, findings: Findings) -> None:
    """Each query has a question."""
    if not tables.has("queries", "query_id"):
        return
    unused = """
        select "#", query_id from queries q
        where not exists (select 1 from asked where query_id = q.query_id) order by "#"
    """
    for row, query in tables.rows(unused):
        what = f"no question is about {query}"
        findings.add("queries.parquet", what, row=row, column="query_id")


# The split: each question has a part, and no triplet or participant is in train and in test.


def check_split(tables: Relations, findings: Findings) -> None:
    release = tables.release
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
    check_leaks(tables, by, findings)
    check_part_counts(tables, split.get("n"), findings)


def check_leaks(tables: Relations, by: SplitBy, findings: Findings) -> None:
    """What is held out is in train or in test only; both rows of a leak are named."""
    triplets = triplets_of(tables) if by != "participant" else []
    held = pa.table(
        {
            "query": pa.array([query for query, _ in triplets], TEXT),
            "triplet": pa.array([triplet for _, triplet in triplets], TEXT),
        }
    )
    tables.connection.register("held_triplets", held)
    tables.connection.execute("create or replace temp table triplets as from held_triplets")
    people = (
        "union all by name select p.*, 'participant' as noun, participant_id as id from parts p"
    )
    leaks = f"""
        with parts as (
            select s."#", s.question_id, s.part, a.participant_id, a.query_id
            from splits s join asked a on a.question_id = s.question_id
            where s.part in ('train', 'test')
        ), held as (
            select p.*, 'triplet' as noun, t.triplet as id
            from parts p join triplets t on t.query = p.query_id
            {people if by != "triplet" else ""}
        ), firsts as (
            select noun, id, part, min("#") as "#", arg_min(question_id, "#") as question
            from held group by noun, id, part
        )
        select h."#", h.noun, h.id, h.question_id, h.part, f.question, f."#", f.part
        from held h join firsts f on f.noun = h.noun and f.id = h.id and f.part <> h.part
        where f."#" < h."#" order by h."#", h.noun desc, h.id"""
    for row, noun, id_, question, part, first, first_row, other in tables.connection.execute(
        leaks
    ).fetchall():
        what = f"{question} is in {part}, {first} (row {first_row:,}) in {other}"
        findings.add("splits.parquet", f"{noun} {id_} leaks: {what}", row=row, column="part")


def check_part_counts(tables: Relations, stated: object, findings: Findings) -> None:
    """Each question has a part, and the manifest says how many are in each."""
    main = tables.main
    without = """
        select "#" from main_rows m
        where not exists (select 1 from splits s where s.question_id = m.question_id)
        order by "#"
    """
    for (row,) in tables.rows(without):
        what = "has no part in splits.parquet"
        findings.add(f"{main}.parquet", what, row=row, column="question_id")
    counts = dict(tables.rows("select part, count(*) from splits group by part"))
    for part, number in stated.items() if isinstance(stated, Mapping) else ():
        if counts.get(part, 0) != number:
            what = f"is {number}, and splits.parquet has {counts.get(part, 0):,}"
            findings.add(MANIFEST, what, column=f"split.n.{part}")


def triplets_of(tables: Relations) -> list[tuple[str, str]]:
    """The triplets of each query: that of its own id, and the one that the table names."""
    named = {
        row["query_id"]: row["triplet_id"]
        for row in tables.dicts("queries", "query_id", "triplet_id")
    }
    known = {*named, *named.values()}
    return [
        (query, held)
        for query, triplet in named.items()
        for held in {triplet_of(query, known), triplet_of(triplet, known)}
    ]
