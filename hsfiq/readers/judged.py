"""Queries with judged images, our tables and i-CIR's, and labels of queries, as CIRCUS has them."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from hsfiq.errors import UnreadableInput
from hsfiq.readers import files
from hsfiq.readers.own_queries import LONGEST_PATH
from hsfiq.readers.own_queries import is_column as is_own_column
from hsfiq.text import first_few

# A set of queries with judged images, put together from the files' rows.

Protocol = Literal["trec", "icir"]
"""The meaning of images without a grade, and the variant of average precision.

`trec`: unjudged; trec_eval's. `icir`: a wrong answer of a database in which all correct answers are
known; i-CIR's beside trec_eval's.
"""


class JudgedQuery(NamedTuple):
    """A query.

    Attributes:
        group: whose database its candidates are; "" if there is one database for all.
        cluster: queries with the same one depend on each other, such as paraphrases of one query.
    """

    query_id: str
    group: str
    cluster: str


class Judgement(NamedTuple):
    """The grade of an image for a query, and its place in the file.

    A grade above 0: how well the image fits; 0: it does not; below 0: it is judged wrong.
    """

    where: str
    query_id: str
    image: str
    grade: int


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Queries with their judged images.

    Attributes:
        name: what the figures are printed under.
        grades: by query and image.
        databases: the candidates of each group; None if no file lists them.
        n_ignored: judgements of other queries than these.
    """

    name: str
    queries: tuple[JudgedQuery, ...]
    grades: Mapping[str, Mapping[str, int]]
    databases: Mapping[str, frozenset[str]] | None
    protocol: Protocol = "trec"
    n_ignored: int = 0

    def database_of(self, query: JudgedQuery) -> frozenset[str] | None:
        return None if self.databases is None else self.databases[query.group]


def judged_set(
    name: str,
    queries: Sequence[JudgedQuery],
    judgements: Iterable[Judgement],
    databases: Mapping[str, frozenset[str]] | None,
) -> JudgedSet:
    """Put queries, judgements and databases together.

    Raises:
        UnreadableInput: an image is judged twice for a query, or is not in the query's database; a
            query's group has no database; or no query has a judgement.
    """
    if databases is not None:
        require_databases(queries, databases)
    groups = {query.query_id: query.group for query in queries}
    grades: dict[str, dict[str, int]] = {query.query_id: {} for query in queries}
    n_ignored = 0
    for where, query_id, image, grade in judgements:
        if query_id not in groups:
            n_ignored += 1
            continue
        if image in grades[query_id]:
            raise UnreadableInput(where, f"image {image!r} of query {query_id} is judged twice")
        if databases is not None and image not in databases[groups[query_id]]:
            raise UnreadableInput(
                where,
                f"the judged image {image!r} is not in the database of query {query_id}",
                "add it to --databases, or leave out its judgement",
            )
        grades[query_id][image] = grade
    if not any(grades.values()):
        raise UnreadableInput(
            "--qrels",
            f"contains no judgement of the {len(queries):,} queries",
            f"the queries' ids look like {queries[0].query_id}",
        )
    return JudgedSet(name, tuple(queries), grades, databases, n_ignored=n_ignored)


def require_databases(
    queries: Sequence[JudgedQuery], databases: Mapping[str, frozenset[str]]
) -> None:
    without = [query.group for query in queries if query.group not in databases]
    if not without:
        return
    if "" in without:
        what = "the queries have no groups, but the databases do"
        remedy = "add the column `group` to --queries"
    else:
        names = sorted(set(without))
        what = f"{len(names):,} groups of queries have no database ({first_few(names)})"
        remedy = "add their images"
    raise UnreadableInput("--databases", what, remedy)


# i-CIR (Psomas et al., NeurIPS 2025): `query_files.csv` and `database_files.csv`.
#
# Its published reader (github.com/billpsomas/icir, `utils_features.py`) takes three columns without
# a header: an image's path, a text and an instance. A database image with the instance and the text
# of a query is a right answer of it; all others of the instance are wrong.

QUERIES, DATABASE = "query_files.csv", "database_files.csv"
COLUMNS = 3
HEADER = ("instance", "instance_id")
"""Names of the third column in a first line that is a header."""


class IcirRow(NamedTuple):
    where: str
    image: str
    text: str
    instance: str


