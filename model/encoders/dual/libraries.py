"""The libraries that image-text models are loaded with, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from hsfiq.model.encoders.dual import open_clip_towers, transformers_towers
from hsfiq.model.encoders.dual.towers import Towers

LIBRARIES: Final[dict[str, Callable[[Path, str], Towers]]] = {
    "hf": transformers_towers.load,
    "openclip": open_clip_towers.load,
}


def load_towers(library: str, folder: Path) -> Towers:
    """The model in a folder, in fp32; UnreadableInput if it holds none of this library."""
    return LIBRARIES[library](folder, f"{library}:{folder}")
