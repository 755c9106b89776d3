"""`hsfiq score`: a trained scorer's metric for a release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result, requires
from hsfiq.cli.scorer_options import (
    CacheOption,
    DeviceOption,
    ScorerOptions,
    WeightsOption,
    images_option,
)
from hsfiq.errors import UnreadableInput


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: hsfiq score releases/hpfiq-hp-1.0.0 --scorer runs/cirqrs")(score)


def score(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    scorer: Annotated[
        Path, typer.Option(metavar="CKPT", help="A run's folder, or its best.json or last.json.")
    ],
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The metric's, for hsfiq analyze --metric.")
    ] = "cirqrs",
    images: Annotated[Path | None, images_option("images/ in RELEASE or here")] = None,
    weights: WeightsOption = None,
    cache: CacheOption = None,
    device: DeviceOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace another scorer's scores.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Score every retrieved set of a release, into RELEASE.scores beside it."""
    existing_folder(release)
    check_name(name)
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.runtime.distributed import device_of
        from hsfiq.model.scoring import run
    options = ScorerOptions(scorer, images, weights, cache, device)
    with TrainingBar(0, typer.echo) as bar:
        said = run.score(release, name, options.paths(), device_of(device), bar, force=force)
    path = run.scores_folder(release) / f"{name}.parquet"
    print_result(said, as_text(said, path, release), as_json=as_json)


def check_name(name: str) -> None:
    """Refuse a name that no scores file may have.

    Raises:
        UnreadableInput: saying why.
    """
    is_file_name = name.strip() != "" and name == Path(name).name
    if not is_file_name or name.startswith(".") or name.endswith(".images"):
        raise UnreadableInput("--name", f"{name!r} is no file's name", "write --name cirqrs")
    if name.lower().startswith("recall@"):
        raise UnreadableInput("--name", f"{name} is counted from the sets", "choose another")


def as_text(said: dict[str, Any], path: Path, release: Path) -> str:
    """What was scored and what not, for a person."""
    from hsfiq.model.scoring.run import TRAINED_ON
    from hsfiq.releases.reader import SPLITS
    from hsfiq.text import first_few

    lines = [f"{path}: {said['n_scored']:,} of {said['n_sets']:,} sets scored"]
    if said["missing_images"]:
        lines += [
            f"missing or unreadable images: {first_few(said['missing_images'])}",
            f"sets without a score for them: {first_few(said['unscored_sets'])}",
            f"all are named in {path.with_suffix('.json')}",
        ]
    follows = f"next: hsfiq analyze {release} --metric recall@5 --metric {said['metric']}"
    if has_taught(release, said.get(TRAINED_ON, ())) and (release / SPLITS).is_file():
        follows += " --part test"
    return "\n".join([*lines, follows])


def has_taught(release: Path, trained_on: Iterable[Mapping[str, Any]]) -> bool:
    """Whether this very release is among those that a scorer was retrained on."""
    from hsfiq.releases.manifest import read_manifest

    manifest = read_manifest(release)
    return manifest is not None and any(
        it["content_sha256"] == manifest["content_sha256"] for it in trained_on
    )
