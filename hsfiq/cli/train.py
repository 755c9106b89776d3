"""`hsfiq train`: the papers' training recipes, and retraining on answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli import preference
from hsfiq.cli.common import print_result, requires
from hsfiq.cli.option_groups import with_option_groups
from hsfiq.cli.train_options import DRAWN, TrainOptions
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.model.checkpoints import Checkpoint
    from hsfiq.model.recipes import Recipe
    from hsfiq.model.system_recipes import SystemRecipe


TUNED = (
    "encoder=hf-lora tunes the image encoder: it runs at every step, and the feature cache holds "
    "prepared pixels, not vectors"
)


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq train cirqrs-fashioniq --data drawn --out runs/drawn")(
        with_option_groups(train)
    )


def known_recipe(name: str) -> str:
    """The recipe's name, checked before anything else that may be missing."""
    if name != preference.NAME:
        with requires("model"):
            from hsfiq.model.recipes import recipe
            from hsfiq.model.system_recipes import SYSTEM_RECIPES
        if name not in SYSTEM_RECIPES:
            recipe(name, SYSTEM_RECIPES)
    return name


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A scorer's (cirqrs-fashioniq, cirqrs-cirr, qure-fashioniq, qure-cirr) or a "
            "retrieval system's (clip4cir-fashioniq, clip4cir-cirr, ...; PAPERS.md has all), or "
            "preference: retrain --init's scorer on the answers of --release.",
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
    if recipe == preference.NAME:
        preference.retrain_scorer(options)
    else:
        train_recipe(recipe, options)


def train_recipe(name: str, options: TrainOptions) -> None:
    """Train by one of the papers' recipes."""
    recipe, changed = chosen_recipe(name, required_data(name, options), options.values)
    folder = options.folder
    with requires("model"):
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
        echo: Callable[[str], None] = (
            partial(typer.echo, err=True) if distributed.is_first else lambda _: None
        )
        if changed is not None:
            echo(changed)
        if isinstance(recipe, Recipe) and recipe.encoder == "hf-lora":
            echo(TUNED)
        pictures = options.images or (options.out / CATALOGUE if folder is None else None)
        with distributed.first_process_first():  # it draws the catalogue's pictures
            triplets = read_training_data(recipe, folder, pictures, options.limit)
        for line in missing_lines(triplets):
            echo(line)
        with TrainingBar(echo, is_visible=distributed.is_first) as bar:
            paths, cached = options.paths(options.init, options.images), not options.no_cache
            job = TrainingJob(triplets, options.out, paths, distributed, bar, cached)
            if isinstance(recipe, SystemRecipe):
                checkpoint = train_system(recipe, job)
            else:
                checkpoint = run(recipe, job)
        if distributed.is_first:
            result = summary(checkpoint)
            print_result(result, as_text(result), as_json=options.as_json)


def required_data(recipe: str, options: TrainOptions) -> str:
    """The value of `--data`, which the papers' recipes need; they take no `--release`."""
    if options.release is not None:
        raise UnreadableInput(
            "--release", f"cannot be used with {recipe}", "only the recipe preference uses it"
        )
    if options.data is None:
        raise UnreadableInput("--data", f"{recipe} needs it", "name a folder, or --data drawn")
    return options.data


def chosen_recipe(
    name: str, data: str, values: Mapping[str, str]
) -> tuple[Recipe | SystemRecipe, str | None]:
    """The recipe with the given values, and a line on what the catalogue changes in it."""
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
    return f"hsfiq score RELEASE --scorer {result['checkpoint']}"
