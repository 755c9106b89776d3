"""Newton's method for the convex fits of the answers' laws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from hsfiq.model.runtime.diagnosis import Diverged

MOST_STEPS = 100
TOLERANCE = 1e-9
"""Of half the squared Newton decrement: how far, at most, the objective is above its least."""
LEAST_STEP = 2.0**-40
SUFFICIENT = 1e-4
"""Of the decrease that the slope promises (Armijo's condition)."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Where an objective is least.

    Attributes:
        values: [K].
        errors: [K] standard errors, from the inverse of the Hessian there: the observed
            information, as if answers were independent.
    """

    values: Tensor
    errors: Tensor


class Hessian(Protocol):
    """The second derivatives at a point, [K, K] and positive definite, however they are kept."""

    def solve(self, gradient: Tensor) -> Tensor:
        """The step x, [K], with Hessian x = gradient."""
        ...

    def inverse_diagonal(self) -> Tensor:
        """The diagonal of the inverse, [K]."""
        ...

    def without_first(self) -> Hessian:
        """The Hessian of the other K - 1 numbers, where the first is held."""
        ...


Derivatives = Callable[[Tensor], tuple[Tensor, Hessian]]
"""[K] -> the gradient [K] and the Hessian there."""


@dataclass(frozen=True, slots=True)
class Dense:
    """A Hessian of few numbers: all [K, K] of it."""

    matrix: Tensor

    def solve(self, gradient: Tensor) -> Tensor:
        """The step x, [K], with Hessian x = gradient."""
        step: Tensor = torch.linalg.solve(self.matrix, gradient)
        return step

    def inverse_diagonal(self) -> Tensor:
        """The diagonal of the inverse, [K]."""
        found: Tensor = torch.linalg.inv(self.matrix).diagonal()
        return found

    def without_first(self) -> Dense:
        """The Hessian of the other K - 1 numbers, where the first is held."""
        return Dense(self.matrix[1:, 1:])


def dense(objective: Callable[[Tensor], Tensor]) -> Derivatives:
    """The derivatives of any function of few numbers, by autograd: it takes K gradients."""
    slope = torch.func.grad(objective)
    return lambda values: (slope(values), Dense(torch.func.jacrev(slope)(values)))


def minimise(
    objective: Callable[[Tensor], Tensor], start: Tensor, derivatives: Derivatives | None = None
) -> Fit:
    """Find the least of a strictly convex function.

    Args:
        objective: [K] -> a scalar; infinite or NaN outside its domain, which is open and convex.
        start: [K] float64, inside of it.
        derivatives: its own; None for `dense` ones.

    Raises:
        Diverged: no step leads lower.
    """
    derivatives, values = derivatives or dense(objective), start.clone()
    for _ in range(MOST_STEPS):
        gradient, hessian = derivatives(values)  # [K], [K, K]
        step = hessian.solve(gradient)  # [K]
        decrement = float(gradient @ step)
        if decrement / 2 < TOLERANCE:
            return Fit(values, hessian.inverse_diagonal().sqrt())
        values = descend(objective, values, step, decrement)
    raise Diverged(f"the fit of the answers has not ended after {MOST_STEPS} steps")


def descend(
    objective: Callable[[Tensor], Tensor], values: Tensor, step: Tensor, decrement: float
) -> Tensor:
    """Go along a step as far as it leads low enough: all of it, a half, a quarter, ..."""
    before, share = float(objective(values)), 1.0
    while share > LEAST_STEP:
        reached = values - share * step
        if float(objective(reached)) <= before - SUFFICIENT * share * decrement:
            return reached
        share /= 2
    raise Diverged("the fit of the answers finds no lower point")
