"""The columns of a release's tables that hold no value at all: what was never recorded."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow.parquet as pq

from hsfiq.releases.kinds import ReleaseKind
from hsfiq.releases.schemas import Table


def empty_columns_of(
    folder: Path, present: Collection[str], kind: ReleaseKind
) -> dict[str, list[str]]:
    """By table, of those that are present, where there are any."""
    names = {
        name: empty_columns(folder / f"{name}.parquet", table)
        for name, table in kind.all_tables().items()
        if name in present
    }
    return {name: columns for name, columns in names.items() if columns}


def empty_columns(file: Path, table: Table) -> list[str]:
    """Those that may be null and are null in every row, from the statistics of the Parquet file."""
    metadata = pq.read_metadata(file)
    with_values: set[str] = set()
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            statistics = column.statistics
            nulls = None if statistics is None else statistics.null_count
            if nulls is None or nulls < column.num_values:
                with_values.add(column.path_in_schema.split(".")[0])
    if not metadata.num_rows:
        return []
    return [column.name for column in table if column.null and column.name not in with_values]
