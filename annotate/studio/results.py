"""The page "Results": a study's report, links to it, its releases and downloads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import tomli_w
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from sqlalchemy.orm import Session

from hsfiq.actors import Permission
from hsfiq.annotate.owner.downloads import chunks, zip_of_folder
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.pages import message_page, offer_of
from hsfiq.annotate.studio.learning import (
    JOB_ACTS,
    LEARNING_ACTS,
    PUSH,
    RELEASE,
    SCORE,
    TRAIN,
    can_learn_from,
    checkpoints,
    first_words,
    jobs_view,
)
from hsfiq.annotate.studio.shell import (
    SANDBOX,
    Act,
    Desk,
    Page,
    Said,
    Studio,
    desk_of,
    file_response,
    files_in,
)
from hsfiq.annotate.texts import consent_with, html_of, kept_of_address
from hsfiq.collect.participant_row import StudyRow
from hsfiq.collect.question_history import question_history, records_of
from hsfiq.collect.review import hides_results
from hsfiq.db.studio_tables import Job
from hsfiq.db.tables import Study
from hsfiq.errors import Refused, Unavailable, UnreadableInput
from hsfiq.jobs import FOLDER, add_job, job_folder
from hsfiq.kinds import release_kinds_of
from hsfiq.releases.content import FIRST_VERSION
from hsfiq.releases.export import full_version, next_version, version_key
from hsfiq.releases.reports import (
    REPORT,
    MadeRelease,
    forget_old_reports,
    links_to_reports,
    newest_report,
    release_made,
    releases_home,
    releases_made,
    report_of_link,
    require_shown,
    revoke_report,
    share_report,
)
from hsfiq.study.config import config_of
from hsfiq.study.filters import parse_filter, parse_filters
from hsfiq.study.publication import publication_errors

STEPS = (REPORT, RELEASE, PUSH)
"""The kinds of jobs that the page itself shows."""

# What the page shows.


@dataclass(frozen=True, slots=True)
class Computed:
    """The newest report: its job, its first words, and the content of a release."""

    job: int
    at: datetime
    first: Mapping[str, Any]
    release: Mapping[str, Any]
    files: Mapping[str, Path]

    def size(self, name: str) -> int:
        return self.files[name].stat().st_size if name in self.files else 0


def view(desk: Desk) -> Mapping[str, object]:
    with desk.reading() as (session, study):
        is_shown = not hides_results(session, study)
        computed = computed_of(desk, newest_report(session, study.id))
        releases = releases_made(session, desk.database, study) if is_shown else []
        known = {release.folder.name for release in releases}
        records = records_of(session, study) if is_shown else []
        jobs = jobs_view(session, desk, study.id, STEPS)
        link = getattr(desk.request.state, "link", "")
        learning_jobs = jobs_view(session, desk, study.id, (SCORE, TRAIN))
        is_active = any(job.is_active for job in [*jobs, *learning_jobs])
        return {
            "title": desk.t("Results"),
            "study": study,
            "tab": "results",
            "is_shown": is_shown,
            "computed": computed,
            "jobs": [job for job in jobs if job.is_active or (job is jobs[0] and job.is_news)],
            "ticks": list(ticks(desk, study, computed)) if computed else [],
            "links": links_to_reports(session, study.id) if desk.may("manage") else [],
            "link": link,
            "releases": releases,
            "elsewhere": [row for row in records if f"{row.name}-{row.version}" not in known],
            "next_version": next_free(releases),
            "examples": examples(session, study, computed) if computed and is_shown else {},
            "stated": asdict(config_of(study).release)
            | ((releases[0].manifest.get("publication") or {}) if releases else {}),
            "can_push": can_push(),
            "learning_jobs": learning_jobs,
            "checkpoints": checkpoints(session, desk),
            "scored": [release for release in releases if can_learn_from(study, release)],
            "refresh": 3 if is_active and not link else 0,
        }


def computed_of(desk: Desk, job: Job | None) -> Computed | None:
    if job is None or job.ended_at is None:
        return None
    folder = job_folder(desk.database, job.id) / REPORT
    first = first_words(folder)
    try:
        release = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Computed(job.id, job.ended_at, first, release, files_in(folder)) if first else None


def examples(session: Session, study: Study, computed: Computed) -> Mapping[str, Sequence[Any]]:
    """The questions with most and least agreement, without people whose data were deleted."""
    return {
        name: [
            (row, shown)
            for row in rows
            if (shown := question_history(session, study, row["question"]))
        ]
        for name, rows in computed.release.get("agreement", {}).items()
    }


RULES = {"invalid": ("irrelevant", "contradicts")}
"""The rules of filters that have several."""


def ticks(desk: Desk, study: Study, computed: Computed) -> Iterator[Mapping[str, object]]:
    """The filters, with how many answers break each; those of study.toml have its numbers."""
    declared = {parse_filter(text)[0]: text for text in config_of(study).analysis.exclusions}
    chosen = chosen_filters(desk, study, computed)
    broken = computed.release["broken_by"]
    for possible in computed.release["possible"]:
        kind, _ = parse_filter(possible)
        name = declared.get(kind, possible)
        counts = {rule: broken.get(rule) for rule in RULES.get(kind, (possible,))}
        yield {
            "name": name,
            "kind": kind,
            "number": "".join(c for c in name if c.isdigit() or c == "."),
            "counts": {rule: n for rule, n in counts.items() if n is not None},
            "is_on": name in chosen,
        }


def chosen_filters(desk: Desk, study: Study, computed: Computed | None) -> list[str]:
    """The filters of the address, else of the report, else those declared before the launch."""
    asked = desk.request.query_params.get("filters")
    if asked is not None:
        return parse_filters(filter(None, asked.split(","))).names()
    if computed is not None:
        return list(computed.release["filters"])
    return list(config_of(study).analysis.exclusions)


def next_free(releases: Sequence[MadeRelease]) -> str:
    versions = [release.manifest["version"] for release in releases]
    return next_version(max(versions, key=version_key)) if versions else FIRST_VERSION


def can_push() -> bool:
    """Whether releases can be uploaded: the hub's client is installed and logged in."""
    try:
        from huggingface_hub import get_token  # noqa: PLC0415 -- an extra
    except ImportError:
        return False
    return get_token() is not None


