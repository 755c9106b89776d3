"""Writing a release folder whole or not at all, and never over another one unasked."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hsfiq.atomic_files import sync
from hsfiq.errors import UnreadableInput
from hsfiq.releases.content import FIRST_VERSION, Release, sha256
from hsfiq.releases.manifest import MANIFEST, read_manifest
from hsfiq.releases.reader import PREFERENCES, read_exclusions, read_rows

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a release lies now, and whether it had to be written."""

    folder: Path
    release: Release
    written: bool


def write_release(release: Release, folder: Path, *, force: bool = False) -> Outcome:
    """Write the release as `folder`; unchanged content writes nothing.

    Raises:
        UnreadableInput: something else is there and `force` is not given, or the place cannot
            be written to.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UnreadableInput(str(folder), "is there and is no folder")
    if folder.is_dir() and any(folder.iterdir()):
        found = content_of(folder)
        if found == release.content_sha256:
            return Outcome(folder, release, written=False)
        if not force:
            what = "another release" if found else "something that is no whole release"
            raise UnreadableInput(str(folder), f"holds {what}", "name another folder, or --force")
        if read_manifest(folder) is None:
            raise UnreadableInput(
                str(folder), "holds no release, and --force replaces only releases"
            )
    if Path.cwd().is_relative_to(folder.resolve()):
        raise UnreadableInput(str(folder), "is where this command runs", "name another folder")
    try:
        put_in_place(release.files, folder)
    except OSError as error:
        raise UnreadableInput(str(folder), f"cannot be written ({error.strerror})") from error
    return Outcome(folder, release, written=True)


def write_next_version(
    build: Callable[[str], Release], parent: Path, name: str, version: str | None, *, force: bool
) -> Outcome:
    """Write `parent/<name>-<version>`, unless the newest version there holds the same content.

    Args:
        build: makes the release with the version it is given.
        parent: holds the releases.
        name: of the release, without its version.
        version: the version to write; 1.0.0 where there is none yet.
        force: replace that version if it is there.

    Raises:
        UnreadableInput: the content has changed and no version was named, or the named one is
            there already or lies before the newest.
    """
    versions = versions_in(parent, name)
    newest = versions[-1] if versions else None
    release = build(version or newest or FIRST_VERSION)
    if newest is not None:
        folder = parent / f"{name}-{newest}"
        if version in (None, newest) and content_of(folder) == release.content_sha256:
            return Outcome(folder, release, written=False)
        if version is None and not force:
            raise UnreadableInput(
                str(folder),
                "the answers, filters or split have changed since this release",
                "name the new release's version with --version",
            )
        if version is not None and version_key(version) < version_key(newest):
            raise UnreadableInput("--version", f"{version} lies before {newest}, the newest one")
    return write_release(release, parent / f"{name}-{release.version}", force=force)


def require_version(version: str | None) -> None:
    """Raise `UnreadableInput` if a version is named that is none."""
    if version is not None and _VERSION.fullmatch(version) is None:
        raise UnreadableInput("--version", f"{version!r} is no version like {FIRST_VERSION}")


def put_in_place(files: dict[str, bytes], folder: Path) -> None:
    """Write the files beside `folder`, flush them to the disk, then rename: all or nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, data in files.items():
            (draft / name).write_bytes(data)
            sync(draft / name)
        draft.chmod(0o755)  # mkdtemp makes folders that only their owner can read
        sync(draft)
        swap_in(draft, folder)
        sync(folder.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def swap_in(draft: Path, folder: Path) -> None:
    """Rename the draft to its place; what was there goes only after the new one stands."""
    if not folder.is_dir() or not any(folder.iterdir()):
        draft.rename(folder)
        return
    old = draft.with_name(f"{draft.name}-old")
    folder.rename(old)
    try:
        draft.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old)


def content_of(folder: Path) -> str | None:
    """The content digest of the release in a folder, None where none stands whole."""
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    files = manifest.get("files")
    if not isinstance(files, dict):
        return None
    for name, facts in files.items():
        path, expected = folder / name, facts.get("sha256") if isinstance(facts, dict) else None
        if not path.is_file() or sha256(path.read_bytes()) != expected:
            return None
    return str(manifest.get("content_sha256"))


def versions_in(parent: Path, name: str) -> list[str]:
    """The versions of the release `name` that lie in `parent`, oldest first."""
    found = [
        path.name.removeprefix(f"{name}-")
        for path in parent.glob(f"{name}-*")
        if _VERSION.fullmatch(path.name.removeprefix(f"{name}-")) and path.is_dir()
    ]
    return sorted(found, key=version_key)


def version_key(version: str) -> tuple[int, ...]:
    """Order versions by their numbers."""
    return tuple(int(part) for part in version.split("."))


def newest_release(parent: Path, kind: str) -> Path | None:
    """The release of this kind in `parent` that was written last, by its study's newest version."""
    newest: dict[str, tuple[tuple[int, ...], Path]] = {}
    for folder in parent.iterdir() if parent.is_dir() else ():
        manifest = read_manifest(folder)
        if manifest is None or manifest["kind"] != kind:
            continue
        name, version = manifest["name"], manifest["version"]
        if _VERSION.fullmatch(version) is None or folder.name != f"{name}-{version}":
            continue
        found = (version_key(version), folder)
        newest[name] = max(found, newest.get(name, found))
    return max(
        (folder for _, folder in newest.values()),
        key=lambda folder: (folder / MANIFEST).stat().st_mtime_ns,
        default=None,
    )


def releases_holding(parent: Path, study: str, participant: str) -> list[Path]:
    """The releases in `parent` that hold answers of this participant of this study.

    What a release has dropped counts as well: its exclusions tell of the answers.
    """
    found = []
    for folder in sorted(parent.iterdir() if parent.is_dir() else ()):
        manifest = read_manifest(folder)
        is_of_study = manifest is not None and manifest.get("study") == study
        if is_of_study and participant in participants_in(folder):
            found.append(folder)
    return found


def participants_in(release: Path) -> set[str]:
    """Whose answers a release holds or has dropped; an unreadable table names nobody."""
    participants: set[str] = set()
    with suppress(UnreadableInput):
        rows = read_rows(release / PREFERENCES, ("participant_id",))
        participants |= {row["participant_id"] for row in rows}
    with suppress(UnreadableInput):
        dropped = read_exclusions(release)
        participants |= {row.participant_id for row in dropped if row.rule != "unanswered"}
    return participants
