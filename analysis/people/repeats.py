"""Agreement of people with themselves: two answers by one person about the same two sets.

They come from repeated questions (the release's table `repeats`) and from sets that a participant
was shown twice, such as those of a triplet with its captions in either order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.counts import count_text
from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.people.agreement import MIN_UNITS
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.spread import CORRELATION, RATE

ANSWER = ["score_1", "score_2", "preferred"]
ALL_THE_SAME = "all scores are the same"


@dataclass(frozen=True)
class IntraRater(JsonRecord):
    """How far people give the same answer again.

    Attributes:
        n: the number of pairs of answers.
        same_preference: the share of the pairs with the same preferred set.
        kappa: Cohen's kappa of the two scores of a set with quadratic weights; n counts sets.
    """

    n: int
    n_participants: int
    same_preference: Estimate
    kappa: Estimate


def intra_rater(release: Release, bootstrap: Bootstrap) -> IntraRater:
    """Compare people's repeated answers; NaN, with a reason, for fewer than `MIN_UNITS` pairs."""
    pairs = repeated_answers(release)
    n, n_participants = len(pairs), int(pairs["participant_id"].nunique())
    if n < MIN_UNITS:
        reason = (
            f"{count_text(n, 'question')} answered twice by the same person; at least {MIN_UNITS} "
            "are needed"
        )
        nothing = Estimate(UNDEFINED, n, None, reason)
        return IntraRater(n, n_participants, nothing, nothing)
    same = (pairs["preferred"] == pairs["preferred_again"]).to_numpy(np.float64)
    shares = bootstrap.ratios(pairs, same[:, None], np.ones((n, 1)))[:, 0]
    share = Estimate(float(same.mean()), n, bootstrap.interval(shares, pairs, bounds=RATE))
    return IntraRater(n, n_participants, share, _kappa(pairs, bootstrap))


def repeated_answers(release: Release) -> pd.DataFrame:
    """Pairs of answers by one person about the same two sets.

    Columns: participant_id, query_id; score_1, score_2 and preferred of the first answer, and with
    `_again` those of the second, with the sides of the first.
    """
    preferences = release.preferences
    columns = ["question_id", "participant_id", "query_id", *ANSWER]
    units = release.units
    first, second = (looked_up(preferences[side], units) for side in ("set_1", "set_2"))
    answers = preferences[columns].assign(
        low=np.minimum(first, second), high=np.maximum(first, second), swapped=first > second
    )
    answers = answers[answers["low"] != answers["high"]]  # else the sides are not known
    keys = ["participant_id", "low", "high"]
    is_later = answers.duplicated(keys)
    pairs = [_no_pairs(preferences)]
    if is_later.any():  # seldom, and the joins take several times as long as all of the above
        firsts = answers[~is_later]
        later = mirrored(answers[is_later].merge(firsts, on=keys, suffixes=("", "_1")))
        pairs = [_side_by_side(firsts, later.rename(columns={"question_id_1": "repeated_id"}))]
    if release.repeats is not None:
        pairs.append(_side_by_side(preferences[columns], release.repeats))
    return pd.concat(pairs, ignore_index=True)


def _no_pairs(preferences: pd.DataFrame) -> pd.DataFrame:
    """What `_side_by_side` returns if no question was answered again."""
    none = preferences[["participant_id", "query_id", *ANSWER]].head(0)
    return none.assign(**{f"{name}_again": none[name] for name in ANSWER})


def mirrored(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers with the sides of the first one, where those differ (`swapped`, `swapped_1`)."""
    turned = answers["swapped"] != answers["swapped_1"]
    preferred = answers["preferred"].mask(
        turned & (answers["preferred"] != 0), 3 - answers["preferred"]
    )
    return answers.assign(
        score_1=answers["score_1"].mask(turned, answers["score_2"]),
        score_2=answers["score_2"].mask(turned, answers["score_1"]),
        preferred=preferred,
    )


def _side_by_side(first: pd.DataFrame, again: pd.DataFrame) -> pd.DataFrame:
    columns = ["question_id", "participant_id", "query_id", *ANSWER]
    joined = first[columns].merge(
        again[["repeated_id", *ANSWER]].rename(columns={"repeated_id": "question_id"}),
        on="question_id",
        suffixes=("", "_again"),
    )
    return joined.drop(columns="question_id")


def _kappa(pairs: pd.DataFrame, bootstrap: Bootstrap) -> Estimate:
    first = pairs[["score_1", "score_2"]].to_numpy(np.float64)
    again = pairs[["score_1_again", "score_2_again"]].to_numpy(np.float64)
    n = first.size
    if np.ptp(np.concatenate([first, again])) == 0:
        return Estimate(UNDEFINED, n, None, ALL_THE_SAME)
    columns = _sums(first, again)
    kappa = float(weighted_kappa(columns.sum(axis=0)[None])[0])
    resampled = weighted_kappa(bootstrap.totals(pairs, columns))
    return Estimate(kappa, n, bootstrap.interval(resampled, pairs, bounds=CORRELATION))


def _sums(first: FloatArray, again: FloatArray) -> FloatArray:
    """What each pair adds to the sums of `weighted_kappa`, (n, 5)."""
    by_set = [np.ones_like(first), (first - again) ** 2, first, again, first**2 + again**2]
    return np.stack([each.sum(axis=1) for each in by_set], axis=1)


def weighted_kappa(sums: FloatArray) -> FloatArray:
    """Cohen's kappa with quadratic weights (Cohen 1968) of scores x and y, (m, 5) -> (m,).

    1 - mean (x - y)^2 / (mean x^2 + mean y^2 - 2 mean x mean y), where the denominator is the mean
    of (x - y)^2 if x and y were independent. The sums are of 1, (x - y)^2, x, y and x^2 + y^2.
    """
    n, squared, x, y, squares = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = squares / n - 2 * (x / n) * (y / n)
        kappa: FloatArray = 1 - (squared / n) / expected
    kappa[~(expected > 1e-12)] = np.nan
    return kappa
