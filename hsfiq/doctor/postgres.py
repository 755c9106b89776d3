"""PostgreSQL's settings on which answers depend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, Row, text
from sqlalchemy.pool import QueuePool

from hsfiq.doctor.finding import Finding, quoted


@dataclass(frozen=True, slots=True)
class Rule:
    """A value of a setting that loses answers or refuses them."""

    name: str
    wrong: str
    consequence: str
    right: str
    is_of_server: bool = False


RULES = (
    Rule("fsync", "off", "a crash can damage the database", "on", is_of_server=True),
    Rule("full_page_writes", "off", "a crash can damage the database", "on", is_of_server=True),
    Rule("synchronous_commit", "off", "a crash can lose answers that were acknowledged", "on"),
    Rule("default_transaction_read_only", "on", "no answer can be stored", "off"),
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
        what = "this server is a standby: no answer can be stored"
        yield Finding("settings", "problem", what, "name the primary in HSFIQ_DATABASE_URL")
    if facts.encoding != "UTF8":
        what = f"the encoding is {facts.encoding}: not every text can be stored"
        new = "createdb --encoding=UTF8 --template=template0 NEW"
        yield Finding("settings", "problem", what, f"{new} && hsfiq db copy OLD_URL NEW_URL")


def scarce_connections(engine: Engine, facts: Row[Any]) -> Iterator[Finding]:
    """Limits that are below what one server process may open; -1 is no limit."""
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
