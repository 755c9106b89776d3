"""The answers of a judge on disk: JSON lines that are only ever appended."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from hsfiq.atomic_files import explained_write_errors, sync
from hsfiq.errors import UnreadableInput
from hsfiq.model.judges.judge import Answer


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer with the digest of its question and judge, and with what it was about."""

    key: str
    about: Mapping[str, Any]
    answer: Answer

    def to_line(self) -> bytes:
        fields = {"key": self.key, **self.about, **asdict(self.answer)}
        return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


class AnswerStore:
    """The answers by key, those of one question in the order in which they were given.

    A line is on the disk before `add` returns. Threads may share a store; `opened` keeps other
    processes out.
    """

    def __init__(self, path: Path, descriptor: int, kept: dict[str, list[Answer]]) -> None:
        self.path = path
        self._descriptor, self._kept = descriptor, kept
        self._lock = Lock()

    def answers(self, key: str) -> list[Answer]:
        return self._kept.get(key, [])

    def add(self, answers: Iterable[StoredAnswer]) -> None:
        """Append the answers that are to be kept. UnreadableInput if the file cannot be written."""
        stored = list(answers)
        content = memoryview(b"".join(each.to_line() for each in stored if each.answer.is_kept))
        with self._lock, explained_write_errors(self.path):
            while content:
                content = content[os.write(self._descriptor, content) :]
            os.fsync(self._descriptor)
            for each in stored:
                self._kept.setdefault(each.key, []).append(each.answer)


@contextmanager
def opened(path: Path) -> Iterator[AnswerStore]:
    """Open or create a store; an unfinished last line, of a killed process, is cut off.

    Raises:
        UnreadableInput: a line is no answer, another process has the file open, or it cannot be
            written.
    """
    with explained_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what = "another process is storing answers there"
            raise UnreadableInput(str(path), what, "wait for it") from None
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        kept = read_lines(path, content[:whole])
        with explained_write_errors(path):
            os.ftruncate(descriptor, whole)
            sync(path.parent)
        yield AnswerStore(path, descriptor, kept)
    finally:
        os.close(descriptor)


def read_lines(path: Path, content: bytes) -> dict[str, list[Answer]]:
    kept: dict[str, list[Answer]] = {}
    names = Answer.__dataclass_fields__
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            row = json.loads(line)
            answer = Answer(**{name: row[name] for name in names})
            kept.setdefault(row["key"], []).append(answer)
        except (ValueError, KeyError, TypeError) as error:
            raise UnreadableInput(
                f"{path}: line {number}", "is no stored answer", "restore or move the file"
            ) from error
    return kept
