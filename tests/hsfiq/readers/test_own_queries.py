"""Queries of own data as CSV, JSON lines and Parquet: the same records, or every row's error."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any, cast

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsfiq.errors import FileErrors, HsfiqError, UnreadableInput
from hsfiq.readers import own_queries, runs
from hsfiq.readers.files import LISTED, ErrorList, Place, columns_of
from hsfiq.readers.own_queries import ImageId, PlacedQuery, WrongRow
from hsfiq.records import OwnQuery, RankedList

QUERIES = (
    OwnQuery("1", "a red car", ("a red car",), None, "cars/1.jpg", "car", "test"),
    OwnQuery("2", "", (), "cars/2.jpg", None, "car"),
    OwnQuery("3/ü 한", 'is red and is "big"\nnow', ("is red", "is big"), "cars/3.jpg"),
    OwnQuery(
        "4", "is red and is big and has wheels", ("is red", "is big", "has wheels"), "a b.png"
    ),
)


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8", newline="")
    return path


def placed(path: Path) -> list[PlacedQuery]:
    rows = own_queries.read(path)
    assert all(isinstance(row, PlacedQuery) for row in rows)
    return cast("list[PlacedQuery]", rows)


def read(path: Path) -> tuple[OwnQuery, ...]:
    return tuple(row.query for row in placed(path))


def errors_of(path: Path, **options: ImageId) -> tuple[str, ...]:
    rows = own_queries.read(path, **options)
    return tuple(str(e) for row in rows if isinstance(row, WrongRow) for e in row.errors)


def written_rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"query_id": 1, "text": "a red car", "target": "cars/1.jpg"}
        | {"category": "car", "split": "test"},
        {"query_id": 2, "reference": "cars/2.jpg", "category": "car"},
        {"query_id": "3/ü 한", "text": QUERIES[2].text, "reference": "cars/3.jpg"}
        | {"captions": ["is red", "is big"]},
        {"query_id": 4, "captions": ["is red", "is big", "has wheels"], "reference": "a b.png"},
    ]
    return rows


CSV = (
    "query_id,reference,target,category,split,text,caption_1,caption_2,caption_3\n"
    "1,,cars/1.jpg,car,test,a red car,,,\n"
    "2 ,cars/2.jpg,,car,,,,,\n"
    '3/ü 한,cars/3.jpg,,,,"is red and is ""big""\nnow",is red,is big,\n'
    "\n"
    "4,a b.png,,,,,is red,is big,has wheels\n"
)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_csv_with_any_separator(tmp_path: Path, separator: str, mark: str) -> None:
    path = write(tmp_path / "q.csv", mark + CSV.replace(",", separator))
    assert read(path) == QUERIES
    assert [row.where for row in placed(path)] == [f"{path}: line {n}" for n in (2, 3, 4, 7)]


def test_json_lines(tmp_path: Path) -> None:
    lines = [json.dumps(row, ensure_ascii=False) for row in written_rows()]
    assert read(write(tmp_path / "q.jsonl", "\n\n".join(lines))) == QUERIES


@pytest.mark.parametrize("ids", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet(tmp_path: Path, ids: pa.DataType) -> None:
    rows = [row | {"query_id": str(row["query_id"])} for row in written_rows()]
    names = ("query_id", "text", "reference", "target", "category", "split", "captions")
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    table = table.set_column(0, "query_id", table["query_id"].cast(ids))
    pq.write_table(table, tmp_path / "q.parquet")
    assert read(tmp_path / "q.parquet") == QUERIES


@pytest.mark.parametrize("kind", [pa.int64(), pa.int8(), pa.float64(), pa.uint64()])
def test_numbers_in_parquet_are_ids(tmp_path: Path, kind: pa.DataType) -> None:
    table = pa.table({"query_id": pa.array([7, 12], kind), "reference": pa.array([1, None], kind)})
    table = table.append_column("text", pa.array(["red", "blue"]))
    table = table.append_column("__index_level_0__", pa.array([5, 6]))
    pq.write_table(table, tmp_path / "q.parquet")
    ids = [(query.query_id, query.reference) for query in read(tmp_path / "q.parquet")]
    assert ids == [("7", "1"), ("12", None)]


def test_all_errors_are_listed_with_their_rows(tmp_path: Path) -> None:
    rows = f",red,\n1,red,\n1,blue,\n2,,\n{'x' * 201},red,\n3,red,{'c' * 41}\n" + '"a\nb",red,\n'
    path = write(tmp_path / "q.csv", f"query_id,text,category\n{rows}")
    expected = {
        2: "no query_id",
        4: "'1' occurs twice (first in line 3)",
        5: "neither a text nor a reference",
        6: "1 to 200 characters, not 201",
        7: "1 to 40 characters",
        8: "control character",
    }
    for line, (number, part) in zip(errors_of(path), expected.items(), strict=True):
        assert line.startswith(f"{path}: line {number}:")
        assert part in line


def test_many_errors_are_counted(tmp_path: Path) -> None:
    errors = ErrorList()
    for line in errors_of(write(tmp_path / "q.csv", "query_id,text\n" + ",red\n" * (LISTED + 5))):
        errors.add(line)
    with pytest.raises(FileErrors) as caught:
        errors.require_none()
    assert len(caught.value.lines) == LISTED + 1
    assert caught.value.lines[-1] == "and 5 more errors"


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("q.csv", "", "the file is empty"),
        (
            "q.csv",
            "id,text\n1,red\n",
            "there is no column 'query_id'; rename the column that holds it; the file has id, text",
        ),
        ("q.csv", "query_id,text\n", "contains no query"),
        ("q.csv", "query_id,text,text\n1,a,b\n", "line 1: two columns are called 'text'"),
        ("q.csv", "query_id,price,text\n1,9,a\n", "line 2: unknown column 'price'"),
        ("q.csv", "query_id,text\n1,red, large\n", "line 2: 3 cells, but the first line has 2"),
        ("q.csv", 'query_id,text\n1,"red\n', "line 2: invalid CSV"),
        ("q.jsonl", '{"query_id": 1, "text": "a"}\n[1]\n', "line 2: expected an object"),
        ("q.jsonl", '{"query_id": 1, "text": }\n', "line 1, column 25: invalid JSON"),
        ("q.parquet", "no parquet", "is not a readable Parquet file"),
        ("q.xlsx", "", "is not a readable spreadsheet"),
        ("q.xlsx", "query_id,text\n", "is not a readable spreadsheet"),
        ("q.xls", "PK and no archive", "is not a readable spreadsheet"),
        ("q.doc", "", "write .csv, .xlsx, .jsonl or .parquet"),
    ],
)
def test_unreadable_files(tmp_path: Path, name: str, content: str, part: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(UnreadableInput) as caught:
        own_queries.read(path)
    assert str(caught.value).startswith(str(path))
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ({"text": "a"}, "line 1: has no query_id"),
        ({"query_id": True, "text": "a"}, "query_id: expected text, found true"),
        ({"query_id": 1.5, "text": "a"}, "query_id: expected text, found 1.5"),
        ({"query_id": 1, "text": 5}, "text: expected text, found 5"),
        ({"query_id": 1, "captions": "a"}, "captions: expected a list"),
        ({"query_id": 1, "captions": [["a"]]}, "captions[0]: expected text, found a list"),
        ({"query_id": 1, "captions": []}, "neither a text nor a reference"),
        ({"query_id": "a\0", "text": "a"}, "characters that cannot be stored"),
    ],
)
def test_wrong_values_in_json_lines(tmp_path: Path, row: dict[str, Any], part: str) -> None:
    (line,) = errors_of(write(tmp_path / "q.jsonl", json.dumps(row)))
    assert part in line


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=st.binary(max_size=80), suffix=st.sampled_from([".csv", ".jsonl", ".parquet"]))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"any{suffix}"
    path.write_bytes(b"query_id,text\n" + content if suffix == ".csv" else content)
    try:
        assert own_queries.read(path)
    except HsfiqError as error:
        assert str(path) in str(error)  # noqa: PT017 (either result is right)


@pytest.mark.parametrize("blank", ["\u3000\u3000", "\u00a0", "\u200b\ufeff", "\u2003 "])
@pytest.mark.parametrize("column", ["text", "caption_1"])
def test_an_empty_text_is_absent_and_one_that_shows_nothing_an_error(
    tmp_path: Path, blank: str, column: str
) -> None:
    rows = f"query_id,{column},reference\nq1,  ,a\nq2,,b\nq3,is red,a\n"
    assert [query.text for query in read(write(tmp_path / "q.csv", rows))] == ["", "", "is red"]
    (error,) = errors_of(write(tmp_path / "q.csv", f"{rows}q4,{blank},b\n"))
    assert f"line 5: {column}: " in error
    assert "contains only spaces" in error


# --------------------------------------------------------------------------- spreadsheets


def write_sheet(path: Path, rows: list[list[object]]) -> Path:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    assert sheet is not None
    for row in rows:
        sheet.append(row)
    workbook.create_sheet("notes").append(["this sheet", "is not read"])
    workbook.save(path)
    return path


def test_a_spreadsheet_has_the_records_of_the_csv_file(tmp_path: Path) -> None:
    """Numbers are numbers there, and columns without a name are not read."""
    lines = [*csv.reader(StringIO(CSV))]
    cells = [
        [int(cell) if cell.strip().isdigit() else cell or None for cell in line] for line in lines
    ]
    sheet = write_sheet(tmp_path / "queries.xlsx", [[*line, None, None] for line in cells])
    assert read(sheet) == QUERIES


def test_errors_of_a_spreadsheet_name_its_lines(tmp_path: Path) -> None:
    rows: list[list[object]] = [["query_id", "text"], [1, "two\nlines"], [None, "a"], [1, "b"]]
    sheet = write_sheet(tmp_path / "queries.xlsx", rows)
    assert errors_of(sheet) == (
        f"{sheet}: line 3: has no query_id",
        f"{sheet}: line 4: query '1' occurs twice (first in line 2)",
    )


def test_a_spreadsheet_without_the_columns(tmp_path: Path) -> None:
    for rows in ([], [["id", "text"], [1, "a"]]):
        with pytest.raises(UnreadableInput, match="line 1: there is no column 'query_id'"):
            own_queries.read(write_sheet(tmp_path / "queries.xlsx", rows))


def test_ranked_lists_in_a_spreadsheet(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        ["query_id", "system", "rank", "image_id", "score"],
        *([1, "ours", 2, "b.png", 0.25], [1, "ours", 1, "a.png", 0.5], ["q", "ours", 1, 7, 1]),
    ]
    lists = runs.read(write_sheet(tmp_path / "runs.xlsx", rows))
    assert [ranked for _, ranked in lists] == [
        RankedList("1", "ours", ("a.png", "b.png"), (0.5, 0.25)),
        RankedList("q", "ours", ("7",), (1.0,)),
    ]
    assert runs.read_run(tmp_path / "runs.xlsx").lists == tuple(lists)


def test_all_wrong_cells_of_a_row_are_reported(tmp_path: Path) -> None:
    def image_id(place: Place, name: str) -> str:
        if name == "unknown.png":
            raise place.wrong("no such image")
        return name

    table = (
        "query_id,text,reference,target\n,a,unknown.png,unknown.png\n2,b,a.png,\n2,c,,unknown.png\n"
    )
    path = write(tmp_path / "queries.csv", table)
    assert errors_of(path, image_id=image_id) == (
        f"{path}: line 2: has no query_id",
        f"{path}: line 2: reference: no such image",
        f"{path}: line 2: target: no such image",
        f"{path}: line 4: query '2' occurs twice (first in line 3)",
        f"{path}: line 4: target: no such image",
    )


# ------------------------------------------------------------------- columns with other names


@pytest.mark.parametrize(
    ("names", "guessed"),
    [
        (["query_id", "text"], {"query_id": "query_id", "text": "text"}),
        (
            ["ID", "Request_Text", "start image", "answer", "Group"],
            {"query_id": "ID", "text": "Request_Text", "reference": "start image"}
            | {"target": "answer", "category": "Group"},
        ),
        (["id", "query_id"], {"query_id": "query_id"}),
        (["번호", "요청"], {"query_id": "번호", "text": "요청"}),
        (["", "other"], {}),
    ],
)
def test_columns_are_guessed(names: list[str], guessed: dict[str, str]) -> None:
    assert own_queries.guessed_columns(names) == guessed


def test_named_columns_are_read_and_rows_numbered(tmp_path: Path) -> None:
    table = write(tmp_path / "q.csv", "wish;photo;note;caption_1\nred;a.png;x;\nblue;b.png;;y\n")
    columns = own_queries.named_columns(["text=wish", "reference=photo"])
    rows = own_queries.read(table, columns=columns)
    assert [row.query for row in rows if isinstance(row, PlacedQuery)] == [
        OwnQuery("q01", "red", ("red",), "a.png"),
        OwnQuery("q02", "blue", ("y",), "b.png"),
    ]


def test_other_columns_cannot_be_named(tmp_path: Path) -> None:
    table = write(tmp_path / "q.csv", "wish\nred\n")
    with pytest.raises(UnreadableInput, match="there is no column 'want'"):
        own_queries.read(table, columns={"text": "want"})
    for option in ("words=wish", "text", "text="):
        with pytest.raises(UnreadableInput, match="such as text=wish"):
            own_queries.named_columns([option])


def test_the_columns_of_each_format(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(["id", None, "wish"])
    book.save(tmp_path / "q.xlsx")
    pq.write_table(pa.table({"id": ["1"], "wish": ["red"]}), tmp_path / "q.parquet")
    write(tmp_path / "q.jsonl", '{"id": 1}\n{"id": 2, "wish": "red"}\n')
    write(tmp_path / "q.csv", '\n"id"\twish\n1\tred\n')
    for suffix in ("xlsx", "parquet", "jsonl", "csv"):
        assert columns_of(tmp_path / f"q.{suffix}") == ["id", "wish"], suffix
