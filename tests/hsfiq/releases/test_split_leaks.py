"""`verify_no_leak` finds every triplet and participant in both parts of a release."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hsfiq.atomic_files import write_folder
from hsfiq.db.engine import Database
from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.releases.splits import SplitBy, verify_no_leak
from tests.hsfiq.releases.split_releases import HALF, release_of, sides

Change = Callable[[list[dict[str, Any]]], object]


def replant(folder: Path, name: str, change: Change) -> None:
    """Rewrite a table of the release with its rows changed."""
    path = folder / f"{name}.parquet"
    schema, rows = pq.read_schema(path), pq.read_table(path).to_pylist()
    change(rows)
    nullable = pa.schema([pa.field(field.name, field.type) for field in schema])
    pq.write_table(pa.Table.from_pylist(rows, schema=nullable), path)


@pytest.fixture
def write(split_study: Database, tmp_path: Path) -> Callable[[SplitBy], Path]:
    """Write the study's release with a split; its folder."""

    def write_split(unit: SplitBy) -> Path:
        write_folder(tmp_path / unit, release_of(split_study, HALF[unit]).files)
        return tmp_path / unit

    return write_split


def set_part(question_id: str, part: str) -> Change:
    """Put a question into a part."""

    def change(rows: list[dict[str, Any]]) -> None:
        (row,) = [row for row in rows if row["question_id"] == question_id]
        row["part"] = part

    return change


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return rows


def test_a_drawn_split_has_no_leak(write: Callable[[SplitBy], Path]) -> None:
    for unit in HALF:
        folder = write(unit)
        expected = {row["question_id"]: row["part"] for row in table(folder, "splits")}
        assert verify_no_leak(folder) == expected


def test_a_leaked_triplet_is_refused(write: Callable[[SplitBy], Path]) -> None:
    """A question about a held-out triplet, with reversed captions, is moved to train."""
    folder = write("triplet")
    parts = verify_no_leak(folder)
    planted = next(
        row
        for row in table(folder, "preferences")
        if row["query_id"].endswith("~") and parts[row["question_id"]] == "test"
    )
    replant(folder, "splits", set_part(planted["question_id"], "train"))
    with pytest.raises(HsfiqError) as error_info:
        verify_no_leak(folder)
    triplet = planted["query_id"].removesuffix("~")
    assert f"triplet {triplet} leaks: question {planted['question_id']} is in train, question " in (
        str(error_info.value)
    )
    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize("spelled", ["{}~", "{}#2", "another"])
def test_a_triplet_is_also_identified_by_its_queries(
    write: Callable[[SplitBy], Path], spelled: str
) -> None:
    """The reversed query gets another triplet id, and its question is moved to the other part."""
    folder = write("triplet")
    parts = verify_no_leak(folder)
    question, query = next(
        (row["question_id"], row["query_id"])
        for row in table(folder, "preferences")
        if row["query_id"].endswith("~") and parts[row["question_id"]] == "train"
    )

    def rename(rows: list[dict[str, Any]]) -> None:
        (row,) = [row for row in rows if row["query_id"] == query]
        row["triplet_id"] = spelled.format(row["triplet_id"])

    replant(folder, "queries", rename)
    assert verify_no_leak(folder) == parts
    replant(folder, "splits", set_part(question, "test"))
    with pytest.raises(HsfiqError, match=f"triplet {query[:-1]} leaks"):
        verify_no_leak(folder)


def test_a_leaked_participant_is_refused(write: Callable[[SplitBy], Path]) -> None:
    folder = write("participant")
    parts = verify_no_leak(folder)
    planted = next(
        row for row in table(folder, "preferences") if parts[row["question_id"]] == "train"
    )
    replant(folder, "splits", set_part(planted["question_id"], "test"))
    with pytest.raises(HsfiqError, match=f"participant {planted['participant_id']} leaks"):
        verify_no_leak(folder)


def test_with_split_by_both_every_leak_is_refused(write: Callable[[SplitBy], Path]) -> None:
    """Each question is moved to each part: refused exactly if the tables then leak."""
    folder = write("both")
    before = (folder / "splits.parquet").read_bytes()
    leaks = set()
    for question in verify_no_leak(folder):
        for part in ("train", "test"):
            (folder / "splits.parquet").write_bytes(before)
            replant(folder, "splits", set_part(question, part))
            by_part = sides(partial(table, folder))
            leaking = {
                f"triplet {id_}" for id_ in by_part["train"].triplets & by_part["test"].triplets
            } | {
                f"participant {id_}"
                for id_ in by_part["train"].participants & by_part["test"].participants
            }
            if not leaking:
                verify_no_leak(folder)
                continue
            with pytest.raises(HsfiqError) as error_info:
                verify_no_leak(folder)
            named = str(error_info.value).split(": ")[1].removesuffix(" leaks")
            assert named in leaking
            leaks.add(named.split(" ")[0])
    assert leaks == {"triplet", "participant"}


def test_a_split_that_does_not_fit_its_release(write: Callable[[SplitBy], Path]) -> None:
    folder = write("triplet")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    first = table(folder, "splits")[0]["question_id"]
    changes: list[tuple[str, Change, str]] = [
        ("splits", lambda rows: rows.pop(0), f"lacks question {first}"),
        ("splits", lambda rows: rows.append(rows[0]), f"question_id occurs twice: {first}"),
        (
            "splits",
            set_part(first, "dev"),
            f"part is dev in question {first}, not train, test, unused",
        ),
        ("splits", lambda rows: rows[0].update(part=None), "column part is null in row 1"),
        ("preferences", lambda rows: rows.pop(0), f"{first} is not in the release"),
        ("queries", lambda rows: rows.clear(), "lacks query shirt.val."),
    ]
    for name, change, message in changes:
        replant(folder, name, change)
        with pytest.raises(UnreadableInput, match=message):
            verify_no_leak(folder)
        (folder / f"{name}.parquet").write_bytes(before[f"{name}.parquet"])


def test_a_split_that_cannot_be_read(
    write: Callable[[SplitBy], Path], split_study: Database
) -> None:
    folder = write("triplet")
    pq.write_table(pa.table({"question_id": ["a"]}), folder / "splits.parquet")
    with pytest.raises(UnreadableInput, match=r"splits\.parquet: "):
        verify_no_leak(folder)
    (folder / "splits.parquet").write_bytes(b"PAR1")
    with pytest.raises(UnreadableInput, match=r"splits\.parquet: cannot be read"):
        verify_no_leak(folder)
    (folder / "splits.parquet").unlink()
    with pytest.raises(UnreadableInput, match=r"splits\.parquet: there is no such file"):
        verify_no_leak(folder)
    intact = folder.parent / "whole"
    write_folder(intact, release_of(split_study).files)
    with pytest.raises(UnreadableInput, match=r"manifest\.json: describes no split"):
        verify_no_leak(intact)
