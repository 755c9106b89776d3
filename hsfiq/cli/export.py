"""`hsfiq export`: write a study's answers as releases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hsfiq.actors import Action, command_line
from hsfiq.cli import common
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.releases.content import Source
    from hsfiq.releases.dropping_rules import Funnel, FunnelStep
    from hsfiq.releases.export import Outcome
    from hsfiq.releases.splits import Split

app = common.Commands()


SplitBy = Literal["triplet", "participant", "both"]


# Options that may be repeated cannot be literals.


class LayoutName(StrEnum):
    """A layout besides the tables."""

    HPFIQ = "hpfiq"
    TRL = "trl"
    CSV = "csv"
    WEBDATASET = "webdataset"


class LeftOutName(StrEnum):
    """The parts that a release can omit."""

    TEXTS = "texts"
    PARTICIPANT_ANSWERS = "participant-answers"


@app.command(epilog="Example: hsfiq export --filter-invalid")
def export(
    call: common.StudyCall,
    release: Annotated[
        str | None,
        typer.Option(
            metavar="hs|hp|KIND",
            help="Only this release: scores (hs) or preferences (hp) of pairs; studies of another "
            "question kind have one release, named after the kind.",
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
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="NAME",
            help="A further filter by its name: failed-checks, unseen, "
            "too-fast(seconds=2), straight-lining(run=10).",
        ),
    ] = None,
    is_explained: Annotated[
        bool,
        typer.Option(
            "--explain", help="Print the questions that each rule would drop; write nothing."
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Instead of a release, write a report of the answers so far (hsfiq analyze "
            "--report), with the questions that each filter would drop.",
        ),
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
    layout: Annotated[
        list[LayoutName] | None,
        typer.Option(
            metavar="hpfiq|trl|csv|webdataset",
            help="Also write this layout: the published file (hp always has it), TRL's preference "
            "rows, CSV, or shards of WebDataset.",
        ),
    ] = None,
    with_images: Annotated[
        bool,
        typer.Option(
            "--with-images",
            help="Include the image files in images.parquet. Needs a license, and the right to "
            "publish the images.",
        ),
    ] = False,
    without: Annotated[
        list[LeftOutName] | None,
        typer.Option(
            metavar="texts|participant-answers",
            help="Omit participants' free texts, or their answers to the questions at the end.",
        ),
    ] = None,
    about: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A TOML file whose table [release] holds licence, citation, authors, contact, "
            "url, date, name and description [those of study.toml].",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --release, the release's folder; else the parent folder of releases "
            "[releases].",
        ),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            metavar="X.Y.Z", help="The release's version; needed if its content has changed."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing release.")] = False,
) -> None:
    """Write a study's answers as releases (HS and HP of pairs), each with its funnel."""
    from hsfiq.kinds import RELEASE_KINDS
    from hsfiq.releases.export import Recorder, export_releases, sources_of
    from hsfiq.releases.layouts.layouts import Extras
    from hsfiq.study.config_file import read_publication
    from hsfiq.study.filters import Filters, parse_filters

    if release is not None and release not in RELEASE_KINDS:
        what = f"{release!r} is not one of {', '.join(RELEASE_KINDS)}"
        raise UnreadableInput("--release", what, "leave it out for all releases of the study")
    chosen = parse_filters(filters or (), Filters(invalid=filter_invalid))
    options = chosen_split(split, split_seed, test_share)
    extras = Extras(
        layouts=tuple(each.value for each in layout or ()),
        images=with_images,
        without=tuple(each.value for each in without or ()),
        publication=None if about is None else read_publication(about),
    )
    opened = call.open()
    recorder = Recorder(opened, command_line())
    with opened.reading() as session:
        row, kinds = call.chosen(session), [release] if release else None
        if is_explained:
            sources = sources_of(session, row, kinds, chosen, options, extras)
            print_explained(sources, as_json=call.as_json)
            return
        if report is not None:
            source = sources_of(session, row, kinds, chosen)[-1]
            call.print(*report_answers(source, report, force=force))
            common.record_afterwards(opened, Action.DATA_EXPORT, study=row.name, about="report")
            return
        outcomes = export_releases(
            session,
            row,
            kinds,
            chosen,
            options,
            extras,
            parent=out or common.releases_folder(),
            folder=out if release else None,
            version=version,
            force=force,
            in_place=recorder,
        )
    notes = recorder.notes()
    lines = "".join(f"\n\nnote: {note}" for note in notes)
    text = "\n\n".join(describe(outcome) for outcome in outcomes) + lines
    result = {"releases": [as_result(outcome) for outcome in outcomes], "notes": notes}
    call.print(result, text)


