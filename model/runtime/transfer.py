"""Moving batches to a GPU while it computes."""

from __future__ import annotations

import torch
from torch import Tensor


def staged(values: Tensor, device: torch.device) -> Tensor:
    """In page-locked memory if `device` is a GPU: from there a copy need not be waited for."""
    if device.type == "cuda" and values.device.type == "cpu":
        return values.pin_memory()
    return values


def moved(values: Tensor, device: torch.device) -> Tensor:
    """On the device; what is computed there next waits for the copy, the caller does not."""
    return values.to(device, non_blocking=True)
