"""Sensitivity: do the conclusions change without answers that may be doubted?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from hsfiq.analysis.data.answers import contradicts, optional_column
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.sensitivity.conclusions import Conclusions, conclude
from hsfiq.analysis.sensitivity.jackknife import Jackknife, jackknife

MIN_SECONDS = 5.0
"""Too short to look at ten images and read a text."""
NOT_RECORDED = "not recorded"
"""Why a rule cannot be applied: the release lacks what it needs."""
PRACTICE = 5
"""How many of each participant's first questions count as practice."""
ALL_ANSWERS, ALL_RULES = "as it is", "all together"


@dataclass(frozen=True)
class FilteredConclusions(JsonRecord):
    """`conclusions` without the answers that a rule excludes; None if it cannot be applied.

    `n_questions` are kept; `n_dropped` is None if the rule cannot be applied; `changes` names the
    conclusions that differ from those of all answers.
    """

    rule: str
    n_questions: int
    n_dropped: int | None
    conclusions: Conclusions | None
    changes: tuple[str, ...] = ()
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "rule": self.rule,
            "n_questions": self.n_questions,
            "n_dropped": self.n_dropped,
        }
        if self.conclusions is None:
            return {**fields, "conclusion_changes": None, "reason": self.reason}
        return {
            **fields,
            **self.conclusions.to_json(),
            "conclusion_changes": bool(self.changes),
            "changes": list(self.changes),
        }


@dataclass(frozen=True)
class Sensitivity(JsonRecord):
    """The conclusions from all answers, then under each rule alone, then under all rules."""

    rows: tuple[FilteredConclusions, ...]
    jackknife: Jackknife

    def to_json(self) -> dict[str, object]:
        return {"rows": json_value(self.rows), "one_participant_left_out": self.jackknife.to_json()}


def sensitivity(
    release: Release,
    values: MetricValues,
    bootstrap: Bootstrap,
    *,
    min_seconds: float = MIN_SECONDS,
    practice: int = PRACTICE,
) -> Sensitivity:
    """Draw the conclusions again without answers that may be doubted.

    One rule excludes answers that took fewer active seconds than `min_seconds`, another so many
    first questions of each participant as `practice`. All rules use the same resamples.
    """
    base = conclude(release, values, bootstrap)
    n = len(release.preferences)
    rows = [FilteredConclusions(ALL_ANSWERS, n, 0, base)]
    dropped_by_any = None
    for rule, dropped in rules(release.preferences, min_seconds, practice):
        if isinstance(dropped, str):
            rows.append(FilteredConclusions(rule, n, None, None, reason=dropped))
            continue
        dropped_by_any = dropped if dropped_by_any is None else dropped_by_any | dropped
        rows.append(_without(release, dropped, rule, values, bootstrap, base))
    if dropped_by_any is not None:
        rows.append(_without(release, dropped_by_any, ALL_RULES, values, bootstrap, base))
    return Sensitivity(tuple(rows), jackknife(release, values))


def rules(
    preferences: pd.DataFrame, min_seconds: float, practice: int
) -> Iterator[tuple[str, pd.Series[bool] | str]]:
    """Yield each rule with the questions that it excludes, or why it cannot be applied.

    The preferences must be in the order in which participants answered them.
    """
    irrelevant = optional_column(preferences, "irrelevant")
    failed = optional_column(preferences, "failed_checks")
    seconds = optional_column(preferences, "active_seconds")
    position = preferences.groupby("participant_id").cumcount()
    yield (
        "without questions flagged irrelevant",
        NOT_RECORDED if irrelevant.isna().all() else irrelevant == 1,
    )
    yield "without contradictions of preference and scores", contradicts(preferences)
    yield (
        "without forms with a failed check",
        NOT_RECORDED if failed.isna().all() else failed > 0,
    )
    yield (
        f"without answers under {min_seconds:g} seconds",
        NOT_RECORDED if seconds.isna().all() else seconds < min_seconds,
    )
    yield f"without the first {practice} questions of each participant", position < practice


def _without(
    release: Release,
    dropped: pd.Series[bool],
    rule: str,
    values: MetricValues,
    bootstrap: Bootstrap,
    base: Conclusions,
) -> FilteredConclusions:
    n_dropped = int(dropped.sum())
    conclusions = conclude(release.subset(~dropped), values, bootstrap) if n_dropped else base
    changes = conclusions.changes_from(base)
    return FilteredConclusions(rule, len(dropped) - n_dropped, n_dropped, conclusions, changes)
