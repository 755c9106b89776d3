"""Asking a judge: each different question once, at a bounded rate, every answer stored at once."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Any

from hsfiq.atomic_files import explained_write_errors, sync
from hsfiq.errors import UnreadableInput
from hsfiq.model.judges.judge import Answer, Judge, JudgeFailed, Question

# The answers of a judge on disk: JSON lines that are only ever appended.


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
            raise UnreadableInput(str(path), what, "wait until it has ended") from None
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
                f"{path}: line {number}", "is not a stored answer", "restore or move the file"
            ) from error
    return kept


# Asking a judge: each different question once, at a bounded rate, every answer stored at once.

MOST_ATTEMPTS = 3
"""The most attempts at a question whose answers cannot be read."""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with the names of its query and images, for the stored line."""

    question: Question
    about: Mapping[str, Any]


@dataclass(slots=True)
class Pace:
    """At most so many calls a minute, evenly spaced; None: as many as the judge answers."""

    per_minute: float | None = None
    _next: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def wait(self) -> None:
        if self.per_minute is None:
            return
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + 60 / self.per_minute
        time.sleep(start - now)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answer that counts for each question, and the cost of all answers.

    Attributes:
        of: by key; a question without a readable answer has its last one.
        total: the number of answers, with what they used, since the first run.
        this_run: the same of this run alone.
    """

    of: Mapping[str, Answer]
    total: Mapping[str, int]
    this_run: Mapping[str, int]


class Digests:
    """The sha256 of questions: of the judge's identity, the text and the images' content."""

    def __init__(self, judge: Judge, contents: Mapping[Path, str]) -> None:
        self._judge = json.dumps([judge.asks, judge.identity()], sort_keys=True)
        self._contents = contents

    def key(self, question: Question) -> str:
        reference = question.reference
        parts = [
            self._judge,
            None if reference is None else self._contents[reference],
            question.text,
            [[self._contents[image] for image in images] for images in question.sets],
        ]
        return sha256(json.dumps(parts).encode()).hexdigest()


def ask_all(
    judge: Judge,
    questions: Mapping[str, AskedQuestion],
    store: AnswerStore,
    pace: Pace,
    progress: Callable[[int, int], None],
) -> Answers:
    """Ask what the store does not answer yet; `progress` gets the number done and of all.

    Raises:
        JudgeFailed: the judge cannot be asked now; the same command goes on.
    """
    before = usage_of(answer for key in questions for answer in store.answers(key))
    for attempt in range(1, MOST_ATTEMPTS + 1):
        due = [key for key in questions if is_due(store.answers(key), attempt)]
        # Questions with one reference are asked together, so that a judge can reuse its image.
        due.sort(key=lambda key: str(questions[key].question.reference))
        asked = {
            key: replace(questions[key], question=replace(questions[key].question, attempt=attempt))
            for key in due
        }
        _ask(judge, asked, store, pace, progress)
    total = usage_of(answer for key in questions for answer in store.answers(key))
    return Answers(
        {key: counting(store.answers(key)) for key in questions},
        total,
        {name: n - before.get(name, 0) for name, n in total.items()},
    )


def is_due(answers: Sequence[Answer], attempt: int) -> bool:
    return len(answers) < attempt and not any(
        answer.is_final or answer.value is not None for answer in answers
    )


def counting(answers: Sequence[Answer]) -> Answer:
    return next((answer for answer in answers if answer.value is not None), answers[-1])


def usage_of(answers: Iterable[Answer]) -> dict[str, int]:
    total: Counter[str] = Counter(answers=0)
    for answer in answers:
        total.update({"answers": 1, **answer.usage})
    return dict(total)


def _ask(
    judge: Judge,
    asked: Mapping[str, AskedQuestion],
    store: AnswerStore,
    pace: Pace,
    progress: Callable[[int, int], None],
) -> None:
    keys = list(asked)
    batches = [keys[start : start + judge.batch] for start in range(0, len(keys), judge.batch)]

    def ask(batch: Sequence[str]) -> int:
        pace.wait()
        answers = judge.answer([asked[key].question for key in batch])
        if len(answers) != len(batch):
            raise JudgeFailed(
                f"gives {len(answers)} answers to {len(batch)} questions", where=judge.name
            )
        store.add(
            StoredAnswer(key, asked[key].about, checked(judge, answer))
            for key, answer in zip(batch, answers, strict=True)
        )
        return len(batch)

    done = 0
    with ThreadPoolExecutor(judge.parallel) as pool:
        remaining = iter(batches)
        running: set[Future[int]] = set()
        try:
            while True:
                # Few wait, so that an error ends the run soon; those under way are stored.
                for batch in remaining:
                    running.add(pool.submit(ask, batch))
                    if len(running) > judge.parallel:
                        break
                if not running:
                    return
                ended, running = wait(running, return_when="FIRST_COMPLETED")
                done += sum(future.result() for future in ended)
                progress(done, len(keys))
        finally:
            for future in running:
                future.cancel()
            wait(running, return_when=FIRST_EXCEPTION)


def checked(judge: Judge, answer: Answer) -> Answer:
    """The answer, or none with the reason if its value is not a number of the right range."""
    value = answer.value
    if value is None:
        return answer if answer.reason else replace(answer, reason="no answer")
    if not isfinite(value):
        return replace(answer, value=None, reason="not a finite number")
    if judge.asks == "pairs" and not 0 <= value <= 1:
        return replace(answer, value=None, reason="a preference outside 0 to 1")
    return answer
