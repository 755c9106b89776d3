"""The page "Results": the report, links to it, releases, and learning from them."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from hsfiq.actors import OWNER, Role
from hsfiq.annotate.pages import FOLDER
from hsfiq.db.engine import Database
from hsfiq.db.studio_tables import Job, SharedReport, Unblinding
from hsfiq.db.tables import AuditEntry, Study
from hsfiq.jobs import Worker, add_job, job_folder, uploads_home
from hsfiq.releases.reports import agreement_in
from hsfiq.releases.verify import verify
from tests.annotate.owner.studies_in_progress import add_account, log_in, watched_study
from tests.annotate.served_studies import SYSTEMS, Place, browser_of
from tests.annotate.studio.conftest import StudioClient, studio_in
from tests.hsfiq.releases.hub_server import TOKEN, served_hub
from tests.hsfiq.samples import hsfiq
from tests.processes import forked_jobs

RESULTS = "study/1/results"


def run_jobs(database: Database, *, in_new_interpreters: bool = False) -> None:
    worker = Worker(database, Event())
    with nullcontext() if in_new_interpreters else forked_jobs():
        while (job := worker.next_job()) is not None:
            worker.run_job(job)


def set_status(database: Database, status: str) -> None:
    with database.writing() as session:
        session.execute(update(Study).values(status=status))


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a closed study whose report has been computed by a job."""
    place = Place(tmp_path_factory.mktemp("reported"))
    watched_study(place).close()
    studio = studio_in(place)
    set_status(studio.database, "closed")
    assert studio.act(RESULTS, "compute").status_code == 200
    run_jobs(studio.database)
    studio.database.close()
    return place.folder


@pytest.fixture
def results(reported: Path, tmp_path: Path) -> Iterator[StudioClient]:
    shutil.copytree(reported, tmp_path, dirs_exist_ok=True)
    studio = studio_in(Place(tmp_path))
    yield studio
    studio.database.close()


def jobs(database: Database) -> list[Job]:
    with database.reading() as session:
        return [*session.scalars(select(Job).order_by(Job.id))]


def actions(database: Database) -> list[tuple[str, str, str | None, str]]:
    with database.reading() as session:
        rows = session.scalars(select(AuditEntry).order_by(AuditEntry.id))
        return [(row.actor, row.action, row.study, row.about) for row in rows]


def member(studio: StudioClient, role: Role) -> TestClient:
    add_account(studio.database, role.value + "-kim", role)
    client = browser_of(studio.app)
    assert log_in(client, name=role.value + "-kim").status_code == 303
    return client


# The report.


def test_the_report_is_in_the_page(results: StudioClient) -> None:
    (job,) = jobs(results.database)
    assert (job.state, job.kind, job.created_by) == ("done", "report", "owner")
    page = results.get(RESULTS).text
    assert "3 people, 14 answers" in page
    assert "6 answers of people who are left out are not counted" in page
    assert "telltale-beta" in page
    assert "In 14 paired comparisons by 3 people" in page
    assert ("owner", "data.export", "telltale-study", "report") in actions(results.database)
    report = results.get(f"study/1/report/{job.id}/report.html")
    assert report.status_code == 200
    assert report.headers["content-security-policy"].startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in report.headers["content-security-policy"]
    assert results.get(f"study/1/report/{job.id}/figures/systems.svg").status_code == 200
    assert 'name = "telltale-study"' in results.get(f"study/1/report/{job.id}/study.toml").text
    archive = results.get(f"study/1/report/{job.id}/all.zip")
    assert archive.headers["content-disposition"].endswith('"telltale-study-report.zip"')
    assert (
        "telltale-study-report/section.tex" in zipfile.ZipFile(BytesIO(archive.content)).namelist()
    )


def test_agreement_is_shown_with_images(results: StudioClient) -> None:
    page = results.get(RESULTS).text
    most = page.split('aria-label="Where people agreed most">')[1].split("</section>")[0]
    assert "all 2 prefer telltale-" in most
    image = re.search(r'src="[^"]*/owner/(image/[^"]+)"', most)
    assert image is not None
    assert results.get(image[1]).headers["content-type"].startswith("image/")
    set_status(results.database, "open")
    assert "Where people agreed most" not in results.get(RESULTS).text


