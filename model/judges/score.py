"""`hsfiq score --judge`: a judge's scores as a column of a release, or of a file of sets."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import torch

from hsfiq import __version__
from hsfiq.atomic_files import require_new, sha256_of, write_whole
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.images.folder import usual_folder
from hsfiq.model.judges.clip_score import ClipScore
from hsfiq.model.judges.judge import Judge, read_judge_prompt
from hsfiq.model.judges.judged_sets import SCORES, Judged, Run, Sets, judge_sets
from hsfiq.model.judges.yes_probability import YesProbability
from hsfiq.model.release_scores import (
    as_lines,
    earlier_scores,
    find_images,
    images_of_release,
    read_plain_sets,
    scored_files,
    scores_folder,
    write_scores,
)
from hsfiq.model.scorer.run import jsonable
from hsfiq.releases.folder import (
    ReleasedSet,
    is_of_searches,
    read_preferences,
    read_queries,
    read_sets,
)
from hsfiq.text import first_few

# Judges by a specification `NAME:ARGUMENT`, ours and those of installed packages.
#
# A package adds one with an entry point of the group `hsfiq.judges`, whose object takes the
# argument and returns a `hsfiq.model.judges.judge.Judge`; docs/contributing/plugins.md has an
# example.

GROUP: Final = "hsfiq.judges"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """Options of our own judges; `prompt` None is each judge's usual one."""

    device: torch.device
    prompt: str | None = None
    endpoint: str | None = None
    parallel: int = 4


def _clip_score(argument: str, settings: JudgeSettings) -> Judge:
    if settings.prompt is not None:
        raise UnreadableInput("--prompt", "clipscore has none", "leave it out")
    return ClipScore(Path(argument).expanduser(), settings.device)


def _yes_probability(argument: str, settings: JudgeSettings) -> Judge:
    prompt = read_judge_prompt(settings.prompt or "change")
    return YesProbability(Path(argument).expanduser(), prompt, settings.device)


def _chat(argument: str, settings: JudgeSettings) -> Judge:
    try:
        from hsfiq.model.judges.chat import ChatJudge  # noqa: PLC0415 (an extra)
        from hsfiq.sessions.language_model import Chat  # noqa: PLC0415 (an extra)
    except ImportError:
        what = f"chat:{argument}"
        raise UnreadableInput(what, "needs openai", "pip install 'hsfiq[llm]'") from None
    url = settings.endpoint or os.environ.get("OPENAI_BASE_URL")
    if not url:
        raise UnreadableInput("--endpoint", "is missing", "such as http://127.0.0.1:8000/v1")
    prompt = read_judge_prompt(settings.prompt or "preference")
    chat = Chat(url, os.environ.get("OPENAI_API_KEY"))
    return ChatJudge(chat, argument, prompt, settings.parallel)


OURS: Final[dict[str, Callable[[str, JudgeSettings], Judge]]] = {
    "chat": _chat,
    "clipscore": _clip_score,
    "vqascore": _yes_probability,
}


def build_judge(specification: str, settings: JudgeSettings) -> Judge:
    """The judge; UnreadableInput if there is none of this name, and as its maker raises."""
    name, colon, argument = specification.partition(":")
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    if not colon or not argument:
        raise UnreadableInput(f"--judge {specification}", "is not NAME:ARGUMENT")
    if name in OURS:
        return OURS[name](argument, settings)
    if name not in installed:
        known = first_few(sorted({*OURS, *installed}))
        what = f"no installed judge is named {name}"
        raise UnreadableInput(f"--judge {specification}", what, f"there are: {known}")
    judge: Judge = installed[name].load()(argument)
    return judge


COMPARED = ("metric", "release", "judge")
"""Keys of the provenance that tell one judge's scores from another's."""


