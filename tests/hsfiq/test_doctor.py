"""`hsfiq doctor`: faults of the database, of the proxy and of the machine, made and repaired."""

from __future__ import annotations

import os
import shlex
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import text, update
from sqlalchemy.engine import make_url

from hsfiq.access import VARIABLE
from hsfiq.annotate.app import plain_app
from hsfiq.annotate.cookies import signer_of
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.security import StudyMiddleware
from hsfiq.annotate.serving.proxy import PublicAddress
from hsfiq.db.engine import Database, connect
from hsfiq.db.schema import head_revision, upgrade
from hsfiq.db.source_tables import Dataset
from hsfiq.db.tables import Participant, Study
from hsfiq.doctor import LARGEST_LOG, Finding, examine_clock, examine_proxy, examine_writing
from hsfiq.public_url import parsed_url
from tests.annotate.served_studies import garment
from tests.annotate.serving.proxies import SERVER, documented, free_port, make_certificate, nginx
from tests.conftest import do_without
from tests.databases import PostgresServer
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.live_servers import serving
from tests.studies import Seat, draw, make_queries, small_study


def findings(*options: str) -> list[dict[str, Any]]:
    """The findings of the doctor, whose exit code says whether there is a problem."""
    command = hsfiq("doctor", "--json", *options)
    assert command.err == ""
    result = command.result
    has_problem = any(finding["status"] == "problem" for finding in result["findings"])
    assert (command.code, result["well"]) == ((1, False) if has_problem else (0, True))
    return list(result["findings"])


def of_check(check: str, *options: str) -> list[dict[str, Any]]:
    return [finding for finding in findings(*options) if finding["check"] == check]


def fault(check: str, status: str, words: str, *options: str) -> str:
    """The command that repairs the only fault of this check, which has these words."""
    (finding,) = (each for each in of_check(check, *options) if each["status"] != "ok")
    assert finding["status"] == status
    assert words in finding["what"]
    assert finding["fix"]
    return str(finding["fix"])


def is_well(*checks: str) -> bool:
    """Whether each of these checks was made and found no fault."""
    made = [finding for finding in findings() if finding["check"] in checks]
    faults = [finding for finding in made if finding["status"] != "ok"]
    return not faults and {finding["check"] for finding in made} == set(checks)


def repair(commands: str, **replaced: str) -> None:
    """Run what the doctor says: `hsfiq` in this process, other programs as they are."""
    for command in commands.split(" && "):
        words = shlex.split(command)
        words = [replaced.get(word, word) for word in words]
        if words[0] == "hsfiq":
            result = hsfiq(*words[1:])
            assert result.code == 0, result.err
        else:
            subprocess.run(words, check=True, capture_output=True)


PASSWORD = "telltale-password"


