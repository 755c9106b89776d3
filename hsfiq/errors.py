"""Errors that a user can act on, with their parts: where, what, remedy.

Only `hsfiq.cli` turns them into one line and an exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class HsfiqError(Exception):
    """An error whose message a user can act on; `exit_code` is the command's."""

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        """Join the parts into one line: `where: what; remedy`.

        `where` is the file and the place in it, or the option; `remedy` is how to fix the error.
        """
        super().__init__((f"{where}: " if where else "") + what + (f"; {remedy}" if remedy else ""))
        self.where = where
        self.what = what
        self.remedy = remedy


class UnreadableInput(HsfiqError):
    """A file or an option that cannot be used as it is."""

    def __init__(self, where: Path | str, what: str, remedy: str = "") -> None:
        super().__init__(what, where=str(where), remedy=remedy)


class ConfigError(UnreadableInput):
    """An invalid value in a study's file; `where` is its key."""


class FileErrors(HsfiqError):
    """All errors of a file, one message each in `lines`."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


class ConfigErrors(FileErrors):
    """All errors of a study's file."""


class NothingToDo(HsfiqError):
    """There is nothing to export, or a check failed."""

    exit_code = 1


class Refused(HsfiqError):
    """A request that the state of the study does not allow; nothing was written.

    `status` is the HTTP status of the reply to the page.
    """

    status = 422


class Forbidden(Refused):
    """The participant may not do this."""

    status = 403


class SetBack(Forbidden):
    """The page shows what is no longer stored: the database is that of an earlier backup."""


class Conflict(Refused):
    """The stored state is no longer the one that the request was based on."""

    status = 409
    exit_code = 1


class Unavailable(Refused):
    """The database or a disk cannot do it now: nothing was written, and it may work later."""

    status = 503


class Busy(Unavailable):
    """Somebody kept the database locked for too long; try again."""


class NotOpen(Refused):
    """The study takes no answers now, or no further participant."""

    status = 410


class InvalidRecord(HsfiqError, ValueError):
    """A record with an invalid value."""
