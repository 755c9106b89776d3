"""The server's clock is set a day forward and back while people answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hsfiq.annotate.app import build_app
from hsfiq.collect.leases import abandoned_questions
from hsfiq.collect.places import release_unbegun
from hsfiq.collect.progress import answers_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.releases.export import export_releases
from hsfiq.releases.verify import verify
from hsfiq.study.filters import Filters
from tests.annotate.owner.studies_in_progress import log_in, set_owner
from tests.annotate.page_requests import answer_body, stored, view
from tests.annotate.private_texts import quoted_in
from tests.annotate.served_studies import Place, begin, browser_of, enrol, make_study


class AnyDatetime(type):
    """The type of classes that take all datetimes for theirs."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime)


class ShiftedClock:
    """What the code takes for the time is later than it is by `shift`; intervals are as they are.

    A package for this would also change the time of the browser's driver and of pytest.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shift = timedelta()
        for name, module in list(sys.modules.items()):
            if name.startswith("hsfiq."):
                if vars(module).get("datetime") is datetime:
                    monkeypatch.setattr(module, "datetime", self._datetime())
                if vars(module).get("time") is time:
                    monkeypatch.setattr(module, "time", self._time())

    def now(self) -> datetime:
        return datetime.now(UTC) + self.shift

    def _datetime(clock) -> type[datetime]:  # noqa: N805 (`self` is that of the class in it)
        class Shifted(datetime, metaclass=AnyDatetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.now(tz) + clock.shift

        return Shifted

    def _time(self) -> ModuleType:
        shifted = ModuleType("time")
        vars(shifted).update(vars(time))
        vars(shifted)["time"] = lambda: time.time() + self.shift.total_seconds()
        return shifted


REASON = "telltale-reason"
DAY = timedelta(days=1)
SHIFTS = (timedelta(), DAY, timedelta(), -DAY, timedelta())
SECONDS = 0.001
"""What the page reports as the time spent on a question."""


@pytest.fixture
def database(place: Place) -> Iterator[Database]:
    """A study with places for ten."""
    database = make_study(place, queries=60)
    yield database
    database.close()


@pytest.fixture
def app(database: Database) -> FastAPI:
    return build_app(database)


@pytest.fixture
def clock(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> ShiftedClock:
    return ShiftedClock(monkeypatch)


@pytest.fixture
def new_browsers(app: FastAPI) -> Iterator[Callable[[], TestClient]]:
    browsers: list[TestClient] = []

    def new() -> TestClient:
        browsers.append(browser_of(app))
        return browsers[-1]

    yield new
    for browser in browsers:
        browser.close()


def submit(client: TestClient, number: int) -> dict[str, Any]:
    spent = {"active_seconds": SECONDS, "seconds_since_first_interaction": SECONDS}
    body = answer_body(view(client), f"key-of-answer-{number:04}", reason=REASON, **spent)
    assert client.post("/submit", json=body).status_code == 200
    return body


def test_no_answer_is_lost_and_no_duration_is_negative(
    clock: ShiftedClock,
    database: Database,
    new_browsers: Callable[[], TestClient],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = enrol(new_browsers(), database)
    view(first)
    bodies = []
    for number, shift in enumerate(SHIFTS[1:4], start=1):
        clock.shift = shift
        bodies.append(submit(first, number))  # it was served before the clock was set
        view(first)
    answers = stored(database)
    assert [answer.submit_key for answer in answers] == [body["submit_key"] for body in bodies]
    for answer in answers:
        assert answer.submitted_at is not None
        assert answer.first_interaction_at is not None
        assert answer.first_interaction_at <= answer.submitted_at
        assert answer.served_at is None or answer.served_at <= answer.first_interaction_at
        assert answer.active_seconds == SECONDS
    with database.reading() as session:
        (study,) = list_studies(session)
        assert answers_of(session, study)
        export_releases(session, study, ["hp"], Filters(), folder=tmp_path / "release")
    assert verify(tmp_path / "release").first == []
    assert quoted_in(caplog.text, first, *bodies) == []


def test_nobody_is_locked_out_by_a_clock_that_was_ahead(
    clock: ShiftedClock, database: Database, new_browsers: Callable[[], TestClient]
) -> None:
    set_owner(database)
    browsers = [new_browsers() for _ in SHIFTS]
    for browser, shift in zip(browsers, SHIFTS, strict=True):
        clock.shift = shift
        enrol(browser, database)
        submit(browser, 1)
        owner = new_browsers()
        assert log_in(owner, "wrong").status_code == 401
        assert log_in(owner).status_code == 303
        assert owner.get("/owner/").status_code == 200
    for browser in browsers:
        submit(browser, 2)
    assert len(stored(database)) == 2 * len(SHIFTS)


def test_a_login_made_while_the_clock_was_ahead_ends(
    clock: ShiftedClock, database: Database, new_browsers: Callable[[], TestClient]
) -> None:
    set_owner(database)
    ahead, later = new_browsers(), new_browsers()
    clock.shift = DAY
    assert log_in(ahead).status_code == 303
    assert ahead.get("/owner/").status_code == 200
    clock.shift = timedelta()
    assert ahead.get("/owner/").status_code == 401
    assert log_in(later).status_code == 303
    clock.shift = DAY  # when it would have been valid
    assert ahead.get("/owner/").status_code == 401


def test_leases_and_places_taken_while_the_clock_was_ahead_end(
    clock: ShiftedClock, database: Database, new_browsers: Callable[[], TestClient]
) -> None:
    clock.shift = DAY
    submit(enrol(new_browsers(), database), 1)
    begin(new_browsers(), database)
    came_back = enrol(new_browsers(), database)
    clock.shift = timedelta()
    view(came_back)

    def left_by(now: datetime) -> tuple[int, int]:
        with database.writing() as session:
            (study,) = list_studies(session)
            n_questions = len(abandoned_questions(session, study, now))
            return n_questions, len(release_unbegun(session, study, now))

    assert left_by(clock.now()) == (5 + 6, 1)
    assert left_by(clock.now() + timedelta(hours=2)) == (5 + 6, 0)
