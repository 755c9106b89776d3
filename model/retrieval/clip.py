"""CLIP RN50x4, the backbone of CLIP4CIR (Baldrati et al., ACM TOMM 2023; MIT).

The image encoder is trained, so nothing of it can be computed once: the tokens that are cached
are the pixels themselves.
"""

from __future__ import annotations

import gzip
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.model.encoders.encoder import Preprocessing
from hsfiq.model.retrieval.backbone import draw_weights

# CLIP's ResNet image encoder (arXiv 2103.00020, section 2.4), with OpenAI's parameter names.
#
# It differs from ResNet in three points: three convolutions at the start instead of one, average
# pooling before each convolution that halves the resolution, and attention pooling at the end.

EXPANSION = 4
"""The output channels of a block over the channels of its 3 x 3 convolution."""

REDUCTION = 32
"""The side of the image over that of the last feature map."""

HEAD_WIDTH = 64


@dataclass(frozen=True, slots=True)
class ResNetSizes:
    """`size` is the image's side in pixels, `width` the channels after the first convolutions."""

    size: int
    width: int
    blocks: tuple[int, int, int, int]
    dim: int


class ClipResNet(nn.Module):
    """Images to vectors: [B, 3, size, size] -> [B, D], not normalised."""

    def __init__(self, sizes: ResNetSizes) -> None:
        super().__init__()
        width = sizes.width
        self.conv1 = nn.Conv2d(3, width // 2, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width // 2)
        self.conv2 = nn.Conv2d(width // 2, width // 2, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width // 2)
        self.conv3 = nn.Conv2d(width // 2, width, 3, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        channels = width
        for i, (count, stride) in enumerate(zip(sizes.blocks, (1, 2, 2, 2), strict=True)):
            inner = width * 2**i
            blocks = [Bottleneck(channels, inner, stride)]
            blocks += [Bottleneck(inner * EXPANSION, inner, 1) for _ in range(count - 1)]
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
            channels = inner * EXPANSION
        self.attnpool = AttentionPool(channels, sizes.size // REDUCTION, sizes.dim)

    def forward(self, pixels: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(pixels)))  # [B, C/2, size/2, size/2]
        x = F.relu(self.bn2(self.conv2(x)))  # [B, C/2, size/2, size/2]
        x = F.relu(self.bn3(self.conv3(x)))  # [B, C, size/2, size/2]
        x = F.avg_pool2d(x, 2)  # [B, C, size/4, size/4]
        for i in range(1, 5):
            x = self.get_submodule(f"layer{i}")(
                x
            )  # [B, 4C, size/4, size/4] to [B, 32C, size/32, size/32]
        vectors: Tensor = self.attnpool(x)  # [B, D]
        return vectors


class Bottleneck(nn.Module):
    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        outer = inner * EXPANSION
        self.conv1 = nn.Conv2d(channels, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, outer, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outer)
        self.pool = nn.AvgPool2d(stride) if stride > 1 else nn.Identity()
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or channels != outer:
            self.downsample = nn.Sequential(
                OrderedDict(
                    (
                        ("-1", nn.AvgPool2d(stride)),
                        ("0", nn.Conv2d(channels, outer, 1, bias=False)),
                        ("1", nn.BatchNorm2d(outer)),
                    )
                )
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))  # [B, inner, H, W]
        y = F.relu(self.bn2(self.conv2(y)))  # [B, inner, H, W]
        y = self.bn3(self.conv3(self.pool(y)))  # [B, 4 inner, H/stride, W/stride]
        return F.relu(y + self.downsample(x))  # [B, 4 inner, H/stride, W/stride]


class AttentionPool(nn.Module):
    """Attention of the mean position to all positions and itself: [B, C, S, S] -> [B, D]."""

    def __init__(self, channels: int, side: int, dim: int) -> None:
        super().__init__()
        self.heads = channels // HEAD_WIDTH
        self.positional_embedding = nn.Parameter(torch.zeros(side**2 + 1, channels))
        self.q_proj = nn.Linear(channels, channels)
        self.k_proj = nn.Linear(channels, channels)
        self.v_proj = nn.Linear(channels, channels)
        self.c_proj = nn.Linear(channels, dim)

    def forward(self, x: Tensor) -> Tensor:
        places = x.flatten(2).transpose(1, 2)  # [B, S*S, C]
        places = torch.cat([places.mean(dim=1, keepdim=True), places], dim=1)  # [B, 1 + S*S, C]
        places = places + self.positional_embedding  # [B, 1 + S*S, C]
        query = self._by_head(self.q_proj(places[:, :1]))  # [B, heads, 1, C/heads]
        key = self._by_head(self.k_proj(places))  # [B, heads, 1 + S*S, C/heads]
        value = self._by_head(self.v_proj(places))  # [B, heads, 1 + S*S, C/heads]
        pooled = F.scaled_dot_product_attention(query, key, value)  # [B, heads, 1, C/heads]
        vectors: Tensor = self.c_proj(pooled.flatten(1))  # [B, D]
        return vectors

    def _by_head(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)  # [B, heads, L, C/heads]


# CLIP's text encoder (arXiv 2103.00020, section 2.4), with OpenAI's parameter names.
#
# OpenAI's matrix `text_projection` is the layer `proj` here, transposed.


@dataclass(frozen=True, slots=True)
class TextSizes:
    """`length` counts the tokens of the longest text, with its first and last."""

    words: int
    length: int
    width: int
    heads: int
    layers: int
    dim: int


class ClipText(nn.Module):
    """Token ids to vectors, not normalised: the state of the last token, projected."""

    def __init__(self, sizes: TextSizes) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(sizes.words, sizes.width)
        self.positional_embedding = nn.Parameter(torch.zeros(sizes.length, sizes.width))
        self.transformer = Transformer(sizes)
        self.ln_final = nn.LayerNorm(sizes.width)
        self.proj = nn.Linear(sizes.width, sizes.dim, bias=False)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Encode [B, T] ids, whose first `lengths` [B] belong to the texts, to [B, D]."""
        # No token reads a later one, so those after the last change nothing.
        x = self.token_embedding(ids) + self.positional_embedding[: ids.shape[1]]  # [B, T, W]
        x = self.ln_final(self.transformer(x))  # [B, T, W]
        last = x[torch.arange(len(x), device=x.device), lengths - 1]  # [B, W]
        vectors: Tensor = self.proj(last)  # [B, D]
        return vectors


class Transformer(nn.Module):
    def __init__(self, sizes: TextSizes) -> None:
        super().__init__()
        self.resblocks = nn.ModuleList(Block(sizes.width, sizes.heads) for _ in range(sizes.layers))

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)  # [T, T]
        for block in self.resblocks:
            x = block(x, later)  # [B, T, W]
        return x


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_1 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            OrderedDict(
                (
                    ("c_fc", nn.Linear(width, 4 * width)),
                    ("gelu", QuickGelu()),
                    ("c_proj", nn.Linear(4 * width, width)),
                )
            )
        )
        self.ln_2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """[B, T, W] -> [B, T, W]; `hidden` [T, T] is True where no attention is paid."""
        y = self.ln_1(x)  # [B, T, W]
        y, _ = self.attn(y, y, y, attn_mask=hidden, need_weights=False)  # [B, T, W]
        x = x + y  # [B, T, W]
        out: Tensor = x + self.mlp(self.ln_2(x))  # [B, T, W]
        return out


class QuickGelu(nn.Module):
    """The activation of OpenAI's weights; GELU itself gives other vectors."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


# CLIP's tokenizer, made from OpenAI's file of merges; nothing is downloaded.

MERGES_FILE = "bpe_simple_vocab_16e6.txt.gz"
MERGES_URL = f"https://github.com/openai/CLIP/raw/main/clip/{MERGES_FILE}"

N_MERGES = 49152 - 256 - 2
"""The file lists more, which no published model uses."""

_STRAIGHT_QUOTES = str.maketrans(
    "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f", "''''" + 4 * '"'
)

START, END = "<|startoftext|>", "<|endoftext|>"


def find_merges(folder: Path) -> Path:
    """The file of merges in a folder of weights, or else in an installed open_clip.

    UnreadableInput, with the file's address, if neither has it.
    """
    # Not imported: it needs torchvision, which is not installed with every torch.
    open_clip = find_spec("open_clip")
    installed = (open_clip and open_clip.submodule_search_locations) or ()
    for place in (folder, *map(Path, installed)):
        if (place / MERGES_FILE).is_file():
            return place / MERGES_FILE
    raise UnreadableInput(
        str(folder / MERGES_FILE),
        f"CLIP's tokenizer lacks its merges ({MERGES_URL})",
        "download the file there, or name the folder that has it with --weights",
    )


def read_merges(file: Path) -> list[tuple[str, str]]:
    """Read the pairs that CLIP's tokenizer merges, most frequent first."""
    try:
        lines = gzip.decompress(file.read_bytes()).decode("utf-8").split("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UnreadableInput(
            str(file), f"is not the file of CLIP's merges ({error})", "download it again"
        ) from error
    merges = []
    for number, line in enumerate(lines[1 : N_MERGES + 1], start=2):
        first, space, second = line.partition(" ")
        if line and (not space or " " in second):
            raise UnreadableInput(
                f"{file}, line {number}", "is not a pair of parts", "download the file again"
            )
        if line:
            merges.append((first, second))
    return merges


def tokenizer_of(merges: list[tuple[str, str]]) -> Any:
    """Make a CLIPTokenizer with the ids of OpenAI's tokenizer; HsfiqError without transformers."""
    try:
        from transformers import CLIPTokenizer  # noqa: PLC0415 -- takes seconds
    except ImportError as error:
        raise HsfiqError(
            f"CLIP's tokenizer needs transformers 5 ({error}): pip install 'hsfiq[hf]'"
        ) from error
    letters = byte_letters()
    words = [*letters, *(f"{letter}</w>" for letter in letters)]
    words += ["".join(pair) for pair in merges]
    words += [START, END]
    make: Any = CLIPTokenizer  # its type does not say that it takes pairs
    return make(vocab={word: i for i, word in enumerate(words)}, merges=merges)


def byte_letters() -> list[str]:
    """The letter that stands for each byte, in the order of their ids: printable ones first."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = len(set(range(256)) - set(printable))
    return [chr(code) for code in (*printable, *range(256, 256 + others))]


def cleaned(text: str) -> str:
    """Replace HTML's entities and curly quotes, as OpenAI's code does.

    The tokenizer itself normalises case and spaces. Not repeated here: repairing text that was
    decoded wrongly, which OpenAI's code leaves to ftfy.
    """
    return unescape(unescape(text)).translate(_STRAIGHT_QUOTES).strip()


NAME = "clip-rn50x4"

RN50X4_IMAGE = ResNetSizes(size=288, width=80, blocks=(4, 6, 10, 6), dim=640)
RN50X4_TEXT = TextSizes(words=49408, length=77, width=640, heads=10, layers=12, dim=640)


class Clip(nn.Module):
    """`TwoTowers` of hsfiq.model.retrieval.backbone describes the methods."""

    name = NAME
    frozen: tuple[str, ...] = ()

    def __init__(self, image: ResNetSizes, text: TextSizes, tokenizer: Any) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=image.size)
        self.tokens_shape = (3 * image.size, image.size)
        self.dim = image.dim
        self.image = ClipResNet(image)
        self.text = ClipText(text)
        self._max_tokens = text.length
        self._tokenizer = tokenizer

    def train(self, mode: bool = True) -> Clip:
        """Switch the mode; the batch norms always use the statistics of CLIP's own training."""
        super().train(mode)
        self.image.eval()
        return self

    def frozen_id(self) -> str:
        """The same for all weights, because tokens are pixels."""
        return sha256(f"pixels {self.tokens_shape}".encode()).hexdigest()

    def image_modules(self) -> Sequence[nn.Module]:
        return ()

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        return pixels.flatten(1, 2)  # [B, 3 * size, size]

    def image_vectors(self, tokens: Tensor) -> Tensor:
        pixels = tokens.reshape(len(tokens), 3, -1, tokens.shape[2])  # [B, 3, size, size]
        vectors: Tensor = self.image(pixels.to(self.image.conv1.weight.dtype))  # [B, D]
        return vectors

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        words = self.word_ids(texts)
        vectors: Tensor = self.text(words.input_ids, words.attention_mask.sum(dim=1))  # [B, D]
        return vectors

    def word_ids(self, texts: Sequence[str]) -> Any:
        """`input_ids` and `attention_mask`, both [B, T]; a text that is too long is truncated."""
        words = self._tokenizer(
            [cleaned(text) for text in texts],
            padding=True,
            truncation=True,
            max_length=self._max_tokens,
            return_tensors="pt",
        )
        return words.to(self.text.positional_embedding.device)


def build(folder: Path, generator: torch.Generator | None) -> Clip:
    """RN50x4; `folder`, or else an installed open_clip, has the file of its tokenizer.

    The generator draws the weights; without one they are uninitialised, for a checkpoint to fill.
    """
    tokenizer = tokenizer_of(read_merges(find_merges(folder)))
    return sized(RN50X4_IMAGE, RN50X4_TEXT, tokenizer, generator)


def sized(
    image: ResNetSizes, text: TextSizes, tokenizer: Any, generator: torch.Generator | None
) -> Clip:
    """A model of any size; the generator as in `build`."""
    with torch.device("meta"):
        clip = Clip(image, text, tokenizer)
    clip.to_empty(device="cpu")
    if generator is not None:
        draw_weights(clip, generator)
    return clip.eval()
