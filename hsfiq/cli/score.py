"""`hsfiq score`: scores of a release's sets by a trained scorer or a judge."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import OptionInfo

from hsfiq.cli import common
from hsfiq.errors import UnreadableInput
from hsfiq.text import first_few

if TYPE_CHECKING:
    from collections.abc import Callable

    from hsfiq.images.store import Root
    from hsfiq.model.judges.judge import Judge
    from hsfiq.model.judges.judged_sets import Run
    from hsfiq.model.scorer.loading import ScorerPaths
    from hsfiq.project import Project

app = common.Commands()


# The options of `hsfiq score --judge`.


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="JUDGE",
            help="Instead of --checkpoint: clipscore:DIR, vqascore:DIR, chat:MODEL, or your own "
            "judge (docs/reference/judges.md).",
        ),
    ] = None
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A judge's prompt: change, vqascore, preference, likert, or a .toml file.",
        ),
    ] = None
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="chat: OpenAI-compatible; else $OPENAI_BASE_URL. Its key is $OPENAI_API_KEY.",
        ),
    ] = None
    parallel: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=64,
            help="chat: the number of parallel requests, 4 by default.",
        ),
    ] = None
    per_minute: Annotated[
        float | None,
        typer.Option(metavar="N", min=0.01, help="A judge's rate limit, in calls per minute."),
    ] = None
    price: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT",
            help="A judge's price per million prompt and completion tokens, such as 2.5,10.",
        ),
    ] = None

    def require_judge(self) -> None:
        """Refuse the options of a judge without a judge."""
        for field in fields(self):
            if getattr(self, field.name) is not None and self.judge is None:
                option = f"--{field.name.replace('_', '-')}"
                raise UnreadableInput(option, "needs a judge, and none was named", "add --judge")

    def build(self, device: str | None) -> Judge:
        from hsfiq.model.judges.score import JudgeSettings, build_judge
        from hsfiq.model.runtime import device_of

        settings = JudgeSettings(
            device=device_of(device),
            prompt=self.prompt,
            endpoint=self.endpoint,
            parallel=self.parallel or 4,
        )
        judge = build_judge(str(self.judge), settings)
        if judge.asks == "pairs":
            with common.requires("analysis"):  # before anything is paid
                from hsfiq.analysis.resampling import bootstrap  # noqa: F401
        return judge

    def run(self, progress: Callable[[int, int], None]) -> Run:
        from hsfiq.model.judges.asking import Pace
        from hsfiq.model.judges.judged_sets import Run

        return Run(pace=Pace(self.per_minute), prices=self.prices(), progress=progress)

    def prices(self) -> tuple[float, float] | None:
        if self.price is None:
            return None
        try:
            prompt, completion = (float(part) for part in self.price.split(","))
        except ValueError:
            prompt = completion = -1
        if not (0 <= prompt < float("inf") and 0 <= completion < float("inf")):
            raise UnreadableInput("--price", f"{self.price!r} is not two prices", "write 2.5,10")
        return prompt, completion


# The options that every command with a scorer or a retrieval system takes.


def folder_or_none(images: Path | None) -> Path | None:
    return None if images is None else common.on_this_disk(images)


def images_option(otherwise: str) -> OptionInfo:
    """`--images`, with its default."""
    option: OptionInfo = typer.Option(
        metavar="DIR", help=f"The images; else {otherwise}.", callback=folder_or_none
    )
    return option


@dataclass(frozen=True, kw_only=True)
class ScorerOptions:
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The model's published files; else $HSFIQ_WEIGHTS.",
        ),
    ] = None
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The cache of image features; else $HSFIQ_CACHE."),
    ] = None
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1; else a GPU if any.")
    ] = None

    def paths(self, checkpoint: Path | None, images: Root | None) -> ScorerPaths:
        """The paths, with the default cache."""
        from hsfiq.model.image_tokens import default_root
        from hsfiq.model.scorer.loading import ScorerPaths

        folder = None if images is None else common.on_this_disk(images)
        return ScorerPaths(checkpoint, folder, self.weights, self.cache or default_root())


@app.command(epilog="Example: hsfiq score releases/hpfiq-hp-1.0.0 --checkpoint runs/cirqrs")
def score(
    options: ScorerOptions,
    judging: JudgeOptions,
    release: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE|FILE",
            help="A release folder, or JSON lines with reference, text, images and perhaps id.",
        ),
    ],
    scorer: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="A scorer's checkpoint folder, its best.json or last.json; or hf:DIR.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The metric's name for hsfiq analyze --metric; cirqrs, or the judge's kind.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The new file for the scores of FILE.")
    ] = None,
    images: Annotated[Path | None, images_option("images/ in RELEASE or here")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the scores of another scorer.")
    ] = False,
    as_json: common.JsonOption = False,
) -> None:
    """Score every retrieved set of a release or of a file.

    The scores of a release are written to RELEASE.scores next to the release. In a release of
    searches, every list is scored with the reference and the text of its turn.
    """
    judging.require_judge()
    if judging.judge is not None:
        judge(release, judging, options, scorer, name, out, images, force=force, as_json=as_json)
        return
    if scorer is None:
        raise UnreadableInput(
            "--checkpoint", "is missing", "name a scorer, or a judge with --judge"
        )
    name = "cirqrs" if name is None else name
    if release.is_file():
        score_plain_file(release, out, options, scorer, images, as_json=as_json)
        return
    common.existing_folder(release)
    if out is not None:
        raise UnreadableInput(
            "--out", "is for a file of sets", "a release's scores are written next to the release"
        )
    with common.requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.release_scores import require_metric_name, score_release
        from hsfiq.model.runtime import device_of
    require_metric_name(name)
    paths, device = options.paths(scorer, images), device_of(options.device)
    with TrainingBar() as bar:
        result = score_release(release, name, paths, device, bar, force=force)
    common.print_result(result, as_text(result, release), as_json=as_json)


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
        raise UnreadableInput("--judge", "cannot be combined with --checkpoint", "name one of them")
    if release.is_file() == (out is None):
        where = str(release) if out is None else "--out"
        raise UnreadableInput(where, "only a file of sets takes --out FILE, and needs it")
    if not release.is_file():
        common.existing_folder(release)
    with common.requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.judges.score import judge_file, judge_release
        from hsfiq.model.release_scores import require_metric_name
    name = str(judging.judge).partition(":")[0] if name is None else name
    require_metric_name(name)
    judging.prices()  # refused before a model is loaded
    asked = judging.build(options.device)
    with closing(asked), TrainingBar() as bar:
        run = judging.run(bar.judging)
        if out is not None:
            result, costs = judge_file(release, out, asked, images, run)
        else:
            result, costs = judge_release(release, name, asked, images, run, force=force)
    lines = judged_text(result, costs, out)
    if out is None:
        lines = [as_text(result, release), *lines[1:]]
    common.print_result({**result, "costs_of_this_run": costs}, "\n".join(lines), as_json=as_json)


def judged_text(result: dict[str, Any], costs: dict[str, float], out: Path | None) -> list[str]:
    lines = [f"{out}: {result['n_scored']:,} of {result['n_sets']:,} sets scored"]
    if out is not None and result["missing_images"]:
        lines.append(f"missing or unreadable images: {first_few(result['missing_images'])}")
    answers = result["answers"]
    null = ", ".join(f"{n:,} {reason}" for reason, n in answers["null"].items())
    lines.append(f"answers: {answers['questions']:,}; without a value: {null or 'none'}")
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
    with common.requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.release_scores import score_file
        from hsfiq.model.runtime import device_of
    paths, device = options.paths(scorer, images), device_of(options.device)
    with TrainingBar() as bar:
        scores = score_file(path, out, paths, device, bar)
    lines = [f"{out}: {scores.n_scored:,} of {scores.n_sets:,} sets scored"]
    if scores.missing_images:
        lines.append(f"missing or unreadable images: {first_few(scores.missing_images)}")
    common.print_result(scores.to_json(), "\n".join(lines), as_json=as_json)


def as_text(result: dict[str, Any], release: Path) -> str:
    from hsfiq.model.release_scores import has_held_out_part, scores_folder
    from hsfiq.releases.folder import is_of_searches

    path = scores_folder(release) / f"{result['metric']}.parquet"
    lines = [f"{path}: {result['n_scored']:,} of {result['n_sets']:,} sets scored"]
    if result["missing_images"]:
        lines += [
            f"missing or unreadable images: {first_few(result['missing_images'])}",
            f"sets without a score: {first_few(result['unscored_sets'])}",
            f"{path.with_suffix('.json')} lists all",
        ]
    recall = "" if is_of_searches(release) else " --metric recall@5"
    next_command = f"next: hsfiq analyze {release}{recall} --metric {result['metric']}"
    if has_held_out_part(release, result):
        next_command += " --part test"
    return "\n".join([*lines, next_command])


# What `hsfiq analyze` does in a project: score a metric that has no scores yet, and leave out the
# answers that its scorer was trained on.

SCORERS = ("cirqrs", "qure", "preference")
"""The metrics that a project's checkpoint can compute; other names need scores."""