@pytest.fixture
def chosen(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database of each kind, which the variable names."""
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    monkeypatch.delenv(VARIABLE, raising=False)
    if database.engine.dialect.name == "sqlite":
        Path(str(database.engine.url.database)).chmod(0o600)
    return database


def test_a_database_that_works_has_no_problem(chosen: Database) -> None:
    assert is_well("database", "migrations", "clock", "images", "disk", "proxy")


@on_sqlite
def test_text_has_one_line_for_each_finding(chosen: Database) -> None:
    command = hsfiq("doctor")
    assert (command.code, command.err) == (0, "")
    lines = command.out.splitlines()
    assert len(lines) == len(findings())
    assert {line.split()[0] for line in lines} <= {"ok", "warning"}
    assert any("; to repair it: hsfiq secret create" in line for line in lines)


def test_bad_usage_has_exit_code_2() -> None:
    for options in (["--database", "x"], ["--public-url", "x"], ["--database", ""]):
        command = hsfiq("doctor", *options)
        assert (command.code, command.out, command.err.count("\n")) == (2, "", 1)


def test_a_missing_sqlite_file_is_told_and_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "new folder" / "new.db"
    monkeypatch.setenv("HSFIQ_DATABASE_URL", f"sqlite:///{file}")
    fix = fault("database", "problem", "does not exist yet")
    assert not file.parent.exists()
    repair(fix)
    assert is_well("database", "migrations")


@on_sqlite
def test_a_file_of_something_else(database_url: str, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(b"not a database" * 100)
    fix = fault("database", "problem", "file is not a database", "--database", f"sqlite:///{other}")
    assert fix.startswith("hsfiq db restore")


@pytest.mark.postgres
def test_a_postgresql_database_that_is_not_there(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{postgres_server.prefix}_doctor"
    url = postgres_server.url.set(database=name)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", url.render_as_string(hide_password=False))
    fix = fault("database", "problem", "does not exist")
    assert fix.split()[0] == "createdb"
    assert fix.split()[-1] == name


@pytest.mark.postgres
def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"postgresql://somebody:{PASSWORD}@127.0.0.1:1/hsfiq"
    monkeypatch.setenv("HSFIQ_DATABASE_URL", url)
    assert fault("database", "problem", "127.0.0.1:1/hsfiq") == "systemctl start postgresql"
    assert PASSWORD not in hsfiq("doctor").out
    assert of_check("migrations") == []


def test_the_doctor_names_the_upgrade_of_an_empty_database(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HSFIQ_DATABASE_URL", empty_url)
    engine = connect(empty_url)
    with engine.execution_options(hsfiq_writes=True).begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num varchar(32))")
    engine.dispose()
    fix = fault("migrations", "problem", "revision none")
    assert fix.partition(" && ")[2] == "hsfiq db upgrade"


def test_a_schema_of_another_version_and_with_other_tables(chosen: Database) -> None:
    def run(statement: str) -> None:
        with chosen.writing() as session:
            session.execute(text(statement))

    run("CREATE TABLE unexpected (id integer)")
    assert "hsfiq db restore" in fault("migrations", "problem", "unexpected")
    run("DROP TABLE unexpected")
    run("UPDATE alembic_version SET version_num = '9999'")
    fix = fault("migrations", "problem", "9999 is of a newer hsfiq")
    assert fix == "pip install --upgrade hsfiq"
    run("UPDATE alembic_version SET version_num = '0001'")
    fix = fault("migrations", "problem", "revision 0001; this version needs 00")
    assert fix == "hsfiq db backup FILE && hsfiq db upgrade"
    assert of_check("images") == []


# -------------------------------------------------------------------------------- SQLite


@on_sqlite
def test_a_file_without_write_ahead_log(chosen: Database, database_url: str) -> None:
    chosen.engine.dispose()
    with closing(sqlite3.connect(str(make_url(database_url).database))) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    repair(fault("settings", "warning", "journal mode is delete"))
    assert is_well("settings")


@on_sqlite
def test_a_damaged_file(chosen: Database, database_url: str) -> None:
    small_study(chosen)
    chosen.checkpoint()
    chosen.engine.dispose()
    file = Path(str(make_url(database_url).database))
    with closing(sqlite3.connect(file)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'retrieved_images'"
        ).fetchone()
    content = bytearray(file.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = os.urandom(4096)
    file.write_bytes(content)
    assert fault("settings", "problem", "damaged").startswith("hsfiq db restore ")


@on_sqlite
def test_a_log_that_a_reader_keeps(chosen: Database, database_url: str) -> None:
    file = str(make_url(database_url).database)
    with (
        closing(sqlite3.connect(file)) as reader,
        closing(sqlite3.connect(file)) as writer,
    ):
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM settings").fetchall()
        writer.execute("PRAGMA synchronous=OFF")
        writer.execute("CREATE TABLE filling AS SELECT zeroblob(?) AS bytes", (LARGEST_LOG,))
        writer.execute("DROP TABLE filling")
        writer.commit()
        assert fault("settings", "warning", "write-ahead log has") == f"fuser {file}"
    assert is_well("settings")


# ---------------------------------------------------------------------------- PostgreSQL


@pytest.fixture
def own_postgres(
    empty_postgres: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    """A database whose settings the test may change, at PostgreSQL's defaults."""
    monkeypatch.setenv("HSFIQ_DATABASE_URL", empty_postgres)
    url = make_url(empty_postgres)
    for variable, value in (("HOST", url.host), ("PORT", url.port), ("USER", url.username)):
        monkeypatch.setenv(f"PG{variable}", str(value or ""))
    postgres_server.run(f'ALTER DATABASE "{url.database}" RESET ALL')
    engine = connect(empty_postgres)
    upgrade(engine)
    engine.dispose()
    yield Database(engine)
    engine.dispose()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ("SET synchronous_commit = off", "problem", "can lose acknowledged answers"),
        ("SET default_transaction_read_only = on", "problem", "answers cannot be stored"),
        ("CONNECTION LIMIT 7", "warning", "PostgreSQL allows 7"),
    ],
)
def test_settings_of_the_database(
    own_postgres: Database, postgres_server: PostgresServer, change: str, status: str, words: str
) -> None:
    if any(each["status"] != "ok" for each in of_check("settings")):
        do_without("the test's server does without fsync")
    name = own_postgres.engine.url.database
    postgres_server.run(f'ALTER DATABASE "{name}" {change}')
    fix = fault("settings", status, words)
    assert fix.startswith(f"psql --dbname={name} --command='ALTER DATABASE ")
    postgres_server.run(fix.partition("--command=")[2].strip("'"))
    assert is_well("settings")


