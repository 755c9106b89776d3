"""The base of systems that compose the vectors of two towers; what is frozen runs once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from hsfiq.model.encoders.protocol import FrozenEncoder
from hsfiq.model.recipes.system_recipe import SystemRecipe
from hsfiq.model.retrieval.backbones.protocol import TwoTowers
from hsfiq.model.retrieval.systems.frozen_images import ImageVectors
from hsfiq.model.retrieval.systems.system import TwoTowerSystem, is_trained

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
