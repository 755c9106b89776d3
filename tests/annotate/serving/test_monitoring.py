"""`/metrics`, the log as JSON and slow statements: what they tell, and what they never tell."""

from __future__ import annotations

import json
import logging
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from hsfiq import __version__
from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.image_copies import cache_folder
from hsfiq.annotate.security import StudyMiddleware
from hsfiq.annotate.serving.monitoring import (
    REQUESTS,
    JsonFormatter,
    RequestObserver,
    Watching,
    add_watching,
    log_slow_statements,
    shared_metrics,
)
from hsfiq.db.engine import Database, connect
from hsfiq.http_server import accept_connections, listening
from hsfiq.study.recruiting import Panel
from tests.annotate.page_requests import answer_body, view
from tests.annotate.served_studies import Place, Server, browser_of, enrol, make_study, newcomer
from tests.annotate.serving.test_health import newcomer_of
from tests.annotate.test_log_privacy import break_table
from tests.hsfiq.samples import hsfiq

TOKEN = "0123456789abcdef-token"
REASON = "telltale-reason"
BEARER = {"Authorization": f"Bearer {TOKEN}"}

Numbers = dict[tuple[str, str], float]


@pytest.fixture
def watched(database: Database) -> FastAPI:
    """The app without Gradio, with metrics and a line of the log for each request."""
    services = Services.of(database)
    app = plain_app(services)
    app.add_middleware(StudyMiddleware, pages={})
    add_watching(app, services, Watching(metrics_token=TOKEN, logs_json=True))
    return app


@pytest.fixture
def client(watched: FastAPI) -> Iterator[TestClient]:
    with browser_of(watched) as client:
        yield client


def numbers(client: TestClient | httpx.Client) -> Numbers:
    """The values of all metrics, by name and labels."""
    answer = client.get("/metrics", headers=BEARER)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_numbers_follow_what_happens(client: TestClient, database: Database) -> None:
    shutil.rmtree(cache_folder(database), ignore_errors=True)  # what other tests have made
    before = numbers(client)
    assert before["hsfiq_answers", ""] == 0
    assert before["hsfiq_database_up", ""] == 1
    enrol(client, database)
    question = view(client)
    assert client.get(f"/image/{question['reference']['token']}").status_code == 200
    assert client.post("/submit", json=answer_body(question, reason=REASON)).status_code == 200
    client.get("/no-such-page")
    after = numbers(client)
    assert after["hsfiq_requests_total", "POST /submit 200"] == 1
    assert after["hsfiq_requests_total", "GET /question 200"] == 1
    assert after["hsfiq_requests_total", "GET (none) 404"] == 1
    assert after["hsfiq_request_seconds_count", "/submit"] == 1
    assert {name for name, labels in after if "/submit" in labels.split()} >= {
        "hsfiq_request_seconds_bucket",
        "hsfiq_request_seconds_sum",
    }
    assert after["hsfiq_thumbnails_made_total", ""] > 0
    assert after["hsfiq_database_connections", "in use"] >= 0
    (build,) = [labels for name, labels in after if name == "hsfiq_build_info"]
    assert __version__ in build.split()


def test_rows_are_counted_again_after_some_seconds(
    client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hsfiq.annotate.serving.monitoring.COUNTED_SECONDS", 0.0)
    enrol(client, database)
    assert client.post("/submit", json=answer_body(view(client))).status_code == 200
    counted = numbers(client)
    assert counted["hsfiq_answers", ""] == 1
    assert counted["hsfiq_participants_active", ""] == 1


def test_without_the_token_nothing_is_told(client: TestClient, new_browser: TestClient) -> None:
    wrong: list[dict[str, str]] = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}]
    for headers in wrong:
        answer = client.get("/metrics", headers=headers)
        assert (answer.status_code, answer.text) == (401, "")
        assert answer.headers["www-authenticate"] == "Bearer"
    # A server without a token has no metrics.
    assert new_browser.get("/metrics", headers=BEARER).status_code == 404


