"""The information that answers to pairs give about a scorer, in nats.

An answer depends on latent quantities (`hsfiq.model.preference.likelihood`): the margin between two
sets, and the latent of each Likert score. Their prior is a normal distribution with the mean and
covariance of the scorer's opinions; an answer is weighted by its Fisher information at the mean.
The information of the answers to some pairs is then

    1/2 log det(I + W^(1/2) C W^(1/2))

(Lindley 1956; Chaloner and Verdinelli 1995, Bayesian D-optimality), with C the covariance of their
latents and W their Fisher information. So if the scorer is unsure about two pairs in the same way,
the second adds little. A greedy choice reaches at least 1 - 1/e of the best choice's information
(Nemhauser et al. 1978), if only the number of pairs is constrained. Several answers to a pair are
about the same latents: their Fisher information adds up.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Information:
    """The information that each pair would add to the pairs taken so far."""

    def __init__(self, latents: Tensor, weights: Tensor) -> None:
        """Start with no pair taken; see `hsfiq.model.active.uncertainty.Uncertainty`."""
        deviations = (latents - latents.mean(dim=0)) / (len(latents) - 1) ** 0.5  # [J, P, A]
        self._rows = deviations.permute(1, 2, 0) * weights.sqrt().unsqueeze(2)  # [P, A, J]
        self._posterior = torch.eye(len(latents), dtype=latents.dtype)  # [J, J]
        self._identity = torch.eye(latents.shape[2], dtype=latents.dtype)  # [A, A]
        self.total = 0.0

    def gains(self, places: Sequence[int]) -> Tensor:
        """The information that each of these pairs would add: [n]."""
        rows = self._rows[list(places)]  # [n, A, J]
        gains: Tensor = torch.logdet(self._identity + rows @ self._posterior @ rows.mT) / 2
        return gains

    def take(self, place: int) -> None:
        self.total += float(self.gains([place]))
        rows = self._rows[place]  # [A, J]
        known = self._posterior @ rows.T  # [J, A]
        self._posterior = self._posterior - known @ torch.linalg.solve(
            self._identity + rows @ known, known.T
        )

    def take_best(self, places: Sequence[int]) -> int:
        """Take the pair that adds most, the first of equals, and return its place."""
        best = places[int(self.gains(places).argmax())]
        self.take(best)
        return best


def preference_information(
    margins: Tensor, side_bias: float, log_tie: float | None = None
) -> Tensor:
    """Information of a preference about its margin, for a random order of sets: [P] -> [P].

    The logits of set 1, set 2 and a tie are m / 2, -m / 2 and log nu, so the information is the
    variance of 1/2, -1/2 and 0 under their shares. Without ties (None) it is p (1 - p).
    """
    both = torch.stack([margins + side_bias, margins - side_bias])  # [2, P]
    tie = torch.full_like(both, -torch.inf if log_tie is None else log_tie)
    shares = torch.stack([both / 2, -both / 2, tie]).softmax(dim=0)  # [3, 2, P]
    first, second = shares[0], shares[1]
    return ((first + second) / 4 - ((first - second) / 2).square()).mean(dim=0)


def score_information(latents: Tensor, thresholds: Tensor) -> Tensor:
    """Information of a Likert score about its latent (cumulative logit model, McCullagh 1980).

    For latents [P] and rising thresholds [K - 1]: [P] sums over levels of (dP / d latent)^2 / P.
    """
    below = (thresholds - latents.unsqueeze(1)).sigmoid()  # [P, K - 1]
    ends = below.new_zeros(len(latents), 1), below.new_ones(len(latents), 1)
    edges = torch.cat([ends[0], below, ends[1]], dim=1)  # [P, K + 1]
    shares = edges.diff(dim=1)  # [P, K]
    # d below / d latent is -below (1 - below), and shares are differences of edges.
    slopes = -(edges * (1 - edges)).diff(dim=1)  # [P, K]
    # This is finite: in the logistic model a level's slope falls with its share.
    return (slopes.square() / shares.clamp_min(torch.finfo(shares.dtype).tiny)).sum(dim=1)
