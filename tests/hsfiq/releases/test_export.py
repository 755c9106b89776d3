"""A release folder is written completely or not at all, and replaces another only on request."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from hsfiq import cli
from hsfiq.releases import export
from hsfiq.releases.export import content_of, newest_release
from tests.hsfiq.imported_answers import write_imported_answers
from tests.hsfiq.samples import HPFIQ, hsfiq, published
from tests.processes import Fork

MINE = ("export", "--release", "hp", "--out", "mine")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts in a folder with a database of the hand-made study."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    write_imported_answers()


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its modification time."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def change_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the database: its study has the same name, but another answer."""
    value = published()
    value["user_1"]["question_set_1"]["preferred set"][0] = "2"
    Path("changed.json").write_text(json.dumps(value))
    monkeypatch.setenv("HSFIQ_DATABASE_URL", "sqlite:///changed.db")
    assert hsfiq("import", "hpfiq", "changed.json", "--study", "hpfiq").code == 0


# -------------------------------------------------------------------------------------- location


def test_out_is_the_release_folder_or_its_parent() -> None:
    releases = hsfiq("export", "--json").result["releases"]
    folders = ["releases/hpfiq-hs-1.0.0", "releases/hpfiq-hp-1.0.0"]
    assert [(each["folder"], each["written"]) for each in releases] == [(f, True) for f in folders]
    assert {str(path) for path in Path("releases").iterdir()} == set(folders)
    assert hsfiq("export", "--release", "hp", "--out", "deep/down/mine").code == 0
    assert Path("deep/down/mine/hpfiq.json").read_bytes() == HPFIQ.read_bytes()
    assert hsfiq("export", "--out", "parent").code == 0
    assert Path("parent/hpfiq-hs-1.0.0/manifest.json").is_file()


def test_an_empty_folder_is_filled_and_other_users_can_read_it() -> None:
    Path("mine").mkdir(mode=0o700)
    assert hsfiq(*MINE).code == 0
    assert Path("mine/manifest.json").is_file()
    assert Path("mine").stat().st_mode & 0o777 == 0o755


# ----------------------------------------------------------------------- existing releases


def test_of_unchanged_content_the_version_is_that_of_the_folder() -> None:
    assert hsfiq(*MINE, "--version", "2.0.0").code == 0
    (again,) = hsfiq(*MINE, "--json").result["releases"]
    assert (again["written"], again["version"]) == (False, "2.0.0")
    (_, line) = hsfiq("release", "list").out.splitlines()
    assert line.split()[:2] == ["hpfiq-hp", "2.0.0"]


def test_unchanged_content_writes_nothing() -> None:
    hsfiq("export")
    hsfiq(*MINE)
    before = contents(Path())
    repeated = hsfiq("export")
    assert (repeated.code, repeated.out.count("unchanged; nothing was written")) == (0, 2)
    assert hsfiq(*MINE, "--force").code == 0
    assert contents(Path()) == before


def test_changed_content_needs_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    hsfiq("export", "--version", "1.9.3")
    before = contents(Path("releases"))
    change_the_study(monkeypatch)
    command = hsfiq("export")
    assert (command.code, "such as --version 1.10.0" in command.err) == (2, True)
    assert contents(Path("releases")) == before
    assert hsfiq("export", "--version", "1.10.0").code == 0
    assert Path("releases/hpfiq-hp-1.10.0/manifest.json").is_file()
    assert hsfiq("export").out.count("unchanged") == 2


def test_versions_are_compared_as_numbers() -> None:
    hsfiq("export", "--release", "hp", "--version", "1.9.0")
    assert hsfiq("export", "--release", "hp", "--version", "1.10.0").code == 0
    command = hsfiq("export", "--release", "hp", "--version", "1.9.1")
    assert (command.code, command.out) == (2, "")
    assert "--version: 1.9.1 is lower than 1.10.0" in command.err
    assert newest_release(Path("releases"), "hp") == Path("releases/hpfiq-hp-1.10.0")


