"""The studio on PostgreSQL, where several processes read and write at the same time."""

from __future__ import annotations

import csv
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from threading import Event, Thread

import pytest
from sqlalchemy import func, make_url, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from benchmarks.tcp_proxy import postgres_behind_proxy
from hsfiq.actors import OWNER
from hsfiq.annotate.app import build_app
from hsfiq.annotate.studio.launch import TAKE_BACK
from hsfiq.collect.progress import answers_of
from hsfiq.collect.review import mark_reviewed, unblind
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database, open_database
from hsfiq.db.postgres import limit_waiting
from hsfiq.db.studio_tables import Job, ReviewedAnswer
from hsfiq.db.tables import Participant, Payment, Study
from hsfiq.db.tables import Response as StoredResponse
from hsfiq.drafts import (
    ChangedElsewhere,
    create_draft,
    draft_of_study,
    draw,
    free_name,
    list_drafts,
    new_content,
    save_value,
)
from hsfiq.errors import HsfiqError, Refused, Unavailable
from hsfiq.jobs import Worker, add_job, jobs_of, uploads_home
from hsfiq.payout import decide, passed, pay_people
from hsfiq.rehearsal import START, answer_study, random_strengths
from hsfiq.releases.verify import verify
from hsfiq.study.publication import record_opening
from tests.annotate.served_studies import Place, PlaceOfKind, browser_of
from tests.annotate.studio.conftest import (
    ON_POSTGRESQL,
    TITLE,
    StudioClient,
    fill,
    studio_in,
    write_own_data,
)
from tests.annotate.studio.test_results import run_jobs
from tests.annotate.studio.uploading import send, zip_of
from tests.databases import PostgresServer
from tests.hsfiq.samples import hsfiq

pytestmark = [ON_POSTGRESQL, pytest.mark.postgres]
PEOPLE = 4


