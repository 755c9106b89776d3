"""Writing the report's folder, and results as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsfiq.atomic_files import write_report
from hsfiq.cli.common import indented_json
from hsfiq.errors import UnreadableInput


def test_a_report_is_replaced_only_with_force(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "report"
    files = {"report.html": b"old", "results.json": b"{}", "tables/a.csv": b"1"}
    write_report(files, folder)
    assert (folder / "tables" / "a.csv").read_bytes() == b"1"
    with pytest.raises(UnreadableInput) as error_info:
        write_report({**files, "report.html": b"new"}, folder)
    assert error_info.value.where == str(folder)
    assert "--force" in error_info.value.remedy
    write_report({"report.html": b"new", "results.json": b"{}"}, folder, force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "results.json"]
    assert [path.name for path in folder.parent.iterdir()] == ["report"]


@pytest.mark.parametrize("force", [False, True])
def test_other_files_are_never_replaced(tmp_path: Path, force: bool) -> None:
    note = tmp_path / "precious.txt"
    note.write_text("mine")
    for path in (tmp_path, note):
        with pytest.raises(UnreadableInput) as error_info:
            write_report({"report.html": b""}, path, force=force)
        assert error_info.value.where == str(path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]
    assert note.read_text() == "mine"


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="cannot be written"):
        write_report({"report.html": b"", "report.html/x": b""}, tmp_path / "report")
    assert not list(tmp_path.iterdir())


INDENTED = """\
{
  "a": {
    "b": {
      "c": {"d": [1]}
    },
    "empty": {}
  },
  "ü": [
    [],
    [
      null,
      true,
      "say \\"x\\""
    ]
  ]
}"""


def test_three_levels_are_indented() -> None:
    assert indented_json(json.loads(INDENTED)) == INDENTED
