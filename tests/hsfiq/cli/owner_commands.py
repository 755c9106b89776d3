"""Commands of a study's owner, and what they leave."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import func, select

from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from tests.hsfiq.samples import CommandResult, hsfiq
from tests.studies import Seat

CONFIG = """\
[study]
name = "autumn"
title = "Which shop understood you?"
guidelines = "guidelines.md"

[design]
k = 2
questions_per_form = 2

[queries]
dataset = "small"
"""


MISSED = (
    "hsfiq: warning: no license set: others may not reuse the published answers; "
    "set release.licence in study.toml\n"
    "hsfiq: warning: the consent text lacks institution, contact, ethics approval: set "
    "study.institution, study.contact, study.ethics in study.toml\n"
)
"""What `hsfiq study create` says of the study above."""


def output_of(*arguments: str | Path) -> str:
    """The output of a command that succeeds without warnings, but for `MISSED`."""
    command = hsfiq(*arguments)
    assert (command.code, command.err.replace(MISSED, "")) == (0, "")
    return command.out


def complaint(command: CommandResult, code: int = 2) -> str:
    """The error line of a refused command."""
    assert (command.code, command.out) == (code, "")
    assert command.err.startswith("hsfiq: ")
    assert command.err.count("\n") == 1
    return command.err.removeprefix("hsfiq: ").rstrip("\n")


def the_study(database: Database) -> Study:
    with database.reading() as session:
        return session.scalars(select(Study)).one()


def count(database: Database, table: type) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def seats(database: Database, number: int) -> list[Seat]:
    output_of("study", "create", "study.toml")
    study = the_study(database)
    return [Seat.taken(database, study.id) for _ in range(number)]
