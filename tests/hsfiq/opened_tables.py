"""What another process has found out about Parquet files, kept by their content.

It starts an interpreter for each command that opens a release, mostly with files that earlier
commands have opened: a release that was copied, or one that several commands read.
"""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hsfiq.releases import folder
from hsfiq.releases.untrusted import unopened

Content = tuple[object, ...]


@contextmanager
def opened_once() -> Iterator[None]:
    """Files with names and content that were opened before are not opened again."""
    known: dict[Content, dict[int, str]] = {}

    def unopened_once(paths: Sequence[Path]) -> dict[Path, str]:
        content = (
            resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY,
            *((path.name, hashlib.sha256(path.read_bytes()).digest()) for path in paths),
        )
        if content not in known:
            problems = unopened(paths)
            known[content] = {
                number: problems[path] for number, path in enumerate(paths) if path in problems
            }
        return {paths[number]: problem for number, problem in known[content].items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "unopened", unopened_once)
        yield
