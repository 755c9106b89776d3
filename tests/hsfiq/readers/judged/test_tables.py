"""Queries, databases and judgements by their files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.readers.judged import JudgedQuery, read_judged, read_judgements, read_queries


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_clusters_of_queries(tmp_path: Path) -> None:
    path = write(
        tmp_path / "queries.csv",
        "query_id,group,cluster,reference\nq1,g,c,r\nq2,g,,r\nq3,,,r\nq4,,,\n",
    )
    assert read_queries(path) == [
        JudgedQuery("q1", "g", "c"),
        JudgedQuery("q2", "g", "g"),
        JudgedQuery("q3", "", "r"),
        JudgedQuery("q4", "", "q4"),
    ]


ROWS = [{"query_id": "q1", "image_id": "7", "grade": grade} for grade in (2,)] + [
    {"query_id": "q2", "image_id": "a b", "grade": -1}
]


def test_forms_of_judgements(tmp_path: Path) -> None:
    lines = write(tmp_path / "j.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
    table = write(tmp_path / "j.csv", "query_id,image_id,grade\nq1,7,2\nq2,a b,-1\n")
    parquet = tmp_path / "j.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), parquet)
    for path in (lines, table, parquet):
        read = [(each.query_id, each.image, each.grade) for each in read_judgements(path)]
        assert read == [("q1", "7", 2), ("q2", "a b", -1)]
    qrels = write(tmp_path / "qrels", "q1 0 7 2\n\nq2 0 ab -1\n")
    assert [tuple(each)[1:] for each in read_judgements(qrels)] == [
        ("q1", "7", 2),
        ("q2", "ab", -1),
    ]


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("j.txt", "q1 0 a\n", "line 1: 3 columns, TREC qrels have 4"),
        ("j.txt", "q1 0 a good\n", "line 1: grade 'good' is not a whole number"),
        ("j.txt", "q1 0 a 99999\n", "grade 99999 is not within"),
        ("j.csv", "query_id,image_id,grade\nq1,a,0.5\n", "line 2: grade '0.5' is not a whole"),
        ("j.csv", "query_id,image_id\nq1,a\n", "line 2: has no grade"),
        ("j.csv", "query_id,image_id,grade,who\nq1,a,1,me\n", "unknown key 'who'"),
    ],
)
def test_wrong_judgements(tmp_path: Path, name: str, content: str, error: str) -> None:
    with pytest.raises(UnreadableInput, match=error):
        list(read_judgements(write(tmp_path / name, content)))


@pytest.mark.parametrize(
    ("queries", "qrels", "databases", "error"),
    [
        ("query_id,group\nq1,g\n", "q1 0 a 1\nq1 0 a 0\n", None, "line 2: .*judged twice"),
        ("query_id,group\nq1,g\n", "q1 0 z 1\n", "group,image_id\ng,a\n", "'z' is not in the data"),
        ("query_id,group\nq1,h\n", "q1 0 a 1\n", "group,image_id\ng,a\n", "no database .h."),
        ("query_id\nq1\n", "q1 0 a 1\n", "group,image_id\ng,a\n", "queries have no groups"),
        ("query_id\nq1\n", "q2 0 a 1\n", None, "judges none of the 1 queries"),
        ("query_id\nq1\nq1\n", "q1 0 a 1\n", None, "line 3: query 'q1' occurs twice"),
        ("query_id\n", "q1 0 a 1\n", None, "holds no query"),
    ],
)
def test_files_that_do_not_fit_together(
    tmp_path: Path, queries: str, qrels: str, databases: str | None, error: str
) -> None:
    paths = write(tmp_path / "q.csv", queries), write(tmp_path / "j.txt", qrels)
    images = None if databases is None else write(tmp_path / "d.csv", databases)
    with pytest.raises(UnreadableInput, match=error):
        read_judged(*paths, images)


def test_judgements_of_other_queries_are_counted(tmp_path: Path) -> None:
    queries = write(tmp_path / "q.csv", "query_id\nq1\n")
    judged = read_judged(queries, write(tmp_path / "j", "q1 0 a 1\nq2 0 a 1\n"), None)
    assert (judged.n_ignored, judged.grades) == (1, {"q1": {"a": 1}})
