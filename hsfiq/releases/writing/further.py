"""Files of a release that are no tables, written as the questions come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.releases.reading.questions import Questions
from hsfiq.releases.rows import Part


@dataclass(frozen=True, slots=True)
class Kept:
    """Some of the questions that a release keeps, in its order, all of each participant.

    `parts` has the part of each question in the split that was drawn; None without a split.
    """

    questions: Questions
    parts: Sequence[Part] | None = None


class FurtherFile(Protocol):
    """A further file of a release that is being written."""

    def add(self, kept: Kept) -> None:
        """Write what the file has of these questions, or keep it until the end."""

    def close(self) -> list[str]:
        """End the file, or remove it; notes on what the release lacks, such as this file."""


FurtherFiles = Callable[[Session, Study, Path], Sequence[FurtherFile]]
"""Starts the further files of a study's release in a folder."""


def no_files(_session: Session, _study: Study, _folder: Path) -> Sequence[FurtherFile]:
    return ()


@contextmanager
def closed_on_error(files: Sequence[FurtherFile]) -> Iterator[Sequence[FurtherFile]]:
    """The files; if the block raises, they are closed and what they then say does not matter."""
    try:
        yield files
    except BaseException:
        for file in files:
            with suppress(Exception):
                file.close()
        raise