@pytest.mark.postgres
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_an_encoding_that_cannot_hold_every_text(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    name = f"{postgres_server.prefix}_{encoding.lower()}"
    postgres_server.run(
        f"CREATE DATABASE \"{name}\" ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    )
    url = postgres_server.url.set(database=name).render_as_string(hide_password=False)
    postgres_server.urls.append(url)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", url)
    settings = [each["what"] for each in of_check("settings")]
    assert f"the encoding is {encoding}: some texts cannot be stored" in settings
    postgres_server.drop(url)


# --------------------------------------------------------------------------------- clock


def test_a_request_in_the_future(chosen: Database) -> None:
    Seat.taken(chosen, small_study(chosen))
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with chosen.writing() as session:
        session.execute(update(Participant).values(seen_at=tomorrow))
    assert "set-ntp" in fault("clock", "warning", f"last seen at {tomorrow:%Y-%m-%d}")


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("hours", [-24, 1])
def test_a_server_with_another_time(chosen: Database, hours: int) -> None:
    finding = examine_clock(chosen.engine, lambda: datetime.now(UTC) + timedelta(hours=hours))
    assert finding.status == "problem"
    assert f"differs from this machine's by {-3600 * hours:+,.0f} s" in finding.what


BARE = SERVER.format(location="location / { proxy_pass http://127.0.0.1:7860; }")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    make_certificate(folder)
    return folder


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process trusts the certificate."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "study.pem"))
    return certificate


@pytest.fixture
def proxied(database: Database, tmp_path: Path, certificate: Path) -> Iterator[Callable[..., str]]:
    """Serve the app behind nginx; the public URL with this path."""
    with ExitStack() as stack:

        def start(server: str, path: str = "", *, knows_its_address: bool) -> str:
            port = free_port()
            public = parsed_url(f"https://localhost:{port}{path}", "--public-url")
            app: FastAPI = plain_app(Services.of(database))
            app.add_middleware(StudyMiddleware, pages={})
            app.add_middleware(PublicAddress, public=public if knows_its_address else None)
            upstream = stack.enter_context(serving(app))
            stack.enter_context(nginx(tmp_path, certificate, server, upstream, port))
            return str(public)

        yield start


def examined(url: str) -> list[Finding]:
    return list(examine_proxy(parsed_url(url, "--public-url")))


@on_sqlite
@pytest.mark.parametrize(("number", "path"), [(0, ""), (1, "/hsfiq")])
def test_the_documented_configurations_are_well(
    proxied: Callable[..., str], trusted: Path, number: int, path: str
) -> None:
    answer, expiry = examined(proxied(documented()[number], path, knows_its_address=True))
    assert answer.status == "ok"
    assert answer.what.endswith("answers, with the correct address")
    # The test's certificate is valid for two days.
    assert (expiry.status, expiry.check) == ("warning", "proxy")
    assert "the certificate ends at" in expiry.what


@on_sqlite
def test_a_server_that_is_not_ready_is_found_through_the_proxy(
    proxied: Callable[..., str], trusted: Path, database: Database
) -> None:
    url = proxied(documented()[0], knows_its_address=True)
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    try:
        answer, readiness, _ = examined(url)
    finally:
        with database.writing() as session:
            session.execute(text(f"UPDATE alembic_version SET version_num = '{head_revision()}'"))
    assert answer.status == "ok"
    assert readiness.status == "problem"
    assert f"{url}readyz: answers 503: migrations: revision 0001, needed is" in readiness.what


@on_sqlite
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("", "refuses its own pages"),
        ("proxy_set_header Host $http_host;", "takes http://localhost:"),
    ],
)
def test_a_proxy_that_does_not_say_what_browsers_use(
    proxied: Callable[..., str], trusted: Path, setting: str, words: str
) -> None:
    server = BARE.replace("7860; }", f"7860; {setting} }}")
    url = proxied(server, knows_its_address=False)
    answer, clients, _ = examined(url)
    assert clients.status == "problem"
    assert answer.status == "problem"
    assert words in answer.what
    assert answer.fix == f"hsfiq serve --public-url {url}"


