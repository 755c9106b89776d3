"""`images`: how many images fit, by system, agreement, and false negatives of the labelled target.

An image fits if its level is above 0. People's answers about one image are aggregated by their
median (the lower of two); precision@k and nDCG@k are those of `ir_measures`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hsfiq.analysis.data.kind_release import JudgedRelease
from hsfiq.analysis.data.metrics import Metric
from hsfiq.analysis.data.release import read_frame
from hsfiq.analysis.json_results import UNDEFINED, FloatArray
from hsfiq.analysis.kinds.kind import Figures, KindStatistics, alpha_of, by_query, system_names
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate, group_means
from hsfiq.analysis.resampling.intervals import RATE

ALL = "all"


def figures(
    release: JudgedRelease, _metrics: Sequence[Metric], bootstrap: Bootstrap
) -> list[Figures]:
    images = relevance_of(release)
    labels = qrels(images)
    queries = by_query(release, bootstrap)
    return [
        share_that_fits(images, bootstrap),
        retrieval_quality(release.sets, labels, queries),
        agreement_on_images(images),
        false_negatives(release.queries, labels, queries),
    ]


def relevance_of(release: JudgedRelease) -> pd.DataFrame:
    """The table `relevance` of the questions analyzed, with the system's name."""
    table = read_frame(release.folder / "relevance.parquet")
    table = table[table["question_id"].isin(release.answers["question_id"])]
    return table.assign(system=system_names(table))


def qrels(images: pd.DataFrame) -> pd.DataFrame:
    """The level of each image of a query: `query_id`, `image_id`, `relevance`."""
    grouped = images.groupby(["query_id", "image_id"], sort=True)["relevance"]
    return grouped.quantile(0.5, interpolation="lower").astype(int).reset_index()


def share_that_fits(images: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    fits = fitting(images)
    systems = images["system"].to_numpy(object)
    shares = group_means(images, fits, systems, sorted(set(systems)), bootstrap, RATE)
    shares |= group_means(images, fits, np.full(len(images), ALL, object), [ALL], bootstrap, RATE)
    return Figures(
        "share_that_fits",
        "Images that fit, by system",
        "system",
        {name: {"share": share} for name, share in shares.items()},
        "The share of the answers about an image with a level above 0.",
    )


def retrieval_quality(
    sets: pd.DataFrame, labels: pd.DataFrame, resampled_queries: Bootstrap
) -> Figures:
    """precision@k and nDCG@k of each system's sets, with people's levels as the labels."""
    judged = sets.assign(system=system_names(sets)).drop_duplicates(["query_id", "system"])
    k = min((len(images) for images in judged["image_ids"]), default=0)
    judged_labels = labels.rename(columns={"image_id": "doc_id"})
    rows: dict[str, dict[str, Estimate]] = {}
    for system, of_system in judged.groupby("system", sort=True):
        values = per_query(of_system, judged_labels, k)
        rows[str(system)] = {
            name: mean_over_queries(of_system, values[name], resampled_queries) for name in values
        }
    return Figures(
        "retrieval_quality",
        "Retrieval quality by people's labels",
        "system",
        rows,
        "Means over queries, intervals by resampling them; an unjudged image counts as not "
        "fitting, and the ideal list consists of the judged images. If no image fits, both "
        "measures are 0.",
    )


def per_query(
    of_system: pd.DataFrame, labels: pd.DataFrame, k: int
) -> Mapping[str, Mapping[str, float]]:
    """Each measure's value by query."""
    import ir_measures  # noqa: PLC0415
    from ir_measures import (  # noqa: PLC0415
        P,
        nDCG,
    )

    run = pd.DataFrame(
        [
            (str(query), image, float(-rank))
            for query, images in zip(of_system["query_id"], of_system["image_ids"], strict=True)
            for rank, image in enumerate(images)
        ],
        columns=["query_id", "doc_id", "score"],
    )
    measures = {str(measure): measure for measure in (P @ k, nDCG @ k)}
    values: dict[str, dict[str, float]] = {name: {} for name in measures}
    for result in ir_measures.iter_calc(list(measures.values()), labels, run):
        values[str(result.measure)][result.query_id] = float(result.value)
    return values


def mean_over_queries(
    of_system: pd.DataFrame, values: Mapping[str, float], resampled_queries: Bootstrap
) -> Estimate:
    numbers = np.array([values[str(query)] for query in of_system["query_id"]])
    everything = np.full(len(of_system), ALL, object)
    return group_means(of_system, numbers, everything, [ALL], resampled_queries, RATE)[ALL]


def agreement_on_images(images: pd.DataFrame) -> Figures:
    units = images["query_id"].astype(str) + "\t" + images["image_id"].astype(str)
    ratings = pd.DataFrame(
        {
            "rater": images["participant_id"],
            "unit": pd.factorize(units)[0],
            "cluster": images["query_id"],
            "value": images["relevance"],
        }
    )
    return Figures(
        "agreement",
        "Agreement between people",
        "answers",
        {"images": {"alpha": alpha_of(ratings, "ordinal")}},
        "Krippendorff's alpha, ordinal, over images that two or more people judged for a query.",
    )


def false_negatives(
    queries: pd.DataFrame, labels: pd.DataFrame, resampled_queries: Bootstrap
) -> Figures:
    """How many images besides the labelled target fit, and whether the target does."""
    targets = labels["query_id"].map(queries.set_index("query_id")["target_id"])
    known = labels[targets.notna()]
    is_target = (known["image_id"] == targets[targets.notna()]).to_numpy()
    fits = fitting(known)
    others, own = known[~is_target], known[is_target]
    with_one = others.assign(fits=fits[~is_target]).groupby("query_id")[["fits"]].max()
    with_one = with_one.reset_index()
    rows = {
        "other images that fit": share_of(others, fits[~is_target], resampled_queries),
        "queries with such an image": share_of(
            with_one, with_one["fits"].to_numpy(np.float64), resampled_queries
        ),
        "labelled targets that fit": share_of(own, fits[is_target], resampled_queries),
    }
    return Figures(
        "false_negatives",
        "False negatives of the labelled target",
        "images judged",
        {name: {"share": share} for name, share in rows.items()},
        "For queries with a labelled target: a judged image that fits and is not the target is a "
        "false negative of Recall@k. n counts images or queries.",
    )


def fitting(images: pd.DataFrame) -> FloatArray:
    """(n,) of 1 for an image that fits and 0 for the others."""
    return np.where(images["relevance"].to_numpy() > 0, 1.0, 0.0)


def share_of(rows: pd.DataFrame, values: FloatArray, resampled_queries: Bootstrap) -> Estimate:
    if not len(rows):
        return Estimate(UNDEFINED, 0, None, "no such image was judged")
    everything = np.full(len(rows), ALL, object)
    return group_means(rows, values, everything, [ALL], resampled_queries, RATE)[ALL]


IMAGES = KindStatistics(main="judgements", columns=("set_id",), figures=figures, has_metrics=False)
