"""A new browser for a study, and what its participant is."""

from __future__ import annotations

from collections.abc import Callable

from fastapi.testclient import TestClient
from sqlalchemy import func, select

from hsfiq.collect import participants
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant

PERSON = "5f8e0c1d2b3a4c5d6e7f8a9b"
PROLIFIC = {"PROLIFIC_PID": PERSON, "STUDY_ID": "64ab", "SESSION_ID": "telltale-session"}
MTURK = {
    "workerId": "A1B2C3D4E5",
    "assignmentId": "3XYZ",
    "hitId": "30H4",
    "turkSubmitTo": "https://www.mturk.com",
}
CODE = {"completion_code": "C1<2>3", "completion_url": "https://app.example.org/complete?cc=C1"}

Visit = Callable[..., tuple[TestClient, Database]]


def count(database: Database) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count(Participant.id))) or 0


def the_participant(database: Database) -> Participant:
    with database.reading() as session:
        return session.scalars(select(Participant)).one()


def change(database: Database, status: str) -> None:
    with database.writing() as session:
        participants.set_status(session.scalars(select(Participant)).one(), status)
