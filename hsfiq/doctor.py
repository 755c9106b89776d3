"""The checks of `hsfiq doctor`, in order of importance."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import ssl
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import Any, Literal

from sqlalchemy import Engine, Row, func, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

import hsfiq
from hsfiq.access import IN_FILE, VARIABLE, read_keys, stored_key
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.failures import LEAST_SPACE, first_existing, free_space, shown_url, unusable
from hsfiq.db.schema import current_revision, differences, head_revision, known_revisions
from hsfiq.db.sqlite import LOG_SUFFIXES, file_of, is_archive, is_fresh_sqlite
from hsfiq.db.tables import Participant, Study
from hsfiq.errors import UnreadableInput
from hsfiq.images.check import FindFault
from hsfiq.images.store import StoreAddress, StoreFolder
from hsfiq.images.stored_copies import damaged_copies
from hsfiq.public_url import OPTION, PublicUrl
from hsfiq.study.images import ShownImages, check_shown, shown_images
from hsfiq.text import count_text, first_few

# What a check of the doctor has found.

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor.

    Attributes:
        check: what was checked, such as `database`.
        what: the problem, or the observation.
        fix: the command or action that solves the problem; None without a problem.
    """

    check: str
    status: Status
    what: str
    fix: str | None = None


def quoted(path: Path | str) -> str:
    """A path, quoted for a shell."""
    return shlex.quote(str(path))


# Whether the database's clock is ours, and whether the time has gone back.

TOLERATED = timedelta(seconds=5)
SYNCHRONISE = "timedatectl set-ntp true"

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def examine_clock(engine: Engine, clock: Clock = utc_now) -> Finding:
    """Compare the server's clock, and the last request that was stored, with `clock`."""
    now = clock()
    last_seen = select(func.max(Participant.seen_at))
    with engine.connect() as connection:
        latest = connection.scalar(last_seen)
        if engine.dialect.name == "postgresql":
            begun = clock()
            theirs = connection.execute(select(func.clock_timestamp())).scalar_one()
            now = clock()
            if not begun - TOLERATED <= theirs <= now + TOLERATED:
                seconds = (theirs - now).total_seconds()
                what = f"the database's clock differs from this machine's by {seconds:+,.0f} s"
                return Finding("clock", "problem", what, SYNCHRONISE)
    if latest is not None and latest > now + TOLERATED:
        what = (
            f"a participant was last seen at {latest:%Y-%m-%d %H:%M} UTC, which is in the future: "
            f"a clock is or was wrong"
        )
        return Finding("clock", "warning", what, SYNCHRONISE)
    return Finding("clock", "ok", f"{now:%Y-%m-%d %H:%M:%S} UTC")


# Whether the database can be reached, and has the tables of this version.

UPGRADE = "hsfiq db upgrade"
RESTORE = "hsfiq db restore BACKUP --database NEW_URL"


def sqlite_file(engine: Engine) -> Path | None:
    """The file of a SQLite database."""
    return file_of(engine.url) if engine.dialect.name == "sqlite" else None


def examine_database(engine: Engine) -> Finding:
    """Whether it can be reached and written to; this never creates it."""
    shown = shown_url(engine.url.render_as_string())
    if is_fresh_sqlite(engine.url):
        file = sqlite_file(engine)
        needs_folder = file is not None and not file.parent.exists()
        fix = f"mkdir -p {quoted(file.parent)} && {UPGRADE}" if file and needs_folder else UPGRADE
        return Finding("database", "problem", f"{shown}: the database does not exist yet", fix)
    if is_archive(engine.url) and (file := sqlite_file(engine)) is not None:
        what = f"{shown}: is read-only, so answers cannot be stored"
        return Finding("database", "problem", what, f"chmod u+w {quoted(file)}")
    try:
        with engine.connect() as connection:
            version = connection.dialect.server_version_info or ()
            connection.exec_driver_sql(
                "SELECT count(*) FROM sqlite_master" if engine.name == "sqlite" else "SELECT 1"
            )
    except DBAPIError as error:
        return Finding(
            "database", "problem", str(unusable(shown, error.orig)), remedy(engine.url, error)
        )
    kind = "SQLite" if engine.dialect.name == "sqlite" else "PostgreSQL"
    return Finding("database", "ok", f"{shown}: {kind} {'.'.join(map(str, version))}")


