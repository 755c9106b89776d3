"""The ways in which an image file can be unusable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FaultKind = Literal[
    "missing", "empty", "truncated", "undecodable", "too-large", "one-pixel", "unreadable"
]
"""`unreadable`: the disk or the memory failed, not the file; it may be readable the next time."""


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    why: str
