"""Before and after a retraining, on what was held out: what got worse comes first.

The statistics are those of `hsfiq analyze`; all intervals resample participants, the same ones for
before and after, and a difference is after - before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.data.answers import subset
from hsfiq.analysis.data.release import Release, read_release
from hsfiq.analysis.figures import figure
from hsfiq.analysis.resampling.draws import Draws
from hsfiq.analysis.resampling.shares import resampled_shares, shares
from hsfiq.analysis.statistics.compare import compare_all
from hsfiq.analysis.statistics.correlation import spearman
from hsfiq.analysis.statistics.margin import margins
from hsfiq.analysis.statistics.preference import preference_rates

Moment = Literal["before", "after"]
Array = NDArray[np.float64]

MOMENTS: tuple[Moment, ...] = ("before", "after")
BINS = 10
"""Of the reliability table, from P = 0 to 1."""


@dataclass(frozen=True, eq=False)
class Judge:
    """What a scorer says of the release.

    Attributes:
        scores: of the sets, by set_id.
        shares: P(set 1 preferred), side bias and all, by question_id.
    """

    scores: Mapping[str, float]
    shares: Mapping[str, float]


def held_out_report(
    folder: Path, questions: Sequence[str], judges: Mapping[Moment, Judge], seed: int
) -> dict[str, Any]:
    """Measure both scorers on some questions of a release.

    Args:
        folder: the release's.
        questions: the held-out ones' ids; those without scores are left out, and counted.
        judges: before and after.
        seed: of the resamples.

    Returns:
        {"n_questions", "n_without_scores", "n_participants", "figures" (worse ones first),
        "accuracy_by_margin", "calibration"}.

    Raises:
        AnalysisError: the release's tables do not fit together.
    """
    whole = read_release(folder)
    asked = whole.preferences["question_id"]
    scored = asked.isin(list(judges["after"].shares))
    kept = asked.isin(list(questions)) & scored
    release = subset(whole, kept)
    draws = Draws.of(release, seed=seed)
    values = {name: pd.Series(judges[name].scores, dtype="float64") for name in MOMENTS}
    calibrations = calibration(release, judges, draws)
    return {
        "n_questions": len(release.preferences),
        "n_without_scores": len(set(questions)) - len(release.preferences),
        "n_participants": release.n_participants,
        "figures": worse_first([*agreement(release, values, draws), calibrations.pop("figure")]),
        "accuracy_by_margin": {
            name: margins(release.preferences, values[name], draws).to_json() for name in MOMENTS
        },
        "calibration": calibrations,
    }


def agreement(
    release: Release, values: Mapping[Moment, pd.Series[float]], draws: Draws
) -> list[dict[str, Any]]:
    """Spearman's rho with the scores, and the pairwise accuracy with ties counted half."""
    (comparison,) = compare_all(
        release, {name: values[name] for name in ("after", "before")}, draws
    )
    rhos = {name: spearman(release.sets, values[name], draws).to_json() for name in MOMENTS}
    halves = {
        name: preference_rates(release.preferences, values[name], draws).tie_half.to_json()
        for name in MOMENTS
    }
    return [
        compared("spearman.rho", "higher", rhos, "rho", comparison.spearman.to_json()),
        compared("tie_half", "higher", halves, "rate", comparison.tie_half.to_json()),
    ]


def compared(
    name: str,
    better: Literal["higher", "lower"],
    found: Mapping[Moment, Mapping[str, Any]],
    key: str,
    difference: Mapping[str, Any],
) -> dict[str, Any]:
    """One figure before and after, and its difference with the interval of that."""
    sides: dict[str, Any] = {
        moment: {"value": found[moment][key], "ci": found[moment]["ci"]} for moment in MOMENTS
    }
    change = {"value": difference["difference"], "ci": difference["ci"]}
    reasons = {"reason": difference["reason"]} if "reason" in difference else {}
    return {"name": name, "better": better, **sides, "difference": {**change, **reasons}}


