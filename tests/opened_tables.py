"""Parquet files that tests have made themselves are opened in this process.

Commands start an interpreter for it, because a stranger's file may abort the process that opens
it. So they do here where the memory is limited, which it is for the releases of strangers; but not
again for files with the same content, which the next command reads.
"""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hsfiq.releases import untrusted
from hsfiq.releases.parquet_probe import problem_of
from hsfiq.releases.untrusted import shortened, unopened

Content = tuple[tuple[str, bytes], ...]


@contextmanager
def opened_quickly() -> Iterator[None]:
    known: dict[Content, dict[int, str]] = {}

    def unopened_quickly(paths: Sequence[Path]) -> dict[Path, str]:
        if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
            results = {path: problem_of(path) for path in paths}
            return {path: f"cannot be read ({shortened(each)})"
                    for path, each in results.items() if each is not None}  # fmt: skip
        content = tuple((path.name, hashlib.sha256(path.read_bytes()).digest()) for path in paths)
        if content not in known:
            problems = unopened(paths)
            known[content] = {
                number: problems[path] for number, path in enumerate(paths) if path in problems
            }
        return {paths[number]: problem for number, problem in known[content].items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(untrusted, "unopened", unopened_quickly)
        yield
