"""Tables with the captions and columns of tables.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from hsfiq.analysis.reports.document import Column, Row, Table


def read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((files("hsfiq.analysis.reports") / name).read_text(encoding="utf-8"))


LAYOUTS = read_toml("tables.toml")


def table(
    name: str,
    rows: Iterable[Row],
    *more_columns: Column,
    key: str | None = None,
    note: str | None = None,
    **placeholders: object,
) -> Table:
    """A table with the caption, the columns and, unless given here, the note of tables.toml.

    More columns follow those of tables.toml; placeholders are filled into the caption. One of
    several tables with this layout has a `key`, which is added to its name.
    """
    layout = LAYOUTS[name]
    columns = (*(Column(*column) for column in layout["columns"]), *more_columns)
    caption = layout["caption"].format(**placeholders)
    full_name = name if key is None else f"{name}_{key}"
    return Table(full_name, caption, columns, tuple(rows), note or layout.get("note"))