def remedy(url: URL, error: DBAPIError) -> str:
    """The remedy for an unreachable database."""
    if url.get_backend_name() == "sqlite":
        return RESTORE
    message = str(error.orig)
    if f'database "{url.database}" does not exist' in message:
        place = "".join(
            f" --{name}={quoted(str(value))}"
            for name, value in (("host", url.host), ("port", url.port), ("username", url.username))
            if value
        )
        return f"createdb{place} {quoted(str(url.database))}"
    if "authentication failed" in message or "no password supplied" in message:
        return "correct the user and the password in HSFIQ_DATABASE_URL"
    return "systemctl start postgresql"


def examine_migrations(engine: Engine) -> Finding:
    revision, newest = current_revision(engine), head_revision()
    if revision is not None and revision not in known_revisions():
        what = f"revision {revision} is of a newer hsfiq; this one knows {newest}"
        return Finding("migrations", "problem", what, "pip install --upgrade hsfiq")
    if revision != newest:
        what = f"the database is at revision {revision or 'none'}; this version needs {newest}"
        return Finding("migrations", "problem", what, f"hsfiq db backup FILE && {UPGRADE}")
    different = differences(engine)
    if different:
        what = f"{len(different)} differences from revision {newest}, such as {different[0]}"
        return Finding("migrations", "problem", what, RESTORE)
    return Finding("migrations", "ok", f"revision {revision}, the newest")


def examine_sqlite(engine: Engine, file: Path) -> Iterator[Finding]:
    """The journal, its size, and whether the file is damaged."""
    with engine.connect() as connection:
        mode = str(connection.exec_driver_sql("PRAGMA journal_mode").scalar())
        try:
            state = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
        except DBAPIError as error:
            state = str(error.orig)
    if mode == "wal":
        yield examine_log(file)
    else:
        # Every command that opens the database sets the mode.
        what = f"the journal mode is {mode}, so readers and the writer block each other"
        yield Finding("settings", "warning", what, "hsfiq study list")
    if state == "ok":
        yield Finding("settings", "ok", "the file is not damaged")
    else:
        what = f"the file is damaged ({' '.join(state.split())})"
        yield Finding("settings", "problem", what, RESTORE)


LARGEST_LOG = 32 * 2**20
"""Bytes: a server empties the write-ahead log every few seconds, unless something still reads."""


