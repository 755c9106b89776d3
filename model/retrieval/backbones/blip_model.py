"""The two encoders of BLIP (arXiv 2201.12086) through transformers, from settings, not downloads.

The functions import transformers, which takes some seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from hsfiq.model.retrieval.backbones.blip_sizes import BlipSizes

if TYPE_CHECKING:
    from transformers import BertTokenizer

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
