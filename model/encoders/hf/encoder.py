"""BLIP-2 with EVA ViT-g through transformers: what `model.encoders.blip2` computes, on any Python.

The same is frozen and the same is trained, so that features and, renamed
(`model.encoders.hf.checkpoints`), checkpoints of one serve the other. transformers is imported when
a model is built, not when this is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the field's name for it

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.model.encoders.architectures import Vit
from hsfiq.model.encoders.hf import folder as hf_folder
from hsfiq.model.encoders.hf.conversion import HF_VIT, VIT, to_lavis
from hsfiq.model.encoders.preprocessing import Preprocessing
from hsfiq.model.encoders.weights import fill, frozen_id

NAME = "blip2-hf"

TEMPERATURE = 0.07
"""As LAVIS starts it; transformers' model has none."""

MAX_TOKENS = 32
"""Of a text, its first and its last included: LAVIS' `max_txt_len`."""


class Blip2Hf(nn.Module):
    """The `blip2-hf` encoder; see `model.encoders.protocol.Encoder` for what each method takes.

    Everything that is trained is a parameter that requires a gradient; no buffer changes.
    """

    name = NAME

    def __init__(self, hf: Any, vit: Vit, tokenizer: Any) -> None:
        """Freeze what is not trained.

        Args:
            hf: transformers' `Blip2ForImageTextRetrieval`, in fp32.
            vit: its image encoder's settings.
            tokenizer: LAVIS' of the same words.
        """
        super().__init__()
        self.preprocessing = Preprocessing(size=vit.size)
        self.tokens_shape = vit.tokens_shape
        self.temperature = nn.Parameter(torch.tensor(TEMPERATURE))
        self.hf = hf
        self._tokenizer = tokenizer
        self._vit = vit
        self._frozen_id: str | None = None
        freeze(hf)

    def train(self, mode: bool = True) -> Blip2Hf:
        """Switch what is trained; the image encoder never drops anything out."""
        super().train(mode)
        self.hf.vision_model.eval()
        return self

    def frozen_id(self) -> str:
        """The sha256 of the image encoder's settings and weights: that of LAVIS' with the same."""
        if self._frozen_id is None:
            state = self.hf.state_dict()
            frozen = {name: it for name, it in state.items() if name.startswith(HF_VIT)}
            ours = to_lavis(frozen, self.name)
            self._frozen_id = frozen_id(
                self._vit, {name.removeprefix(VIT): it for name, it in ours.items()}
            )
        return self._frozen_id

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Encode images: the tokens before the last norm, which is trained; in fp32.

        A GPU computes them in fp16, as LAVIS does, and a CPU in fp32, whatever the context.
        """
        device, vision = pixels.device.type, self.hf.vision_model
        with torch.autocast(device, torch.float16, enabled=device != "cpu"):
            patches = vision.embeddings(pixels)  # [B, P, W]
            tokens: Tensor = vision.encoder(patches).last_hidden_state  # [B, P, W]
        return tokens.float()

    def query(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Compose references and texts (QuRe section 3.1 and its code).

        Raises:
            ValueError: there are not as many texts as references.
        """
        if len(texts) != len(tokens):
            raise ValueError(f"{len(tokens)} references, but {len(texts)} texts")
        text = self._tokenizer(
            list(texts), padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
        ).to(tokens.device)
        read = text.attention_mask.new_ones(len(tokens), self.hf.query_tokens.shape[1])
        mask = torch.cat([read, text.attention_mask], dim=1)  # [B, L + T]
        states = self._states(tokens, text.input_ids, mask)
        projected: Tensor = self.hf.text_projection(states)  # [B, L, D]
        return F.normalize(projected.float().mean(dim=1), dim=-1)

    def gallery(self, tokens: Tensor) -> Tensor:
        """Project images: the query tokens read the image alone."""
        projected: Tensor = self.hf.vision_projection(self._states(tokens))  # [B, L, D]
        return F.normalize(projected.float(), dim=-1)

    def _states(
        self, tokens: Tensor, word_ids: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """The query tokens' last states, beside a text or without: [B, L, width].

        The Q-Former takes the two embedded together, and leaves the embedding to its caller.
        """
        queries: Tensor = self.hf.query_tokens  # [1, L, width]
        n_queries = queries.shape[1]
        # fp32, whatever the arithmetic: so LAVIS' norm computes.
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
    """Load a model from a folder of transformers' layout.

    Args:
        folder: a copy of `Salesforce/blip2-itm-vit-g` or `-coco`, or LAVIS' files converted; the
            usual one if None.

    Raises:
        UnreadableInput: a file is missing, damaged, or of another model.
        HsfiqError: transformers is not installed, or too old.
    """
    folder = folder or hf_folder.usual_folder()
    hf_folder.require_files(folder)
    model = hf_parts()
    config = model.read_config(folder)
    words = hf_folder.vocabulary(folder)
    tokenizer = model.tokenizer_of(words)
    n_words = config.qformer_config.vocab_size
    if len(tokenizer) > n_words:
        raise UnreadableInput(
            str(folder), f"its tokenizer has {len(tokenizer)} words, and its model {n_words}"
        )
    hf = model.build(config, str(folder / hf_folder.CONFIG))
    tensors = hf_folder.read_weights(folder)
    fill(hf, tensors, folder / hf_folder.WEIGHTS)
    encoder = Blip2Hf(hf, model.vit_of(config), tokenizer)
    temperature = hf_folder.read_beside(folder).get("temp")
    if temperature is not None:
        encoder.temperature.data.copy_(temperature)
    return encoder


def hf_parts() -> ModuleType:
    """`hsfiq.model.encoders.hf.model`, and with it transformers.

    Raises:
        HsfiqError: transformers is not installed, or is one without BLIP-2.
    """
    try:
        from hsfiq.model.encoders.hf import model as hf_model  # noqa: PLC0415 -- transformers takes seconds
    except ImportError as error:
        raise HsfiqError(
            f"blip2-hf needs transformers 5 ({error}): pip install 'hsfiq[hf]'"
        ) from error
    return hf_model


def freeze(hf: Any) -> None:
    """Leave only what a score depends on to be trained, as `model.encoders.blip2.freeze` does."""
    vision, last_layer = hf.vision_model, hf.qformer.encoder.layer[-1]
    unused = (hf.itm_head, last_layer.intermediate, last_layer.output)
    for module in (vision.embeddings, vision.encoder, *unused):
        module.requires_grad_(requires_grad=False)
