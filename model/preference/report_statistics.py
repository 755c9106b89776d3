"""The statistics of a retraining's report. Needs the `analysis` extra.

They are computed as by `hsfiq analyze`. All intervals resample participants, the same before and
after; a difference is after - before, and figures that got worse come first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.data.release import Release, read_release
from hsfiq.analysis.json_results import json_number
from hsfiq.analysis.resampling.bootstrap import Bootstrap, ratio
from hsfiq.analysis.resampling.intervals import RATE
from hsfiq.analysis.statistics.accuracy import margins
from hsfiq.analysis.statistics.comparison import compare_all
from hsfiq.analysis.statistics.correlation import spearman
from hsfiq.analysis.statistics.preference import preference_rates

Array = NDArray[np.float64]

STAGES = ("before", "after")
BINS = 10
"""Of the reliability table, from P = 0 to 1."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Scores by set_id, and P(set 1 preferred), with side bias, by question_id."""

    scores: Mapping[str, float]
    shares: Mapping[str, float]


def measure_agreement(
    folder: Path, questions: Sequence[str], predictions: Mapping[str, Predictions], seed: int
) -> dict[str, Any]:
    """Compare both scorers on some questions of a release.

    Args:
        questions: ids of the held-out ones; any without predictions is left out, and counted.
        predictions: by stage.

    Returns:
        {"n_questions", "n_without_scores", "n_participants", "figures" (worst change first),
        "accuracy_by_margin", "calibration"}.
    """
    complete = read_release(folder)
    ids = complete.preferences["question_id"]
    scored = ids.isin(list(predictions["after"].shares))
    release = complete.subset(ids.isin(list(questions)) & scored)
    draws = Bootstrap.of_release(release, seed=seed)
    values = {name: pd.Series(predictions[name].scores, dtype="float64") for name in STAGES}
    calibrations = calibration(release, predictions, draws)
    return {
        "n_questions": len(release.preferences),
        "n_without_scores": len(set(questions)) - len(release.preferences),
        "n_participants": release.n_participants,
        "figures": worst_first([*agreement(release, values, draws), *calibrations.pop("figures")]),
        "accuracy_by_margin": {
            name: margins(release.preferences, values[name], draws).to_json() for name in STAGES
        },
        "calibration": calibrations,
    }


def agreement(
    release: Release, values: Mapping[str, pd.Series[float]], draws: Bootstrap
) -> list[dict[str, Any]]:
    """Spearman's rho with the Likert scores, and pairwise accuracy with ties counted half."""
    (comparison,) = compare_all(
        release, {name: values[name] for name in ("after", "before")}, draws
    )
    rhos = {name: spearman(release.sets, values[name], draws).to_json() for name in STAGES}
    halves = {
        name: preference_rates(release.preferences, values[name], draws).tie_half.to_json()
        for name in STAGES
    }
    return [
        compared("spearman.rho", "higher", rhos, "rho", comparison.spearman.to_json()),
        compared("tie_half", "higher", halves, "rate", comparison.tie_half.to_json()),
    ]


def compared(
    name: str,
    better: Literal["higher", "lower"],
    estimates: Mapping[str, Mapping[str, Any]],
    key: str,
    difference: Mapping[str, Any],
) -> dict[str, Any]:
    """A figure before and after, and its difference, each with an interval."""
    sides = {
        stage: {"value": estimates[stage][key], "ci": estimates[stage]["ci"]} for stage in STAGES
    }
    change = {"value": difference["difference"], "ci": difference["ci"]}
    if "reason" in difference:
        change["reason"] = difference["reason"]
    return {"name": name, "better": better, **sides, "difference": change}


