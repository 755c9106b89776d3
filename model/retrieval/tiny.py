"""The small backbones, and their pre-training in place of what CLIP and BLIP learned."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.drawn import Garment
from hsfiq.drawn import generator as drawn_generator
from hsfiq.drawn.triplets import describe
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import BEST
from hsfiq.model.encoders import tiny
from hsfiq.model.encoders.encoder import normalise
from hsfiq.model.image_tokens import TokenSource
from hsfiq.model.retrieval.backbone import contrastive
from hsfiq.model.runtime import generator
from hsfiq.model.scorer.scorer import all_relevance
from hsfiq.model.system_recipes import Stage

# Small backbones, pre-trained and trained on a CPU in minutes, for the drawn catalogue.
#
# Like the `tiny` encoder they read a fixed description of an image's patches, and hashed words.
# `TinyTowers` stands in for CLIP and BLIP, `TinyQFormer` for BLIP-2.

N_LAYERS = 2
N_QUERIES = 8


class TinyTowers(tiny.PatchTokens, nn.Module):
    """An image encoder and a text encoder; `backbone.CrossAttention` describes the methods."""

    dim = tiny.DIM
    text_width = tiny.WIDTH
    frozen: tuple[str, ...] = ()

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.image = ImageEncoder()
        self.text = TextEncoder()
        tiny.draw_weights(self, generator)
        self.image.start_small()

    def image_vectors(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = self.image(tokens)
        return vectors  # [B, D]

    def text_vectors(self, texts: Sequence[str], direction: Tensor | None = None) -> Tensor:
        vectors: Tensor = self.text(texts, direction=direction)
        return vectors  # [B, D]

    def fused_vectors(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        vectors: Tensor = self.text(texts, self.image.states(tokens))
        return vectors  # [B, D]

    def match(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """The cosine of each image with each text, for pre-training: [B, B]."""
        images = F.normalize(self.image_vectors(tokens), dim=1)  # [B, D]
        return images @ F.normalize(self.text_vectors(texts), dim=1).T  # [B, B]


class ImageEncoder(nn.Module):
    """Reads each patch with separate weights: garments are in the middle of the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Parameter(torch.zeros(tiny.N_PATCHES, tiny.WIDTH, tiny.PATCH_WIDTH))
        self.norm = nn.LayerNorm(tiny.WIDTH)
        self.mlp = mlp()
        self.proj = nn.Linear(tiny.WIDTH, tiny.DIM)

    def start_small(self) -> None:
        """Scale the first weights down, for the reason that `encoders.tiny` gives."""
        with torch.no_grad():
            self.patches.mul_(tiny.SMALL)

    def states(self, tokens: Tensor) -> Tensor:
        """[B, P, W] -> [B, P, H]."""
        return torch.einsum("bpw,phw->bph", tokens.to(self.patches.dtype), self.patches)

    def forward(self, tokens: Tensor) -> Tensor:
        pooled = self.states(tokens).sum(dim=1)  # [B, H]
        vectors: Tensor = self.proj(pooled + self.mlp(self.norm(pooled)))
        return vectors  # [B, D]