def people_in(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a[^>]*>([^<]+)</a>', page)


@pytest.fixture
def quick_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of jobs run in this process: a new one imports everything again."""

    def run_command(worker: Worker, _job: Job, command: Sequence[str]) -> str:
        url = worker.database.engine.url.render_as_string(hide_password=False)
        done = hsfiq("--database", url, *command)
        assert done.code == 0, done.err
        return "done"

    monkeypatch.setattr(Worker, "run_command", run_command)


@pytest.mark.usefixtures("quick_jobs")
def test_a_whole_study(studio: StudioClient, tmp_path: Path) -> None:
    token = set_up(studio, tmp_path)
    launch(studio, token)
    change_words(studio, token)
    watch(studio)
    decide_on_people(studio)
    publish(studio)
    set_up_again(studio)
    history = studio.get("study/1/history").text
    for action in ("study.open", "participant.decide", "data.export", "report.share"):
        assert action in history
    assert studio.act("", "delete_study", study="study").status_code == 200
    run_jobs(studio.database)
    with studio.database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Study)) == 0
        assert {job.state for job in jobs_of(session)} == {"done"}


def set_up(studio: StudioClient, folder: Path) -> str:
    write_own_data(folder / "own", 24)
    token = studio.new_draft()
    images = {path.name: path.read_bytes() for path in (folder / "own" / "images").iterdir()}
    assert send(studio, token, "garments.zip", zip_of(images), part=10_000).count == 24
    for name in ("queries.csv", "mine.json", "theirs.json"):
        send(studio, token, name, (folder / "own" / name).read_bytes())
    for step, key, value in (
        ("question", "study.title", TITLE),
        ("people", "study.institution", "Example University"),
        ("people", "study.contact", "study@example.org"),
        ("people", "study.ethics", "ERB 1"),
    ):
        assert studio.save(token, step, key, value).status_code == 200
    design = f"draft/{token}/design"
    for field in ("checks.gold", "checks.repeated"):
        assert studio.act(design, "check", field=field, value=False).status_code == 200
    for field, value in (("people", PEOPLE), ("overlap", PEOPLE)):
        assert studio.act(design, "size", field=field, value=str(value)).status_code == 200
    for step in ("images", "systems", "question", "design", "people", "launch"):
        assert studio.get(f"draft/{token}/{step}").status_code == 200
    assert studio.get(f"draft/{token}/preview").status_code == 303
    return token


def launch(studio: StudioClient, token: str) -> None:
    page = f"draft/{token}/launch"
    assert "Nothing is missing" in studio.get(page).text
    assert studio.act(page, "rehearse").status_code == 200
    run_jobs(studio.database)
    assert studio.get(f"draft/{token}/rehearsal/report.html").status_code == 200
    assert studio.act(page, "open").status_code == 200
    with studio.database.writing() as session:
        for job in jobs_of(session):
            job.not_before -= TAKE_BACK
    run_jobs(studio.database)
    assert "The study is open to people" in studio.get(page).text
    links = studio.client.post(f"/owner/draft/{token}/links.csv", data={"count": str(PEOPLE)})
    assert len(list(csv.DictReader(StringIO(links.text)))) == PEOPLE
    with studio.database.writing() as session:
        answer_study(session, "study", random_strengths(("mine", "theirs"), 0), 0)
        study = find_study(session, "study")
        assert study is not None
        study.status = "open"


def change_words(studio: StudioClient, token: str) -> None:
    """Words change after the launch, as another version; the design does not."""
    assert studio.save(token, "question", "study.title", "Better?").status_code == 200
    assert studio.save(token, "design", "design.k", "3", type="int").status_code == 422
    with studio.database.reading() as session:
        study = find_study(session, "study")
        assert study is not None
        assert (study.title, study.text_version) == ("Better?", 2)


def watch(studio: StudioClient) -> None:
    page = "study/1/watch"
    everybody = set(people_in(studio.get(page).text))
    assert len(everybody) == 2 * PEOPLE  # the first half has only been invited
    for sort in ("person", "answers", "seen", "time", "checks", "others", "state"):
        for order in (sort, f"-{sort}"):
            assert set(people_in(studio.get(f"{page}?sort={order}").text)) == everybody
    assert people_in(studio.get(f"{page}?q=P2").text) == ["p2"]
    assert people_in(studio.get(f"{page}?show=stopped").text) == []
    assert studio.act(page, "note", about="p5", text="Looks SOUND").status_code == 200
    assert people_in(studio.get(f"{page}?q=sound").text) == ["p5"]
    shown = studio.get(f"{page}?person=p5&all=1&answer={first_answer(studio)}")
    assert shown.status_code == 200
    for table in ("people", "hours", "comments"):
        assert studio.get(f"study/1/{table}.csv").status_code == 200
    assert studio.act(page, "unblind").status_code == 200
    assert studio.act(page, "unblind").status_code == 200


def set_up_again(studio: StudioClient) -> None:
    """Another draft with the queries that are in the database; it is deleted again."""
    token = studio.new_draft()
    assert studio.act(f"draft/{token}/images", "dataset", dataset="study").status_code == 200
    assert studio.draft(token).asked.queries == 6
    for page in ("images", "systems", "design", "launch"):
        assert studio.get(f"draft/{token}/{page}").status_code == 200
    assert studio.get(f"draft/{token}/preview").status_code == 303
    assert studio.act("", "delete_draft", draft=token).status_code == 200


def first_answer(studio: StudioClient) -> str:
    with studio.database.reading() as session:
        return answers_of(session, session.get_one(Study, 1))[0].question_id


def decide_on_people(studio: StudioClient) -> None:
    page = "study/1/watch"
    first, second, *others = sorted(people_in(studio.get(f"{page}?show=to+decide").text))
    assert studio.act(page, "decide", person=first, pay="approve", answers="").status_code == 200
    undone = {"person": first, "asked": False, "before": ""}
    assert studio.act(page, "undecide", **undone).status_code == 200
    given = {"pay": "reject", "answers": "out", "reason": "The same answer to every question. " * 4}
    assert studio.act(page, "decide", person=second, **given).status_code == 200
    paid = studio.act(page, "pay-all", n=len(others) + 1)
    assert paid.status_code == 200, paid.text
    assert studio.act(page, "status", to="close", shown="open").status_code == 200


def publish(studio: StudioClient) -> None:
    page = "study/1/results"
    assert studio.act(page, "compute").status_code == 200
    assert studio.act(page, "compute").status_code == 422
    run_jobs(studio.database)
    shared = studio.act(page, "share")
    assert shared.status_code == 200
    link = re.search(r"/shared/[\w-]+/", shared.text)
    assert link
    assert studio.client.get(link[0]).status_code == 200
    assert studio.act(page, "revoke", link=1).status_code == 200
    assert studio.client.get(link[0]).status_code == 404
    assert studio.act(page, "make", version="1.0.0", licence="CC-BY-4.0").status_code == 200
    run_jobs(studio.database)
    manifests = [*uploads_home(studio.database).rglob("releases/**/manifest.json")]
    assert manifests
    assert [verify(manifest.parent).first for manifest in manifests] == [[]] * len(manifests)


# Several processes at the same time.


@pytest.fixture
def other(studio: StudioClient) -> Iterator[Database]:
    """The database as another process has opened it."""
    url = studio.database.engine.url.render_as_string(hide_password=False)
    with closing(open_database(url)) as database:
        yield database


def while_another_does(
    first: Database, second: Database, server: PostgresServer, do: Callable[[Session], object]
) -> list[Exception]:
    """Do something in two transactions at once: the second begins before the first has ended."""
    errors: list[Exception] = []

    def again() -> None:
        try:
            with second.writing() as session:
                do(session)
        except (HsfiqError, SQLAlchemyError) as error:
            errors.append(error)

    thread = Thread(target=again)
    with first.writing() as session:
        do(session)
        thread.start()
        server.wait_for_a_lock(first.engine.url, thread)
    thread.join()
    return errors


def test_no_field_is_lost_when_several_save(studio: StudioClient, other: Database) -> None:
    token, fields, errors = studio.new_draft(), range(12), []

    def save(database: Database, numbers: Iterable[int]) -> None:
        for number in numbers:
            with database.writing() as session:
                save_value(session, token, OWNER, f"wording.w{number}", number, None)
            try:
                with database.writing() as session:
                    save_value(session, token, OWNER, f"presentation.w{number // 2}", number, None)
            except ChangedElsewhere as error:
                errors.append((number, error.value))

    threads = [
        Thread(target=save, args=(database, fields[start::4]))
        for start, database in enumerate((studio.database, other) * 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = studio.draft(token).entered
    assert content.value("wording") == {f"w{number}": number for number in fields}
    # Of two who saved the same field, one was told what the other had saved.
    saved = content.value("presentation")
    assert saved == {f"w{value // 2}": value for value in saved.values()}
    assert sorted(errors) == sorted((value ^ 1, value) for value in saved.values())
    for _ in range(18):
        assert studio.act(f"draft/{token}/question", "undo").status_code == 200
    assert studio.act(f"draft/{token}/question", "undo").status_code == 422


def test_what_two_do_at_once_is_done_once(
    studio: StudioClient, other: Database, postgres_server: PostgresServer
) -> None:
    draw_study(studio)

    def at_once(do: Callable[[Session], object]) -> list[type[Exception]]:
        errors = while_another_does(studio.database, other, postgres_server, do)
        return [type(error) for error in errors]

    def study(session: Session) -> Study:
        return session.get_one(Study, 1)

    now, answer = datetime.now(UTC), first_answer(studio)
    assert at_once(lambda session: draft_of_study(session, study(session), OWNER)) == []
    new = lambda session: create_draft(  # noqa: E731
        session, OWNER, new_content(free_name(session, "new"), "New")
    )
    assert at_once(new) == []
    report = ("report", "A report", [["--version"]])
    assert at_once(lambda session: add_job(session, OWNER, *report, study_id=1)) == [Refused]
    review = lambda session: mark_reviewed(session, study(session), OWNER, answer, now)  # noqa: E731
    assert at_once(review) == []
    assert at_once(lambda session: unblind(session, study(session), OWNER, now)) == [Refused]
    with studio.database.reading() as session:
        names = [draft.content["config"]["study"]["name"] for draft in list_drafts(session)]
        assert sorted(names) == ["new", "new-2", "study"]
        assert session.scalar(select(func.count()).select_from(ReviewedAnswer)) == 1


def test_somebody_who_is_decided_on_is_not_paid_meanwhile(
    studio: StudioClient, other: Database, postgres_server: PostgresServer
) -> None:
    draw_study(studio)
    now, reject = datetime.now(UTC), iter([True, False])

    def do(session: Session) -> None:
        study = session.get_one(Study, 1)
        people = passed(session, study)
        if next(reject):
            decide(session, OWNER, people[0], now, pay="reject", reason="Not read. " * 12)
        else:
            pay_people(session, study, OWNER, people, now)

    assert while_another_does(studio.database, other, postgres_server, do) == []
    with studio.database.reading() as session:
        payments = session.execute(select(Payment.participant_id, Payment.kind)).all()
        people = session.scalars(select(Participant.id)).all()
    assert len(payments) == len(people)
    assert [kind for person, kind in payments if person == min(people)] == ["reject"]


def draw_study(studio: StudioClient) -> None:
    """A study without a draft, which everybody has answered."""
    token = studio.new_draft()
    fill(studio, token)
    draw(studio.database, token, OWNER)
    assert studio.act("", "delete_draft", draft=token).status_code == 200
    with studio.database.writing() as session:
        study = session.get_one(Study, 1)
        record_opening(study, START)
        study.status = "open"
        answer_study(session, "study", random_strengths(("mine", "theirs"), 0), 0)
        study.status = "open"


# The database is away, or refuses.


def test_a_field_is_saved_again_when_the_database_is_back(
    place: Place, postgres_server: PostgresServer
) -> None:
    with postgres_behind_proxy(place.url) as (url, proxy):
        studio = studio_in(PlaceOfKind(place.folder, url))
        limit_waiting(studio.database.engine)
        token = studio.new_draft()
        seen = studio.draft(token).content.value("study.title")
        address, save = f"draft/{token}/question", {"field": "study.title", "type": "text"}
        proxy.reset()
        refused = studio.act(address, "save", value="Ours", seen=seen, **save)
        assert (refused.status_code, "Traceback" in refused.text) == (503, False)
        assert studio.get(address).status_code == 503
        proxy.recover()
        assert studio.act(address, "save", value="Ours", seen=seen, **save).status_code == 200
        postgres_server.end_connections(place.url)
        assert studio.act(address, "save", value="Yours", seen="Ours", **save).status_code == 200
        assert studio.draft(token).content.value("study.title") == "Yours"
        studio.database.close()


def test_a_user_who_may_only_read_is_told_so(studio: StudioClient, place: Place) -> None:
    token, role = studio.new_draft(), f"hsfiq_test_{secrets.token_hex(6)}"
    with studio.database.engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role}")
        connection.exec_driver_sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    limited = make_url(place.url).set(query={"options": f"-c role={role}"})
    try:
        with closing(open_database(limited.render_as_string(hide_password=False))) as reading:
            app = build_app(reading)
            reader = StudioClient(browser_of(app), studio.database, app)
            reader.client.cookies.update(studio.client.cookies)
            assert reader.get(f"draft/{token}/question").status_code == 200
            refused = reader.save(token, "question", "study.title", "Ours")
            assert refused.status_code == 503
            assert "the database's user may not do this" in refused.text
            with studio.database.writing() as session:
                add_job(session, OWNER, "report", "A report", [["--version"]])
            with pytest.raises(Unavailable):
                Worker(reading, Event()).next_job()
    finally:
        with studio.database.engine.begin() as connection:
            connection.exec_driver_sql(f"DROP OWNED BY {role}")
            connection.exec_driver_sql(f"DROP ROLE {role}")


@pytest.mark.parametrize("number", [0, 2**31, -(2**31) - 1, 10**30])
def test_there_is_no_study_with_another_number(studio: StudioClient, number: int) -> None:
    for page in ("setup", "watch", "results", "history", "people.csv", "recruiting"):
        assert studio.get(f"study/{number}/{page}").status_code in (303, 404), page
    for page in (f"preview/{number}", f"leaderboard/{number}", f"audit/{number}/csv"):
        assert studio.get(page).status_code == 404


def test_an_answer_at_the_end_of_an_hour_counts_in_it(studio: StudioClient) -> None:
    draw_study(studio)
    late = datetime(2026, 1, 1, 9, 59, 59, 900_000, tzinfo=UTC)
    with studio.database.writing() as session:
        session.execute(update(StoredResponse).values(submitted_at=late))
    lines = studio.get("study/1/hours.csv").text.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["hour", "2026-01-01T09:00:00+00:00"]
