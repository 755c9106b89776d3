"""The constraints hold in the database itself, on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import DateTime, delete, select, text, update
from sqlalchemy.exc import IntegrityError, StatementError
from sqlalchemy.orm import Session

from hsfiq.db.engine import Database
from hsfiq.db.source_tables import (
    Corpus,
    Dataset,
    Image,
    Query,
    RankedList,
    Setting,
    System,
    Triplet,
    corpus_images,
)
from hsfiq.db.tables import (
    Check,
    CheckAnswer,
    Form,
    Pair,
    Participant,
    Question,
    Response,
    RetrievedImage,
    RetrievedSet,
    Study,
)
from hsfiq.db.types import Base, UtcTime, new_token
from tests.studies import NOW, Seat, make_queries, small_study

Keys = SimpleNamespace


@pytest.fixture
def keys(database: Database) -> Keys:
    """Keys of stored rows: a study in which one participant has two forms."""
    study = small_study(database)
    seat = Seat.taken(database, study)
    question, unanswered, *_ = seat.question_ids
    seat.submit(question, key="first press")
    with database.writing() as session:
        session.get_one(Participant, seat.participant_id).external_id = "known"
        form = session.get_one(Question, question).form_id
        session.add(Check(form_id=form, place=0, kind="gold", question_id=question, expected="1"))
    with database.reading() as session:
        first, second = session.scalars(select(Pair).order_by(Pair.id).limit(2))
        return Keys(
            dataset=session.scalars(select(Dataset.id)).one(),
            image=session.scalars(select(Image.id)).first(),
            triplet=session.scalars(select(Triplet.id)).first(),
            query=first.query_id,
            other_query=second.query_id,
            set=first.first_id,
            set_of_other_query=second.first_id,
            system=session.scalars(select(System.id)).first(),
            study=study,
            pair=first.id,
            participant=seat.participant_id,
            form=session.get_one(Question, question).form_id,
            question=question,
            unanswered=unanswered,
            check=session.scalars(select(Check.id)).first(),
        )


def response(keys: Keys, **changed: Any) -> Response:
    """A valid response with some values changed."""
    defaults = {
        "question_id": keys.unanswered,
        "revision": 1,
        "submit_key": "press",
        "score_1": 3,
        "score_2": 4,
        "preferred": 2,
        "irrelevant": False,
    }
    return Response(**(defaults | changed))


def study(**changed: Any) -> Study:
    """A valid study with some values changed."""
    defaults = {
        "name": "another",
        "title": "",
        "guidelines": "",
        "consent": "",
        "status": "draft",
        "origin": "collected",
        "k": 5,
        "ties_allowed": False,
        "forms_per_participant": 2,
        "design": {},
        "image_path": "",
    }
    return Study(**(defaults | changed))


NO_SCORES = {"score_1": None, "score_2": None, "preferred": None}


def possible(k: Keys) -> dict[str, Base]:
    """Valid rows."""
    return {
        "a response": response(k),
        "a tie": response(k, preferred=0),
        "a skipped question": response(k, skipped="missing-image", **NO_SCORES),
        "a next revision": response(k, question_id=k.question, revision=2),
        "a study": study(),
        "a pair": Pair(study_id=k.study, query_id=k.query, first_id=k.set, second_id=k.set),
    }


def impossible(k: Keys) -> dict[tuple[str, str], Base]:
    """Invalid rows, by mistake and by the constraint or non-null column that refuses them."""
    return {
        # scores and preferences
        ("a score of 9", "ck_responses_score_1"): response(k, score_1=9),
        ("a score of 0", "ck_responses_score_2"): response(k, score_2=0),
        ("a score of 8", "ck_responses_score_2"): response(k, score_2=8),
        ("preferred set 3", "ck_responses_preferred"): response(k, preferred=3),
        ("preferred set -1", "ck_responses_preferred"): response(k, preferred=-1),
        ("only the first score", "ck_responses_whole"): response(k, score_2=None),
        ("only the second score", "ck_responses_whole"): response(k, score_1=None),
        ("scores without a preference", "ck_responses_whole"): response(k, preferred=None),
        ("no answer and no reason for it", "ck_responses_whole"): response(k, **NO_SCORES),
        ("skipped and yet scored", "ck_responses_whole"): response(k, skipped="missing-image"),
        ("less than no time", "ck_responses_active_seconds"): response(k, active_seconds=-0.1),
        # revisions
        ("revision 0", "ck_responses_revision"): response(k, revision=0),
        ("a revision twice", "uq_responses_question_id_revision"): response(
            k, question_id=k.question
        ),
        ("a press stored twice", "uq_responses_question_id_submit_key"): response(
            k, question_id=k.question, revision=2, submit_key="first press"
        ),
        ("a response to no question", "fk_responses_question_id"): response(k, question_id=10**6),
        # forms and questions
        ("a question at a taken place", "uq_questions_form_id_place"): Question(
            form_id=k.form, place=0, pair_id=k.pair, swapped=False
        ),
        ("a question before the first place", "ck_questions_place"): Question(
            form_id=k.form, place=-1, pair_id=k.pair, swapped=False
        ),
        ("a question of no form", "fk_questions_form_id"): Question(
            form_id=10**6, place=9, pair_id=k.pair, swapped=False
        ),
        ("a question of no pair", "fk_questions_pair_id"): Question(
            form_id=k.form, place=9, pair_id=10**6, swapped=False
        ),
        ("a form number twice", "uq_forms_study_id_number"): Form(
            study_id=k.study, number=0, batch=0, category="shirt"
        ),
        ("a form of no batch", "portion"): Form(study_id=k.study, number=99, category="shirt"),
        ("two forms at one position", "uq_forms_participant_id_position"): Form(
            study_id=k.study,
            number=99,
            batch=99,
            category="shirt",
            participant_id=k.participant,
            position=1,
            name="form_9",
        ),
        ("two forms of one name", "uq_forms_participant_id_name"): Form(
            study_id=k.study,
            number=99,
            batch=99,
            category="shirt",
            participant_id=k.participant,
            position=9,
            name="form_1",
        ),
        ("a taken form without a position", "ck_forms_taken"): Form(
            study_id=k.study,
            number=99,
            batch=99,
            category="shirt",
            participant_id=k.participant,
            name="form_9",
        ),
        ("a free form with a position", "ck_forms_taken"): Form(
            study_id=k.study, number=99, batch=99, category="shirt", position=1, name="form_1"
        ),
        ("a form taken by nobody known", "fk_forms_participant_id"): Form(
            study_id=k.study,
            number=99,
            batch=99,
            category="shirt",
            participant_id=10**6,
            position=1,
            name="f",
        ),
        # pairs and sets
        ("a first set of another query", "fk_pairs_first_id"): Pair(
            study_id=k.study, query_id=k.query, first_id=k.set_of_other_query, second_id=k.set
        ),
        ("a second set of another query", "fk_pairs_second_id"): Pair(
            study_id=k.study, query_id=k.query, first_id=k.set, second_id=k.set_of_other_query
        ),
        ("a pair of another query than its sets", "fk_pairs_first_id"): Pair(
            study_id=k.study, query_id=k.other_query, first_id=k.set, second_id=k.set
        ),
        ("a pair of no study", "fk_pairs_study_id"): Pair(
            study_id=10**6, query_id=k.query, first_id=k.set, second_id=k.set
        ),
        ("a set of no query", "fk_retrieved_sets_query_id"): RetrievedSet(query_id=10**6),
        ("a set of no system known", "fk_retrieved_sets_system_id"): RetrievedSet(
            query_id=k.query, system_id=10**6
        ),
        ("two images at one rank", "pk_retrieved_images"): RetrievedImage(
            set_id=k.set, rank=0, image_id=k.image
        ),
        ("an image before the first rank", "ck_retrieved_images_rank"): RetrievedImage(
            set_id=k.set, rank=-1, image_id=k.image
        ),
        ("an image that is not there", "fk_retrieved_images_image_id"): RetrievedImage(
            set_id=k.set, rank=9, image_id=10**6
        ),
        ("two lists of a system for a query", "uq_ranked_lists_system_id_query_id"): RankedList(
            system_id=k.system, query_id=k.query, image_ids=[k.image]
        ),
        # studies, participants and checks
        ("a study's name twice", "uq_studies_name"): study(name="small"),
        ("a study that is half open", "ck_studies_status"): study(status="ajar"),
        ("answers from nowhere", "ck_studies_origin"): study(origin="invented"),
        ("a study of empty sets", "ck_studies_k"): study(k=0),
        ("a study without a title", "title"): study(title=None),
        ("a study whose consent is unknown", "consent"): study(consent=None),
        ("a pseudonym twice", "uq_participants_study_id_name"): Participant(
            study_id=k.study, name="p1"
        ),
        ("a participant of no study", "fk_participants_study_id"): Participant(
            study_id=10**6, name="p9"
        ),
        ("a platform's id twice", "uq_participants_study_id_external_id"): Participant(
            study_id=k.study, name="p9", external_id="known"
        ),
        ("a participant of no status known", "ck_participants_status"): Participant(
            study_id=k.study, name="p9", status="asleep"
        ),
        ("a participant from nowhere", "ck_participants_source"): Participant(
            study_id=k.study, name="p9", source="the street"
        ),
        ("an unknown kind of check", "ck_checks_kind"): Check(
            form_id=k.form, place=1, kind="riddle", prompt="?", expected="!"
        ),
        ("a sum without a solution", "ck_checks_whole"): Check(
            form_id=k.form, place=1, kind="arithmetic", prompt="1 + 1"
        ),
        ("a gold pair without a winner", "ck_checks_whole"): Check(
            form_id=k.form, place=1, kind="gold", question_id=k.unanswered
        ),
        ("a repeat of nothing", "ck_checks_whole"): Check(
            form_id=k.form, place=1, kind="repeat", question_id=k.unanswered
        ),
        ("a question that is two checks", "uq_checks_question_id"): Check(
            form_id=k.form, place=1, kind="gold", question_id=k.question, expected="1"
        ),
        ("two sums at one place", "uq_checks_form_id_place_kind"): Check(
            form_id=k.form, place=0, kind="arithmetic", prompt="1 + 1", expected="2"
        ),
        ("a try at no check", "fk_check_answers_check_id"): CheckAnswer(
            check_id=10**6, given="2", passed=True, answered_at=NOW
        ),
        # sources
        ("a dataset twice", "uq_datasets_name"): Dataset(name="small"),
        ("an image twice", "uq_images_dataset_id_name"): Image(
            dataset_id=k.dataset, name="image-0"
        ),
        ("an image of no dataset", "fk_images_dataset_id"): Image(dataset_id=10**6, name="image-0"),
        ("a triplet twice", "uq_triplets_dataset_id_external_id"): Triplet(
            dataset_id=k.dataset,
            external_id="shirt.val.0",
            category="shirt",
            reference_id=k.image,
            captions=[],
        ),
        ("a reference that is not there", "fk_triplets_reference_id"): Triplet(
            dataset_id=k.dataset,
            external_id="shirt.val.99",
            category="shirt",
            reference_id=999,
            captions=[],
        ),
        ("a target that is not there", "fk_triplets_target_id"): Triplet(
            dataset_id=k.dataset,
            external_id="shirt.val.99",
            category="shirt",
            reference_id=k.image,
            target_id=10**6,
            captions=[],
        ),
        ("a query twice", "uq_queries_triplet_id_suffix"): Query(
            triplet_id=k.triplet, suffix="", text="is red"
        ),
        ("a system twice", "uq_systems_name"): System(name="alpha"),
        ("a corpus of no dataset", "fk_corpora_dataset_id"): Corpus(
            dataset_id=10**6, name="shirt.val"
        ),
        ("a setting without a value", "value"): Setting(key="secret"),
    }


def test_valid_rows_are_stored(database: Database, keys: Keys) -> None:
    for row in possible(keys).values():
        with database.writing() as session:
            session.add(row)
            session.flush()
            session.rollback()


def test_invalid_rows_are_refused(database: Database, keys: Keys) -> None:
    rows = impossible(keys)
    refused_by: dict[str, str | None] = {}
    for (mistake, _), row in rows.items():
        refused_by[mistake] = None
        try:
            with database.writing() as session:
                session.add(row)
        except IntegrityError as error:
            refused_by[mistake] = constraint_of(error)
    on_sqlite = database.engine.dialect.name == "sqlite"
    assert refused_by == {
        mistake: SOMETHING if on_sqlite else constraint for mistake, constraint in rows
    }


SOMETHING = "a constraint"


def constraint_of(error: IntegrityError) -> str:
    """The constraint's name, or the non-null column; SQLite does not always report it."""
    diagnostics = getattr(error.orig, "diag", None)
    return (diagnostics.constraint_name or diagnostics.column_name) if diagnostics else SOMETHING


