"""Messages of the owner: who gets them, who has seen them, and what forgetting leaves."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from hsfiq.collect import owner
from hsfiq.collect.messages import mark_seen, send_message, sent_messages, unread_messages
from hsfiq.db.engine import Database
from hsfiq.db.tables import Message, MessageRecipient, Participant, Study
from hsfiq.errors import Refused
from hsfiq.releases.content import build
from hsfiq.study.filters import Filters
from tests.hsfiq.collect.study_participants import LATER
from tests.studies import NOW, Seat, row_of, set_status


def send(database: Database, study: int, text: str, to: Seat | None = None) -> int:
    with database.writing() as session:
        person = session.get_one(Participant, to.participant_id) if to else None
        return send_message(session, session.get_one(Study, study), text, to=person, now=NOW)


def unread(database: Database, seat: Seat) -> list[str]:
    with database.reading() as session:
        row = row_of(session, seat.participant_id)
        return [message.text for message in unread_messages(session, row)]


def see_all(database: Database, seat: Seat) -> None:
    with database.writing() as session:
        keys = [message.id for message in session.scalars(select(Message))]
        mark_seen(session, seat.participant_id, keys, LATER)


def test_a_message_to_all_is_for_those_who_take_part_now(database: Database, study: int) -> None:
    first, second = Seat.taken(database, study), Seat.taken(database, study)
    second.set_status("returned")
    assert send(database, study, "The server restarts at noon.") == 1
    assert unread(database, first) == ["The server restarts at noon."]
    assert unread(database, second) == []
    assert unread(database, Seat.taken(database, study)) == []


def test_a_message_to_one_is_for_nobody_else(database: Database, study: int) -> None:
    first, second = Seat.taken(database, study), Seat.taken(database, study)
    first.set_status("excluded")
    send(database, study, "Only for you", first)
    assert (unread(database, first), unread(database, second)) == (["Only for you"], [])


def test_each_recipient_sees_a_message_once(database: Database, study: int) -> None:
    first, second = Seat.taken(database, study), Seat.taken(database, study)
    send(database, study, "To all")
    send(database, study, "To one", second)
    see_all(database, first)
    assert (unread(database, first), unread(database, second)) == ([], ["To all", "To one"])
    with database.reading() as session:
        sent = sent_messages(session, session.get_one(Study, study))
        times = session.scalars(select(MessageRecipient.seen_at)).all()
    assert [(m.participant, m.text, m.recipients, m.seen) for m in sent] == [
        (second.participant().name, "To one", 1, 0),
        (None, "To all", 2, 1),
    ]
    assert sorted(times, key=str) == [LATER, None, None]


def test_forgetting_deletes_what_was_sent_to_one_person(database: Database, study: int) -> None:
    first, second = Seat.taken(database, study), Seat.taken(database, study)
    send(database, study, "To all")
    send(database, study, "Dear p1", first)
    with database.writing() as session:
        owner.forget(session, session.get_one(Participant, first.participant_id))
    assert unread(database, second) == ["To all"]
    with database.reading() as session:
        assert session.scalars(select(Message.text)).all() == ["To all"]
        assert session.scalars(select(MessageRecipient.participant_id)).all() == [
            second.participant_id
        ]


@pytest.mark.parametrize("text", ["", "  \n", "x" * 5_001, "a\0b"])
def test_unusable_messages_are_refused(database: Database, study: int, text: str) -> None:
    Seat.taken(database, study)
    with pytest.raises(Refused, match="the message"):
        send(database, study, text)


def test_a_message_that_nobody_would_read_is_refused(database: Database, study: int) -> None:
    with pytest.raises(Refused, match="nobody takes part"):
        send(database, study, "Hello")


def test_no_release_has_a_message(database: Database, study: int) -> None:
    seat = Seat.taken(database, study)
    seat.answer_all()
    send(database, study, "telltale message")
    set_status(database, study, "closed")
    with database.reading() as session:
        release = build(session, session.get_one(Study, study), "hs", Filters(), schema_revision="")
    assert all(b"telltale" not in data for data in release.files.values())
