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
    valid = {"question_id": keys.unanswered, "revision": 1, "submit_key": "press"}
    valid |= {"score_1": 3, "score_2": 4, "preferred": 2, "irrelevant": False}
    return Response(**(valid | changed))


def study(**changed: Any) -> Study:
    """A valid study with some values changed."""
    valid = {"name": "another", "status": "draft", "origin": "collected", "k": 5, "design": {}}
    valid |= dict.fromkeys(("title", "guidelines", "consent", "image_path"), "")
    return Study(**(valid | {"ties_allowed": False, "forms_per_participant": 2} | changed))


def form(keys: Keys, **changed: Any) -> Form:
    """A valid form that nobody has taken, with some values changed."""
    valid = {"study_id": keys.study, "number": 99, "batch": 99, "category": "shirt"}
    return Form(**(valid | changed))


def taken(keys: Keys, **changed: Any) -> Form:
    """A valid form that the participant has taken, with some values changed."""
    valid = {"participant_id": keys.participant, "position": 9, "name": "form_9"}
    return form(keys, **(valid | changed))


def question(keys: Keys, **changed: Any) -> Question:
    valid = {"form_id": keys.form, "place": 9, "pair_id": keys.pair, "swapped": False}
    return Question(**(valid | changed))


def pair(keys: Keys, **changed: Any) -> Pair:
    valid = {"study_id": keys.study, "query_id": keys.query}
    return Pair(**(valid | {"first_id": keys.set, "second_id": keys.set} | changed))


def person(keys: Keys, **changed: Any) -> Participant:
    return Participant(**({"study_id": keys.study, "name": "p9"} | changed))


def check(keys: Keys, kind: str, **changed: Any) -> Check:
    return Check(**({"form_id": keys.form, "place": 1, "kind": kind} | changed))


def triplet(keys: Keys, **changed: Any) -> Triplet:
    valid = {"dataset_id": keys.dataset, "external_id": "shirt.val.99", "category": "shirt"}
    return Triplet(**(valid | {"reference_id": keys.image, "captions": []} | changed))


NO_SCORES = {"score_1": None, "score_2": None, "preferred": None}


def possible(k: Keys) -> list[Base]:
    """Valid rows, among them a tie, a skipped question and a next revision."""
    return [
        *(response(k), response(k, preferred=0), response(k, question_id=k.question, revision=2)),
        response(k, skipped="missing-image", **NO_SCORES),
        *(study(), form(k), taken(k), question(k), pair(k), person(k), triplet(k)),
    ]


NOTHING = 10**6
"""The key of no row."""


