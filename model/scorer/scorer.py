"""The scorer: how relevant an image is to a query, and the loss that it is trained with.

A query (a reference image and a text) is one vector, an image L vectors. Its relevance is the dot
product of the query with each of them, pooled over L (QuRe eq. 1; CIRQRS eq. 1 does not say how,
and both papers' BLIP-2 takes the largest). Only training divides it by the learned temperature,
which changes no order. A set's score is the mean over its images (CIRQRS eq. 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.model.encoders.encoder import Encoder
from hsfiq.model.recipes import Pooling


class Scorer(nn.Module):
    """An encoder and how an image's vectors are pooled."""

    def __init__(self, encoder: Encoder, pooling: Pooling) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling: Pooling = pooling

    def forward(
        self, references: Tensor, texts: Sequence[str], targets: Tensor, negatives: Tensor | None
    ) -> Tensor:
        """Compare each query's target with its negative, or with the batch's other targets (None).

        Takes B normalised texts, and tokens [B, P, W] of the references, targets and negatives.

        Returns:
            [B] margins (s(target) - s(negative)) / temperature in fp32: the log odds that the
            target is preferred (Bradley-Terry; CIRQRS eq. 2, QuRe eq. 2), or chosen among all
            targets (see `in_batch_margins`).
        """
        queries = self.encoder.compose(references, texts)  # [B, D]
        with torch.autocast(targets.device.type, enabled=False):  # on a CPU it cannot join fp16
            candidates = targets if negatives is None else torch.cat([targets, negatives])
        images = self.encoder.gallery(candidates)  # [B or 2B, L, D]
        # Cosines lie close together: in bf16, one margin in twenty would be exactly 0.
        with torch.autocast(targets.device.type, enabled=False):
            if negatives is None:
                logits = all_relevance(queries.float(), images.float(), self.pooling)  # [B, B]
                return in_batch_margins(logits / self.encoder.temperature.float())
            scores = paired_relevance(queries.float().repeat(2, 1), images.float(), self.pooling)
            positive, negative = scores.chunk(2)  # [B] each
            margins: Tensor = (positive - negative) / self.encoder.temperature.float()  # [B]
        return margins


def in_batch_margins(logits: Tensor) -> Tensor:
    """The log odds of each row's own column against all others: [B, B] -> [B].

    Their `bradley_terry_loss` is the cross-entropy of InfoNCE (van den Oord et al., arXiv
    1807.03748, eq. 4). A row alone has no negative: its loss is 0.
    """
    own = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    others = logits.masked_fill(own, torch.finfo(logits.dtype).min)  # finite: gradients stay so
    return logits.diagonal() - others.logsumexp(dim=1)


def bradley_terry_loss(margins: Tensor) -> Tensor:
    """The negative log-likelihood that each target is preferred: [B] -> [B].

    -log sigmoid(margin), which is KL([1, 0] || softmax([s+, s-])) (CIRQRS eq. 3, QuRe eq. 3).
    """
    return F.softplus(-margins)


def paired_relevance(queries: Tensor, images: Tensor, pooling: Pooling) -> Tensor:
    """Score each query against its own image: [B, D] and [B, L, D] -> [B], with gradients."""
    if pooling == "mean":
        return (queries * images.mean(dim=1)).sum(dim=1)  # [B]
    return (images @ queries.unsqueeze(2)).squeeze(2).amax(dim=1)  # [B, L] -> [B]


def all_relevance(queries: Tensor, images: Tensor, pooling: Pooling) -> Tensor:
    """Score every query against every image: [B, D] and [N, L, D] -> [B, N]."""
    if pooling == "mean":
        # The mean of dot products is the dot product with the mean.
        return queries @ images.mean(dim=1).T  # [B, N]
    products = queries @ images.flatten(0, 1).T  # [B, N L]
    return products.view(-1, *images.shape[:2]).amax(dim=2)  # [B, N, L] -> [B, N]


@torch.no_grad()
def relevance(queries: Tensor, gallery: Tensor, pooling: Pooling, *, chunk: int) -> Tensor:
    """Score every query against a large gallery, a chunk of images at a time, without gradients.

    Queries [B, D] on the device that is to compute and a gallery [N, L, D] of any dtype on any
    device give [B, N] float32. Beyond the scores this takes B x chunk x L numbers of memory.
    """
    scores = torch.empty(len(queries), len(gallery), device=queries.device)  # [B, N]
    for start in range(0, len(gallery), chunk):
        images = gallery[start : start + chunk].to(queries)  # [n, L, D]
        scores[:, start : start + chunk] = all_relevance(queries, images, pooling)
    return scores


def set_score(relevances: Iterable[float]) -> float:
    """The score of a retrieved set: the mean of its images' relevance (CIRQRS eq. 7)."""
    return fmean(relevances)


def scores_of_sets(relevances: Tensor) -> Tensor:
    """`set_score` of each row: [S, k] -> [S] float64; NaN if an image's relevance is NaN."""
    return relevances.double().mean(dim=1)


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name; a scorer's others are its encoder's files."""
    return {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }
