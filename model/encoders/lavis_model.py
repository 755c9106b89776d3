"""LAVIS' `Blip2Qformer`, built from local files instead of downloads.

Importing this imports LAVIS (some seconds), so `hsfiq.model.encoders.lavis` imports it only
when it builds a model.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import torch
from lavis.models import clip_vit, eva_vit
from lavis.models.blip2_models.blip2 import LayerNorm
from lavis.models.blip2_models.blip2_qformer import Blip2Qformer
from lavis.models.blip2_models.Qformer import BertConfig, BertLMHeadModel
from torch import nn
from transformers import BertTokenizer

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.blip2_weights import EVA_MLP_RATIO, PATCH, SPECIAL_WORDS, Vit, read_words


class LocalBlip2Qformer(Blip2Qformer):  # type: ignore[misc] # LAVIS has no types
    """`Blip2Qformer` of any size, with random weights; its state keeps LAVIS' names.

    LAVIS' constructor calls these methods for its parts; LAVIS' own versions download them.
    """

    def __init__(self, vit: Vit, bert: BertConfig, vocabulary: Path) -> None:
        self._vit = vit
        self._bert = bert
        self._vocabulary = vocabulary
        super().__init__()

    def init_tokenizer(self) -> BertTokenizer:
        tokenizer = BertTokenizer(vocab_file=str(self._vocabulary))
        tokenizer.add_special_tokens({"bos_token": "[DEC]"})
        return tokenizer

    def init_vision_encoder(self, *_: object) -> tuple[nn.Module, nn.Module]:
        encoder = build_vit(self._vit)
        return encoder, LayerNorm(encoder.num_features)

    def init_Qformer(  # noqa: N802 -- LAVIS' name
        self, num_query_token: int, vision_width: int, cross_attention_freq: int
    ) -> tuple[nn.Module, nn.Parameter]:
        """The Q-Former: BERT with cross-attention to the image in every second layer."""
        self._bert.encoder_width = vision_width
        self._bert.add_cross_attention = True
        self._bert.cross_attention_freq = cross_attention_freq
        self._bert.query_length = num_query_token
        qformer = BertLMHeadModel(self._bert)
        deviation = self._bert.initializer_range
        shape = (1, num_query_token, self._bert.hidden_size)
        return qformer, nn.Parameter(deviation * torch.randn(shape))


def build_vit(vit: Vit) -> nn.Module:
    """The image encoder in fp32, as LAVIS' `create_clip_vit_L` and `create_eva_vit_g` build it."""
    encoder: nn.Module
    if vit.kind == "clip":
        # LAVIS' class builds one layer fewer than it is given.
        layers = vit.blocks + 1
        encoder = clip_vit.VisionTransformer(
            vit.size, PATCH, vit.width, layers, vit.heads, use_grad_checkpointing=False
        )
    else:
        encoder = eva_vit.VisionTransformer(
            img_size=vit.size,
            patch_size=PATCH,
            use_mean_pooling=False,
            embed_dim=vit.width,
            depth=vit.blocks,
            num_heads=vit.heads,
            mlp_ratio=EVA_MLP_RATIO,
            qkv_bias=True,
            norm_layer=partial(nn.LayerNorm, eps=1e-6),
        )
    return encoder


def build(vit: Vit, config: Path, vocabulary: Path) -> LocalBlip2Qformer:
    """Build a model with random weights from BERT's config and vocabulary, or UnreadableInput."""
    read_words(vocabulary)
    try:
        settings = BertConfig.from_dict(json.loads(config.read_text(encoding="utf-8")))
        return LocalBlip2Qformer(vit, settings, vocabulary)
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        problem = f"is not a BERT config ({str(error).splitlines()[0]})"
        raise UnreadableInput(str(config), problem, "download it again") from error


def generate_vocabulary(file: Path, n_words: int) -> None:
    """Write a vocabulary in BERT's format that can spell any word of letters and digits."""
    characters = "abcdefghijklmnopqrstuvwxyz0123456789"
    words = [*SPECIAL_WORDS, *characters, *(f"##{character}" for character in characters)]
    words += [f"[unused{number}]" for number in range(n_words - len(words))]
    file.write_text("\n".join(words) + "\n", encoding="utf-8")
