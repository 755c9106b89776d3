"""Run `hsfiq` commands in the process of the test, which has imported their libraries already."""

from __future__ import annotations

import os
import threading
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from hsfiq import cli

_ONE_AT_A_TIME = threading.Lock()
"""The working directory, the environment and standard output belong to the whole process."""


def run_command(folder: Path, *arguments: str, **variables: str) -> str:
    """Do what `benchmarks.agreement.hsfiq` does in a process of its own; return what is printed."""
    environment = {"HSFIQ_CACHE": str(folder / "features"), **variables}
    output = StringIO()
    with (
        _ONE_AT_A_TIME,
        patch.dict(os.environ, environment),
        chdir(folder),
        redirect_stdout(output),
    ):
        exit_code = cli.run(arguments)
    assert exit_code == 0, f"hsfiq {' '.join(arguments)} ended with {exit_code}"
    return output.getvalue()