def test_tokens_are_unique(database: Database, keys: Keys) -> None:
    with database.reading() as session:
        existing_token = session.get_one(Participant, keys.participant).token_hash
        image = session.get_one(Image, keys.image).token
    person = Participant(study_id=keys.study, name="p9")
    person.token_hash = existing_token
    with pytest.raises(IntegrityError), database.writing() as session:
        session.add(person)
    with pytest.raises(IntegrityError), database.writing() as session:
        session.add(Image(dataset_id=keys.dataset, name="image-99", token=image))


def test_an_image_belongs_to_a_corpus_once(database: Database, keys: Keys) -> None:
    def add(session: Session) -> None:
        session.execute(corpus_images.insert(), {"corpus_id": corpus.id, "image_id": keys.image})

    with database.writing() as session:
        corpus = Corpus(dataset_id=keys.dataset, name="shirt.val")
        session.add(corpus)
        session.flush()
        add(session)
    with pytest.raises(IntegrityError), database.writing() as session:
        add(session)


@pytest.mark.parametrize("table", [Study, Form, Pair, Query, Triplet, Participant, Question])
def test_referenced_rows_cannot_be_deleted(
    database: Database, keys: Keys, table: type[Base]
) -> None:
    with pytest.raises(IntegrityError), database.writing() as session:
        session.execute(delete(table))


