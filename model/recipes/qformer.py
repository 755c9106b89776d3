"""What the recipes of SPRC and MAPNet have in common: SPRC's training of BLIP-2's Q-Former."""

from __future__ import annotations

from typing import Any, Final

QFORMER_TRAINING: Final[dict[str, Any]] = {
    "size": 224,
    "pad_ratio": 1.25,
    "lr": (2e-5,),
    "schedule": ("one-cycle",),
    "schedule_epochs": (None,),
    "weight_decay": (0.05,),
    "warmup": 0.05,
    "start_divisor": 100.0,
    "betas": (0.9, 0.98),
    "eps": 1e-7,
    "temperature": 0.07,
    "seed": 0,
    "val_recall": (10, 50),
}
"""On FashionIQ."""

QFORMER_CIRR: Final[dict[str, Any]] = {
    "dataset": "cirr",
    "lr": (1e-5,),
    "warmup": 0.02,
    "start_divisor": 25.0,
    "val_recall": (5,),
}
"""What differs on CIRR."""
