"""The base of the retrieval systems: the vectors of two towers, composed; frozen parts run once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import Checkpoint
from hsfiq.model.encoders.blip2_weights import frozen_id
from hsfiq.model.encoders.encoder import FrozenEncoder, Preprocessing, normalise
from hsfiq.model.retrieval.backbone import Backbone, QFormer, TwoTowers
from hsfiq.model.runtime import moved
from hsfiq.model.system_recipes import SystemRecipe
from hsfiq.text import decode

# What a step of a system's training reads and gives.


@dataclass(frozen=True, slots=True)
class Batch:
    """B triplets, whose targets are each other's negatives."""

    triplet_ids: list[str]
    texts: list[str]
    reversed_texts: list[str]
    """Drawn apart from `texts`, for systems that also train on (target, text) -> reference."""
    references: Tensor  # [B, P, W] tokens
    targets: Tensor  # [B, P, W]

    @property
    def n(self) -> int:
        return len(self.texts)

    def to(self, device: torch.device) -> Batch:
        return replace(
            self, references=moved(self.references, device), targets=moved(self.targets, device)
        )


@dataclass(frozen=True, slots=True)
class Losses:
    """The terms of a batch's loss by name, weighted, so that their sum is minimised."""

    terms: dict[str, Tensor]  # [] each
    logits: Tensor  # [B, B] of queries and targets


# The Combiner: stage II of CLIP4CIR and Bi-BLIP4CIR.
#
# Baldrati et al., CVPR 2022 workshops; the order of its parts is that of the authors' code, and so
# are the names of its layers, so that their weights load without renaming.


class Combiner(nn.Module):
    """Composes an image vector and a text vector of width D into a query of length 1."""

    def __init__(self, dim: int, projection: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.text_projection_layer = nn.Linear(dim, projection)
        self.image_projection_layer = nn.Linear(dim, projection)
        self.combiner_layer = nn.Linear(2 * projection, hidden)
        self.output_layer = nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)
        self.dynamic_scalar = nn.Sequential(
            nn.Linear(2 * projection, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, 1),
            nn.Sigmoid(),
        )

    def forward(self, images: Tensor, texts: Tensor) -> Tensor:
        """[B, D] and [B, D] -> [B, D]."""
        text = self.dropout(F.relu(self.text_projection_layer(texts)))  # [B, projection]
        image = self.dropout(F.relu(self.image_projection_layer(images)))  # [B, projection]
        both = torch.cat([text, image], dim=1)  # [B, 2 projection]
        mixed = self.dropout(F.relu(self.combiner_layer(both)))  # [B, hidden]
        share = self.dynamic_scalar(both)  # [B, 1], of the text
        return F.normalize(self.output_layer(mixed) + share * texts + (1 - share) * images, dim=1)

    def pairs(self, images: Tensor, texts: Tensor) -> Tensor:
        """Compose each text with each image: [J, D] and [I, D] -> [I, J, D].

        The same as `forward` in evaluation. Of the widest layers, W [a_i ; b_j] = W_a a_i + W_b b_j
        is computed from I + J products instead of I J. In training the pairs share masks of
        dropout: a text's pairs those of its states, an image's pairs those of its projection.
        """
        text = self.dropout(F.relu(self.text_projection_layer(texts)))  # [I, projection]
        image = self.dropout(F.relu(self.image_projection_layer(images)))  # [J, projection]
        mixed = self.output_layer(self._wide(self.combiner_layer, text, image))  # [I, J, D]
        first, last = self.dynamic_scalar[0], self.dynamic_scalar[3]
        share = torch.sigmoid(last(self._wide(first, text, image)))  # [I, J, 1], of the text
        composed = mixed + share * texts.unsqueeze(1) + (1 - share) * images  # [I, J, D]
        return F.normalize(composed, dim=2)

    def _wide(self, layer: nn.Module, text: Tensor, image: Tensor) -> Tensor:
        """Hidden states of every pair of projections: [I, J, hidden]."""
        weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
        width = text.shape[1]
        of_text = F.linear(text, weight[:, :width], bias)  # [I, hidden]
        of_image = F.linear(image, weight[:, width:])  # [J, hidden]
        kept = self.dropout(torch.ones_like(of_text))  # [I, hidden]
        states: Tensor = F.relu(of_text.unsqueeze(1) + of_image) * kept.unsqueeze(1)
        return states


# The image side of two towers, while it is not trained, as the feature cache's encoder.