def test_a_stored_score_cannot_be_made_a_9(database: Database, keys: Keys) -> None:
    with pytest.raises(IntegrityError), database.writing() as session:
        session.execute(update(Response).values(score_1=9))


# ------------------------------------------------------------------------------------------ values


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    moment=st.datetimes(
        min_value=datetime(1970, 1, 2),  # noqa: DTZ001 (Hypothesis adds the zone)
        max_value=datetime(9000, 1, 1),  # noqa: DTZ001
        timezones=st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours))),
    )
)
def test_a_timestamp_is_read_in_utc_to_the_microsecond(
    database: Database, moment: datetime
) -> None:
    with database.writing() as session:
        row = study(name=f"study {moment.isoformat()}")
        session.add(row)
        session.flush()
        participant = Participant(study_id=row.id, name="p1", created_at=moment)
        session.add(participant)
        session.flush()
        key = participant.id
        session.expire_all()
        created_at = session.get_one(Participant, key).created_at
        session.rollback()
    assert created_at == moment
    assert created_at is not None
    assert created_at.utcoffset() == timedelta(0)


def test_timestamps_compare_independently_of_their_zone(database: Database, keys: Keys) -> None:
    in_seoul = NOW.astimezone(timezone(timedelta(hours=9)))
    with database.writing() as session:
        session.get_one(Question, keys.question).served_at = in_seoul
    with database.reading() as session:
        equal = select(Question.id).where(Question.served_at == NOW)
        before = select(Question.id).where(Question.served_at < NOW + timedelta(seconds=1))
        assert session.scalars(equal).all() == session.scalars(before).all() == [keys.question]


