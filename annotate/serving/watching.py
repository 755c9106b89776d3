"""What an administrator sees of a running server: numbers, a log of requests, slow statements."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fastapi import FastAPI
from sqlalchemy import Engine

from hsfiq.annotate.handlers import Services
from hsfiq.annotate.serving.json_log import log_as_json, log_request
from hsfiq.annotate.serving.requests import AnsweredRequest, RequestObserver
from hsfiq.annotate.serving.slow_statements import log_slow_statements
from hsfiq.atomic_files import locked
from hsfiq.errors import UnreadableInput

TOKEN = re.compile(r"[!-~]{16,200}")

METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder to prometheus_client, whose values are then in files that all workers read."""

METRICS_FOLDERS = "hsfiq-metrics-"

MAKE_ONE = "make one with `(umask 077; openssl rand -hex 32 > FILE)`"


@dataclass(frozen=True, slots=True)
class Watching:
    """What is asked for.

    Attributes:
        metrics_token: what Prometheus has to send; None: there is no `/metrics`.
        metrics_folder: where all workers write their metrics; None if there is one process.
        logs_json: whether the log is JSON and has a line for each request.
        slow_seconds: how long a statement of the database takes to be logged; None: none is.
    """

    metrics_token: str | None = None
    metrics_folder: Path | None = None
    logs_json: bool = False
    slow_seconds: float | None = None


NOTHING = Watching()


def add_watching(app: FastAPI, services: Services, watching: Watching) -> None:
    tell: list[Callable[[AnsweredRequest], None]] = []
    if watching.metrics_token is not None:
        folder = watching.metrics_folder
        if folder is not None:
            os.environ[METRICS_VARIABLE] = str(folder)  # read when the library is imported
        # Only servers with metrics load the library.
        from hsfiq.annotate.serving.metrics import add_metrics  # noqa: PLC0415

        tell.append(add_metrics(app, services, watching.metrics_token, folder).count)
    if watching.logs_json:
        tell.append(log_request)
    if tell:
        app.add_middleware(RequestObserver, tell=tell)


@contextmanager
def shared_metrics(watching: Watching) -> Iterator[tuple[Watching, Callable[[int], None]]]:
    """What to watch in each of several workers, and what to call with the id of one that ended.

    Their metrics are in a private folder, which is deleted at the end, or else by the next server.
    """
    if watching.metrics_token is None:
        yield watching, lambda _pid: None
        return
    clear_metrics()
    with TemporaryDirectory(prefix=METRICS_FOLDERS) as folder, locked(Path(folder)):

        def forget(pid: int) -> None:
            from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415

            mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]

        yield replace(watching, metrics_folder=Path(folder)), forget


def clear_metrics() -> None:
    """Delete the folders of servers that were killed; running ones have locked theirs."""
    if sys.platform == "win32":  # where nothing is locked
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{METRICS_FOLDERS}*"):
        with suppress(OSError):
            if any(folder.iterdir()):  # it may be new, and not locked yet
                with locked(folder):
                    shutil.rmtree(folder)


def start_logs(engine: Engine, watching: Watching) -> None:
    if watching.logs_json:
        log_as_json()
    if watching.slow_seconds is not None:
        log_slow_statements(engine, watching.slow_seconds)


def token_in(file: Path) -> str:
    """The token in the first line of a file that only its owner, or a group, can read."""
    try:
        token = file.read_text(encoding="ascii").partition("\n")[0].strip()
        mode = file.stat().st_mode
    except OSError as error:
        raise UnreadableInput(str(file), f"cannot be read ({error.strerror})", MAKE_ONE) from error
    except UnicodeDecodeError as error:
        raise UnreadableInput(str(file), "holds no token", MAKE_ONE) from error
    if os.name == "posix" and mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise UnreadableInput(str(file), "others can read or change it", f"chmod 600 {file}")
    if not TOKEN.fullmatch(token):
        what = "holds no token of 16 to 200 characters without spaces"
        raise UnreadableInput(str(file), what, MAKE_ONE)
    return token
