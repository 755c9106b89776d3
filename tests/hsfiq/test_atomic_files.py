"""A file is written completely or not at all, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from hsfiq import atomic_files as whole_files
from hsfiq.atomic_files import (
    clear_abandoned,
    put_in_place,
    temporary_folder_beside,
    write_folder,
    write_whole,
)

KILLED = """
import os, signal, sys
from pathlib import Path
from hsfiq.atomic_files import write_whole

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

{patch}
write_whole(Path(sys.argv[1]), b"new")
"""
BEFORE_RENAMING, AFTER_RENAMING = (
    "Path.replace = die",
    "rename = Path.replace; Path.replace = lambda *paths: die(rename(*paths))",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "it.json"
    file.write_bytes(b"old")
    return file


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def test_a_new_file_replaces_the_old_file(path: Path) -> None:
    write_whole(path, b"new")
    write_whole(path.with_name("other"), b"")
    assert path.read_bytes() == b"new"
    assert path.with_name("other").read_bytes() == b""
    assert names(path) == ["it.json", "other"]


@pytest.mark.parametrize(
    ("patch", "content"), [(BEFORE_RENAMING, b"old"), (AFTER_RENAMING, b"new")], ids=["old", "new"]
)
def test_killed_before_or_after_renaming(patch: str, content: bytes, path: Path) -> None:
    command = [sys.executable, "-c", KILLED.format(patch=patch), str(path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert path.read_bytes() == content
    drafts = [path.with_name(name) for name in names(path) if name != "it.json"]
    assert [draft.read_bytes() for draft in drafts] == ([b"new"] if content == b"old" else [])
    write_whole(path, b"newer")
    assert path.read_bytes() == b"newer"


def test_a_file_is_synced_before_it_is_renamed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, rename, steps = whole_files.sync, Path.replace, []

    def recorded_sync(synced: Path) -> None:
        steps.append(synced.name)
        sync(synced)

    def recorded_rename(draft: Path, target: Path) -> Path:
        steps.append("renamed")
        return rename(draft, target)

    monkeypatch.setattr(whole_files, "sync", recorded_sync)
    monkeypatch.setattr(Path, "replace", recorded_rename)
    write_whole(path, b"new")
    assert steps == [f".it.json-{os.getpid()}.draft", "renamed", path.parent.name]


def test_a_full_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(path) == ["it.json"]


def test_unwritable_paths_are_refused(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(path.parent / "nowhere" / "it.json", b"new")
    with pytest.raises(FileNotFoundError):
        put_in_place(path.with_name("nothing"), path)
    assert path.read_bytes() == b"old"


def test_a_draft_that_is_cleared_away_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "release"
    made: list[str] = []
    make = tempfile.mkdtemp

    def make_and_clear(**options: Any) -> str:
        made.append(make(**options))
        if len(made) == 1:
            clear_abandoned(folder)  # as another process does
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_clear)
    write_folder(folder, {"sets.jsonl": b"{}"})
    assert len(made) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["release"]
    assert (folder / "sets.jsonl").read_bytes() == b"{}"


def test_the_draft_of_a_running_process_stays(tmp_path: Path) -> None:
    with temporary_folder_beside(tmp_path / "release") as draft:
        clear_abandoned(tmp_path / "release")
        assert draft.is_dir()
