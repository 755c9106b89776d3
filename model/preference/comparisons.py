"""Likert scores taken apart into comparisons with one threshold each.

Score k says that its latent lies below threshold k and above threshold k - 1; the lowest and the
highest say one of the two. Each is an answer yes or no to

    z = slope S + offset of the participant - threshold

by the logistic law, and `model.preference.likelihood.score_loss` is their sum but for a term of the
thresholds alone. So its derivatives are sums over comparisons, by participant and threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hsfiq.model.preference.arrow import Arrow


@dataclass(frozen=True, slots=True)
class Comparisons:
    """T comparisons with K thresholds, of P participants.

    Attributes:
        sets: [T] scores of the sets.
        people: [T] int64, from 0.
        thresholds: [T] int64, from 0: which is compared with.
        above: [T] 1 where the latent lies above the threshold, 0 where below.
        weights: [T].
        n_people: P.
        n_thresholds: K.
    """

    sets: Tensor
    people: Tensor
    thresholds: Tensor
    above: Tensor
    weights: Tensor
    n_people: int
    n_thresholds: int

    def derivatives(self, values: Tensor) -> tuple[Tensor, Arrow]:
        """Of the weighted losses' sum: the gradient and the Hessian.

        Args:
            values: [slope, K thresholds, P offsets].
        """
        slope, edges, offsets = values.tensor_split([1, 1 + self.n_thresholds])
        z = slope * self.sets + offsets[self.people] - edges[self.thresholds]  # [T]
        share = z.sigmoid()
        first = self.weights * (share - self.above)  # [T], by z
        second = self.weights * share * (1 - share)  # [T], by z twice
        # z's own derivatives are S by the slope, -1 by its threshold and 1 by its offset.
        pulls = self.summed(first)  # [P, K]
        bends, bends_s = self.summed(second), self.summed(second * self.sets)  # [P, K]
        by_slope, by_slope_twice = first @ self.sets, second @ self.sets**2
        corner = torch.diag(torch.cat([by_slope_twice.reshape(1), bends.sum(dim=0)]))
        corner[0, 1:] = corner[1:, 0] = -bends_s.sum(dim=0)
        gradient = torch.cat([by_slope.reshape(1), -pulls.sum(dim=0), pulls.sum(dim=1)])
        cross = torch.cat([bends_s.sum(dim=1).unsqueeze(0), -bends.T])
        return gradient, Arrow(corner, cross, diagonal=bends.sum(dim=1))

    def summed(self, values: Tensor) -> Tensor:
        """Sums by participant and threshold: [T] -> [P, K]."""
        cells = self.people * self.n_thresholds + self.thresholds
        found = torch.bincount(cells, values, self.n_people * self.n_thresholds)
        return found.view(self.n_people, self.n_thresholds)


def compare(
    sets: Tensor, scores: Tensor, people: Tensor, weights: Tensor, n_people: int, n_thresholds: int
) -> Comparisons:
    """Take scores apart.

    Args:
        sets: [B] scores of the sets.
        scores: [B] int64 Likert scores, 1 to `n_thresholds` + 1.
        people: [B] int64, who gave them.
        weights: [B].
        n_people: participants in all.
        n_thresholds: one fewer than there are Likert scores.
    """
    above, below = scores > 1, scores <= n_thresholds  # [B]
    places = torch.cat([above.nonzero(), below.nonzero()]).squeeze(1)  # [T]
    is_above = torch.arange(len(places)) < above.sum()  # [T]
    return Comparisons(
        sets=sets[places],
        people=people[places],
        thresholds=scores[places] - 1 - is_above.long(),
        above=is_above.to(sets),
        weights=weights[places],
        n_people=n_people,
        n_thresholds=n_thresholds,
    )
