"""`hsfiq export`: write a study's answers as releases."""

from __future__ import annotations

import math
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli.common import (
    RELEASES,
    DatabaseOption,
    JsonOption,
    StudyOption,
    chosen_study,
    open_chosen,
    print_result,
)
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.releases import Outcome, Split


class SplitBy(StrEnum):
    """What a split holds out."""

    TRIPLET = "triplet"
    PARTICIPANT = "participant"
    BOTH = "both"


class Kind(StrEnum):
    """The kind of a release."""

    HS = "hs"
    HP = "hp"
    SINGLE = "single"
    IMAGES = "images"
    RANKING = "ranking"
    QUERY = "query"
    SEARCH = "search"
    ARENA = "arena"


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq export --filter-invalid")(export)


def export(
    ctx: typer.Context,
    study: StudyOption = None,
    release: Annotated[
        Kind | None,
        typer.Option(
            metavar="hs|hp|KIND",
            help="Only this one: scores (hs) or preferences (hp) of pairs; studies of another "
            "question kind have one release, named after it.",
        ),
    ] = None,
    filter_invalid: Annotated[
        bool,
        typer.Option(
            "--filter-invalid",
            help="Drop questions flagged irrelevant and, for hp, those whose preferred set has "
            "the lower score.",
        ),
    ] = False,
    drop_failed_checks: Annotated[
        bool,
        typer.Option(
            "--drop-failed-checks",
            help="Drop forms in which an attention check failed (a wrong sum counts).",
        ),
    ] = False,
    drop_unseen: Annotated[
        bool,
        typer.Option(
            "--drop-unseen",
            help="Drop questions answered without every image painted (unknown ones stay).",
        ),
    ] = False,
    min_seconds: Annotated[
        float | None,
        typer.Option(metavar="N", help="Drop questions answered in less active time.", min=0),
    ] = None,
    split: Annotated[
        SplitBy | None,
        typer.Option(
            metavar="triplet|participant|both",
            help="Hold out triplets, participants or both for testing: splits.parquet.",
        ),
    ] = None,
    split_seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="With --split: seed of the draw [0]."),
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(metavar="T", help="With --split: the share to hold out [0.2]."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The release's folder with --release, else the releases' parent [releases].",
        ),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            metavar="X.Y.Z", help="The release's version; needed if its content has changed."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing release.")] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a study's answers as releases (HS and HP of pairs), each with its funnel."""
    from hsfiq.releases import Filters, export_releases

    if min_seconds is not None and not math.isfinite(min_seconds):
        raise UnreadableInput("--min-seconds", f"{min_seconds} is not a number of seconds")
    filters = Filters(
        invalid=filter_invalid,
        failed_checks=drop_failed_checks,
        unseen=drop_unseen,
        min_seconds=min_seconds,
    )
    options = chosen_split(split, split_seed, test_share)
    with open_chosen(ctx, database, create=False).reading() as session:
        outcomes = export_releases(
            session,
            chosen_study(session, study),
            [release.value] if release else None,
            filters,
            options,
            parent=out or RELEASES,
            folder=out if release else None,
            version=version,
            force=force,
        )
    text = "\n\n".join(describe(outcome) for outcome in outcomes)
    print_result({"releases": [as_result(outcome) for outcome in outcomes]}, text, as_json=as_json)


def chosen_split(by: SplitBy | None, seed: int | None, test_share: float | None) -> Split | None:
    """Return the split that the options describe, if any; raise `UnreadableInput` for bad ones."""
    from hsfiq.releases import Split

    if by is not None:
        default = Split(by.value)
        return Split(
            by.value,
            default.seed if seed is None else seed,
            default.test_share if test_share is None else test_share,
        )
    for option, value in (("--split-seed", seed), ("--test-share", test_share)):
        if value is not None:
            raise UnreadableInput(option, "needs --split", "give --split as well")
    return None


def describe(outcome: Outcome) -> str:
    """Describe a release: its folder, its funnel and its split."""
    from hsfiq.releases.filters import NOT_RECORDED

    questions = outcome.release.questions
    state = "written" if outcome.written else "unchanged, nothing written"
    lines = [f"{outcome.folder}: {state}", f"  {'assigned':<14}{'':>8}{questions.n_assigned:>9,}"]
    lines += [
        f"  {step.rule:<14}{'' if step.dropped is None else f'{-step.dropped:,}':>8}{step.left:>9,}"
        f"{f'  ({NOT_RECORDED})' if step.dropped is None else ''}"
        for step in questions.funnel
    ]
    if outcome.release.split is not None:
        split = outcome.release.split.summary()
        lines += [f"  split by {split['by']}"]
        lines += [f"    {part:<12}{'':>8}{count:>9,}" for part, count in split["n"].items()]
    return "\n".join(lines + [f"  {note}" for note in outcome.release.notes])


def as_result(outcome: Outcome) -> dict[str, Any]:
    """Return the JSON result for a release."""
    release = outcome.release
    return {
        "folder": str(outcome.folder),
        "name": release.name,
        "version": release.version,
        "kind": release.kind,
        "written": outcome.written,
        "assigned": release.questions.n_assigned,
        "funnel": [asdict(step) for step in release.questions.funnel],
        "kept": len(release.questions.kept),
        "split": release.split.summary() if release.split else None,
        "notes": list(release.notes),
    }
