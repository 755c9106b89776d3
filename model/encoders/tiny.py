"""A small encoder of the same kind as BLIP-2's, trained from nothing on a CPU in minutes.

Its frozen image encoder is the least there is: an image's tokens are its patches of pixels. What
is trained has BLIP-2's shape: learned query tokens that read the image by cross-attention and the
text by self-attention, and two projections (arXiv 2301.12597, section 3.1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the field's name for it

from model.features.preprocessing import Preprocessing

NAME = "tiny"

SIZE, PATCH = 64, 8
N_PATCHES, PATCH_WIDTH = (SIZE // PATCH) ** 2, 6 + PATCH * (PATCH // 2 + 1)

WIDTH, HEADS, LAYERS = 64, 4, 2
N_QUERIES = 8
DIM = 64
N_WORDS = 4096
MAX_WORDS = 32

_WORD = re.compile(r"[a-z0-9/'-]+")


class Tiny(nn.Module):
    """The `tiny` encoder; see `model.encoders.protocol.Encoder` for what each method takes."""

    name = NAME
    preprocessing = Preprocessing(size=SIZE, pad_ratio=1.0)
    tokens_shape = (N_PATCHES, PATCH_WIDTH)

    def __init__(self, generator: torch.Generator) -> None:
        """Draw the weights; the same state of the generator gives the same."""
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(0.07))
        self.patches = nn.Sequential(
            nn.Linear(PATCH_WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)
        )
        self.places = nn.Parameter(torch.zeros(N_PATCHES, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.query_tokens = nn.Parameter(torch.zeros(N_QUERIES, WIDTH))
        self.words = nn.Embedding(N_WORDS, WIDTH, padding_idx=0)
        self.word_places = nn.Parameter(torch.zeros(MAX_WORDS, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.vision_proj = nn.Linear(WIDTH, DIM)
        self.text_proj = nn.Linear(WIDTH, DIM)
        draw_weights(self, generator)
        self.text_proj.load_state_dict(self.vision_proj.state_dict())

    def frozen_id(self) -> str:
        """The tokens are the pixels: they depend on the patches' size alone."""
        return sha256(f"patches of {PATCH} x {PATCH} pixels".encode()).hexdigest()

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Cut images into patches."""
        patches = F.unfold(pixels, PATCH, stride=PATCH).transpose(1, 2)  # [B, P, 3 * 64]
        patches = patches.reshape(len(pixels), N_PATCHES, 3, PATCH, PATCH)
        colour, contrast = patches.mean((-1, -2)), patches.std((-1, -2))  # [B, P, 3]
        grey = patches.mean(2)  # [B, P, 8, 8]
        grey = grey - grey.mean((-1, -2), keepdim=True)
        texture = torch.fft.rfft2(grey, norm="ortho").abs().flatten(-2)  # [B, P, 8 * 5]
        return torch.cat([colour, contrast, texture], dim=-1)  # [B, P, W]

    def query(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Compose references and texts."""
        ids = word_ids(texts).to(tokens.device)  # [B, T]
        words = self.words(ids) + self.word_places[: ids.shape[1]]  # [B, T, width]
        states = self.read(tokens, words, ids != 0)
        return F.normalize(self.text_proj(states).mean(dim=1), dim=-1)  # [B, D]

    def gallery(self, tokens: Tensor) -> Tensor:
        """Project images."""
        nothing = tokens.new_zeros((len(tokens), 0, WIDTH), dtype=self.places.dtype)
        states = self.read(tokens, nothing, nothing[..., 0].bool())
        return F.normalize(self.vision_proj(states), dim=-1)  # [B, L, D]

    def read(self, tokens: Tensor, words: Tensor, present: Tensor) -> Tensor:
        """The query tokens' states after reading image and text: [B, L, width]."""
        image = self.norm(self.patches(tokens.to(self.places.dtype)) + self.places)
        queries = self.query_tokens.expand(len(tokens), -1, -1)
        states = torch.cat([queries, words], dim=1)  # [B, L + T, width]
        seen = torch.cat([present.new_ones(len(tokens), N_QUERIES), present], dim=1)  # [B, L + T]
        for layer in self.layers:
            states = layer(states, image, seen)
        return states[:, :N_QUERIES]


class Layer(nn.Module):
    """Self-attention over queries and text, cross-attention of the queries alone, an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_self, self.norm_cross, self.norm_mlp = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.self_attention = Attention()
        self.cross_attention = Attention()
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, states: Tensor, image: Tensor, seen: Tensor) -> Tensor:
        """[B, L + T, width] -> the same; `image` [B, P, width], `seen` [B, L + T]."""
        normal = self.norm_self(states)
        states = states + self.self_attention(normal, normal, seen)
        queries, words = states[:, :N_QUERIES], states[:, N_QUERIES:]
        queries = queries + self.cross_attention(self.norm_cross(queries), image)
        states = torch.cat([queries, words], dim=1)
        moved: Tensor = states + self.mlp(self.norm_mlp(states))
        return moved


class Attention(nn.Module):
    """Multi-head attention."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, states: Tensor, context: Tensor, seen: Tensor | None = None) -> Tensor:
        """[B, S, width] attends to [B, C, width], where `seen` [B, C] says: [B, S, width]."""
        q = heads(self.q(states))  # [B, heads, S, width / heads]
        k, v = heads(self.k(context)), heads(self.v(context))
        mask = None if seen is None else seen[:, None, None]  # [B, 1, 1, C]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


def heads(states: Tensor) -> Tensor:
    """[B, S, width] -> [B, heads, S, width / heads]."""
    return states.reshape(*states.shape[:2], HEADS, -1).transpose(1, 2)


def word_ids(texts: Sequence[str]) -> Tensor:
    """Each text's words as their hashes 1 to N_WORDS - 1, filled up with 0: [B, T].

    Hashing needs no vocabulary, so a checkpoint reads words that its training never saw.
    """
    rows = [
        [1 + crc32(word.encode()) % (N_WORDS - 1) for word in _WORD.findall(text.lower())]
        for text in texts
    ]
    length = min(max(map(len, rows), default=0), MAX_WORDS)
    filled = [(row + [0] * length)[:length] for row in rows]
    # Without a word in them, nothing says that these are whole numbers.
    return torch.tensor(filled, dtype=torch.int64).reshape(len(rows), length)


def draw_weights(module: nn.Module, generator: torch.Generator) -> None:
    """Draw every weight matrix anew from one generator: normal, standard deviation 0.05."""
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
