"""BLIP-2 through LAVIS, composing queries as QuRe does.

The image encoder is frozen; `ln_vision`, the Q-Former, its query tokens, both projections and the
temperature are trained. LAVIS is imported only when a model is built.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import HsfiqError
from hsfiq.model.encoders import blip2_weights
from hsfiq.model.encoders.encoder import Preprocessing, normalise, pooled_query

UNUSED = ("Qformer.cls.", "itm_head.", "Qformer.bert.embeddings.position_ids")
"""Prefixes of names in a checkpoint on which no score depends."""


class Blip2(nn.Module):
    """A `blip2` encoder; `hsfiq.model.encoders.encoder.Encoder` describes the methods.

    Only parameters that require gradients are trained; no buffer changes.
    """

    temperature: nn.Parameter

    def __init__(self, architecture: blip2_weights.Architecture, lavis: Any) -> None:
        """Wrap LAVIS' `Blip2Qformer` of an architecture and freeze what is not trained."""
        super().__init__()
        self.name = architecture.name
        self.preprocessing = Preprocessing(size=architecture.vit.size)
        self.tokens_shape = architecture.vit.tokens_shape
        self.temperature = lavis.temp
        self.lavis = lavis
        self._vit = architecture.vit
        self._frozen_id: str | None = None
        freeze(lavis)

    @classmethod
    def random(cls, architecture: blip2_weights.Architecture, generator: torch.Generator) -> Blip2:
        """Build a model with a Q-Former of the real size and random weights, without any files.

        Its vocabulary is generated, with as many words as BERT's.
        """
        lavis_model = import_lavis_model()
        seed = int(torch.randint(2**62, (), generator=generator))
        config = lavis_model.BertConfig()
        # LAVIS and transformers draw from the global generator.
        with torch.random.fork_rng(devices=()), tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(seed)
            vocabulary = Path(folder) / "vocab.txt"
            lavis_model.generate_vocabulary(vocabulary, config.vocab_size)
            model = lavis_model.LocalBlip2Qformer(architecture.vit, config, vocabulary)
            return cls(architecture, model)

    def frozen_id(self) -> str:
        if self._frozen_id is None:
            self._frozen_id = blip2_weights.frozen_id(
                self._vit, self.lavis.visual_encoder.state_dict()
            )
        return self._frozen_id

    def image_modules(self) -> Sequence[nn.Module]:
        return (self.lavis.visual_encoder,)

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Encode images: the tokens before `ln_vision`, which is trained; returned as fp32.

        A GPU computes them in fp16, as LAVIS does, and a CPU in fp32, whatever autocast is on.
        """
        device = pixels.device.type
        with torch.autocast(device, torch.float16, enabled=device != "cpu"):
            tokens: Tensor = self.lavis.visual_encoder(pixels)  # [B, P, W]
        return tokens.float()

    def clean_text(self, text: str) -> str:
        return normalise(text)

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Compose references and texts (QuRe section 3.1 and its code).

        The query tokens attend to the reference by cross-attention and to the text by
        self-attention; the mean of their projected states is the query.
        """
        if len(texts) != len(tokens):
            raise ValueError(f"{len(tokens)} references, but {len(texts)} texts")
        # QuRe always pads to 32; padding beyond the longest text is masked and only costs time.
        text = self.lavis.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self.lavis.max_txt_len,
            return_tensors="pt",
        ).to(tokens.device)
        query_mask = text.attention_mask.new_ones(len(tokens), self.lavis.query_tokens.shape[1])
        states = self._states(
            tokens,
            input_ids=text.input_ids,  # [B, T]
            attention_mask=torch.cat([query_mask, text.attention_mask], dim=1),  # [B, L + T]
        )
        projected: Tensor = self.lavis.text_proj(states)  # [B, L, D]
        return pooled_query(projected.float())

    def gallery(self, tokens: Tensor) -> Tensor:
        projected: Tensor = self.lavis.vision_proj(self._states(tokens))  # [B, L, D]
        return F.normalize(projected.float(), dim=-1)

    def _states(self, tokens: Tensor, **text: Tensor) -> Tensor:
        """The query tokens' last states, with or without a text: [B, L, width]."""
        queries: Tensor = self.lavis.query_tokens  # [1, L, width]
        image = self.lavis.ln_vision(tokens.to(queries.dtype))
        output = self.lavis.Qformer.bert(
            query_embeds=queries.expand(len(tokens), -1, -1),
            encoder_hidden_states=image,
            return_dict=True,
            **text,
        )
        states: Tensor = output.last_hidden_state[:, : queries.shape[1]]
        return states


def load(name: str, weights: Path) -> Blip2:
    """Load a published model (`ARCHITECTURES`); HsfiqError if LAVIS is not installed."""
    return from_files(architecture_named(name), weights)


def from_files(architecture: blip2_weights.Architecture, weights: Path) -> Blip2:
    """Build a model of any size from files of the published layout."""
    blip2_weights.require_files(architecture, weights)
    bert = weights / blip2_weights.BERT_CONFIG, weights / blip2_weights.BERT_VOCABULARY
    lavis = import_lavis_model().build(architecture.vit, *bert)
    # Without a temperature in the checkpoint, LAVIS' own stays: 0.07.
    optional = [*UNUSED, "temp"]
    if architecture.vit_file is not None:
        file = weights / architecture.vit_file
        blip2_weights.fill(lavis.visual_encoder, blip2_weights.read_tensors(file), file)
        optional.append("visual_encoder.")
    file = weights / architecture.checkpoint
    blip2_weights.fill(lavis, blip2_weights.read_tensors(file, key="model"), file, tuple(optional))
    return Blip2(architecture, lavis)


def architecture_named(name: str) -> blip2_weights.Architecture:
    if name not in blip2_weights.ARCHITECTURES:
        raise HsfiqError(
            f"no BLIP-2 is named {name}: choose from {', '.join(blip2_weights.ARCHITECTURES)}"
        )
    return blip2_weights.ARCHITECTURES[name]


def import_lavis_model() -> ModuleType:
    """Import LAVIS with our model; HsfiqError if it, or a package it needs, is not installed."""
    try:
        from hsfiq.model.encoders import lavis_model  # noqa: PLC0415 -- LAVIS takes seconds
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise HsfiqError(
            f"BLIP-2 needs LAVIS ({package} is not installed): "
            "pip install 'hsfiq[lavis]' with Python 3.11"
        ) from error
    return lavis_model


def freeze(lavis: Any) -> None:
    """Leave trainable only what a score depends on.

    Scores read only the query tokens' states of the last layer, so its feed-forward part for texts
    is unused. The language model's head is frozen except for the word embeddings that it shares.
    """
    last_layer = lavis.Qformer.bert.encoder.layer[-1]
    unused = (lavis.itm_head, lavis.Qformer.cls, last_layer.intermediate, last_layer.output)
    for module in (lavis.visual_encoder, *unused):
        module.requires_grad_(requires_grad=False)
    lavis.Qformer.bert.embeddings.word_embeddings.requires_grad_(requires_grad=True)