def test_no_label_tells_of_a_person(client: TestClient, database: Database) -> None:
    token = newcomer_of(database)
    assert client.get(f"/start/{token}").status_code in (200, 303)
    client.get(f"/{token}/x?participant={token}")
    client.request("TELLTALE", "/")
    shown = client.get("/metrics", headers=BEARER).text
    assert "/start/{token}" in shown
    told = [word for word in (token, "telltale", "TELLTALE", "testclient") if word in shown]
    assert told == []


def test_a_database_that_is_away_is_a_number(
    client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hsfiq.annotate.serving.monitoring.COUNTED_SECONDS", 0.0)
    numbers(client)
    file = Path(str(database.engine.url.database))
    content = file.read_bytes()
    database.engine.dispose()
    file.write_bytes(b"not a database" * 100)
    try:
        after = numbers(client)
    finally:
        database.engine.dispose()
        file.write_bytes(content)
    assert after["hsfiq_database_up", ""] == 0
    assert ("hsfiq_answers", "") not in after


def test_metrics_of_servers_that_were_killed_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed, foreign = tmp_path / "hsfiq-metrics-killed", tmp_path / "hsfiq-other"
    for folder in (killed, foreign):
        folder.mkdir()
        (folder / "counter_1.db").touch()
    (tmp_path / "hsfiq-metrics-link").symlink_to(foreign)
    with shared_metrics(Watching(metrics_token=TOKEN)) as (first, _):
        assert first.metrics_folder is not None
        (first.metrics_folder / "counter_2.db").touch()
        assert not killed.exists()
        with shared_metrics(Watching(metrics_token=TOKEN)) as (second, _):
            assert second.metrics_folder != first.metrics_folder
            assert list(first.metrics_folder.iterdir()) != []
    assert {path.name for path in tmp_path.iterdir()} == {foreign.name, "hsfiq-metrics-link"}
    assert list(foreign.iterdir()) != []


# ---------------------------------------------------------------------------------- logs


def test_each_request_is_a_line_with_its_id(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, REQUESTS):
        answer = client.get("/healthz")
    (record,) = [record for record in caplog.records if record.name == REQUESTS]
    assert set(record.facts) == {"method", "route", "status", "seconds"}  # type: ignore[attr-defined]
    assert record.facts["route"] == "/healthz"  # type: ignore[attr-defined]
    assert len(answer.headers["x-request-id"]) == 16


def test_a_route_below_a_mounted_app_and_a_public_path() -> None:
    inner = FastAPI()
    inner.add_api_route("/config/{name}", lambda name: {"name": name})
    outer = FastAPI()
    outer.mount("/study", inner)
    told: list[str] = []
    outer.add_middleware(RequestObserver, tell=[lambda request: told.append(request.route)])
    with TestClient(outer, root_path="/hsfiq") as client:
        assert client.get("/hsfiq/study/config/secret").json() == {"name": "secret"}
    assert told == ["/study/config/{name}"]


def test_a_record_with_a_traceback_is_one_line() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        record = logging.LogRecord("a", logging.ERROR, "", 1, "x %s", ("y",), sys.exc_info())
    line = JsonFormatter().format(record)
    facts = json.loads(line)
    assert "\n" not in line
    assert facts["message"] == "x y"
    assert "ValueError: first\nsecond" in facts["traceback"]


def test_a_slow_or_failing_statement_is_logged_without_values(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    engine = connect(database.engine.url.render_as_string(hide_password=False))
    log_slow_statements(engine, 0.0)
    with engine.connect() as connection:
        connection.execute(text("SELECT :value AS\n a"), {"value": REASON})
        with pytest.raises(Exception, match="no such"):
            connection.execute(text("SELECT telltale_function(:value)"), {"value": REASON})
    engine.dispose()
    for words in ("slow statement, 0.0", "SELECT ? AS a", "SELECT telltale_function(?)"):
        assert words in caplog.text
    assert REASON not in caplog.text
    caplog.clear()
    log_slow_statements(database.engine, 3600.0)
    with database.reading() as session:
        session.execute(text("SELECT 1"))
    assert caplog.records == []


@pytest.mark.slow
def test_the_log_of_a_process_is_json_and_tells_of_nobody(copied: Place, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    words = ("serve", "--database", copied.url, "--log-format", "json")
    options = ("--slow-statement-seconds", "0", "--metrics-token-file", str(file))
    server = Server(copied, *words, *options)
    server.start()
    token = newcomer(copied)
    one_request = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(base_url=server.url, trust_env=False, limits=one_request) as client:
        assert client.get(f"/start/{token}").status_code == 303
        body = answer_body(view(client), reason=REASON)
        assert client.post("/submit", json=body).status_code == 200
        break_table(copied.url, "sqlite", "participants", "UPDATE")
        client.cookies.clear()
        assert client.get(f"/start/{newcomer(copied, is_ready=False)}").status_code == 500
        counted = numbers(client)
    assert counted["hsfiq_requests_total", "GET /start/{token} 500"] == 1
    assert server.stop(signal.SIGTERM) == 0
    lines = server.log.read_text().splitlines()
    records = [json.loads(line) for line in lines]
    requests = [record for record in records if record["logger"] == REQUESTS]
    assert {"/submit", "/start/{token}", "/metrics"} <= {record["route"] for record in requests}
    failed = {record["request_id"] for record in records if "traceback" in record}
    assert failed
    assert failed <= {record["request_id"] for record in requests}
    slow = [record for record in records if "statement" in record]
    assert any("request_id" in record for record in slow)
    quoted = [
        secret
        for secret in (REASON, token, body["submit_key"], TOKEN, "127.0.0.1:5")
        if any(secret in line for line in lines)
    ]
    assert quoted == []


# --------------------------------------------------------------------------------- token


@pytest.mark.parametrize(("content", "mode", "words"), [
    (None, 0o600, "cannot be read"),
    ("short", 0o600, "no token of 16"),
    ("é" * 20, 0o600, "no token"),
    (TOKEN, 0o644, "others can read"),
])  # fmt: skip
def test_a_token_file_that_cannot_be_used_is_told_in_one_line(
    tmp_path: Path, content: str | None, mode: int, words: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
        file.chmod(mode)
    for options in (["--metrics-token-file"], ["--auth-header", "X-User", "--auth-secret-file"]):
        refuse(words, *options, file, "--database", "sqlite:///x.db")


def refuse(words: str, *options: str | Path) -> None:
    """`hsfiq serve` says in one line what is wrong."""
    result = hsfiq("serve", *options)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert words in result.err


@pytest.mark.parametrize(("options", "words"), [
    (["--auth-header", "X-Remote-User"], "needs --auth-secret-file"),
    (["--auth-secret-file", "absent"], "needs --auth-header"),
    (["--auth-header", "X-Auth-Secret"], "cannot be the header for a user's name"),
])  # fmt: skip
def test_a_header_with_names_needs_a_secret(options: list[str], words: str) -> None:
    refuse(words, *options, "--database", "sqlite:///x.db")


def test_a_server_says_where_it_is_once_it_can_be_reached(place: Place) -> None:
    make_study(place, recruitment={"mode": "prolific"}).close()
    with closing(listening("127.0.0.1", 0)) as taken:
        accept_connections(taken)
        port = str(taken.getsockname()[1])
        refuse(f"127.0.0.1:{port}: cannot be used", "--port", port, "--database", place.url)
    refuse("--host: 192.0.2.1 is no", "--host", "192.0.2.1", "--database", place.url)
    refuse("--host: 999.1.1.1 is no", "--host", "999.1.1.1", "--database", place.url)
    server = Server(place)
    server.start()
    server.kill()
    first, second = server.log.read_text().splitlines()[:2]
    assert first == f"serving at {server.url}; Ctrl-C stops it"
    assert second.startswith(f"study telltale-study on Prolific: {server.url}/start?PROLIFIC_PID=")


def test_a_server_prints_the_link_to_enter_at_a_panel(place: Place) -> None:
    panel = Panel("Our pool", "who", link="who=%ID%", complete="https://pool.test/{who}")
    make_study(place, recruitment={"mode": "panel", "panel": panel}).close()
    server = Server(place)
    server.start()
    server.kill()
    line = f"study telltale-study on Our pool: {server.url}/start?who=%ID%&study=telltale-study"
    assert server.log.read_text().splitlines()[1] == line