def score_in_project(
    project: Project, release: Path, metrics: Sequence[str], files: Sequence[Path]
) -> None:
    """Score a release with the project's one checkpoint if one of the metrics has no scores.

    `UnreadableInput` if the project has no checkpoint, or several.
    """
    from hsfiq.analysis.data.scores import find_scores

    stored = find_scores(release, files)
    unscored = [name for name in metrics if name in SCORERS and name not in stored]
    if not unscored:
        return
    name, where = unscored[0], f"--metric {unscored[0]}"
    found = scorers_in(project.folder)
    if not found:
        what = f"{release} has no such scores, and {project.folder} has no checkpoint of a scorer"
        remedy = "copy one there, or hsfiq train cirqrs-fashioniq --data DIR --out runs/cirqrs"
        raise UnreadableInput(where, what, remedy)
    if len(found) > 1 or len(unscored) > 1:
        listed = first_few([str(each) for each in found])
        what = f"{release} has no such scores, and the checkpoint for them is unknown"
        remedy = f"score with one of {listed}: hsfiq score {release} --checkpoint DIR --name {name}"
        raise UnreadableInput(where, what, remedy)
    (checkpoint,) = found
    common.note(f"scoring {release} with {checkpoint} as {name}")
    with common.requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.release_scores import score_release
        from hsfiq.model.runtime import device_of
    paths = ScorerOptions().paths(checkpoint, project.images())
    with TrainingBar() as bar:
        score_release(release, name, paths, device_of(None), bar)