@pytest.mark.parametrize(("given", "version"), [("2", "2.0.0"), ("1.1", "1.1.0")])
def test_a_short_version_stands_for_the_first_of_it(given: str, version: str) -> None:
    hsfiq("export", "--release", "hp")
    command = hsfiq("export", "--release", "hp", "--filter-invalid", "--version", given)
    assert command.code == 0
    assert f"releases/hpfiq-hp-{version}: written" in command.out


@pytest.mark.parametrize(
    "version", ["v1.0.0", "1.0.0-rc1", "01.0.0", "1.0.\u0661", "1.", "1.0.0.0", ""]
)
def test_invalid_versions_are_refused(version: str) -> None:
    command = hsfiq("export", "--version", version)
    assert (command.code, "is not a version" in command.err) == (2, True)
    assert not Path("releases").exists()


# ----------------------------------------------------------------------------------- refusals


def test_another_release_is_replaced_only_with_force() -> None:
    hsfiq(*MINE)
    before = contents(Path("mine"))
    command = hsfiq(*MINE, "--filter-invalid")
    assert (command.code, command.out) == (2, "")
    assert command.err.startswith("hsfiq: mine: holds another release")
    assert contents(Path("mine")) == before
    assert hsfiq(*MINE, "--filter-invalid", "--force").code == 0
    assert contents(Path("mine")) != before
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_a_damaged_release_is_not_replaced() -> None:
    hsfiq(*MINE)
    with Path("mine/sets.jsonl").open("a") as file:
        file.write("\n")
    assert "mine: holds contains something other than a complete release" in hsfiq(*MINE).err
    manifest = json.loads(Path("mine/manifest.json").read_text())
    for files in (3, {"sets.jsonl": 3}, {"../database": {"sha256": 1}}):
        Path("mine/manifest.json").write_text(json.dumps(manifest | {"files": files}))
        assert content_of(Path("mine")) is None
    assert hsfiq(*MINE, "--force").code == 0
    assert content_of(Path("mine")) is not None


@pytest.mark.parametrize(
    "manifest",
    [None, "", "[]", '{"manifest_version": 3, "name": "an extension", "version": "1.0"}'],
)
def test_force_replaces_nothing_but_releases(manifest: str | None) -> None:
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work")
    if manifest is not None:
        Path("mine/manifest.json").write_text(manifest)
    before = contents(Path("mine"))
    command = hsfiq(*MINE, "--force")
    assert (command.code, "mine: holds no release" in command.err) == (2, True)
    assert contents(Path("mine")) == before


