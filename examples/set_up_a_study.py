"""Set up a study on your own systems' ranked lists, from files to invitations.

The dataset here is a toy in FashionIQ's layout: 12 shirts, 6 triplets, no image files. Replace it
by real captions, splits and images, and run `hsfiq serve` at the end.
"""

from __future__ import annotations

import json
from pathlib import Path

from hsfiq.cli import run

SHIRTS = [f"shirt-{number}" for number in range(12)]

STUDY = """
[study]
name = "shirts"
title = "Which set matches the request better?"

[design]
questions_per_form = 3

[queries]
dataset = "fashioniq"

[recruitment]
mode = "invitation"
"""


def write_json(path: str, value: object) -> None:
    """Write a JSON file and the folders it needs."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(value), encoding="utf-8")


def main() -> None:
    """Write the input files, import them, create the study and invite participants."""
    triplets = [
        {
            "candidate": SHIRTS[n],
            "target": SHIRTS[n + 1],
            "captions": ["is red", "has long sleeves"],
        }
        for n in range(6)
    ]
    write_json("fashion-iq/captions/cap.shirt.val.json", triplets)
    write_json("fashion-iq/image_splits/split.shirt.val.json", SHIRTS)
    for system, offset in (("first", 0), ("second", 5)):
        ranked_lists = {f"shirt.val.{n}": SHIRTS[offset + 1 : offset + 7] for n in range(6)}
        write_json(f"{system}.json", ranked_lists)
    Path("study.toml").write_text(STUDY, encoding="utf-8")

    run(["import", "fashioniq", "fashion-iq"])
    for system in ("first", "second"):
        run(["import", "runs", f"{system}.json", "--system", system])
    run(["study", "create", "study.toml"])
    run(["study", "invite", "--count", "1", "--url", "http://127.0.0.1:7860"])
    run(["study", "status"])


if __name__ == "__main__":
    main()