def impossible(k: Keys) -> dict[tuple[str, str], Base]:
    """Invalid rows, by mistake and by the constraint or non-null column that refuses them."""
    known, other, image = k.question, k.set_of_other_query, k.image
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
        ("a revision twice", "uq_responses_question_id_revision"): response(k, question_id=known),
        ("a press stored twice", "uq_responses_question_id_submit_key"): response(
            k, question_id=known, revision=2, submit_key="first press"
        ),
        ("a response to no question", "fk_responses_question_id"): response(k, question_id=NOTHING),
        # forms and questions
        ("a question at a taken place", "uq_questions_form_id_place"): question(k, place=0),
        ("a question before the first place", "ck_questions_place"): question(k, place=-1),
        ("a question of no form", "fk_questions_form_id"): question(k, form_id=NOTHING),
        ("a question of no pair", "fk_questions_pair_id"): question(k, pair_id=NOTHING),
        ("a form number twice", "uq_forms_study_id_number"): form(k, number=0, batch=0),
        ("a form of no batch", "portion"): form(k, batch=None),
        ("two forms at one position", "uq_forms_participant_id_position"): taken(k, position=1),
        ("two forms of one name", "uq_forms_participant_id_name"): taken(k, name="form_1"),
        ("a taken form without a position", "ck_forms_taken"): taken(k, position=None),
        ("a free form with a position", "ck_forms_taken"): form(k, position=1, name="form_1"),
        ("a form taken by nobody", "fk_forms_participant_id"): taken(k, participant_id=NOTHING),
        # pairs and sets
        ("a first set of another query", "fk_pairs_first_id"): pair(k, first_id=other),
        ("a second set of another query", "fk_pairs_second_id"): pair(k, second_id=other),
        ("a pair of another query", "fk_pairs_first_id"): pair(k, query_id=k.other_query),
        ("a pair of no study", "fk_pairs_study_id"): pair(k, study_id=NOTHING),
        ("a set of no query", "fk_retrieved_sets_query_id"): RetrievedSet(query_id=NOTHING),
        ("a set of no system known", "fk_retrieved_sets_system_id"): RetrievedSet(
            query_id=k.query, system_id=NOTHING
        ),
        ("two images at one rank", "pk_retrieved_images"): RetrievedImage(
            set_id=k.set, rank=0, image_id=image
        ),
        ("an image before the first rank", "ck_retrieved_images_rank"): RetrievedImage(
            set_id=k.set, rank=-1, image_id=image
        ),
        ("a missing image", "fk_retrieved_images_image_id"): RetrievedImage(
            set_id=k.set, rank=9, image_id=NOTHING
        ),
        ("two lists of a system for a query", "uq_ranked_lists_system_id_query_id"): RankedList(
            system_id=k.system, query_id=k.query, image_ids=[image]
        ),
        # studies, participants and checks
        ("a study's name twice", "uq_studies_name"): study(name="small"),
        ("a study that is half open", "ck_studies_status"): study(status="ajar"),
        ("answers from nowhere", "ck_studies_origin"): study(origin="invented"),
        ("a study of empty sets", "ck_studies_k"): study(k=0),
        ("a study without a title", "title"): study(title=None),
        ("a study whose consent is unknown", "consent"): study(consent=None),
        ("a pseudonym twice", "uq_participants_study_id_name"): person(k, name="p1"),
        ("a participant of no study", "fk_participants_study_id"): person(k, study_id=NOTHING),
        ("a platform's id twice", "uq_participants_study_id_external_id"): person(
            k, external_id="known"
        ),
        ("a participant of no status known", "ck_participants_status"): person(k, status="asleep"),
        ("a participant from nowhere", "ck_participants_source"): person(k, source="the street"),
        ("an unknown kind of check", "ck_checks_kind"): check(
            k, "riddle", prompt="?", expected="!"
        ),
        ("a sum without a solution", "ck_checks_whole"): check(k, "arithmetic", prompt="1 + 1"),
        ("a gold pair without a winner", "ck_checks_whole"): check(
            k, "gold", question_id=k.unanswered
        ),
        ("a repeat of nothing", "ck_checks_whole"): check(k, "repeat", question_id=k.unanswered),
        ("a question that is two checks", "uq_checks_question_id"): check(
            k, "gold", question_id=known, expected="1"
        ),
        ("two sums at one place", "uq_checks_form_id_place_kind"): check(
            k, "arithmetic", place=0, prompt="1 + 1", expected="2"
        ),
        ("a try at no check", "fk_check_answers_check_id"): CheckAnswer(
            check_id=NOTHING, given="2", passed=True, answered_at=NOW
        ),
        # sources
        ("a dataset twice", "uq_datasets_name"): Dataset(name="small"),
        ("an image twice", "uq_images_dataset_id_name"): Image(
            dataset_id=k.dataset, name="image-0"
        ),
        ("an image of no dataset", "fk_images_dataset_id"): Image(
            dataset_id=NOTHING, name="image-0"
        ),
        ("a triplet twice", "uq_triplets_dataset_id_external_id"): triplet(
            k, external_id="shirt.val.0"
        ),
        ("a reference that is not there", "fk_triplets_reference_id"): triplet(
            k, reference_id=NOTHING
        ),
        ("a target that is not there", "fk_triplets_target_id"): triplet(k, target_id=NOTHING),
        ("a query twice", "uq_queries_triplet_id_suffix"): Query(
            triplet_id=k.triplet, suffix="", text="is red"
        ),
        ("a system twice", "uq_systems_name"): System(name="alpha"),
        ("a corpus of no dataset", "fk_corpora_dataset_id"): Corpus(dataset_id=NOTHING, name="it"),
        ("a setting without a value", "value"): Setting(key="secret"),
    }


def test_valid_rows_are_stored(database: Database, keys: Keys) -> None:
    for row in possible(keys):
        with database.writing() as session:
            session.add(row)
            session.flush()
            session.rollback()


SOMETHING = "a constraint"


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
    with pytest.raises(IntegrityError), database.writing() as session:
        session.execute(update(Response).values(score_1=9))  # of a stored row


def constraint_of(error: IntegrityError) -> str:
    """The constraint's name, or the non-null column; SQLite does not always report it."""
    diagnostics = getattr(error.orig, "diag", None)
    return (diagnostics.constraint_name or diagnostics.column_name) if diagnostics else SOMETHING


def test_tokens_are_unique(database: Database, keys: Keys) -> None:
    with database.reading() as session:
        existing_token = session.get_one(Participant, keys.participant).token_hash
        image = session.get_one(Image, keys.image).token
    somebody = person(keys)
    somebody.token_hash = existing_token
    again = Image(dataset_id=keys.dataset, name="image-99", token=image)
    for row in (somebody, again):
        with pytest.raises(IntegrityError), database.writing() as session:
            session.add(row)


def test_an_image_belongs_to_a_corpus_once(database: Database, keys: Keys) -> None:
    with database.writing() as session:
        corpus = Corpus(dataset_id=keys.dataset, name="shirt.val")
        session.add(corpus)
        session.flush()
        member = {"corpus_id": corpus.id, "image_id": keys.image}
        session.execute(corpus_images.insert(), member)
    with pytest.raises(IntegrityError), database.writing() as session:
        session.execute(corpus_images.insert(), member)


def test_referenced_rows_cannot_be_deleted(database: Database, keys: Keys) -> None:
    for table in (Study, Form, Pair, Query, Triplet, Participant, Question):
        with pytest.raises(IntegrityError), database.writing() as session:
            session.execute(delete(table))


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
