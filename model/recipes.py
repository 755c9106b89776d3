"""The papers' training recipes for scorers; PAPERS.md says where each value comes from."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Final, Literal, Self, get_args, get_origin, get_type_hints

from hsfiq.errors import UnreadableInput

# The values that a recipe's settings take, and how they are written as text.
#
# Nothing here imports torch, so that a wrong value on the command line is reported at once.

NONE: Final = "none"

EncoderName = Literal["blip2-vitL", "blip2-vitg", "blip2-hf", "hf", "hf-lora", "openclip", "tiny"]

Pooling = Literal["max", "mean"]
"""How an image's score comes from those of its L vectors."""

Strategy = Literal[
    "corpus", "top-k", "after-target", "cirqrs", "qure", "qure-code", "qure-bounded", "in-batch"
]
"""How negative sets are defined (`hsfiq.model.scorer.negatives`)."""

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

STATED: Final[dict[str, Any]] = json.loads(
    Path(__file__).with_name("recipes.json").read_text(encoding="utf-8")
)
"""The recipes of scorers and systems, what differs on the drawn catalogue, and `RANGES`."""


def read_stated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of `STATED` as recipes have them: with tuples for lists."""
    return {k: tuple(value) if isinstance(value, list) else value for k, value in values.items()}


def stated_recipes(part: Literal["scorers", "systems"]) -> dict[str, dict[str, Any]]:
    """All settings of each recipe in a part of `STATED`, by the recipe's name.

    A recipe with `like` has the settings of an earlier recipe, except for the settings it states.
    """
    recipes: dict[str, dict[str, Any]] = {}
    for name, values in STATED[part].items():
        differing = read_stated(values)
        base = recipes[differing.pop("like")] if "like" in differing else {}
        recipes[name] = base | differing | {"name": name}
    return recipes


RANGES: Final[Mapping[str, tuple[float, float]]] = read_stated(STATED["ranges"])
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
        raise ValueError(f"is not {len(kinds)} comma-separated values")
    return tuple(parsed(part.strip(), kind) for part, kind in zip(parts, kinds, strict=True))


def _parsed_number(text: str, kind: type[int] | type[float]) -> int | float:
    try:
        if kind is int and not _WHOLE.fullmatch(text):
            raise ValueError  # int() would take 1_000 as well
        return kind(text)
    except ValueError:
        raise ValueError(f"is not a {'whole ' if kind is int else ''}number") from None


# What every recipe can do: be changed by `--set`, be written as JSON, and be read back.


class RecipeBase:
    """The base of the frozen dataclasses of recipes; each has a `name`."""

    __slots__ = ()

    FIXED: ClassVar[tuple[str, ...]] = ("name", "dataset")
    """The settings that a command line cannot change."""

    name: str

    def with_values(self, values: Mapping[str, str]) -> Self:
        """The recipe with other values, as written on a command line; raises as the constructor."""
        kinds = {key: kind for key, kind in self.kinds().items() if key not in self.FIXED}
        read = self.for_all_stages(read_values(values, kinds, self.name))
        return replace(self, **read)  # type: ignore[type-var]

    def for_all_stages(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values of a command line; one value of a setting by stage is that of all stages."""
        return values

    def to_json(self) -> dict[str, Any]:
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()  # type: ignore[call-overload]
        }

    @classmethod
    def from_json(cls, value: object, where: str) -> Self:
        """The recipe that `to_json` wrote; UnreadableInput if it is not one of this version."""
        kinds = cls.kinds()
        if not isinstance(value, dict) or set(value) != set(kinds):
            keys = set(value) if isinstance(value, dict) else set()
            differing = sorted(set(kinds) ^ keys)
            raise UnreadableInput(
                where,
                "is not a recipe of this version",
                f"missing or unknown: {', '.join(differing)}",
            )
        read = {}
        for key, kind in kinds.items():
            try:
                read[key] = parsed(shown(value[key]), kind)
            except ValueError as error:
                raise UnreadableInput(f"{where}: {key}", f"{value[key]!r} {error}") from error
        return cls(**read)

    @classmethod
    def kinds(cls) -> dict[str, Any]:
        """The type of each setting."""
        hints = get_type_hints(cls)
        return {key: kind for key, kind in hints.items() if get_origin(kind) is not ClassVar}

    def out_of_range(self) -> Iterator[str]:
        """Yield what is wrong with each number that is not in `RANGES`."""
        kinds = self.kinds()
        for key, (least, most) in RANGES.items():
            value = getattr(self, key) if key in kinds else None
            for number in value if isinstance(value, tuple) else (value,):
                if number is not None and not least <= number <= most:
                    yield f"{key} is {shown(value)}, not from {least} to {most}"

    def changes(self, other: Self) -> dict[str, tuple[str, str]]:
        """The settings in which another recipe differs, with both values as text."""
        pairs = ((key, getattr(self, key), getattr(other, key)) for key in self.kinds())
        return {key: (shown(a), shown(b)) for key, a, b in pairs if a != b}


# The papers' training recipes, by name; PAPERS.md says where each value comes from.


