"""A study's assigned questions, each with the answer that counts, read from the tables."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import cast

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from hsfiq.collect.checks import check_results
from hsfiq.db.tables import (
    Check,
    Dataset,
    Form,
    Image,
    Pair,
    Participant,
    Query,
    Question,
    Response,
    RetrievedImage,
    RetrievedSet,
    Study,
    System,
    Triplet,
)
from hsfiq.ids import question_id
from hsfiq.records import Answer, Times


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A query with its triplet, by outside ids; `key` is the database's."""

    key: int
    query_id: str
    triplet_id: str
    dataset: str
    category: str
    split: str | None
    reference_id: str
    target_id: str | None
    text: str
    captions: list[str]


@dataclass(frozen=True, slots=True)
class SetRow:
    """A retrieved set: its system, if known, and its images, best first."""

    system: str | None
    image_ids: list[str]


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """An assigned question as its participant saw it, with the answer that counts, if any.

    `text` is spelled as its source spells it. `answer` is None for an unanswered or a skipped
    question; `skipped` gives the reason for the latter. `pair_id` is equal for questions about
    the same two sets. `check` is the kind of check that the question is,
    if one; `failed_checks` counts the checks of its form that were failed, None where none was
    answered. `orders` are the places of the sets' images as shown, None for the ranked order.
    """

    question_id: str
    participant_id: str
    form: str
    category: str
    place: int
    pair_id: str
    swapped: bool
    query: QueryRow
    text: str
    sets: tuple[SetRow, SetRow]
    orders: tuple[list[int] | None, list[int] | None]
    participant_status: str
    handed_on: bool
    check: str | None
    answer: Answer | None
    skipped: str | None
    revision: int
    failed_checks: int | None

    @property
    def given(self) -> Answer:
        """The answer of a question that has one.

        Raises:
            LookupError: it has none.
        """
        if self.answer is None:
            raise LookupError(f"question {self.question_id} has no answer")
        return self.answer


@dataclass(frozen=True, slots=True)
class FormRow:
    """A form that has been handed out; a published one may hold no question."""

    participant_id: str
    form: str
    category: str
    n_questions: int


def read_questions(session: Session, study: Study) -> list[QuestionRow]:
    """Every question that has been handed to a participant, in their order and the forms'."""
    queries = read_queries(session, study)
    sets = read_sets(session, study)
    pair_ids = read_pair_ids(session, study, queries)
    checks = read_checks(session, study)
    failed = read_failed_checks(session, study)
    latest = (
        select(
            Response.question_id,
            func.max(Response.revision).label("revision"),
            # The time that an answer took is that of all its revisions: who looks again does
            # not answer faster.
            func.sum(Response.active_seconds).label("spent"),
        )
        .group_by(Response.question_id)
        .subquery()
    )
    rows = session.execute(
        select(Question, Pair, Form, Participant.name, Participant.status, Response, latest.c.spent)
        .join(Pair, Question.pair_id == Pair.id)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .outerjoin(latest, latest.c.question_id == Question.id)
        .outerjoin(
            Response,
            (Response.question_id == Question.id) & (Response.revision == latest.c.revision),
        )
        .where(Form.study_id == study.id)
        .order_by(Participant.id, Form.position, Question.place)
    )
    found = []
    for question, pair, form, participant, status, response, spent in rows:
        query = queries[pair.query_id]
        form_name = cast("str", form.name)  # the tables see to it that taken forms are named
        first, second = sets[pair.first_id], sets[pair.second_id]
        found.append(
            QuestionRow(
                question_id=question_id(participant, form_name, question.place),
                participant_id=participant,
                form=form_name,
                category=form.category,
                place=question.place,
                pair_id=pair_ids[pair.id],
                swapped=question.swapped,
                query=query,
                text=query.text if question.text is None else question.text,
                sets=(second, first) if question.swapped else (first, second),
                orders=(question.order_1, question.order_2),
                participant_status=status,
                handed_on=question.handed_on,
                check=checks.get(question.id),
                answer=answer_of(response, spent),
                skipped=response.skipped if response else None,
                revision=response.revision if response else 0,
                failed_checks=failed.get(form.id),
            )
        )
    return found


