"""Simulated annotators answer a served study over HTTP."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from hsfiq import cli
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect import participants
from hsfiq.collect.answers import latest_response
from hsfiq.collect.asked_questions import load_question, shown_sets
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.db.schema import head_revision
from hsfiq.db.source_tables import Dataset, Query
from hsfiq.db.tables import CheckAnswer, Form, Participant, Question, Study
from hsfiq.demo.study import make_study, served_design, utility_of
from hsfiq.drawn import DrawnTriplet, SimulatedAnnotator
from hsfiq.drawn.utility import read
from hsfiq.releases.content import build
from hsfiq.simulate import Sessions, Simulation, destination_of
from hsfiq.simulate.client import StudyClient
from hsfiq.study.filters import Filters
from hsfiq.study.languages import LANGUAGES
from tests.annotate.conftest import running
from tests.annotate.page_requests import stored
from tests.annotate.served_studies import (
    Place,
    ReusedStudy,
    Server,
    ThreadServer,
    all_of,
    count,
    newcomer,
    set_status,
    update_all,
)

PEOPLE, SIZE = 3, 4
EVERYTHING = PEOPLE * SIZE


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, dict[int, DrawnTriplet]]:
    """A small study on the drawn catalogue for simulated annotators, and its ground truth."""
    place = Place(tmp_path_factory.mktemp("drawn"))
    database = open_database(place.url)
    design = replace(served_design(0), questions_per_form=SIZE // 2, reason_every=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 7)
        truth = make_study(database, place.folder, design, PEOPLE, simulated=True)
    database.close()
    cache_of(place).mkdir()
    return place, truth


def copy_of(drawn: Place, folder: Path) -> Place:
    """A copy of the study's database that shares its images and their web copies."""
    folder.mkdir(exist_ok=True)
    place = Place(folder)
    shutil.copyfile(drawn.file, place.file)
    cache_of(place).symlink_to(cache_of(drawn))
    return place


def cache_of(place: Place) -> Path:
    """Where the app keeps its thumbnails."""
    return place.file.with_name(f"{place.file.name}.thumbnails")


@pytest.fixture(scope="module")
def reused_drawn(
    drawn: tuple[Place, dict[int, DrawnTriplet]], tmp_path_factory: pytest.TempPathFactory
) -> ReusedStudy:
    """The copy of that study that the tests use in turn."""
    reused = ReusedStudy(drawn[0], tmp_path_factory.mktemp("reused"))
    cache_of(reused.place).symlink_to(cache_of(drawn[0]))
    return reused


@pytest.fixture
def study(reused_drawn: ReusedStudy) -> Database:
    """That study in its first state, open."""
    reused_drawn.restore()
    return reused_drawn.database


@pytest.fixture
def address(reused_drawn: ReusedStudy, study: Database) -> Iterator[str]:
    """The address at which it is served."""
    with running(reused_drawn.server()) as server:
        yield server.url


