"""Errors that a user can act on. Each keeps its parts: where, what, remedy.

The library raises them; only `hsfiq.cli` turns them into one line and an exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class HsfiqError(Exception):
    """An error whose message a user can act on; `exit_code` is the command's."""

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        """Join the parts into one line: `where: what; remedy`.

        Args:
            what: what is wrong.
            where: the file and the place in it, or the option.
            remedy: how to fix it, unless `what` makes that plain.
        """
        super().__init__((f"{where}: " if where else "") + what + (f"; {remedy}" if remedy else ""))
        self.where = where
        self.what = what
        self.remedy = remedy


class UnreadableInput(HsfiqError):
    """A file or an option that cannot be used as it is."""

    def __init__(self, where: str, what: str, remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)


class Mistake(UnreadableInput):
    """What a study's file asks for under `key` cannot be done; its reader knows the line."""

    def __init__(self, key: str, what: str, remedy: str = "") -> None:
        super().__init__(key, what, remedy)
        self.key = key


class Mistakes(HsfiqError):
    """Everything that is wrong with a study's file: `lines` are as many messages."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


class NothingToDo(HsfiqError):
    """The data says no: there is nothing to export, or a check failed."""

    exit_code = 1


class Refused(HsfiqError):
    """A request that does not fit the state of the study; nothing was written.

    `status` is the HTTP status by which the page learns of it.
    """

    status = 422


class Forbidden(Refused):
    """Not this participant's to ask for."""

    status = 403


class Conflict(Refused):
    """The stored state is no longer the one that the request was based on."""

    status = 409
    exit_code = 1


class Busy(Refused):
    """Somebody else has been writing for so long that this had to give up; try again."""

    status = 503


class NotOpen(Refused):
    """The study takes no answers now, or has no room for one more participant."""

    status = 410