def print_explained(sources: Sequence[Source], *, as_json: bool) -> None:
    """Print the questions of these releases that each rule would drop, and all that match it."""
    from hsfiq.releases.content import explain

    texts, results = [], []
    for source in sources:
        funnel, split = explain(source)
        lines = funnel_lines(funnel, split, is_explained=True)
        texts.append("\n".join([f"{source.name}: nothing written", *lines]))
        results.append({"name": source.name, "kind": source.kind} | as_counts(funnel, split))
    common.print_result({"releases": results}, "\n\n".join(texts), as_json=as_json)


def report_answers(source: Source, folder: Path, *, force: bool) -> tuple[dict[str, Any], str]:
    """Write a report of the answers so far; the release that it analyzes is deleted again."""
    from hsfiq.atomic_files import require_free, write_report
    from hsfiq.cli.analyze import reported
    from hsfiq.db.schema import head_revision
    from hsfiq.drafts import Content, tables_of, toml_of
    from hsfiq.kinds import KINDS
    from hsfiq.releases.content import LIVE, write_files
    from hsfiq.releases.export import preview
    from hsfiq.releases.reports import agreement_in
    from hsfiq.study.config import config_of

    require_free(folder, force=force)
    with TemporaryDirectory() as name:
        release = write_files(source, Path(name), schema_revision=head_revision(), version=LIVE)
        facts = preview(source, release, Path(name))
        if KINDS[source.study.kind].has_preferences:
            facts["agreement"] = agreement_in(Path(name))
        result, lines, files = reported(Path(name))
    config = tables_of(config_of(source.study))
    files["study.toml"] = toml_of(Content(config=config), folder).encode()
    files["release.json"] = json.dumps(facts, indent=2).encode()
    write_report(files, folder, force=force)
    return result, "\n".join([*lines, "", f"{folder / 'report.html'}: written"])


def chosen_split(by: SplitBy | None, seed: int | None, test_share: float | None) -> Split | None:
    """Return the split that the options describe, if any; raise `UnreadableInput` for bad ones."""
    from hsfiq.releases.splits import Split

    if by is not None:
        default = Split(by)
        return Split(
            by,
            default.seed if seed is None else seed,
            default.test_share if test_share is None else test_share,
        )
    for option, value in (("--split-seed", seed), ("--test-share", test_share)):
        if value is not None:
            raise UnreadableInput(option, "needs --split", "give --split as well")
    return None


def describe(outcome: Outcome) -> str:
    """Describe a release: its folder, its funnel and its split."""
    release = outcome.release
    state = "written" if outcome.written else "unchanged; nothing was written"
    return "\n".join(
        [
            f"{outcome.folder}: {state}",
            *funnel_lines(release.funnel, release.split),
            *(f"  {note}" for note in release.notes),
            *(f"  warning: {warning}" for warning in release.warnings),
        ]
    )


def funnel_lines(
    funnel: Funnel, split: Mapping[str, Any] | None, *, is_explained: bool = False
) -> list[str]:
    """Describe a funnel, and the parts of a split if there is one."""
    from hsfiq.study.filters import NOT_RECORDED

    def remark(step: FunnelStep) -> str:
        if step.dropped is None:
            return f"  ({NOT_RECORDED})"
        return f"  ({step.broken_by:,} matched)" if is_explained else ""

    width = max([12, *(len(step.rule) for step in funnel.steps)]) + 2
    lines = [f"  {'assigned':<{width}}{'':>8}{funnel.n_assigned:>9,}"]
    lines += [
        f"  {step.rule:<{width}}{'' if step.dropped is None else f'{-step.dropped:,}':>8}"
        f"{step.left:>9,}{remark(step)}"
        for step in funnel.steps
    ]
    if split is not None:
        lines += [f"  split by {split['by']}"]
        lines += [
            f"    {part:<{width - 2}}{'':>8}{count:>9,}" for part, count in split["n"].items()
        ]
    return lines


def as_result(outcome: Outcome) -> dict[str, Any]:
    """Return the JSON result for a release."""
    release = outcome.release
    return {
        "folder": str(outcome.folder),
        "name": release.name,
        "version": release.version,
        "kind": release.kind,
        "written": outcome.written,
        **as_counts(release.funnel, release.split),
        "notes": list(release.notes),
        "warnings": list(release.warnings),
    }


def as_counts(funnel: Funnel, split: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the JSON result for a funnel and a split."""
    return {
        "assigned": funnel.n_assigned,
        "funnel": [asdict(step) for step in funnel.steps],
        "kept": funnel.n_kept,
        "split": split,
    }
