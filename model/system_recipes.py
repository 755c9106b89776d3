"""The recipes of the retrieval systems, and the origin of retrievers not trained here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final, Literal

from hsfiq.errors import UnreadableInput
from hsfiq.model import recipes

# The settings that every retrieval system's recipe has.
#
# A system is trained in one or two stages. A setting that may differ between them is a tuple with
# one value for each stage.

SystemName = Literal["clip4cir", "bi-blip4cir", "covr-blip", "sprc", "mapnet"]
BackboneName = Literal[
    "clip-rn50x4", "blip-base", "blip-large", "blip2-vitL", "blip2-vitg", "blip2-hf", "tiny"
]
TextRule = Literal["as-is", "lavis"]
Schedule = Literal["constant", "cosine", "one-cycle"]

STAGED = ("epochs", "batch", "lr", "schedule", "schedule_epochs", "weight_decay")
"""The settings of every system with one value for each stage."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a recipe: the values of `STAGED`, and those of its one-cycle schedule."""

    number: int
    """From 1."""
    epochs: int
    batch: int
    lr: float
    schedule: Schedule
    schedule_epochs: int | None
    weight_decay: float
    warmup: float
    start_divisor: float

    def lr_at(self, epoch: int, step: int, n_steps: int) -> float:
        """The learning rate of a step; epochs and steps, of `n_steps` each, are counted from 0.

        `cosine` changes once an epoch and rises again after `schedule_epochs`, as in Bi-BLIP4CIR's
        code; `one-cycle` changes at each step (Smith and Topin, arXiv 1708.07120, as in torch).
        """
        period = self.schedule_epochs or self.epochs
        if self.schedule == "cosine":
            return self.lr * (1 + math.cos(math.pi * epoch / period)) / 2
        if self.schedule == "one-cycle":
            return self._one_cycle(epoch * n_steps + step, period * n_steps)
        return self.lr

    def _one_cycle(self, step: int, n_steps: int) -> float:
        start = self.lr / self.start_divisor
        top = self.warmup * n_steps - 1
        if step < top:
            return _between(start, self.lr, step / top)
        share = (step - top) / max(n_steps - 1 - top, 1)
        return _between(self.lr, start / _FINAL_DIVISOR, share)


_FINAL_DIVISOR = 1e4
"""Of the first learning rate, which gives the last one of a one-cycle schedule (torch's)."""


def _between(first: float, last: float, share: float) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * min(share, 1.0))) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRecipe(recipes.RecipeBase):
    """Every number that a system's training depends on, besides the data.

    Attributes:
        size: the side of the square that an image becomes, in pixels.
        pad_ratio: of an image's sides, from which on it is padded.
        triplets: the training triplets to use; all if None.
        schedule_epochs: the epochs that a schedule is stretched over; those of the stage if None.
        warmup: the share of a one-cycle schedule's steps in which the learning rate rises.
        start_divisor: of `lr`, which gives the first learning rate of a one-cycle schedule.
        temperature: divides the cosines in the loss; where it is learned, its first value.
        precision: as in `Recipe`.
        captions: how two captions become one text in training.
        text: how a text is cleaned: `lavis` makes it lower case and leaves out punctuation.
        max_words: the most words of a text that is cleaned so.
        pool: as in `Recipe`; it only decides which images are read.
        val_recall: the ks of the recall@k whose mean over the corpora selects the best epoch;
            on CIRR with Recall_subset@1.

    Raises:
        UnreadableInput: a value out of range, or stages that do not agree in number.
    """

    FIXED: ClassVar[tuple[str, ...]] = ("name", "dataset", "system")
    STAGED_TOO: ClassVar[tuple[str, ...]] = ()
    """A system's own settings with one value for each stage."""

    name: str
    dataset: Literal["fashioniq", "cirr", "drawn"]
    system: SystemName
    backbone: BackboneName
    size: int
    pad_ratio: float
    triplets: int | None = None
    epochs: tuple[int, ...]
    batch: tuple[int, ...]
    lr: tuple[float, ...]
    schedule: tuple[Schedule, ...]
    schedule_epochs: tuple[int | None, ...]
    weight_decay: tuple[float, ...]
    warmup: float = 0.3
    start_divisor: float = 25.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip_norm: float | None = None
    temperature: float
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    seed: int
    captions: recipes.CaptionRule = "four-way"
    text: TextRule = "lavis"
    max_words: int = 50
    pool: recipes.PoolRule = "corpus"
    pooling: recipes.Pooling = "max"
    val_recall: tuple[int, ...]

    def __post_init__(self) -> None:
        problem = next(self.out_of_range(), None)
        lengths = {key: len(getattr(self, key)) for key in (*STAGED, *self.STAGED_TOO)}
        if problem is None and len(set(lengths.values())) > 1:
            problem = "the stages differ in number: " + ", ".join(
                f"{key}={recipes.shown(getattr(self, key))}" for key in lengths
            )
        if problem is not None:
            raise UnreadableInput(
                f"recipe {self.name}", problem, "give one comma-separated value for each stage"
            )

    def for_all_stages(self, values: dict[str, Any]) -> dict[str, Any]:
        staged = (*STAGED, *self.STAGED_TOO)
        n_stages = max(len(values.get(key, getattr(self, key))) for key in staged)
        repeated = (key for key in staged if len(values.get(key, ())) == 1)
        return values | {key: values[key] * n_stages for key in repeated}

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(
            Stage(
                number=place + 1,
                warmup=self.warmup,
                start_divisor=self.start_divisor,
                **{key: getattr(self, key)[place] for key in STAGED},
            )
            for place in range(len(self.epochs))
        )


