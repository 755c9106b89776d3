"""`hsfiq train`: the papers' training recipes, and retraining on answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli import preference
from hsfiq.cli.common import JsonOption, existing_folder, print_result, room
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.model.recipes.recipe import Recipe

DRAWN = "drawn"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: hsfiq train cirqrs-fashioniq --data drawn --out runs/drawn")(train)


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="cirqrs-fashioniq, cirqrs-cirr, qure-fashioniq, qure-cirr (PAPERS.md), or "
            "preference: --init's scorer, on the answers of --release.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="The run's folder; the same command goes on with a stopped run."
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|drawn",
            help="FashionIQ's or CIRR's folder, or the catalogue; for preference, what recall is "
            "measured on and --set mix=W mixes in.",
        ),
    ] = None,
    init: Annotated[
        Path | None, typer.Option(metavar="CKPT", help="A checkpoint to start from.")
    ] = None,
    release: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Whose answers preference trains on.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The images, where not in --data's folder.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="BLIP-2's published files; else $HSFIQ_WEIGHTS."),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another value of the recipe's; several."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=20, help="About N triplets only: a try before the night."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keeps images' features; else $HSFIQ_CACHE."),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Run the image encoder at every step instead.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1; else a GPU if any.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a scorer; `torchrun -m hsfiq train ...` shares it out among processes."""
    if cache is not None and no_cache:
        raise UnreadableInput("--cache", "does not go with --no-cache", "leave one out")
    if recipe == preference.NAME:
        asked = preference.Asked(
            release, init, out, data, images, weights, pairs_of(values or []), limit, cache, device
        )
        preference.retrain_scorer(asked, no_cache=no_cache, as_json=as_json)
        return
    data = required_data(recipe, data, release)
    chosen, replaced = chosen_recipe(recipe, data, pairs_of(values or []))
    if data != DRAWN:
        existing_folder(Path(data))
    room("torch", "model")
    from hsfiq.cli.training_bar import TrainingBar
    from hsfiq.model.data.sources import CATALOGUE, read
    from hsfiq.model.data.triplets import missing_lines
    from hsfiq.model.features.cache import default_root
    from hsfiq.model.runtime.distributed import joined
    from hsfiq.model.training.run import Where, run

    with joined(device) as world:
        say = partial(typer.echo, err=True) if world.is_first else silent
        for line in replaced:
            say(line)
        if not world.is_first:
            world.wait()  # for the first to have drawn the pictures
        folder = None if data == DRAWN else Path(data)
        triplets = read(
            chosen, folder, images or (out / CATALOGUE if folder is None else None), limit
        )
        if world.is_first:
            world.wait()
        for line in missing_lines(triplets):
            say(line)
        where = Where(out, None if no_cache else cache or default_root(), weights, init)
        with TrainingBar(chosen.epochs, say, speaks=world.is_first) as bar:
            checkpoint = run(chosen, triplets, where, world, bar)
        if world.is_first:
            result = summary(checkpoint.about, checkpoint.path, checkpoint.sha256)
            print_result(result, as_text(result), as_json=as_json)


def silent(_: str) -> None:
    """What the other processes say."""


def required_data(recipe: str, data: str | None, release: Path | None) -> str:
    """What a recipe of the papers is trained on.

    Raises:
        UnreadableInput: it was not named, or a release was.
    """
    if release is not None:
        raise UnreadableInput("--release", f"does not go with {recipe}", "preference reads it")
    if data is None:
        raise UnreadableInput("--data", f"{recipe} needs it", "name a folder, or --data drawn")
    return data


def pairs_of(values: Sequence[str]) -> dict[str, str]:
    """The values of `--set`, by key.

    Raises:
        UnreadableInput: one is no KEY=VALUE.
    """
    pairs = {}
    for value in values:
        key, sign, text = value.partition("=")
        if not sign:
            raise UnreadableInput("--set", f"{value!r} is no KEY=VALUE", "write --set epochs=10")
        pairs[key] = text
    return pairs


def chosen_recipe(name: str, data: str, pairs: Mapping[str, str]) -> tuple[Recipe, list[str]]:
    """The recipe with the values asked for, and lines that say what the catalogue changed in it.

    Raises:
        UnreadableInput: no such recipe, key or value.
    """
    from hsfiq.model.recipes.recipe import changes, on_drawn, recipe

    stated = recipe(name)
    if data != DRAWN:
        return stated.with_values(pairs), []
    chosen = on_drawn(stated).with_values(pairs)
    replaced = [
        f"on the drawn catalogue {key} is {now} instead of {was}"
        for key, (was, now) in changes(stated, chosen).items()
        if key != "dataset"
    ]
    return chosen, replaced


def summary(about: dict[str, Any], path: Path, sha256: str) -> dict[str, Any]:
    """What came out: the best checkpoint and its epoch's line."""
    progress = about["progress"]
    best = progress["epochs"][-1]
    return {
        "checkpoint": str(path),
        "sha256": sha256,
        "recipe": about["recipe"]["name"],
        "data": about["data"]["name"],
        "n_train": about["data"]["n_train"],
        "n_val": about["data"]["n_val"],
        "epoch": best["epoch"],
        "loss": best["loss"],
        "accuracy": best["accuracy"],
        "val": best["val"],
        "definitions": progress["definitions"],
    }


def as_text(result: dict[str, Any]) -> str:
    """The summary for a person."""
    recalls = ", ".join(f"{k} {v:.4f}" for k, v in result["val"].items() if k != "mean")
    return (
        f"best epoch {result['epoch']}: loss {result['loss']:.4f}, accuracy of pairs "
        f"{result['accuracy']:.4f}, {recalls} (n = {result['n_val']:,})\n"
        f"checkpoint {result['checkpoint']}, sha256 {result['sha256'][:12]}\n"
        f"next: hsfiq score RELEASE --scorer {result['checkpoint']}"
    )
