"""transformers' BLIP-2, built from local files instead of downloads.

The functions import transformers, which takes some seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.model.encoders.blip2_architectures import EVA_MLP_RATIO, PATCH, Vit
from hsfiq.model.encoders.hf.weight_files import CONFIG, read_json

if TYPE_CHECKING:
    from transformers import BertTokenizer, Blip2Config, Blip2ForImageTextRetrieval

LN_VISION_EPS = 1e-5
"""LAVIS' value, torch's default; transformers uses the image encoder's 1e-6 here too."""

N_QUERIES, DIM = 32, 256
"""Query tokens and dimensions, as LAVIS builds its `Blip2Qformer`."""

QFORMER = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob"),
    *("max_position_embeddings", "initializer_range", "layer_norm_eps", "pad_token_id"),
)
"""The settings that BERT and the Q-Former share."""


def require_transformers(model: str) -> None:
    """Raise HsfiqError for this model if transformers is not installed or has no BLIP-2."""
    try:
        from transformers import Blip2ForImageTextRetrieval  # noqa: F401, PLC0415 (an extra)
    except ImportError as error:
        raise HsfiqError(
            f"{model} needs transformers 5 ({error}): pip install 'hsfiq[hf]'"
        ) from error


def config_of(vit: Vit, bert: Mapping[str, Any], n_words: int) -> Blip2Config:
    """The config of the model that LAVIS builds from an EVA image encoder and BERT's config.

    `n_words` counts the Q-Former's vocabulary: BERT's words and LAVIS' own.
    """
    from transformers import Blip2Config  # noqa: PLC0415 (an extra)

    qformer = {key: bert[key] for key in QFORMER if key in bert}
    return Blip2Config(
        vision_config={
            "hidden_size": vit.width,
            "intermediate_size": int(vit.width * EVA_MLP_RATIO),
            "num_hidden_layers": vit.blocks,
            "num_attention_heads": vit.heads,
            "image_size": vit.size,
            "patch_size": PATCH,
        },
        qformer_config={**qformer, "vocab_size": n_words, "use_qformer_text_input": True},
        num_query_tokens=N_QUERIES,
        image_text_hidden_size=DIM,
        architectures=["Blip2ForImageTextRetrieval"],
        dtype="float32",
    )


def read_config(folder: Path) -> Blip2Config:
    """Read the config of a BLIP-2 whose Q-Former takes texts; UnreadableInput otherwise."""
    from huggingface_hub.errors import StrictDataclassError  # noqa: PLC0415 (an extra)
    from transformers import Blip2Config  # noqa: PLC0415 (an extra)

    file = folder / CONFIG
    values = read_json(file)
    try:
        qformer = dict(values["qformer_config"])
        # Older versions call it `qformer_text_input`.
        takes_text = qformer.pop("qformer_text_input", False) or qformer.get(
            "use_qformer_text_input"
        )
        qformer["use_qformer_text_input"] = bool(takes_text)
        config: Blip2Config = Blip2Config.from_dict({**values, "qformer_config": qformer})
    except (StrictDataclassError, LookupError, ValueError, TypeError, AttributeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UnreadableInput(str(file), f"is not a config of BLIP-2 ({reason})") from error
    if not takes_text:
        raise UnreadableInput(str(file), "is of a BLIP-2 whose Q-Former takes no text")
    vision: Any = config.vision_config
    if vision.patch_size != PATCH or not isinstance(vision.image_size, int):
        raise UnreadableInput(str(file), f"has image patches that are not {PATCH} pixels wide")
    return config


def vit_of(config: Blip2Config) -> Vit:
    vision: Any = config.vision_config
    return Vit(
        "eva",
        size=vision.image_size,
        width=vision.hidden_size,
        blocks=vision.num_hidden_layers,
        heads=vision.num_attention_heads,
    )


def build(config: Blip2Config, where: str) -> Blip2ForImageTextRetrieval:
    """Build a model in fp32 that computes what LAVIS' does; its weights are uninitialised.

    Initialising those of ViT-g would take half a minute, for values that are never used. Raises
    UnreadableInput for sizes that do not fit together.
    """
    model = meta_model(config, where)
    model.to_empty(device="cpu")
    # The model's only buffer; no file holds it.
    positions: Any = model.embeddings.position_ids
    positions.copy_(torch.arange(positions.shape[1]))
    model.vision_model.post_layernorm.eps = LN_VISION_EPS
    return model


def shapes(config: Blip2Config, where: str) -> dict[str, torch.Tensor]:
    """The state of such a model, with shapes but no numbers; raises as `build`."""
    state: dict[str, torch.Tensor] = meta_model(config, where).state_dict()
    return state


def meta_model(config: Blip2Config, where: str) -> Blip2ForImageTextRetrieval:
    """The model on the meta device, without memory for its weights; raises as `build`."""
    from transformers import Blip2ForImageTextRetrieval  # noqa: PLC0415 (an extra)

    try:
        with torch.device("meta"):
            model = Blip2ForImageTextRetrieval(config)
    except (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise UnreadableInput(where, f"is not a config of BLIP-2 ({reason})") from error
    nn.Module.to(model, torch.float32)  # a config may request parts in fp16
    return model


def tokenizer_of(words: Sequence[str]) -> BertTokenizer:
    """The tokenizer that LAVIS makes from BERT's words, with its additional token.

    The folder's own tokenizer settings are ignored: the published ones add `<image>` and put 32 of
    them before each text.
    """
    from transformers import BertTokenizer  # noqa: PLC0415 (an extra)

    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(words)})
    tokenizer.add_special_tokens({"bos_token": "[DEC]"})
    return tokenizer