def examine_log(file: Path) -> Finding:
    log = Path(f"{file}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > LARGEST_LOG:
        what = (
            f"the write-ahead log has {size / 2**20:,.0f} MB: "
            "a long-running reader prevents its truncation"
        )
        return Finding("settings", "warning", what, f"fuser {quoted(file)}")
    return Finding("settings", "ok", f"write-ahead log, {size / 2**20:,.1f} MB")


# The folders of the database and of the thumbnails: their space, and whether files can be made.

SCARCE_SPACE = 2**30
"""Bytes below which there is a warning."""


def examine_space(folders: Iterable[Path]) -> Iterator[Finding]:
    """Space on the disks of these folders, which may not exist yet."""
    for folder in existing(folders):
        free = free_space(folder)
        what = f"{folder}: {free / 2**20:,.0f} MB left"
        fix = f"df -h {quoted(folder)}; move it to a larger disk or delete other files"
        if free < LEAST_SPACE:
            needed = f"{what}; a server needs {LEAST_SPACE // 2**20}"
            yield Finding("disk", "problem", needed, fix)
        elif free < SCARCE_SPACE:
            yield Finding("disk", "warning", what, fix)
        else:
            yield Finding("disk", "ok", what)


def examine_writing(folders: Iterable[Path]) -> Iterator[Finding]:
    """Whether this user can create files in these folders."""
    for folder in existing(folders):
        try:
            with TemporaryFile(dir=folder):
                pass
        except OSError as error:
            what = f"{folder}: files cannot be created ({error.strerror})"
            fix = f'chown "$(id -un)" {quoted(folder)} && chmod u+rwx {quoted(folder)}'
            yield Finding("permissions", "problem", what, fix)
        else:
            yield Finding("permissions", "ok", f"{folder}: files can be created")


def examine_copies(folder: Path) -> Iterator[Finding]:
    """Read the copies of images that pages show, if there are any."""
    number, damaged = damaged_copies(folder)
    if damaged:
        what = (
            f"{folder}: {damaged:,} of {count_text(number, 'copy', 'copies')} of images are "
            f"damaged or outdated; a server creates them again when needed"
        )
        yield Finding("thumbnails", "warning", what, "hsfiq images warm")
    elif number:
        what = f"{folder}: {count_text(number, 'copy', 'copies')} of images, all undamaged"
        yield Finding("thumbnails", "ok", what)


def existing(folders: Iterable[Path]) -> list[Path]:
    """Each folder, or its nearest existing parent, without duplicates."""
    nearest = (first_existing(folder) for folder in folders)
    return list(dict.fromkeys(folder for folder in nearest if folder is not None))


# Whether the images that participants see are there and can be read.


def examine_images(database: Database) -> Iterator[Finding]:
    """A line for each study that accepts answers."""
    with database.reading() as session:
        studies = [
            study
            for study in list_studies(session)
            if study.origin != "imported" and study.status != "closed"
        ]
        for study in studies:
            yield examine_study(session, study)
    if not studies:
        yield Finding("images", "ok", "no study accepts answers")


def examine_study(session: Session, study: Study) -> Finding:
    """Open each image and compare it with its digest, without decoding it."""
    shown = shown_images(session, study)
    if isinstance(shown.root, StoreAddress):
        return examine_store(shown, shown.root)
    checked = check_shown(shown, header_reader())
    number = count_text(checked.images, "image")
    if checked.passed:
        return Finding("images", "ok", f"study {study.name}: {number} present and readable")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(checked.kinds.items()))
    what = f"study {study.name}: of {number}, {kinds}; their questions are skipped"
    is_none_there = len(checked.faulty) == checked.images
    fix = f"hsfiq images check --study {quoted(study.name)}"
    return Finding("images", "problem" if is_none_there else "warning", what, fix)


def examine_store(shown: ShownImages, address: StoreAddress) -> Finding:
    """List the store; its images are not read, which may take long."""
    try:
        images = StoreFolder(address)
    except UnreadableInput as error:
        what = f"study {shown.study}: {error.where}: {error.what}"
        return Finding("images", "problem", what, error.remedy)
    if not images.answers:
        what = f"study {shown.study}: {address}: the store does not answer"
        return Finding("images", "problem", what, "check the address and the network")
    what = f"study {shown.study}: {address} answers and has {count_text(len(images), 'image')}"
    missing = sum(images.find(name) is None for name in shown.names)
    if not missing:
        return Finding("images", "ok", what)
    what += f"; of {len(shown.names):,} of the study, {missing:,} are missing"
    fix = f"hsfiq images check --study {quoted(shown.study)}"
    return Finding("images", "warning", what, fix)


def header_reader() -> FindFault | None:
    """The function that opens an image; None without Pillow: then files are only looked for."""
    with suppress(ModuleNotFoundError):
        from hsfiq.images.decode import header_fault  # noqa: PLC0415 (needs Pillow)

        return header_fault
    return None


# PostgreSQL's settings on which answers depend.


