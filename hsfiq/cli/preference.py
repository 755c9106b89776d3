"""`hsfiq train preference`: a scorer retrained on the answers of a release."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hsfiq.cli.common import existing_folder, print_result, requires
from hsfiq.cli.scorer_options import ScorerOptions
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.model.data.triplets import TrainingData
    from hsfiq.model.recipes.recipe import Recipe

NAME = "preference"
DRAWN = "drawn"


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `hsfiq train` that a retraining takes."""

    release: Path | None
    out: Path
    data: str | None
    values: Mapping[str, str]
    limit: int | None
    scorer: ScorerOptions


def retrain_scorer(asked: Asked, *, no_cache: bool, as_json: bool) -> None:
    """Retrain, and print the report.

    Raises:
        UnreadableInput: an option is missing, or does not go with the recipe.
    """
    if no_cache:
        raise UnreadableInput("--no-cache", f"does not go with {NAME}", "leave it out")
    release, init = (
        required(asked.release, "--release"),
        required(asked.scorer.checkpoint, "--init"),
    )
    existing_folder(release)
    if asked.data not in (None, DRAWN):
        existing_folder(Path(str(asked.data)))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UnreadableInput("torchrun", f"{NAME} trains in one process", "start hsfiq alone")
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.checkpoints import checkpoint as checkpoints
        from hsfiq.model.preference.retrain import retrain, summary
        from hsfiq.model.preference.settings import Settings
        from hsfiq.model.recipes.recipe import Recipe
        from hsfiq.model.runtime.distributed import device_of

    checkpoint = checkpoints.read(init)
    recipe = Recipe.from_json(checkpoint.about.get("recipe"), f"{checkpoint.path}: recipe")
    settings = Settings.for_encoder(recipe.encoder).with_values(asked.values)
    paths, device = asked.scorer.paths(), device_of(asked.scorer.device)
    triplets = None if asked.data is None else triplets_of(asked, asked.data, recipe)
    with TrainingBar(0, lambda line: typer.echo(line, err=True)) as bar:
        retrained = retrain(release, asked.out, paths, settings, triplets, device, bar)
    result = summary(retrained)
    print_result(result, as_text(result), as_json=as_json)


def required(path: Path | None, option: str) -> Path:
    """The option's path."""
    if path is None:
        raise UnreadableInput(NAME, f"needs {option}", "see `hsfiq train --help`")
    return path


def triplets_of(asked: Asked, data: str, recipe: Recipe) -> TrainingData:
    from hsfiq.model.data.datasets import CATALOGUE, read_training_data

    if data == DRAWN:
        return read_training_data(recipe, None, asked.out / CATALOGUE, asked.limit)
    return read_training_data(recipe, Path(data), asked.scorer.images, asked.limit)


def as_text(result: dict[str, Any]) -> str:
    from hsfiq.model.preference.model_card import summary_lines

    return "\n".join(
        [
            *summary_lines(result),
            f"trained on {result['n_train']:,} answers",
            f"checkpoint {result['checkpoint']}, sha256 {result['sha256'][:12]}",
            f"next: hsfiq score RELEASE --scorer {result['checkpoint']} --name preference",
        ]
    )