def judge_release(
    release: Path, name: str, judge: Judge, images: Path | None, run: Run, *, force: bool = False
) -> tuple[dict[str, Any], dict[str, float]]:
    """Judge a release; the content of the JSON file of its scores, and the costs of this run.

    The raw answers are in RELEASE.scores/<name>.answers.jsonl, which `force` keeps, too.

    Raises:
        UnreadableInput: without `force`, there are other scores of this name; no set has images.
        NothingToDo: the judge gave no readable answer.
        JudgeFailed: it cannot be asked now; the same command goes on.
    """
    judged, folder = sets_of_release(release, judge), scores_folder(release)
    provenance = jsonable(
        {
            "metric": name,
            "release": {
                "name": release.resolve().name,
                "sha256": {file: sha256_of(release / file) for file in scored_files(release)},
            },
            **about(judge),
        }
    )
    before = {} if force else earlier_scores(folder, name)
    if before and any(before.get(key) != provenance[key] for key in COMPARED):
        raise UnreadableInput(
            str(folder / f"{name}.json"),
            "holds the scores of another judge or scorer, or of another release",
            "choose another --name, or use --force",
        )
    with images_of_release(judged.sets, release, images) as files:
        result = judge_sets(judged, files, judge, folder / f"{name}.answers.jsonl", run)
    require_scores(str(release), result)
    return write_scores(folder, name, result.scores, {**provenance, **result.about}), result.costs


def judge_file(
    path: Path, out: Path, judge: Judge, images: Path | None, run: Run
) -> tuple[dict[str, Any], dict[str, float]]:
    """Judge the sets of a file (see `read_plain_sets`) into the new file `out`.

    A judge of pairs compares all sets with the same reference and text. The raw answers are in
    `<out>.answers.jsonl`. Errors as those of `judge_release`.
    """
    require_new(out)
    sets = read_plain_sets(path)
    judged = Sets(sets, pairs_of_queries(sets), {each.query_id: each.reference for each in sets})
    if judge.asks == "pairs" and not judged.pairs:
        what = f"{judge.name} compares sets, and no two have the same reference and text"
        raise UnreadableInput(str(path), what, "name a prompt for sets with --prompt")
    wanted = {image for each in sets for image in (each.reference, *each.images)}
    folder = images or usual_folder(Path())
    with find_images(folder, wanted, (str(path), "names images whose folder is unknown")) as files:
        store = out.with_name(f"{out.name}.answers.jsonl")
        result = judge_sets(judged, files, judge, store, run)
    require_scores(str(path), result)
    write_whole(out, as_lines(sets, result.scores))
    content = {
        "out": str(out),
        "n_sets": len(sets),
        "n_scored": len(result.scores.sets),
        "missing_images": result.scores.missing,
        "sets_sha256": sha256_of(path),
        **about(judge),
        **result.about,
    }
    return jsonable(content), result.costs


def sets_of_release(release: Path, judge: Judge) -> Sets:
    if judge.asks != "pairs":
        return Sets(read_sets(release), (), {})
    if is_of_searches(release):
        what = f"{judge.name} compares sets, and this release has single lists"
        raise UnreadableInput(str(release), what, "name a prompt for sets with --prompt")
    pairs = [(each.set_1, each.set_2) for each in read_preferences(release)]
    triplets = {name: query.triplet_id for name, query in read_queries(release).items()}
    return Sets(read_sets(release), pairs, triplets)


def pairs_of_queries(sets: Sequence[ReleasedSet]) -> list[tuple[str, str]]:
    by_query: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for each in sets:
        by_query[each.reference, each.text].append(each.set_id)
    return [pair for ids in by_query.values() for pair in combinations(ids, 2)]


def about(judge: Judge) -> dict[str, Any]:
    return {
        "score": SCORES[judge.asks],
        "judge": {
            "name": judge.name,
            "asks": judge.asks,
            "method": judge.method,
            "reads_reference": judge.reads_reference,
            **judge.identity(),
        },
        "hsfiq": __version__,
    }


def require_scores(where: str, result: Judged) -> None:
    if result.scores.sets:
        return
    answers: Mapping[str, Any] = result.about["answers"]
    if answers["null"]:
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in answers["null"].items())
        raise NothingToDo(
            f"{where}: no set has a score; of {answers['questions']:,} answers, {reasons}"
        )
    raise UnreadableInput(
        where,
        f"no set has all its images: {first_few(result.scores.missing)} are missing or unreadable",
        "name the folder of the images with --images",
    )