@dataclass(frozen=True, slots=True)
class Rule:
    """A value of a setting that loses or refuses answers."""

    name: str
    wrong: str
    consequence: str
    right: str
    is_of_server: bool = False


RULES = (
    Rule("fsync", "off", "a crash can damage the database", "on", is_of_server=True),
    Rule("full_page_writes", "off", "a crash can damage the database", "on", is_of_server=True),
    Rule("synchronous_commit", "off", "a crash can lose acknowledged answers", "on"),
    Rule("default_transaction_read_only", "on", "answers cannot be stored", "off"),
)

FACTS = text("""
    SELECT current_database() AS database,
           current_user AS user_name,
           pg_is_in_recovery() AS is_standby,
           current_setting('server_encoding') AS encoding,
           current_setting('max_connections')::int
             - current_setting('superuser_reserved_connections')::int AS server_limit,
           (SELECT datconnlimit FROM pg_database WHERE datname = current_database())
             AS database_limit,
           (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS user_limit
""")

SETTINGS = text("SELECT name, setting FROM pg_settings")


def examine_postgres(engine: Engine) -> Iterator[Finding]:
    with engine.connect() as connection:
        facts = connection.execute(FACTS).one()
        settings = {str(name): str(value) for name, value in connection.execute(SETTINGS)}
    findings = [
        *unsafe_settings(settings, facts.database),
        *unusable_state(facts),
        *scarce_connections(engine, facts),
    ]
    yield from findings
    if not findings:
        names = ", ".join(rule.name for rule in RULES)
        yield Finding("settings", "ok", f"{names}, encoding and connections")


def unsafe_settings(settings: dict[str, str], database: str) -> Iterator[Finding]:
    for rule in RULES:
        if settings.get(rule.name) != rule.wrong:
            continue
        whose = "SYSTEM" if rule.is_of_server else f'DATABASE "{database}"'
        fix = psql(database, f"ALTER {whose} SET {rule.name} = {rule.right}")
        if rule.is_of_server:
            fix += f" && {psql(database, 'SELECT pg_reload_conf()')}"
        what = f"{rule.name} is {rule.wrong}: {rule.consequence}"
        yield Finding("settings", "problem", what, fix)


def unusable_state(facts: Row[Any]) -> Iterator[Finding]:
    if facts.is_standby:
        what = "this server is a standby: answers cannot be stored"
        yield Finding("settings", "problem", what, "name the primary in HSFIQ_DATABASE_URL")
    if facts.encoding != "UTF8":
        what = f"the encoding is {facts.encoding}: some texts cannot be stored"
        new = "createdb --encoding=UTF8 --template=template0 NEW"
        yield Finding("settings", "problem", what, f"{new} && hsfiq db copy OLD_URL NEW_URL")


def scarce_connections(engine: Engine, facts: Row[Any]) -> Iterator[Finding]:
    """Limits below the connections of one server process; -1 is no limit."""
    if not isinstance(engine.pool, QueuePool):
        return
    needed = engine.pool.size()
    database, user = facts.database, facts.user_name
    limits = {
        f'ALTER DATABASE "{database}" CONNECTION LIMIT {needed}': facts.database_limit,
        f'ALTER ROLE "{user}" CONNECTION LIMIT {needed}': facts.user_limit,
        f"ALTER SYSTEM SET max_connections = {2 * needed}": facts.server_limit,
    }
    for statement, limit in limits.items():
        if 0 <= limit < needed:
            what = f"a server process may open {needed} connections, PostgreSQL allows {limit}"
            yield Finding("settings", "warning", what, psql(database, statement))


def psql(database: str, statement: str) -> str:
    return f"psql --dbname={quoted(database)} --command={quoted(statement)}"


# Who can read the secrets: the file of the signing key, and the database's file.

CREATE = "hsfiq secret create /etc/hsfiq/secret"


