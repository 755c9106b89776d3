"""Comparing the tensors of a published file with those of a model, name by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from hsfiq.errors import UnreadableInput

REMEDY = "it is of another model, or of another version of its code"


def matched(
    published: Mapping[str, Tensor],
    wanted: Mapping[str, Tensor],
    published_name: Callable[[str], str],
    file: Path,
    unused: tuple[str, ...] = (),
) -> dict[str, Tensor]:
    """The published tensors under our names: exactly those of `wanted`, whose shapes count.

    `published_name` gives the name in the file for one of ours. Names in the file that begin with
    one of `unused` are left out. UnreadableInput, with the names as they are in the file, if a
    tensor is missing, unknown, of another shape or holds a value that is not finite.
    """
    names = {published_name(name): name for name in wanted}
    missing = [name for name in names if name not in published]
    unknown = [name for name in published if name not in names and not name.startswith(unused)]
    if missing:
        has = f" and has {first_one(unknown)}" if unknown else ""
        raise UnreadableInput(str(file), f"lacks {first_one(missing)}{has}", REMEDY)
    if unknown:
        raise UnreadableInput(str(file), f"has the unknown {first_one(unknown)}", REMEDY)
    for name, ours in names.items():
        require_like(published[name], wanted[ours], name, file)
    return {ours: published[name] for name, ours in names.items()}


def require_like(tensor: Tensor, wanted: Tensor, name: str, file: Path) -> None:
    if tensor.shape != wanted.shape:
        shapes = f"{list(tensor.shape)}, not {list(wanted.shape)}"
        raise UnreadableInput(str(file), f"{name} has the shape {shapes}", REMEDY)
    if not tensor.isfinite().all():
        raise UnreadableInput(
            str(file), f"{name} holds values that are not finite", "download it again"
        )


def first_one(names: list[str]) -> str:
    more = f" ({len(names) - 1} more)" if len(names) > 1 else ""
    return f"{names[0]}{more}"
