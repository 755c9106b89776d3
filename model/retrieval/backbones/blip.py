"""BLIP, the backbone of Bi-BLIP4CIR (ViT-B, arXiv 2303.16604) and CoVR-BLIP (ViT-L, 2308.14746).

Both freeze the whole image side, its projection included, and train the text encoder. transformers
is imported only when a model is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.blip2_weights import BERT_STORE, BERT_VOCABULARY, frozen_id, read_words
from hsfiq.model.encoders.hf.model import require_transformers
from hsfiq.model.encoders.preprocessing import Preprocessing
from hsfiq.model.retrieval.backbones.blip_model import (
    fill_positions,
    text_model,
    tokenizer_of,
    vision_model,
)
from hsfiq.model.retrieval.backbones.blip_sizes import SIZES, BlipSizes
from hsfiq.model.retrieval.backbones.initial_weights import draw_weights

MAX_TOKENS = 77
"""Of a text that is encoded alone (Bi-BLIP4CIR)."""

MAX_FUSED_TOKENS, MAX_FUSED_TOKENS_TRAINING = 64, 35
"""Of a text that reads an image (CoVR-BLIP), in evaluation and in training."""


class Side(nn.Module):
    """An encoder and the projection of its vectors to D dimensions."""

    def __init__(self, encoder: nn.Module, width: int, dim: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.proj = nn.Linear(width, dim)


class Blip(nn.Module):
    """BLIP's two encoders apart: `DirectedTowers` of hsfiq.model.retrieval.backbones.protocol.

    The only token of an image is the one that stands for the whole of it: no other is used.
    """

    READS_IMAGES = False
    """Whether the text encoder has cross-attention to an image's tokens."""

    frozen: tuple[str, ...] = ("image.encoder.",)

    def __init__(self, sizes: BlipSizes, tokenizer: Any) -> None:
        super().__init__()
        self.name = sizes.name
        self.preprocessing = Preprocessing(size=sizes.size, squeeze=sizes.squeeze)
        self.tokens_shape = (sizes.n_tokens if self.READS_IMAGES else 1, sizes.width)
        self.dim = sizes.dim
        self.text_width = sizes.text_width
        self.image = Side(vision_model(sizes), sizes.width, sizes.dim)
        self.image.requires_grad_(requires_grad=False)
        text = text_model(sizes, len(tokenizer), reads_images=self.READS_IMAGES)
        self.text = Side(text, sizes.text_width, sizes.dim)
        self._tokenizer = tokenizer
        self._sizes = sizes
        self._frozen_id: str | None = None

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Take weights as a module does; the frozen ones may have changed."""
        self._frozen_id = None
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

    def frozen_id(self) -> str:
        if self._frozen_id is None:
            settings = (self._sizes, self.tokens_shape)
            self._frozen_id = frozen_id(settings, self.image.encoder.state_dict())
        return self._frozen_id

    def image_modules(self) -> Sequence[nn.Module]:
        return (self.image.encoder,)

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Encode images; a GPU computes in fp16 and a CPU in fp32; returned as fp32."""
        device = pixels.device.type
        with torch.autocast(device, torch.float16, enabled=device != "cpu"):
            states = self.image.encoder(pixels).last_hidden_state  # [B, all tokens, W]
        tokens: Tensor = states[:, : self.tokens_shape[0]].float()  # [B, P, W]
        return tokens

    def image_vectors(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = self.image.proj(tokens[:, 0].to(self.image.proj.weight.dtype))  # [B, D]
        return vectors

    def text_vectors(self, texts: Sequence[str], direction: Tensor | None = None) -> Tensor:
        words = self.word_ids(texts, MAX_TOKENS - (direction is not None))
        embedding = self.text.encoder.get_submodule("embeddings.word_embeddings")
        embedded = embedding(words.input_ids)  # [B, T, H]
        present = words.attention_mask  # [B, T]
        if direction is not None:
            token = direction.expand(len(texts), 1, -1).to(embedded.dtype)  # [B, 1, H]
            embedded = torch.cat([embedded[:, :1], token, embedded[:, 1:]], dim=1)  # [B, 1 + T, H]
            present = torch.cat([present[:, :1], present], dim=1)  # [B, 1 + T]
        states = self.text.encoder(
            attention_mask=present, inputs_embeds=embedded
        ).last_hidden_state  # [B, T, H]
        vectors: Tensor = self.text.proj(states[:, 0])  # [B, D]
        return vectors

    def word_ids(self, texts: Sequence[str], longest: int) -> Any:
        """`input_ids` and `attention_mask`, both [B, T]; a text that is too long loses its end."""
        words = self._tokenizer(
            list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )
        return words.to(self.text.proj.weight.device)


class BlipCrossAttention(Blip):
    """BLIP whose text encoder also reads an image: `CrossAttention` of the protocol's module."""

    READS_IMAGES = True

    def fused_vectors(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Read images [B, P, W] with B texts, from the token [ENC]: [B, D], not normalised."""
        if len(texts) != len(tokens):
            raise ValueError(f"{len(tokens)} images, but {len(texts)} texts")
        longest = MAX_FUSED_TOKENS_TRAINING if self.training else MAX_FUSED_TOKENS
        words = self.word_ids(texts, longest)
        ids = words.input_ids.clone()  # [B, T]
        ids[:, 0] = self._tokenizer.convert_tokens_to_ids("[ENC]")
        states = self.text.encoder(
            ids, words.attention_mask, encoder_hidden_states=tokens.to(self.text.proj.weight.dtype)
        ).last_hidden_state  # [B, T, W of text]
        vectors: Tensor = self.text.proj(states[:, 0])  # [B, D]
        return vectors


_Blip = TypeVar("_Blip", bound=Blip)


def build(
    name: str, folder: Path, generator: torch.Generator | None, *, reads_images: bool
) -> Blip:
    """`blip-base` or `blip-large` at its true size; `folder` has BERT's vocabulary.

    The generator draws the weights; without one they are uninitialised, for a checkpoint to fill.
    """
    file = folder / BERT_VOCABULARY
    if not file.is_file():
        raise UnreadableInput(
            str(file),
            f"BLIP's tokenizer lacks BERT's vocabulary ({BERT_STORE}/{file.name})",
            "download it there, or name the folder that has it with --weights",
        )
    kind = BlipCrossAttention if reads_images else Blip
    return sized(kind, SIZES[name], read_words(file), generator)


def sized(
    kind: type[_Blip], sizes: BlipSizes, words: Sequence[str], generator: torch.Generator | None
) -> _Blip:
    """A model of any size, with BERT's words; the generator as in `build`."""
    require_transformers("BLIP")
    tokenizer = tokenizer_of(words)
    with torch.device("meta"):
        blip = kind(sizes, tokenizer)
    blip.to_empty(device="cpu")
    fill_positions(blip.text.encoder)
    if generator is not None:
        draw_weights(blip, generator)
    return blip.eval()
