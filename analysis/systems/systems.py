"""The systems behind the sets: ratings by people and by metrics, and their agreement.

Everything is undefined if a release does not name its systems (the published one does not).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from hsfiq.analysis.data.columns import list_sizes, looked_up, metric_difference
from hsfiq.analysis.data.metrics import MetricValues, ScoreColumn, bounds_of
from hsfiq.analysis.data.release import Release, score_range
from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate, group_means
from hsfiq.analysis.resampling.intervals import RATE, Bounds
from hsfiq.analysis.resampling.permutation import Swaps
from hsfiq.analysis.statistics.correlation import with_values
from hsfiq.analysis.statistics.preference import Rate, preference_rates
from hsfiq.analysis.systems.pair_agreement import (
    PairAgreement,
    SpaDifference,
    compare_spa,
    pair_agreement,
)
from hsfiq.analysis.systems.ranks import Duel, RankRanges, rank_ranges, win_matrix
from hsfiq.analysis.systems.strengths import (
    OrderAgreement,
    Strengths,
    StrengthsAndSide,
    order_agreement,
    strengths,
    strengths_and_side,
)

# The mean of each metric over a system's sets, over all of them and by category.


@dataclass(frozen=True)
class SetScores:
    """The mean of a metric's values by system, over all sets and by category."""

    all: Mapping[str, Estimate]
    by_category: Mapping[str, Mapping[str, Estimate]]


def set_scores(
    release: Release,
    sets: pd.DataFrame,
    names: list[str],
    values: MetricValues,
    bootstrap: Bootstrap,
) -> dict[str, SetScores]:
    """Average each metric over the systems' sets."""
    of_query = release.queries.set_index("query_id").get("category", pd.Series(dtype=object))
    needed = sets[["set_id", "participant_id", "query_id", "system", "score"]]
    scores = {}
    for metric, own in values.items():
        distinct = with_values(needed, own).drop_duplicates(["query_id", "system"])
        value = distinct["value"].to_numpy(np.float64)
        system = pd.Categorical(distinct["system"], categories=names).codes
        category, categories = pd.factorize(looked_up(distinct["query_id"], of_query), sort=True)
        # Numbered by category and system; without a category, below 0.
        numbers = pd.Series(category * len(names) + system)
        bounds = bounds_of(metric)
        everywhere = group_means(distinct, value, system, range(len(names)), bootstrap, bounds)
        cells = range(len(categories) * len(names))
        each = group_means(distinct, value, numbers, cells, bootstrap, bounds)
        scores[metric] = SetScores(
            all=dict(zip(names, everywhere.values(), strict=True)),
            by_category={
                str(name): {
                    system: each[place * len(names) + number] for number, system in enumerate(names)
                }
                for place, name in enumerate(categories)
            },
        )
    return scores


NO_SYSTEMS = "the release names no systems"


@dataclass(frozen=True)
class SystemFigures(JsonRecord):
    """How people rate one system.

    Attributes:
        win_rate: the share of its questions against other systems in which it was preferred; human
            ties count half; n counts these questions.
        strength: its Bradley-Terry log-strength, centred at 0 over the systems.
        mean_score: the mean human score of its sets; n counts them.
        own_similarity: P(set 1 preferred | m(set 1) >= m(set 2)), CIRQRS eq. 8, with the system's
            own similarity as m (section 5.4), from a scores file with the system's name.
    """

    win_rate: Estimate
    strength: Estimate
    mean_score: Estimate
    own_similarity: Rate


@dataclass(frozen=True)
class SystemsByMetric(JsonRecord):
    """How one metric rates the systems.

    Attributes:
        set_score: by system, the mean of its sets' values: CIRQRS@k with k the sets' size (eq. 10,
            Table 6). A set counts once, however many people judged it.
        by_category: the same by category, then by system.
        strength: by system, the log-strength if the metric's higher set were preferred.
        order: the agreement of the order by these strengths with people's.
        ranks: the rank range and cluster of each system by these strengths.
        pairs: the agreement of metric and people on the better of two systems.
    """

    set_score: Mapping[str, Estimate]
    by_category: Mapping[str, Mapping[str, Estimate]]
    strength: Mapping[str, Estimate]
    order: OrderAgreement
    ranks: RankRanges
    pairs: PairAgreement


@dataclass(frozen=True)
class Systems(JsonRecord):
    """The systems of a release, in the order of their names.

    Attributes:
        duels: the win matrix: every two systems in both orders.
        ranks: the rank range and cluster of each system according to people.
        model: strengths according to people, adjusted for the side on which a system was shown.
        spa_differences: the soft pairwise accuracy of every two metrics compared.
        k: how many images every set has; None if the sets differ in size or there is none.
    """

    figures: Mapping[str, SystemFigures] = field(default_factory=dict)
    metrics: Mapping[str, SystemsByMetric] = field(default_factory=dict)
    duels: Sequence[Duel] = ()
    ranks: RankRanges = field(default_factory=RankRanges)
    model: StrengthsAndSide = field(default_factory=StrengthsAndSide)
    spa_differences: Sequence[SpaDifference] = ()
    k: int | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        if self.reason is not None:
            return {"k": self.k, "systems": None, "metrics": None, "reason": self.reason}
        fields: dict[str, object] = {
            "k": self.k,
            "systems": json_value(self.figures),
            "metrics": json_value(self.metrics),
            "win_matrix": json_value(self.duels),
            "ranks": self.ranks.to_json(),
            "davidson": self.model.to_json(),
            "spa_differences": json_value(self.spa_differences),
        }
        return fields if self.k is not None else {**fields, "reason": "the sets differ in size"}


