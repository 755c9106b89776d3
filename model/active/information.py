"""What the answers to pairs would tell of a scorer, in nats.

A scorer's opinions on the latent quantities behind an answer -- the margin between two sets, and
each one's Likert score (`hsfiq.model.preference.likelihood`) -- are taken as a normal law with the
opinions' mean and covariance; an answer tells as much as its Fisher information at the mean says.
The answers to some pairs then tell

    1/2 log det(I + W^(1/2) C W^(1/2))

(Lindley 1956; Chaloner and Verdinelli 1995, Bayesian D-optimality), C being the covariance of
their latents and W their information. So of two pairs about which the scorer is unsure in the same
way, the second tells little. Taking the one that adds most, again and again, comes within 1 - 1/e
of the best choice of so many (Nemhauser et al. 1978), where nothing but their number is asked of
them. Ties are left out of account: where a study allows them, an answer tells a little otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Information:
    """How much each pair would add to what is chosen already."""

    def __init__(self, latents: Tensor, weights: Tensor) -> None:
        """Take the opinions.

        Args:
            latents: [J, P, A] float64, in logits: J opinions on P pairs, A answers each.
            weights: [P, A] Fisher information of each answer about its latent.
        """
        deviations = (latents - latents.mean(dim=0)) / (len(latents) - 1) ** 0.5  # [J, P, A]
        self._rows = deviations.permute(1, 2, 0) * weights.sqrt().unsqueeze(2)  # [P, A, J]
        self._left = torch.eye(len(latents), dtype=latents.dtype)  # [J, J]
        self._one = torch.eye(latents.shape[2], dtype=latents.dtype)  # [A, A]
        self.total = 0.0
        """What all pairs taken tell together."""

    def gains(self, places: Sequence[int]) -> Tensor:
        """What each of these pairs would add to those taken: [n]."""
        rows = self._rows[list(places)]  # [n, A, J]
        gains: Tensor = torch.logdet(self._one + rows @ self._left @ rows.mT) / 2
        return gains

    def take(self, place: int) -> None:
        """Take a pair: what it tells is known from now on."""
        self.total += float(self.gains([place]))
        rows = self._rows[place]  # [A, J]
        known = self._left @ rows.T  # [J, A]
        self._left = self._left - known @ torch.linalg.solve(self._one + rows @ known, known.T)

    def take_best(self, places: Sequence[int]) -> int:
        """Take the one of these that adds most; the first of equals."""
        best = places[int(self.gains(places).argmax())]
        self.take(best)
        return best


def preference_information(margins: Tensor, side_bias: float) -> Tensor:
    """Of a preference about its margin, either set being set 1 as likely: [P] -> [P]."""
    shares = torch.stack([margins + side_bias, margins - side_bias]).sigmoid()  # [2, P]
    return (shares * (1 - shares)).mean(dim=0)


def score_information(latents: Tensor, thresholds: Tensor) -> Tensor:
    """Of a Likert score about its latent, in the cumulative logit model (McCullagh 1980).

    Args:
        latents: [P] logits.
        thresholds: [K - 1], rising.

    Returns:
        [P]: the sum over levels of (dP / d latent)^2 / P.
    """
    below = (thresholds - latents.unsqueeze(1)).sigmoid()  # [P, K - 1]
    ends = below.new_zeros(len(latents), 1), below.new_ones(len(latents), 1)
    edges = torch.cat([ends[0], below, ends[1]], dim=1)  # [P, K + 1]
    shares = edges.diff(dim=1)  # [P, K]
    # d below / d latent is -below (1 - below), and shares = edge differences.
    slopes = -(edges * (1 - edges)).diff(dim=1)  # [P, K]
    # Of a logistic law this is finite: a level's slope falls with its share.
    return (slopes.square() / shares.clamp_min(torch.finfo(shares.dtype).tiny)).sum(dim=1)