def test_a_timestamp_without_a_zone_is_refused(database: Database, keys: Keys) -> None:
    naive = NOW.replace(tzinfo=None)
    with pytest.raises(StatementError, match="without a time zone"), database.writing() as session:
        session.get_one(Question, keys.question).served_at = naive
    with database.reading() as session:
        assert session.get_one(Question, keys.question).served_at is None


def test_json_columns_return_the_stored_value(database: Database, keys: Keys) -> None:
    captions = ["is  redder dotmark", "\N{DRESS} \u202eleft\u202c", ""]
    design = {"k": 5, "checks": {"gold": [1, 2.5, None, True]}, "name": "옷"}
    with database.writing() as session:
        session.get_one(Triplet, keys.triplet).captions = captions
        session.get_one(Study, keys.study).design = design
        ranked = session.scalars(select(RankedList).order_by(RankedList.id)).first()
        assert ranked is not None
        ranked.scores = [0.1, 1e-300, -3.0]
        ranked_id, images = ranked.id, ranked.image_ids
    with database.reading() as session:
        assert session.get_one(Triplet, keys.triplet).captions == captions
        assert session.get_one(Study, keys.study).design == design
        assert session.get_one(RankedList, ranked_id).scores == [0.1, 1e-300, -3.0]
        assert session.get_one(RankedList, ranked_id).image_ids == images
        assert all(isinstance(image, int) for image in images)


def test_a_list_without_scores_holds_null_not_json_null(database: Database) -> None:
    make_queries(database)
    with database.reading() as session:
        empty = text("SELECT count(*) FROM ranked_lists WHERE scores IS NULL")
        assert session.scalar(empty) == 8 * 3


def test_every_timestamp_column_keeps_its_zone() -> None:
    columns = [column for table in Base.metadata.tables.values() for column in table.columns]
    assert [str(column) for column in columns if isinstance(column.type, DateTime)] == []
    assert sum(isinstance(column.type, UtcTime) for column in columns) >= 6


def test_a_token_can_be_written_in_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = iter(["-a", "--", "b-"])
    monkeypatch.setattr("secrets.token_urlsafe", lambda _n: next(tokens))
    assert new_token() == "b-"
