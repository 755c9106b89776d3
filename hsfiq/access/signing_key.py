"""The key that signs cookies and pages: in a file, if one is named, otherwise in the database.

Whoever has it can answer as any participant and enter the dashboard. In a file, it is in no backup
or copy of the database.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from sqlalchemy.exc import IntegrityError

from hsfiq.atomic_files import explained_write_errors, new_private_file, put_in_place
from hsfiq.audit.actions import Action
from hsfiq.audit.actors import Actor
from hsfiq.audit.log import record
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Setting
from hsfiq.errors import UnreadableInput

VARIABLE = "HSFIQ_SECRET_FILE"
SETTING = "secret_key"
IN_FILE = "in a file"
"""What the database holds instead of the key, once a file has it."""

BYTES = 32
KEY = re.compile(r"[0-9a-f]{64}")
COMMAND = "`hsfiq secret create FILE`"


def signing_keys(database: Database) -> list[bytes]:
    """The keys, the newest first: it signs, the others are still valid.

    The first call for a database without a key makes one. `UnreadableInput` if the file cannot be
    used, or is not named although the database's key has been moved to one.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return read_keys(Path(named))
    key = stored_key(database)
    if key is None:
        with suppress(IntegrityError), database.writing() as session:  # another process was first
            session.add(Setting(key=SETTING, value=secrets.token_hex(BYTES)))
        key = stored_key(database)
    if key is None:
        raise RuntimeError("the signing key was stored but cannot be read back")
    if key == IN_FILE:
        raise UnreadableInput(
            VARIABLE, "is not set, but the key of this database is in a file", "name that file"
        )
    return [bytes.fromhex(key)]


def stored_key(database: Database) -> str | None:
    with database.reading() as session:
        setting = session.get(Setting, SETTING)
        return setting.value if setting else None


def read_keys(file: Path) -> list[bytes]:
    """The keys of a file, one on each line, in hexadecimal."""
    try:
        lines = file.read_text(encoding="ascii").split()
        mode = file.stat().st_mode
    except OSError as error:
        raise UnreadableInput(
            str(file), f"cannot be read ({error.strerror})", f"make it with {COMMAND}"
        ) from error
    except UnicodeDecodeError as error:
        raise UnreadableInput(
            str(file), "holds no signing key", f"make one with {COMMAND}"
        ) from error
    if os.name == "posix" and mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise UnreadableInput(str(file), "others can read or change it", f"chmod 600 {file}")
    if not lines or not all(KEY.fullmatch(line) for line in lines):
        raise UnreadableInput(str(file), "holds no signing key", f"make one with {COMMAND}")
    return [bytes.fromhex(line) for line in lines]


def create_file(database: Database, file: Path, actor: Actor) -> None:
    """Write a new key and the database's own to a new file, and delete the one in the database.

    What the database's key has signed stays valid until it is rotated out.
    """
    stored = stored_key(database)
    if stored == IN_FILE:
        raise UnreadableInput(str(file), "the key of this database is in a file already")
    keys = [secrets.token_hex(BYTES), *([stored] if stored else [])]
    with explained_write_errors(file), new_private_file(file) as draft:
        draft.write_text("\n".join(keys) + "\n", encoding="ascii")
    with database.writing() as session:
        session.merge(Setting(key=SETTING, value=IN_FILE))
        record(session, actor, Action.SECRET_CREATE)
    database.erase_deleted_rows([Setting])


def rotate(file: Path, *, forget: bool) -> None:
    """Put a new key into a file; the last one stays valid until the next time, unless `forget`."""
    keys = [] if forget else [read_keys(file)[0].hex()]
    read_keys(file)
    draft = file.with_name(f".{file.name}-{os.getpid()}.draft")
    with explained_write_errors(file):
        try:
            draft.touch(mode=0o600, exist_ok=False)
            draft.write_text("\n".join([secrets.token_hex(BYTES), *keys]) + "\n", encoding="ascii")
            put_in_place(draft, file)
        finally:
            draft.unlink(missing_ok=True)
