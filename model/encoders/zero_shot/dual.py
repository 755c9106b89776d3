"""Any image-text model of transformers with two encoders: CLIP, SigLIP, SigLIP 2, BLIP and others.

An image has one token, its vector. A query is the sum of the reference's and the text's vectors,
each of length 1 (Baldrati et al., CVPR 2022 call it the sum baseline), or one of the two alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints.checkpoint import sha256_of
from hsfiq.model.encoders.preprocessing import Preprocessing, to_rgb
from hsfiq.text import decode

Parts = Literal["sum", "text", "image"]
"""What a query is made of."""

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
SETTINGS = ("config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json")
VOCABULARY = ("vocab.json", "vocab.txt", "merges.txt", "added_tokens.json", "*.model")
"""In folders that lack tokenizer.json."""


class DualEncoder(nn.Module):
    """A `Retriever`; `hsfiq.model.encoders.protocol` describes the methods."""

    def __init__(self, folder: Path, model: Any, tokenizer: Any, parts: Parts) -> None:
        super().__init__()
        self.name = f"hf:{folder.name}" + ("" if parts == "sum" else f"@{parts}")
        self.parts = parts
        self.model = model
        self._tokenizer = tokenizer
        self.preprocessing: Preprocessing = LibraryPreprocessing.of(folder)
        self._frozen_id = digest_of(folder)
        with torch.no_grad():
            size = self.preprocessing.size
            vector = features(model.get_image_features(pixel_values=torch.zeros(1, 3, size, size)))
        self.tokens_shape = (1, vector.shape[1])

    def frozen_id(self) -> str:
        return self._frozen_id

    def image_modules(self) -> Sequence[nn.Module]:
        return ()  # which modules are the image's differs between models

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        vectors = features(self.model.get_image_features(pixel_values=pixels))  # [B, D]
        return vectors.unsqueeze(1)

    def clean_text(self, text: str) -> str:
        return decode(text)

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        image = F.normalize(tokens[:, 0].float(), dim=1)  # [B, D]
        if self.parts == "image":
            return image
        words = F.normalize(self.text_vectors(texts), dim=1)  # [B, D]
        return words if self.parts == "text" else F.normalize(image + words, dim=1)

    def gallery(self, tokens: Tensor) -> Tensor:
        return F.normalize(tokens.float(), dim=2)  # [B, 1, D]

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        """B texts -> [B, D], not normalised; a text that is too long loses its end."""
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


def load(argument: str) -> DualEncoder:
    """The model in a folder, `DIR`, or with a query of one part, `DIR@text` or `DIR@image`.

    Nothing is downloaded. UnreadableInput if the folder holds no such model.
    """
    name, _, wanted = argument.partition("@")
    where = f"hf:{argument}"
    parts: dict[str, Parts] = {each: each for each in get_args(Parts)}
    if (wanted or "sum") not in parts:
        raise UnreadableInput(where, f"a query of {wanted!r}", f"write one of {', '.join(parts)}")
    folder = Path(name).expanduser()
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
    return DualEncoder(folder, model.eval(), tokenizer, parts[wanted or "sum"])


def features(output: Any) -> Tensor:
    """The vectors [B, D]; later versions of transformers wrap them."""
    vectors: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return vectors.float()


def digest_of(folder: Path) -> str:
    """The sha256 of the files that the vectors depend on."""
    patterns = (*WEIGHTS, *SETTINGS, *VOCABULARY)
    files = sorted(path for each in patterns for path in folder.glob(each) if path.is_file())
    digests = (f"{path.name} {sha256_of(path)}" for path in files)
    return sha256("\n".join(digests).encode()).hexdigest()


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
