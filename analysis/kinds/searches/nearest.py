"""Which image of a list people mark as nearest, and whether systems and scorers agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.judged import JudgedRelease
from hsfiq.analysis.data.metrics import Metric, ScoreColumn
from hsfiq.analysis.data.scores import read_image_scores
from hsfiq.analysis.kinds.kind import Figures
from hsfiq.analysis.kinds.searches.systems import means_by_system, transposed
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.spread import RATE

NO_MARK = "no participant has marked an image"
NO_SCORES = "no list with a marked image has a score for each image"
NO_TARGET = "no list with a marked image has the target"


def figures(
    release: JudgedRelease, metrics: Sequence[Metric], bootstrap: Bootstrap
) -> list[Figures]:
    lists = release.sets.dropna(subset=["score"])
    place = lists["nearest_place"].to_numpy(np.float64)
    is_marked = ~np.isnan(place)
    columns = {
        "any image": (is_marked.astype(np.float64), NO_MARK),
        "the system's first": (equal_to(place, np.ones(len(lists))), NO_MARK),
        "a random one": (np.where(is_marked, 1 / lists["n_images"].to_numpy(), np.nan), NO_MARK),
        "the target, if listed": (equal_to(place, target_places(release, lists)), NO_TARGET),
    }
    for metric in metrics:
        if isinstance(metric, ScoreColumn) and metric.name in release.scores:
            scores = read_image_scores(release.scores[metric.name], release.whole.sets)
            if scores:
                best = best_places(lists, scores)
                columns[f"{metric.name}'s first"] = (equal_to(place, best), NO_SCORES)
    means = {
        title: means_by_system(lists, values, bootstrap, RATE, reason)
        for title, (values, reason) in columns.items()
    }
    return [
        Figures(
            "nearest",
            "Which image people mark as nearest, by system",
            "system",
            transposed(means),
            "Shares of the lists that were judged in which any image was marked; and, of those, in "
            "which it is this one. A random one: how often a random image of the list would be. A "
            "scorer's first has the highest score for the turn's reference and text.",
        )
    ]


def equal_to(place: FloatArray, other: FloatArray) -> FloatArray:
    """(n,) of 1 and 0, NaN where either is unknown."""
    return np.where(np.isnan(place + other), np.nan, place == other)


def target_places(release: JudgedRelease, lists: pd.DataFrame) -> FloatArray:
    """Where the target is in each list, from 1; NaN if it is not there, or has no rank."""
    targets = release.queries.set_index("query_id")["target_id"]
    wanted = lists["query_id"].map(targets).where(lists["rank"].notna())
    return np.array(
        [
            list(images).index(target) + 1
            if isinstance(target, str) and target in images
            else np.nan
            for images, target in zip(lists["image_ids"], wanted, strict=True)
        ],
        dtype=np.float64,
    )


def best_places(lists: pd.DataFrame, scores: Mapping[tuple[str, str], float]) -> FloatArray:
    """The place of each list's image with the highest score; NaN unless all images have one."""
    places = []
    for set_id, images in zip(lists["set_id"], lists["image_ids"], strict=True):
        own = [scores.get((set_id, image), np.nan) for image in images]
        places.append(np.nan if np.isnan(own).any() else float(np.argmax(own)) + 1)
    return np.array(places, dtype=np.float64)