@dataclass(frozen=True, slots=True)
class Recipe(RecipeBase):
    """Every number that training depends on, besides the data.

    Attributes:
        encoder: BLIP-2 with ViT-L or ViT-g (through LAVIS or, `blip2-hf`, transformers), a model
            with two encoders of transformers (`hf`, or `hf-lora` to
            tune its image encoder, too) or open_clip (`openclip`), or the small one.
        size: the side of the square that an image becomes, in pixels.
        pad_ratio: of an image's sides, from which on it is padded; `hf` and `openclip` do not.
        batch: triplets per step of the optimiser, all processes and parts together.
        accumulate: equal parts in which a batch is computed, to save memory.
        lr: the learning rate of the first epoch.
        final_lr_share: the share of `lr` that the cosine decay, once an epoch, goes towards.
        clip_norm: the gradient norm above which gradients are clipped.
        precision: of the trained part; `auto` is bf16 on a GPU that has it, else fp16 with a
            gradient scaler, and fp32 on a CPU.
        strategy: how negative sets are defined, after the warm-up on the whole pool.
        n_def: periods that the epochs are divided into; each but the first redefines the sets.
        n_neg: the first size of a set, for the strategies in `SIZED`; of `qure-bounded`, how many
            images below the target its drops lie among.
        threshold: of `qure-code`: its two drops are more than this many places apart.
        pool: which images can be negatives.
        captions: how two captions become one text in training.
        pooling: how an image's score comes from those of its vectors.
        val_recall: the ks of the recall@k whose mean over the corpora selects the best epoch;
            on CIRR with Recall_subset@1.

    Raises:
        UnreadableInput: a value out of range, or one that contradicts another.
    """

    name: str
    dataset: Literal["fashioniq", "cirr", "drawn"]
    encoder: EncoderName
    size: int
    pad_ratio: float
    epochs: int
    batch: int
    accumulate: int
    lr: float
    final_lr_share: float
    weight_decay: float
    betas: tuple[float, float]
    eps: float
    clip_norm: float | None
    precision: Literal["auto", "fp32", "bf16", "fp16"]
    seed: int
    strategy: Strategy
    n_def: int
    n_neg: int | None
    threshold: int
    pool: PoolRule
    captions: CaptionRule
    pooling: Pooling
    val_recall: tuple[int, ...]

    def __post_init__(self) -> None:
        problem = next(self._problems(), None)
        if problem is not None:
            raise UnreadableInput(f"recipe {self.name}", problem)

    @property
    def period(self) -> int:
        """Epochs between two definitions, floor(epochs / n_def); the first are the warm-up."""
        return self.epochs // self.n_def

    @property
    def definitions(self) -> tuple[int, ...]:
        """The epochs, counted from 0, before which the negative sets are redefined.

        None for `corpus`, whose sets are always the whole pool (both papers, Algorithm 1), and for
        `in-batch`.
        """
        if self.strategy in UNSCORED:
            return ()
        return tuple(range(self.period, self.epochs, self.period))

    def lr_at(self, epoch: int, step: int = 0, n_steps: int = 1) -> float:  # noqa: ARG002
        """The learning rate of each step of an epoch, from 0 on (QuRe's `cosine_lr_schedule`)."""
        least = self.lr * self.final_lr_share
        return least + (self.lr - least) * (1 + math.cos(math.pi * epoch / self.epochs)) / 2

    def _problems(self) -> Iterator[str]:
        yield from self.out_of_range()
        if self.n_def > self.epochs:
            yield f"n_def is {self.n_def}, more than its {self.epochs} epochs"
        if self.batch % self.accumulate:
            yield f"accumulate is {self.accumulate}, but batch is {self.batch}: not equal parts"
        if self.strategy == "in-batch" and self.accumulate > 1:
            yield "strategy in-batch needs accumulate=1: a part of a batch has fewer negatives"
        if self.strategy in SIZED and self.n_neg is None:
            yield f"strategy {self.strategy} needs n_neg, a number of images"


RETRAINING: Final = "preference"
"""The recipe that starts from a scorer and a release.

Its numbers are in `Settings` of `model/preference/training.py`.
"""


def recipe(name: str, others: Iterable[str] = ()) -> Recipe:
    """The scorer's recipe of this name; `others` are further names that an error offers."""
    if name not in RECIPES:
        known = (*RECIPES, RETRAINING, *others)
        raise UnreadableInput(repr(name), "there is no such recipe", known_names(name, known))
    return RECIPES[name]


def on_drawn(stated: Recipe) -> Recipe:
    """The same strategy, definitions and loss for the small encoder and the drawn catalogue."""
    sized = stated.n_neg is not None
    return replace(
        stated, **{key: value for key, value in DRAWN.items() if sized or key != "n_neg"}
    )


RECIPES: Final = {name: Recipe(**values) for name, values in stated_recipes("scorers").items()}

DRAWN: Final[Mapping[str, Any]] = read_stated(STATED["scorers on drawn"])
"""The values for training the small encoder from scratch on the drawn catalogue.

`n_neg` suits the pools, of about 300 images each: 50 would be a sixth of one, but are less than a
hundredth of FashionIQ's.
"""