def examine_key(database: Database | None) -> Iterator[Finding]:
    """The file that HSFIQ_SECRET_FILE names; without one, the database holds the key.

    `database` is None if it cannot be used.
    """
    named = os.environ.get(VARIABLE)
    if named:
        file = Path(named)
        try:
            read_keys(file)
        except UnreadableInput as error:
            is_there = file.is_file() and "others" in error.what
            fix = f"chmod 600 {quoted(file)}" if is_there else f"hsfiq secret create {quoted(file)}"
            yield Finding("permissions", "problem", f"{file}: {error.what}", fix)
        else:
            yield Finding("permissions", "ok", f"{file}: holds the signing key and is private")
    elif database is not None and stored_key(database) == IN_FILE:
        what = f"the signing key is in a file, but {VARIABLE} is not set"
        yield Finding("permissions", "problem", what, f"export {VARIABLE}=FILE")
    elif database is not None:
        what = "the signing key is in the database, and in each of its backups and copies"
        yield Finding("permissions", "warning", what, CREATE)


def examine_modes(file: Path) -> Iterator[Finding]:
    """Who can read a SQLite file and those beside it."""
    real = os.path.realpath(file)
    files = [Path(f"{real}{suffix}") for suffix in ("", *LOG_SUFFIXES)]
    shared = [each for each in files if each.exists() and is_shared(each.stat().st_mode)]
    for each in shared:
        what = f"{each}: other users can read the links and answers of participants"
        yield Finding("permissions", "problem", what, f"chmod 600 {quoted(each)}")
    if not shared:
        yield Finding("permissions", "ok", f"{file}: is private")


def is_shared(mode: int) -> bool:
    """Whether other users, or an unintended group, can use a file."""
    return bool(mode & stat.S_IRWXO or (mode & stat.S_IRWXG and not mode & stat.S_IWGRP))


# Whether browsers reach the server at its public URL, through a proxy that tells it the truth.

SECONDS = 10.0

LONGEST_REPLY = 10_000

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

