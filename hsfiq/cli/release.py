"""`hsfiq release`: list, verify, compare, merge and share releases."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli import common
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text, one_line

if TYPE_CHECKING:
    from hsfiq.collect.question_history import AnswerInRelease, ReleaseRecord
    from hsfiq.releases.diff import ReleaseDiff, TableDiff
    from hsfiq.releases.push import Upload
    from hsfiq.releases.verify_rows import Findings

app = common.Commands(help="List, verify, compare and share releases.", no_args_is_help=True)


ReleaseArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A release folder, made by hsfiq export.")
]


@app.command(epilog="Example: hsfiq release verify releases/my-study-hp-1.0.0")
def verify(folder: ReleaseArgument, as_json: common.JsonOption = False) -> None:
    """Verify the integrity of a release.

    Digests, types, ranges, references between tables, the funnel, the split and further files are
    checked. If rows are invalid, the first ones are printed, and the exit code is 1.
    """
    from hsfiq.releases.verify import verify as verify_folder

    findings = verify_folder(folder)
    common.print_result(as_result(folder, findings), verify_text(folder, findings), as_json=as_json)
    if findings.n:
        raise typer.Exit(1)


def as_result(folder: Path, findings: Findings) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "valid": not findings.n,
        "n_findings": findings.n,
        "findings": [asdict(finding) for finding in findings.first],
        "notes": findings.notes,
    }


def verify_text(folder: Path, findings: Findings) -> str:
    lines = [str(finding) for finding in findings.first]
    if findings.n > len(lines):
        lines.append(f"... and {findings.n - len(lines):,} more")
    summary = count_text(findings.n, "finding") if findings.n else "valid"
    notes = [f"note: {note}" for note in findings.notes]
    return "\n".join([*lines, *notes, f"{folder}: {summary}"])


# `hsfiq release list`: the releases that a database has recorded, and the answers since.


@app.command("list", epilog="Example: hsfiq release list --participant p7")
def list_(
    call: common.JsonCall,
    study: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only releases of this study.")
    ] = None,
    participant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help=f"Only releases with answers of one. {common.PARTICIPANT_HELP}"
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Show which revision of this answer each release contains: p7.form_1.0.",
        ),
    ] = None,
) -> None:
    """List the releases written by hsfiq export.

    The releases recorded in the database are listed, oldest first, each with the number of later
    answers.
    """
    from hsfiq.collect.owner import exports_with
    from hsfiq.collect.participants import by_name_or_platform_id
    from hsfiq.collect.question_history import find_question, records_of, releases_of_answer
    from hsfiq.collect.studies import list_studies

    if participant is not None and question is not None:
        raise UnreadableInput(
            "--participant", "cannot be combined with --question", "leave one out"
        )
    answers: list[AnswerInRelease] = []
    of_study = "" if study is None else f" of study {study}"
    empty = f"no release{of_study} yet: write one with hsfiq export"
    with call.reading() as session:
        if participant is not None:
            row = common.chosen_study(session, study)
            person = by_name_or_platform_id(session, row, participant)
            only = [release.id for release in exports_with(session, person.id)]
            records = records_of(session, row, only)
            empty = f"no release of study {row.name} has answers of {participant}"
        elif question is not None:
            row = common.chosen_study(session, study)
            key = find_question(session, row, question)
            if key is None:
                raise UnreadableInput("--question", f"study {row.name} has no {question[:80]!r}")
            by_release = releases_of_answer(session, key)
            records, answers = records_of(session, row, [*by_release]), [*by_release.values()]
            empty = f"no release of study {row.name} has an answer to {question}"
        else:
            rows = list_studies(session) if study is None else [common.chosen_study(session, study)]
            records = [record for row in rows for record in records_of(session, row)]
    results = [record.facts() for record in records]
    columns = ["release", "version", "exported (UTC)", "filters", "answers", "since then"]
    lines = [list_row(record) for record in records]
    for place, answer in enumerate(answers):
        results[place]["answer"] = answer._asdict()
        lines[place] += (f"{'has' if answer.is_kept else 'dropped'} revision {answer.revision}",)
    text = common.table_text([*columns, "answer"] if answers else columns, lines)
    call.print({"releases": results}, text or empty)


def list_row(record: ReleaseRecord) -> tuple[str | int, ...]:
    """The release with its filters, and what has changed since it was written."""
    from hsfiq.text import count_text

    since = record.since
    if record.n_forgotten:
        people = count_text(record.n_forgotten, "participant")
        since += f"; has answers of {people} whose data were deleted"
    return (
        *(record.name, record.version, f"{record.last_exported_at:%Y-%m-%d %H:%M}"),
        *(", ".join(map(filter_text, record.filters)), record.n_answers, since),
    )


def filter_text(filter_: dict[str, Any]) -> str:
    """`unseen`, or `too-fast(seconds=2)`."""
    values = ", ".join(f"{name}={value:g}" for name, value in filter_["parameters"].items())
    return f"{filter_['name']}({values})" if values else str(filter_["name"])


# `hsfiq release diff`: what differs between two releases, and which figures moved.

RESAMPLES = 500
OF_INTERVALS = {"low", "high", "p", "p_clustered", "df", "n_clusters"}
"""Columns of the figures that describe the interval or the test of a figure."""


@app.command(epilog="Example: hsfiq release diff releases/a-hp-1.0.0 releases/a-hp-1.1.0")
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A release folder.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another release of the same kind.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Also compare the results of this metric, such as recall@5.",
        ),
    ] = None,
    as_json: common.JsonOption = False,
) -> None:
    """Compare the rows and the figures of two releases.

    Rows that were added, removed or changed are listed.
    """
    from hsfiq.releases.diff import diff as diff_folders

    compared = diff_folders(before, after)
    figures = moved_figures(before, after, metric) if metric else {}
    result = {
        "a": str(before),
        "b": str(after),
        "differs": compared.differs,
        "facts": compared.facts,
        "tables": {name: asdict(table) for name, table in compared.tables.items()},
        "figures": figures,
    }
    common.print_result(result, diff_text(compared, figures), as_json=as_json)


def moved_figures(before: Path, after: Path, metrics: list[str]) -> dict[str, dict[str, Any]]:
    """The figures of `hsfiq analyze` that differ, with n and the interval in each release."""
    first, second = figures_of(before, metrics), figures_of(after, metrics)
    moved = {}
    for name in dict.fromkeys([*first, *second]):
        figure, changed = first.get(name, {}), second.get(name, {})
        if any(figure.get(key) != changed.get(key) for key in {*figure, *changed} - OF_INTERVALS):
            moved[name] = {"a": figure, "b": changed}
    return moved


def figures_of(folder: Path, metrics: list[str]) -> dict[str, dict[str, Any]]:
    """The figures of a release by their place in the analysis."""
    with common.requires("analysis"):
        from hsfiq.analysis.data.kind_release import kind_of
        from hsfiq.analysis.kinds import STATISTICS
    from hsfiq.releases.folder import require_readable

    require_readable(folder)
    kind = kind_of(folder)
    if kind == "arena":
        what = "an arena's votes are about lists of live systems, which have no metrics"
        raise UnreadableInput("--metric", what, "leave it out")
    if kind in STATISTICS:
        from hsfiq.analysis.analyze import load_kind_inputs
        from hsfiq.analysis.kinds.kind import analyze_judged

        of_kind = load_kind_inputs(folder, metrics, n_resamples=RESAMPLES)
        frame = analyze_judged(
            of_kind.release, of_kind.statistics, of_kind.metrics, of_kind.bootstrap
        ).to_frame()
    else:
        from hsfiq.analysis.analyze import analyze, load_inputs

        inputs = load_inputs(folder, metrics, n_resamples=RESAMPLES)
        frame = analyze(inputs.release, inputs.metrics, inputs.bootstrap).to_frame()
    return {
        str(name): {str(key): value for key, value in row.items() if is_number(value)}
        for name, row in frame.to_dict(orient="index").items()
        if name not in ("", "release")
    }


def is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not math.isnan(value)


def diff_text(compared: ReleaseDiff, figures: dict[str, dict[str, Any]]) -> str:
    lines = [
        f"{name}: {short(value)} -> {short(changed)}"
        for name, (value, changed) in compared.facts.items()
    ]
    for name, table in compared.tables.items():
        lines += table_lines(name, table)
    if not compared.differs:
        lines.append("the tables have the same rows")
    for name, sides in figures.items():
        lines.append(f"{one_line(name)}: {figure_text(sides['a'])} -> {figure_text(sides['b'])}")
    return "\n".join(lines)


def table_lines(name: str, table: TableDiff) -> list[str]:
    if table.only_in is not None:
        return [f"{name}: only in {table.only_in}"]
    if not table.differs:
        return []
    rows = f"{table.n_before:,} -> {table.n_after:,} rows"
    counts = f"{table.n_added:,} added, {table.n_gone:,} gone, {table.n_changed:,} changed"
    lines = [f"{name}: {rows}; {counts}"]
    lines += [f"  + {short(key)}" for key in table.added]
    lines += [f"  - {short(key)}" for key in table.gone]
    lines += [
        f"  ~ {short(key)}: {', '.join(change_text(*each) for each in changes.items())}"
        for key, changes in table.changed.items()
    ]
    if table.n_changed > len(table.changed):
        counts = ", ".join(f"{column} {n:,}" for column, n in table.changed_columns.items())
        lines.append(f"  rows changed by column: {counts}")
    return lines


def change_text(column: str, values: tuple[Any, Any]) -> str:
    return f"{column} {short(values[0])} -> {short(values[1])}"


def short(value: object) -> str:
    text = one_line(str(value))
    return text if len(text) <= 70 else f"{text[:67]}..."


def figure_text(figure: dict[str, Any]) -> str:
    if not figure:
        return "none"
    values = [f"{name} {value:.4g}" for name, value in figure.items() if name not in OF_INTERVALS]
    interval = (
        f" [{figure['low']:.4g}, {figure['high']:.4g}]" if {"low", "high"} <= figure.keys() else ""
    )
    return f"{', '.join(values)}{interval}"


# `hsfiq release merge`: the releases of several groups as one.


@app.command(epilog="Example: hsfiq release merge ours theirs --out both --name both")
def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="A B...", help="Release folders of one kind.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new release folder.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="The study's name.")] = "merged",
    title: Annotated[
        str, typer.Option(metavar="TEXT", help="The study's title; by default that of A.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="The seed of the new pseudonyms.")] = 0,
    version: Annotated[
        str, typer.Option(metavar="X.Y.Z", help="The version of the release.")
    ] = "1.0.0",
    as_json: common.JsonOption = False,
) -> None:
    """Merge releases of one kind.

    They must have the same scale, wording and filters. Participants of different releases are never
    joined and get new pseudonyms. Different queries with the same id get new ids; the same applies
    to live systems.
    """
    from hsfiq.cli.export import as_result, describe
    from hsfiq.errors import UnreadableInput
    from hsfiq.releases.export import full_version
    from hsfiq.releases.folder import has_packed_images
    from hsfiq.releases.merge import merge_releases
    from hsfiq.study.config import require_study_name

    if len(folders) < 2:
        raise UnreadableInput("A B...", "names only one release", "name two or more")
    require_study_name(name)
    full = full_version(version)
    outcome = merge_releases(folders, out, name=name, title=title, seed=seed, version=full)
    common.print_result(as_result(outcome), describe(outcome), as_json=as_json)
    if any(map(has_packed_images, folders)):
        common.note("note: the packed images are not in the merged release")


# `hsfiq release push`: a release to the Hugging Face hub.


@app.command(epilog="Example: hsfiq release push releases/a-hp-1.0.0 --repo our-group/a --dry-run")
def push(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    repo: Annotated[
        str,
        typer.Option(
            metavar="OWNER/NAME", help="The dataset repository; created if it does not exist."
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the files to upload; upload nothing.")
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Create a private repository.")
    ] = False,
    as_json: common.JsonOption = False,
) -> None:
    """Verify a release and upload it to the Hugging Face hub.

    The release needs a license. Log in first, with `hf auth login` or the variable HF_TOKEN.
    """
    from hsfiq.releases.push import plan_upload

    upload = plan_upload(folder, repo)
    url = None
    if not dry_run:
        with common.requires("hub"):
            from hsfiq.releases.push import push as push_upload
        url = push_upload(upload, private=private)
    result = asdict(upload) | {
        "folder": str(folder),
        "bytes": upload.n_bytes,
        "private": private,
        "uploaded": not dry_run,
        "commit": url,
    }
    common.print_result(result, push_text(upload, url, private=private), as_json=as_json)


def push_text(upload: Upload, url: str | None, *, private: bool) -> str:
    lines = [
        f"repository: {upload.repo}{' (private)' if private else ''}",
        f"license: {upload.licence}",
        f"version: {upload.version}",
        *(f"  {n_bytes:>13,}  {name}" for name, n_bytes in upload.files.items()),
        f"  {upload.n_bytes:>13,}  bytes in {len(upload.files)} files",
    ]
    last = f"uploaded: {url}" if url else "nothing was uploaded"
    return "\n".join([*lines, last])
