"""`hsfiq analyze` refuses tables that are not those of the release's manifest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.hsfiq.releases.small_releases import OnDisk, small_release
from tests.hsfiq.samples import hsfiq

ANALYZE = ("analyze", "release", "--metric", "recall@2", "--resamples", "10")


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small release of pairs."""
    monkeypatch.chdir(tmp_path)
    return small_release("hp", tmp_path / "release").folder


def change_manifest(release: Path, change: Callable[[Any], object]) -> None:
    OnDisk(release).json("manifest.json", change)


def test_a_changed_table_is_refused(release: Path) -> None:
    assert hsfiq(*ANALYZE).code == 0
    preferences = release / "preferences.parquet"
    table = pd.read_parquet(preferences)
    table["preferred"] = 1
    table.to_parquet(preferences)
    refused = hsfiq(*ANALYZE)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("hsfiq: release/preferences.parquet: differs from the file")
    assert "--no-verify" in refused.err
    assert hsfiq(*ANALYZE, "--no-verify").code == 0


def test_a_missing_table_is_refused_and_other_files_are_not_compared(release: Path) -> None:
    (release / "README.md").write_text("mine")
    (release / "preferences.jsonl").unlink()
    assert hsfiq(*ANALYZE).code == 0
    (release / "exclusions.parquet").unlink()
    refused = hsfiq(*ANALYZE)
    assert (refused.code, "exclusions.parquet: is missing" in refused.err) == (1, True)


def test_tables_of_another_tools_manifest_are_compared(release: Path) -> None:
    change_manifest(release, lambda manifest: manifest.pop("content_sha256"))
    wrong = {"sha256": "0" * 64}
    change_manifest(release, lambda value: value["files"]["preferences.parquet"].update(wrong))
    assert hsfiq(*ANALYZE).code == 1
    assert hsfiq(*ANALYZE, "--no-verify").code == 0


def test_a_manifest_without_digests_is_accepted(release: Path) -> None:
    change_manifest(release, lambda manifest: manifest.pop("files"))
    (release / "exclusions.parquet").unlink()
    assert hsfiq(*ANALYZE).code == 0
