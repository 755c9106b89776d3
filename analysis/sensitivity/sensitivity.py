"""Sensitivity: whether the conclusions change when answers that one may doubt are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsfiq.analysis.data.answers import contradicts, optional, subset
from hsfiq.analysis.sensitivity.conclusions import Conclusions, conclude
from hsfiq.analysis.sensitivity.jackknife import LeftOut, left_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from hsfiq.analysis.data.release import Release
    from hsfiq.analysis.resampling.draws import Draws

MIN_SECONDS = 5.0
"""Who needs less has hardly looked at ten images and read a text."""
PRACTICE = 5
"""How many of each participant's first questions count as practice."""
AS_IT_IS, TOGETHER = "as it is", "all together"


@dataclass(frozen=True)
class Filtered:
    """The conclusions without some of the answers.

    Attributes:
        rule: which questions are left out.
        n_questions: how many are left.
        n_dropped: how many are left out.
        conclusions: what follows from those that are left; None where the rule cannot be applied.
        changes: what is concluded otherwise than from all answers, in words.
        reason: why the rule cannot be applied, where it cannot.
    """

    rule: str
    n_questions: int
    n_dropped: int
    conclusions: Conclusions | None
    changes: tuple[str, ...] = ()
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return all of it; "conclusion_changes" says whether there are changes."""
        figures: dict[str, object] = {
            "rule": self.rule,
            "n_questions": self.n_questions,
            "n_dropped": self.n_dropped,
        }
        if self.conclusions is None:
            return {**figures, "conclusion_changes": None, "reason": self.reason}
        return {
            **figures,
            **self.conclusions.to_json(),
            "conclusion_changes": bool(self.changes),
            "changes": list(self.changes),
        }


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity table of a release.

    Attributes:
        rows: the conclusions from all answers first, then under each rule alone, then under all.
        left_out: what happens to each figure when one participant is left out.
    """

    rows: tuple[Filtered, ...]
    left_out: LeftOut

    def to_json(self) -> dict[str, object]:
        """Return {"rows", "one_participant_left_out"}."""
        return {
            "rows": [row.to_json() for row in self.rows],
            "one_participant_left_out": self.left_out.to_json(),
        }


def sensitivity(
    release: Release,
    values: Mapping[str, pd.Series[float]],
    draws: Draws,
    *,
    min_seconds: float = MIN_SECONDS,
    practice: int = PRACTICE,
) -> Sensitivity:
    """Draw the conclusions again without the answers that one may doubt.

    Args:
        release: a release; it may be empty.
        values: each metric's values by name, indexed by set_id, NaN where a set has none.
        draws: the resamples, the same under every rule.
        min_seconds: answers that took less active time are left out under one of the rules.
        practice: how many of each participant's first questions are, under another.

    Returns:
        The table, and the range over participants left out one at a time.
    """
    base = conclude(release, values, draws)
    n = len(release.preferences)
    rows = [Filtered(AS_IT_IS, n, 0, base)]
    together = None
    for rule, dropped in rules(release.preferences, min_seconds, practice):
        if isinstance(dropped, str):
            rows.append(Filtered(rule, n, 0, None, reason=dropped))
            continue
        together = dropped if together is None else together | dropped
        rows.append(_without(release, dropped, rule, values, draws, base))
    if together is not None:
        rows.append(_without(release, together, TOGETHER, values, draws, base))
    return Sensitivity(tuple(rows), left_out(release, values))


def rules(
    preferences: pd.DataFrame, min_seconds: float, practice: int
) -> Iterator[tuple[str, pd.Series[bool] | str]]:
    """Yield each rule with the questions that it drops, or why it cannot be applied.

    Args:
        preferences: (n_questions, ...) in the order in which participants answered them.
        min_seconds: see `sensitivity`.
        practice: see `sensitivity`.
    """
    irrelevant = optional(preferences, "irrelevant")
    failed = optional(preferences, "failed_checks")
    seconds = optional(preferences, "active_seconds")
    place = preferences.groupby("participant_id").cumcount()
    yield (
        "without questions flagged irrelevant",
        "the release has no irrelevance flag" if irrelevant.isna().all() else irrelevant == 1,
    )
    yield "without contradictions of preference and scores", contradicts(preferences)
    yield (
        "without forms with a failed check",
        "the release does not say how checks went" if failed.isna().all() else failed > 0,
    )
    yield (
        f"without answers under {min_seconds:g} seconds",
        "no times were recorded" if seconds.isna().all() else seconds < min_seconds,
    )
    yield f"without the first {practice} questions of each participant", place < practice


def _without(
    release: Release,
    dropped: pd.Series[bool],
    rule: str,
    values: Mapping[str, pd.Series[float]],
    draws: Draws,
    base: Conclusions,
) -> Filtered:
    n_dropped = int(dropped.sum())
    found = conclude(subset(release, ~dropped), values, draws) if n_dropped else base
    return Filtered(rule, len(dropped) - n_dropped, n_dropped, found, found.changes_from(base))
