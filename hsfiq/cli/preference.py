"""`hsfiq train preference`: a scorer retrained on the answers of a release."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from hsfiq.cli.common import existing_folder, print_result, requires
from hsfiq.cli.train_options import TrainOptions
from hsfiq.errors import UnreadableInput

NAME = "preference"


def retrain_scorer(options: TrainOptions) -> None:
    """Retrain, and print the report; refuse missing options, and those of other recipes."""
    if options.no_cache:
        raise UnreadableInput("--no-cache", f"cannot be used with {NAME}", "leave it out")
    release, init = required(options.release, "--release"), required(options.init, "--init")
    existing_folder(release)
    folder = options.folder
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UnreadableInput("torchrun", f"{NAME} trains in one process", "start hsfiq alone")
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.checkpoints import checkpoint as checkpoints
        from hsfiq.model.data.datasets import CATALOGUE, read_training_data
        from hsfiq.model.preference.retrain import retrain, summary
        from hsfiq.model.preference.settings import Settings
        from hsfiq.model.recipes.recipe import Recipe
        from hsfiq.model.runtime.distributed import device_of

    checkpoint = checkpoints.read(init)
    recipe = Recipe.from_json(checkpoint.about.get("recipe"), f"{checkpoint.path}: recipe")
    settings = Settings.for_encoder(recipe.encoder).with_values(options.values)
    paths, device = options.paths(init, options.images), device_of(options.device)
    triplets = None
    if options.data is not None:
        pictures = options.out / CATALOGUE if folder is None else options.images
        triplets = read_training_data(recipe, folder, pictures, options.limit)
    with TrainingBar(lambda line: typer.echo(line, err=True)) as bar:
        retrained = retrain(release, options.out, paths, settings, triplets, device, bar)
    result = summary(retrained)
    print_result(result, as_text(result), as_json=options.as_json)


def required(path: Path | None, option: str) -> Path:
    if path is None:
        raise UnreadableInput(NAME, f"needs {option}", "see `hsfiq train --help`")
    return path


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
