"""Files that name queries and their labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.readers.judged import read_labelled_queries


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


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

QUERIES = (
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
    queries = read_labelled_queries(write(tmp_path / "queries.jsonl", QUERIES), None)
    assert [tuple(each)[1:] for each in queries] == [
        ("circo_q_test_134", "000000280105", "has a window", None),
        ("7:21", "B00", "Is light.", None),
    ]


@pytest.mark.parametrize(
    ("label", "ids"),
    [("unresolved", ["8:4"]), ("shortcut_free", ["8:3", "8:4"]), ("shortcut_solvable", ["8:5"])],
)
def test_one_label(tmp_path: Path, label: str, ids: list[str]) -> None:
    queries = read_labelled_queries(write(tmp_path / "audit.csv", AUDIT), label)
    assert [query.query_id for query in queries] == ids


def test_ids_alone(tmp_path: Path) -> None:
    queries = read_labelled_queries(write(tmp_path / "ids.txt", "12060\n\n12062 \n"), None)
    assert [query.query_id for query in queries] == ["12060", "12062"]


@pytest.mark.parametrize(
    ("name", "content", "label", "error"),
    [
        ("a.csv", AUDIT, "easy", "no query has the label 'easy'; its labels are composition_req"),
        ("a.txt", "1\n", "easy", "it has no labels"),
        ("a.csv", "query_id,query_text\n,Add a dog.\n", None, "line 2: names no query"),
        ("a.csv", "query_id\n", None, "holds no query"),
        ("a.csv", "id\n1\n", None, "there is no column 'query_id'"),
    ],
)
def test_what_names_no_query_is_refused(
    tmp_path: Path, name: str, content: str, label: str | None, error: str
) -> None:
    with pytest.raises(UnreadableInput, match=error):
        read_labelled_queries(write(tmp_path / name, content), label)
