"""Position bias: whether people prefer a set for being shown as set 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from hsfiq.analysis.figures import UNDEFINED, figure
from hsfiq.analysis.resampling.interval import with_interval

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from hsfiq.analysis.resampling.draws import Draws
    from hsfiq.analysis.resampling.interval import Interval


@dataclass(frozen=True)
class PositionBias:
    """P(set 1 preferred) against one half.

    Attributes:
        rate: the share of the questions in which set 1 is preferred.
        n: how many questions have a preference.
        p: two-sided exact binomial test (Clopper and Pearson) of rate = 1/2.
        human_ties: how many questions were left out because neither set is preferred.
        reason: why rate, p and p_clustered are NaN, where they are.
        p_clustered: two-sided exact sign-flip test over the participants (see `sign_flip_p`).
        n_participants: how many participants have a preference.
        ci: the rate's interval by resampling clusters; None where no draws were given.
    """

    rate: float
    n: int
    p: float
    human_ties: int
    reason: str | None = None
    p_clustered: float = UNDEFINED
    n_participants: int = 0
    ci: Interval | None = None

    def to_json(self) -> dict[str, object]:
        """Return the figures by the attributes' names, the interval and the reason, if any."""
        result: dict[str, object] = {
            "rate": figure(self.rate),
            "n": self.n,
            "p": figure(self.p),
            "human_ties": self.human_ties,
            "p_clustered": figure(self.p_clustered),
            "n_participants": self.n_participants,
        }
        return with_interval(result, self.ci, self.reason)


def position_bias(preferences: pd.DataFrame, draws: Draws | None = None) -> PositionBias:
    """Measure the position bias of a release.

    Args:
        preferences: (n, ...) with `participant_id`, `preferred` (1, 2, or 0 for a human tie) and,
            for draws, `query_id`.
        draws: the resamples for the interval; None leaves it out.

    Returns:
        Rate and p-values; NaN, with a reason, where no question has a preference.
    """
    decided = preferences[preferences["preferred"] != 0]
    one = decided["preferred"] == 1
    first, n = int(one.sum()), len(decided)
    human_ties = len(preferences) - n
    ci = None
    if draws is not None:
        columns = np.stack([one.to_numpy(dtype="float64"), np.ones(n)], axis=1)
        hits, asked = draws.totals(decided, columns).T
        with np.errstate(invalid="ignore"):
            ci = draws.interval(hits / asked, decided)
    if n == 0:
        reason = "no question has a preference"
        return PositionBias(UNDEFINED, 0, UNDEFINED, human_ties, reason, ci=ci)
    leads = (2 * one - 1).groupby(decided["participant_id"]).sum()
    return PositionBias(
        rate=first / n,
        n=n,
        p=float(stats.binomtest(first, n).pvalue),
        human_ties=human_ties,
        p_clustered=sign_flip_p(np.asarray(leads, dtype=np.int64)),
        n_participants=len(leads),
        ci=ci,
    )


def sign_flip_p(leads: NDArray[np.int64]) -> float:
    """Test that the sides do not matter, people kept whole.

    Were they only labels, each participant's lead of set 1 over set 2 would be as likely to have
    the other sign. p is the share of all sign patterns whose sum is at least as far from 0 as the
    one seen, counted exactly.

    Args:
        leads: (participants,) how much oftener each preferred set 1 than set 2.
    """
    # The chance of each sum from -reach to reach, in steps of 2: all sums are equally even or odd.
    chances = np.ones(1)
    for lead in np.abs(leads):
        wider = np.zeros(len(chances) + lead)
        wider[: len(chances)] += chances / 2
        wider[lead:] += chances / 2
        chances = wider
    reach = len(chances) - 1
    sums = np.abs(2 * np.arange(len(chances)) - reach)
    return min(1.0, float(chances[sums >= abs(int(leads.sum()))].sum()))