class WordEmbedding(nn.Module):
    """[CLS] and hashed words, with a vector for each position."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(tiny.N_WORDS, tiny.WIDTH, padding_idx=0)
        self.places = nn.Parameter(torch.zeros(1 + tiny.MAX_WORDS, tiny.WIDTH))
        self.start = nn.Parameter(torch.zeros(1, tiny.WIDTH))

    def forward(
        self, texts: Sequence[str], direction: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """B texts -> states [B, 1 + T, H], and [B, 1 + T], False for padding.

        A direction [H] comes after [CLS] and makes T greater by 1, up to the longest text's.
        """
        ids = tiny.word_ids(texts).to(self.start.device)  # [B, T]
        extra = [] if direction is None else [direction.unsqueeze(0)]  # of [1, H]
        first = torch.cat([self.start, *extra])  # [n, H]
        n = len(first)
        states = torch.cat([first.expand(len(ids), n, -1), self.words(ids)], dim=1)  # [B, n + T, H]
        present = torch.cat([ids.new_ones(len(ids), n), ids], dim=1) != 0  # [B, n + T]
        states, present = states[:, : len(self.places)], present[:, : len(self.places)]
        return states + self.places[: states.shape[1]], present


class TextEncoder(nn.Module):
    """A transformer over [CLS] and the words, which may read an image."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = WordEmbedding()
        self.layers = nn.ModuleList([Layer() for _ in range(N_LAYERS)])
        self.norm = nn.LayerNorm(tiny.WIDTH)
        self.proj = nn.Linear(tiny.WIDTH, tiny.DIM)

    def forward(
        self,
        texts: Sequence[str],
        image: Tensor | None = None,
        direction: Tensor | None = None,
    ) -> Tensor:
        """B texts, image states [B, P, H] to read, a direction [H] -> [B, D]."""
        states, present = self.embedding(texts, direction)  # [B, 1 + T, H]
        for layer in self.layers:
            states = layer(states, present, image)
        vectors: Tensor = self.proj(self.norm(states[:, 0]))
        return vectors  # [B, D]


