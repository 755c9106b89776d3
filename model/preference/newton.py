"""Newton's method for the small convex fits: few numbers, many answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from model.training.diagnosis import Diverged

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


def minimise(objective: Callable[[Tensor], Tensor], start: Tensor) -> Fit:
    """Find the least of a strictly convex function.

    Args:
        objective: [K] -> a scalar; infinite or NaN outside its domain, which is open and convex.
        start: [K] float64, inside of it.

    Raises:
        Diverged: no step leads lower.
    """
    slope, values = torch.func.grad(objective), start.clone()
    for _ in range(MOST_STEPS):
        gradient = slope(values)  # [K]
        hessian = torch.func.jacrev(slope)(values)  # [K, K]
        step = torch.linalg.solve(hessian, gradient)  # [K]
        decrement = float(gradient @ step)
        if decrement / 2 < TOLERANCE:
            errors = torch.linalg.inv(hessian).diagonal().sqrt()  # [K]
            return Fit(values, errors)
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
