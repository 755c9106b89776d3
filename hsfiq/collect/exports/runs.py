"""Answers of a form as `exported_forms` has them: runs of places with the same revision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Run = list[int]
"""`[first place, last place, revision]`."""


def runs_of(answers: Iterable[tuple[int, int]]) -> list[Run]:
    """The runs of places with their revisions, which come in the order of the places.

    >>> runs_of([(0, 1), (1, 1), (2, 3), (7, 1)])
    [[0, 1, 1], [2, 2, 3], [7, 7, 1]]
    """
    runs: list[Run] = []
    for place, revision in answers:
        if runs and runs[-1][1] == place - 1 and runs[-1][2] == revision:
            runs[-1][1] = place
        else:
            runs.append([place, place, revision])
    return runs


def revision_at(runs: Sequence[Run], place: int) -> int | None:
    """The revision of the answer at a place; None if no run has the place."""
    return next((revision for first, last, revision in runs if first <= place <= last), None)
