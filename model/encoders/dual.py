"""Image-text models as retrievers: untrained, with a trained residual, or with LoRA adapters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.towers import Towers, load_towers
from hsfiq.text import decode

# Images and texts as the vectors of an image-text model, which all encoders of one share.


class VectorEncoder(nn.Module):
    """An encoder without `compose`: an image has one token, its vector.

    `hsfiq.model.encoders.encoder` describes the methods.
    """

    def __init__(self, name: str, towers: Towers) -> None:
        super().__init__()
        self.name = name
        self.towers = towers
        self.preprocessing = towers.preprocessing
        self.tokens_shape = (1, towers.width())

    def frozen_id(self) -> str:
        return self.towers.sha256

    def image_modules(self) -> Sequence[nn.Module]:
        return self.towers.image_modules()

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        return self.towers.image_vectors(pixels).unsqueeze(1)  # [B, 1, D]

    def clean_text(self, text: str) -> str:
        return decode(text)

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors of texts: [B, D]."""
        return F.normalize(self.towers.text_vectors(texts), dim=1)

    def gallery(self, tokens: Tensor) -> Tensor:
        return F.normalize(tokens.float(), dim=2)  # [B, 1, D]


# An image-text model trained further as a scorer, by the same loop as BLIP-2.
#
# The image's encoder is frozen and its vectors are cached, so an image's vector stays what it was.
# Trained are the text's encoder and a residual of the composition, as CLIP4CIR's two stages train
# them (Baldrati et al., CVPR 2022): a query is
#
#     image + text + residual([image; text])
#
# of unit vectors, normalised. The residual is 0 at first: training starts from the zero-shot sum.

TEMPERATURE = 0.07
"""The initial value; it is trained, as in BLIP-2."""


class TrainedDual(VectorEncoder):
    """The encoders `hf` and `openclip`; `encoder.Encoder` describes the methods."""

    def __init__(self, library: str, towers: Towers, generator: torch.Generator) -> None:
        super().__init__(library, towers)
        width = towers.width()
        self.temperature = nn.Parameter(torch.tensor(TEMPERATURE))
        train_text_alone(towers)
        hidden, out = nn.Linear(2 * width, 2 * width), nn.Linear(2 * width, width)
        self.residual = nn.Sequential(hidden, nn.GELU(), out)
        for parameter in self.residual.parameters():
            nn.init.zeros_(parameter)
        nn.init.normal_(hidden.weight, std=(2 * width) ** -0.5, generator=generator)

    def train(self, mode: bool = True) -> TrainedDual:
        """Switch the residual's mode; the towers never use dropout."""
        super().train(mode)
        self.towers.eval()
        return self

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        image = self.gallery(tokens)[:, 0]  # [B, D]
        words = self.text_vectors(texts)  # [B, D]
        residual = self.residual(torch.cat([image, words], dim=1)).float()  # [B, D]
        return F.normalize(image + words + residual, dim=1)


def load_trained(library: str, folder: Path | None, generator: torch.Generator) -> TrainedDual:
    """Load the model in a folder; the generator draws the residual's weights."""
    return TrainedDual(library, load_towers(library, require_folder(folder, library)), generator)


def require_folder(folder: Path | None, encoder: str) -> Path:
    if folder is None:
        raise UnreadableInput(
            f"encoder={encoder}", "needs the folder of its model", "name it with --weights"
        )
    return folder


def train_text_alone(towers: Towers) -> None:
    """Freeze what image vectors depend on, and what texts' vectors do not.

    A model may share weights between images and texts: they are frozen, because the vectors of
    images are cached.
    """
    towers.requires_grad_(requires_grad=True)
    with torch.enable_grad():
        text = parameters_behind(towers.text_vectors(["a"]), towers)
        image = parameters_behind(towers.image_vectors(towers.blank()), towers)
    for name, parameter in towers.named_parameters():
        parameter.requires_grad = name in text - image


