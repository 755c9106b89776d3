"""What a feature cache holds: the settings that its tokens depend on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import torch

from hsfiq.errors import HsfiqError
from hsfiq.model.encoders.preprocessing import Preprocessing
from hsfiq.model.encoders.protocol import Encoder

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
"""What tokens are stored in, by the names of the options."""

_VERSION = 1
"""Raised whenever the same settings come to mean other pixels or other files."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of P x W numbers, and whose numbers they are."""

    encoder: str
    """Its name, for people: its weights are in `frozen_id`."""
    frozen_id: str
    preprocessing: Preprocessing
    dtype: torch.dtype
    shape: tuple[int, int]
    """(P, W)."""

    @classmethod
    def of(cls, encoder: Encoder, dtype: torch.dtype) -> Layout:
        """Read the settings from an encoder.

        Raises:
            HsfiqError: tokens are not stored in this dtype.
        """
        if dtype not in DTYPES.values():
            raise HsfiqError(f"tokens are stored as one of {', '.join(DTYPES)}, not as {dtype}")
        frozen_id, shape = encoder.frozen_id(), encoder.tokens_shape
        return cls(encoder.name, frozen_id, encoder.preprocessing, dtype, shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one image's tokens."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def key(self) -> str:
        """The name of the folder: other settings, other folder."""
        settings = {name: value for name, value in self.about().items() if name != "encoder"}
        text = json.dumps(settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def about(self) -> dict[str, Any]:
        """The settings as JSON takes them."""
        return {
            "version": _VERSION,
            "encoder": self.encoder,
            "frozen_id": self.frozen_id,
            "preprocessing": asdict(self.preprocessing),
            "dtype": str(self.dtype).removeprefix("torch."),
            "tokens_shape": list(self.shape),
        }