def read_icir(folder: Path) -> JudgedSet:
    """Read both files, in `folder` or in `annotations/` below it.

    A query's id is `icir.` and its place in the file, from 0; images are named as in the file. Only
    right answers have a grade: the protocol says that the other images of the database are wrong.
    """
    paths = [file_in(folder, name) for name in (QUERIES, DATABASE)]
    queries, database = (list(read_icir_rows(path)) for path in paths)
    by_instance: defaultdict[str, list[IcirRow]] = defaultdict(list)
    for row in database:
        by_instance[row.instance].append(row)
    named = {f"icir.{place}": row for place, row in enumerate(queries)}
    require_positives(named, by_instance, paths[1])
    judged = judged_set(
        "i-CIR",
        [JudgedQuery(query_id, row.instance, row.instance) for query_id, row in named.items()],
        judgements(named, by_instance),
        {name: frozenset(row.image for row in rows) for name, rows in by_instance.items()},
    )
    return replace(judged, protocol="icir")


def file_in(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / "annotations" / name):
        if path.is_file():
            return path
    raise UnreadableInput(str(folder / name), "there is no such file, nor in annotations/")


def read_icir_rows(path: Path) -> Iterator[IcirRow]:
    reader = csv.reader(StringIO(files.read_text(path), newline=""))
    for number, cells in enumerate(reader, start=1):
        if not cells or (number == 1 and cells[-1].strip() in HEADER):
            continue
        where = f"{path}: line {number}"
        if len(cells) != COLUMNS:
            raise UnreadableInput(
                where, f"{len(cells)} columns instead of 3: image path, text, instance"
            )
        yield IcirRow(where, *(cell.strip() for cell in cells))


def require_positives(
    queries: dict[str, IcirRow], by_instance: dict[str, list[IcirRow]], database: Path
) -> None:
    right = {(row.instance, row.text) for rows in by_instance.values() for row in rows}
    without = [row for row in queries.values() if (row.instance, row.text) not in right]
    if without:
        raise UnreadableInput(
            without[0].where,
            f"{len(without):,} queries have no image with their instance and text in {database} "
            f"({first_few([f'{row.instance}: {row.text}' for row in without])})",
            "use files from the same version of i-CIR",
        )


def judgements(
    queries: dict[str, IcirRow], by_instance: dict[str, list[IcirRow]]
) -> Iterator[Judgement]:
    for query_id, query in queries.items():
        for row in by_instance[query.instance]:
            if row.text == query.text:
                yield Judgement(row.where, query_id, row.image, 1)


# Judged queries by their files: queries and databases as tables, judgements as tables or qrels.

QUERY_COLUMNS = ("group", "cluster")
JUDGEMENT_COLUMNS = ("query_id", "image_id", "grade")
DATABASE_COLUMNS = ("group", "image_id")
TREC_FIELDS = 4
LARGEST_GRADE = 1_000


def read_judged(queries: Path, qrels: Path, databases: Path | None) -> JudgedSet:
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
    for row in files.read_rows(path, "query_id", is_query_column, known):
        query_id = files.outside_name(files.required(row, "query_id"))
        if query_id in queries:
            raise row.wrong(f"query {query_id!r} occurs twice")
        group = optional(row, "group")
        cluster = optional(row, "cluster") or group or optional(row, "reference") or query_id
        queries[query_id] = JudgedQuery(query_id, group, cluster)
    if not queries:
        raise UnreadableInput(str(path), "contains no query")
    return list(queries.values())


def is_query_column(name: str) -> bool:
    return name in QUERY_COLUMNS or is_own_column(name)


def optional(row: files.Place, name: str) -> str:
    return files.outside_name(files.cell(row, name), LONGEST_PATH) if name in row.value else ""


def read_databases(path: Path) -> dict[str, frozenset[str]]:
    """Read `image_id` and, where the queries have groups, `group`: the candidates by group."""
    images: defaultdict[str, set[str]] = defaultdict(set)
    known = ", ".join(DATABASE_COLUMNS)
    for row in files.read_rows(path, "image_id", DATABASE_COLUMNS.__contains__, known):
        image = files.outside_name(files.required(row, "image_id"), LONGEST_PATH)
        images[optional(row, "group")].add(image)
    if not images:
        raise UnreadableInput(str(path), "holds no image")
    return {group: frozenset(members) for group, members in images.items()}


