"""i-CIR (Psomas et al., NeurIPS 2025): `query_files.csv` and `database_files.csv`.

Its published reader (github.com/billpsomas/icir, `utils_features.py`) takes three columns without
a header: an image's path, a text and an instance. A database image with the instance and the text
of a query is a right answer of it; all others of the instance are wrong.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import read_text
from hsfiq.readers.judged.judged_set import JudgedQuery, JudgedSet, Judgement, judged_set
from hsfiq.text import first_few

QUERIES, DATABASE = "query_files.csv", "database_files.csv"
COLUMNS = 3
HEADER = ("instance", "instance_id")
"""Names of the third column in a first line that is a header."""


class IcirRow(NamedTuple):
    where: str
    image: str
    text: str
    instance: str


def read(folder: Path) -> JudgedSet:
    """Read both files, in `folder` or in `annotations/` below it.

    A query's id is `icir.` and its place in the file, from 0; images are named as in the file. Only
    right answers have a grade: the protocol says that the other images of the database are wrong.
    """
    paths = [file_in(folder, name) for name in (QUERIES, DATABASE)]
    queries, database = (list(read_rows(path)) for path in paths)
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


def read_rows(path: Path) -> Iterator[IcirRow]:
    reader = csv.reader(StringIO(read_text(path), newline=""))
    for number, cells in enumerate(reader, start=1):
        if not cells or (number == 1 and cells[-1].strip() in HEADER):
            continue
        where = f"{path}: line {number}"
        if len(cells) != COLUMNS:
            raise UnreadableInput(
                where, f"{len(cells)} columns, i-CIR has 3: image path, text, instance"
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
            "take both files from one version of i-CIR",
        )


def judgements(
    queries: dict[str, IcirRow], by_instance: dict[str, list[IcirRow]]
) -> Iterator[Judgement]:
    for query_id, query in queries.items():
        for row in by_instance[query.instance]:
            if row.text == query.text:
                yield Judgement(row.where, query_id, row.image, 1)
