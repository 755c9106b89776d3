"""BLIP, the backbone of Bi-BLIP4CIR (ViT-B, arXiv 2303.16604) and CoVR-BLIP (ViT-L, 2308.14746).

Both freeze the whole image side, its projection included, and train the text encoder.
transformers is imported only when a model is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.blip2_weights import BERT_STORE, BERT_VOCABULARY, frozen_id, read_words
from hsfiq.model.encoders.encoder import Preprocessing
from hsfiq.model.encoders.hf import require_transformers
from hsfiq.model.retrieval.backbone import draw_weights

if TYPE_CHECKING:
    from transformers import BertTokenizer


# The sizes of BLIP's published models.


@dataclass(frozen=True, slots=True)
class BlipSizes:
    """The sizes of a model and the shape of its images.

    `size` and `patch` are sides in pixels; `positions` is the longest text that fits; `squeeze` is
    that of `Preprocessing`.
    """

    name: str
    size: int
    patch: int
    width: int
    blocks: int
    heads: int
    text_width: int = 768
    text_layers: int = 12
    text_heads: int = 12
    positions: int = 512
    dim: int = 256
    squeeze: bool = False

    @property
    def n_tokens(self) -> int:
        """Image tokens: one for the image and one for each patch."""
        return (self.size // self.patch) ** 2 + 1


# med_config.json of Bi-BLIP4CIR and CoVR gives the text encoder; transformers' default has 8 heads.
BASE = BlipSizes("blip-base", size=384, patch=16, width=768, blocks=12, heads=12)
# CoVR squeezes images; Bi-BLIP4CIR, and BLIP4CIR with cross-attention, pad them.
LARGE = BlipSizes("blip-large", size=384, patch=16, width=1024, blocks=24, heads=16, squeeze=True)

SIZES = {sizes.name: sizes for sizes in (BASE, LARGE)}


# The two encoders of BLIP (arXiv 2201.12086) through transformers, from settings, not downloads.
#
# The functions import transformers, which takes some seconds.

VIT_EPS = 1e-6
"""Of the image encoder's norms, as in BLIP's code; transformers' default is 1e-5."""

DROPOUT = 0.1
"""Of the text encoder, from BLIP's med_config.json; transformers' default is 0."""


def vision_model(sizes: BlipSizes) -> nn.Module:
    """The image encoder on the current device, its weights uninitialised."""
    from transformers import BlipVisionConfig, BlipVisionModel  # noqa: PLC0415 (an extra)

    config = BlipVisionConfig(
        hidden_size=sizes.width,
        intermediate_size=4 * sizes.width,
        num_hidden_layers=sizes.blocks,
        num_attention_heads=sizes.heads,
        image_size=sizes.size,
        patch_size=sizes.patch,
        layer_norm_eps=VIT_EPS,
    )
    model: nn.Module = BlipVisionModel(config)
    return model


def text_model(sizes: BlipSizes, n_words: int, *, reads_images: bool) -> nn.Module:
    """The text encoder on the current device, its weights uninitialised.

    It reads in both directions; cross-attention is left out where it never reads an image.
    """
    from transformers import BlipTextConfig, BlipTextModel  # noqa: PLC0415 (an extra)

    config = BlipTextConfig(
        vocab_size=n_words,
        hidden_size=sizes.text_width,
        encoder_hidden_size=sizes.width,
        intermediate_size=4 * sizes.text_width,
        num_hidden_layers=sizes.text_layers,
        num_attention_heads=sizes.text_heads,
        max_position_embeddings=sizes.positions,
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
        is_decoder=reads_images,
    )
    model: nn.Module = BlipTextModel(config, add_pooling_layer=False)
    return model


def fill_positions(text: nn.Module) -> None:
    """Set the text encoder's only buffer, which no file holds."""
    positions = text.get_buffer("embeddings.position_ids")
    positions.copy_(torch.arange(positions.shape[1]))


def tokenizer_of(words: Sequence[str]) -> BertTokenizer:
    """BLIP's tokenizer: BERT's words, then [DEC] and [ENC]."""
    from transformers import BertTokenizer  # noqa: PLC0415 (an extra)

    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(words)})
    tokenizer.add_special_tokens({"bos_token": "[DEC]"})
    tokenizer.add_special_tokens({"additional_special_tokens": ["[ENC]"]})
    return tokenizer


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
    """BLIP's two encoders apart: `DirectedTowers` of hsfiq.model.retrieval.backbone.

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
        """`input_ids` and `attention_mask`, both [B, T]; a text that is too long is truncated."""
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