RENEWED = timedelta(days=14)
"""A certificate that is valid for less time should have been renewed."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    location: str
    certificate_end: datetime | None
    port: int
    """That from which the request was sent."""

    @property
    def is_healthy(self) -> bool:
        try:
            return self.status == 200 and json.loads(self.body) == {"ok": True}
        except ValueError:
            return False


def examine_proxy(public: PublicUrl | None) -> Iterator[Finding]:
    """Ask the server at the public URL for its health and its own address."""
    if public is None:
        yield Finding("proxy", "ok", "no public URL is set: browsers use the server's own address")
        return
    try:
        reply = asked(public, "/healthz")
        # The router answers this path with a redirect, as the server sees the address. A proxy may
        # correct it, but then the server refuses what it takes for another site's request.
        redirect = asked(public, "/healthz/")
        own = asked(public, "/healthz", "POST", {"Origin": public.origin})
        ready = asked(public, "/readyz")
        client = asked(public, "/healthz/client")
    except ssl.SSLCertVerificationError as error:
        what = f"{public}: browsers refuse the certificate ({error.verify_message})"
        yield Finding("proxy", "problem", what, "install a valid certificate in the proxy")
        return
    except (OSError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        what = f"{public}: no response ({reason})"
        yield Finding(
            "proxy", "problem", what, f"start the proxy, and hsfiq serve {OPTION} {public}"
        )
        return
    yield answer_finding(public, reply, redirect, own)
    yield from client_findings(public, client)
    if reply.is_healthy and ready.status != HTTPStatus.OK:
        yield unready_finding(public, ready)
    yield from certificate_findings(public, reply.certificate_end)


def answer_finding(public: PublicUrl, reply: Reply, redirect: Reply, own: Reply) -> Finding:
    """`own` is the reply to a request that changes nothing, as one of our pages sends it."""
    start = f"hsfiq serve {OPTION} {public}"
    if not reply.is_healthy:
        if 300 <= reply.status < 400:
            what = f"{public}: redirects to {reply.location}"
            return Finding(
                "proxy", "problem", what, f"{OPTION} is the address that it redirects to"
            )
        reason = "the proxy does not reach hsfiq" if reply.status >= 500 else "this is not hsfiq"
        what = f"{public}healthz: answers {reply.status}: {reason}"
        return Finding(
            "proxy", "problem", what, f"proxy_pass as in docs/hosting/proxy.md, and {start}"
        )
    expected = f"{public}healthz"
    if redirect.location and redirect.location != expected:
        seen = redirect.location.removesuffix("healthz")
        what = f"{public}: the server takes {seen} for its own address, as the proxy's headers say"
        return Finding("proxy", "problem", what, start)
    if own.status == HTTPStatus.FORBIDDEN:
        what = f"{public}: the server refuses its own pages, because the proxy hides their address"
        return Finding("proxy", "problem", what, start)
    return Finding("proxy", "ok", f"{public}: answers, with the correct address")


def client_findings(public: PublicUrl, client: Reply) -> Iterator[Finding]:
    """Whether the server considers the proxy the client of all requests."""
    try:
        seen = json.loads(client.body)
        is_told, port = bool(seen["is_told"]), int(seen["port"])
    except (ValueError, TypeError, KeyError):  # it was not hsfiq that answered
        return
    if port in (0, client.port):  # told by the proxy, or there is none
        return
    why = "the server does not trust" if is_told else "the proxy does not pass on"
    what = f"{public}: all browsers count as one client, because {why} their addresses"
    fix = "proxy_set_header X-Forwarded-For $remote_addr; in nginx, at proxy_pass"
    if is_told:
        fix = "set FORWARDED_ALLOW_IPS to the proxy's address before hsfiq serve"
    yield Finding("proxy", "problem", what, fix)


def unready_finding(public: PublicUrl, ready: Reply) -> Finding:
    """The reason why the server, or one of several servers, does not accept answers."""
    what = f"{public}readyz: answers {ready.status}: {reasons_in(ready.body)}"
    return Finding("proxy", "problem", what, "run hsfiq doctor on the server's machine")


def reasons_in(body: bytes) -> str:
    """The checks of `/readyz` that failed."""
    try:
        checks = json.loads(body)
        failed = {name: str(state) for name, state in checks.items() if state not in ("ok", False)}
    except (ValueError, AttributeError):
        return "the proxy does not pass this path on"
    return "; ".join(f"{name}: {state}" for name, state in failed.items())


def certificate_findings(public: PublicUrl, end: datetime | None) -> Iterator[Finding]:
    if end is not None and end - datetime.now(UTC) < RENEWED:
        what = f"{public}: the certificate ends at {end:%Y-%m-%d %H:%M} UTC"
        yield Finding("proxy", "warning", what, "renew the certificate, such as by `certbot renew`")


def asked(
    public: PublicUrl, path: str, method: str = "GET", headers: Mapping[str, str] = NO_HEADERS
) -> Reply:
    """The reply to one request, without following redirects."""
    if public.scheme == "https":
        context = ssl.create_default_context()
        connection: HTTPConnection = HTTPSConnection(public.host, timeout=SECONDS, context=context)
    else:
        connection = HTTPConnection(public.host, timeout=SECONDS)
    try:
        connection.connect()
        end, port = certificate_end(connection), connection.sock.getsockname()[1]
        sent = {"Connection": "close", **headers}
        connection.request(method, public.path + path, headers=sent)
        answer = connection.getresponse()
        body = answer.read(LONGEST_REPLY)
        return Reply(answer.status, body, answer.getheader("location", ""), end, port)
    finally:
        connection.close()


def certificate_end(connection: HTTPConnection) -> datetime | None:
    """When the certificate of a TLS connection expires."""
    certificate = (
        connection.sock.getpeercert() if isinstance(connection.sock, ssl.SSLSocket) else None
    )
    if not certificate:
        return None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate["notAfter"])), UTC)


# Whether hsfiq was tested with the installed packages.

PINNED = re.compile(r"(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")

SERVING = ("gradio", "fastapi", "uvicorn", "pillow")
"""Without these, there is no server."""

OF_ENVIRONMENTS = ("pip", "setuptools")
"""Packages of new environments that no server uses."""

SHOWN = ("SQLAlchemy", "gradio")


def tested_versions(file: Path) -> dict[str, str]:
    """The package versions of a constraints file."""
    return dict(PINNED.findall(file.read_text(encoding="utf-8")))


def constraints_file() -> Path | None:
    """In a wheel beside the modules, in a checkout beside the package."""
    package = Path(hsfiq.__file__).parent
    places = (package / "constraints.txt", package.parent / "constraints.txt")
    return next((place for place in places if place.is_file()), None)


def installed_version(name: str) -> str | None:
    return version_on(tuple(sys.path), name)


@cache  # finding it means parsing a file, and every examination asks for dozens of packages
def version_on(path: Sequence[str], name: str) -> str | None:
    """The version of a package that is installed on this path of Python's."""
    package = next(iter(distributions(name=name, path=list(path))), None)
    return None if package is None else package.version


