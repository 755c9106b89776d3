"""The towers of image-text models, through transformers or open_clip."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Final

import torch
from PIL import Image
from safetensors import SafetensorError
from torch import Tensor, nn

from hsfiq.atomic_files import sha256_of
from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.encoder import Preprocessing, to_rgb

# What the libraries of image-text models have in common: a vector of an image, and of a text.


class Towers(nn.Module, ABC):
    """An image-text model of a library, loaded from a folder.

    Attributes:
        files: patterns of the files that the vectors depend on.
        folder: where the model comes from.
        preprocessing: the model's own.
    """

    files: ClassVar[tuple[str, ...]]

    def __init__(self, folder: Path, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.folder, self.preprocessing = folder, preprocessing
        self.sha256 = digest_of(folder, self.files)

    @abstractmethod
    def image_vectors(self, pixels: Tensor) -> Tensor:
        """[B, 3, size, size] -> [B, D] float32, not normalised."""

    @abstractmethod
    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        """B texts -> [B, D] float32, not normalised; a text that is too long is truncated."""

    @abstractmethod
    def image_modules(self) -> Sequence[nn.Module]:
        """The modules that `image_vectors` alone uses; none if the library does not name them."""

    @torch.no_grad()
    def width(self) -> int:
        """D."""
        return self.image_vectors(self.blank()).shape[1]

    def blank(self) -> Tensor:
        """The pixels of one image: [1, 3, size, size]."""
        return torch.zeros(1, 3, self.preprocessing.size, self.preprocessing.size)


def digest_of(folder: Path, patterns: Sequence[str]) -> str:
    """The sha256 of a folder's files of these patterns."""
    files = sorted(path for each in patterns for path in folder.glob(each) if path.is_file())
    digests = (f"{path.name} {sha256_of(path)}" for path in files)
    return sha256("\n".join(digests).encode()).hexdigest()


# Models of open_clip: CLIP, SigLIP, SigLIP 2, EVA-CLIP, CoCa and others.
#
# The folder has the layout of open_clip's repositories on the Hugging Face hub:
# open_clip_config.json and the weights. open_clip is imported only when a model is loaded.

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


def load_open_clip(folder: Path, where: str) -> OpenClipTowers:
    if not (folder / CONFIG).is_file():
        raise UnreadableInput(
            where, f"{folder} has no {CONFIG}", "name the folder of an open_clip model"
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


# Image-text models of transformers with two encoders: CLIP, SigLIP, SigLIP 2, BLIP and others.

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


def load_transformers(folder: Path, where: str) -> TransformersTowers:
    if not (folder / "config.json").is_file():
        raise UnreadableInput(
            where, f"{folder} has no config.json", "name the folder of a transformers model"
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
        what = f"{type(model).__name__} has no image and text vectors"
        raise UnreadableInput(where, what, "use another model")
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
                f"hf:{folder}", "has no preprocessor_config.json that transformers supports"
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


# The libraries that image-text models are loaded with, by name.

LIBRARIES: Final[dict[str, Callable[[Path, str], Towers]]] = {
    "hf": load_transformers,
    "openclip": load_open_clip,
}


def load_towers(library: str, folder: Path) -> Towers:
    """The model in a folder, in fp32; UnreadableInput if it holds none of this library."""
    return LIBRARIES[library](folder, f"{library}:{folder}")