class Layer(nn.Module):
    """Self-attention, cross-attention to an image if there is one, and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_self, self.norm_cross, self.norm_mlp = (
            nn.LayerNorm(tiny.WIDTH) for _ in range(3)
        )
        self.self_attention, self.cross_attention = tiny.Attention(), tiny.Attention()
        self.mlp = mlp()

    def forward(self, states: Tensor, present: Tensor, image: Tensor | None) -> Tensor:
        """States [B, S, H], [B, S] False for padding, image [B, P, H] -> [B, S, H]."""
        normal = self.norm_self(states)  # [B, S, H]
        states = states + self.self_attention(normal, normal, present[:, None, None])
        if image is not None:
            states = states + self.read(states, image)
        changed: Tensor = states + self.mlp(self.norm_mlp(states))
        return changed

    def read(self, states: Tensor, image: Tensor) -> Tensor:
        """What states [B, S, H] read in an image [B, P, H]: [B, S, H]."""
        everything = image.new_ones(len(image), 1, 1, image.shape[1], dtype=torch.bool)
        read: Tensor = self.cross_attention(self.norm_cross(states), image, everything)
        return read


def mlp() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(tiny.WIDTH, 4 * tiny.WIDTH), nn.GELU(), nn.Linear(4 * tiny.WIDTH, tiny.WIDTH)
    )


class TinyQFormer(tiny.PatchTokens, nn.Module):
    """Query tokens and words in one transformer; `backbone.QFormer` describes the methods.

    As in BLIP-2 (arXiv 2301.12597, section 3.1), queries and words share self-attention, only
    queries read the image, and each of the two has an MLP of its own; `Reading` is simpler than
    its cross-attention. Without an image, prompts pass through the words' MLP, as in SPRC.
    """

    dim = tiny.DIM
    n_queries = N_QUERIES
    frozen: tuple[str, ...] = ()

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.image = ImageEncoder()
        self.query_tokens = nn.Parameter(torch.zeros(N_QUERIES, tiny.WIDTH))
        self.embedding = WordEmbedding()
        self.layers = nn.ModuleList([QFormerLayer() for _ in range(N_LAYERS)])
        self.query_norm, self.text_norm = nn.LayerNorm(tiny.WIDTH), nn.LayerNorm(tiny.WIDTH)
        self.vision_proj = nn.Linear(tiny.WIDTH, tiny.DIM)
        self.text_proj = nn.Linear(tiny.WIDTH, tiny.DIM)
        tiny.draw_weights(self, generator)
        self.image.start_small()

    def read_image(self, tokens: Tensor) -> Tensor:
        queries = self.query_tokens.expand(len(tokens), -1, -1)  # [B, Q, H]
        words = queries[:, :0]  # [B, 0, H]
        present = torch.ones(words.shape[:2], dtype=torch.bool, device=tokens.device)  # [B, 0]
        return self.transform(queries, words, present, self.image.states(tokens))[0]  # [B, Q, H]

    def read_both(self, queries: Tensor, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        words, present = self.embedding(texts)  # [B, 1 + T, H], [B, 1 + T]
        return self.transform(queries, words, present, self.image.states(tokens))[0]  # [B, Q, H]

    def match(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """The cosine of each text with the nearest of an image's vectors, as BLIP-2: [B, B]."""
        images = F.normalize(self.vision_proj(self.read_image(tokens)), dim=-1)  # [B, Q, D]
        states = self.read_prompted(
            images.new_zeros(len(texts), 0, tiny.WIDTH), texts, text_first=True
        )
        words = F.normalize(self.text_proj(states), dim=1)  # [B, D]
        return all_relevance(words, images, "max").T  # [B, B]

    def read_prompted(self, prompts: Tensor, texts: Sequence[str], *, text_first: bool) -> Tensor:
        del text_first  # positions belong to the embedded words: the order has no effect
        words, present = self.embedding(texts)  # [B, 1 + T, H], [B, 1 + T]
        return self.transform(prompts, words, present, None)[1][:, 0]  # [B, H]

    def transform(
        self, queries: Tensor, words: Tensor, present: Tensor, image: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The last states of queries [B, Q, H] and words [B, 1 + T, H], in these shapes."""
        for layer in self.layers:
            queries, words = layer(queries, words, present, image)
        return self.query_norm(queries), self.text_norm(words)


class QFormerLayer(nn.Module):
    """A layer in which queries alone read the image, and have an MLP of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_self, self.norm_read, self.norm_mlp = (nn.LayerNorm(tiny.WIDTH) for _ in range(3))
        self.self_attention = tiny.Attention()
        self.reading = Reading()
        self.mlp, self.query_mlp = mlp(), mlp()

    def forward(
        self, queries: Tensor, words: Tensor, present: Tensor, image: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Queries [B, Q, H], words [B, 1 + T, H], [B, 1 + T] False for padding, image [B, P, H]."""
        n = queries.shape[1]
        states = torch.cat([queries, words], dim=1)  # [B, Q + 1 + T, H]
        attended = torch.cat([present.new_ones(len(queries), n), present], dim=1)  # [B, Q + 1 + T]
        normal = self.norm_self(states)  # [B, Q + 1 + T, H]
        states = states + self.self_attention(normal, normal, attended[:, None, None])
        queries, words = states[:, :n], states[:, n:]
        if image is not None:
            queries = queries + self.reading(self.norm_read(queries), image)
        own_mlp = self.mlp if image is None else self.query_mlp
        queries = queries + own_mlp(self.norm_mlp(queries))
        return queries, words + self.mlp(self.norm_mlp(words))


class Reading(nn.Module):
    """How queries read an image: its features as a whole, which each query weighs.

    Attention to single patches learns far slower here: garments are in the same place in every
    picture, so `ImageEncoder.states` has told the patches apart already.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weigh, self.value, self.out = (nn.Linear(tiny.WIDTH, tiny.WIDTH) for _ in range(3))

    def forward(self, queries: Tensor, image: Tensor) -> Tensor:
        """Queries [B, Q, H] and image states [B, P, H] -> [B, Q, H]."""
        features = self.value(image.sum(dim=1, keepdim=True))  # [B, 1, H]
        read: Tensor = self.out(features * (1 + self.weigh(queries)))  # [B, Q, H]
        return read


# Pre-training of the small backbones: the stand-in for what CLIP and BLIP learned elsewhere.
#
# Contrastive learning (Radford et al., arXiv 2103.00020) of pictures of drawn garments and
# descriptions of them, of training garments only.

TEMPERATURE = 0.05
CLIP_NORM = 1.0
STAGE = Stage(
    number=1,
    epochs=60,
    batch=128,
    lr=2e-3,
    schedule="one-cycle",
    schedule_epochs=None,
    weight_decay=0.01,
    warmup=0.1,
    start_divisor=25.0,
)


VERSION = 2
"""Increase it when the same settings give other weights."""


def pretrain(
    backbone: TinyTowers | TinyQFormer,
    garments: Sequence[Garment],
    tokens: TokenSource,
    seed: int,
    on_progress: Callable[[int, int], None],
    stage: Stage,
) -> None:
    """Train a backbone, which is changed; `on_progress` is given epochs done and epochs in all."""
    optimizer = torch.optim.AdamW(
        backbone.parameters(), lr=stage.lr, weight_decay=stage.weight_decay
    )
    n_steps = max(len(garments) // stage.batch, 1)
    backbone.train()
    for epoch in range(stage.epochs):
        order = torch.randperm(len(garments), generator=generator(seed, "pre-training", epoch))
        writer = drawn_generator(seed, f"descriptions {epoch}")
        for step, rows in enumerate(torch.split(order, stage.batch)[:n_steps]):
            batch = [garments[row] for row in rows.tolist()]
            pixels = tokens.tokens([garment.image_id for garment in batch])  # [B, P, W]
            texts = [normalise(describe(writer, garment)) for garment in batch]
            logits = backbone.match(pixels, texts) / TEMPERATURE  # [B, B]
            loss = (contrastive(logits) + contrastive(logits.T)) / 2
            for group in optimizer.param_groups:
                group["lr"] = stage.lr_at(epoch, step, n_steps)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(backbone.parameters(), CLIP_NORM)
            optimizer.step()
        on_progress(epoch + 1, stage.epochs)
    if isinstance(backbone, TinyTowers):
        equalise_lengths(backbone, garments, tokens, seed)
    optimizer.zero_grad()  # else the first step of the next training would add these gradients


@torch.no_grad()
def equalise_lengths(
    towers: TinyTowers, garments: Sequence[Garment], tokens: TokenSource, seed: int
) -> None:
    """Scale both projections so that vectors of images and of texts have a mean length of 1.

    A loss of cosines leaves the lengths open, but systems add the vectors, and Bi-BLIP4CIR adds
    raw ones to ones of length 1.
    """
    writer = drawn_generator(seed, "descriptions for lengths")
    texts = [normalise(describe(writer, garment)) for garment in garments]
    pixels = tokens.tokens([garment.image_id for garment in garments])  # [N, P, W]
    for part, vectors in (
        (towers.image, towers.image_vectors(pixels)),  # [N, D]
        (towers.text, towers.text_vectors(texts)),  # [N, D]
    ):
        length = vectors.norm(dim=1).mean()  # []
        for parameter in part.proj.parameters():
            parameter.div_(length)


def load_pretrained(
    backbone: TinyTowers | TinyQFormer,
    folder: Path,
    garments: Sequence[Garment],
    tokens: TokenSource,
    seed: int,
    on_progress: Callable[[int, int], None],
) -> None:
    """Give a backbone pre-trained weights: those kept in `folder`, else trained now and kept."""
    content = [VERSION, type(backbone).__name__, seed, asdict(STAGE)]
    content.append([garment.image_id for garment in garments])
    digest = sha256(json.dumps(content).encode()).hexdigest()[:16]
    kept = folder / f"{type(backbone).__name__}-{digest}"
    if not (kept / f"{BEST}.json").is_file():
        pretrain(backbone, garments, tokens, seed, on_progress, STAGE)
        about = {"pretraining": {"seed": seed, "n_garments": len(garments), **asdict(STAGE)}}
        checkpoints.save(kept, BEST, about, {"scorer": backbone.state_dict()})
    backbone.load_state_dict(checkpoints.read(kept).tensors("scorer"))
