"""Random weights for a backbone without published ones."""

from __future__ import annotations

import torch
from torch import nn

EMBEDDING_STD = 0.02
"""For tables of words and positions, as BERT and CLIP draw them."""

LAST_NORM = 0.3
"""The scale of a residual branch of a ResNet. Its batch norms keep their statistics, so at scale 1
each of RN50x4's 26 blocks would double the variance."""


def draw_weights(module: nn.Module, generator: torch.Generator) -> None:
    """Draw every weight so that the size of the activations changes little from layer to layer.

    Matrices and convolutions: variance 1 / inputs of a unit (twice that for convolutions, whose
    outputs ReLU halves); norms: 1; biases: 0; the statistics of batch norms: 0 and 1.
    """
    for name, parameter in module.named_parameters():
        if "embedding" in name:
            nn.init.normal_(parameter, std=EMBEDDING_STD, generator=generator)
        elif parameter.dim() == 4:
            std = (2 / parameter[0].numel()) ** 0.5
            nn.init.normal_(parameter, std=std, generator=generator)
        elif parameter.dim() > 1:
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            nn.init.constant_(parameter, LAST_NORM if name.endswith(".bn3.weight") else 1)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.reset_running_stats()