@on_sqlite
def test_a_proxy_that_hides_the_clients(
    proxied: Callable[..., str], trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = proxied(BARE, knows_its_address=True)
    answer, client, _ = examined(url)
    assert answer.status == "ok"
    assert client.status == "problem"
    assert client.what.startswith(f"{url}: all browsers count as one client, because the proxy")
    setting, _, _ = client.fix.partition(" in nginx")
    assert setting in documented()[0]
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "192.0.2.1")
    server = BARE.replace("7860; }", f"7860; {setting} }}")
    _, client, _ = examined(proxied(server, knows_its_address=True))
    assert (client.status, "does not trust their" in client.what) == ("problem", True)
    monkeypatch.delenv("FORWARDED_ALLOW_IPS")
    answer, _ = examined(proxied(server, knows_its_address=True))
    assert answer.status == "ok"


@on_sqlite
def test_a_proxy_with_another_path_and_one_that_reaches_nothing(
    proxied: Callable[..., str], trusted: Path, tmp_path: Path
) -> None:
    url = proxied(BARE, knows_its_address=True)
    answer, _ = examined(f"{url}other")
    assert (answer.status, "answers 404: this is not hsfiq" in answer.what) == (
        "problem",
        True,
    )
    port = free_port()
    with nginx(tmp_path, trusted, BARE, f"http://127.0.0.1:{free_port()}", port):
        answer, _ = examined(f"https://localhost:{port}")
    assert (answer.status, "answers 502: the proxy does not" in answer.what) == ("problem", True)


@on_sqlite
def test_a_certificate_that_browsers_refuse(proxied: Callable[..., str]) -> None:
    (answer,) = examined(proxied(BARE, knows_its_address=True))
    assert answer.status == "problem"
    assert "browsers refuse the certificate" in answer.what


@on_sqlite
def test_without_a_proxy_the_clients_are_known_if_anything_answers(database: Database) -> None:
    app: FastAPI = plain_app(Services.of(database))
    app.add_middleware(StudyMiddleware, pages={})
    with serving(app) as url:
        (answer,) = examined(url)
    assert answer.status == "ok"
    (answer,) = examined(f"http://127.0.0.1:{free_port()}")
    assert answer.status == "problem"
    assert "no response (Connection refused)" in answer.what


NOBODY = 65534


@pytest.fixture
def file(chosen: Database) -> Path:
    return Path(str(chosen.engine.url.database))


# ---------------------------------------------------------------------------------- disk