def simulate(*arguments: str | Path) -> tuple[int, Any, str]:
    """Run `hsfiq simulate` without pauses: its exit code, JSON result and error output."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.run(["simulate", "--speed", "0", "--json", *map(str, arguments)])
    return code, json.loads(out.getvalue() or "null"), err.getvalue()


def answers(database: Database) -> list[tuple[str, int, int, int, int | None, int | None]]:
    """Every answer with its participant and question."""
    with database.reading() as session:
        rows = session.execute(
            select(Participant.name, Form.position, Question.place, Question.id)
            .join(Form, Form.participant_id == Participant.id)
            .join(Question, Question.form_id == Form.id)
            .order_by(Participant.id, Form.position, Question.place)
        ).all()
        latest = {row[3]: latest_response(session, row[3]) for row in rows}
    return [
        (name, position or 0, place, key, last and last.score_1, last and last.preferred)
        for name, position, place, key in rows
        for last in (latest[key],)
    ]


def invited(database: Database, address: str, n: int) -> list[str]:
    """n personal links."""
    with database.writing() as session:
        study = list_studies(session)[0]
        invited_participants = participants.invite(session, study.id, n, now=datetime.now(UTC))
        return [f"{address}/start/{participant.token}" for participant in invited_participants]


# --------------------------------------------------------------------------------- complete studies


def test_a_complete_study_is_answered(address: str, study: Database) -> None:
    code, result, _ = simulate("--participants", PEOPLE + 1, "--at-once", 2, address)
    assert code == 0
    assert result["simulated"] is True
    assert (result["finished"], result["turned_away"], result["failed"]) == (PEOPLE, 1, 0)
    assert (result["answered"], result["skipped"], result["refused"]) == (EVERYTHING, 0, 0)
    last = result["people"][-1]
    assert (last["state"], last["why"]) == ("turned away", "410 Gone")
    rows = stored(study)
    assert len(rows) == EVERYTHING
    assert len({row.question_id for row in rows}) == EVERYTHING
    assert {row.revision for row in rows} == {1}
    assert sum(row.reason is not None for row in rows) == EVERYTHING // 2
    for row in rows:
        assert row.served_at is not None
        assert row.first_interaction_at is not None
        assert row.submitted_at is not None
        assert row.served_at <= row.first_interaction_at <= row.submitted_at
        assert row.images == "s sssss sssss"
    # Before each form but the first there is a sum.
    assert all_of(study, select(CheckAnswer.passed)) == [True] * PEOPLE
    people = all_of(study, select(Participant))
    assert all(person.consented_at and person.practised_at for person in people)
    with study.reading() as session:
        (row,) = list_studies(session)
        release = build(session, row, "hp", Filters(), schema_revision=head_revision())
    manifest = json.loads(release.files["manifest.json"])
    assert (manifest["simulated"], manifest["counts"]["questions"]) == (True, EVERYTHING)
    assert b"simulated annotators" in release.files["README.md"]


def test_answers_depend_on_the_seed_and_not_on_concurrency(
    drawn: tuple[Place, dict[int, DrawnTriplet]],
    tmp_path: Path,
    serve: Callable[[Place], ThreadServer],
) -> None:
    answers_by_run = []
    for at_once in (1, PEOPLE):
        server = serve(copy_of(drawn[0], tmp_path / str(at_once)))
        options = ("--participants", PEOPLE, "--at-once", at_once, "--seed", 5)
        assert simulate(*options, server.url)[0] == 0
        answers_by_run.append(answers(server.database))
    assert answers_by_run[0] == answers_by_run[1]


def test_an_annotator_without_noise_or_bias_prefers_the_better_set(
    address: str, study: Database, drawn: tuple[Place, dict[int, DrawnTriplet]]
) -> None:
    oracles = [SimulatedAnnotator(f"p{n}", noise=0, median_seconds=0) for n in range(PEOPLE)]
    simulation = Simulation(oracles, [destination_of(address)] * PEOPLE, seed=0)
    assert simulation.run(lambda *_: None).succeeded
    n_exact = 0
    with study.reading() as session:
        for row in stored(study):
            question = load_question(session, row.question_id)
            query, triplet = question.pair.query, drawn[1][question.pair.query_id]
            first, second = (utility_of(triplet, shown) for shown in shown_sets(question))
            if first != second and len(read(query.text, triplet.reference)) == 1:
                n_exact += 1
                assert row.preferred == (1 if first > second else 2)
    assert n_exact > EVERYTHING / 2


# ------------------------------------------------------------------------------ links and resuming


def test_personal_links_can_be_used_repeatedly(address: str, study: Database) -> None:
    links = invited(study, address, 2)
    code, result, _ = simulate(*links)
    assert (code, result["answered"], result["finished"]) == (0, 2 * SIZE, 2)
    code, result, _ = simulate(*links)
    assert (code, result["answered"], result["finished"]) == (0, 0, 2)
    assert len(stored(study)) == 2 * SIZE


def test_interrupted_simulation_is_continued(address: str, study: Database, tmp_path: Path) -> None:
    def interrupt(n_done: int, _total: int) -> None:
        if n_done:
            raise KeyboardInterrupt

    annotators = [SimulatedAnnotator(f"simulated-{n}", median_seconds=0.1) for n in range(PEOPLE)]
    destinations = [destination_of(address)] * PEOPLE
    file = tmp_path / "sessions.json"
    first = Simulation(annotators, destinations, 3, 2, Sessions(file, address, 3))
    with pytest.raises(KeyboardInterrupt):
        first.run(interrupt)
    before = answers(study)
    assert 0 < len(stored(study)) < EVERYTHING
    second = Simulation(annotators, destinations, 3, 2, Sessions(file, address, 3))
    assert second.run(lambda *_: None).succeeded
    rows = stored(study)
    assert len(rows) == len({row.question_id for row in rows}) == EVERYTHING
    assert count(study, Participant) == PEOPLE
    for row, later_row in zip(before, answers(study), strict=False):
        assert row[-1] is None or row == later_row
    assert simulate("--participants", 1, "--seed", 4, "--sessions", file, address)[0] == 2


# ----------------------------------------------------------------------- servers that do not answer


class Unsteady:
    """Refuses every third request like a busy server, and loses every fourth response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.n_requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self.n_requests += 1
        busy = PlainTextResponse("busy", status_code=503)
        if self.n_requests % 3 == 0:
            await busy(scope, receive, send)
        elif self.n_requests % 4 == 0 and scope["path"] in ("/submit", "/check", "/consent"):
            await self.app(scope, receive, discard)
            await busy(scope, receive, send)
        else:
            await self.app(scope, receive, send)


