"""Release folders: writing them, recognising them, finding the newest."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hsfiq.atomic_files import (
    explained_write_errors,
    put_folder_in_place,
    temporary_folder_beside,
)
from hsfiq.errors import UnreadableInput
from hsfiq.releases.content import FIRST_VERSION, Release, sha256_of
from hsfiq.releases.kinds import RELEASE_KINDS
from hsfiq.releases.manifest import MANIFEST, read_manifest
from hsfiq.releases.reader import read_exclusions, read_rows

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A release in its folder; `written` is false if the folder had the same content already."""

    folder: Path
    release: Release
    written: bool


Make = Callable[[Path, str], Release]
"""Writes the files of a release with a version into an empty folder."""


def write_release(make: Make, folder: Path, version: str, *, force: bool = False) -> Outcome:
    """Write the release; unchanged content writes nothing, only `force` replaces another one.

    Of unchanged content, the outcome has the version that is there.
    """
    require_folder(folder)
    with explained_write_errors(folder), temporary_folder_beside(folder) as draft:
        release = make(draft, version)
        is_written = is_replaced(folder, release, force=force)
        if is_written:
            put_folder_in_place(draft, folder)
        elif manifest := read_manifest(folder):
            release = replace(release, version=manifest["version"])
        return Outcome(folder, release, is_written)


def require_folder(folder: Path) -> None:
    """Raise `UnreadableInput` if no release can be in this place."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UnreadableInput(str(folder), "exists and is not a folder")
    if Path.cwd().is_relative_to(folder.resolve()):
        raise UnreadableInput(str(folder), "is the current folder", "name another folder")


def is_replaced(folder: Path, release: Release, *, force: bool) -> bool:
    """Whether the release replaces what the folder holds; not if it has the same content."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return True
    content = content_of(folder)
    if content == release.content_sha256:
        return False
    if not force:
        what = "another release" if content else "something that is not a complete release"
        raise UnreadableInput(str(folder), f"holds {what}", "name another folder, or --force")
    if read_manifest(folder) is None:
        raise UnreadableInput(str(folder), "holds no release, and --force replaces only releases")
    return True


def write_next_version(
    make: Make, parent: Path, name: str, version: str | None, *, force: bool
) -> Outcome:
    """Write `parent/<name>-<version>`, unless the newest version there has the same content.

    Without a version it is the newest, or 1.0.0.

    Raises:
        UnreadableInput: the content has changed and neither a version nor `force` is given, or the
            version is lower than the newest, or exists and `force` is not given.
    """
    versions = versions_in(parent, name)
    newest = versions[-1] if versions else None
    if version is not None and newest is not None and version_key(version) < version_key(newest):
        raise UnreadableInput("--version", f"{version} is lower than {newest}, the newest")
    chosen = version or newest or FIRST_VERSION
    folder = parent / f"{name}-{chosen}"
    is_new_version_needed = version is None and newest is not None and not force

    def make_or_ask_for_version(draft: Path, version: str) -> Release:
        release = make(draft, version)
        if is_new_version_needed and content_of(folder) != release.content_sha256:
            raise UnreadableInput(
                str(folder),
                "the answers, filters or split have changed since this release",
                f"name the new release's version, such as --version {next_version(chosen)}",
            )
        return release

    return write_release(make_or_ask_for_version, folder, chosen, force=force)


def full_version(version: str) -> str:
    """A version with its three numbers: `2` is 2.0.0.

    Raises:
        UnreadableInput: it is not a version.
    """
    full = version + ".0" * (2 - version.count("."))
    if _VERSION.fullmatch(full) is None:
        raise UnreadableInput("--version", f"{version!r} is not a version like {FIRST_VERSION}")
    return full


def next_version(version: str) -> str:
    major, minor, _ = version_key(version)
    return f"{major}.{minor + 1}.0"


def content_of(folder: Path) -> str | None:
    """Return the content digest of a release folder; None if it is not a complete release."""
    manifest = read_manifest(folder)
    files = manifest.get("files") if manifest else None
    if manifest is None or not isinstance(files, dict):
        return None
    for name, entry in files.items():
        path, expected = folder / name, entry.get("sha256") if isinstance(entry, dict) else None
        if not path.is_file() or sha256_of(path) != expected:
            return None
    return str(manifest["content_sha256"])


def versions_in(parent: Path, name: str) -> list[str]:
    """Return the versions of the release `name` in `parent`, lowest first."""
    versions = [
        path.name.removeprefix(f"{name}-")
        for path in parent.glob(f"{name}-*")
        if _VERSION.fullmatch(path.name.removeprefix(f"{name}-")) and path.is_dir()
    ]
    return sorted(versions, key=version_key)


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def newest_release(parent: Path, kind: str) -> Path | None:
    """Return the most recently written release among each study's highest versions of this kind."""
    newest: dict[str, tuple[tuple[int, ...], Path]] = {}
    for folder in parent.iterdir() if parent.is_dir() else ():
        manifest = read_manifest(folder)
        if manifest is None or manifest["kind"] != kind:
            continue
        name, version = manifest["name"], manifest["version"]
        if _VERSION.fullmatch(version) is None or folder.name != f"{name}-{version}":
            continue
        candidate = (version_key(version), folder)
        newest[name] = max(candidate, newest.get(name, candidate))
    return max(
        (folder for _, folder in newest.values()),
        key=lambda folder: (folder / MANIFEST).stat().st_mtime_ns,
        default=None,
    )


def releases_holding(parent: Path, study: str, participant: str) -> list[Path]:
    """Return the releases in `parent` with answers, kept or dropped, of a study's participant."""
    return [
        folder
        for folder in sorted(parent.iterdir() if parent.is_dir() else ())
        if (manifest := read_manifest(folder)) is not None
        and manifest.get("study") == study
        and participant in participants_in(folder, manifest["kind"])
    ]


def participants_in(release: Path, kind: str) -> set[str]:
    """Return the participants with answers kept or dropped; an unreadable table counts as empty."""
    participants: set[str] = set()
    main = RELEASE_KINDS[kind].main if kind in RELEASE_KINDS else "preferences"
    with suppress(UnreadableInput):
        rows = read_rows(release / f"{main}.parquet", ("participant_id",))
        participants |= {row["participant_id"] for row in rows}
    with suppress(UnreadableInput):
        dropped = read_exclusions(release)
        participants |= {row.participant_id for row in dropped if row.rule != "unanswered"}
    return participants
