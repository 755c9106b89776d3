"""What determines a scorer's scores, besides the images and what is scored."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from hsfiq import __version__
from hsfiq.model.checkpoints.lineage import trained_on
from hsfiq.model.features.cache import TOKENS_DTYPE
from hsfiq.model.features.layout import dtype_name
from hsfiq.model.recipes.zero_shot import ZeroShot
from hsfiq.model.retrieval.loading import LoadedRetriever

VERSIONS = ("hsfiq", "torch")
"""Keys for the versions of programs."""
PRECISION = "precision"
"""Key for the dtypes of the computation and of the stored image tokens."""
TRAINED_ON = "trained_on"
"""Key for the releases that the scorer was retrained on."""
LATER_KEYS = (PRECISION, TRAINED_ON)
"""Keys that earlier versions did not record."""


def scorer_provenance(loaded: LoadedRetriever) -> dict[str, Any]:
    about = loaded.checkpoint.about
    releases = trained_on(loaded.checkpoint)
    is_zero_shot = isinstance(loaded.recipe, ZeroShot)
    return {
        "score": "mean over the set's images of the pooled cosine (CIRQRS eq. 7)",
        "checkpoint_sha256": loaded.checkpoint.sha256,
        "recipe": loaded.recipe.to_json(),
        "data": about.get("data"),  # unknown of an imported system
        **({TRAINED_ON: releases} if releases else {}),
        "encoder": about["encoder"],
        "preprocessing": asdict(loaded.retriever.preprocessing),
        "text": "as the encoder reads it" if is_zero_shot else "as LAVIS' blip_caption",
        PRECISION: {"vectors": dtype_name(torch.float32), "tokens": dtype_name(TOKENS_DTYPE)},
        "hsfiq": __version__,
        "torch": torch.__version__,
    }
