"""Write the five retrieval systems' sets for the study that `hsfiq demo` serves.

`python -m benchmarks.demo_lists` trains the systems in miniature (once: they stay in runs/systems),
ranks the served study's catalogue for its queries, and writes `hsfiq/demo/system_lists.json`. To
change a recipe of the drawn catalogue is to run it again; a test compares the recipes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import hsfiq.demo
from benchmarks.trained_systems import FOLDER, SYSTEMS, TrainedSystems
from hsfiq.atomic_files import write_whole
from hsfiq.cli.demo import lists_of
from hsfiq.demo.study import (
    FILE,
    SERVED_PARTICIPANTS,
    DrawnQuery,
    draw_catalogue,
    draw_queries,
    queries_per_category,
    queries_sha256,
    served_design,
)
from hsfiq.drawn import Garment
from hsfiq.model import checkpoints
from hsfiq.model.data import draw_pictures
from hsfiq.model.scorer.loading import ScorerPaths

SEED, K = 0, 5
"""The served study's seed, and the size of its sets."""


def main() -> None:
    torch.set_num_threads(1)
    content = shipped(TrainedSystems(FOLDER, 0, None, {}))
    path = Path(hsfiq.demo.__path__[0]) / FILE
    write_whole(path, as_json(content).encode())
    print(f"{path}: sets of {len(content['systems'])} systems for {len(content['sets'])} queries")


def served_queries() -> tuple[tuple[Garment, ...], list[DrawnQuery]]:
    """The garments and the queries of the study that `hsfiq demo` serves."""
    per_category = queries_per_category(served_design(SEED), SERVED_PARTICIPANTS)
    garments = draw_catalogue(SEED, per_category)
    return garments, draw_queries(SEED, garments, per_category)


def shipped(trained_systems: TrainedSystems) -> dict[str, Any]:
    """The file's content; the systems are trained if they are not yet."""
    garments, queries = served_queries()
    draw_pictures(garments, trained_systems.pictures)
    runs = {name: trained_systems.trained(name).run for name in SYSTEMS}
    paths = [
        ScorerPaths(run, trained_systems.pictures, cache=trained_systems.cache)
        for run in runs.values()
    ]
    sets: dict[str, list[Sequence[str]]] = defaultdict(list)
    for ranked in lists_of(paths, garments, queries):
        sets[ranked.query_id].append(ranked.images[:K])
    return {
        "written_by": "python -m benchmarks.demo_lists",
        "seed": SEED,
        "participants": SERVED_PARTICIPANTS,
        "queries_sha256": queries_sha256(garments, queries),
        "systems": [
            {
                "recipe": trained_systems.recipe(name).to_json(),
                "checkpoint_sha256": checkpoints.read(run).sha256,
            }
            for name, run in runs.items()
        ],
        "sets": {query.query_id: sets[query.query_id] for query in queries},
    }


def as_json(content: dict[str, Any]) -> str:
    """A line for each system and each query."""
    head = {key: value for key, value in content.items() if key not in ("systems", "sets")}
    systems = ",\n".join(json.dumps(system) for system in content["systems"])
    sets = ",\n".join(
        f"{json.dumps(key)}: {json.dumps(each)}" for key, each in content["sets"].items()
    )
    return f'{json.dumps(head)[:-1]},\n"systems": [\n{systems}\n],\n"sets": {{\n{sets}\n}}}}\n'


if __name__ == "__main__":
    main()
