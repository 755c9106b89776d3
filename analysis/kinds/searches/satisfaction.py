"""Satisfaction with the lists: by turn, and what it goes with.

Lists improve and people tire or warm to a search, so a rank that correlates with satisfaction over
all lists may only say that both change with the turn. `changes` compares successive lists of one
search, and the correlation within searches leaves out what differs between searches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import BoolArray, FloatArray
from hsfiq.analysis.data.judged import JudgedRelease
from hsfiq.analysis.data.metrics import Metric
from hsfiq.analysis.json_values import UNDEFINED
from hsfiq.analysis.kinds.kind import Figures
from hsfiq.analysis.kinds.searches.systems import means_by_system
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.spread import CORRELATION, SATISFACTION
from hsfiq.analysis.statistics.correlation import spearman, within_participant

RANK, TURN = "rank of the target", "turn"
NO_WITHIN = "no search has two lists in which neither side is constant"
NO_CHANGE = "no search has two such lists"


def figures(
    release: JudgedRelease, metrics: Sequence[Metric], bootstrap: Bootstrap
) -> list[Figures]:
    judged = release.sets.dropna(subset=["score"])
    values = {
        RANK: judged.set_index("set_id")["rank"].astype(np.float64),
        TURN: judged.set_index("set_id")["turn"].astype(np.float64),
        **{str(metric): metric.values(release) for metric in metrics},
    }
    return [by_turn(judged, bootstrap), correlations(judged, values, bootstrap)] + (
        [changes(judged, bootstrap)] if judged["rank"].notna().any() else []
    )


def by_turn(judged: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    rows = {
        str(turn): means_by_system(own, own["score"].to_numpy(np.float64), bootstrap, SATISFACTION)
        for turn, own in judged.groupby("turn", sort=True)
    }
    return Figures(
        "satisfaction",
        "Satisfaction by turn",
        "turn",
        rows,
        "Means from 1 to 5, over the searches that have this turn: later turns lack the searches "
        "that ended before.",
    )


def correlations(
    judged: pd.DataFrame, values: Mapping[str, pd.Series[float]], bootstrap: Bootstrap
) -> Figures:
    rows = {}
    for name, own in values.items():
        pooled = spearman(judged, own, bootstrap)
        people = within_participant(judged, own, bootstrap)
        rows[name] = {
            "all lists": Estimate(pooled.rho, pooled.n, pooled.ci, pooled.reason),
            "within participants": Estimate(
                people.mean, people.n_participants, people.mean_ci, people.mean_reason
            ),
            "within searches": within_searches(judged, own, bootstrap),
        }
    return Figures(
        "correlation",
        "What satisfaction goes with",
        "of the list",
        rows,
        "Spearman's rank correlation with satisfaction: over all lists; the mean of the "
        "participants' own, of those with three lists or more; and the mean of the searches' own, "
        "of those with two lists or more. n counts lists, participants and searches. A better rank "
        "is a lower one, so a negative correlation with it says that better lists satisfy more.",
    )


def within_searches(
    judged: pd.DataFrame, values: pd.Series[float], bootstrap: Bootstrap
) -> Estimate:
    """The mean of the searches' own correlations."""
    table = judged.assign(value=judged["set_id"].map(values)).dropna(subset=["value"])
    rhos = search_rhos(table)
    if not len(rhos):
        return Estimate(UNDEFINED, 0, None, NO_WITHIN)
    of_search = table.drop_duplicates("question_id").set_index("question_id")
    rows = of_search.loc[rhos.index, ["participant_id", "query_id"]].reset_index()
    column: FloatArray = np.asarray(rhos, dtype=np.float64)[:, None]
    resampled = bootstrap.ratios(rows, column, np.ones(column.shape))[:, 0]
    ci = bootstrap.interval(resampled, rows, bounds=CORRELATION)
    return Estimate(float(column.mean()), len(rows), ci)


def search_rhos(table: pd.DataFrame) -> pd.Series[float]:
    """Spearman's rho of each search with two lists or more and neither side constant."""
    searches = table["question_id"]
    ranks = table.groupby("question_id")[["value", "score"]].rank()
    ranks -= ranks.groupby(searches).transform("mean")
    x, y = ranks["value"], ranks["score"]
    sums = pd.DataFrame({"xy": x * y, "xx": x**2, "yy": y**2}).groupby(searches).sum()
    sums = sums[(sums["xx"] > 0) & (sums["yy"] > 0)]
    return sums["xy"] / np.sqrt(sums["xx"] * sums["yy"])


def changes(judged: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    """How satisfaction changes from a list to the next one of a search, by what the rank does."""
    ordered = judged.dropna(subset=["rank"]).sort_values(["question_id", "turn"], kind="stable")
    steps = ordered.groupby("question_id")[["score", "rank", "turn"]].diff()
    follows = (steps["turn"] == 1).to_numpy()
    rows, steps = ordered[follows], steps[follows]
    change = steps["score"].to_numpy(np.float64)
    direction = np.sign(steps["rank"].to_numpy(np.float64))
    bounds = (SATISFACTION[0] - SATISFACTION[1], SATISFACTION[1] - SATISFACTION[0])
    return Figures(
        "changes",
        "Change of satisfaction from one list to the next",
        "rank of the target",
        {
            title: means_by_system(
                rows, only(change, direction == sign), bootstrap, bounds, NO_CHANGE
            )
            for title, sign in (("better", -1), ("the same", 0), ("worse", 1))
        },
        "Means over successive lists of a search. A rise while the rank is the same or worse does "
        "not come from the list.",
    )


def only(values: FloatArray, included: BoolArray) -> FloatArray:
    return np.where(included, values, np.nan)
