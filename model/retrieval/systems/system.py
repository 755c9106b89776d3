"""The bases of the retrieval systems: of all, of those on two towers, of those on a Q-Former.

A system is a retriever (`hsfiq.model.encoders.protocol.Retriever`) on a backbone, trained in one or
two stages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints.checkpoint import Checkpoint
from hsfiq.model.encoders.preprocessing import Preprocessing
from hsfiq.model.encoders.protocol import FrozenEncoder
from hsfiq.model.encoders.text_cleaning import normalise
from hsfiq.model.recipes.system_recipe import SystemRecipe
from hsfiq.model.retrieval.backbones.protocol import Backbone, QFormer, TwoTowers
from hsfiq.model.retrieval.systems.batch import Batch, Losses
from hsfiq.text import decode

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
        """The text as the recipe says: as it is, or as LAVIS cleans it."""
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
        """The weights that a checkpoint holds: all but those that image tokens depend on."""
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
