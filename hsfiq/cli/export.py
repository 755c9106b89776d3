"""`hsfiq export`: a study's answers as releases."""

from __future__ import annotations

import math
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli.common import (
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

RELEASES = Path("releases")


class Way(StrEnum):
    """What a split goes by."""

    TRIPLET = "triplet"
    PARTICIPANT = "participant"
    BOTH = "both"


class Kind(StrEnum):
    """The two releases of a study."""

    HS = "hs"
    HP = "hp"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: hsfiq export --filter-invalid")(export)


def export(
    ctx: typer.Context,
    study: StudyOption = None,
    release: Annotated[
        Kind | None,
        typer.Option(metavar="hs|hp", help="Only this one: scores (hs) or preferences (hp)."),
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
            "--drop-failed-checks", help="Drop forms in which a check failed (a wrong sum counts)."
        ),
    ] = False,
    min_seconds: Annotated[
        float | None,
        typer.Option(metavar="N", help="Drop questions answered in less active time.", min=0),
    ] = None,
    split: Annotated[
        Way | None,
        typer.Option(
            metavar="triplet|participant|both",
            help="Hold out triplets, participants or both for testing: splits.parquet.",
        ),
    ] = None,
    split_seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="With --split: draws what is held out [0]."),
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(metavar="T", help="With --split: the share to hold out [0.2]."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --release the release's folder, else their parent [releases]."
        ),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(metavar="X.Y.Z", help="The version, needed when the study has changed."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing release.")] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a study's answers as the HS and HP releases, each with its funnel."""
    from hsfiq.db.engine import head_revision
    from hsfiq.releases import Filters, Release, build, write_next_version, write_release
    from hsfiq.releases.content import FIRST_VERSION
    from hsfiq.releases.folder import require_version

    require_version(version)
    if min_seconds is not None and not math.isfinite(min_seconds):
        raise UnreadableInput("--min-seconds", f"{min_seconds} is no number of seconds")
    filters = Filters(
        invalid=filter_invalid, failed_checks=drop_failed_checks, min_seconds=min_seconds
    )
    wanted = chosen_split(split, split_seed, test_share)
    database_ = open_chosen(ctx, database, create=False)
    with database_.reading() as session:
        chosen = chosen_study(session, study)

        def make(kind: Kind, version: str) -> Release:
            return build(
                session, chosen, kind.value, filters, wanted,
                schema_revision=head_revision(), version=version,
            )  # fmt: skip

        if release is not None and out is not None:
            made = make(release, version or FIRST_VERSION)
            outcomes = [write_release(made, out, force=force)]
        else:
            outcomes = [
                write_next_version(
                    partial(make, kind), out or RELEASES, f"{chosen.name}-{kind}", version,
                    force=force,
                )
                for kind in ([release] if release else list(Kind))
            ]  # fmt: skip
    text = "\n\n".join(describe(outcome) for outcome in outcomes)
    print_result({"releases": [facts(outcome) for outcome in outcomes]}, text, as_json=as_json)


def chosen_split(by: Way | None, seed: int | None, test_share: float | None) -> Split | None:
    """The split that the options ask for, if any.

    Raises:
        UnreadableInput: the share does not lie between 0 and 1, or `--split` is missing.
    """
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
            raise UnreadableInput(option, "says how to split", "give --split as well")
    return None


def describe(outcome: Outcome) -> str:
    """Where the release lies and what was dropped on the way."""
    sifted = outcome.release.sifted
    state = "written" if outcome.written else "unchanged, nothing written"
    lines = [f"{outcome.folder}: {state}", f"  {'handed out':<14}{'':>8}{sifted.n_assigned:>9,}"]
    lines += [f"  {step.rule:<14}{-step.dropped:>8,}{step.left:>9,}" for step in sifted.funnel]
    if outcome.release.split is not None:
        split = outcome.release.split.facts()
        lines += [f"  split by {split['by']}"]
        lines += [f"    {part:<12}{'':>8}{count:>9,}" for part, count in split["n"].items()]
    return "\n".join(lines + [f"  {note}" for note in outcome.release.notes])


def facts(outcome: Outcome) -> dict[str, Any]:
    """The same for a program."""
    release = outcome.release
    return {
        "folder": str(outcome.folder),
        "name": release.name,
        "version": release.version,
        "kind": release.kind,
        "written": outcome.written,
        "assigned": release.sifted.n_assigned,
        "funnel": [
            {"rule": step.rule, "dropped": step.dropped, "left": step.left}
            for step in release.sifted.funnel
        ],
        "kept": len(release.sifted.kept),
        "split": release.split.facts() if release.split else None,
        "notes": list(release.notes),
    }


def newest_hp() -> Path:
    """The newest hp release under `releases/`.

    Raises:
        UnreadableInput: there is none.
    """
    from hsfiq.releases import newest_release

    found = newest_release(RELEASES, Kind.HP)
    if found is None:
        raise UnreadableInput(
            f"{RELEASES}/", "holds no hp release", "name a release, or run `hsfiq export` first"
        )
    return found
