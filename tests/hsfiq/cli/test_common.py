"""Writing the report's folder, and results as JSON."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from hsfiq.atomic_files import write_report
from hsfiq.cli import run
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


@pytest.mark.parametrize("option", ["-q", "--quiet"])
def test_quiet_commands_print_no_notes(
    option: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option may stand anywhere, and lasts for one command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hsfiq.cli.analyze.newest_hp_release", lambda: tmp_path)
    notes = []
    for words in (["analyze", option], [option, "analyze"], ["analyze"]):
        assert run(words) == 2
        notes.append("analyzing" in capfd.readouterr().err)
    assert notes == [False, False, True]


def test_verbose_commands_show_what_libraries_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logging.root.handlers", [])
    monkeypatch.setattr("logging.root.level", logging.WARNING)
    assert run(["db", "current", "--database", "sqlite:///missing.db", "-v"]) == 1
    assert logging.root.level == logging.INFO


UNREACHABLE = "postgresql://me:SECRET@127.0.0.1:9/none"


@pytest.mark.parametrize(
    "words",
    [
        ("study", "list", "--database", UNREACHABLE),
        ("--database", UNREACHABLE, "db", "check"),
        ("db", "backup", "file", "--database", UNREACHABLE),
        ("db", "restore", "file", "--database", UNREACHABLE),
        ("db", "copy", UNREACHABLE, "sqlite:///new.db"),
        ("db", "copy", "sqlite:///new.db", UNREACHABLE),
        ("doctor", "--database", UNREACHABLE),
    ],
)
def test_a_password_is_warned_of_once_also_if_the_command_fails(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    run(words)
    printed = capsys.readouterr()
    assert "SECRET" not in printed.out + printed.err
    assert printed.err.count("other users can see the password") == 1


def test_an_empty_database_url_is_no_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["--database", "", "study", "list"]) == 2
    assert "--database: is empty" in capsys.readouterr().err