def test_the_current_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty" / "below").mkdir(parents=True)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", f"sqlite:///{tmp_path / 'hsfiq.db'}")
    monkeypatch.chdir(tmp_path / "empty" / "below")
    command = hsfiq("export", "--release", "hp", "--out", ".")
    assert (command.code, ".: is the current folder" in command.err) == (2, True)
    assert list((tmp_path / "empty").rglob("*")) == [Path.cwd()]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    Path("file").touch()
    Path("elsewhere").mkdir()
    Path("link").symlink_to("elsewhere")
    for out, message in (
        ("file", "file: exists and is not a folder"),
        ("link", "link: exists and is not a folder"),
        ("file/below", "file/below: cannot be written ("),
        ("/proc/release", "/proc/release: cannot be written ("),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        command = hsfiq("export", "--release", "hp", "--out", out)
        assert (command.code, command.out, command.err.count("\n")) == (2, "", 1)
        assert message in command.err
    assert list(Path("elsewhere").iterdir()) == []


@pytest.mark.parametrize("broken", ["os.fsync", "swap_folder"])
def test_a_full_disk_leaves_nothing(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"hsfiq.atomic_files.{broken}", full)
    command = hsfiq("export", "--release", "hp", "--out", "below/mine")
    assert command.code == 2
    assert "cannot be written (No space left on device)" in command.err
    assert not Path("below").exists()


# ----------------------------------------------------------------------------------- kill -9


def export_and_die() -> None:
    """Export with the options after the first word, and end by SIGKILL after so many flushes."""
    left, fsync = iter(range(int(sys.argv[1]))), os.fsync

    def fsync_or_die(handle: int) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(handle)

    os.fsync = fsync_or_die  # type: ignore[assignment]
    sys.exit(cli.run(["export", "--release", "hp", *sys.argv[2:]]))


def export_killed_after(n_flushes: int, *arguments: str) -> int:
    """Export in another process, which kills itself after n flushes; its exit code."""
    return Fork(export_and_die, [str(n_flushes), *arguments], Path("log.txt")).wait()


def test_an_export_killed_at_any_moment_leaves_a_complete_release_or_none() -> None:
    hsfiq("export", "--release", "hp", "--out", "complete")
    complete = content_of(Path("complete"))
    exists = []
    # Twelve files and two folders are flushed.
    for n_flushes in (1000, 0, 1, 5, 11, 12, 13, 14):
        exit_code = export_killed_after(n_flushes, "--out", f"{n_flushes}/mine")
        folder = Path(f"{n_flushes}/mine")
        exists.append(folder.exists())
        assert exit_code in (0, -signal.SIGKILL)
        assert not folder.exists() or content_of(folder) == complete
    assert exists[:5] == [True, False, False, False, False]


def test_a_release_is_recorded_only_with_its_folder() -> None:
    for n_flushes in (1, 5):
        assert export_killed_after(n_flushes, "--out", "mine") == -signal.SIGKILL
        assert not Path("mine").exists()
        assert hsfiq("release", "list").out.startswith("no release yet: write one")
    assert hsfiq("export", "--release", "hp", "--out", "mine").code == 0
    assert hsfiq("release", "list").out.splitlines()[1].split()[:2] == ["hpfiq-hp", "1.0.0"]


def export_and_die_before_the_record() -> None:
    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    export.record_release = die  # type: ignore[assignment]
    sys.exit(cli.run(["export", "--release", "hp", "--out", "mine"]))


def test_the_next_export_records_what_a_killed_one_has_written() -> None:
    log = Path("log.txt")
    assert Fork(export_and_die_before_the_record, [], log).wait() == -signal.SIGKILL
    assert content_of(Path("mine")) is not None
    assert hsfiq("release", "list").out.startswith("no release yet: write one")
    assert "unchanged; nothing was written" in hsfiq(*MINE).out
    assert hsfiq("release", "list").out.splitlines()[1].split()[:2] == ["hpfiq-hp", "1.0.0"]


def test_an_export_killed_while_it_replaces_another() -> None:
    hsfiq(*MINE)
    old = content_of(Path("mine"))
    changed = ("--out", "mine", "--filter-invalid", "--force")
    assert export_killed_after(2, *changed) == -signal.SIGKILL
    assert content_of(Path("mine")) == old
    assert hsfiq(*MINE).code == 0


# ----------------------------------------------------------------------------- the newest release


def test_unrelated_entries_in_the_releases_folder_are_ignored() -> None:
    hsfiq("export")
    releases = Path("releases")
    (releases / "notes.txt").touch()
    odd = ("{", "[]", '{"kind": "hp"}', '{"kind": "hp", "name": 3}', "[" * 100_000)
    for number, manifest in enumerate(odd):
        (releases / f"odd-{number}").mkdir()
        (releases / f"odd-{number}" / "manifest.json").write_text(manifest)
    shutil.copytree(releases / "hpfiq-hp-1.0.0", releases / "a copy")
    for kind in ("hp", "hs"):
        assert newest_release(releases, kind) == releases / f"hpfiq-{kind}-1.0.0"
    assert newest_release(Path("nowhere"), "hp") is None