# What the page does.


def tick(desk: Desk) -> Said:
    """Choose a filter or leave it out; which ones are chosen is in the page's address."""
    name = desk.text("field")
    kind, _ = parse_filter(name)
    with desk.reading() as (session, study):
        before = chosen_filters(desk, study, computed_of(desk, newest_report(session, study.id)))
    chosen = [text for text in before if parse_filter(text)[0] != kind]
    chosen += [name] if desk.given.get("value") is True else []
    return Said(go=f"?filters={','.join(parse_filters(chosen).names())}")


def compute(desk: Desk) -> Said:
    """Compute the report of the answers so far that the chosen filters keep."""
    with desk.writing() as (session, study):
        filters = chosen_filters(desk, study, computed_of(desk, newest_report(session, study.id)))
        forget_old_reports(session, study.id)
        command = ["export", "--study", study.name, "--report", f"{FOLDER}/{REPORT}", "--force"]
        add_job(
            session,
            desk.actor,
            REPORT,
            desk.t("Report of {study}", study=study.title),
            [[*command, *options(filters)]],
            study_id=study.id,
        )
    return Said(desk.t("The report is being computed; this takes about a minute."))


def options(filters: Sequence[str]) -> list[str]:
    return [part for name in filters for part in ("--filter", name)]


def share(desk: Desk) -> Said:
    with desk.writing() as (session, study):
        shared = share_report(session, desk.actor, study, desk.text("once"))
    desk.request.state.link = f"{desk.request.base_url}shared/{shared.token}/"
    return Said(desk.t("Copy the link now: it is shown only once."))


def revoke(desk: Desk) -> Said:
    with desk.writing() as (session, study):
        revoke_report(session, desk.actor, study, desk.number("link"))
    return Said(desk.t("The link no longer works."))


