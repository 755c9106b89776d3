"""The systems behind the sets: what people and metrics say of each, and whether they agree.

Everything is undefined where a release does not name its systems (the published one does not).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hsfiq.analysis.data.answers import metric_margin
from hsfiq.analysis.data.metrics import ScoreColumn
from hsfiq.analysis.figures import UNDEFINED
from hsfiq.analysis.resampling.draws import Draws
from hsfiq.analysis.resampling.estimate import Estimate, group_means
from hsfiq.analysis.statistics.preference import Rate, preference_rates
from hsfiq.analysis.systems.ranking import OrderAgreement, Strengths, agreement_of_orders, strengths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hsfiq.analysis.data.release import Release

UNNAMED = "the release names no systems"


@dataclass(frozen=True)
class SystemFigures:
    """What people say of one system.

    Attributes:
        win_rate: the share of its questions against other systems in which it was preferred, human
            ties counted half; n counts these questions.
        strength: its Bradley-Terry log-strength, centred at 0 over the systems.
        mean_score: the mean human score of its sets; n counts them.
        own_similarity: P(set 1 preferred | m(set 1) >= m(set 2)), CIRQRS eq. 8, with the system's
            own similarity as m (section 5.4): a scores file of the system's name gives it.
    """

    win_rate: Estimate
    strength: Estimate
    mean_score: Estimate
    own_similarity: Rate

    def to_json(self) -> dict[str, object]:
        """Return the four by their names."""
        return {
            "win_rate": self.win_rate.to_json(),
            "strength": self.strength.to_json(),
            "mean_score": self.mean_score.to_json(),
            "own_similarity": self.own_similarity.to_json(),
        }


@dataclass(frozen=True)
class SystemsByMetric:
    """What one metric says of the systems.

    Attributes:
        set_score: by system, the mean of its sets' values: CIRQRS@k with k the sets' size (eq. 10,
            Table 6). A set counts once, however many people judged it.
        by_category: the same by category, then by system.
        strength: by system, the log-strength if the metric's higher set were preferred.
        order: how well the order by these strengths agrees with that by people's.
    """

    set_score: Mapping[str, Estimate]
    by_category: Mapping[str, Mapping[str, Estimate]]
    strength: Mapping[str, Estimate]
    order: OrderAgreement

    def to_json(self) -> dict[str, object]:
        """Return the four by their names."""
        return {
            "set_score": _to_json(self.set_score),
            "by_category": {name: _to_json(each) for name, each in self.by_category.items()},
            "strength": _to_json(self.strength),
            "order": self.order.to_json(),
        }


@dataclass(frozen=True)
class Systems:
    """The systems of a release.

    Attributes:
        figures: what people say, by system, names sorted.
        metrics: what each metric says.
        k: how many images every set has; None where they differ or there is none.
        reason: why there is nothing to say, where there is not.
    """

    figures: Mapping[str, SystemFigures] = field(default_factory=dict)
    metrics: Mapping[str, SystemsByMetric] = field(default_factory=dict)
    k: int | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"k", "systems", "metrics"}, or null systems beside the reason."""
        if self.reason is not None:
            return {"k": self.k, "systems": None, "metrics": None, "reason": self.reason}
        result: dict[str, object] = {
            "k": self.k,
            "systems": {name: each.to_json() for name, each in self.figures.items()},
            "metrics": {name: each.to_json() for name, each in self.metrics.items()},
        }
        return result if self.k is not None else {**result, "reason": "the sets differ in size"}


def systems(release: Release, values: Mapping[str, pd.Series[float]], draws: Draws) -> Systems:
    """Measure the systems of a release.

    Args:
        release: a release; it may be empty, or name no systems.
        values: each metric's values by name, indexed by set_id, NaN where a set has none.
        draws: the resamples.

    Returns:
        The systems' figures, or the reason why there are none.

    Raises:
        AnalysisError: a scores file that bears a system's name does not fit the release.
    """
    known = release.sets.get("system", pd.Series(dtype=object)).notna()
    if not known.any():
        return Systems(reason=UNNAMED)
    sets = release.sets[known]
    names = sorted(sets["system"].unique())
    compared = comparisons(release.preferences, names)
    preferred = compared["preferred"].to_numpy()
    human = strengths(compared, np.choose(preferred, (0.5, 1.0, 0.0)), names, draws)
    won, scored = win_rates(compared, names, draws), _means(sets, "score", names, draws)
    # What a metric says does not hang on who looked: queries are drawn, not people.
    by_query = Draws.of(
        release,
        unit="triplet",
        n_resamples=draws.n_resamples,
        seed=draws.seed,
        correction=draws.correction,
    )
    sizes = sets["image_ids"].map(len).unique()
    return Systems(
        figures={
            name: SystemFigures(
                win_rate=won[name],
                strength=human.estimates[name],
                mean_score=scored[name],
                own_similarity=own_similarity(release, name, draws),
            )
            for name in names
        },
        metrics={
            metric: _by_metric(release, sets, compared, names, own, human, draws, by_query)
            for metric, own in values.items()
        },
        k=int(sizes[0]) if len(sizes) == 1 else None,
    )