def read_judgements(path: Path) -> Iterator[Judgement]:
    """Read a table of `query_id`, `image_id`, `grade`, or TREC qrels: `query 0 image grade`."""
    if path.suffix.lower() in (".csv", ".tsv", ".jsonl", ".parquet", *files.SHEETS):
        yield from read_judgement_table(path)
    else:
        yield from read_trec(path)


def read_judgement_table(path: Path) -> Iterator[Judgement]:
    for row in files.rows_of(path, "query_id"):
        row.only(*JUDGEMENT_COLUMNS)
        yield Judgement(
            row.where,
            files.outside_name(files.required(row, "query_id")),
            files.outside_name(files.required(row, "image_id"), LONGEST_PATH),
            grade_of(str(files.required(row, "grade").value), row.where),
        )


def read_trec(path: Path) -> Iterator[Judgement]:
    for number, line in files.numbered_lines(files.read_text(path)):
        where = f"{path}: line {number}"
        fields = line.split()
        if len(fields) != TREC_FIELDS:
            raise UnreadableInput(
                where,
                f"{len(fields)} columns, TREC qrels have {TREC_FIELDS}: query 0 image grade",
                "name a table .csv, .xlsx, .jsonl or .parquet",
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


# Queries with labels: ids alone, tables of ours, and the files of CIRCUS.
#
# CIRCUS (Attimonelli et al. 2026, github.com/matteoattimonelli/CIRCUS) labels the queries of CIRR,
# FashionIQ, LaSCo and CIRCO. Its files name queries by M-BEIR's ids; with them are the reference
# image's path and the text, which identify a query of the benchmark.

ID_COLUMNS = ("query_id", "qid")
LABEL_COLUMNS = ("label", "aggregate_label", "hidden_category")
REFERENCE_COLUMNS = ("reference", "query_img_path", "query_image_ref", "query_image_path")
TEXT_COLUMNS = ("text", "query_text", "query_txt")

UNIONS = {"shortcut_free": ("composition_required", "unresolved")}
"""Labels of CIRCUS that stand for several."""


class LabelledQuery(NamedTuple):
    """A query as a file names it: by its id, by its reference and text, or by both.

    Attributes:
        reference: the image's name without folder and extension.
    """

    where: str
    query_id: str | None
    reference: str | None
    text: str | None
    label: str | None


def read_labelled_queries(path: Path, label: str | None) -> list[LabelledQuery]:
    """The file's queries with this label, or all.

    `.txt` files have an id on each line. Tables have an id, or a reference and a text; other
    columns are ignored. UnreadableInput: no query has the label, or a row identifies no query.
    """
    queries = read_ids(path) if path.suffix.lower() == ".txt" else read_table(path)
    if not queries:
        raise UnreadableInput(str(path), "contains no query")
    if label is None:
        return queries
    wanted = UNIONS.get(label, (label,))
    chosen = [query for query in queries if query.label in wanted]
    if not chosen:
        labels = sorted({query.label for query in queries if query.label is not None})
        known = f"its labels are {', '.join(labels)}" if labels else "it has no labels"
        raise UnreadableInput(str(path), f"no query has the label {label!r}", known)
    return chosen


def read_ids(path: Path) -> list[LabelledQuery]:
    return [
        LabelledQuery(f"{path}: line {number}", line.strip(), None, None, None)
        for number, line in files.numbered_lines(files.read_text(path))
    ]


def read_table(path: Path) -> list[LabelledQuery]:
    columns = (*ID_COLUMNS, *TEXT_COLUMNS)
    key = columns[0]
    if path.suffix.lower() in (".csv", ".tsv"):
        text = files.read_text(path)
        key = next((name for name in columns if files.has_header(text, name)), key)
    return [read_row(row) for row in files.rows_of(path, key)]


def read_row(row: files.Place) -> LabelledQuery:
    query_id = first_of(row, ID_COLUMNS)
    reference = first_of(row, REFERENCE_COLUMNS)
    text = first_of(row, TEXT_COLUMNS)
    if query_id is None and (reference is None or text is None):
        raise row.wrong("names no query", f"give {ID_COLUMNS[0]}, or reference and text")
    stem = None if reference is None else PurePosixPath(reference).stem
    return LabelledQuery(row.where, query_id, stem, text, first_of(row, LABEL_COLUMNS))


def first_of(row: files.Place, names: tuple[str, ...]) -> str | None:
    """The first of the columns that the row has."""
    for name in names:
        if name in row.value:
            return files.outside_name(files.cell(row, name), LONGEST_PATH)
    return None
