"""Judged queries by their files: queries and databases as tables, judgements as tables or qrels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import Place, numbered_lines, read_text
from hsfiq.readers.judged.judged_set import JudgedQuery, JudgedSet, Judgement, judged_set
from hsfiq.readers.own_queries import LONGEST_PATH
from hsfiq.readers.own_queries import is_column as is_own_column
from hsfiq.readers.tables import cell, outside_name, read_rows, required, rows_of

QUERY_COLUMNS = ("group", "cluster")
JUDGEMENT_COLUMNS = ("query_id", "image_id", "grade")
DATABASE_COLUMNS = ("group", "image_id")
TREC_FIELDS = 4
LARGEST_GRADE = 1_000


def read(queries: Path, qrels: Path, databases: Path | None) -> JudgedSet:
    """Read a set of judged queries from its files; UnreadableInput if they do not fit together."""
    images = None if databases is None else read_databases(databases)
    return judged_set(str(queries), read_queries(queries), read_judgements(qrels), images)


def read_queries(path: Path) -> list[JudgedQuery]:
    """Read `query_id` and, where there are any, `group`, `cluster` and columns of own queries.

    Without `cluster`, the queries of a group are one cluster; without both, those with the same
    reference.
    """
    known = "query_id, group, cluster, text, reference"
    queries: dict[str, JudgedQuery] = {}
    for row in read_rows(path, "query_id", is_query_column, known):
        query_id = outside_name(required(row, "query_id"))
        if query_id in queries:
            raise row.wrong(f"query {query_id!r} occurs twice")
        group = optional(row, "group")
        cluster = optional(row, "cluster") or group or optional(row, "reference") or query_id
        queries[query_id] = JudgedQuery(query_id, group, cluster)
    if not queries:
        raise UnreadableInput(str(path), "holds no query")
    return list(queries.values())


def is_query_column(name: str) -> bool:
    return name in QUERY_COLUMNS or is_own_column(name)


def optional(row: Place, name: str) -> str:
    return outside_name(cell(row, name), LONGEST_PATH) if name in row.value else ""


def read_databases(path: Path) -> dict[str, frozenset[str]]:
    """Read `image_id` and, where the queries have groups, `group`: the candidates by group."""
    images: defaultdict[str, set[str]] = defaultdict(set)
    known = ", ".join(DATABASE_COLUMNS)
    for row in read_rows(path, "image_id", DATABASE_COLUMNS.__contains__, known):
        image = outside_name(required(row, "image_id"), LONGEST_PATH)
        images[optional(row, "group")].add(image)
    if not images:
        raise UnreadableInput(str(path), "holds no image")
    return {group: frozenset(members) for group, members in images.items()}


def read_judgements(path: Path) -> Iterator[Judgement]:
    """Read a table of `query_id`, `image_id`, `grade`, or TREC qrels: `query 0 image grade`."""
    if path.suffix.lower() in (".csv", ".tsv", ".jsonl", ".parquet"):
        yield from read_judgement_table(path)
    else:
        yield from read_trec(path)


def read_judgement_table(path: Path) -> Iterator[Judgement]:
    for row in rows_of(path, "query_id"):
        row.only(*JUDGEMENT_COLUMNS)
        yield Judgement(
            row.where,
            outside_name(required(row, "query_id")),
            outside_name(required(row, "image_id"), LONGEST_PATH),
            grade_of(str(required(row, "grade").value), row.where),
        )


def read_trec(path: Path) -> Iterator[Judgement]:
    for number, line in numbered_lines(read_text(path)):
        where = f"{path}: line {number}"
        fields = line.split()
        if len(fields) != TREC_FIELDS:
            raise UnreadableInput(
                where,
                f"{len(fields)} columns, TREC qrels have {TREC_FIELDS}: query 0 image grade",
                "name a table .csv, .jsonl or .parquet",
            )
        query_id, _, image, grade = fields
        yield Judgement(where, query_id, image, grade_of(grade, where))


def grade_of(text: str, where: str) -> int:
    """A whole number; tables may write 2 as 2.0."""
    try:
        grade = int(text.strip().removesuffix(".0"))
    except ValueError as error:
        raise UnreadableInput(where, f"grade {text[:40]!r} is not a whole number") from error
    if abs(grade) > LARGEST_GRADE:
        raise UnreadableInput(where, f"grade {grade} is not within {-LARGEST_GRADE:,} to 1,000")
    return grade