class ImageVectors:
    """A `FrozenEncoder` that gives each image one token, its vector; no step computes it again."""

    def __init__(self, towers: TwoTowers) -> None:
        self._towers = towers
        self.name = towers.name
        self.preprocessing = towers.preprocessing
        self.tokens_shape = (1, towers.dim)

    def frozen_id(self) -> str:
        return frozen_id(("vectors", self._towers.frozen_id()), self._towers.image.state_dict())

    def image_modules(self) -> Sequence[nn.Module]:
        return (self._towers.image,)

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        tokens = self._towers.image_tokens(pixels)  # [B, P, W]
        return self._towers.image_vectors(tokens).unsqueeze(1)  # [B, 1, D]


# The bases of the retrieval systems: of all, of those on two towers, of those on a Q-Former.
#
# A system is a retriever (`hsfiq.model.encoders.encoder.Retriever`) on a backbone, trained in one
# or two stages.

FROZEN = "frozen"
"""The part of an imported checkpoint with the weights that image tokens depend on."""


class System(nn.Module, ABC):
    """A retriever whose frozen image tokens are its backbone's."""

    name: str
    recipe: SystemRecipe

    def __init__(self, backbone: Backbone, recipe: SystemRecipe) -> None:
        super().__init__()
        self.backbone = backbone
        self.recipe = recipe
        self.preprocessing: Preprocessing = backbone.preprocessing
        self.tokens_shape: tuple[int, int] = backbone.tokens_shape
        self.stage = 1

    @abstractmethod
    def begin(self, stage: int) -> None:
        """Prepare a stage, counted from 1: what requires gradients, and what composes."""

    def before_training(self) -> None:
        """Keep what a stage's losses need of the weights that it starts from."""

    def keep_texts(self, texts: Sequence[str]) -> None:
        """Encode a stage's training texts now, if what encodes them is not trained."""

    def training_encoder(self) -> FrozenEncoder:
        """Whose tokens the stage trains on: the backbone's, or vectors if these are frozen too."""
        return self.backbone

    def clean_text(self, text: str) -> str:
        """The text as the recipe requires: unchanged, or cleaned as in LAVIS."""
        if self.recipe.text == "as-is":
            return decode(text)
        return normalise(text, self.recipe.max_words)

    @abstractmethod
    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Compose references and texts: [B, P, W] and B texts -> [B, D], each of length 1."""

    @abstractmethod
    def gallery(self, tokens: Tensor) -> Tensor:
        """The vectors of length 1 that queries are compared with: [B, P, W] -> [B, L, D]."""

    @abstractmethod
    def losses(self, batch: Batch) -> Losses:
        """The losses of the stage that has begun."""

    def own_lr(self) -> Mapping[str, float]:
        """Constant learning rates of parameters in this stage, by a prefix of their names."""
        return {}

    def loss_temperature(self) -> float | None:
        """The temperature of the loss where it is learned; the recipe's holds if None."""
        return None

    def frozen_id(self) -> str:
        return self.backbone.frozen_id()

    def image_modules(self) -> Sequence[nn.Module]:
        return self.backbone.image_modules()

    def image_tokens(self, pixels: Tensor) -> Tensor:
        return self.backbone.image_tokens(pixels)

    def train_only(self, modules: Iterable[nn.Module]) -> None:
        """Let the parameters of these modules, and no others, require gradients."""
        self.requires_grad_(requires_grad=False)
        for module in modules:
            module.requires_grad_()

    def train(self, mode: bool = True) -> Self:
        """As torch's, but frozen modules stay in evaluation mode, without dropout."""
        super().train(mode)
        for module in self.modules():
            if list(module.parameters()) and not is_trained(module):
                module.eval()
        return self

    def train_all(self) -> None:
        """Let every parameter but those of `Backbone.frozen` require gradients."""
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(not self.is_frozen(name))

    def is_frozen(self, name: str) -> bool:
        """Whether a weight of this name comes from published files, and is in no checkpoint."""
        return name.startswith(tuple(f"backbone.{prefix}" for prefix in self.backbone.frozen))

    def stored_weights(self) -> dict[str, Tensor]:
        """The weights that a checkpoint holds: all but the weights that make image tokens."""
        return {name: self.state_dict()[name] for name in self._stored_names()}

    def load(self, checkpoint: Checkpoint) -> None:
        """Take the weights of a checkpoint; UnreadableInput if they are another system's."""
        self._take(checkpoint, "scorer", self._stored_names())

    def frozen_weights(self) -> dict[str, Tensor]:
        """The weights that image tokens depend on, which an imported checkpoint holds too."""
        stored = self._stored_names()
        return {name: value for name, value in self.state_dict().items() if name not in stored}

    def load_frozen(self, checkpoint: Checkpoint) -> None:
        """Take the frozen weights of a checkpoint that has them; raises as `load`."""
        self._take(checkpoint, FROZEN, set(self.frozen_weights()))

    def _take(self, checkpoint: Checkpoint, part: str, names: set[str]) -> None:
        tensors = checkpoint.tensors(part)
        differing = sorted(names ^ tensors.keys()) or [
            name for name in sorted(names) if tensors[name].shape != self.state_dict()[name].shape
        ]
        if differing:
            raise UnreadableInput(
                str(checkpoint.path),
                f"holds other weights than {self.name} with its recipe: {differing[0]}",
                "copy the checkpoint again, with all its files",
            )
        self.load_state_dict(tensors, strict=False)

    def _stored_names(self) -> set[str]:
        return {name for name in self.state_dict() if not self.is_frozen(name)}


