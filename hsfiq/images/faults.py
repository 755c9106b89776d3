"""The ways in which an image file can be unusable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FaultKind = Literal["missing", "empty", "truncated", "undecodable", "too-large", "one-pixel"]


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    why: str
