"""Reading the tables of a release as records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.releases.folder import (
    EXCLUSIONS,
    PREFERENCES,
    QUERIES,
    SETS,
    ReleasedExclusion,
    ReleasedPreference,
    ReleasedQuery,
    ReleasedSet,
    read_exclusions,
    read_preferences,
    read_queries,
    read_sets,
)

Row = dict[str, Any]

QUERY: Row = {
    "query_id": "q", "triplet_id": "t", "dataset": "drawn", "reference_id": "i2",
    "target_id": None, "text": "is red",
}  # fmt: skip
SET: Row = {"set_id": "a.1", "query_id": "q", "image_ids": ["i0", "i1"]}
PREFERENCE: Row = {
    "question_id": "a", "participant_id": "p", "query_id": "q", "set_1": "a.1", "set_2": "a.2",
    "score_1": 5, "score_2": 2, "preferred": 0,
}  # fmt: skip


def write(folder: Path, **tables: Row) -> Path:
    """Write tables of one row each into the folder."""
    for table, row in tables.items():
        pq.write_table(pa.Table.from_pylist([row]), folder / f"{table}.parquet")
    return folder


def test_tables_become_records(tmp_path: Path) -> None:
    exclusion = {"question_id": "b", "participant_id": "p", "rule": "irrelevant", "value": "v"}
    release = write(tmp_path, queries=QUERY, sets=SET, preferences=PREFERENCE, exclusions=exclusion)
    assert read_queries(release) == {"q": ReleasedQuery("q", "t", "drawn", "i2", None, "is red")}
    assert read_sets(release) == [ReleasedSet("a.1", "q", "i2", "is red", ("i0", "i1"))]
    assert read_preferences(release) == [
        ReleasedPreference("a", "p", "q", "a.1", "a.2", score_1=5, score_2=2, preferred=0)
    ]
    assert read_exclusions(release) == [ReleasedExclusion("p", "irrelevant")]


def test_sets_have_queries_and_there_are_some(tmp_path: Path) -> None:
    release = write(tmp_path, queries=QUERY, sets=SET | {"query_id": "p"})
    with pytest.raises(UnreadableInput) as error:
        read_sets(release)
    assert error.value.where == str(release / SETS)
    assert "set a.1 has query p" in error.value.what
    pq.write_table(pa.Table.from_pylist([SET]).slice(0, 0), release / SETS)
    with pytest.raises(NothingToDo, match="has no sets"):
        read_sets(release)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"preferred": 3}, "preferred is 3"),
        ({"score_1": 0}, "score_1 is 0"),
        ({"score_2": 6}, "score_2 is 6"),
    ],
)
def test_an_impossible_answer(tmp_path: Path, change: Row, what: str) -> None:
    release = write(tmp_path, preferences=PREFERENCE | change)
    with pytest.raises(UnreadableInput) as error:
        read_preferences(release)
    assert error.value.where == f"{release / PREFERENCES}: question a"
    assert error.value.what.startswith(what)


def test_missing_columns_and_nulls_are_named(tmp_path: Path) -> None:
    incomplete = {name: value for name, value in QUERY.items() if name != "reference_id"}
    for query, what in (
        (incomplete, "column reference_id is missing"),
        (QUERY | {"dataset": None}, "column dataset is null in row 1"),
    ):
        release = write(tmp_path, queries=query)
        with pytest.raises(UnreadableInput) as error:
            read_queries(release)
        assert error.value.where == str(release / QUERIES)
        assert error.value.what.startswith(what)


def test_missing_and_unreadable_tables(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput) as error:
        read_exclusions(tmp_path)
    assert error.value.what == "there is no such file"
    assert "hsfiq export" in error.value.remedy
    (tmp_path / EXCLUSIONS).write_bytes(b"no Parquet")
    with pytest.raises(UnreadableInput, match="cannot be read"):
        read_exclusions(tmp_path)


def test_the_lists_of_searches_are_sets(tmp_path: Path) -> None:
    """A turn without a list is left out, and so is one whose text was struck."""
    turn = {"question_id": "p1.form_1.0", "query_id": "q", "reference_id": "i0", "text": "is red"}
    rows = [
        turn | {"turn": 1, "image_ids": ["i1", "i2"]},
        turn | {"turn": 2, "image_ids": ["i1"], "text": None},
        turn | {"turn": 3, "image_ids": []},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "turns.parquet")
    assert read_sets(tmp_path) == [ReleasedSet("p1.form_1.0.1", "q", "i0", "is red", ("i1", "i2"))]
    (tmp_path / "votes.parquet").touch()
    with pytest.raises(UnreadableInput, match="is a release of an arena"):
        read_sets(tmp_path)
    (tmp_path / "votes.parquet").unlink()
    pq.write_table(pa.Table.from_pylist(rows[1:]), tmp_path / "turns.parquet")
    with pytest.raises(NothingToDo, match="no list with a text"):
        read_sets(tmp_path)