def make(desk: Desk) -> Said:
    """Make a release of every kind that the study has, compare it with the last, and verify it."""
    with desk.writing() as (session, study):
        require_shown(session, study)
        computed = computed_of(desk, newest_report(session, study.id))
        version, publication = full_version(desk.text("version")), publication_of(desk, study)
        home = releases_home(desk.database, study)
        before = releases_made(session, desk.database, study)
        commands = [
            [
                *("export", "--study", study.name, "--out", str(home), "--version", version),
                *("--about", f"{FOLDER}/about.toml", "--layout", "csv"),
                *options(chosen_filters(desk, study, computed)),
                *extras_of(desk),
            ]
        ]
        for kind in release_kinds_of(study.kind):
            folder = str(home / f"{study.name}-{kind}-{version}")
            last = [
                release
                for release in before
                if release.manifest["kind"] == kind and release.manifest["version"] != version
            ]
            if last:
                commands.append(["release", "diff", str(last[0].folder), folder])
            commands.append(["release", "verify", folder])
        about = desk.t("Release {version} of {study}", version=version, study=study.title)
        job = add_job(session, desk.actor, RELEASE, about, commands, study_id=study.id)
        folder_of_job = job_folder(desk.database, job.id)
        folder_of_job.mkdir(parents=True)
        stated = tomli_w.dumps({"release": publication})
        (folder_of_job / "about.toml").write_text(stated, encoding="utf-8")
    return Said(desk.t("Release {version} is being made.", version=version))


def publication_of(desk: Desk, study: Study) -> dict[str, Any]:
    """The study's description of its releases, with the entered values."""
    publication = replace(
        config_of(study).release,
        licence=desk.text("licence").strip(),
        name=desk.text("name").strip(),
        description=desk.text("description").strip(),
    )
    for key, what in publication_errors(publication):
        raise UnreadableInput(key.removeprefix("release."), what)
    return {name: value for name, value in asdict(publication).items() if value}


SPLITS = ("triplet", "participant", "both")


def extras_of(desk: Desk) -> Iterator[str]:
    split = desk.text("split")
    if split and split not in SPLITS:
        raise Refused("there is no such split")
    yield from ("--split", split) if split else ()
    if desk.text("images"):
        yield "--with-images"
    for name in ("texts", "participant-answers"):
        if desk.text(name):
            yield from ("--without", name)


def verify(desk: Desk) -> None:
    queue_release(desk, RELEASE, "Check {release}", "verify")


def push(desk: Desk) -> None:
    """Publish a release on the Hugging Face hub."""
    if not can_push():
        raise Refused("the server has no access to the hub", remedy="set HF_TOKEN for hsfiq serve")
    repo = desk.text("repo").strip()
    if not repo or repo.startswith("-"):
        raise Refused("name a repository, such as our-group/lamps")
    private = ["--private"] if desk.text("private") else []
    queue_release(desk, PUSH, "Publish {release}", "push", "--repo", repo, *private)


def queue_release(desk: Desk, kind: str, about: str, command: str, *options: str) -> None:
    with desk.writing() as (session, study):
        release = release_made(session, desk.database, study, desk.text("release"))
        commands = [["release", command, str(release.folder), *options]]
        line = desk.t(about, release=release.title)
        add_job(session, desk.actor, kind, line, commands, study_id=study.id)


ACTS: Mapping[str, Act] = {
    "tick": tick,
    "compute": compute,
    "share": share,
    "revoke": revoke,
    "make": make,
    "verify": verify,
    "push": push,
    **JOB_ACTS,
    **LEARNING_ACTS,
}
EXPORTING = ("tick", "compute", "make", "verify", *JOB_ACTS)
RESULTS = Page(
    "study/{study_id}/results",
    "studio_results.html",
    view,
    ACTS,
    needs=dict.fromkeys(EXPORTING, Permission.EXPORT),
)

# What people read, to be printed.


def texts_view(desk: Desk) -> Mapping[str, object]:
    with desk.reading() as (session, study):
        row = StudyRow.of(study)
        return {
            "title": desk.t("Questionnaire and consent"),
            "study": study,
            "tab": "results",
            "parts": [texts_read(session, row, tag) for tag in row.config.study.languages],
        }


def texts_read(session: Session, study: StudyRow, language: str) -> Mapping[str, object]:
    offer = offer_of(session, study, language, is_full=False)
    texts, mode = offer["texts"], study.config.recruitment.mode
    kept = [] if mode == "invitation" else kept_of_address(study.config, study.origin, texts)
    consent = consent_with(texts, study.config, mode, offer["facts"], kept)
    return {"texts": texts, "consent": html_of(consent), "guidelines": html_of(texts.guidelines)}