class TwoTowerSystem(System):
    """An image is its vector: L is 1."""

    backbone: TwoTowers

    def image_vectors(self, tokens: Tensor) -> Tensor:
        """[B, P, W] -> [B, D], not normalised."""
        return self.backbone.image_vectors(tokens)

    def gallery(self, tokens: Tensor) -> Tensor:
        return F.normalize(self.image_vectors(tokens), dim=1).unsqueeze(1)  # [B, 1, D]


class QFormerSystem(System):
    """An image is what each query token reads in it: L is Q. Its one stage trains everything."""

    backbone: QFormer

    def begin(self, stage: int) -> None:
        self.stage = stage
        self.train_all()

    def gallery(self, tokens: Tensor) -> Tensor:
        return projected(self.backbone, tokens)  # [B, Q, D]


def is_trained(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def projected(backbone: QFormer, tokens: Tensor) -> Tensor:
    """The vectors of images: [B, P, W] -> [B, Q, D], each of length 1."""
    vectors: Tensor = backbone.vision_proj(backbone.read_image(tokens))  # [B, Q, D]
    return F.normalize(vectors.float(), dim=-1)


# The base of systems that compose the vectors of two towers; what is frozen runs once.

Encode = Callable[[Sequence[str]], Tensor]
"""B texts -> [B, D]."""

CHUNK = 512


class VectorSystem(TwoTowerSystem):
    """Reads an image and a text as one vector each; the frozen ones are computed once."""

    def __init__(self, backbone: TwoTowers, recipe: SystemRecipe) -> None:
        super().__init__(backbone, recipe)
        self._frozen_texts: dict[str, FrozenTexts] = {}

    def train_only(self, modules: Iterable[nn.Module]) -> None:
        super().train_only(modules)
        self._frozen_texts = {}

    def training_encoder(self) -> FrozenEncoder:
        return self.backbone if is_trained(self.backbone.image) else ImageVectors(self.backbone)

    def image_vectors(self, tokens: Tensor) -> Tensor:
        """[B, P, W], or the [B, 1, D] of `ImageVectors`, -> [B, D], not normalised."""
        if tokens.shape[1:] == (1, self.backbone.dim):
            return tokens[:, 0].float()  # [B, D]
        return super().image_vectors(tokens)

    def readings(self) -> Mapping[str, Encode]:
        """How texts become vectors, not normalised, by a name of the system's own."""
        return {"": self.backbone.text_vectors}

    def text_vectors(self, texts: Sequence[str], reading: str = "") -> Tensor:
        """B texts -> [B, D]."""
        encode = self._frozen_texts.get(reading) or self.readings()[reading]
        return encode(texts)

    def keep_texts(self, texts: Sequence[str]) -> None:
        if is_trained(self.backbone.text):
            return
        self.backbone.text.eval()
        self._frozen_texts = {
            reading: FrozenTexts(encode, texts) for reading, encode in self.readings().items()
        }


class FrozenTexts:
    """An `Encode` that looks up known texts; their vectors stay in the device's memory.

    The texts are encoded in their sorted order, so that a resumed run finds equal vectors.
    """

    def __init__(self, encode: Encode, texts: Sequence[str]) -> None:
        ordered = sorted(set(texts))
        self._encode = encode
        self._rows = {text: row for row, text in enumerate(ordered)}
        chunks = [ordered[start : start + CHUNK] for start in range(0, len(ordered), CHUNK)]
        with torch.no_grad():
            self._vectors = torch.cat([encode(chunk) for chunk in chunks])  # [N, D]

    def __call__(self, texts: Sequence[str]) -> Tensor:
        if any(text not in self._rows for text in texts):
            return self._encode(texts)
        return self._vectors[[self._rows[text] for text in texts]]  # [B, D]
