"""What the libraries of image-text models have in common: a vector of an image, and of a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from hsfiq.model.checkpoints.checkpoint import sha256_of
from hsfiq.model.encoders.preprocessing import Preprocessing


class Towers(nn.Module, ABC):
    """An image-text model of a library, loaded from a folder.

    Attributes:
        files: patterns of the files that the vectors depend on.
        folder: where the model comes from.
        preprocessing: the model's own.
    """

    files: ClassVar[tuple[str, ...]]

    def __init__(self, folder: Path, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.folder, self.preprocessing = folder, preprocessing
        self.sha256 = digest_of(folder, self.files)

    @abstractmethod
    def image_vectors(self, pixels: Tensor) -> Tensor:
        """[B, 3, size, size] -> [B, D] float32, not normalised."""

    @abstractmethod
    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        """B texts -> [B, D] float32, not normalised; a text that is too long loses its end."""

    @abstractmethod
    def image_modules(self) -> Sequence[nn.Module]:
        """The modules that `image_vectors` alone uses; none where the library does not tell."""

    @torch.no_grad()
    def width(self) -> int:
        """D."""
        return self.image_vectors(self.blank()).shape[1]

    def blank(self) -> Tensor:
        """The pixels of one image: [1, 3, size, size]."""
        return torch.zeros(1, 3, self.preprocessing.size, self.preprocessing.size)


def digest_of(folder: Path, patterns: Sequence[str]) -> str:
    """The sha256 of a folder's files of these patterns."""
    files = sorted(path for each in patterns for path in folder.glob(each) if path.is_file())
    digests = (f"{path.name} {sha256_of(path)}" for path in files)
    return sha256("\n".join(digests).encode()).hexdigest()
