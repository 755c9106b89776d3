"""Models of open_clip: CLIP, SigLIP, SigLIP 2, EVA-CLIP, CoCa and others.

The folder has the layout of open_clip's repositories on the Hugging Face hub:
open_clip_config.json and the weights. open_clip is imported only when a model is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from PIL import Image
from safetensors import SafetensorError
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.dual.towers import Towers
from hsfiq.model.encoders.preprocessing import Preprocessing, to_rgb

CONFIG: Final = "open_clip_config.json"


class OpenClipTowers(Towers):
    files = (
        CONFIG, "*.safetensors", "open_clip_pytorch_model.bin", "tokenizer*.json", "vocab.*",
        "merges.txt", "*.model",
    )  # fmt: skip

    def __init__(self, folder: Path, model: Any, tokenizer: Any) -> None:
        super().__init__(folder, OpenClipPreprocessing.of(model))
        self.model = model
        self._tokenizer = tokenizer

    def image_vectors(self, pixels: Tensor) -> Tensor:
        vectors: Tensor = self.model.encode_image(pixels)
        return vectors.float()

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        device = next(self.model.parameters()).device
        vectors: Tensor = self.model.encode_text(self._tokenizer(list(texts)).to(device))
        return vectors.float()

    def image_modules(self) -> Sequence[nn.Module]:
        return (self.model.visual,)


def load(folder: Path, where: str) -> OpenClipTowers:
    if not (folder / CONFIG).is_file():
        raise UnreadableInput(
            where, f"{folder} has no {CONFIG}", "name the folder of a model of open_clip"
        )
    try:
        import open_clip  # noqa: PLC0415 (an extra)
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision of another torch
        what = f"needs open_clip ({first_line(error)})"
        raise UnreadableInput(where, what, "pip install 'hsfiq[openclip]'") from None
    name = f"local-dir:{folder}"
    try:
        model = open_clip.create_model(name, precision="fp32", output_dict=False)
        tokenizer = open_clip.get_tokenizer(name)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise UnreadableInput(where, f"cannot be loaded ({first_line(error)})") from error
    return OpenClipTowers(folder, model, tokenizer)


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@dataclass(frozen=True, slots=True)
class OpenClipPreprocessing(Preprocessing):
    """The model's own preprocessing, by open_clip; `settings` is its configuration as JSON."""

    settings: str = "{}"

    @classmethod
    def of(cls, model: Any) -> OpenClipPreprocessing:
        settings = json.dumps(model.visual.preprocess_cfg, sort_keys=True)
        pixels = transform_of(settings)(Image.new("RGB", (32, 32)))
        return cls(size=pixels.shape[-1], settings=settings)

    def __call__(self, image: Image.Image) -> Tensor:
        return transform_of(self.settings)(to_rgb(image))


@lru_cache(maxsize=4)
def transform_of(settings: str) -> Callable[[Image.Image], Tensor]:
    """open_clip's function [3, size, size] of an image for this preprocessing configuration."""
    from open_clip.transform import PreprocessCfg, image_transform_v2  # noqa: PLC0415 (an extra)

    transform: Callable[[Image.Image], Tensor] = image_transform_v2(
        PreprocessCfg(**json.loads(settings)), is_train=False
    )
    return transform