async def discard(_message: object) -> None:
    """Lose an answer."""


class LackingOneImage:
    """Has lost the image that is first asked for."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.lost = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/image/"):
            self.lost = self.lost or scope["path"]
            if scope["path"] == self.lost:
                await PlainTextResponse("lost", status_code=404)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def test_a_question_with_an_image_that_cannot_be_fetched_is_skipped(
    reused_drawn: ReusedStudy, study: Database
) -> None:
    server = reused_drawn.server()
    server.server.config.app = LackingOneImage(server.server.config.app)  # type: ignore[arg-type]
    server.start()
    code, result, _ = simulate("--participants", PEOPLE, server.url)
    server.stop()
    assert code == 0
    assert result["skipped"] >= 1
    assert result["answered"] + result["skipped"] == EVERYTHING
    for row in stored(study):
        assert row.images
        is_lacking = "u" in row.images
        assert row.skipped == ("unloaded-image" if is_lacking else None)


def test_requests_to_a_busy_server_are_repeated_and_nothing_is_stored_twice(
    reused_drawn: ReusedStudy, study: Database
) -> None:
    server = reused_drawn.server()
    unsteady = Unsteady(server.server.config.app)  # type: ignore[arg-type]
    server.server.config.app = unsteady
    server.start()
    code, result, _ = simulate("--participants", PEOPLE, server.url)
    server.stop()
    assert (code, result["finished"], result["answered"]) == (0, PEOPLE, EVERYTHING)
    assert [row.revision for row in stored(study)] == [1] * EVERYTHING
    assert unsteady.n_requests > 3 * EVERYTHING


def test_a_missing_server_is_reported(place: Place) -> None:
    unused = Server(place).url
    code, _, err = simulate(unused)
    assert code == 2
    assert err.startswith(f"hsfiq: {unused}: the server does not answer (/: ")


# ---------------------------------------------------------------------------------- refused studies


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_welcome_page_says_that_a_study_is_simulated(
    study: Database, address: str, language: str
) -> None:
    notice = entry_texts(language)["simulated"]
    with study.writing() as session:
        row = list_studies(session)[0]
        row.design = row.design | {"study": row.design["study"] | {"languages": [language]}}
    client = StudyClient(address, threading.Event())
    assert notice in client.get("/").decode()
    client.enrol("1")
    assert notice in client.get("/").decode()
    with study.writing() as session:
        list_studies(session)[0].origin = "collected"
    assert notice not in client.get("/").decode()
    client.close()


def test_a_study_for_people_is_refused(study: Database, address: str) -> None:
    update_all(study, Study, origin="collected")
    code, _, err = simulate("--participants", 2, address)
    assert (code, count(study)) == (2, 0)
    assert f"{address}: the study is for people" in err
    code, _, err = simulate(*invited(study, address, 2))
    assert (code, "is for people" in err) == (2, True)
    assert stored(study) == []
    assert set(all_of(study, select(Participant.consented_at))) == {None}


def test_paused_closed_and_unknown_studies_are_failures(
    reused_drawn: ReusedStudy, study: Database, address: str
) -> None:
    token = newcomer(reused_drawn.place)
    set_status(study, "paused")
    for link, why in ((token, "paused"), ("nobody", "404 Not Found")):
        code, result, _ = simulate(f"{address}/start/{link}")
        assert (code, result["failed"], result["answered"]) == (1, 1, 0)
        assert why in result["people"][0]["why"]
    set_status(study, "closed")
    code, _, err = simulate(address)
    assert (code, "no simulated study is open to all" in err) == (2, True)


def test_a_study_on_other_images_ends_the_simulation(server: ThreadServer) -> None:
    update_all(server.database, Study, origin="simulated")
    code, _, err = simulate("--participants", 2, server.url)
    assert (code, "shows no garment" in err) == (2, True)
    assert stored(server.database) == []


def test_a_question_with_a_missing_image_is_skipped(
    drawn: tuple[Place, dict[int, DrawnTriplet]],
    serve: Callable[[Place], ThreadServer],
    tmp_path: Path,
) -> None:
    server = serve(copy_of(drawn[0], tmp_path / "study"))
    study = server.database
    images = tmp_path / "images"
    shutil.copytree(drawn[0].images, images)
    with study.writing() as session:
        session.scalars(select(Dataset)).one().image_root = str(images)
        query = session.scalars(select(Query)).first()
        assert query is not None
        name = query.triplet.reference.name
    (images / f"{name}.jpg").unlink()
    code, result, _ = simulate("--participants", PEOPLE, server.url)
    assert code == 0
    assert result["skipped"] >= 1
    assert result["answered"] + result["skipped"] == EVERYTHING
    assert sum(row.skipped is not None for row in stored(study)) == result["skipped"]


# ------------------------------------------------------------------------------- wrong usage


@pytest.mark.parametrize(("arguments", "message"), [
    (["ftp://x"], "ftp://x: is not an http(s) address"),
    (["http://[x"], "is not an http(s) address"),
    (["http://a:b"], "is not an http(s) address"),
    (["http://a", "http://b"], "several servers"),
    (["http://a", "http://a"], "one of several URLs is a server's address"),
    (["http://a", "http://a/start/x"], "one of several URLs is a server's address"),
    (["http://a/start/x", "http://a/start/x"], "a personal link is repeated"),
    (["--participants", "2", "http://a/start/x"], "there are 1 personal links"),
    (["--participants", "0", "http://a"], "--participants"),
    (["--speed", "-1", "http://a"], "--speed"),
    (["--speed", "nan", "http://a"], "--speed"),
    (["--side-bias", "inf", "http://a"], "--side-bias"),
    ([], "URL"),
])  # fmt: skip
def test_wrong_usage_is_reported_in_one_line(arguments: list[str], message: str) -> None:
    code, _, err = simulate(*arguments)
    assert (code, message in err, err.count("\n")) == (2, True, 1)


def test_a_file_without_sessions(tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    for content in ("", "[]", "{}", '{"address": 1}', '{"cookies": []}'):
        file.write_text(content)
        code, _, err = simulate("--sessions", file, "http://127.0.0.1:9")
        assert (code, "is not a file of sessions" in err) == (2, True), content