def parameters_behind(vectors: Tensor, module: nn.Module) -> set[str]:
    """The names of the parameters that vectors were computed from."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    gradients = torch.autograd.grad(vectors.sum(), parameters, allow_unused=True)
    return {name for name, each in zip(names, gradients, strict=True) if each is not None}


# An image-text model of transformers whose image encoder is tuned, too, by LoRA.
#
# Low-rank adapters of the image encoder's attention (Hu et al., arXiv 2106.09685) are trained
# beside what `trained` trains. So an image's vector changes with every step: the tokens are the
# prepared pixels, which the feature cache keeps, and the image encoder runs wherever they are read.

NAME: Final = "hf-lora"
RANK, ALPHA = 8, 16
TARGETS = r".*vision_model.*\.(q_proj|v_proj|qkv)"
"""The layers with adapters: as in the paper, of queries and values; BLIP has one layer for all."""


class LoraDual(TrainedDual):
    """The encoder `hf-lora`; `encoder.Encoder` describes the methods."""

    def __init__(self, towers: Towers, generator: torch.Generator) -> None:
        super().__init__(NAME, towers, generator)
        self._size = towers.preprocessing.size
        self.tokens_shape = (3, self._size**2)
        add_adapters(towers, generator)

    def frozen_id(self) -> str:
        """Of the weights that the adapters belong to, and of pixels as tokens."""
        return sha256(f"{self.towers.sha256} pixels".encode()).hexdigest()

    def image_modules(self) -> Sequence[nn.Module]:
        return ()  # the image encoder is used by every step

    def image_tokens(self, pixels: Tensor) -> Tensor:
        return pixels.flatten(2)  # [B, 3, size * size]

    def gallery(self, tokens: Tensor) -> Tensor:
        pixels = tokens.float().view(-1, 3, self._size, self._size)  # [B, 3, size, size]
        return F.normalize(self.towers.image_vectors(pixels), dim=1).unsqueeze(1)  # [B, 1, D]


def load_lora(folder: Path | None, generator: torch.Generator) -> LoraDual:
    """Load the model in a folder; the generator draws what is trained from nothing."""
    return LoraDual(load_towers("hf", require_folder(folder, NAME)), generator)


def add_adapters(towers: Towers, generator: torch.Generator) -> None:
    """Add adapters, which change nothing yet; the parameters trained before stay trained."""
    try:
        from peft import LoraConfig, inject_adapter_in_model  # noqa: PLC0415 (an extra)
    except ImportError:
        where = f"encoder={NAME}"
        raise UnreadableInput(where, "needs peft", "pip install 'hsfiq[lora]'") from None
    trained = {name for name, each in towers.named_parameters() if each.requires_grad}
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=TARGETS)
    try:
        inject_adapter_in_model(config, towers)
    except ValueError as error:
        what = f"has no attention layers that LoRA supports ({towers.folder})"
        raise UnreadableInput(f"encoder={NAME}", what, "use CLIP, SigLIP or BLIP") from error
    for name, parameter in towers.named_parameters():
        parameter.requires_grad = name in trained or ".lora_" in name
        if ".lora_A." in name:  # as peft draws it, but from the recipe's seed
            nn.init.kaiming_uniform_(parameter, a=math.sqrt(5), generator=generator)


# An image-text model as a retriever without training.
#
# An image has one token, its vector. A query is the sum of the reference's and the text's vectors,
# each of length 1 (Baldrati et al., CVPR 2022 call it the sum baseline), or one of the two alone.

Parts = Literal["sum", "text", "image"]
"""The parts that form a query."""


class DualEncoder(VectorEncoder):
    """A `Retriever`; `hsfiq.model.encoders.encoder` describes the methods."""

    def __init__(self, library: str, towers: Towers, parts: Parts) -> None:
        suffix = "" if parts == "sum" else f"@{parts}"
        super().__init__(f"{library}:{towers.folder.name}{suffix}", towers)
        self.parts = parts

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        image = F.normalize(tokens[:, 0].float(), dim=1)  # [B, D]
        if self.parts == "image":
            return image
        words = self.text_vectors(texts)  # [B, D]
        return words if self.parts == "text" else F.normalize(image + words, dim=1)


def load_zero_shot(library: str, argument: str) -> DualEncoder:
    """The model in a folder, `DIR`, or with a query of one part, `DIR@text` or `DIR@image`.

    Nothing is downloaded. UnreadableInput if the folder holds no such model.
    """
    name, _, wanted = argument.partition("@")
    parts: dict[str, Parts] = {each: each for each in get_args(Parts)}
    if (wanted or "sum") not in parts:
        raise UnreadableInput(
            f"{library}:{argument}", f"unknown query {wanted!r}", f"write one of {', '.join(parts)}"
        )
    towers = load_towers(library, Path(name).expanduser())
    return DualEncoder(library, towers.eval(), parts[wanted or "sum"])
