"""pg_dump and pg_restore: finding them, and running them on a database."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import IO

from sqlalchemy import Engine

from hsfiq.errors import UnreadableInput

OLDEST = 12
"""The first version whose pg_restore writes to standard output on request."""

_QUOTED_VALUE = re.compile(r': ".*"$')


@dataclass(frozen=True, slots=True)
class Target:
    """How PostgreSQL's programs reach a database."""

    options: tuple[str, ...]
    environment: dict[str, str]


def target_of(engine: Engine) -> Target:
    """The engine's database. The password is not an option, since others can see options."""
    _, given = engine.dialect.create_connect_args(engine.url)
    # The driver adds objects of its own.
    settings = {key: str(value) for key, value in given.items() if isinstance(value, str | int)}
    password = settings.pop("password", None)
    options = " ".join(f"{key}={quoted(value)}" for key, value in settings.items())
    return Target((f"--dbname={options}",), {"PGPASSWORD": password} if password else {})


def quoted(value: str) -> str:
    """A value in a connection string of libpq."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def program(name: str, server: int = 0) -> str:
    """The path of a program that is not older than the server.

    `server` is the server's main version, such as 15.

    Raises:
        UnreadableInput: it is not installed, or too old.
    """
    path = shutil.which(name)
    needed = max(server, OLDEST)
    remedy = f"install the client programs of PostgreSQL {needed} or newer"
    if path is None:
        raise UnreadableInput(name, "is not installed", remedy)
    version = run_program(path, ["--version"], {}).decode()
    number = re.search(r"\(PostgreSQL\) (\d+)", version)
    if number is None or int(number[1]) < needed:
        raise UnreadableInput(name, f"is too old ({version.strip()})", remedy)
    return path


def run_program(path: str, options: Sequence[str], environment: dict[str, str]) -> bytes:
    """Run a program and return what it prints; `UnreadableInput` if it fails."""
    done = subprocess.run(  # noqa: S603 -- a program of PostgreSQL
        [path, *options],
        env=environment_with(environment),
        stdin=DEVNULL,
        capture_output=True,
        check=False,
    )
    require_success(path, done.returncode, done.stderr)
    return done.stdout


def start_program(path: str, options: Sequence[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a program whose output is read while it runs; its errors go to a file."""
    return subprocess.Popen(  # noqa: S603 -- a program of PostgreSQL
        [path, *options], env=environment_with({}), stdin=DEVNULL, stdout=PIPE, stderr=errors
    )


def environment_with(variables: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", **variables}


def require_success(path: str, code: int, errors: bytes) -> None:
    """Raise `UnreadableInput` with the program's error, unless it ended with 0."""
    if code == 0:
        return
    name = Path(path).name
    if code < 0:
        raise UnreadableInput(name, f"was ended by {signal.Signals(-code).name}")
    raise UnreadableInput(name, first_error(errors.decode("utf-8", "replace")))


def first_error(output: str) -> str:
    """The first line that names an error, without a value of a row that it may quote."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no reason given"]
    line = next((line for line in lines if " error: " in line), lines[0])
    return _QUOTED_VALUE.sub("", line.partition(" error: ")[2] or line)
