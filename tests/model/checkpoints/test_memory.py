"""Writing a checkpoint needs no memory beyond that of its tensors."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import torch

from hsfiq.model.checkpoints import save


def test_tensors_are_written_without_a_copy_in_memory(tmp_path: Path) -> None:
    tensors = {"a": torch.ones(1_000_000), "b": torch.ones(1_000_000)}
    tracemalloc.start()
    try:
        save(tmp_path, "last", {}, {"scorer": tensors})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000  # bytes, of 8,000,000
