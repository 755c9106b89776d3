"""`hsfiq export --split`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsfiq.releases.splits import verify_no_leak
from tests.hsfiq.imported_answers import write_imported_answers
from tests.hsfiq.samples import hsfiq

# -------------------------------------------------------------------------------------- the command


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the test in a folder with a database of the hand-made study."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    write_imported_answers()


HALVED = ("export", "--release", "hp", "--split", "triplet", "--test-share", "0.5")


@pytest.mark.usefixtures("in_folder")
def test_export_writes_and_reports_the_split() -> None:
    command = hsfiq(*HALVED, "--split-seed", "3", "--json")
    (release,) = command.result["releases"]
    manifest = json.loads(Path(release["folder"], "manifest.json").read_text())
    assert release["split"] == manifest["split"]
    assert (release["split"]["seed"], release["split"]["test_share"]) == (3, 0.5)
    verify_no_leak(Path(release["folder"]))
    repeated = hsfiq(*HALVED, "--split-seed", "3")
    assert "unchanged, nothing written" in repeated.out
    assert "  split by triplet\n    train" in repeated.out


@pytest.mark.usefixtures("in_folder")
def test_another_split_is_changed_content() -> None:
    assert hsfiq("export", "--release", "hp").code == 0
    command = hsfiq(*HALVED)
    assert (command.code, command.out) == (2, "")
    assert "the answers, filters or split have changed since this release" in command.err
    assert hsfiq(*HALVED, "--version", "1.1.0").code == 0
    assert hsfiq(*HALVED).code == 0
    assert hsfiq(*HALVED, "--split-seed", "1").code == 2


@pytest.mark.usefixtures("in_folder")
def test_refusals_are_one_line() -> None:
    for options, code, message in (
        (("--split-seed", "1"), 2, "--split-seed: needs --split; give --split as well"),
        (("--test-share", "0.2"), 2, "--test-share: needs --split; give --split as well"),
        (("--split", "both", "--test-share", "1"), 2, "--test-share: 1.0 is not between"),
        (("--split", "triplet", "--test-share", "nan"), 2, "--test-share: nan is not between"),
        (("--split", "query"), 2, "--split"),
        (("--split", "participant"), 1, "--test-share: 0.2 of 2 participants leaves none to test"),
    ):
        command = hsfiq("export", *options)
        assert (command.code, command.out, command.err.count("\n")) == (code, "", 1)
        assert message in command.err
    assert not Path("releases").exists()
