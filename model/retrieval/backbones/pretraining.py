"""Pre-training of the small backbones: the stand-in for what CLIP and BLIP learned elsewhere.

Contrastive learning (Radford et al., arXiv 2103.00020) of pictures of drawn garments and
descriptions of them, of training garments only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import torch
from torch import nn

from hsfiq.drawn import Garment
from hsfiq.drawn import generator as drawn_generator
from hsfiq.drawn.captions import describe
from hsfiq.model.checkpoints import checkpoint as checkpoints
from hsfiq.model.checkpoints.checkpoint import BEST
from hsfiq.model.encoders.text_cleaning import normalise
from hsfiq.model.features.tokens import TokenSource
from hsfiq.model.recipes.system_recipe import Stage
from hsfiq.model.retrieval.backbones.tiny import TinyQFormer, TinyTowers
from hsfiq.model.retrieval.losses import contrastive
from hsfiq.model.runtime.seeds import generator

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