def read_forms(session: Session, study: Study) -> list[FormRow]:
    """Every form that has been handed out, in the participants' order and theirs."""
    rows = session.execute(
        select(Participant.name, Form.name, Form.category, func.count(Question.id))
        .select_from(Form)
        .join(Participant, Form.participant_id == Participant.id)
        .outerjoin(Question, Question.form_id == Form.id)
        .where(Form.study_id == study.id)
        .group_by(Participant.id, Participant.name, Form.id)
        .order_by(Participant.id, Form.position)
    )
    return [
        FormRow(person, cast("str", name), category, n_questions)
        for person, name, category, n_questions in rows
    ]


def answer_of(response: Response | None, spent: float | None) -> Answer | None:
    """The response as a record, `spent` all its revisions' seconds; None without scores."""
    if response is None:
        return None
    score_1, score_2, preferred = response.score_1, response.score_2, response.preferred
    if score_1 is None or score_2 is None or preferred is None:
        return None
    return Answer(
        score_1=score_1,
        score_2=score_2,
        preferred=preferred,
        irrelevant=response.irrelevant,
        reason=response.reason,
        times=Times(
            response.served_at,
            response.first_interaction_at,
            response.submitted_at,
            spent,
        ),
    )


def read_queries(session: Session, study: Study) -> dict[int, QueryRow]:
    """The queries that the study's pairs ask about, by database key."""
    reference, target = aliased(Image), aliased(Image)
    asked = select(Pair.query_id).where(Pair.study_id == study.id)
    rows = session.execute(
        select(Query, Triplet, Dataset.name, reference.name, target.name)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .join(Dataset, Triplet.dataset_id == Dataset.id)
        .join(reference, Triplet.reference_id == reference.id)
        .outerjoin(target, Triplet.target_id == target.id)
        .where(Query.id.in_(asked))
    )
    return {
        query.id: QueryRow(
            key=query.id,
            query_id=triplet.external_id + query.suffix,
            triplet_id=triplet.external_id,
            dataset=dataset,
            category=triplet.category,
            split=triplet.split,
            reference_id=reference_name,
            target_id=target_name,
            text=query.text,
            captions=triplet.captions,
        )
        for query, triplet, dataset, reference_name, target_name in rows
    }


def read_sets(session: Session, study: Study) -> dict[int, SetRow]:
    """The retrieved sets of the study's queries, by database key."""
    asked = select(Pair.query_id).where(Pair.study_id == study.id)
    images: dict[int, list[str]] = defaultdict(list)
    rows = session.execute(
        select(RetrievedImage.set_id, Image.name)
        .join(Image, RetrievedImage.image_id == Image.id)
        .join(RetrievedSet, RetrievedImage.set_id == RetrievedSet.id)
        .where(RetrievedSet.query_id.in_(asked))
        .order_by(RetrievedImage.set_id, RetrievedImage.rank)
    )
    for set_id, name in rows:
        images[set_id].append(name)
    systems = session.execute(
        select(RetrievedSet.id, System.name)
        .outerjoin(System, RetrievedSet.system_id == System.id)
        .where(RetrievedSet.query_id.in_(asked))
    )
    return {set_id: SetRow(system, images[set_id]) for set_id, system in systems}


def read_pair_ids(session: Session, study: Study, queries: dict[int, QueryRow]) -> dict[int, str]:
    """An outside id for each pair: its query's, and its number among that query's pairs."""
    numbers: dict[int, int] = defaultdict(int)
    ids = {}
    rows = session.execute(
        select(Pair.id, Pair.query_id).where(Pair.study_id == study.id).order_by(Pair.id)
    )
    for pair, query in rows:
        ids[pair] = f"{queries[query].query_id}/{numbers[query]}"
        numbers[query] += 1
    return ids


def read_checks(session: Session, study: Study) -> dict[int, str]:
    """The kind of check of each question that is one, by the question's database key."""
    rows = session.execute(
        select(Check.question_id, Check.kind)
        .join(Form, Check.form_id == Form.id)
        .where(Form.study_id == study.id, Check.question_id.is_not(None))
    )
    return {question_id: kind for question_id, kind in rows if question_id is not None}


def read_failed_checks(session: Session, study: Study) -> dict[int, int]:
    """How many checks of each form were failed, by the form's database key."""
    failed: dict[int, int] = defaultdict(int)
    for result in check_results(session, study):
        failed[result.form_id] += not result.passed
    return dict(failed)
