"""The Q-Former without an image, one position after the other, from weights by LAVIS' names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the usual name

BERT = "Qformer.bert."


def text_pass(
    weights: Mapping[str, Tensor], bert: Mapping[str, Any], embedded: list[Tensor]
) -> list[Tensor]:
    """The last state of each position [H], of embeddings [H] before the first norm."""
    states = [normed(weights, "embeddings.LayerNorm", state) for state in embedded]
    for number in range(bert["num_hidden_layers"]):
        layer = f"encoder.layer.{number}."
        attended = self_attention(weights, layer, bert["num_attention_heads"], states)
        states = []
        for state in attended:
            wide = F.gelu(linear(weights, f"{layer}intermediate.dense", state))
            changed = linear(weights, f"{layer}output.dense", wide)
            states.append(normed(weights, f"{layer}output.LayerNorm", changed + state))
    return states


def self_attention(
    weights: Mapping[str, Tensor], layer: str, n_heads: int, states: list[Tensor]
) -> list[Tensor]:
    query, key, value = (
        [linear(weights, f"{layer}attention.self.{part}", state) for state in states]
        for part in ("query", "key", "value")
    )
    width = len(states[0]) // n_heads
    attended = []
    for place, state in enumerate(states):
        mixed = torch.zeros(len(state))
        for head in range(n_heads):
            own = slice(head * width, (head + 1) * width)
            scores = [float(query[place][own] @ k[own]) / width**0.5 for k in key]
            shares = torch.tensor(scores).softmax(dim=0)
            mixed[own] = sum(share * v[own] for share, v in zip(shares, value, strict=True))
        out = linear(weights, f"{layer}attention.output.dense", mixed)
        attended.append(normed(weights, f"{layer}attention.output.LayerNorm", out + state))
    return attended


def linear(weights: Mapping[str, Tensor], name: str, state: Tensor) -> Tensor:
    return weights[f"{BERT}{name}.weight"] @ state + weights[f"{BERT}{name}.bias"]


def normed(weights: Mapping[str, Tensor], name: str, state: Tensor) -> Tensor:
    scale, shift = weights[f"{BERT}{name}.weight"], weights[f"{BERT}{name}.bias"]
    return F.layer_norm(state, state.shape, scale, shift, eps=1e-12)


def prompted_state(
    weights: Mapping[str, Tensor],
    bert: Mapping[str, Any],
    prompts: Tensor,
    ids: list[int],
    *,
    text_first: bool,
) -> Tensor:
    """[CLS]'s last state [H] of prompts [Q, H] and a text's word ids.

    The prompts come first and have no positions, or they follow [CLS] and all have them.
    """
    words = [weights[f"{BERT}embeddings.word_embeddings.weight"][number] for number in ids]
    places = weights[f"{BERT}embeddings.position_embeddings.weight"]
    if text_first:
        sequence = [words[0], *prompts, *words[1:]]
        embedded = [state + place for state, place in zip(sequence, places, strict=False)]
        return text_pass(weights, bert, embedded)[0]
    placed = [word + place for word, place in zip(words, places, strict=False)]
    return text_pass(weights, bert, [*prompts, *placed])[len(prompts)]
