"""The folder in which a study's owner works."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image as Picture
from sqlalchemy import update

from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset
from tests.hsfiq.cli.owner_commands import CONFIG
from tests.studies import make_queries


@pytest.fixture
def owners_folder(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with a study's file, a database with queries, and images."""
    folder = tmp_path / "owner"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    make_queries(database)
    (tmp_path / "images").mkdir()
    for number in range(8):
        Picture.new("RGB", (6, 8), "red").save(tmp_path / "images" / f"image-{number}.png")
    with database.writing() as session:
        session.execute(update(Dataset).values(image_root=str(tmp_path / "images")))
    Path("study.toml").write_text(CONFIG, encoding="utf-8")
    Path("guidelines.md").write_text("# Look twice", encoding="utf-8")
