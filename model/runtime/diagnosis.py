"""Where numbers went wrong: the first part of the scorer to give one that is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hsfiq.errors import NothingToDo


class Diverged(NothingToDo):
    """Training came to a loss or a weight that is no number."""


def blame(module: nn.Module, run: Callable[[], Tensor]) -> str | None:
    """Run a forward pass again and name what first gave a number that is none.

    Args:
        module: the scorer.
        run: the forward pass that went wrong; returns its margins.

    Returns:
        A weight that is itself no number, else the innermost module that was first to give one;
        None where all is finite.
    """
    broken = not_finite(dict(module.named_parameters()))
    if broken is not None:
        return f"the weights of {broken}"
    found: list[str] = []

    def watch(name: str) -> Callable[[nn.Module, Any, object], None]:
        def look(_: nn.Module, __: object, output: object) -> None:
            if not found and isinstance(output, Tensor) and not output.isfinite().all():
                found.append(name)

        return look

    # Children end before their parents, so the innermost is the first to be noticed.
    hooks = [it.register_forward_hook(watch(name)) for name, it in module.named_modules() if name]
    try:
        with torch.no_grad():
            margins = run()
    finally:
        for hook in hooks:
            hook.remove()
    if not found and not margins.isfinite().all():
        return "the scores"
    return found[0] if found else None


def not_finite(parameters: Mapping[str, nn.Parameter]) -> str | None:
    """The first parameter with a value that is no number, None where all are sound."""
    return next((name for name, it in parameters.items() if not it.isfinite().all()), None)


def require_finite(parameters: Mapping[str, nn.Parameter]) -> None:
    """Refuse weights that are no numbers.

    Raises:
        Diverged: naming the first of them.
    """
    broken = not_finite(parameters)
    if broken is not None:
        raise Diverged(f"the weights of {broken} are no numbers any more")
