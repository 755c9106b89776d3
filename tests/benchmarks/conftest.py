"""Servers of the benchmarks that start with the libraries imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import serving
from tests.processes import Fork, start_command


@pytest.fixture
def forked_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `benchmarks.serving.Server` fork its processes."""

    def start(command: Sequence[str], env: dict[str, str], **_: object) -> Fork:
        return start_command(*command[3:], log=tmp_path / "server.log", **env)

    monkeypatch.setattr(serving, "subprocess", SimpleNamespace(Popen=start))
