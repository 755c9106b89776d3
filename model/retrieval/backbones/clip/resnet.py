"""CLIP's ResNet image encoder (arXiv 2103.00020, section 2.4), with OpenAI's parameter names.

It differs from ResNet in three points: three convolutions at the start instead of one, average
pooling before each convolution that halves the resolution, and attention pooling at the end.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

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
