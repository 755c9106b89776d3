"""The values that a recipe's settings take, and how they are written as text.

Nothing here imports torch, so that a wrong value on the command line is reported at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin

from hsfiq.errors import UnreadableInput

NONE: Final = "none"

EncoderName = Literal["blip2-vitL", "blip2-vitg", "blip2-hf", "hf", "hf-lora", "openclip", "tiny"]

Pooling = Literal["max", "mean"]
"""How an image's score comes from those of its L vectors."""

Strategy = Literal[
    "corpus", "top-k", "after-target", "cirqrs", "qure", "qure-code", "qure-bounded", "in-batch"
]
"""How negative sets are defined (`hsfiq.model.negatives.rules`)."""

UNSCORED: Final = ("corpus", "in-batch")
"""The strategies whose negatives do not depend on the scorer."""

SIZED: Final = ("top-k", "after-target", "cirqrs", "qure-bounded")
"""The strategies that take a number of images from the recipe."""

PoolRule = Literal["targets", "corpus"]
"""Which images can be a training triplet's negatives: the targets of its category's training
triplets (QuRe's code for FashionIQ), or all images of the training split there (both papers'
"corpus", and QuRe's code for CIRR, where the references are in it)."""

CaptionRule = Literal["joined", "four-way"]
"""`joined`: always both captions in order (QuRe). `four-way`: one of four (CLIP4Cir, SPRC)."""

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "size": (1, 4096),
    "pad_ratio": (1, 100),
    "epochs": (1, 100_000),
    "batch": (1, 1_000_000),
    "accumulate": (1, 1_000_000),
    "lr": (1e-12, 10),
    "final_lr_share": (0, 1),
    "weight_decay": (0, 10),
    "betas": (0, 0.999999),
    "eps": (1e-30, 1),
    "clip_norm": (1e-12, 1e12),
    "schedule_epochs": (1, 100_000),
    "max_words": (1, 10_000),
    "warmup": (0, 1),
    "start_divisor": (1, 1e6),
    "temperature": (1e-4, 100),
    "triplets": (1, 1_000_000_000),
    "proj_lr": (1e-12, 10),
    "alpha": (0, 1000),
    "beta": (0, 1000),
    "projection": (1, 1_000_000),
    "hidden": (1, 1_000_000),
    "dropout": (0, 0.999999),
    "regularisation": (0, 1e6),
    "alignment": (0, 1e6),
    "contrastive_weight": (0, 1e6),
    "msi_weight": (0, 1e6),
    "rp_weight": (0, 1e6),
    "n_queries": (1, 100_000),
    "kernel_temperature": (1e-4, 100),
    "sweeps": (1, 1_000_000),
    "mmd_width": (1e-4, 1e4),
    "proximity_width": (1e-4, 1e4),
    "gamma": (0, 1),
    "seed": (0, 2**63 - 1),
    "n_def": (1, 100_000),
    "n_neg": (1, 1_000_000_000),
    "threshold": (1, 1_000_000_000),
    "val_recall": (1, 1_000_000_000),
}
"""The smallest and the largest value of each number; none is infinite or NaN."""

_WHOLE = re.compile(r"[+-]?[0-9]+")


def shown(value: object) -> str:
    """The value as `parsed` takes it: `30`, `5e-06`, `0.9,0.999`, `none`, `max`."""
    if value is None:
        return NONE
    if isinstance(value, list | tuple):
        return ",".join(map(shown, value))
    return str(value)


def read_values(values: Mapping[str, str], kinds: Mapping[str, Any], recipe: str) -> dict[str, Any]:
    """The values of `--set KEY=VALUE`, by the kinds of a recipe's settings.

    UnreadableInput for an unknown key or a value of another kind.
    """
    read = {}
    for key, text in values.items():
        if key not in kinds:
            raise UnreadableInput(
                f"{key}={text}",
                f"{recipe} has no setting {key!r} that can be changed",
                known_names(key, kinds),
            )
        try:
            read[key] = parsed(text, kinds[key])
        except ValueError as error:
            raise UnreadableInput(f"{key}={text}", f"{text!r} {error}") from error
    return read


def known_names(name: str, known: Iterable[str]) -> str:
    """The remedy for an unknown name: the nearest known one first."""
    names = tuple(known)
    near = get_close_matches(name, names, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + f"choose from {', '.join(names)}"


def cosine_lr(epoch: int, epochs: int, lr: float, final_share: float) -> float:
    """The learning rate of an epoch, counted from 0, that decays from `lr` (QuRe's schedule)."""
    least = lr * final_share
    return least + (lr - least) * (1 + math.cos(math.pi * epoch / epochs)) / 2


def parsed(text: str, kind: Any) -> Any:
    """Read a value from text as `shown` writes it; ValueError says what it is not.

    The kind is int, float, str, a Literal of texts, a tuple of these, or any of them or None.
    """
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Literal:
        if text not in inside:
            raise ValueError(f"is not one of {', '.join(inside)}")
        return text
    if origin is tuple:
        return _parsed_tuple(text, inside)
    if NoneType in inside:
        return None if text == NONE else parsed(text, inside[0])
    if kind is str:
        return text
    return _parsed_number(text, kind)


def _parsed_tuple(text: str, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    parts = text.split(",")
    if Ellipsis in kinds:
        kinds = (kinds[0],) * len(parts)
    if len(parts) != len(kinds):
        raise ValueError(f"is not {len(kinds)} values with a comma between them")
    return tuple(parsed(part.strip(), kind) for part, kind in zip(parts, kinds, strict=True))


def _parsed_number(text: str, kind: type[int] | type[float]) -> int | float:
    try:
        if kind is int and not _WHOLE.fullmatch(text):
            raise ValueError  # int() would take 1_000 as well
        return kind(text)
    except ValueError:
        raise ValueError(f"is not a {'whole ' if kind is int else ''}number") from None
