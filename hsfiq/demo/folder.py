"""The demo's folder: its database, its images and their features."""

from __future__ import annotations

from pathlib import Path

DATABASE_FILE, IMAGE_FOLDER, FEATURE_FOLDER = "hsfiq.db", "images", "features"


def database_url(folder: Path) -> str:
    """Return the URL of the demo's own database; HSFIQ_DATABASE_URL is ignored."""
    return sqlite_url((folder / DATABASE_FILE).resolve())


def sqlite_url(file: Path) -> str:
    """Return the URL of a SQLite file, in which only `%` and `?` need an escape."""
    return "sqlite:///" + str(file).replace("%", "%25").replace("?", "%3F")
