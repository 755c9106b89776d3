"""`hsfiq analyze` refuses tables that are not those of the release's manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from hsfiq.db.engine import Database
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.studies import Seat, draw, make_queries


@pytest.fixture
def release(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A release of a few answers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    study = draw(database, make_queries(database, {"shirt": 16}))
    Seat.taken(database, study).answer_all()
    assert hsfiq("export", "--release", "hp", "--out", "release").code == 0
    return tmp_path / "release"


ANALYZE = ("analyze", "release", "--metric", "recall@2", "--resamples", "10")


@on_sqlite
def test_a_changed_table_is_refused(release: Path) -> None:
    assert hsfiq(*ANALYZE).code == 0
    preferences = release / "preferences.parquet"
    table = pd.read_parquet(preferences)
    table["preferred"] = 1
    table.to_parquet(preferences)
    refused = hsfiq(*ANALYZE)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        "hsfiq: release/preferences.parquet: differs from the file that the manifest lists; "
        "export the release again, or add --no-verify\n"
    )
    assert hsfiq(*ANALYZE, "--no-verify").code == 0


@on_sqlite
def test_a_missing_table_is_refused_and_other_files_are_not_compared(release: Path) -> None:
    (release / "README.md").write_text("mine")
    (release / "preferences.jsonl").unlink()
    assert hsfiq(*ANALYZE).code == 0
    (release / "exclusions.parquet").unlink()
    refused = hsfiq(*ANALYZE)
    assert refused.code == 1
    assert "exclusions.parquet: is missing, but the manifest lists it" in refused.err


@on_sqlite
def test_tables_of_another_tools_manifest_are_compared(release: Path) -> None:
    manifest = json.loads((release / "manifest.json").read_text())
    del manifest["content_sha256"]
    manifest["files"]["preferences.parquet"]["sha256"] = "0" * 64
    (release / "manifest.json").write_text(json.dumps(manifest))
    assert hsfiq(*ANALYZE).code == 1
    assert hsfiq(*ANALYZE, "--no-verify").code == 0


@on_sqlite
def test_a_manifest_without_digests_is_accepted(release: Path) -> None:
    manifest = json.loads((release / "manifest.json").read_text())
    del manifest["files"]
    (release / "manifest.json").write_text(json.dumps(manifest))
    (release / "exclusions.parquet").unlink()
    assert hsfiq(*ANALYZE).code == 0
