"""The settings that a feature cache's tokens depend on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import torch

from hsfiq.errors import HsfiqError
from hsfiq.model.encoders.preprocessing import Preprocessing
from hsfiq.model.encoders.protocol import FrozenEncoder

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
"""The dtypes that tokens may be stored in."""

_VERSION = 2
"""Increase it when the same settings give other pixels or other files."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of P x W numbers and the settings that they were computed with."""

    encoder: str
    """Its name, for people; `frozen_id` identifies its weights."""
    frozen_id: str
    preprocessing: Preprocessing
    dtype: torch.dtype
    shape: tuple[int, int]  # (P, W)

    @classmethod
    def of(cls, encoder: FrozenEncoder, dtype: torch.dtype) -> Layout:
        """The layout for an encoder; HsfiqError if tokens cannot be stored in this dtype."""
        if dtype not in DTYPES.values():
            raise HsfiqError(f"tokens are stored as one of {', '.join(DTYPES)}, not as {dtype}")
        frozen_id, shape = encoder.frozen_id(), encoder.tokens_shape
        return cls(encoder.name, frozen_id, encoder.preprocessing, dtype, shape)

    @property
    def row_bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def key(self) -> str:
        """The name of the folder, different for different settings."""
        settings = {name: value for name, value in self.about().items() if name != "encoder"}
        text = json.dumps(settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def about(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "encoder": self.encoder,
            "frozen_id": self.frozen_id,
            "preprocessing": asdict(self.preprocessing),
            "dtype": dtype_name(self.dtype),
            "tokens_shape": list(self.shape),
        }


def dtype_name(dtype: torch.dtype) -> str:
    """`float16` of `torch.float16`."""
    return str(dtype).removeprefix("torch.")
