"""What can go wrong in the statistics, said in one line: what, where, how to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class AnalysisError(Exception):
    """Data or a metric name that cannot be used as it is; the command line exits with 2."""

    exit_code = 2

    def __init__(self, where: Path | str, what: str, mend: str = "") -> None:
        """Join the three parts every such message has.

        Args:
            where: file and place in it, as exact as is known.
            what: what is wrong there.
            mend: how to put it right, where that is not plain from `what`.
        """
        super().__init__(f"{where}: {what}" + (f"; {mend}" if mend else ""))


class NothingToAnalyse(AnalysisError):
    """There is no answer of the kind that was asked for; the command line exits with 1."""

    exit_code = 1


def first_few(names: list[str], limit: int = 3) -> str:
    """List the first names and say how many more there are.

    Args:
        names: ids, in the order in which they are to be named.
        limit: how many are written out.

    Returns:
        "a, b, c and 7 more".
    """
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