def comparisons(preferences: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Take the questions that compare two different systems.

    Args:
        preferences: (n_questions, ...) with `system_1` and `system_2`, null where unknown.
        names: the systems.

    Returns:
        Those questions, with the systems' numbers as `one` and `two`.
    """
    numbers = {name: number for number, name in enumerate(names)}
    one, two = preferences["system_1"].map(numbers), preferences["system_2"].map(numbers)
    kept = one.notna() & two.notna() & (one != two)
    return preferences[kept].assign(one=one[kept].astype(int), two=two[kept].astype(int))


def win_rates(compared: pd.DataFrame, names: list[str], draws: Draws) -> dict[str, Estimate]:
    """Measure how often each system was preferred, human ties counted half.

    Args:
        compared: what `comparisons` returned.
        names: the systems.
        draws: the resamples.

    Returns:
        By system, its win rate over its comparisons; NaN, with a reason, where it has none.
    """
    sides = pd.concat([compared.assign(system=compared[f"system_{side}"]) for side in (1, 2)])
    side = np.repeat((1, 2), len(compared))
    preferred = sides["preferred"].to_numpy()
    won = np.where(preferred == 0, 0.5, (preferred == side).astype(np.float64))
    return group_means(sides, won, sides["system"].to_numpy(object), names, draws)


def own_similarity(release: Release, name: str, draws: Draws) -> Rate:
    """CIRQRS eq. 8 with a system's own similarity as the metric (section 5.4).

    Args:
        release: the release; a scores file that bears the system's name holds its similarity of
            both sets of each question, not of its own alone.
        name: the system's.
        draws: the resamples.

    Returns:
        The rate; NaN, with a reason, without such a file.

    Raises:
        AnalysisError: the file does not fit the release.
    """
    if name not in release.scores:
        reason = f"no scores file {name} gives the system's own similarity of both sets"
        return Rate(UNDEFINED, 0, 0.0, reason=reason)
    return preference_rates(release.preferences, ScoreColumn(name).values(release), draws=draws).ge


def _by_metric(
    release: Release,
    sets: pd.DataFrame,
    compared: pd.DataFrame,
    names: list[str],
    own: pd.Series[float],
    human: Strengths,
    draws: Draws,
    by_query: Draws,
) -> SystemsByMetric:
    table = sets.assign(value=sets["set_id"].map(own)).dropna(subset=["value"])
    once = table.drop_duplicates(["query_id", "system"])
    categories = release.queries.set_index("query_id").get("category", pd.Series(dtype=object))
    of_set = once["query_id"].map(categories)
    margin = metric_margin(compared, own).to_numpy()
    present = ~np.isnan(margin)
    share = (1 + np.sign(margin[present])) / 2
    predicted = strengths(compared[present], share, names, draws)
    return SystemsByMetric(
        set_score=_means(once, "value", names, by_query),
        by_category={
            str(category): _means(once[of_set == category], "value", names, by_query)
            for category in sorted(of_set.dropna().unique())
        },
        strength=predicted.estimates,
        order=agreement_of_orders(human, predicted, names, draws),
    )


def _means(sets: pd.DataFrame, column: str, names: list[str], draws: Draws) -> dict[str, Estimate]:
    values, of = sets[column].to_numpy(np.float64), sets["system"].to_numpy(object)
    return group_means(sets, values, of, names, draws)


def _to_json(estimates: Mapping[str, Estimate]) -> dict[str, object]:
    return {name: each.to_json() for name, each in estimates.items()}
