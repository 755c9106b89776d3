"""Files of judged queries: i-CIR's, databases and judgements, and labels."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.readers.judged import (
    JudgedQuery,
    read_icir,
    read_judged,
    read_judgements,
    read_labelled_queries,
    read_queries,
)

QUERIES = """\
query/temple.jpg,at sunset,temple
query/temple.jpg,"as a drawing, in ink",temple
query/cup.jpg,at sunset,cup
"""
DATABASE = """\
db/t1.jpg,at sunset,temple
db/t2.jpg,at sunset,temple
db/t3.jpg,"as a drawing, in ink",temple
db/c1.jpg,at sunset,cup
db/c2.jpg,broken,cup
"""


def write_icir(folder: Path, below: str = "", queries: str = QUERIES) -> Path:
    (folder / below).mkdir(parents=True, exist_ok=True)
    (folder / below / "query_files.csv").write_text(queries, encoding="utf-8")
    (folder / below / "database_files.csv").write_text(DATABASE, encoding="utf-8")
    return folder


@pytest.mark.parametrize("below", ["", "annotations"])
def test_instances_are_groups(tmp_path: Path, below: str) -> None:
    judged = read_icir(write_icir(tmp_path, below))
    assert judged.queries == (
        JudgedQuery("icir.0", "temple", "temple"),
        JudgedQuery("icir.1", "temple", "temple"),
        JudgedQuery("icir.2", "cup", "cup"),
    )
    assert judged.grades == {
        "icir.0": {"db/t1.jpg": 1, "db/t2.jpg": 1},
        "icir.1": {"db/t3.jpg": 1},
        "icir.2": {"db/c1.jpg": 1},
    }
    assert judged.databases == {
        "temple": {"db/t1.jpg", "db/t2.jpg", "db/t3.jpg"},
        "cup": {"db/c1.jpg", "db/c2.jpg"},
    }
    assert judged.protocol == "icir"


def test_a_header_is_no_query(tmp_path: Path) -> None:
    with_header = write_icir(tmp_path, queries="image,text,instance\n" + QUERIES)
    assert len(read_icir(with_header).queries) == 3


@pytest.mark.parametrize(
    ("queries", "error"),
    [
        ("query/cup.jpg,at sunset\n", r"query_files.csv: line 1: 2 columns instead of 3"),
        (
            QUERIES + "query/cup.jpg,at dawn,cup\n",
            r"line 4: 1 queries have no image .*cup: at dawn",
        ),
        (None, r"query_files.csv: there is no such file"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    tmp_path: Path, queries: str | None, error: str
) -> None:
    if queries is not None:
        write_icir(tmp_path, queries=queries)
    with pytest.raises(UnreadableInput, match=error):
        read_icir(tmp_path)


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


ROWS = [
    {"query_id": "q1", "image_id": "7", "grade": 2},
    {"query_id": "q2", "image_id": "a b", "grade": -1},
]


def test_forms_of_judgements(tmp_path: Path) -> None:
    lines = write(tmp_path / "j.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
    table = write(tmp_path / "j.csv", "query_id,image_id,grade\nq1,7,2\nq2,a b,-1\n")
    pq.write_table(pa.Table.from_pylist(ROWS), parquet := tmp_path / "j.parquet")
    for path in (lines, table, parquet):
        read = [tuple(each)[1:] for each in read_judgements(path)]
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
        ("query_id\nq1\n", "q2 0 a 1\n", None, "contains no judgement of the 1 queries"),
        ("query_id\nq1\nq1\n", "q1 0 a 1\n", None, "line 3: query 'q1' occurs twice"),
        ("query_id\n", "q1 0 a 1\n", None, "contains no query"),
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


AUDIT = """\
query_idx,query_id,aggregate_label,query_text,query_image_ref,rank_multimodal
2,8:3,composition_required,"Two animals, no human.",mbeir_images/cirr_images/dev/dev-1-0-img0.jpg,2
3,8:4,unresolved,Human and one animal.,mbeir_images/cirr_images/dev/dev-2-1-img1.jpg,18
4,8:5,shortcut_solvable,Add a dog.,mbeir_images/cirr_images/dev/dev-3-1-img1.jpg,1
"""
"""The form of CIRCUS' `croissant/exports/cirr_shortcut_free.csv`, with a third label."""

VALIDATED = """\
dataset,hidden_category,validated,query_idx,query_text,query_image_ref
circo,composition_required,true,4,is upside down,CIRCO/unlabeled2017/000000007705.jpg
"""
"""The form of `croissant/exports/circo_validated.csv`, without ids."""

LABELLED = (
    '{"query_id": "circo_q_test_134", "query_text": "has a window", "query_img_path": '
    '"<path>/unlabeled2017/000000280105.jpg", "pos_cand_list": ["circo_img_102287"]}\n'
    '{"qid": "7:21", "query_txt": "Is light.", "query_img_path": "fashioniq_images/B00.jpg"}\n'
)
"""Forms of `shortcut_free_subsets/circo/*/*.jsonl` and `final_dataset/query_jsonl/*/*/*.jsonl`."""


def test_the_files_of_circus(tmp_path: Path) -> None:
    audit = read_labelled_queries(write(tmp_path / "audit.csv", AUDIT), None)
    assert [tuple(each)[1:] for each in audit[:2]] == [
        ("8:3", "dev-1-0-img0", "Two animals, no human.", "composition_required"),
        ("8:4", "dev-2-1-img1", "Human and one animal.", "unresolved"),
    ]
    (validated,) = read_labelled_queries(write(tmp_path / "validated.csv", VALIDATED), None)
    expected = (None, "000000007705", "is upside down", "composition_required")
    assert tuple(validated)[1:] == expected
    queries = read_labelled_queries(write(tmp_path / "queries.jsonl", LABELLED), None)
    assert [tuple(each)[1:] for each in queries] == [
        ("circo_q_test_134", "000000280105", "has a window", None),
        ("7:21", "B00", "Is light.", None),
    ]


@pytest.mark.parametrize(
    ("name", "content", "label", "ids"),
    [
        ("audit.csv", AUDIT, "unresolved", ["8:4"]),
        ("audit.csv", AUDIT, "shortcut_free", ["8:3", "8:4"]),
        ("audit.csv", AUDIT, "shortcut_solvable", ["8:5"]),
        ("ids.txt", "12060\n\n12062 \n", None, ["12060", "12062"]),
    ],
)
def test_one_label_and_ids_alone(
    tmp_path: Path, name: str, content: str, label: str | None, ids: list[str]
) -> None:
    queries = read_labelled_queries(write(tmp_path / name, content), label)
    assert [query.query_id for query in queries] == ids


@pytest.mark.parametrize(
    ("name", "content", "label", "error"),
    [
        ("a.csv", AUDIT, "easy", "no query has the label 'easy'; its labels are composition_req"),
        ("a.txt", "1\n", "easy", "it has no labels"),
        ("a.csv", "query_id,query_text\n,Add a dog.\n", None, "line 2: names no query"),
        ("a.csv", "query_id\n", None, "contains no query"),
        ("a.csv", "id\n1\n", None, "there is no column 'query_id'"),
    ],
)
def test_what_names_no_query_is_refused(
    tmp_path: Path, name: str, content: str, label: str | None, error: str
) -> None:
    with pytest.raises(UnreadableInput, match=error):
        read_labelled_queries(write(tmp_path / name, content), label)
