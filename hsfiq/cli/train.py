"""`hsfiq train`: a scorer or a retrieval system, or a scorer on people's answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli import common
from hsfiq.cli.score import ScorerOptions, images_option
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.model.checkpoints import Checkpoint
    from hsfiq.model.recipes import Recipe
    from hsfiq.model.system_recipes import SystemRecipe

app = common.Commands()


# The options of `hsfiq train`.

DRAWN = "drawn"


@dataclass(frozen=True, kw_only=True)
class TrainOptions(ScorerOptions):
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="The run's folder; repeat the command to resume a stopped run."
        ),
    ]
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|drawn",
            help="FashionIQ's or CIRR's folder, or the catalogue; for preference, the triplets "
            "for measuring recall and for mixing in with --set mix=W.",
        ),
    ] = None
    init: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="DIR", help="A checkpoint to start from.")
    ] = None
    release: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The release that preference trains on.")
    ] = None
    images: Annotated[Path | None, images_option("in --data's folder")] = None
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache", help="Do not cache features; run the image encoder at every step."
        ),
    ] = False
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of the recipe."),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=20, help="Use only about N triplets, for a trial run."),
    ] = None
    as_json: common.JsonOption = False

    @property
    def values(self) -> dict[str, str]:
        """The values of `--set`, by their keys."""
        values = {}
        for setting in self.settings or ():
            key, sign, text = setting.partition("=")
            if not sign:
                raise UnreadableInput(
                    "--set", f"{setting!r} is not KEY=VALUE", "write --set epochs=10"
                )
            values[key] = text
        return values

    @property
    def folder(self) -> Path | None:
        """The folder of `--data`, which must exist; None for the catalogue and without data."""
        return None if self.data in (None, DRAWN) else common.existing_folder(Path(str(self.data)))


# `hsfiq train preference`: a scorer retrained on the answers of a release.

NAME = "preference"


def retrain_scorer(options: TrainOptions) -> None:
    """Retrain, and print the report; refuse missing options, and those of other recipes."""
    if options.no_cache:
        raise UnreadableInput("--no-cache", f"cannot be used with {NAME}", "leave it out")
    release, init = required(options.release, "--release"), required(options.init, "--checkpoint")
    common.existing_folder(release)
    folder = options.folder
    with common.requires("model"):
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
        with TrainingBar(is_visible=distributed.is_first) as bar:
            retrained = retrain(release, options.out, paths, settings, triplets, distributed, bar)
        if distributed.is_first:
            result = summary(retrained)
            common.print_result(result, preference_text(result), as_json=options.as_json)


def required(path: Path | None, option: str) -> Path:
    if path is None:
        raise UnreadableInput(NAME, f"needs {option}", "see `hsfiq train --help`")
    return path


def preference_text(result: dict[str, Any]) -> str:
    from hsfiq.model.preference.report import summary_lines

    return "\n".join(
        [
            *summary_lines(result),
            f"trained on {count_text(result['n_train'], 'answer')}",
            f"checkpoint {result['checkpoint']}, sha256 {result['sha256'][:12]}",
            f"next: hsfiq score RELEASE --checkpoint {result['checkpoint']} --name preference",
        ]
    )


TUNED = (
    "encoder=hf-lora tunes the image encoder: it runs at every step, and the feature cache holds "
    "prepared pixels, not vectors"
)


def known_recipe(name: str) -> str:
    """The recipe's name, checked before all other options."""
    if name != NAME:
        with common.requires("model"):
            from hsfiq.model.recipes import recipe
            from hsfiq.model.system_recipes import SYSTEM_RECIPES
        if name not in SYSTEM_RECIPES:
            recipe(name, SYSTEM_RECIPES)
    return name


@app.command(epilog="Example: hsfiq train cirqrs-fashioniq --data drawn --out runs/drawn")
def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A scorer's (cirqrs-fashioniq, cirqrs-cirr, qure-fashioniq, qure-cirr) or a "
            "retrieval system's (clip4cir-fashioniq, clip4cir-cirr, ...; PAPERS.md has all), or "
            "preference: retrain --checkpoint's scorer on the answers of --release.",
            callback=known_recipe,
        ),
    ],
    *,
    options: TrainOptions,
) -> None:
    """Train a scorer or a retrieval system.

    `torchrun -m hsfiq train ...` shares the training of a scorer among processes.
    """
    if options.cache is not None and options.no_cache:
        raise UnreadableInput("--cache", "cannot be used with --no-cache", "leave one out")
    if recipe == NAME:
        retrain_scorer(options)
    else:
        train_recipe(recipe, options)