def worst_first(figures: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures by their gain, losses first; undefined ones at the end."""

    def gain(entry: Mapping[str, Any]) -> float:
        change = entry["difference"]["value"]
        if change is None:
            return float("inf")
        return float(change if entry["better"] == "higher" else -change)

    return sorted(figures, key=gain)


def calibration(
    release: Release, predictions: Mapping[str, Predictions], draws: Bootstrap
) -> dict[str, Any]:
    """The accuracy of the probabilities that set 1 is preferred, over the answers without ties.

    In {"n", "human_ties", "before", "after", "figures"}, the last are the entries of the Brier
    score and of the expected calibration error (Naeini et al. 2015, with `BINS` equal bins), which
    is above 0 for right probabilities, too, the more so the fewer answers there are.
    """
    rows = release.preferences[release.preferences["preferred"] != 0]
    hits: Array = np.asarray(rows["preferred"] == 1, dtype=np.float64)  # [n]
    predicted: dict[str, Array] = {
        name: np.asarray(rows["question_id"].map(predictions[name].shares), dtype=np.float64)
        for name in STAGES
    }
    errors = {name: (predicted[name] - hits)[:, None] for name in STAGES}  # [n, 1]
    squares = {name: errors[name] ** 2 for name in STAGES}  # [n, 1]
    surplus = {name: errors[name] * inside_bins(predicted[name]) for name in STAGES}  # [n, BINS]
    tables = {name: reliability_table(rows, predicted[name], hits, draws) for name in STAGES}
    return {
        "n": len(rows),
        "human_ties": len(release.preferences) - len(rows),
        **{name: {"bins": bins} for name, bins in tables.items()},
        "figures": [
            absolute_error("brier", rows, squares, draws),
            absolute_error("ece", rows, surplus, draws),
        ],
    }


def absolute_error(
    name: str, rows: pd.DataFrame, errors: Mapping[str, Array], draws: Bootstrap
) -> dict[str, Any]:
    """The figure of the sum over columns of |mean error|, of errors [n, columns] by stage."""
    n = np.full(errors["after"].shape[1], float(len(rows)))  # [columns]
    means = {stage: float(np.abs(ratio(own.sum(axis=0), n)).sum()) for stage, own in errors.items()}
    drawn = {
        stage: np.abs(draws.ratios(rows, own, np.ones_like(own))).sum(axis=1)  # [R]
        for stage, own in errors.items()
    }
    figures = {
        stage: {
            "value": json_number(means[stage]),
            **draws.interval(each, rows, bounds=RATE).to_json(),
        }
        for stage, each in drawn.items()
    }
    change = draws.interval(drawn["after"] - drawn["before"], rows).to_json()
    difference = {"difference": json_number(means["after"] - means["before"]), **change}
    return compared(name, "lower", figures, "value", difference)


def inside_bins(predicted: Array) -> Array:
    """1 where a probability lies in a bin: [n] -> [n, BINS]."""
    places = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)  # [n]
    inside: Array = (places[:, None] == np.arange(BINS)).astype(np.float64)
    return inside


def reliability_table(
    rows: pd.DataFrame, predicted: Array, hits: Array, draws: Bootstrap
) -> list[dict[str, Any]]:
    """How often set 1 was preferred, by bins of the predicted probability; empty bins left out.

    Of n questions: [n] predicted P(set 1 preferred), and [n] hits, 1 if it was and 0 if not.
    """
    inside = inside_bins(predicted)  # [n, BINS]
    drawn = draws.ratios(rows, inside * hits[:, None], inside)  # [R, BINS]
    return [
        {
            "low": place / BINS,
            "high": (place + 1) / BINS,
            "n": int(inside[:, place].sum()),
            "said": float(predicted[inside[:, place] > 0].mean()),
            "preferred": float(hits[inside[:, place] > 0].mean()),
            "ci": draws.interval(
                drawn[:, place], rows[inside[:, place] > 0], bounds=RATE
            ).to_json()["ci"],
        }
        for place in range(BINS)
        if inside[:, place].any()
    ]


def measure_recall(
    ranks: Mapping[str, Mapping[str, Sequence[int]]], ks: Sequence[int], seed: int
) -> dict[str, Any]:
    """Recall@k of validation triplets before and after, the mean over the corpora.

    Args:
        ranks: by stage and corpus, the rank of each triplet's target; the same triplets in both.

    Returns:
        {"n_triplets", "figures" (worst change first)}.
    """
    corpora = list(ranks["before"])
    sizes = [len(ranks["before"][name]) for name in corpora]
    rows = pd.DataFrame({"corpus": np.repeat(corpora, sizes)})
    inside = (rows["corpus"].to_numpy()[:, None] == np.array(corpora)).astype(np.float64)  # [n, C]
    draws = Bootstrap.of_rows(rows, unit="row", seed=seed)
    places = {
        name: np.concatenate([list(ranks[name][corpus]) for corpus in corpora]) for name in STAGES
    }
    figures = []
    for k in ks:
        hits = {name: inside * (places[name] <= k)[:, None] for name in STAGES}
        drawn = {name: draws.ratios(rows, hits[name], inside).mean(axis=1) for name in STAGES}
        means = {
            name: float(ratio(hits[name].sum(axis=0), inside.sum(axis=0)).mean()) for name in STAGES
        }
        sides = {
            name: {"value": means[name], **draws.interval(drawn[name], bounds=RATE).to_json()}
            for name in STAGES
        }
        change = draws.interval(drawn["after"] - drawn["before"]).to_json()
        difference = {"difference": means["after"] - means["before"], **change}
        figures.append(compared(f"recall@{k}", "higher", sides, "value", difference))
    return {"n_triplets": len(rows), "figures": worst_first(figures)}