def examine_versions() -> Iterator[Finding]:
    file = constraints_file()
    tested = tested_versions(file) if file else {}
    absent = [name for name in SERVING if installed_version(name) is None]
    if absent:
        what = f"{', '.join(absent)} not installed: `hsfiq serve` needs them"
        yield Finding("versions", "warning", what, "pip install 'hsfiq[annotate]'")
    others = other_versions(tested)
    main = ", ".join(
        f"{name} {installed_version(name)}"
        for name in ("SQLAlchemy", "gradio")
        if name not in absent
    )
    here = f"hsfiq {hsfiq.__version__}, Python {platform.python_version()}, {main}"
    if file is None:
        yield Finding("versions", "ok", here)
    elif others:
        what = f"{here}; not as tested: {first_few(others)}"
        fix = f"pip install --constraint {quoted(file)} 'hsfiq[annotate]'"
        yield Finding("versions", "warning", what, fix)
    else:
        yield Finding("versions", "ok", f"{here}: as tested")


def other_versions(tested: Mapping[str, str]) -> list[str]:
    """The installed packages that have another version than the tested one."""
    compared = [name for name in tested if name not in OF_ENVIRONMENTS]
    installed = {name: installed_version(name) for name in compared}
    return [
        f"{name} {here} (tested: {tested[name]})"
        for name, here in installed.items()
        if here is not None and here.partition("+")[0] != tested[name]
    ]


# All checks, in the order in which what they find matters.


def examine(
    engine: Engine, thumbnails: Path | None, public: PublicUrl | None, clock: Clock = utc_now
) -> Iterator[Finding]:
    """Examine a server's surroundings; nothing is changed.

    `thumbnails` is their folder, None where the app is not installed. Checks that need the database
    are skipped if it is unreachable or damaged, and checks that need the tables if they have
    another version.
    """
    file = sqlite_file(engine)
    reached = examine_database(engine)
    yield reached
    usable = None
    if reached.status == "ok":
        settings = list(examine_sqlite(engine, file) if file else examine_postgres(engine))
        yield from settings
        is_damaged = file is not None and any(each.status == "problem" for each in settings)
        migrations = None if is_damaged else examine_migrations(engine)
        if migrations is not None:
            yield migrations
            usable = Database(engine) if migrations.status == "ok" else None
    if usable is not None:
        yield examine_clock(engine, clock)
        yield from examine_images(usable)
    folders = [folder for folder in (file and file.parent, thumbnails) if folder is not None]
    yield from examine_space(folders)
    yield from examine_writing(folders)
    if thumbnails is not None:
        yield from examine_copies(thumbnails)
    yield from examine_key(usable)
    if file is not None and file.exists():
        yield from examine_modes(file)
    yield from examine_proxy(public)
    yield from examine_versions()
