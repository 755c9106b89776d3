"""Vision-language models of transformers, offline and small, with random weights, in folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    CLIPImageProcessorPil,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PaliGemmaConfig,
    PaliGemmaForConditionalGeneration,
    PaliGemmaProcessor,
    PreTrainedTokenizerFast,
    SiglipImageProcessorPil,
)

SPECIAL = ["<unk>", "<pad>", "<s>", "</s>", "<image>"]
WORDS = [*SPECIAL, "Yes", "No", "yes", "no", "is", "red", "blue", "asked"]
PLACES = {word: place for place, word in enumerate(WORDS)}
TEMPLATE = (
    "{% for turn in messages %}<s> {% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}IMAGE{% else %} {{ part['text'] }} {% endif %}"
    "{% endfor %}{% endfor %} asked "
)
LAYERS = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
TEXT = {
    **LAYERS,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": len(WORDS),
    "max_position_embeddings": 512,
    "pad_token_id": 1,
    "bos_token_id": 2,
    "eos_token_id": 3,
}


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(WordLevel(PLACES, unk_token="<unk>"))
    words.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["<image>"],
    )


def llava() -> tuple[Any, Any]:
    vision = {**LAYERS, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28}
    config = LlavaConfig(
        text_config={"model_type": "llama", **TEXT},
        vision_config={"model_type": "clip_vision_model", **vision, "patch_size": 14},
        image_token_index=PLACES["<image>"],
    )
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessorPil(
            size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
        ),
        tokenizer=tokenizer(),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE.replace("IMAGE", " <image> "),
    )
    return LlavaForConditionalGeneration(config), processor


def paligemma() -> tuple[Any, Any]:
    vision = {**LAYERS, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    config = PaliGemmaConfig(
        text_config={"model_type": "gemma", **TEXT, "head_dim": 8},
        vision_config={"model_type": "siglip_vision_model", **vision},
        image_token_index=PLACES["<image>"],
        projection_dim=16,
        pad_token_id=1,
        bos_token_id=2,
        eos_token_id=3,
    )
    images = SiglipImageProcessorPil(size={"height": 28, "width": 28})
    images.image_seq_length = 4
    return PaliGemmaForConditionalGeneration(config), PaliGemmaProcessor(images, tokenizer())


def saved_vlm(make: Callable[[], tuple[Any, Any]], folder: Path) -> Path:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(1)
        model, processor = make()
        for parameter in model.parameters():
            parameter.data += 0.3 * torch.randn(parameter.shape)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
