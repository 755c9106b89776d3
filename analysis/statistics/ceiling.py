"""The human ceiling: how well the other people who judged a set foretell what one person says.

Where several people judged the same retrieved set, the mean of the others' scores is held against
each person's own answers as if it were a metric. No metric can be expected to do much better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hsfiq.analysis.statistics.agreement import Agreement, agreement
from hsfiq.analysis.statistics.correlation import Correlation, spearman
from hsfiq.analysis.statistics.preference import Rate, preference_rates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hsfiq.analysis.data.release import Release
    from hsfiq.analysis.resampling.draws import Draws


@dataclass(frozen=True)
class Foretold:
    """How well something foretells the answers about sets that several people judged.

    Attributes:
        spearman: its correlation with the scores.
        tie_half: its pairwise accuracy with ties counted half.
    """

    spearman: Correlation
    tie_half: Rate

    def to_json(self) -> dict[str, object]:
        """Return {"spearman", "tie_half"}."""
        return {"spearman": self.spearman.to_json(), "tie_half": self.tie_half.to_json()}


@dataclass(frozen=True)
class Ceiling:
    """What people reach, and what metrics reach on the same sets.

    Attributes:
        n_sets: how many of the judged sets somebody else judged too.
        n_participants: how many participants judged these.
        people: the mean score by the others.
        metrics: by name, each metric on the same sets and pairs.
        scores: Krippendorff's alpha of the scores, ordinal.
        preferences: that of the preferences, nominal, whichever side the sets were shown on.
    """

    n_sets: int
    n_participants: int
    people: Foretold
    metrics: Mapping[str, Foretold]
    scores: Agreement
    preferences: Agreement

    def to_json(self) -> dict[str, object]:
        """Return the counts, {"people", "metrics"} and {"alpha": {"scores", "preferences"}}."""
        return {
            "n_sets": self.n_sets,
            "n_participants": self.n_participants,
            "people": self.people.to_json(),
            "metrics": {name: each.to_json() for name, each in self.metrics.items()},
            "alpha": {"scores": self.scores.to_json(), "preferences": self.preferences.to_json()},
        }


def ceiling(release: Release, values: Mapping[str, pd.Series[float]], draws: Draws) -> Ceiling:
    """Measure the human ceiling of a release.

    Args:
        release: a release; it may be empty, or have nobody judge what somebody else judged.
        values: each metric's values by name, indexed by set_id, NaN where a set has none.
        draws: the resamples.

    Returns:
        The ceiling; NaN, with reasons, where nothing was judged by two people.
    """
    units = same_sets(release.sets)
    others = others_mean(release.sets, units)
    shared = release.sets[release.sets["set_id"].map(others).notna()]
    metrics = {name: own.where(others.reindex(own.index).notna()) for name, own in values.items()}
    return Ceiling(
        n_sets=len(shared),
        n_participants=int(shared["participant_id"].nunique()),
        people=_foretold(release, others, draws),
        metrics={name: _foretold(release, own, draws) for name, own in metrics.items()},
        scores=agreement(score_ratings(release.sets, units), "ordinal", seed=draws.seed),
        preferences=agreement(
            preference_ratings(release.preferences, units), "nominal", seed=draws.seed
        ),
    )


def same_sets(sets: pd.DataFrame) -> pd.Series[int]:
    """Number the retrieved sets, so that the same images for the same query have one number.

    Args:
        sets: (n, ...) with `set_id`, `query_id` and `image_ids`; the order of the images counts.

    Returns:
        (n,) numbers, indexed by set_id.
    """
    keys = list(zip(sets["query_id"], map(tuple, sets["image_ids"]), strict=True))
    codes = pd.factorize(pd.Series(keys, dtype=object))[0]
    return pd.Series(codes, index=sets["set_id"].to_numpy())


def others_mean(sets: pd.DataFrame, units: pd.Series[int]) -> pd.Series[float]:
    """Average what the other people said of each judged set.

    Args:
        sets: (n, ...) with `set_id`, `participant_id` and `score`.
        units: what `same_sets` returned.

    Returns:
        (n,) the mean over the other participants' judgements of the same retrieved set, indexed
        by set_id; NaN where nobody else judged it.
    """
    table = sets.assign(unit=units.to_numpy(), score=sets["score"].astype("float64"))
    total = table.groupby("unit")["score"]
    own = table.groupby(["unit", "participant_id"])["score"]
    n = total.transform("size") - own.transform("size")
    left = total.transform("sum") - own.transform("sum")
    means = (left / n.where(n > 0)).to_numpy(dtype=np.float64)
    return pd.Series(means, index=sets["set_id"].to_numpy())


def score_ratings(sets: pd.DataFrame, units: pd.Series[int]) -> pd.DataFrame:
    """Lay the scores out for `agreement`: raters, the sets they judged, clusters of a query."""
    return pd.DataFrame(
        {
            "rater": sets["participant_id"],
            "unit": sets["set_id"].map(units),
            "cluster": sets["query_id"],
            "value": sets["score"],
        }
    )


def preference_ratings(preferences: pd.DataFrame, units: pd.Series[int]) -> pd.DataFrame:
    """Lay the preferences out for `agreement`; a unit is a pair of sets, whichever came first.

    The value is 1 where the set with the lower number is preferred, 2 for the other, 0 for a tie.
    """
    one, two = preferences["set_1"].map(units), preferences["set_2"].map(units)
    pairs = pd.Series(
        list(zip(np.minimum(one, two), np.maximum(one, two), strict=True)), dtype=object
    )
    preferred = preferences["preferred"]
    turned = (3 - preferred).where(preferred != 0, 0)
    return pd.DataFrame(
        {
            "rater": preferences["participant_id"],
            "unit": pd.factorize(pairs)[0],
            "cluster": preferences["query_id"],
            "value": preferred.where(one <= two, turned),
        }
    )


def _foretold(release: Release, values: pd.Series[float], draws: Draws) -> Foretold:
    return Foretold(
        spearman(release.sets, values, draws),
        preference_rates(release.preferences, values, draws).tie_half,
    )
