"""The scorer: how relevant an image is to a query, and the loss that teaches it.

s(reference, text, image) is the dot product of the composed query with the image's token vectors,
pooled (QuRe eq. 1; `model.scorer.relevance`). Training divides it by the learned temperature; a
set's score is the mean over its images, undivided (CIRQRS eq. 7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- as everybody calls it

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.protocol import Encoder, Pooling
from hsfiq.model.scorer.relevance import paired_relevance


class Scorer(nn.Module):
    """An encoder and how its token vectors are pooled."""

    def __init__(self, encoder: Encoder, pooling: Pooling) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling: Pooling = pooling

    def forward(
        self, references: Tensor, texts: Sequence[str], targets: Tensor, negatives: Tensor
    ) -> Tensor:
        """Compare each query's target with its negative.

        Args:
            references: [B, P, W] tokens, as `targets` and `negatives` are.
            texts: B of them, normalised.
            targets: of the images to be preferred.
            negatives: of the others.

        Returns:
            [B] margins (s(target) - s(negative)) / temperature: the log odds that the target is
            preferred (Bradley-Terry; CIRQRS eq. 2, QuRe eq. 2).
        """
        queries = self.encoder.query(references, texts)  # [B, D]
        with torch.autocast(targets.device.type, enabled=False):  # on a CPU it joins no fp16
            candidates = torch.cat([targets, negatives])  # [2B, P, W]
        images = self.encoder.gallery(candidates)  # [2B, L, D]
        above, below = paired_relevance(queries.repeat(2, 1), images, self.pooling).chunk(2)  # [B]
        margins: Tensor = (above - below) / self.encoder.temperature  # [B]
        return margins


def bradley_terry_loss(margins: Tensor) -> Tensor:
    """The negative log-likelihood that each target is preferred: [B] -> [B].

    -log sigmoid(margin), which is KL([1, 0] || softmax([s+, s-])) (CIRQRS eq. 3, QuRe eq. 3).
    """
    return F.softplus(-margins)


def trained_parameters(scorer: Scorer) -> dict[str, nn.Parameter]:
    """What training changes, by name; the rest is the encoder's own and found in its files."""
    return {name: it for name, it in scorer.named_parameters() if it.requires_grad}


def put(tensors: Mapping[str, Tensor], parameters: Mapping[str, nn.Parameter], where: str) -> None:
    """Give parameters the values that a checkpoint has for them.

    Args:
        tensors: by parameter.
        parameters: of the scorer.
        where: the tensors come from, for messages.

    Raises:
        UnreadableInput: they are another encoder's; nothing was changed.
    """
    odd = sorted(set(tensors) ^ set(parameters)) or sorted(
        name for name, it in parameters.items() if tensors[name].shape != it.shape
    )
    if odd:
        raise UnreadableInput(
            where,
            f"does not fit the encoder: {len(odd)} of its tensors differ, first {odd[0]}",
            "was it made by another version, or with another encoder?",
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