# Bi-BLIP4CIR's settings; PAPERS.md says where each value comes from.


@dataclass(frozen=True, slots=True, kw_only=True)
class BiBlip4cirRecipe(SystemRecipe):
    """Bi-BLIP4CIR's (Liu et al., WACV 2024).

    Attributes:
        alpha: the weight of the reversed loss; 0 in both stages is BLIP4CIR.
        direction: how a text says which way it is read. `token`: a learned embedding after [CLS]
            (paper); `backward-token`: reversed texts alone have one (table 3, row 3); `code`: the
            strings of the published code (`directed_text`); `none`: not at all.
        negatives: what the reversed loss contrasts with: the row's text composed with other targets
            (eq. 2), or other references (table 3, row 2).
        proj_lr: constant learning rate of the text encoder's last projection; `lr` if None.
        projection, hidden, dropout: of the Combiner, as in `Clip4cirRecipe`.
    """

    STAGED_TOO: ClassVar[tuple[str, ...]] = ("alpha",)

    alpha: tuple[float, ...]
    direction: Literal["token", "backward-token", "code", "none"] = "token"
    negatives: Literal["targets", "references"] = "targets"
    proj_lr: float | None
    projection: int
    hidden: int
    dropout: float = 0.5


# CLIP4CIR's settings; PAPERS.md says where each value comes from.


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip4cirRecipe(SystemRecipe):
    """CLIP4CIR's (Baldrati et al., CVPR 2022 and TOMM 2023).

    Attributes:
        tuned: what stage I trains: both encoders (2023) or the text encoder alone (2022).
        projection: the width of the Combiner's two projections.
        hidden: the width of its hidden layers.
        dropout: in the Combiner.
    """

    tuned: Literal["both", "text"] = "both"
    projection: int
    hidden: int
    dropout: float = 0.5


# CoVR-BLIP's settings; PAPERS.md says where each value comes from.


@dataclass(frozen=True, slots=True, kw_only=True)
class CovrBlipRecipe(SystemRecipe):
    """CoVR-BLIP's (Ventura et al., AAAI 2024).

    Attributes:
        loss: `hn-nce` as its formula says, `hn-nce-code` as the published code computes it, or
            `info-nce`, which weighs all negatives alike.
        alpha: the weight of the positive among the negatives.
        beta: how much more a negative weighs that scores higher.
    """

    loss: Literal["hn-nce", "hn-nce-code", "info-nce"] = "hn-nce"
    alpha: float
    beta: float


# MAPNet's settings; PAPERS.md says where each value comes from, and what no source gives.

Proximity = Literal["cosine-distance", "euclidean", "printed"]
Marginals = Literal["both", "samples"]
Neighbours = Literal["start", "current"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapnetRecipe(SystemRecipe):
    """A system in the spirit of MAPNet (Shi et al., ICCV 2025), known by a poster only.

    Attributes:
        contrastive_weight: of the contrastive loss, which the poster does not mention.
        msi_weight: of the multi-schema interaction.
        rp_weight: of the relaxed proximity loss.
        n_queries: the backbone's query tokens that compose; N_Q on the poster.
        marginals: what the transport's plan keeps to: uniform samples and queries (`both`), or
            `samples` alone, which then choose their queries without regard to each other.
        kernel_temperature: the weight of the plan's entropy, tau on the poster.
        sweeps: of Sinkhorn's algorithm.
        mmd_width: of the Gaussian kernel of the interaction's distance.
        proximity: what C is in the relaxed proximity loss: a distance of query and target
            (`cosine-distance`, or `euclidean` over its row's mean), or the similarity, and no
            hinge, as `printed`.
        neighbours: the targets' vectors that its weights W compare: those of the backbone at the
            `start` of training, or the `current` ones without gradient.
        proximity_width: of the Gaussian kernel of W, sigma in the repository's figure.
        gamma: the W from which on a pair is never pushed apart.
    """

    contrastive_weight: float = 1.0
    msi_weight: float = 1.0
    rp_weight: float = 10.0
    n_queries: int
    marginals: Marginals = "both"
    kernel_temperature: float = 0.1
    sweeps: int = 50
    mmd_width: float = 0.6
    proximity: Proximity = "cosine-distance"
    neighbours: Neighbours = "start"
    proximity_width: float = 0.6
    gamma: float = 0.5


# SPRC's settings; PAPERS.md says where each value comes from.


@dataclass(frozen=True, slots=True, kw_only=True)
class SprcRecipe(SystemRecipe):
    """SPRC's (Bai et al., ICLR 2024).

    Attributes:
        regularisation: the weight of the loss of texts with the free prompt tokens (`rtc`).
        alignment: the weight of the distance of the two prompts' means (`align`).
        temperature_kind: whether `temperature` is trained too, or stays as it is.
    """

    regularisation: float
    alignment: float
    temperature_kind: Literal["learned", "fixed"] = "learned"


# The retrieval systems' recipes, by name; PAPERS.md says where each value comes from.

KINDS: Final[Mapping[str, type[SystemRecipe]]] = {
    "clip4cir": Clip4cirRecipe,
    "bi-blip4cir": BiBlip4cirRecipe,
    "covr-blip": CovrBlipRecipe,
    "sprc": SprcRecipe,
    "mapnet": MapnetRecipe,
}

SYSTEM_RECIPES: Final = {
    name: KINDS[values["system"]](**values)
    for name, values in recipes.stated_recipes("systems").items()
}

DRAWN: Final = recipes.read_stated(recipes.STATED["systems on drawn"])
"""The values for training with the small backbone on the drawn catalogue, in every system.

The seed, from which the catalogue follows too, is the same for all systems. A temperature
of 0.01 is too sharp for weights that are almost random.
"""

DRAWN_SYSTEMS: Final = {
    system: recipes.read_stated(values)
    for system, values in recipes.STATED["each system on drawn"].items()
}
"""Further changes of each system there.

With all 9,000 triplets the systems come out too good and too alike (recall@10 above 0.9), which no
study could tell apart. So each trains on a number of its own, chosen so that they are about as far
apart as the judged ones, in the same order: CLIP4CIR, Bi-BLIP4CIR, CoVR-BLIP, SPRC, MAPNet. The
strengths here say nothing about the published systems; `--set triplets=none` trains on all.

SPRC's temperature is fixed: at the learning rate that random weights need, a learned one falls
within an epoch.
"""


def system_recipe(name: str) -> SystemRecipe:
    if name not in SYSTEM_RECIPES:
        raise UnreadableInput(
            repr(name), "there is no such recipe", recipes.known_names(name, SYSTEM_RECIPES)
        )
    return SYSTEM_RECIPES[name]


def system_on_drawn(stated: SystemRecipe) -> SystemRecipe:
    """The same system, losses and stages for the small backbone and the drawn catalogue."""
    return replace(stated, **DRAWN, **DRAWN_SYSTEMS[stated.system])


def system_recipe_from_json(value: object, where: str) -> SystemRecipe:
    """The recipe that `to_json` wrote; UnreadableInput if it is not one of this version."""
    name = value.get("system") if isinstance(value, dict) else None
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise UnreadableInput(
            where, f"names an unknown system: {name!r}", f"known: {', '.join(KINDS)}"
        )
    return kind.from_json(value, where)


# What is known of a retriever that was not trained here.


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """In place of a recipe; `name` is its specification."""

    name: str
    pooling: recipes.Pooling = "max"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