def test_the_largest_lead_is_the_most_agreement(tmp_path: Path) -> None:
    preferred = {"A": "111", "B": "11211", "C": "12", "D": "001", "E": "1", "F": "22"}
    rows = [
        {
            "question_id": f"{pair}{n}",
            "pair_id": pair,
            "preferred": int(side) if n % 2 == 0 or side == "0" else 3 - int(side),
            "system_1": ("mine", "theirs")[n % 2],
            "system_2": ("theirs", "mine")[n % 2],
        }
        for pair, sides in preferred.items()
        for n, side in enumerate(sides)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "preferences.parquet")
    agreement = agreement_in(tmp_path)
    assert [each["question"][0] for each in agreement["most"]] == ["A", "B", "F"]
    assert [each["question"][0] for each in agreement["least"]] == ["C", "D"]
    assert [each["votes"] for each in agreement["most"]] == [
        {"mine": 3}, {"mine": 4, "theirs": 1}, {"theirs": 2}
    ]  # fmt: skip


def test_what_people_read_can_be_printed(results: StudioClient) -> None:
    page = results.get(RESULTS).text
    assert all(f'study/1/{file}"' in page for file in ("texts", "pay.csv"))
    texts = results.get("study/1/texts").text
    assert "Before you begin" in texts
    assert "<h3>Guidelines</h3>" in texts
    assert member(results, Role.HELPER).get("/owner/study/1/texts").status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "report/1/../log.txt", "report/1/..%2flog.txt", "report/1/%2e%2e/log.txt", "report/1/",
        "report/1//etc/passwd", "report/1/%2fetc%2fpasswd", "report/1/figures",
        "report/2/report.html",
        "report/99999999999/report.html", "report/-1/report.html", "release/..zip", "release/x.zip",
        "release/..%2f..%2fhsfiq.zip", "release/telltale-study-hp-1.0.0.exe",
    ],
)  # fmt: skip
def test_other_files_are_not_served(results: StudioClient, path: str) -> None:
    reply = results.client.get(f"/owner/study/1/{path}")
    assert reply.status_code in (307, 404, 422), reply.text
    assert "$ hsfiq" not in reply.text


def test_files_of_another_studys_report_are_not_served(results: StudioClient) -> None:
    with results.database.writing() as session:
        session.execute(update(Job).values(study_id=None))
    assert results.get("study/1/report/1/report.html").status_code == 404


