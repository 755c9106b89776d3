"""The schema of each kind of release is complete, and its references name columns that exist."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hsfiq.kinds import RELEASE_KINDS
from hsfiq.kinds.tables import TEXT, TYPE_NAMES, Column, Table
from hsfiq.releases.croissant import DATA_TYPES

ALL_TABLES = [
    (kind.name, table) for kind in RELEASE_KINDS.values() for table in kind.all_tables().values()
]


@pytest.mark.parametrize(
    ("kind", "table"), ALL_TABLES, ids=[f"{kind}-{table.name}" for kind, table in ALL_TABLES]
)
def test_every_column_says_what_it_means(kind: str, table: Table) -> None:
    tables = RELEASE_KINDS[kind].all_tables()
    assert table.meaning.startswith("one row a")
    for column in table:
        assert column.meaning
        assert not {"|", "\n"} & set(f"{column.meaning}{column.null}"), "the card has table cells"
        assert column.type in TYPE_NAMES
        assert column.arrow_type in DATA_TYPES
        assert ("seconds" in column.name) == (column.unit == "seconds")
        if column.refers_to:
            name, _, referred = column.refers_to.partition(".")
            assert tables[name][referred].type in (column.type, TEXT)
    assert all(table[name].null is None for name in table.key)


def test_the_main_table_is_the_first_and_has_the_ids() -> None:
    for kind in RELEASE_KINDS.values():
        main = kind.own_tables[0]
        assert main.name == kind.main
        assert {"question_id", "participant_id", "query_id"} <= set(main.names)


def test_only_columns_with_a_null_rule_are_nullable() -> None:
    table = Table(
        "answers",
        "one row an answer",
        (Column("question_id", TEXT, "the question"), Column("value", TEXT, "it", null="none")),
        key=("question_id",),
    )
    assert [field.nullable for field in table.arrow()] == [False, True]
    rows = pa.Table.from_pylist([{"question_id": None, "value": None}], schema=table.arrow())
    with pytest.raises(pa.ArrowInvalid, match="non-nullable"):
        pa.parquet.write_table(rows, pa.BufferOutputStream())


def test_a_table_refuses_a_column_twice_and_a_key_that_it_lacks() -> None:
    column = Column("a", TEXT, "a")
    with pytest.raises(ValueError, match="twice"):
        Table("t", "one row a thing", (column, column))
    with pytest.raises(ValueError, match="lacks"):
        Table("t", "one row a thing", (column,), key=("b",))
