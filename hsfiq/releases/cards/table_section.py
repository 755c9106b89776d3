"""A table of a release as Markdown, for the dataset card and for the documentation."""

from __future__ import annotations

from hsfiq.releases.schemas import Column, Table


def table_section(table: Table) -> str:
    """What a row is, and each column with its type, unit, meaning and null rule."""
    columns = "".join(
        f"| `{column.name}` | {described_type(column)} | {column.meaning} | {column.null or ''} |\n"
        for column in table
    )
    present = f" There if {table.present}." if table.present else ""
    return (
        f"### {table.name}\n\n{capitalised(table.meaning)}.{present}\n\n"
        f"| column | type | meaning | null if |\n|---|---|---|---|\n{columns}"
    )


def described_type(column: Column) -> str:
    """The type with the unit: "number, in seconds"."""
    return f"{column.type_name}, in {column.unit}" if column.unit else column.type_name


def capitalised(text: str) -> str:
    return text[0].upper() + text[1:]
