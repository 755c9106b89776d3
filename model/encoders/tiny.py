"""A small encoder with BLIP-2's structure, trained from scratch on a CPU in minutes.

Its frozen image encoder has no weights: a token is a patch's colour, contrast and texture. The
trained part has BLIP-2's structure (arXiv 2301.12597, section 3.1): learned query tokens that read
the image, self-attention between them and the text, and two projections.

The query tokens read the image linearly, with weights that start small. Large initial weights
respond mostly to colour and outline, which fill most patches, and training keeps them there: it
would hardly learn a neckline or a logo, which fill few. From small weights, the first steps of
AdamW change every patch equally.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.model.encoders.encoder import Preprocessing, normalise, pooled_query

NAME = "tiny"

SIZE, PATCH = 96, 12
N_PATCHES, PATCH_WIDTH = (SIZE // PATCH) ** 2, 6 + PATCH * (PATCH // 2 + 1)

WIDTH, HEADS = 64, 4
N_QUERIES = 8
READ_SCALE = 0.5
"""The weight of what is read from an image, which also sets how fast that is learned."""
SMALL = 0.01
"""The initial scale of the weights that read the image, relative to the usual one."""
DIM = 128
N_WORDS = 4096
MAX_WORDS = 32

TEMPERATURE = 0.07
"""Not trained: at the learning rate that random weights need, it would collapse within an epoch,
and every margin would be large."""

_WORD = re.compile(r"[a-z0-9/'-]+")


class PatchTokens:
    """The frozen image encoder: it has no weights."""

    name = NAME
    preprocessing = Preprocessing(size=SIZE, pad_ratio=1.25)
    tokens_shape = (N_PATCHES, PATCH_WIDTH)

    def frozen_id(self) -> str:
        """The tokens depend on the patch size and on the features alone."""
        features = f"colour, contrast and texture of {PATCH} x {PATCH} pixels"
        return sha256(features.encode()).hexdigest()

    def image_modules(self) -> Sequence[nn.Module]:
        return ()

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Describe patches: mean and deviation of each colour, Fourier magnitudes of grey."""
        patches = F.unfold(pixels, PATCH, stride=PATCH).transpose(1, 2)  # [B, P, 3 * 12 * 12]
        patches = patches.reshape(len(pixels), N_PATCHES, 3, PATCH, PATCH)
        colour, contrast = patches.mean((-1, -2)), patches.std((-1, -2))  # [B, P, 3]
        grey = patches.mean(dim=2)  # [B, P, 12, 12]
        waves = torch.fft.rfft2(grey - grey.mean((-1, -2), keepdim=True), norm="ortho")
        texture = torch.log1p(4 * waves.abs()).flatten(-2)  # [B, P, 12 * 7]
        # Compress the range: a strong pattern must not hide a faint one, nor noise look like one.
        texture = 3 * texture / (3 + texture.norm(dim=-1, keepdim=True))
        return torch.cat([colour, contrast, texture], dim=-1)  # [B, P, W]


class Tiny(PatchTokens, nn.Module):
    """The `tiny` encoder; `hsfiq.model.encoders.encoder.Encoder` describes the methods."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(TEMPERATURE), requires_grad=False)
        # Garments are in the middle of the picture, so each patch position has its own weights.
        self.patches = nn.Parameter(torch.zeros(N_PATCHES, WIDTH, PATCH_WIDTH))
        self.query_tokens = nn.Parameter(torch.zeros(N_QUERIES, WIDTH))
        self.words = nn.Embedding(N_WORDS, WIDTH, padding_idx=0)
        self.word_places = nn.Parameter(torch.zeros(MAX_WORDS, WIDTH))
        self.layer = Layer()
        self.vision_proj = nn.Linear(WIDTH, DIM)
        self.text_proj = nn.Linear(WIDTH, DIM)
        draw_weights(self, generator)
        with torch.no_grad():
            self.patches.mul_(SMALL)
        # A query starts as its reference, so that only the text's effect has to be learned.
        self.text_proj.load_state_dict(self.vision_proj.state_dict())

    def clean_text(self, text: str) -> str:
        return normalise(text)

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        ids = word_ids(texts).to(tokens.device)  # [B, T]
        words = self.words(ids) + self.word_places[: ids.shape[1]]  # [B, T, width]
        states = self.layer(self.read(tokens), words, ids != 0)
        return pooled_query(self.text_proj(states))  # [B, D]

    def gallery(self, tokens: Tensor) -> Tensor:
        return F.normalize(self.vision_proj(self.read(tokens)), dim=-1)  # [B, L, D]

    def read(self, tokens: Tensor) -> Tensor:
        read = torch.einsum("bpw,pdw->bd", tokens.to(self.patches.dtype), self.patches)
        return self.query_tokens + READ_SCALE * read.unsqueeze(1)  # [B, L, width]


class Layer(nn.Module):
    """A transformer layer: queries attend to each other and the words, then an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention, self.norm_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, queries: Tensor, words: Tensor, present: Tensor) -> Tensor:
        """[B, L, width], words [B, T, width] and [B, T], False for padding -> [B, L, width]."""
        normal = self.norm_attention(torch.cat([queries, words], dim=1))  # [B, L + T, width]
        seen = torch.cat([present.new_ones(len(queries), N_QUERIES), present], dim=1)  # [B, L + T]
        queries = queries + self.attention(normal[:, :N_QUERIES], normal, seen[:, None, None])
        read: Tensor = queries + self.mlp(self.norm_mlp(queries))
        return read


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, states: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        """Let states [B, S, width] attend to a context [B, C, width]: [B, S, width].

        `mask` is False for contexts to be ignored, and is broadcast to [B, heads, S, C].
        """
        q = heads(self.q(states))  # [B, heads, S, width / heads]
        k, v = heads(self.k(context)), heads(self.v(context))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


def heads(states: Tensor) -> Tensor:
    """[B, S, width] -> [B, heads, S, width / heads]."""
    return states.reshape(*states.shape[:2], HEADS, -1).transpose(1, 2)


def word_ids(texts: Sequence[str]) -> Tensor:
    """Each text's words as hashes from 1 to N_WORDS - 1, padded with 0: [B, T].

    Hashing needs no vocabulary, so a checkpoint can read words that its training never saw.
    """
    rows = [
        [1 + crc32(word.encode()) % (N_WORDS - 1) for word in _WORD.findall(text.lower())]
        for text in texts
    ]
    length = min(max(map(len, rows), default=0), MAX_WORDS)
    filled = [(row + [0] * length)[:length] for row in rows]
    # The dtype and shape are explicit for texts without any word.
    return torch.tensor(filled, dtype=torch.int64).reshape(len(rows), length)


def draw_weights(module: nn.Module, generator: torch.Generator) -> None:
    """Draw every weight matrix from a normal distribution of variance 1 / its last dimension."""
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
