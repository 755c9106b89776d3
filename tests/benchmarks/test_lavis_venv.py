"""The folder of the environment with LAVIS, and the message if it is missing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import lavis_venv, train_step


def test_versions_have_their_own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HSFIQ_LAVIS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    known = lavis_venv.folder()
    assert known.parent == tmp_path / ".cache" / "hsfiq"
    assert lavis_venv.folder() == known
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("torch==2.2.1\n")
    monkeypatch.setattr(lavis_venv, "CONSTRAINTS", constraints)
    assert lavis_venv.folder() != known


def test_the_environment_has_the_extras_but_not_hsfiq() -> None:
    required = lavis_venv.requirements()
    assert any(name.startswith("salesforce-lavis==1.0.2") for name in required)
    assert any(name.startswith("safetensors") for name in required)
    assert not any(name.startswith("hsfiq") for name in required)


def test_second_of_two_waits_for_the_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    second_has_started = threading.Event()
    made: list[Path] = []

    def make_venv(target: Path) -> None:
        second_has_started.wait()
        made.append(target)
        target.mkdir()

    monkeypatch.setattr(lavis_venv, "make_venv", make_venv)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(lavis_venv.make_if_missing, tmp_path / "venv")
        second = threads.submit(lavis_venv.make_if_missing, tmp_path / "venv")
        second_has_started.set()
        first.result()
        second.result()
    assert made == [tmp_path / "venv"]


def test_a_missing_environment_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HSFIQ_LAVIS", str(tmp_path / "nowhere"))
    with pytest.raises(SystemExit, match="nowhere/bin/python is not there: run `make bench-setup`"):
        train_step.run(seed=0, full=False)
