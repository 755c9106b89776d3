"""Image-text models of transformers with two encoders: CLIP, SigLIP, SigLIP 2, BLIP and others."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.dual.towers import Towers
from hsfiq.model.encoders.preprocessing import Preprocessing, to_rgb

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
SETTINGS = ("config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json")
VOCABULARY = ("vocab.json", "vocab.txt", "merges.txt", "added_tokens.json", "*.model")
"""In folders that lack tokenizer.json."""


class TransformersTowers(Towers):
    files = (*WEIGHTS, *SETTINGS, *VOCABULARY)

    def __init__(self, folder: Path, model: Any, tokenizer: Any) -> None:
        super().__init__(folder, LibraryPreprocessing.of(folder))
        self.model = model
        self._tokenizer = tokenizer

    def image_vectors(self, pixels: Tensor) -> Tensor:
        return features(self.model.get_image_features(pixel_values=pixels))

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        config = self.model.config
        # SigLIP was trained on texts of one length, without a mask.
        has_one_length = config.model_type.startswith("siglip")
        words = self._tokenizer(
            list(texts),
            padding="max_length" if has_one_length else True,
            truncation=True,
            max_length=config.text_config.max_position_embeddings,
            return_tensors="pt",
        ).to(self.model.device)
        mask = None if has_one_length else words.get("attention_mask")
        return features(
            self.model.get_text_features(input_ids=words["input_ids"], attention_mask=mask)
        )

    def image_modules(self) -> Sequence[nn.Module]:
        return ()  # which modules are the image's differs between models


def load(folder: Path, where: str) -> TransformersTowers:
    if not (folder / "config.json").is_file():
        raise UnreadableInput(
            where, f"{folder} has no config.json", "name the folder of a model of transformers"
        )
    try:
        from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415 (an extra)
        from transformers.utils.logging import disable_progress_bar  # noqa: PLC0415
    except ImportError:
        raise UnreadableInput(where, "needs transformers", "pip install 'hsfiq[hf]'") from None
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UnreadableInput(where, f"cannot be loaded ({reason})") from error
    if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
        what = f"{type(model).__name__} has no vectors of images and texts"
        raise UnreadableInput(where, what, "take another model")
    return TransformersTowers(folder, model, tokenizer)


def features(output: Any) -> Tensor:
    """The vectors [B, D]; later versions of transformers wrap them."""
    vectors: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return vectors.float()


@dataclass(frozen=True, slots=True)
class LibraryPreprocessing(Preprocessing):
    """The model's own preprocessing, by transformers; `settings` is its configuration as JSON."""

    settings: str = "{}"

    @classmethod
    def of(cls, folder: Path) -> LibraryPreprocessing:
        from transformers import AutoImageProcessor  # noqa: PLC0415 (an extra)

        read: Any = AutoImageProcessor.from_pretrained
        try:
            processor = read(folder, local_files_only=True, backend="pil")
        except (OSError, ValueError) as error:
            raise UnreadableInput(
                f"hf:{folder}", "has no preprocessor_config.json that transformers knows"
            ) from error
        settings = processor.to_json_string()
        pixels = processor(images=Image.new("RGB", (32, 32)), return_tensors="pt")["pixel_values"]
        return cls(size=pixels.shape[-1], settings=json.dumps(json.loads(settings), sort_keys=True))

    def __call__(self, image: Image.Image) -> Tensor:
        pixels: Tensor = prepare_with(self.settings)(to_rgb(image))
        return pixels


@lru_cache(maxsize=4)
def prepare_with(settings: str) -> Callable[[Image.Image], Tensor]:
    """The function [3, size, size] of an image for these settings of an image processor."""
    import transformers  # noqa: PLC0415 (an extra)

    values = json.loads(settings)
    name = values["image_processor_type"].removesuffix("Pil")
    processor = (getattr(transformers, f"{name}Pil", None) or getattr(transformers, name))(**values)

    def prepare(image: Image.Image) -> Tensor:
        pixels: Tensor = processor(images=image, return_tensors="pt")["pixel_values"][0]
        return pixels

    return prepare
