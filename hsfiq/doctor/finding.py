"""What a check of the doctor has found."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor.

    Attributes:
        check: what was checked, such as `database`.
        what: what is wrong, or what was seen.
        fix: the command that repairs it, or what to do; None if all is well.
    """

    check: str
    status: Status
    what: str
    fix: str | None = None


def quoted(path: Path | str) -> str:
    """A path in a command of a shell."""
    return shlex.quote(str(path))