def scorers_in(folder: Path) -> list[Path]:
    """The folders with a scorer's checkpoint below a folder."""
    return sorted({path.parent for path in folder.rglob("best.json") if is_of_scorer(path)})


def is_of_scorer(path: Path) -> bool:
    try:
        recipe = json.loads(path.read_text(encoding="utf-8")).get("recipe")
    except (OSError, ValueError, RecursionError, AttributeError):
        return False
    return isinstance(recipe, dict) and "system" not in recipe


def part_not_trained_on(
    release: Path, metrics: Sequence[str], files: Sequence[Path], part: str | None
) -> str | None:
    """The part to analyze: only the test part if a metric's scorer was trained on this release.

    `UnreadableInput` if another part was asked for, or if the release holds nothing out.
    """
    from hsfiq.analysis.data.provenance import TEST, trained_on
    from hsfiq.analysis.data.scores import find_scores
    from hsfiq.releases.folder import SPLITS, manifest_of

    scores = find_scores(release, files)
    about = manifest_of(release, {})
    for name in metrics:
        sources = trained_on(scores[name], name) if name in scores else ()
        same = [source for source in sources if study_of(source) == study_of(about)]
        if not same:
            continue
        where = f"--metric {name}"
        what = "its scorer was trained on answers of this release"
        others = [s for s in same if s.get("content_sha256") != about.get("content_sha256")]
        if others:
            other = f"{others[-1]['name']} {others[-1]['version']}"
            what = f"its scorer was trained on {other}, which can share answers with this release"
            remedy = f"analyze {other}, or retrain the scorer on this release"
            raise UnreadableInput(where, what, remedy)
        if not (release / SPLITS).is_file():
            remedy = "export the release with --split, and retrain the scorer on that"
            raise UnreadableInput(where, f"{what}, which has no held-out part", remedy)
        if part not in (None, TEST):
            what = f"is {part!r}, and the scorer of {name} was trained on this release"
            raise UnreadableInput("--part", what, "use --part test")
        if part is None:
            common.note(f"{name}: {what}, so only its test part is analyzed")
        part = TEST
    return part


def study_of(release: Mapping[str, object]) -> str:
    """A release's name without its kind: the scores and preferences of a study are of one base."""
    return str(release.get("name")).removesuffix("-hp").removesuffix("-hs")
