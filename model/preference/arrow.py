"""A Hessian shaped as an arrow: a few numbers common to all participants, and one of each's own.

    [ corner   cross    ]   Two participants' own numbers never meet in an answer, so that the
    [ cross'   diagonal ]   block of these is 0 but for its diagonal.

Its Schur complement makes of it as few equations as there are common numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Arrow:
    """A `hsfiq.model.preference.newton.Hessian` of C common numbers, then P of participants.

    Attributes:
        corner: [C, C], symmetric.
        cross: [C, P].
        diagonal: [P], above 0.
    """

    corner: Tensor
    cross: Tensor
    diagonal: Tensor

    def solve(self, gradient: Tensor) -> Tensor:
        """The step x, [C + P], with Hessian x = gradient."""
        n = len(self.corner)
        common, own = gradient[:n], gradient[n:]
        step = torch.linalg.solve(self.schur(), common - self.scaled() @ own)  # [C]
        return torch.cat([step, (own - step @ self.cross) / self.diagonal])

    def inverse_diagonal(self) -> Tensor:
        """The diagonal of the inverse, [C + P]."""
        inverse, scaled = torch.linalg.inv(self.schur()), self.scaled()
        own = 1 / self.diagonal + (inverse @ scaled * scaled).sum(dim=0)  # [P]
        return torch.cat([inverse.diagonal(), own])

    def without_first(self) -> Arrow:
        """The Hessian of the other numbers, where the first is held."""
        return Arrow(self.corner[1:, 1:], self.cross[1:], self.diagonal)

    def schur(self) -> Tensor:
        """What is known of the common numbers while the others are not: [C, C]."""
        return self.corner - self.scaled() @ self.cross.T

    def scaled(self) -> Tensor:
        """The cross block times the diagonal's inverse: [C, P]."""
        return self.cross / self.diagonal
