"""i-CIR's two files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.readers.judged import JudgedQuery, read_icir

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
        ("query/cup.jpg,at sunset\n", r"query_files.csv: line 1: 2 columns, i-CIR has 3"),
        (
            QUERIES + "query/cup.jpg,at dawn,cup\n",
            r"line 4: 1 queries have no image .*cup: at dawn",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path: Path, queries: str, error: str) -> None:
    with pytest.raises(UnreadableInput, match=error):
        read_icir(write_icir(tmp_path, queries=queries))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"query_files.csv: there is no such file"):
        read_icir(tmp_path)
