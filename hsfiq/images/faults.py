"""The ways in which an image file can be unusable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FaultKind = Literal[
    "missing",
    "empty",
    "truncated",
    "undecodable",
    "too-large",
    "one-pixel",
    "unreadable",
    "changed",
]
"""`unreadable`: the disk or the memory failed, not the file; it may be readable the next time.
`changed`: the file has other bytes than those whose digest is recorded."""


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    why: str


NOT_REGULAR = Fault("unreadable", "is not a regular file")

CHANGED = Fault("changed", "has other bytes than when its digest was recorded")
