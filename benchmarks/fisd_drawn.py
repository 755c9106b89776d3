"""FISD's six aspects on drawn garments: every retrieval system, the scorers, and what they measure.

The systems and scorers are trained in miniature on the drawn catalogue, which has neither badges
nor backgrounds, so that `cardinality` and `background` ask for what they have never seen, as FISD
asks systems that were trained on CIRR. Three rows need no training and read the garments'
attributes: `exact reading` compares with the garment that the caption asks for; `text alone` with
the values that it mentions; `reference alone` with the reference. Equal ones are ordered at random.

Trained systems are kept in runs/systems, the pictures in runs/fisd-drawn. Without --full, there are
20 triplets of each aspect instead of 200, and systems are hardly trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch

from benchmarks.trained_systems import CPU, FOLDER, SYSTEMS, TrainedSystems
from hsfiq.drawn import generator
from hsfiq.drawn.fisd import (
    IMAGES,
    SCENE_ATTRIBUTES,
    Scene,
    SceneTriplet,
    draw_aspects,
    read_caption,
    write_drawn_fisd,
)
from hsfiq.model.evaluation import benchmarks
from hsfiq.model.evaluation.benchmarks import Benchmark, SystemLists
from hsfiq.model.evaluation.fisd import (
    CANDIDATES,
    FIGURES,
    TITLES,
    Figures,
    column,
    fisd_figures,
    size_of,
)
from hsfiq.model.evaluation.rankings import rank_with_scorer
from hsfiq.model.recipes import on_drawn, recipe
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.scorer.run import run as train_scorer

PICTURES = Path("runs/fisd-drawn")
SCORERS = ("cirqrs", "qure")
NOTE = "drawn garments and templates: nothing here says how a system does on photographs"


@dataclass(frozen=True)
class Plan:
    """The sizes of a run.

    Attributes:
        triplets: of each aspect.
        limit: about how many training triplets; None for all.
        changes: values of each training stage that differ from the recipes'.
        scorers: which are trained, for so many epochs or, if None, their recipe's.
    """

    triplets: int
    limit: int | None
    changes: Mapping[str, str] = field(default_factory=dict)
    scorers: tuple[str, ...] = SCORERS
    scorer_epochs: int | None = None


QUICK = Plan(triplets=20, limit=300, changes={"epochs": "2"}, scorers=("cirqrs",), scorer_epochs=5)
FULL = Plan(triplets=200, limit=None)


def run(seed: int, full: bool) -> dict[str, Any]:
    torch.set_num_threads(1)
    result = measure(seed, FULL if full else QUICK, FOLDER, PICTURES)
    if not full:
        result["short"] = "systems hardly trained, 20 triplets an aspect; --full is the benchmark"
    return result


def measure(seed: int, plan: Plan, systems: Path, pictures: Path) -> dict[str, Any]:
    folder = pictures / f"seed-{seed}-{plan.triplets}"
    if not folder.exists():
        write_drawn_fisd(folder, seed, plan.triplets)
    benchmark = benchmarks.fisd(folder)
    aspects = draw_aspects(seed, plan.triplets)
    rows = {
        name: fisd_figures(benchmark, read_lists(benchmark, aspects, likeness, seed), seed)
        for name, likeness in LIKENESSES.items()
    }
    trained = TrainedSystems(systems, seed, plan.limit, plan.changes)
    for name, checkpoint in checkpoints(trained, plan):
        paths = ScorerPaths(checkpoint, folder / IMAGES, cache=trained.cache)
        depth = max(map(size_of, benchmark.parts))
        ranked = rank_with_scorer(benchmark, paths, CPU, Callback(), depth=depth)
        rows[name] = fisd_figures(benchmark, ranked.answers, seed)
    return {
        "name": "fisd-drawn",
        "note": NOTE,
        "triplets": plan.triplets,
        "cases": [case(name, figures) for name, figures in rows.items()],
    }


def checkpoints(trained: TrainedSystems, plan: Plan) -> Iterator[tuple[str, Path]]:
    for system in SYSTEMS:
        yield system, trained.trained(system).run
    for name in plan.scorers:
        settings = on_drawn(recipe(f"{name}-fashioniq"))
        values = {"seed": str(settings.seed + trained.seed)}
        if plan.scorer_epochs is not None:
            values["epochs"] = str(plan.scorer_epochs)
        out = trained.place / f"{name}-{plan.scorer_epochs or 'all'}"
        paths = ScorerPaths(cache=trained.cache)
        job = TrainingJob(trained.data, out, paths, Distributed(CPU), Callback())
        train_scorer(settings.with_values(values), job)
        yield name, out


# ------------------------------------------------------------------------------ exact readers

Likeness = Callable[[SceneTriplet, Scene], int]
"""How many attributes of a scene are right."""


def as_read(triplet: SceneTriplet, scene: Scene) -> int:
    return n_equal(scene, read_caption(triplet.caption, triplet.reference))


def as_said(triplet: SceneTriplet, scene: Scene) -> int:
    wanted = read_caption(triplet.caption, triplet.reference)
    return sum(
        scene.value(name) == wanted.value(name) != triplet.reference.value(name)
        for name in SCENE_ATTRIBUTES
    )


def as_reference(triplet: SceneTriplet, scene: Scene) -> int:
    return n_equal(scene, triplet.reference)


def n_equal(scene: Scene, other: Scene) -> int:
    same = sum(scene.value(name) == other.value(name) for name in SCENE_ATTRIBUTES)
    return same + (scene.garment.category == other.garment.category)


LIKENESSES: dict[str, Likeness] = {
    "exact reading": as_read,
    "text alone": as_said,
    "reference alone": as_reference,
}


def read_lists(
    benchmark: Benchmark,
    aspects: Mapping[Any, tuple[SceneTriplet, ...]],
    likeness: Likeness,
    seed: int,
) -> dict[str, SystemLists]:
    """Lists by falling likeness, equal scenes at random."""
    rng = generator(seed, "fisd", "ties")
    return {
        part.name: SystemLists(
            {
                query.query_id: ordered(rng, triplet, aspects[part.name], likeness)
                for query, triplet in zip(part.queries, aspects[part.name], strict=True)
            },
            {},
        )
        for part in benchmark.parts
    }


def ordered(
    rng: Random, triplet: SceneTriplet, corpus: tuple[SceneTriplet, ...], likeness: Likeness
) -> tuple[str, ...]:
    scenes = [scene for each in corpus for scene in each.scenes]
    keys = {scene: (-likeness(triplet, scene), rng.random()) for scene in scenes}
    return tuple(scene.image_id for scene in sorted(scenes, key=keys.__getitem__))


# ------------------------------------------------------------------------------ results


def case(name: str, figures: Figures) -> dict[str, Any]:
    return {
        "system": name,
        **{
            candidates: {
                figure: {
                    part: shares[column(candidates, figure)].to_json()
                    for part, shares in figures.items()
                }
                for figure in FIGURES[candidates]
            }
            for candidates in CANDIDATES
        },
    }


TABLES = (
    ("recall@1", 0),
    ("hard_negative_above_target", 0),
    ("reference_first", 0),
    ("recall@1", 1),
)
"""Figures of the printed tables, and the place of their candidates in `CANDIDATES`."""


def markdown(result: Mapping[str, Any]) -> str:
    """The aspect tables in per cent, the mean with its interval."""
    lines = [f"FISD's aspects on drawn garments, {result['triplets']} triplets each. {NOTE}."]
    for figure, place in TABLES:
        candidates = CANDIDATES[place]
        parts = list(result["cases"][0][candidates][figure])
        lines += ["", f"{figure}, {TITLES[candidates]}:", ""]
        lines.append(f"| system | {' | '.join(parts)} |")
        lines.append("|---" * (len(parts) + 1) + "|")
        for row in result["cases"]:
            cells = [
                percent(share, with_ci=part == "mean")
                for part, share in row[candidates][figure].items()
            ]
            lines.append(f"| {row['system']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def percent(share: Mapping[str, Any], *, with_ci: bool) -> str:
    if share["value"] is None:
        return "-"
    text = f"{100 * share['value']:.1f}"
    if with_ci and share["ci"] and None not in share["ci"]:
        text += " [{:.1f}, {:.1f}]".format(*(100 * end for end in share["ci"]))
    return text
