"""The votes of an arena, read while it runs."""

from __future__ import annotations

from datetime import timedelta

from hsfiq.collect import owner, participants
from hsfiq.collect.searches import Vote, read_votes
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Study
from tests.arenas import Voter, draw_arena, systems_met
from tests.studies import NOW


def votes_of(database: Database, study_id: int) -> list[Vote]:
    with database.reading() as session:
        return read_votes(session, session.get_one(Study, study_id))


def test_votes_are_read_with_the_systems_of_their_sides(database: Database) -> None:
    study = draw_arena(database)
    met = systems_met(database, study)
    first, second = Voter.enrolled(database, study), Voter.enrolled(database, study)
    assert votes_of(database, study) == []
    question = first.question_ids()[1]
    first.vote(question, 2)
    first.vote(question, 0, both_bad=True)
    second.vote(second.question_ids()[0], 0)
    votes = votes_of(database, study)
    assert [(vote.question_id, vote.turn, vote.preference, vote.both_bad) for vote in votes] == [
        ("p1.form_1.1", 1, 2, False),
        ("p1.form_1.1", 2, 0, True),
        ("p2.form_1.0", 1, 0, False),
    ]
    assert (votes[0].system_1, votes[0].system_2) == met[question]
    assert votes[0].answered_at == NOW + timedelta(minutes=1)
    assert votes[0].query_id == votes[0].triplet_id

    with database.writing() as session:
        participants.set_status(session.get_one(Participant, second.participant_id), "excluded")
    assert votes_of(database, study) == votes[:2]
    with database.writing() as session:
        owner.forget(session, session.get_one(Participant, first.participant_id))
    assert votes_of(database, study) == []
