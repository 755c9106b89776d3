"""`hsfiq` commands whose worker processes fork from one that has imported the app already.

A command with workers starts a fork server of its own, a new interpreter that imports the app for
seconds. Here the command's process forks that server from itself, before its first thread starts.
All else is as it is in use: the server is a child of the command, and the workers are its children.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from multiprocessing import util
from typing import NoReturn
from unittest.mock import patch

from tests.processes import SERVER, run_command_line


def run_with_forked_workers() -> None:
    """Do what the installed command does."""
    with patch.object(util, "spawnv_passfds", forked):
        SERVER.ensure_running()
    run_command_line()


def forked(_path: str, words: Sequence[str], kept: Sequence[int]) -> int:
    """Fork a process that runs the code of `python -c CODE`; it keeps these files open."""
    pid = os.fork()
    if pid == 0:
        run_code(words[-1], kept)
    return pid


def run_code(code: str, kept: Sequence[int]) -> NoReturn:
    try:
        first = 3
        for number in [*sorted(kept), os.sysconf("SC_OPEN_MAX")]:
            os.closerange(first, number)
            first = number + 1
        exec(code, {})
    finally:
        os._exit(0)
