"""What platforms send with a new participant, and what the study's only participant is."""

from __future__ import annotations

from sqlalchemy import select

from hsfiq.collect import participants
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant
from tests.annotate.served_studies import the_one

PERSON = "5f8e0c1d2b3a4c5d6e7f8a9b"
PROLIFIC = {"PROLIFIC_PID": PERSON, "STUDY_ID": "64ab", "SESSION_ID": "telltale-session"}
MTURK = {
    "workerId": "A1B2C3D4E5",
    "assignmentId": "3XYZ",
    "hitId": "30H4",
    "turkSubmitTo": "https://www.mturk.com",
}
CODE = {"completion_code": "C1<2>3", "completion_url": "https://app.example.org/complete?cc=C1"}


def the_participant(database: Database) -> Participant:
    return the_one(database, select(Participant))


def change(database: Database, status: str) -> None:
    with database.writing() as session:
        participants.set_status(session.scalars(select(Participant)).one(), status)
