"""`hsfiq evaluate --scorer`: a scorer's own ranked lists, or what it thinks of a run's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli.common import existing_folder, room
from hsfiq.cli.images import image_root
from hsfiq.cli.scorer_options import ScorerOptions, images_option
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.model.evaluation.benchmark import Answers, Benchmark
    from hsfiq.model.evaluation.drawn import Split as DrawnSplit
    from hsfiq.model.evaluation.results import Evaluation
    from hsfiq.model.evaluation.scorer_run import Retrieved
    from hsfiq.model.scorer.loading import Loaded

ScorerOption = Annotated[
    Path | None,
    typer.Option(metavar="CKPT", help="Ranks the corpus itself; beside --run: its CIRQRS@k."),
]
ImagesOption = Annotated[Path | None, images_option("in --data's folder")]
OutOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the scorer's lists, as JSONL.", dir_okay=False),
]


@dataclass(frozen=True, slots=True)
class Scoring:
    """A scorer with its options, and the file that its ranked lists are written to."""

    options: ScorerOptions
    out: Path | None


def chosen(
    data: Path,
    runs: Sequence[Path],
    scorer: Path | None,
    images: Path | None,
    weights: Path | None,
    cache: Path | None,
    device: str | None,
    out: Path | None,
) -> Scoring | None:
    """The scorer's options, None where runs are evaluated without one.

    Raises:
        UnreadableInput: neither a run nor a scorer, options that go with neither, no images.
    """
    if scorer is not None:
        options = ScorerOptions(scorer, images or image_root(data), weights, cache, device)
        return with_scorer(runs, Scoring(options, out))
    if not runs:
        raise UnreadableInput(
            "--run", "there is nothing to evaluate", "name ranked lists, or a --scorer"
        )
    named = {"images": images, "weights": weights, "cache": cache, "device": device, "out": out}
    for option, value in named.items():
        if value is not None:
            raise UnreadableInput(
                f"--{option}", "goes with --scorer", "name that too, or leave this out"
            )
    return None


def with_scorer(runs: Sequence[Path], scoring: Scoring) -> Scoring:
    """The options themselves, as far as they go with runs and with what is installed.

    Raises:
        UnreadableInput: lists are to be written, and runs have been given, or the place is taken
            or in no folder.
        HsfiqError: torch is not installed.
    """
    if scoring.out is not None:
        if runs:
            raise UnreadableInput(
                "--out", "is for a scorer's own lists", "leave out --run or --out"
            )
        if scoring.out.exists():
            raise UnreadableInput(
                str(scoring.out), "is there already", "name another file with --out"
            )
        existing_folder(scoring.out.parent)
    room("torch", "model")
    return scoring


def drawn_benchmark(
    split: DrawnSplit, scorer: Path, images: Path | None
) -> tuple[Benchmark, Path, tuple[str, ...]]:
    """A split of the catalogue that a scorer was trained on, its pictures' folder, and notes."""
    room("torch", "model")
    from hsfiq.model.checkpoints import checkpoint as checkpoints
    from hsfiq.model.data.datasets import CATALOGUE, draw_pictures
    from hsfiq.model.evaluation.drawn import catalogue_of, drawn
    from hsfiq.model.recipes.recipe import Recipe

    checkpoint = checkpoints.read(scorer)
    recipe = Recipe.from_json(checkpoint.about.get("recipe"), f"{checkpoint.path}: recipe")
    catalogue = catalogue_of(recipe, checkpoint.about.get("data") or {})
    folder = images or checkpoint.path.parent / CATALOGUE
    draw_pictures(catalogue.candidates(split), folder)
    return drawn(catalogue, split), folder, catalogue.notes


def ranked_by_scorer(benchmark: Benchmark, scoring: Scoring, *, allow_missing: bool) -> Retrieved:
    """The scorer's own lists, written where that is asked for."""
    from hsfiq.cli.training_bar import TrainingBar
    from hsfiq.model.evaluation.scorer_run import answers_from_scorer, write_run
    from hsfiq.model.runtime.distributed import device_of

    paths, device = scoring.options.paths(), device_of(scoring.options.device)
    with TrainingBar(0, typer.echo) as bar:
        found = answers_from_scorer(benchmark, paths, device, bar, allow_missing=allow_missing)
    if scoring.out is not None:
        write_run(scoring.out, found, found.loaded.recipe.name)
    return found


def judged_by_scorer(
    evaluation: Evaluation,
    answers: dict[str, Answers],
    scoring: Scoring,
    *,
    allow_missing: bool,
) -> tuple[Evaluation, dict[str, Any]]:
    """A run's figures with CIRQRS@k beside them, and what is said of the scorer."""
    from hsfiq.cli.training_bar import TrainingBar
    from hsfiq.model.evaluation.cirqrs import images_of_lists, with_cirqrs
    from hsfiq.model.evaluation.loaded_scorer import missing_notes, said_of_missing, set_to_work
    from hsfiq.model.runtime.distributed import device_of

    wanted = images_of_lists(evaluation.benchmark.parts, answers)
    paths, device = scoring.options.paths(), device_of(scoring.options.device)
    with TrainingBar(0, typer.echo) as bar:
        at_work = set_to_work(paths, wanted, device, bar, allow_missing=allow_missing)
    judged = with_cirqrs(evaluation, answers, at_work)
    noted = replace(judged, notes=(*judged.notes, *missing_notes(at_work)))
    return noted, about_scorer(at_work.loaded, said_of_missing(at_work))


def about_scorer(loaded: Loaded, missing: dict[str, Any]) -> dict[str, Any]:
    """Which scorer it was, and which images it lacked."""
    checkpoint = loaded.checkpoint
    said: dict[str, Any] = {
        "scorer": {"checkpoint": str(checkpoint.path), "sha256": checkpoint.sha256}
    }
    return said | ({"missing": missing} if missing else {})