def test_links_in_a_report_folder_are_not_followed(results: StudioClient, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = job_folder(results.database, 1) / "report"
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    assert results.get("study/1/report/1/link.txt").status_code == 404


@pytest.mark.parametrize("number", ["0", "2", "x", "99999999999999999999", "-1", "1%00"])
def test_a_study_that_is_not_there_has_no_results(results: StudioClient, number: str) -> None:
    assert results.get(f"study/{number}/results").status_code == 404
    assert results.act(f"study/{number}/results", "compute").status_code == 422


def test_a_report_is_computed_once_at_a_time(results: StudioClient) -> None:
    assert results.act(RESULTS, "compute").json()["say"]
    again = results.act(RESULTS, "compute")
    assert (again.status_code, "already" in again.json()["error"]) == (422, True)
    assert [job.state for job in jobs(results.database)] == ["done", "waiting"]
    page = results.get(RESULTS).text
    assert "data-refresh" in page
    assert ">Cancel it</button>" in page


def test_old_reports_are_forgotten_unless_somebody_has_a_link(results: StudioClient) -> None:
    def ended_report() -> int:
        with results.database.writing() as session:
            job = add_job(session, OWNER, "report", "A report", [], study_id=1)
            job.state, job.ended_at = "done", datetime.now(UTC)
            return job.id

    results.act(RESULTS, "share")
    second, third = ended_report(), ended_report()
    assert results.act(RESULTS, "compute").status_code == 200
    numbers = [job.id for job in jobs(results.database)]
    assert numbers == [1, third, third + 1]
    assert second not in numbers


def test_a_report_that_cannot_be_computed_says_why(results: StudioClient) -> None:
    assert results.act(f"{RESULTS}?filters=too-fast(seconds=999)", "compute").status_code == 200
    run_jobs(results.database)
    page = results.get(RESULTS).text
    assert "nothing to export" in page
    assert ">Try again</button>" in page
    assert "In 14 paired comparisons" in page  # the last report stays
    assert results.act(RESULTS, "try_again", job=2).status_code == 200
    assert jobs(results.database)[1].state == "waiting"


def test_filters_are_chosen_in_the_address(results: StudioClient) -> None:
    page = results.get(RESULTS).text
    assert "1 answer says the request makes no sense" in page
    go = results.act(RESULTS, "tick", field="unseen", value=True).json()["go"]
    assert go == "?filters=unseen"
    go = results.act(RESULTS + go, "tick", field="invalid", value=True).json()["go"]
    assert go == "?filters=invalid,unseen"
    assert results.act(RESULTS + go, "compute").status_code == 200
    assert jobs(results.database)[1].commands[0][-4:] == [
        *("--filter", "invalid"), *("--filter", "unseen"),
    ]  # fmt: skip
    go = results.act(RESULTS + go, "tick", field="unseen", value=False).json()["go"]
    assert go == "?filters=invalid"


@pytest.mark.parametrize(
    "filters", ["nonsense", "too-fast", "--help", "unseen,unseen", "too-fast(seconds=x)", "\x00"]
)
def test_unknown_filters_are_refused(results: StudioClient, filters: str) -> None:
    address = f"/owner/{RESULTS}"
    reply = results.client.post(address, params={"filters": filters}, json={"act": "compute"})
    assert reply.status_code == 422
    assert results.act(RESULTS, "tick", field=filters, value=True).status_code in (200, 422)
    assert len(jobs(results.database)) == 1


# Hidden results.


def test_results_by_system_are_hidden_while_people_answer(results: StudioClient) -> None:
    set_status(results.database, "open")
    page = results.get(RESULTS).text
    assert "Results by system are hidden while people answer" in page
    for shown in (page, results.get("").text):
        assert not any(system in shown for system in SYSTEMS)
    for path in ("study/1/report/1/report.html", "study/1/report/1/all.zip"):
        assert results.get(path).status_code == 404
    for act in ({"act": "share"}, {"act": "make", "version": "1.0.0"}):
        reply = results.client.post(f"/owner/{RESULTS}", json=act)
        assert (reply.status_code, "hidden" in reply.json()["error"]) == (422, True)
    with results.database.writing() as session:
        session.add(Unblinding(study_id=1, shown_by="owner", shown_at=datetime.now(UTC)))
    assert "telltale-beta" in results.get(RESULTS).text
    assert results.act(RESULTS, "share").status_code == 200


# Links for people without an account.


def shared_link(results: StudioClient) -> str:
    reply = results.act(RESULTS, "share")
    found = re.search(r'value="http://[^"/]+(/shared/[\w-]+/)"', reply.json()["page"])
    assert found is not None
    return found[1]


def test_a_link_shows_the_report_until_it_is_revoked(results: StudioClient) -> None:
    link = shared_link(results)
    assert link not in results.get(RESULTS).text  # shown once
    with results.database.reading() as session:
        (stored,) = session.scalars(select(SharedReport))
    assert stored.token_hash not in link
    stranger = browser_of(results.app)
    report = stranger.get(link)
    assert report.status_code == 200
    assert "telltale-beta" in report.text
    assert report.headers["x-robots-tag"] == "noindex, nofollow"
    assert report.headers["referrer-policy"] == "no-referrer"
    assert stranger.get(link.rstrip("/"), follow_redirects=False).status_code == 308
    assert stranger.get(f"{link}figures/systems.svg").status_code == 200
    for path in ("../../owner/", "..%2f..%2flog.txt", "../log.txt", "nothing"):
        assert "$ hsfiq" not in stranger.get(link + path).text
    assert stranger.post(link).status_code == 405
    assert results.act(RESULTS, "revoke", link=1).json()["say"] == "The link no longer works."
    assert stranger.get(link).status_code == 404
    assert results.act(RESULTS, "revoke", link=1).status_code == 422
    assert [entry[1:] for entry in actions(results.database)][-2:] == [
        ("report.share", "telltale-study", "link 1"),
        ("report.revoke", "telltale-study", "link 1"),
    ]


@pytest.mark.parametrize("link", [2, 0, -1, "x", None, 10**30, [1], True])
def test_links_that_are_not_there_are_not_revoked(results: StudioClient, link: Any) -> None:
    reply = results.act(RESULTS, "revoke", link=link)
    assert reply.status_code == 422
    assert "\n" not in reply.json()["error"]


@pytest.mark.parametrize("token", ["", "x", "%2e%2e", "a" * 5000, "%00", "ü"])
def test_unknown_links_show_nothing(results: StudioClient, token: str) -> None:
    stranger = browser_of(results.app)
    assert stranger.get(f"/shared/{token}/").status_code == 404
    assert stranger.get(f"/shared/{token}/report.html").status_code == 404


def test_reports_are_shared_from_the_command_line(results: StudioClient) -> None:
    base = ("--database", str(results.database.engine.url), "study", "share", "telltale-study")
    made = hsfiq(*base, "--url", "https://study.example.org")
    path = made.out.strip().removeprefix("link 1: https://study.example.org")
    assert browser_of(results.app).get(path).status_code == 200
    assert hsfiq(*base, "--revoke", "1").out == "link 1: revoked\n"
    assert hsfiq(*base, "--revoke", "7").code != 0
    assert browser_of(results.app).get(path).status_code == 404


def test_a_study_without_a_report_has_no_link(results: StudioClient) -> None:
    with results.database.writing() as session:
        session.execute(update(Job).values(state="failed"))
    assert "no report yet" in results.act(RESULTS, "share").json()["error"]
    assert "Compute it now" in results.get(RESULTS).text


def test_a_deleted_study_takes_its_reports_and_links_along(
    results: StudioClient, tmp_path: Path
) -> None:
    link = shared_link(results)
    arguments = ("study", "delete", "telltale-study", "--yes", "--backup", tmp_path / "before")
    assert hsfiq("--database", str(results.database.engine.url), *arguments).code == 0
    assert browser_of(results.app).get(link).status_code == 404
    assert results.get("study/1/report/1/report.html").status_code == 404
    assert jobs(results.database) == []


# Roles.


def test_analysts_read_and_export(results: StudioClient) -> None:
    analyst = member(results, Role.ANALYST)
    page = analyst.get(f"/owner/{RESULTS}").text
    assert "telltale-beta" in page
    assert "A link to the report" not in page
    assert analyst.get("/owner/study/1/report/1/report.html").status_code == 200
    for act in ({"act": "compute"}, {"act": "make", "version": "1.0.0", "licence": ""}):
        assert analyst.post(f"/owner/{RESULTS}", json=act).status_code == 200
    for name in ("share", "revoke", "push", "learn"):
        assert analyst.post(f"/owner/{RESULTS}", json={"act": name}).status_code == 403
    assert [job.created_by for job in jobs(results.database)][1:] == ["analyst-kim"] * 2
    assert results.act(RESULTS, "make", version="2.0.0", licence="").status_code == 422


def test_analysts_do_not_stop_what_others_have_started(results: StudioClient) -> None:
    results.act(RESULTS, "compute")
    analyst = member(results, Role.ANALYST)
    stop = {"act": "stop", "job": 2}
    assert analyst.post(f"/owner/{RESULTS}", json=stop).status_code == 422
    assert jobs(results.database)[1].state == "waiting"
    said = results.act(RESULTS, "stop", job=2).json()
    assert said["undo"] == {"act": "try_again", "job": 2}
    assert jobs(results.database)[1].state == "stopped"
    assert results.act(RESULTS, "try_again", job=2).status_code == 200
    assert jobs(results.database)[1].state == "waiting"


def test_helpers_and_strangers_see_nothing(results: StudioClient) -> None:
    helper, stranger = member(results, Role.HELPER), browser_of(results.app)
    for path in (
        RESULTS,
        "study/1/report/1/report.html",
        "study/1/report.zip",
        "study/1/study.toml",
    ):
        assert helper.get(f"/owner/{path}").status_code == 403
        assert stranger.get(f"/owner/{path}").status_code == 401
    assert stranger.post(f"/owner/{RESULTS}", json={"act": "compute"}).status_code == 401


def test_other_sites_cannot_act(results: StudioClient) -> None:
    headers = {"sec-fetch-site": "cross-site"}
    reply = results.client.post(f"/owner/{RESULTS}", json={"act": "compute"}, headers=headers)
    assert reply.status_code == 403
    assert len(jobs(results.database)) == 1


# Releases.


def test_a_release_is_made_verified_and_downloaded(results: StudioClient) -> None:
    given = {"version": "1", "licence": "CC-BY-4.0", "split": "triplet", "texts": "1"}
    stated = {"name": "Garments: preferences", "description": "Which of two sets people prefer."}
    reply = results.act(f"{RESULTS}?filters=unseen", "make", **given, **stated)
    assert reply.json()["say"] == "Release 1.0.0 is being made."
    run_jobs(results.database)
    assert [job.state for job in jobs(results.database)] == ["done", "done"]
    home = uploads_home(results.database) / "releases" / "telltale-study"
    folders = sorted(path.name for path in home.iterdir())
    assert folders == ["telltale-study-hp-1.0.0", "telltale-study-hs-1.0.0"]
    manifest = json.loads((home / folders[0] / "manifest.json").read_text())
    assert manifest["publication"]["licence"] == "CC-BY-4.0"
    assert [each["name"] for each in manifest["filters"]] == ["unseen"]
    assert verify(home / folders[0]).n == 0
    card = (home / folders[0] / "README.md").read_text()
    assert f"# {stated['name']} 1.0.0\n\n{stated['description']}\n\n" in card
    page = results.get(RESULTS).text
    assert "<b>Garments: preferences (telltale-study-hp) 1.0.0</b>" in page
    assert f">{stated['description']}</textarea>" in page
    assert "Verified on" in page
    assert "Make release 1.1.0" in page
    assert 'value="CC-BY-4.0"' in page
    reply = results.get(f"study/1/release/{folders[0]}.zip")
    assert reply.headers["content-disposition"] == f'attachment; filename="{folders[0]}.zip"'
    with zipfile.ZipFile(BytesIO(reply.content)) as archive:
        names = set(archive.namelist())
    assert {f"{folders[0]}/manifest.json", f"{folders[0]}/preferences.csv"} <= names
    openpyxl = pytest.importorskip("openpyxl")
    sheets = openpyxl.load_workbook(
        BytesIO(results.get(f"study/1/release/{folders[0]}.xlsx").content)
    )
    assert sheets["preferences"].max_row == manifest["counts"]["questions"] + 1
    assert sheets["preferences"]["A1"].value == "question_id"
    actors = {entry[0] for entry in actions(results.database) if entry[1] == "data.export"}
    assert actors == {"owner"}


def test_releases_written_by_a_command_are_listed(results: StudioClient, tmp_path: Path) -> None:
    database = ("--database", str(results.database.engine.url))
    out = ("--study", "telltale-study", "--out", str(tmp_path / "own"))
    assert hsfiq(*database, "export", *out).code == 0
    page = results.get(RESULTS).text
    assert "<b>telltale-study-hp 1.0.0</b>" in page
    assert "written by a command on" in page
    assert "No release has been made yet." not in page


def test_a_second_release_is_compared_with_the_first(results: StudioClient) -> None:
    home = uploads_home(results.database).resolve() / "releases" / "telltale-study"
    made = hsfiq(
        *("--database", str(results.database.engine.url), "export"),
        *("--out", home, "--version", "1.0.0"),
    )
    assert made.code == 0, made.err
    assert results.act(RESULTS, "verify", release="telltale-study-hp-1.0.0").status_code == 200
    results.act(RESULTS, "stop", job=2)
    assert results.act(RESULTS, "make", version="1.1.0", licence="").status_code == 200
    commands = jobs(results.database)[-1].commands
    assert [command[:2] for command in commands] == [
        ["export", "--study"], ["release", "diff"], ["release", "verify"],
        ["release", "diff"], ["release", "verify"],
    ]  # fmt: skip
    assert commands[1][2:] == [str(home / f"telltale-study-hs-1.{n}.0") for n in (0, 1)]


@pytest.mark.parametrize(
    "given",
    [
        {"version": "x"}, {"version": "../../x"}, {"version": "--force"}, {"version": ""},
        {"version": 5}, {"version": None}, {"version": "1.0.0", "licence": "no licence"},
        {"version": "1.0.0", "licence": 'x"\n[y]'}, {"version": "1.0.0", "split": "--help"},
        {"version": "1.0.0", "name": "a\nb"}, {"version": "1.0.0", "description": "a" * 5001},
        {"version": "1.0.0", "split": ["both"]}, {"version": "9" * 400}, {},
    ],
)  # fmt: skip
def test_wrong_releases_are_refused_in_one_line(
    results: StudioClient, given: dict[str, Any]
) -> None:
    reply = results.act(RESULTS, "make", **({"licence": ""} | given))
    assert reply.status_code == 422
    assert "\n" not in reply.json()["error"]
    assert len(jobs(results.database)) == 1


def test_what_is_typed_stays_while_jobs_refresh_the_page() -> None:
    page = (FOLDER / "templates" / "studio_results.html").read_text(encoding="utf-8")
    forms = re.findall(r'<form data-act="(?:make|push|learn)".*?</form>', page, re.DOTALL)
    fields = [
        each for form in forms for each in re.findall(r"<(?:input|select|textarea) [^>]*", form)
    ]
    assert (len(forms), len(fields) > 10) == (3, True)
    assert all(" data-own " in field for field in fields)


@pytest.mark.parametrize(
    "release", ["x", "../telltale-study", "", None, 5, "telltale-study-hp-1.0.0"]
)
def test_releases_that_are_not_there_are_refused(results: StudioClient, release: Any) -> None:
    for act in ("verify", "learn"):
        assert results.act(RESULTS, act, release=release).status_code == 422
    assert len(jobs(results.database)) == 1


def test_publishing_needs_the_hub(results: StudioClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsfiq.annotate.studio.results.can_push", lambda: False)
    assert "HF_TOKEN" in results.act(RESULTS, "push", release="x").json()["error"]


@pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")  # the client's own
def test_a_release_is_published_without_showing_the_token(
    results: StudioClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = made_release(results)
    about = {"HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
    with served_hub() as hub:
        for name, value in {"HF_ENDPOINT": hub.address, **about}.items():
            monkeypatch.setenv(name, value)
        given = {"release": release.name, "private": "1"}
        assert results.act(RESULTS, "push", **given, repo="--help").status_code == 422
        assert results.act(RESULTS, "push", **given, repo="group/study").status_code == 200
        # Imported, the library no longer reads the environment.
        run_jobs(results.database, in_new_interpreters=True)
        assert set(hub.files["group/study"]) == {path.name for path in release.iterdir()}
        assert hub.private == {"group/study": True}
        page = results.get(RESULTS).text
        assert f"uploaded: {hub.address}/datasets/group/study/commit/" in page
    job = jobs(results.database)[-1]
    assert job.state == "done"
    log = (job_folder(results.database, job.id) / "log.txt").read_text()
    assert not any(TOKEN in shown for shown in (page, log, str(job.commands), str(job.result)))


# Learning.


def made_release(results: StudioClient) -> Path:
    """A release with preferences, as the page makes it."""
    given = {"version": "1.0.0", "licence": "CC-BY-4.0", "split": "triplet"}
    assert results.act(RESULTS, "make", **given).status_code == 200
    run_jobs(results.database)
    home = uploads_home(results.database).resolve() / "releases"
    (release,) = home.glob("*/*-hp-1.0.0")
    return release


def test_a_release_is_scored_and_learned_from(results: StudioClient, tmp_path: Path) -> None:
    home = uploads_home(results.database).resolve() / "releases" / "telltale-study"
    release, checkpoint = home / "telltale-study-hp-1.0.0", tmp_path / "scorer"
    database = ("--database", str(results.database.engine.url))
    options = ("--release", "hp", "--split", "triplet", "--out", release)
    assert hsfiq(*database, "export", *options).code == 0
    given = {"release": release.name, "folder": str(checkpoint)}
    refused = results.act(RESULTS, "learn", **given)
    assert "no checkpoint" in refused.json()["error"]
    checkpoint.mkdir()
    (checkpoint / "best.json").write_text("{}")
    for wrong in ("relative", "--help", "../scorer", str(tmp_path), "\x00", 5):
        assert results.act(RESULTS, "learn", **(given | {"folder": wrong})).status_code == 422
    assert results.act(RESULTS, "learn", **given).status_code == 200
    assert results.act(RESULTS, "learn", **given, further="1").status_code == 200
    score, train = (job.commands for job in jobs(results.database)[1:])
    assert [command[0] for command in score] == ["score", "analyze"]
    assert [command[0] for command in train] == ["train", "score", "score", "analyze"]
    assert str(checkpoint) in train[0]
    assert train[-1][-3:] == ["--report", "{folder}/report", "--force"]
    run_jobs(results.database)  # the checkpoint is none
    page = results.get(RESULTS).text
    assert page.count(">Failed</span>") == 2


@pytest.mark.parametrize("name", ["learn", "compute", "make", "share", "verify"])
@pytest.mark.parametrize("study", ["abc", "99999999999", "-1"])
def test_acts_on_a_study_that_is_not_there_are_refused(
    results: StudioClient, study: str, name: str
) -> None:
    assert results.act(f"study/{study}/results", name).status_code == 422