def systems(release: Release, values: MetricValues, bootstrap: Bootstrap) -> Systems:
    is_named = release.sets.get("system", pd.Series(dtype=object)).notna()
    if not is_named.any():
        return Systems(reason=NO_SYSTEMS)
    sets = release.sets if is_named.all() else release.sets[is_named]
    names = sorted(sets["system"].unique())
    compared = compared_systems(release.preferences, names)
    human = strengths(compared, won_by_first(compared), names, bootstrap)
    won = win_rates(compared, names, bootstrap)
    scored = mean_scores(sets, names, bootstrap, score_range(release.points))
    # A metric's values do not depend on the participants: queries are resampled, not people.
    by_query = bootstrap.for_release(release, unit="triplet")
    scores = set_scores(release, sets, names, values, by_query)
    sizes = np.unique(list_sizes(sets["image_ids"]))
    return Systems(
        figures={
            name: SystemFigures(
                win_rate=won[name],
                strength=human.estimates[name],
                mean_score=scored[name],
                own_similarity=own_similarity(release, name, bootstrap),
            )
            for name in names
        },
        metrics={
            metric: _by_metric(release, compared, names, own, human, bootstrap, scores[metric])
            for metric, own in values.items()
        },
        duels=win_matrix(compared, names, bootstrap),
        ranks=rank_ranges(human, names, bootstrap),
        model=strengths_and_side(compared, names, bootstrap),
        spa_differences=compare_spa(compared, values, release.triplets, Swaps(seed=bootstrap.seed)),
        k=int(sizes[0]) if len(sizes) == 1 else None,
    )


def names_of(release: Release) -> list[str]:
    """The systems whose sets were shown, sorted; none if the release does not name them."""
    return sorted(release.sets.get("system", pd.Series(dtype=object)).dropna().unique())


def duels_of(release: Release, bootstrap: Bootstrap) -> list[Duel]:
    """The win matrix alone; empty if the release names no systems."""
    names = names_of(release)
    return win_matrix(compared_systems(release.preferences, names), names, bootstrap)


def compared_systems(preferences: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """The questions that compare two different systems, numbered as `first` and `second`."""
    numbers = pd.Series(range(len(names)), index=pd.Index(names, dtype=object))
    first, second = (looked_up(preferences[side], numbers) for side in ("system_1", "system_2"))
    kept = first.notna() & second.notna() & (first != second)
    return preferences[kept].assign(first=first[kept].astype(int), second=second[kept].astype(int))


def won_by_first(compared: pd.DataFrame) -> FloatArray:
    """1 if the set on the first side was preferred, 0 if the other was, 0.5 for a tie, (n,)."""
    return np.choose(compared["preferred"].to_numpy(), (0.5, 1.0, 0.0))


def win_rates(
    compared: pd.DataFrame, names: list[str], bootstrap: Bootstrap
) -> dict[str, Estimate]:
    """How often each system was preferred in its comparisons; human ties count half."""
    columns = ["participant_id", "query_id", "preferred"]
    sides = pd.concat(
        [compared[columns].assign(system=compared[f"system_{side}"]) for side in (1, 2)]
    )
    side = np.repeat((1, 2), len(compared))
    preferred = sides["preferred"].to_numpy()
    won = np.where(preferred == 0, 0.5, (preferred == side).astype(np.float64))
    return group_means(sides, won, sides["system"], names, bootstrap, RATE)


def own_similarity(release: Release, name: str, bootstrap: Bootstrap) -> Rate:
    """CIRQRS eq. 8 with a system's own similarity as the metric (section 5.4).

    A scores file with the system's name gives its similarity for both sets of each question, not
    only for its own; without such a file the rate is NaN, with a reason.
    """
    if name not in release.scores:
        reason = f"no scores file {name} gives the system's own similarity of both sets"
        return Rate(UNDEFINED, 0, 0.0, reason=reason)
    return preference_rates(release.preferences, ScoreColumn(name).values(release), bootstrap).ge


def _by_metric(
    release: Release,
    compared: pd.DataFrame,
    names: list[str],
    values: pd.Series[float],
    human: Strengths,
    bootstrap: Bootstrap,
    scores: SetScores,
) -> SystemsByMetric:
    difference = metric_difference(compared, values).to_numpy()
    present = ~np.isnan(difference)
    share = (1 + np.sign(difference[present])) / 2
    predicted = strengths(compared[present], share, names, bootstrap)
    return SystemsByMetric(
        set_score=scores.all,
        by_category=scores.by_category,
        strength=predicted.estimates,
        order=order_agreement(human, predicted, names, bootstrap),
        ranks=rank_ranges(predicted, names, bootstrap),
        pairs=pair_agreement(compared, values, release.triplets),
    )


def mean_scores(
    sets: pd.DataFrame, names: list[str], bootstrap: Bootstrap, scale: Bounds
) -> dict[str, Estimate]:
    scores = sets["score"].to_numpy(np.float64)
    return group_means(sets, scores, sets["system"], names, bootstrap, scale)