TEXTS = Page("study/{study_id}/texts", "studio_results_texts.html", texts_view)

# The files of reports and releases.


def add_reports(app: FastAPI, studio: Studio) -> None:
    base = f"{OWNER}/study/{{study_id}}"

    @app.get(f"{base}/report/{{job_id}}/{{path:path}}")
    def report(request: Request, job_id: int, path: str) -> Response:
        """A file of the report that a job of the study has made, or all in an archive."""
        desk = desk_of(studio, request, Permission.READ)
        return or_missing(lambda: report_file(desk, job_id, path))

    @app.get(f"{base}/release/{{file}}")
    def release(request: Request, file: str) -> Response:
        """A release as NAME.zip, or its tables as NAME.xlsx."""
        desk = desk_of(studio, request, Permission.EXPORT)
        return or_missing(lambda: release_file(desk, file))


def or_missing(make: Callable[[], Response]) -> Response:
    try:
        return make()
    except Unavailable:
        raise
    except Refused as error:
        return PlainTextResponse(str(error), 404, headers=SANDBOX)


def report_file(desk: Desk, job_id: int, path: str) -> Response:
    with desk.reading() as (session, study):
        require_shown(session, study)
        job = session.get(Job, job_id) if job_id < 2**31 else None
    if job is None or job.study_id != study.id:
        raise Refused("there is no such report")
    folder, name = job_folder(desk.database, job.id) / REPORT, f"{study.name}-report"
    if path == "all.zip":
        return download(chunks(zip_of_folder(folder, name)), f"{name}.zip")
    return file_response(folder, path)


def release_file(desk: Desk, file: str) -> Response:
    name, _, kind = file.rpartition(".")
    with desk.reading() as (session, study):
        release = release_made(session, desk.database, study, name)
    if kind == "xlsx":
        return download([workbook(release)], file)
    if kind == "zip":
        return download(chunks(zip_of_folder(release.folder, name)), file)
    raise Refused("there is no such file")


def download(content: Iterable[bytes], name: str) -> Response:
    """A file that the browser saves; every study name is valid in a header."""
    media = MEDIA_TYPES[name.rpartition(".")[2]]
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(content, media_type=media, headers=headers)


MEDIA_TYPES = {
    "zip": "application/zip",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
MOST_ROWS = 1_048_576
"""Of a sheet of Excel."""


def workbook(release: MadeRelease) -> bytes:
    """The tables of a release as sheets; `Refused` if Excel cannot hold them."""
    try:
        from openpyxl import Workbook  # noqa: PLC0415 -- no dependency
    except ImportError as error:
        raise Refused("openpyxl is not installed", remedy="take the tables as CSV") from error
    from hsfiq.releases.folder import read_table  # noqa: PLC0415
    from hsfiq.releases.layouts.csv_files import cell  # noqa: PLC0415

    book = Workbook(write_only=True)
    for path in sorted(release.folder.glob("*.parquet")):
        table = read_table(path)
        if table.num_rows >= MOST_ROWS:
            raise Refused(f"{path.stem} has too many rows for Excel", remedy="take them as CSV")
        if path.stem == "images":
            continue
        sheet = book.create_sheet(path.stem[:31])
        sheet.append(table.column_names)
        for batch in table.to_batches():
            for row in batch.to_pylist():
                sheet.append([cell(value) for value in row.values()])
    content = BytesIO()
    book.save(content)
    return content.getvalue()


# Reports for people without an account.


def add_shared_reports(app: FastAPI, studio: Studio) -> None:
    @app.get("/shared/{token}")
    def slash(token: str) -> Response:
        return RedirectResponse(f"{token}/", 308) if token.isascii() else NO_REPORT

    @app.get("/shared/{token}/{path:path}")
    def shared(token: str, path: str) -> Response:
        with studio.database.reading() as session:
            job = report_of_link(session, token)
        if job is None:
            return NO_REPORT
        return file_response(job_folder(studio.database, job.id) / REPORT, path or "report.html")


NO_REPORT_PAGE = message_page("hsfiq", "en", "No report", "The link is not valid, or was revoked.")
NO_REPORT = HTMLResponse(NO_REPORT_PAGE, 404, headers=SANDBOX)
