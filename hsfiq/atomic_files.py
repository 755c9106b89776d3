"""Write files and folders atomically, even if the power fails, and compute digests of files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hsfiq.errors import UnreadableInput

if sys.platform != "win32":  # where nothing is locked, nor cleared away
    import fcntl

DRAFT, OLD = ".draft", "-old"
"""The suffixes of temporary folders, and of folders during replacement."""


def indented_json(value: object) -> bytes:
    """The content of a JSON file."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, replacing an existing one.

    If the process is killed, the old content remains, perhaps next to `.<name>-<process>.draft`.
    """
    draft = path.with_name(f".{path.name}-{os.getpid()}.draft")
    try:
        draft.write_bytes(content)
        put_in_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def put_in_place(draft: Path, path: Path) -> None:
    """Move a draft on the same disk to its place, after its content has reached the disk."""
    sync(draft)
    draft.replace(path)
    sync(path.parent)


@contextmanager
def new_private_file(path: Path) -> Iterator[Path]:
    """A file that only its owner can read and write, and that becomes `path` at the end.

    No file remains if the block raises; a killed process may leave `.<name>-*.draft`.

    Raises:
        UnreadableInput: the path exists, which is never replaced.
    """
    require_new(path)
    with TemporaryDirectory(prefix=f".{path.name}-", suffix=".draft", dir=path.parent) as folder:
        draft = Path(folder) / path.name
        draft.touch(mode=0o600)
        yield draft
        sync(draft)
        try:
            os.link(draft, path)
        except FileExistsError:
            require_new(path)
        except OSError:  # a disk without hard links
            require_new(path)
            draft.rename(path)
        sync(path.parent)


def require_new(path: Path) -> None:
    """Raise `UnreadableInput` if the path exists, even as a broken link."""
    if os.path.lexists(path):
        raise UnreadableInput(str(path), "already exists", "name another file")


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder with all of its files, by their paths in it, or none of them.

    Raises:
        UnreadableInput: the folder cannot be written.
    """
    with explained_write_errors(folder), draft_folder(folder) as draft:
        for name, content in files.items():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def names_in_folder(folder: Path) -> set[str]:
    """The names of a folder's files; empty if there is no such folder yet.

    Raises:
        UnreadableInput: it is not a folder.
    """
    if not folder.exists():
        return set()
    if not folder.is_dir():
        raise UnreadableInput(str(folder), "not a folder", "choose another path")
    return {path.name for path in folder.iterdir()}


@contextmanager
def draft_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that replaces `folder` at the end; nothing changes if the block raises."""
    with temporary_folder_beside(folder) as draft:
        yield draft
        put_folder_in_place(draft, folder)


@contextmanager
def temporary_folder_beside(folder: Path) -> Iterator[Path]:
    """A temporary folder on the same disk; at the end it is deleted, unless it has been moved.

    The remains of killed processes are cleaned up first: their temporary folders are deleted, and a
    folder under replacement is restored.
    """
    missing = [parent for parent in folder.parents if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    clear_abandoned(folder)
    try:
        with locked_draft(folder) as draft:
            try:
                yield draft
            finally:
                if draft.exists():
                    shutil.rmtree(draft, ignore_errors=True)
    finally:
        if not folder.exists():
            for parent in missing:
                with suppress(OSError):
                    parent.rmdir()


@contextmanager
def locked_draft(folder: Path) -> Iterator[Path]:
    """A new temporary folder that is locked, so that no other process clears it away.

    A folder that was removed before it was locked is created again.
    """
    with ExitStack() as stack:
        while True:
            draft = Path(
                tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=DRAFT, dir=folder.parent)
            )
            with suppress(BlockingIOError, FileNotFoundError):
                stack.enter_context(locked(draft))
                if draft.exists():
                    break
        yield draft


def put_folder_in_place(draft: Path, folder: Path) -> None:
    """Move a temporary folder to its place, after all of its files have reached the disk."""
    draft.chmod(0o755)  # mkdtemp makes folders that only their owner can read
    for path in (*draft.rglob("*"), draft):
        sync(path)
    swap_folder(draft, folder)
    sync(folder.parent)


def clear_abandoned(folder: Path) -> None:
    """Clear away the temporary folders of this folder that no running process has locked."""
    if sys.platform == "win32":
        return
    pattern = re.compile(rf"\.{re.escape(folder.name)}-\w{{8}}{re.escape(DRAFT)}({OLD})?")
    for path in sorted(folder.parent.iterdir()):
        match = pattern.fullmatch(path.name)
        if match is None or not path.is_dir():
            continue
        draft = path.with_name(path.name.removesuffix(OLD))
        with suppress(OSError), locked(draft if draft.exists() else path):
            if match[1] and not folder.exists():
                path.rename(folder)
            else:
                shutil.rmtree(path)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, which ends with the process at the latest; `OSError` if another one has."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def swap_folder(draft: Path, folder: Path) -> None:
    """Rename the draft to its place; the folder that it replaces is deleted only afterwards."""
    if not folder.is_dir() or not any(folder.iterdir()):
        draft.rename(folder)
        return
    old = draft.with_name(f"{draft.name}{OLD}")
    folder.rename(old)
    try:
        draft.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def explained_write_errors(path: Path, remedy: str = "") -> Iterator[None]:
    """Turn an `OSError` of this block into `UnreadableInput`: the path cannot be written."""
    try:
        yield
    except OSError as error:
        raise UnreadableInput(
            str(path), f"cannot be written ({error.strerror or error})", remedy
        ) from error


REPORT_FILES = ("report.html", "results.json")
"""A folder with these files is a report, and may be replaced."""


def write_report(files: Mapping[str, bytes], folder: Path | str, *, force: bool = False) -> None:
    """Write the files of a report, `Report.files()`, completely or not at all.

    Raises:
        UnreadableInput: see `require_free`; or the folder cannot be written.
    """
    require_free(Path(folder), force=force)
    write_folder(Path(folder), files)


def require_free(folder: Path, *, force: bool = False) -> None:
    """Check that a report can be written to this folder.

    Raises:
        UnreadableInput: not a folder, or it holds other files, or a report and `force` is not
            given.
    """
    names = names_in_folder(folder)
    if not names:
        return
    if not names.issuperset(REPORT_FILES):
        raise UnreadableInput(
            str(folder), "holds files that are not a report", "choose another folder"
        )
    if not force:
        raise UnreadableInput(str(folder), "a report already exists", "replace it with --force")


def sha256_of(path: Path) -> str:
    """The SHA-256 digest of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
