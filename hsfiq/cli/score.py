"""`hsfiq score`: a trained scorer's metric for a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result, requires
from hsfiq.cli.option_groups import with_option_groups
from hsfiq.cli.scorer_options import ScorerOptions, images_option
from hsfiq.errors import UnreadableInput
from hsfiq.text import first_few


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq score releases/hpfiq-hp-1.0.0 --scorer runs/cirqrs")(
        with_option_groups(score)
    )


def score(
    release: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE|FILE",
            help="A release folder, or JSON lines with reference, text, images and perhaps id.",
        ),
    ],
    scorer: Annotated[
        Path,
        typer.Option(metavar="CKPT", help="A run's folder, best.json or last.json; or hf:DIR."),
    ],
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The metric's, for hsfiq analyze --metric.")
    ] = "cirqrs",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of FILE: the new file for its scores.")
    ] = None,
    images: Annotated[Path | None, images_option("images/ in RELEASE or here")] = None,
    *,
    options: ScorerOptions,
    force: Annotated[
        bool, typer.Option("--force", help="Replace another scorer's scores.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Score every retrieved set of a release, into RELEASE.scores beside it, or of a file.

    Of a release of searches, every list, by the reference and the text of its turn.
    """
    if release.is_file():
        score_plain_file(release, out, options, scorer, images, as_json=as_json)
        return
    existing_folder(release)
    if out is not None:
        raise UnreadableInput("--out", "is for a file of sets", "a release's scores are beside it")
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.release_scores.score_files import require_metric_name
        from hsfiq.model.release_scores.score_release import score_release
        from hsfiq.model.runtime.distributed import device_of
    require_metric_name(name)
    paths, device = options.paths(scorer, images), device_of(options.device)
    with TrainingBar(typer.echo) as bar:
        result = score_release(release, name, paths, device, bar, force=force)
    print_result(result, as_text(result, release), as_json=as_json)


def score_plain_file(
    path: Path,
    out: Path | None,
    options: ScorerOptions,
    scorer: Path,
    images: Path | None,
    *,
    as_json: bool,
) -> None:
    if out is None:
        raise UnreadableInput(str(path), "is a file of sets", "name the file for scores with --out")
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.release_scores.plain_sets import score_file
        from hsfiq.model.runtime.distributed import device_of
    paths, device = options.paths(scorer, images), device_of(options.device)
    with TrainingBar(typer.echo) as bar:
        scores = score_file(path, out, paths, device, bar)
    lines = [f"{out}: {scores.n_scored:,} of {scores.n_sets:,} sets scored"]
    if scores.missing_images:
        lines.append(f"missing or unreadable images: {first_few(scores.missing_images)}")
    print_result(scores.to_json(), "\n".join(lines), as_json=as_json)


def as_text(result: dict[str, Any], release: Path) -> str:
    from hsfiq.model.release_scores.score_files import scores_folder
    from hsfiq.model.release_scores.score_release import has_held_out_part
    from hsfiq.releases.reader import is_of_searches

    path = scores_folder(release) / f"{result['metric']}.parquet"
    lines = [f"{path}: {result['n_scored']:,} of {result['n_sets']:,} sets scored"]
    if result["missing_images"]:
        lines += [
            f"missing or unreadable images: {first_few(result['missing_images'])}",
            f"sets without a score: {first_few(result['unscored_sets'])}",
            f"all are named in {path.with_suffix('.json')}",
        ]
    recall = "" if is_of_searches(release) else " --metric recall@5"
    next_command = f"next: hsfiq analyze {release}{recall} --metric {result['metric']}"
    if has_held_out_part(release, result):
        next_command += " --part test"
    return "\n".join([*lines, next_command])
