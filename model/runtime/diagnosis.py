"""Training that diverged: finding the first part of the scorer whose output is not finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from hsfiq.errors import NothingToDo


class Diverged(NothingToDo):
    """A loss, a weight or a score is infinite or not a number."""


def first_not_finite(module: nn.Module, forward: Callable[[], Tensor]) -> str | None:
    """Repeat a forward pass, which returns margins, and name what first gave a number not finite.

    That is a weight, else the innermost module whose output is not finite; None if all is finite.
    """
    weight = not_finite(dict(module.named_parameters()))
    if weight is not None:
        return f"the weights of {weight}"
    names: list[str] = []

    def check(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(_: nn.Module, __: object, output: object) -> None:
            if isinstance(output, Tensor) and not output.isfinite().all():
                names.append(name)

        return hook

    # Children finish before their parents, so the first name is the innermost module's.
    hooks = [
        child.register_forward_hook(check(name)) for name, child in module.named_modules() if name
    ]
    try:
        with torch.no_grad():
            margins = forward()
    finally:
        for hook in hooks:
            hook.remove()
    if names:
        return names[0]
    return None if margins.isfinite().all() else "the scores"


def not_finite(parameters: Mapping[str, nn.Parameter]) -> str | None:
    return next(
        (name for name, parameter in parameters.items() if not parameter.isfinite().all()), None
    )


def require_finite(parameters: Mapping[str, nn.Parameter]) -> None:
    name = not_finite(parameters)
    if name is not None:
        raise Diverged(f"the weights of {name} are not finite")
