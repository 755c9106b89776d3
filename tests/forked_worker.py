"""A worker of pytest-xdist that forks from the server of `tests.processes`.

A new interpreter would import every library again. pytest-xdist starts this file with the words of
a Python interpreter, `-u -c CODE`; `tests/conftest.py` puts the server's connection before them.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import sys
from multiprocessing import reduction
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parent.parent)

from tests.processes import forkserver_context, use_server  # noqa: E402 -- of this checkout


class Descriptor:
    """A file descriptor that the forked process has, too."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return received, (reduction.DupFd(self.number),)


def received(sent: Any) -> int:
    return int(sent.detach())


def become_worker(code: str, *descriptors: int) -> None:
    """Run the code as `python -c` does, with these as standard input, output and error."""
    gc.freeze()  # what the server has imported is not examined again
    vars(multiprocessing.process)["_parent_process"] = None
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = os.fdopen(0)
    sys.argv = ["-c"]
    exec(code, {"__name__": "__main__"})


def main() -> int:
    connection, *_, code = sys.argv[1:]
    use_server(json.loads(connection))
    descriptors = map(Descriptor, (0, 1, 2))
    worker = forkserver_context().Process(target=become_worker, args=(code, *descriptors))
    worker.start()
    for number in (0, 1):
        os.close(number)
    worker.join()
    return worker.exitcode or 0


if __name__ == "__main__":
    sys.exit(main())
