"""`hsfiq score`: the metric of a trained scorer, or of a judge, for a release."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from hsfiq.cli.common import JsonOption, existing_folder, print_result, requires
from hsfiq.cli.judge_options import JudgeOptions
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
        Path | None,
        typer.Option(metavar="CKPT", help="A run's folder, best.json or last.json; or hf:DIR."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The metric's, for hsfiq analyze --metric; cirqrs, or the judge's kind.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of FILE: the new file for its scores.")
    ] = None,
    images: Annotated[Path | None, images_option("images/ in RELEASE or here")] = None,
    *,
    options: ScorerOptions,
    judging: JudgeOptions,
    force: Annotated[
        bool, typer.Option("--force", help="Replace another scorer's scores.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Score every retrieved set of a release, into RELEASE.scores beside it, or of a file.

    Of a release of searches, every list, by the reference and the text of its turn.
    """
    judging.require_judge()
    if judging.judge is not None:
        judge(release, judging, options, scorer, name, out, images, force=force, as_json=as_json)
        return
    if scorer is None:
        raise UnreadableInput("--scorer", "is missing", "name a scorer, or a judge with --judge")
    name = "cirqrs" if name is None else name
    if release.is_file():
        score_plain_file(release, out, options, scorer, images, as_json=as_json)
        return
    existing_folder(release)
    if out is not None:
        raise UnreadableInput("--out", "is for a file of sets", "a release's scores are beside it")
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.release_scores import require_metric_name, score_release
        from hsfiq.model.runtime import device_of
    require_metric_name(name)
    paths, device = options.paths(scorer, images), device_of(options.device)
    with TrainingBar(typer.echo) as bar:
        result = score_release(release, name, paths, device, bar, force=force)
    print_result(result, as_text(result, release), as_json=as_json)


def judge(
    release: Path,
    judging: JudgeOptions,
    options: ScorerOptions,
    scorer: Path | None,
    name: str | None,
    out: Path | None,
    images: Path | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    if scorer is not None:
        raise UnreadableInput("--judge", "takes the place of --scorer", "name one of them")
    if release.is_file() == (out is None):
        where = str(release) if out is None else "--out"
        raise UnreadableInput(where, "a file of sets needs --out FILE, a release takes none")
    if not release.is_file():
        existing_folder(release)
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.judges.score import judge_file, judge_release
        from hsfiq.model.release_scores import require_metric_name
    name = str(judging.judge).partition(":")[0] if name is None else name
    require_metric_name(name)
    judging.prices()  # refused before a model is loaded
    asked = judging.build(options.device)
    with closing(asked), TrainingBar(typer.echo) as bar:
        run = judging.run(bar.judging)
        if out is not None:
            result, costs = judge_file(release, out, asked, images, run)
        else:
            result, costs = judge_release(release, name, asked, images, run, force=force)
    lines = judged_text(result, costs, out)
    if out is None:
        lines = [as_text(result, release), *lines[1:]]
    print_result({**result, "costs_of_this_run": costs}, "\n".join(lines), as_json=as_json)


def judged_text(result: dict[str, Any], costs: dict[str, float], out: Path | None) -> list[str]:
    lines = [f"{out}: {result['n_scored']:,} of {result['n_sets']:,} sets scored"]
    if out is not None and result["missing_images"]:
        lines.append(f"missing or unreadable images: {first_few(result['missing_images'])}")
    answers = result["answers"]
    null = ", ".join(f"{n:,} {reason}" for reason, n in answers["null"].items())
    lines.append(f"answers: {answers['questions']:,}, of which without a value: {null or 'none'}")
    for label, spent in (("this run", costs), ("since the first run", result["costs"])):
        lines.append(f"costs, {label}: " + ", ".join(f"{n:,} {key}" for key, n in spent.items()))
    bias = result.get("position_bias")
    if bias is not None and bias["first"]["value"] is None:
        lines.append(f"position bias: undefined, {bias['first']['reason']}")
    elif bias is not None:
        first, same = (
            f"{each['value']:.3f} {ends_text(each['ci'])}"
            for each in (bias["first"], bias["same_in_both_orders"])
        )
        lines += [
            f"position bias: the first set is preferred in {first}, n = {bias['first']['n']:,}",
            f"the same answer in both orders: {same}",
        ]
    return lines


def ends_text(ends: list[float | None]) -> str:
    low, high = ends
    return "(no interval)" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"


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
        from hsfiq.model.release_scores import score_file
        from hsfiq.model.runtime import device_of
    paths, device = options.paths(scorer, images), device_of(options.device)
    with TrainingBar(typer.echo) as bar:
        scores = score_file(path, out, paths, device, bar)
    lines = [f"{out}: {scores.n_scored:,} of {scores.n_sets:,} sets scored"]
    if scores.missing_images:
        lines.append(f"missing or unreadable images: {first_few(scores.missing_images)}")
    print_result(scores.to_json(), "\n".join(lines), as_json=as_json)


def as_text(result: dict[str, Any], release: Path) -> str:
    from hsfiq.model.release_scores import has_held_out_part, scores_folder
    from hsfiq.releases.folder import is_of_searches

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