def train_recipe(name: str, options: TrainOptions) -> None:
    """Train by one of the papers' recipes."""
    recipe, changed = chosen_recipe(name, required_data(name, options), options.values)
    folder = options.folder
    with common.requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.data import CATALOGUE, missing_lines, read_training_data
        from hsfiq.model.recipes import Recipe
        from hsfiq.model.retrieval.training import train_system
        from hsfiq.model.runtime import join_processes
        from hsfiq.model.scorer.job import TrainingJob
        from hsfiq.model.scorer.run import run
        from hsfiq.model.system_recipes import SystemRecipe

    with join_processes(options.device) as distributed:
        # Only the first process prints.
        echo: Callable[[str], None] = common.note if distributed.is_first else lambda _: None
        if changed is not None:
            echo(changed)
        if isinstance(recipe, Recipe) and recipe.encoder == "hf-lora":
            echo(TUNED)
        pictures = options.images or (options.out / CATALOGUE if folder is None else None)
        with distributed.first_process_first():  # it draws the catalogue's pictures
            triplets = read_training_data(recipe, folder, pictures, options.limit)
        for line in missing_lines(triplets):
            echo(line)
        with TrainingBar(is_visible=distributed.is_first) as bar:
            paths, cached = options.paths(options.init, options.images), not options.no_cache
            job = TrainingJob(triplets, options.out, paths, distributed, bar, cached)
            if isinstance(recipe, SystemRecipe):
                checkpoint = train_system(recipe, job)
            else:
                checkpoint = run(recipe, job)
        if distributed.is_first:
            result = summary(checkpoint)
            common.print_result(result, as_text(result), as_json=options.as_json)


def required_data(recipe: str, options: TrainOptions) -> str:
    """The value of `--data`, which the papers' recipes need; they take no `--release`."""
    if options.release is not None:
        raise UnreadableInput(
            "--release", f"cannot be used with {recipe}", "only the recipe preference accepts it"
        )
    if options.data is None:
        raise UnreadableInput("--data", f"{recipe} needs it", "name a folder, or --data drawn")
    return options.data


def chosen_recipe(
    name: str, data: str, values: Mapping[str, str]
) -> tuple[Recipe | SystemRecipe, str | None]:
    """The recipe with the given values, and a line on the settings that the catalogue changes."""
    from hsfiq.model.recipes import on_drawn, recipe
    from hsfiq.model.system_recipes import SYSTEM_RECIPES, system_on_drawn

    if name in SYSTEM_RECIPES:
        system = SYSTEM_RECIPES[name]
        if data != DRAWN:
            return system.with_values(values), None
        system_chosen = system_on_drawn(system).with_values(values)
        return system_chosen, line_of(system.changes(system_chosen))
    stated = recipe(name, SYSTEM_RECIPES)
    if data != DRAWN:
        return stated.with_values(values), None
    chosen = on_drawn(stated).with_values(values)
    return chosen, line_of(stated.changes(chosen))


def line_of(changes: Mapping[str, tuple[str, str]]) -> str:
    settings = [f"{key}={here}" for key, (_, here) in changes.items() if key != "dataset"]
    return f"on the drawn catalogue, in place of the published values: {' '.join(settings)}"


def summary(checkpoint: Checkpoint) -> dict[str, Any]:
    """The result: the best checkpoint and its epoch's figures."""
    about = checkpoint.about
    best = about["progress"]["epochs"][-1]
    return {
        "checkpoint": str(checkpoint.path),
        "sha256": checkpoint.sha256,
        "recipe": about["recipe"]["name"],
        **({"system": about["recipe"]["system"]} if "system" in about["recipe"] else {}),
        "data": about["data"]["name"],
        "n_train": about["data"]["n_train"],
        "n_val": about["data"]["n_val"],
        **{key: best[key] for key in ("epoch", "loss", "accuracy", "val")},
        "definitions": about["progress"]["definitions"],
    }


def as_text(result: dict[str, Any]) -> str:
    recalls = ", ".join(f"{k} {v:.4f}" for k, v in result["val"].items() if k != "mean")
    return (
        f"best epoch {result['epoch']}: loss {result['loss']:.4f}, training accuracy "
        f"{result['accuracy']:.4f}, {recalls} (n = {result['n_val']:,})\n"
        f"checkpoint {result['checkpoint']}, sha256 {result['sha256'][:12]}\n"
        f"next: {next_command(result)}"
    )


def next_command(result: Mapping[str, Any]) -> str:
    if "system" in result:
        data = DRAWN if result["data"] == DRAWN else "DIR"
        checkpoint = f"--checkpoint {result['checkpoint']}"
        return f"hsfiq retrieve {result['system']} {checkpoint} --data {data} --out RUN.jsonl"
    return f"hsfiq score RELEASE --checkpoint {result['checkpoint']}"