def worse_first(figures: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures by how much was gained, losses first; undefined ones at the end."""

    def gain(one: Mapping[str, Any]) -> float:
        change = one["difference"]["value"]
        if change is None:
            return float("inf")
        return float(change if one["better"] == "higher" else -change)

    return sorted(figures, key=gain)


# ------------------------------------------------------------------------------------ calibration


def calibration(release: Release, judges: Mapping[Moment, Judge], draws: Draws) -> dict[str, Any]:
    """Brier score and reliability table of P(set 1 preferred), over the answers that prefer one.

    Returns:
        {"n", "human_ties", "before", "after", "figure"}: the last is the Brier score's entry.
    """
    rows = release.preferences[release.preferences["preferred"] != 0]
    hits: Array = np.asarray(rows["preferred"] == 1, dtype=np.float64)  # [n]
    said: dict[Moment, Array] = {
        name: np.asarray(rows["question_id"].map(judges[name].shares), dtype=np.float64)
        for name in MOMENTS
    }
    errors: Array = np.stack([(said[name] - hits) ** 2 for name in MOMENTS], axis=1)  # [n, 2]
    means = shares(errors.sum(axis=0), np.full(2, float(len(rows))))
    drawn = resampled_shares(draws, rows, errors, np.ones_like(errors))  # [R, 2]
    brier = {
        name: {"value": figure(float(means[i])), **draws.interval(drawn[:, i], rows).to_json()}
        for i, name in enumerate(MOMENTS)
    }
    change = draws.interval(drawn[:, 1] - drawn[:, 0], rows).to_json()
    difference = {"difference": figure(float(means[1] - means[0])), **change}
    return {
        "n": len(rows),
        "human_ties": len(release.preferences) - len(rows),
        **{name: {"bins": reliability_table(rows, said[name], hits, draws)} for name in MOMENTS},
        "figure": compared("brier", "lower", brier, "value", difference),
    }


def reliability_table(
    rows: pd.DataFrame, said: Array, hits: Array, draws: Draws
) -> list[dict[str, Any]]:
    """How often set 1 was preferred where a scorer said about so; bins without answers left out.

    Args:
        rows: (n, ...) the questions.
        said: (n,) P(set 1 preferred).
        hits: (n,) 1 where it was, else 0.
        draws: of the release.
    """
    places = np.minimum((said * BINS).astype(np.int64), BINS - 1)  # [n]
    inside = (places[:, None] == np.arange(BINS)).astype(np.float64)  # [n, BINS]
    drawn = resampled_shares(draws, rows, inside * hits[:, None], inside)  # [R, BINS]
    return [
        {
            "low": place / BINS,
            "high": (place + 1) / BINS,
            "n": int(inside[:, place].sum()),
            "said": float(said[places == place].mean()),
            "preferred": float(hits[places == place].mean()),
            "ci": draws.interval(drawn[:, place], rows[places == place]).to_json()["ci"],
        }
        for place in range(BINS)
        if inside[:, place].any()
    ]


# -------------------------------------------------------------------------------------- retrieval


def retrieval(
    ranks: Mapping[Moment, Mapping[str, Sequence[int]]], ks: Sequence[int], seed: int
) -> dict[str, Any]:
    """Recall@k of validation triplets before and after, the mean over the corpora.

    Args:
        ranks: the target's rank for each triplet, by corpus; the same triplets in both.
        ks: of recall@k.
        seed: of the resamples, of triplets.

    Returns:
        {"n_triplets", "figures" (worse ones first)}.
    """
    corpora = list(ranks["before"])
    sizes = [len(ranks["before"][name]) for name in corpora]
    rows = pd.DataFrame({"corpus": np.repeat(corpora, sizes)})
    inside = (rows["corpus"].to_numpy()[:, None] == np.array(corpora)).astype(np.float64)  # [n, C]
    draws = Draws.of_rows(rows, unit="row", seed=seed)
    places = {name: np.concatenate([list(ranks[name][it]) for it in corpora]) for name in MOMENTS}
    figures = []
    for k in ks:
        hits = {name: inside * (places[name] <= k)[:, None] for name in MOMENTS}
        drawn = {
            name: resampled_shares(draws, rows, hits[name], inside).mean(axis=1) for name in MOMENTS
        }
        means = {
            name: float(shares(hits[name].sum(axis=0), inside.sum(axis=0)).mean())
            for name in MOMENTS
        }
        sides = {
            name: {"value": means[name], **draws.interval(drawn[name]).to_json()}
            for name in MOMENTS
        }
        change = draws.interval(drawn["after"] - drawn["before"]).to_json()
        difference = {"difference": means["after"] - means["before"], **change}
        figures.append(compared(f"recall@{k}", "higher", sides, "value", difference))
    return {"n_triplets": len(rows), "figures": worse_first(figures)}
