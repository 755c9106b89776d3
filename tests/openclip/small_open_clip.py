"""A small model of open_clip with random weights, in the layout of its repositories."""

from __future__ import annotations

import json
from pathlib import Path

import open_clip
import torch
from safetensors.torch import save_file

CONFIG = {
    "embed_dim": 12,
    "vision_cfg": {"image_size": 28, "layers": 1, "width": 16, "patch_size": 14, "head_width": 8},
    "text_cfg": {
        "context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1,
    },
}  # fmt: skip


def saved_open_clip(folder: Path) -> Path:
    folder.mkdir()
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(1)
        model = open_clip.CLIP(
            embed_dim=CONFIG["embed_dim"],
            vision_cfg=CONFIG["vision_cfg"],
            text_cfg=CONFIG["text_cfg"],
        )
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    config = {"model_cfg": CONFIG, "preprocess_cfg": {"interpolation": "bicubic"}}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    return folder
