"""`hsfiq train preference`: a scorer retrained on the answers of a release."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import typer

from hsfiq.cli.common import existing_folder, print_result, requires
from hsfiq.cli.train_options import TrainOptions
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

NAME = "preference"


def retrain_scorer(options: TrainOptions) -> None:
    """Retrain, and print the report; refuse missing options, and those of other recipes."""
    if options.no_cache:
        raise UnreadableInput("--no-cache", f"cannot be used with {NAME}", "leave it out")
    release, init = required(options.release, "--release"), required(options.init, "--init")
    existing_folder(release)
    folder = options.folder
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model import checkpoints
        from hsfiq.model.data import CATALOGUE, read_training_data
        from hsfiq.model.preference.retrain import retrain, summary
        from hsfiq.model.preference.training import Settings
        from hsfiq.model.recipes import Recipe
        from hsfiq.model.runtime import join_processes

    checkpoint = checkpoints.read(init)
    recipe = Recipe.from_json(checkpoint.about.get("recipe"), f"{checkpoint.path}: recipe")
    settings = Settings.for_encoder(recipe.encoder).with_values(options.values)
    paths, triplets = options.paths(init, options.images), None
    with join_processes(options.device) as distributed:
        if options.data is not None:
            pictures = options.out / CATALOGUE if folder is None else options.images
            with distributed.first_process_first():  # it draws the catalogue's pictures
                triplets = read_training_data(recipe, folder, pictures, options.limit)
        # Only the first process prints.
        echo: Callable[[str], None] = (
            partial(typer.echo, err=True) if distributed.is_first else lambda _: None
        )
        with TrainingBar(echo, is_visible=distributed.is_first) as bar:
            retrained = retrain(release, options.out, paths, settings, triplets, distributed, bar)
        if distributed.is_first:
            result = summary(retrained)
            print_result(result, as_text(result), as_json=options.as_json)


def required(path: Path | None, option: str) -> Path:
    if path is None:
        raise UnreadableInput(NAME, f"needs {option}", "see `hsfiq train --help`")
    return path


def as_text(result: dict[str, Any]) -> str:
    from hsfiq.model.preference.report import summary_lines

    return "\n".join(
        [
            *summary_lines(result),
            f"trained on {count_text(result['n_train'], 'answer')}",
            f"checkpoint {result['checkpoint']}, sha256 {result['sha256'][:12]}",
            f"next: hsfiq score RELEASE --scorer {result['checkpoint']} --name preference",
        ]
    )
