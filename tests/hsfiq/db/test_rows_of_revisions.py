"""What each revision does with the rows that a database has, up and down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete, func, insert, inspect, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from hsfiq.access import invite, log_in, set_owner_password
from hsfiq.actors import OWNER, Action, Role
from hsfiq.audit import record
from hsfiq.collect.answers import count_stored_answers
from hsfiq.collect.participants import by_token
from hsfiq.db.engine import Database
from hsfiq.db.schema import (
    current_revision,
    differences,
    head_revision,
    upgrade,
)
from hsfiq.db.search_tables import (
    ImportedSearch,
    SearchEnding,
    SearchFeedback,
    SearchList,
    SearchTurn,
    SearchUpload,
)
from hsfiq.db.source_tables import Account, Image, ImageChange, LoginAttempts, Setting
from hsfiq.db.studio_tables import AnswerNote, ReviewedAnswer, SharedReport, Unblinding
from hsfiq.db.tables import (
    AllowedPerson,
    EnrolmentByAddress,
    Form,
    Participant,
    Payment,
    Question,
    Response,
    Study,
    StudyCreation,
    TextVersion,
    WorkedHit,
)
from hsfiq.drafts import change_draft, draft_of_study
from hsfiq.jobs import add_job
from hsfiq.releases.export import Recorder, export_releases
from hsfiq.study.filters import Filters
from tests.arenas import ARENA, Voter, draw_arena
from tests.hsfiq.db.revisions import all_rows, answered, downgrade
from tests.studies import NOW, SYSTEMS, Seat, draw, make_queries


def goes_and_comes(database: Database, revision: str) -> None:
    downgrade(database.engine, revision)
    upgrade(database.engine)


def require_unchanged(database: Database, *revisions: str) -> None:
    """A downgrade to these revisions and the upgrade lose nothing."""
    before = all_rows(database.engine)
    for revision in revisions:
        goes_and_comes(database, revision)
        assert all_rows(database.engine) == before
        assert differences(database.engine) == []


def drop_the_text(session: Session, question: int) -> None:
    session.add(ImportedSearch(question_id=question, place=1, uploaded=False, repeats=[]))
    session.scalars(select(SearchTurn)).one().text = None


def upload_a_picture(session: Session, question: int) -> None:
    session.add(
        SearchUpload(
            question_id=question, submit_key="press", content=b"\xff\x00jpeg", sha256="0" * 64,
            width=2, height=1, uploaded_at=NOW,
        )
    )  # fmt: skip
    session.scalars(select(SearchTurn)).one().reference_id = None


def test_an_arena_outlives_later_revisions_but_not_their_contents(database: Database) -> None:
    """What an earlier schema cannot hold refuses the downgrade, which changes nothing."""
    voter = Voter.enrolled(database, draw_arena(database))
    question, *_ = voter.question_ids()
    voter.vote(question, 2)
    require_unchanged(database, "0023", "0018")
    for revision, change in (
        ("0017", lambda *_: None),  # two lists a turn
        ("0018", upload_a_picture),
        ("0023", drop_the_text),
    ):
        with database.writing() as session:
            change(session, question)
        before = all_rows(database.engine)
        with pytest.raises(IntegrityError):
            downgrade(database.engine, revision)
        assert all_rows(database.engine) == before
        assert current_revision(database.engine) == head_revision()


def test_answers_from_before_the_states_of_images_are_kept_and_unknown(database: Database) -> None:
    answered(database)
    with database.writing() as session:
        session.execute(update(Response).values(images="s ss ss"))
    with_states = all_rows(database.engine)["responses"]
    goes_and_comes(database, "0001")
    position = list(Response.__table__.columns.keys()).index("images")
    assert all_rows(database.engine)["responses"] == [
        (*row[:position], None, *row[position + 1 :]) for row in with_states
    ]


def test_flags_of_imported_answers_become_unknown(database: Database) -> None:
    answered(database, "collected")
    collected = all_rows(database.engine)["responses"]
    answered(database, "imported")
    with database.writing() as session:
        imported = update(Study).where(Study.name == "imported").values(origin="imported")
        session.execute(imported)
    downgrade(database.engine, "0015")
    upgrade(database.engine)
    flags = select(Response.irrelevant).order_by(Response.id).offset(len(collected))
    assert all_rows(database.engine)["responses"][: len(collected)] == collected
    with database.reading() as session:
        assert set(session.scalars(flags)) == {None}
    downgrade(database.engine, "0015")
    with database.engine.connect() as connection:
        stored = connection.execute(text("SELECT irrelevant FROM responses ORDER BY id")).scalars()
        known = [flag for flag in stored.all()[len(collected) :] if flag is not None]
        assert {bool(flag) for flag in known} == {False}
    upgrade(database.engine)


def test_studies_from_before_other_kinds_ask_about_pairs(database: Database) -> None:
    answered(database)
    with database.writing() as session:  # a downgrade deletes them
        session.execute(delete(TextVersion))
        session.execute(update(Study).values(text_version=None))
    before = all_rows(database.engine)
    downgrade(database.engine, "0004")
    with pytest.raises(DBAPIError), database.engine.connect() as connection:
        connection.exec_driver_sql("SELECT kind FROM studies")
    upgrade(database.engine)
    assert all_rows(database.engine) == before
    with database.reading() as session:
        assert session.scalars(select(Study.kind)).all() == ["pair"]


def test_flags_of_searches_become_unknown(database: Database) -> None:
    Seat.taken(database, draw(database, make_queries(database, dataset="pairs"))).answer_all()
    pairs = all_rows(database.engine)["responses"]
    question, *_ = Voter.enrolled(database, draw_arena(database)).question_ids()
    with database.writing() as session:
        session.add(
            Response(question_id=question, revision=1, submit_key="press", irrelevant=None,
                     judgement={"success": 4, "ease": 2, "would_go_on": False, "why": "enough"})
        )  # fmt: skip
        session.flush()
        count_stored_answers(session, session.get_one(Question, question).pair.study)
    before = all_rows(database.engine)
    downgrade(database.engine, "0021")
    with database.reading() as session:
        flag = select(Response.irrelevant).where(Response.question_id == question)
        assert session.scalars(flag).one() is False
    upgrade(database.engine)
    assert all_rows(database.engine) == before
    assert before["responses"][:-1] == pairs


def test_searches_with_one_system_outlive_the_columns_of_arenas(database: Database) -> None:
    study = draw_arena(database, SYSTEMS[:1], replace(ARENA, kind="search"))
    question, *_ = Voter.enrolled(database, study).question_ids()
    with database.writing() as session:
        reference = session.get_one(Question, question).pair.query.triplet.reference_id
        assert reference is not None
        turn = SearchTurn(
            question_id=question, number=1, submit_key="press", reference_id=reference,
            text="is red", asked_at=NOW,
        )  # fmt: skip
        session.add(turn)
        session.flush()
        listed = SearchList(
            turn_id=turn.id, side=1, listed_at=NOW, seconds=0.5, image_ids=[reference],
            scores=[1.0], system_version="1", corpus_sha256="0" * 64,
        )  # fmt: skip
        feedback = SearchFeedback(
            turn_id=turn.id, satisfaction=4, nearest=1, nearest_side=1, images=" s",
            active_seconds=2.0, given_at=NOW,
        )  # fmt: skip
        ending = SearchEnding(
            question_id=question, submit_key="press", reason="declared", declared_id=reference,
            declared_side=1, ended_at=NOW,
        )  # fmt: skip
        session.add_all([listed, feedback, ending])
    require_unchanged(database, "0017")


def test_links_from_before_their_digests_stay_valid(database: Database) -> None:
    answered(database)
    token = "t" * 32
    downgrade(database.engine, "0019")
    with database.writing() as session:
        session.execute(text("UPDATE participants SET token = :token"), {"token": token})
    upgrade(database.engine)
    with database.reading() as session:
        person = by_token(session, token)
        assert person is not None
        assert token not in repr(all_rows(database.engine))
        assert by_token(session, person.token_hash) is None
    require_unchanged(database, "0019")


def test_digests_of_images_imported_before_are_unknown(database: Database) -> None:
    answered(database)
    with database.writing() as session:
        session.execute(update(Image).values(sha256="d" * 64))
        session.add(ImageChange(image_id=1, found_at=NOW))
    goes_and_comes(database, "0024")
    with database.reading() as session:
        assert set(session.scalars(select(Image.sha256))) == {None}
        assert session.scalars(select(ImageChange)).all() == []


TABLES = {
    "0039": [
        *("drafts", "draft_changes", "jobs", "shared_reports"),
        *("answer_notes", "reviewed_answers", "unblindings"),
    ],
    "0038": ["payments"],
    "0030": ["login_attempts"],
    "0029": ["audit_entries"],
    "0028": ["worked_hits"],
    "0027": ["exported_releases", "exported_forms"],
    "0026": ["study_creations"],
    "0022": ["enrolments_by_address", "allowed_people"],
}
"""The tables that come with the revision after each, the newest first."""


def add_studio(session: Session, study: Study) -> None:
    """A row in each table of the studio."""
    draft = draft_of_study(session, study, OWNER)
    change_draft(session, draft.token, OWNER, lambda content: content.with_value("a.b", 1))
    job = add_job(session, OWNER, "report", "A report", [], study_id=study.id, draft_id=draft.id)
    session.add(SharedReport(study_id=study.id, job_id=job.id, shared_by="kim", shared_at=NOW))
    asked = select(Form.participant_id, Question.id).join(Question)
    person, question = session.execute(asked.where(Form.participant_id.is_not(None))).first() or ()
    about = {"study_id": study.id, "question_id": question}
    note = {"participant_id": person, "text": "ok", "written_by": "kim", "written_at": NOW}
    session.add_all([
        AnswerNote(**about, **note),
        ReviewedAnswer(**about, reviewed_by="kim", reviewed_at=NOW),
        Unblinding(study_id=study.id, shown_by="kim", shown_at=NOW),
    ])  # fmt: skip


def test_tables_come_and_go_with_their_revisions_and_everything_else_stays(
    database: Database, tmp_path: Path
) -> None:
    answered(database)
    bare = all_rows(database.engine)
    with database.reading() as session:
        study = session.scalars(select(Study)).one()
        recorder, folder = Recorder(database, OWNER), tmp_path / "release"
        export_releases(session, study, ["hp"], Filters(), folder=folder, in_place=recorder)
    with database.writing() as session:
        session.add_all([
            LoginAttempts(client="c" * 64, delay=0.5, last_at=NOW, free_at=NOW),
            EnrolmentByAddress(study_id=study.id, client="c" * 64, enrolled_at=NOW),
            AllowedPerson(study_id=study.id, person_hash="p" * 43),
            StudyCreation(study_id=study.id, continued_at=NOW),
        ])  # fmt: skip
        person = session.scalar(select(func.max(Participant.id)))
        session.add(WorkedHit(
            participant_id=person, assignment_id="3XYZ", hit_id="30H4",
            submit_to="https://www.mturk.com",
        ))  # fmt: skip
        session.add(Payment(
            participant_id=person, kind="bonus", submission_id="s1", cents=30, currency="GBP",
            state="recorded", recorded_at=NOW,
        ))  # fmt: skip
        add_studio(session, study)
        record(session, OWNER, Action.STUDY_OPEN, study="a study", about="p1")
    filled, new = all_rows(database.engine), {name for names in TABLES.values() for name in names}
    assert {name for name, rows in filled.items() if rows != bare[name]} == new
    for revision, names in TABLES.items():
        assert set(names) <= set(inspect(database.engine).get_table_names())
        downgrade(database.engine, revision)
        assert not set(names) & set(inspect(database.engine).get_table_names())
    upgrade(database.engine)
    assert all_rows(database.engine) == bare
    assert differences(database.engine) == []


def test_participants_outlive_the_revision_of_panels_but_not_who_came_from_one(
    database: Database,
) -> None:
    answered(database)
    require_unchanged(database, "0037")
    with database.writing() as session:
        session.execute(update(Participant).values(source="panel", platform_session_id="visit"))
    before = all_rows(database.engine)
    with pytest.raises(IntegrityError):
        downgrade(database.engine, "0037")
    assert all_rows(database.engine) == before


def test_the_owner_keeps_the_password_through_the_table_of_accounts(database: Database) -> None:
    scrypt, argon2 = "scrypt$1$1$1$00$00", "$argon2id$v=19$m=1,t=1,p=1$AA$AA"
    stored = select(Setting.value).where(Setting.key == "owner_password")
    downgrade(database.engine, "0032")
    with database.writing() as session:
        session.execute(insert(Setting).values(key="owner_password", value=scrypt))
        session.execute(text("INSERT INTO owner_sessions VALUES ('digest', '2026-01-01 00:00:00')"))
    upgrade(database.engine)
    with database.writing() as session:
        owner = session.scalars(select(Account)).one()
        assert (owner.name, owner.role, owner.password) == ("owner", "owner", scrypt)
        assert not owner.is_disabled
        assert session.scalars(stored).all() == []
        log_in(session, owner, NOW)
        invite(session, "kim", Role.ANALYST, NOW)
    downgrade(database.engine, "0032")
    with database.reading() as session:
        assert session.scalars(stored).all() == [scrypt]
        assert session.execute(text("SELECT * FROM owner_sessions")).all() == []
    upgrade(database.engine)
    assert differences(database.engine) == []
    with database.writing() as session:
        set_owner_password(session, argon2)
    downgrade(database.engine, "0032")  # whose version cannot check this password
    with database.reading() as session:
        assert session.scalars(stored).all() == []
    upgrade(database.engine)
    with database.reading() as session:
        assert session.scalars(select(Account)).all() == []
