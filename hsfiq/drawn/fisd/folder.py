"""The drawn aspects as a folder that `hsfiq.readers.fisd` reads. Needs Pillow."""

from __future__ import annotations

import json
from pathlib import Path

from hsfiq.atomic_files import draft_folder, explained_write_errors, require_new
from hsfiq.drawn.fisd.pictures import write_scenes
from hsfiq.drawn.fisd.triplets import SceneTriplet, draw_aspects
from hsfiq.readers.fisd import ABOUT_DRAWN

IMAGES = "images"


def write_drawn_fisd(folder: Path, seed: int, n: int) -> int:
    """Draw n triplets of each aspect into a new folder; returns the number of pictures.

    Raises:
        UnreadableInput: the folder exists, or cannot be written.
    """
    require_new(folder)
    aspects = draw_aspects(seed, n)
    scenes = {scene for triplets in aspects.values() for each in triplets for scene in each.scenes}
    with explained_write_errors(folder), draft_folder(folder) as draft:
        (draft / IMAGES).mkdir()
        write_scenes(sorted(scenes), draft / IMAGES)
        for aspect, triplets in aspects.items():
            lines = "".join(json.dumps(row_of(triplet)) + "\n" for triplet in triplets)
            (draft / f"{aspect}.jsonl").write_text(lines, encoding="utf-8")
        about = {"name": "fisd-drawn", "seed": seed, "triplets": n, "images": len(scenes)}
        (draft / ABOUT_DRAWN).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return len(scenes)


def row_of(triplet: SceneTriplet) -> dict[str, str]:
    """`misread` is the part of the query that the hard negative does not fit."""
    return {
        "id": triplet.triplet_id,
        "aspect": triplet.aspect,
        "reference": triplet.reference.image_id,
        "target": triplet.target.image_id,
        "hard_negative": triplet.hard_negative.image_id,
        "misread": triplet.misread,
        "caption": triplet.caption,
    }
