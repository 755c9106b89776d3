"""BLIP-2 with EVA ViT-g through transformers: the same model as through LAVIS, on any Python.

The same parts are frozen and trained, so features of one serve the other, and so do checkpoints
once their tensors are renamed (`hsfiq.model.encoders.hf.convert_checkpoint`). transformers is
imported only when a model is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.blip2_architectures import Vit
from hsfiq.model.encoders.blip2_weights import fill, frozen_id
from hsfiq.model.encoders.hf import weight_files
from hsfiq.model.encoders.hf.model import (
    build,
    read_config,
    require_transformers,
    tokenizer_of,
    vit_of,
)
from hsfiq.model.encoders.hf.tensor_names import HF_VIT, VIT, to_lavis
from hsfiq.model.encoders.preprocessing import Preprocessing
from hsfiq.model.encoders.query_vectors import pooled_query
from hsfiq.model.encoders.text_cleaning import normalise

NAME = "blip2-hf"

TEMPERATURE = 0.07
"""LAVIS' initial value; transformers' model has none."""

MAX_TOKENS = 32
"""The longest text, with its first and last token: LAVIS' `max_txt_len`."""


class Blip2Hf(nn.Module):
    """The `blip2-hf` encoder; `hsfiq.model.encoders.protocol.Encoder` describes the methods.

    Only parameters that require gradients are trained; no buffer changes.
    """

    name = NAME

    def __init__(self, hf: Any, vit: Vit, tokenizer: Any) -> None:
        """Wrap a `Blip2ForImageTextRetrieval` in fp32 and freeze what is not trained."""
        super().__init__()
        self.preprocessing = Preprocessing(size=vit.size)
        self.tokens_shape = vit.tokens_shape
        self.temperature = nn.Parameter(torch.tensor(TEMPERATURE))
        self.hf = hf
        self.tokenizer = tokenizer
        self._vit = vit
        self._frozen_id: str | None = None
        freeze(hf)

    def train(self, mode: bool = True) -> Blip2Hf:
        """Switch the trained part; the image encoder never uses dropout."""
        super().train(mode)
        self.hf.vision_model.eval()
        return self

    def frozen_id(self) -> str:
        """The sha256 of the image encoder's settings and weights, the same as through LAVIS."""
        if self._frozen_id is None:
            state = self.hf.state_dict()
            frozen = {name: state[name] for name in state if name.startswith(HF_VIT)}
            tensors = to_lavis(frozen, self.name)
            self._frozen_id = frozen_id(
                self._vit, {name.removeprefix(VIT): tensors[name] for name in tensors}
            )
        return self._frozen_id

    def image_modules(self) -> Sequence[nn.Module]:
        return (self.hf.vision_model.embeddings, self.hf.vision_model.encoder)

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Encode images: the tokens before the last norm, which is trained; returned as fp32.

        A GPU computes them in fp16, as LAVIS does, and a CPU in fp32, whatever autocast is on.
        """
        device, vision = pixels.device.type, self.hf.vision_model
        with torch.autocast(device, torch.float16, enabled=device != "cpu"):
            patches = vision.embeddings(pixels)  # [B, P, W]
            tokens: Tensor = vision.encoder(patches).last_hidden_state  # [B, P, W]
        return tokens.float()

    def clean_text(self, text: str) -> str:
        return normalise(text)

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Compose references and texts (QuRe section 3.1 and its code)."""
        if len(texts) != len(tokens):
            raise ValueError(f"{len(tokens)} references, but {len(texts)} texts")
        text = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
        ).to(tokens.device)
        query_mask = text.attention_mask.new_ones(len(tokens), self.hf.query_tokens.shape[1])
        mask = torch.cat([query_mask, text.attention_mask], dim=1)  # [B, L + T]
        states = self._states(tokens, text.input_ids, mask)
        projected: Tensor = self.hf.text_projection(states)  # [B, L, D]
        return pooled_query(projected.float())

    def gallery(self, tokens: Tensor) -> Tensor:
        projected: Tensor = self.hf.vision_projection(self._states(tokens))  # [B, L, D]
        return F.normalize(projected.float(), dim=-1)

    def _states(
        self, tokens: Tensor, word_ids: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """The query tokens' last states, with or without a text: [B, L, width].

        transformers' Q-Former expects queries and text already embedded together.
        """
        queries: Tensor = self.hf.query_tokens  # [1, L, width]
        n_queries = queries.shape[1]
        # LAVIS computes this norm in fp32, even under autocast.
        image = self.hf.vision_model.post_layernorm(tokens.to(queries.dtype))
        embedded = self.hf.embeddings(word_ids, query_embeds=queries.expand(len(tokens), -1, -1))
        output = self.hf.qformer(
            query_embeds=embedded,  # [B, L + T, width]
            query_length=n_queries,
            attention_mask=mask,
            encoder_hidden_states=image,
        )
        states: Tensor = output.last_hidden_state[:, :n_queries]
        return states


def load(folder: Path | None) -> Blip2Hf:
    """Load a model from a folder of transformers' layout; the usual folder if None."""
    folder = folder or weight_files.usual_folder()
    weight_files.require_files(folder)
    require_transformers("blip2-hf")
    config = read_config(folder)
    tokenizer = tokenizer_of(weight_files.vocabulary(folder))
    qformer: Any = config.qformer_config
    n_words = qformer.vocab_size
    if len(tokenizer) > n_words:
        raise UnreadableInput(
            str(folder), f"its tokenizer has {len(tokenizer)} words, and its model {n_words}"
        )
    hf = build(config, str(folder / weight_files.CONFIG))
    fill(hf, weight_files.read_weights(folder), folder / weight_files.WEIGHTS)
    encoder = Blip2Hf(hf, vit_of(config), tokenizer)
    temperature = weight_files.read_lavis_only(folder).get("temp")
    if temperature is not None:
        encoder.temperature.data.copy_(temperature)
    return encoder


def freeze(hf: Any) -> None:
    """Leave trainable only what a score depends on, as the encoder through LAVIS does."""
    vision, last_layer = hf.vision_model, hf.qformer.encoder.layer[-1]
    unused = (hf.itm_head, last_layer.intermediate, last_layer.output)
    for module in (vision.embeddings, vision.encoder, *unused):
        module.requires_grad_(requires_grad=False)
