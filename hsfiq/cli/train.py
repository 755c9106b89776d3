"""`hsfiq train`: the papers' training recipes, and retraining on answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli import preference
from hsfiq.cli.common import JsonOption, existing_folder, print_result, requires
from hsfiq.cli.option_groups import with_option_groups
from hsfiq.cli.scorer_options import ScorerOptions, images_option
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.model.checkpoints.checkpoint import Checkpoint
    from hsfiq.model.recipes.recipe import Recipe
    from hsfiq.model.recipes.system_recipe import SystemRecipe

DRAWN = "drawn"


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq train cirqrs-fashioniq --data drawn --out runs/drawn")(
        with_option_groups(train)
    )


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A scorer's (cirqrs-fashioniq, cirqrs-cirr, qure-fashioniq, qure-cirr) or a "
            "retrieval system's (clip4cir-fashioniq, clip4cir-cirr, ...; PAPERS.md has all), or "
            "preference: retrain --init's scorer on the answers of --release.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="The run's folder; the same command resumes a stopped run."
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|drawn",
            help="FashionIQ's or CIRR's folder, or the catalogue; for preference, the triplets "
            "to measure recall on and to mix in with --set mix=W.",
        ),
    ] = None,
    init: Annotated[
        Path | None, typer.Option(metavar="CKPT", help="A checkpoint to start from.")
    ] = None,
    release: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The release that preference trains on.")
    ] = None,
    images: Annotated[Path | None, images_option("in --data's folder")] = None,
    *,
    options: ScorerOptions,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Run the image encoder at every step instead.")
    ] = False,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Another value for the recipe; repeatable."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=20, help="About N triplets only, for a trial run."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a scorer or a retrieval system.

    `torchrun -m hsfiq train ...` shares the training of a scorer among processes.
    """
    if options.cache is not None and no_cache:
        raise UnreadableInput("--cache", "cannot be used with --no-cache", "leave one out")
    if recipe == preference.NAME:
        preference.retrain_scorer(
            release,
            init,
            out,
            data,
            images,
            pairs_of(values or []),
            limit,
            options,
            no_cache=no_cache,
            as_json=as_json,
        )
        return
    data = required_data(recipe, data, release)
    chosen, changes = chosen_recipe(recipe, data, pairs_of(values or []))
    folder = None if data == DRAWN else existing_folder(Path(data))
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.data.datasets import CATALOGUE, read_training_data
        from hsfiq.model.data.triplets import missing_lines
        from hsfiq.model.recipes.system_recipe import SystemRecipe
        from hsfiq.model.retrieval.training_run import train_system
        from hsfiq.model.runtime.distributed import join_processes
        from hsfiq.model.training.run import run

    with join_processes(options.device) as distributed:
        # Only the first process prints.
        echo: Callable[[str], None] = (
            partial(typer.echo, err=True) if distributed.is_first else lambda _: None
        )
        for line in changes:
            echo(line)
        pictures = images or (out / CATALOGUE if folder is None else None)
        with distributed.first_process_first():  # it draws the catalogue's pictures
            triplets = read_training_data(chosen, folder, pictures, limit)
        for line in missing_lines(triplets):
            echo(line)
        with TrainingBar(echo, is_visible=distributed.is_first) as bar:
            paths = options.paths(init, images)
            cached = not no_cache
            if isinstance(chosen, SystemRecipe):
                checkpoint = train_system(
                    chosen, triplets, out, paths, distributed, bar, cached=cached
                )
            else:
                checkpoint = run(chosen, triplets, out, paths, distributed, bar, cached=cached)
        if distributed.is_first:
            result = summary(checkpoint)
            print_result(result, as_text(result), as_json=as_json)


def required_data(recipe: str, data: str | None, release: Path | None) -> str:
    """The value of `--data`, which the papers' recipes need; they take no `--release`."""
    if release is not None:
        raise UnreadableInput(
            "--release", f"cannot be used with {recipe}", "only the recipe preference uses it"
        )
    if data is None:
        raise UnreadableInput("--data", f"{recipe} needs it", "name a folder, or --data drawn")
    return data


def pairs_of(values: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for value in values:
        key, sign, text = value.partition("=")
        if not sign:
            raise UnreadableInput("--set", f"{value!r} is not KEY=VALUE", "write --set epochs=10")
        pairs[key] = text
    return pairs


def chosen_recipe(
    name: str, data: str, pairs: Mapping[str, str]
) -> tuple[Recipe | SystemRecipe, list[str]]:
    """The recipe with the given values, and a line for each value that the catalogue changes."""
    from hsfiq.model.recipes.recipe import on_drawn, recipe
    from hsfiq.model.recipes.systems import SYSTEM_RECIPES, system_on_drawn

    if name in SYSTEM_RECIPES:
        system = SYSTEM_RECIPES[name]
        if data != DRAWN:
            return system.with_values(pairs), []
        system_chosen = system_on_drawn(system).with_values(pairs)
        return system_chosen, lines_of(system.changes(system_chosen))
    stated = recipe(name, SYSTEM_RECIPES)
    if data != DRAWN:
        return stated.with_values(pairs), []
    chosen = on_drawn(stated).with_values(pairs)
    return chosen, lines_of(stated.changes(chosen))


def lines_of(changes: Mapping[str, tuple[str, str]]) -> list[str]:
    return [
        f"on the drawn catalogue {key} is {new} instead of {old}"
        for key, (old, new) in changes.items()
        if key != "dataset"
    ]


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
        f"best epoch {result['epoch']}: loss {result['loss']:.4f}, accuracy of pairs "
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
