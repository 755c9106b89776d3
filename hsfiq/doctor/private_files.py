"""Who can read the secrets: the file of the signing key, and the database's file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from hsfiq.access.signing_key import IN_FILE, VARIABLE, read_keys, stored_key
from hsfiq.db.engine import Database
from hsfiq.db.private_files import LOG_SUFFIXES
from hsfiq.doctor.finding import Finding, quoted
from hsfiq.errors import UnreadableInput

CREATE = "hsfiq secret create /etc/hsfiq/secret"


def examine_key(database: Database | None) -> Iterator[Finding]:
    """The file that HSFIQ_SECRET_FILE names; without one, the database holds the key.

    `database` is None if it cannot be used.
    """
    named = os.environ.get(VARIABLE)
    if named:
        file = Path(named)
        try:
            read_keys(file)
        except UnreadableInput as error:
            is_there = file.is_file() and "others" in error.what
            fix = f"chmod 600 {quoted(file)}" if is_there else f"hsfiq secret create {quoted(file)}"
            yield Finding("permissions", "problem", f"{file}: {error.what}", fix)
        else:
            yield Finding("permissions", "ok", f"{file}: holds the signing key, is private")
    elif database is not None and stored_key(database) == IN_FILE:
        what = f"the signing key is in a file, but {VARIABLE} is not set"
        yield Finding("permissions", "problem", what, f"export {VARIABLE}=FILE")
    elif database is not None:
        what = "the signing key is in the database, and in each backup and copy of it"
        yield Finding("permissions", "warning", what, CREATE)


def examine_modes(file: Path) -> Iterator[Finding]:
    """Who can read a SQLite file and those beside it."""
    real = os.path.realpath(file)
    files = [Path(f"{real}{suffix}") for suffix in ("", *LOG_SUFFIXES)]
    shared = [each for each in files if each.exists() and is_shared(each.stat().st_mode)]
    for each in shared:
        what = f"{each}: other users can read the links and answers of participants"
        yield Finding("permissions", "problem", what, f"chmod 600 {quoted(each)}")
    if not shared:
        yield Finding("permissions", "ok", f"{file}: is private")


def is_shared(mode: int) -> bool:
    """Whether others can use a file, or a group that does not share it on purpose."""
    return bool(mode & stat.S_IRWXO or (mode & stat.S_IRWXG and not mode & stat.S_IWGRP))
