from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores import S3, found_by_clients, s3_server


@pytest.fixture(scope="session")
def moto() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(moto: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """A server of S3 that clients of this process find, and an empty cache."""
    with found_by_clients(moto, tmp_path / "cache", monkeypatch):
        yield moto
