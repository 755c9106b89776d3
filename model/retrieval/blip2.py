"""BLIP-2's Q-Former for composing queries: the scorer's encoders, with passes of its own.

Both libraries refuse queries without an image, which SPRC's second pass needs. So the layers run in
a loop of ours over their weights. SPRC's facts: without an image no position reads one, and all
positions, prompts too, pass through the words' feed-forward part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hsfiq.model.encoders.hf import MAX_TOKENS, Blip2Hf
from hsfiq.model.encoders.lavis import UNUSED
from hsfiq.model.encoders.lavis import Blip2 as LavisBlip2
from hsfiq.model.encoders.registry import build_encoder


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a library's BLIP-2 that the passes use; H is the Q-Former's width."""

    queries: nn.Parameter  # [1, Q, H]
    image_norm: nn.Module
    words: nn.Embedding
    places: nn.Embedding
    norm: nn.Module
    dropout: nn.Module
    layers: Any
    vision_proj: nn.Linear
    text_proj: nn.Linear
    tokenizer: Any


class Blip2(nn.Module):
    """`QFormer` of hsfiq.model.retrieval.backbone describes the methods."""

    def __init__(self, encoder: Any, parts: Parts, frozen: tuple[str, ...]) -> None:
        """Use the weights of a scorer's encoder; `frozen` as in the protocol."""
        super().__init__()
        self.name: str = encoder.name
        self.preprocessing = encoder.preprocessing
        self.tokens_shape: tuple[int, int] = encoder.tokens_shape
        self.frozen = frozen
        self.encoder = encoder
        self._parts = parts
        self.n_queries = parts.queries.shape[1]
        self.dim = parts.vision_proj.out_features

    @property
    def query_tokens(self) -> Tensor:
        return self._parts.queries[0]  # [Q, H]

    @property
    def vision_proj(self) -> nn.Module:
        return self._parts.vision_proj

    @property
    def text_proj(self) -> nn.Module:
        return self._parts.text_proj

    def frozen_id(self) -> str:
        identity: str = self.encoder.frozen_id()
        return identity

    def image_modules(self) -> Sequence[nn.Module]:
        modules: Sequence[nn.Module] = self.encoder.image_modules()
        return modules

    def image_tokens(self, pixels: Tensor) -> Tensor:
        tokens: Tensor = self.encoder.image_tokens(pixels)
        return tokens  # [B, P, W]

    def read_image(self, tokens: Tensor) -> Tensor:
        queries = self.query_tokens.expand(len(tokens), -1, -1)  # [B, Q, H]
        return self.transform(queries, None, self.image(tokens), self.n_queries)

    def read_both(self, queries: Tensor, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        n = queries.shape[1]
        ids, present = self.word_ids(texts)  # [B, T]
        words = self._parts.words(ids) + self.positions(ids.shape[1])  # [B, T, H]
        states = torch.cat([queries, words], dim=1)  # [B, Q + T, H]
        mask = torch.cat([present.new_ones(len(ids), n), present], dim=1)  # [B, Q + T]
        return self.transform(states, mask, self.image(tokens), n)[:, :n]

    def read_prompted(self, prompts: Tensor, texts: Sequence[str], *, text_first: bool) -> Tensor:
        n = prompts.shape[1]
        ids, present = self.word_ids(texts)  # [B, T]
        words = self._parts.words(ids)  # [B, T, H]
        prompted = present.new_ones(len(ids), n)  # [B, Q]
        if text_first:
            states = torch.cat([words[:, :1], prompts, words[:, 1:]], dim=1)  # [B, T + Q, H]
            states = states + self.positions(states.shape[1])
            mask = torch.cat([present[:, :1], prompted, present[:, 1:]], dim=1)  # [B, T + Q]
            return self.transform(states, mask, None)[:, 0]  # [B, H]
        states = torch.cat([prompts, words + self.positions(ids.shape[1])], dim=1)  # [B, Q + T, H]
        mask = torch.cat([prompted, present], dim=1)  # [B, Q + T]
        return self.transform(states, mask, None)[:, n]  # [B, H]

    def positions(self, n: int) -> Tensor:
        """The embeddings of the first positions: [n, H]."""
        return self._parts.places.weight[:n]

    def image(self, tokens: Tensor) -> Tensor:
        """The image's tokens as the Q-Former reads them, after the norm that is trained."""
        normal: Tensor = self._parts.image_norm(tokens.to(self._parts.queries.dtype))
        return normal  # [B, P, W]

    def word_ids(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """The words' ids and a mask, 0 for padding: [B, T] each, int64."""
        words = self._parts.tokenizer(
            list(texts), padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
        ).to(self._parts.queries.device)
        return words.input_ids, words.attention_mask

    def transform(
        self, states: Tensor, mask: Tensor | None, image: Tensor | None, n_queries: int = 0
    ) -> Tensor:
        """The last states of embeddings [B, S, H] with a mask [B, S]: [B, S, H].

        With an image [B, P, W], the first `n_queries` positions read it in every second layer, and
        pass through the queries' feed-forward parts.
        """
        hidden: Tensor = self._parts.dropout(self._parts.norm(states))  # [B, S, H]
        added = None if mask is None else added_mask(mask, hidden)  # [B, 1, 1, S]
        for layer in self._parts.layers:
            attended = attention(layer.attention, hidden, attention_mask=added)  # [B, S, H]
            if image is None:
                hidden = layer.feed_forward_chunk(attended)
                continue
            queries, words = attended[:, :n_queries], attended[:, n_queries:]
            if layer.has_cross_attention:
                queries = attention(layer.crossattention, queries, encoder_hidden_states=image)
            hidden = layer.feed_forward_chunk_query(queries)  # [B, Q, H]
            if words.shape[1]:
                hidden = torch.cat([hidden, layer.feed_forward_chunk(words)], dim=1)
        return hidden


def attention(block: nn.Module, states: Tensor, **arguments: Tensor | None) -> Tensor:
    """The output of either library's attention; LAVIS returns more beside it."""
    output = block(states, **arguments)
    attended: Tensor = output[0] if isinstance(output, tuple) else output
    return attended


def added_mask(mask: Tensor, states: Tensor) -> Tensor:
    """What is added to attention scores: a mask [B, S], 0 for padding -> [B, 1, 1, S]."""
    added = states.new_zeros(mask.shape).masked_fill(mask == 0, -torch.inf)  # [B, S]
    return added[:, None, None]


def through_transformers(encoder: Blip2Hf) -> Blip2:
    hf = encoder.hf
    parts = Parts(
        queries=hf.query_tokens,
        image_norm=hf.vision_model.post_layernorm,
        words=hf.embeddings.word_embeddings,
        places=hf.embeddings.position_embeddings,
        norm=hf.qformer.layernorm,
        dropout=hf.qformer.dropout,
        layers=hf.qformer.encoder.layer,
        vision_proj=hf.vision_projection,
        text_proj=hf.text_projection,
        tokenizer=encoder.tokenizer,
    )
    frozen = (
        "temperature",
        "hf.vision_model.embeddings.",
        "hf.vision_model.encoder.",
        "hf.itm_head.",
    )
    return Blip2(encoder, parts, tuple(f"encoder.{prefix}" for prefix in frozen))


def through_lavis(encoder: LavisBlip2) -> Blip2:
    lavis = encoder.lavis
    bert = lavis.Qformer.bert
    parts = Parts(
        queries=lavis.query_tokens,
        image_norm=lavis.ln_vision,
        words=bert.embeddings.word_embeddings,
        places=bert.embeddings.position_embeddings,
        norm=bert.embeddings.LayerNorm,
        dropout=bert.embeddings.dropout,
        layers=bert.encoder.layer,
        vision_proj=lavis.vision_proj,
        text_proj=lavis.text_proj,
        tokenizer=lavis.tokenizer,
    )
    frozen = ("temperature", "lavis.temp", "lavis.visual_encoder.")
    unused = tuple(f"lavis.{prefix}" for prefix in UNUSED)
    return Blip2(encoder, parts, tuple(f"encoder.{prefix}" for prefix in (*frozen, *unused)))


def load(name: str, *, size: int, pad_ratio: float, weights: Path | None) -> Blip2:
    """A published BLIP-2 by the name of its encoder; raises as `build_encoder`."""
    nothing_drawn = torch.Generator()
    encoder = build_encoder(
        name, size=size, pad_ratio=pad_ratio, folder=weights, generator=nothing_drawn
    )
    if isinstance(encoder, Blip2Hf):
        return through_transformers(encoder)
    if isinstance(encoder, LavisBlip2):
        return through_lavis(encoder)
    raise TypeError(f"{name} is no BLIP-2")