@contextmanager
def disk(folder: Path, size: str) -> Iterator[None]:
    """A disk of so many bytes at a folder, which has no process of another user."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a disk")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@on_sqlite
@pytest.mark.parametrize(("size", "status"), [("50m", "problem"), ("500m", "warning")])
def test_a_disk_without_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: str, status: str
) -> None:
    monkeypatch.setenv("HSFIQ_DATABASE_URL", f"sqlite:///{tmp_path}/new.db")
    with disk(tmp_path, size):
        assert f"df -h {tmp_path}" in fault("disk", status, size.rstrip("m"))


# --------------------------------------------------------------------------- permissions


@on_sqlite
def test_a_file_that_others_can_read(file: Path) -> None:
    file.chmod(0o644)
    fix = next(each["fix"] for each in of_check("permissions") if each["status"] == "problem")
    assert fix == f"chmod 600 {file}"
    repair(fix)
    assert all(each["status"] != "problem" for each in of_check("permissions"))
    file.chmod(0o660)  # a group that shares it on purpose
    assert all(each["status"] != "problem" for each in of_check("permissions"))


@on_sqlite
def test_the_key_in_the_database_in_a_file_and_in_a_file_that_others_can_read(
    chosen: Database, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer_of(chosen)
    secret = tmp_path / "secret"
    repair(
        fault("permissions", "warning", "in each of its backups"),
        **{"/etc/hsfiq/secret": str(secret)},
    )
    assert fault("permissions", "problem", "in a file, but") == f"export {VARIABLE}=FILE"
    monkeypatch.setenv(VARIABLE, str(secret))
    assert is_well("permissions")
    secret.chmod(0o644)
    fix = fault("permissions", "problem", "others can read")
    repair(fix)
    assert is_well("permissions")
    keys = secret.read_text().split()
    assert not any(key in str(of_check("permissions")) for key in keys)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "absent"))
    assert "hsfiq secret create" in fault("permissions", "problem", "cannot be read")


@on_sqlite
def test_a_folder_in_which_no_file_can_be_made(kind: str) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(NOBODY)
        try:
            (finding,) = examine_writing([folder / "thumbnails"])
        finally:
            if is_root:
                os.seteuid(0)
        assert finding.status == "problem"
        assert "Permission denied" in finding.what
        repair(str(finding.fix).replace('"$(id -un)"', str(os.geteuid())))
        (finding,) = examine_writing([folder / "thumbnails"])
        assert finding.status == "ok"


# -------------------------------------------------------------------------------- images


@on_sqlite
def test_images_that_are_absent_or_no_images(chosen: Database, tmp_path: Path) -> None:
    draw(chosen, make_queries(chosen))
    fault("images", "problem", "8 missing")
    folder = tmp_path / "pictures"
    folder.mkdir()
    with chosen.writing() as session:
        session.execute(update(Dataset).values(image_root=str(folder)))
    fix = fault("images", "problem", "8 missing")
    assert fix == "hsfiq images check --study small"
    for number in range(8):
        (folder / f"image-{number}.png").write_bytes(garment(number))
    assert is_well("images")
    (folder / "image-0.png").unlink()
    (folder / "image-1.png").write_text("<html>not found</html>")
    (folder / "image-2.png").write_bytes(b"")
    fault("images", "warning", "of 8 images, 1 empty, 1 missing, 1 undecodable")
    with chosen.writing() as session:
        session.execute(update(Study).values(status="closed"))
    assert is_well("images")


# ------------------------------------------------------------------------------ versions


@on_sqlite
@pytest.mark.parametrize(("name", "version"), [("gradio", "6.30.0"), ("setuptools", "65.5.0")])
def test_packages_of_another_version_are_named_but_no_tools(
    chosen: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str
) -> None:
    """A new environment has its own versions of tools."""
    assert is_well("versions")
    metadata = tmp_path / f"{name}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(tmp_path)
    if name == "setuptools":
        assert is_well("versions")
        return
    fix = fault("versions", "warning", "not as tested: gradio 6.30.0 (tested: ")
    assert fix.startswith("pip install --constraint ")
    assert Path(fix.split()[3]).is_file()
