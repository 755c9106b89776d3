"""What is known of a retriever that was not trained here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hsfiq.model.recipes.values import Pooling


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """In place of a recipe; `name` is its specification."""

    name: str
    pooling: Pooling = "max"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
