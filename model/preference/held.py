"""Parameters that a retraining leaves as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import nn

from hsfiq.errors import UnreadableInput


def parted(
    parameters: Mapping[str, nn.Parameter], held: Sequence[str]
) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Part parameters into those to be held, by the beginnings of their names, and the others.

    Raises:
        UnreadableInput: no name begins so, or all do.
    """
    for start in held:
        if not any(name.startswith(start) for name in parameters):
            raise UnreadableInput(f"held={start}", "no parameter's name begins so")
    still = {name: it for name, it in parameters.items() if name.startswith(tuple(held))}
    if len(still) == len(parameters):
        raise UnreadableInput(f"held={','.join(held)}", "leaves no parameter to train")
    return still, {name: it for name, it in parameters.items() if name not in still}


@contextmanager
def holding(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """No gradients for these parameters inside the block."""
    held = list(parameters)
    for it in held:
        it.requires_grad_(False)  # noqa: FBT003 (torch's own, by position)
    try:
        yield
    finally:
        for it in held:
            it.requires_grad_()
