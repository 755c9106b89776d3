"""Position bias: whether people prefer a set because it is shown as set 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.interval import ConfidenceInterval
from hsfiq.analysis.resampling.spread import RATE
from hsfiq.analysis.statistics import preference


@dataclass(frozen=True)
class PositionBias(JsonRecord):
    """P(set 1 preferred) against one half, over the n questions with a preference.

    Attributes:
        p: two-sided exact binomial test of rate = 1/2.
        human_ties: the number of questions excluded because neither set is preferred.
        p_clustered: two-sided exact sign-flip test over the participants (see `sign_flip_p`).
        n_participants: the number of participants with a preference.
        ci: the clustered interval of rate; None without a bootstrap.
    """

    rate: float
    n: int
    p: float
    human_ties: int
    p_clustered: float
    n_participants: int
    ci: ConfidenceInterval | None = None
    reason: str | None = None


def position_bias(preferences: pd.DataFrame, bootstrap: Bootstrap | None = None) -> PositionBias:
    """Measure the position bias; NaN, with a reason, if no question has a preference.

    `preferences` (n, ...) have `participant_id`, `preferred` (1, 2, or 0 for a human tie) and, for
    the bootstrap, `query_id`.
    """
    rows, set_1, _ = preference.usable_pairs(preferences)
    n, n_set_1 = len(rows), int(set_1.sum())
    human_ties = len(preferences) - n
    terms = preference.base_rate(set_1)
    ci = None
    if bootstrap is not None:
        resampled = bootstrap.ratios(rows, terms.hits[:, None], terms.counted[:, None])
        ci = bootstrap.interval(resampled[:, 0], rows, bounds=RATE)
    if n == 0:
        reason = "no question has a preference"
        return PositionBias(UNDEFINED, 0, UNDEFINED, human_ties, UNDEFINED, 0, ci, reason)
    participants = pd.factorize(rows["participant_id"], sort=True)[0]
    leads = np.bincount(participants, weights=np.where(set_1, 1, -1))
    return PositionBias(
        rate=terms.rate,
        n=n,
        p=float(stats.binomtest(n_set_1, n).pvalue),
        human_ties=human_ties,
        p_clustered=sign_flip_p(leads.astype(np.int64)),
        n_participants=len(leads),
        ci=ci,
    )


def sign_flip_p(leads: NDArray[np.int64]) -> float:
    """Test that the sides do not matter, keeping each participant's answers together.

    If the sides were only labels, each participant's lead of set 1 over set 2 would be as likely to
    have the opposite sign. p is the share of all sign patterns whose sum of `leads` (participants,)
    is at least as far from 0 as the observed one, counted exactly.
    """
    # The probability of each sum from -reach to reach, in steps of 2: all sums have one parity.
    probabilities = np.ones(1)
    for lead in np.abs(leads):
        wider = np.zeros(len(probabilities) + lead)
        wider[: len(probabilities)] += probabilities / 2
        wider[lead:] += probabilities / 2
        probabilities = wider
    reach = len(probabilities) - 1
    sums = np.abs(2 * np.arange(len(probabilities)) - reach)
    return min(1.0, float(probabilities[sums >= abs(int(leads.sum()))].sum()))
