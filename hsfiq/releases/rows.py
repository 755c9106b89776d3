"""A study's assigned questions, each with its latest answer, read from the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session, aliased

from hsfiq.answer_rules import ImageState, ImageStates
from hsfiq.collect.outcomes.status_changes import latest_changes, rule_text
from hsfiq.collect.steps import image_orders
from hsfiq.db.tables import (
    Dataset,
    Form,
    FurtherSet,
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
from hsfiq.ids import question_id, set_id
from hsfiq.releases.question_checks import read_checks, read_failed_checks, read_repeated
from hsfiq.releases.searching.rows import SearchRow, read_searches
from hsfiq.text import shown


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A row of `queries`, in the order of its columns, after the query's database key.

    The rows are sorted by the key.
    """

    key: int
    query_id: str
    triplet_id: str
    dataset: str
    category: str
    split: str | None
    reference_id: str | None
    target_id: str | None
    text: str
    text_shown: str
    captions: list[str]


@dataclass(frozen=True, slots=True)
class RetrievedSetRow:
    """A retrieved set: its system, if known, and its images, best first."""

    system: str | None
    image_ids: list[str]


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A participant's question with its latest answer: the columns of `preferences`, and more.

    Attributes:
        pair_id: the same for all questions about the same retrieved sets, or the same query.
        text: exactly as in its source.
        sets: set 1, set 2, ..., as shown.
        orders: for each set, the order in which its images were shown; None for the ranked order.
        reassigned: whether the question was left and is now in another participant's form.
        check: the kind of attention check that the question is, if any.
        skipped: why the question was skipped, if it was.
        score_1: of set 1, from 1; like `score_2` and `preferred`, None without an answer.
        confirmed: whether the preference for the set scored much lower was confirmed; None if that
            was not asked, or is unknown.
        irrelevant: the flag; None if flags were not recorded.
        revision: of the answer; 0 without any response.
        active_seconds: of all revisions together.
        failed_checks: how many checks of its form were failed; None if none was answered.
        images: the states of its images; None if unknown.
        text_version: the version of the study's texts that the page showed; None if unknown.
        language: of the page on which the answer was given; None if unknown.
        judgement: the answer of another kind than `pair`, as `hsfiq.kinds` reads it.
        excluded_by_rule: what the study's rule about checks counted when it last acted.
        repeats: of a repeated question, the id of the question that it repeats.
        extra: the answers to the owner's extra questions by name; None if none was asked.
        search: its turns, of a study of searches.
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
    sets: tuple[RetrievedSetRow, ...]
    orders: tuple[list[int] | None, ...]
    participant_status: str
    reassigned: bool
    check: str | None
    skipped: str | None
    score_1: int | None
    score_2: int | None
    preferred: int | None
    irrelevant: bool | None
    reason: str | None
    revision: int
    served_at: datetime | None
    first_interaction_at: datetime | None
    submitted_at: datetime | None
    active_seconds: float | None
    failed_checks: int | None
    images: ImageStates | None
    text_version: int | None
    judgement: Mapping[str, Any] | None = None
    excluded_by_rule: str | None = None
    confirmed: bool | None = None
    language: str | None = None
    extra: Mapping[str, Any] | None = None
    repeats: str | None = None
    search: SearchRow | None = None

    def judged(self, name: str) -> Any:
        """A value of the judgement; None without an answer."""
        return None if self.judgement is None else self.judgement[name]

    @property
    def is_left_search(self) -> bool:
        """Whether it is a search with turns that nobody has finished, and nobody will."""
        return not self.revision and self.search is not None and self.search.is_left

    @property
    def item_id(self) -> str:
        return self.pair_id

    @property
    def images_painted(self) -> bool | None:
        return self.images.are_painted if self.images else None

    @property
    def images_enlarged(self) -> int | None:
        return self.images.n_enlarged if self.images else None

    @property
    def reference_state(self) -> ImageState | None:
        return self.images.reference if self.images else None

    def image_states(self, side: int) -> list[ImageState] | None:
        """The states of the images of set 1 or 2, best first."""
        if self.images is None:
            return None
        states, order = self.images.sets[side - 1], self.orders[side - 1]
        if order is None:
            return list(states)
        return [states[order.index(rank)] for rank in range(len(states))]

    @property
    def query_id(self) -> str:
        return self.query.query_id

    @property
    def set_1(self) -> str:
        return set_id(self.question_id, 1)

    @property
    def set_2(self) -> str:
        return set_id(self.question_id, 2)

    @property
    def system_1(self) -> str | None:
        return self.sets[0].system

    @property
    def system_2(self) -> str | None:
        return self.sets[1].system


@dataclass(frozen=True, slots=True)
class FormRow:
    """A participant's form; an imported one may have no questions."""

    participant_id: str
    form: str
    category: str
    n_questions: int


def read_questions(session: Session, study: Study) -> list[QuestionRow]:
    """Read all assigned questions, by participant, form and place."""
    queries = read_queries(session, study)
    sets = read_sets(session, study)
    further = read_further_sets(session, study)
    pair_ids = read_pair_ids(session, study, queries)
    checks = read_checks(session, study)
    failed_checks = read_failed_checks(session, study)
    repeated = read_repeated(session, study)
    searches = read_searches(session, study)
    names: dict[int, str] = {}
    latest = (
        select(
            Response.question_id,
            func.max(Response.revision).label("revision"),
            # All revisions count, so that changing an answer does not make it faster.
            func.sum(Response.active_seconds).label("active_seconds"),
        )
        .group_by(Response.question_id)
        .subquery()
    )
    rows = session.execute(
        select(
            Question, Pair, Form, Participant.name, Participant.status, Response,
            latest.c.active_seconds,
        )
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
    )  # fmt: skip
    changes = latest_changes(session, study)
    unanswered = Response(irrelevant=False, revision=0)  # its other columns are None
    questions = []
    for question, pair, form, participant, status, response, active_seconds in rows:
        query = queries[pair.query_id]
        form_name = cast("str", form.name)  # the schema requires one of every assigned form
        names[question.id] = question_id(participant, form_name, question.place)
        answer = response or unanswered
        questions.append(
            QuestionRow(
                question_id=names[question.id],
                participant_id=participant,
                form=form_name,
                category=form.category,
                place=question.place,
                pair_id=pair_ids[pair.id],
                swapped=question.swapped,
                query=query,
                text=query.text if question.text is None else question.text,
                sets=tuple(sets[key] for key in shown_keys(question, pair, further)),
                orders=tuple(image_orders(question)),
                participant_status=status,
                reassigned=question.reassigned,
                check=checks.get(question.id),
                repeats=names.get(repeated.get(question.id, 0)),  # it was asked before
                failed_checks=failed_checks.get(form.id),
                skipped=answer.skipped,
                score_1=answer.score_1,
                score_2=answer.score_2,
                preferred=answer.preferred,
                irrelevant=answer.irrelevant,
                reason=answer.reason,
                revision=answer.revision,
                served_at=answer.served_at,
                first_interaction_at=answer.first_interaction_at,
                submitted_at=answer.submitted_at,
                active_seconds=active_seconds,
                images=None if answer.images is None else ImageStates.from_letters(answer.images),
                text_version=answer.text_version,
                judgement=answer.judgement,
                excluded_by_rule=rule_text(changes.get(form.participant_id or 0)),
                confirmed=answer.confirmed,
                language=answer.language,
                extra=answer.extra,
                search=searches.get(question.id),
            )
        )
    return questions


def shown_keys(question: Question, pair: Pair, further: Mapping[int, Sequence[int]]) -> list[int]:
    """The database keys of the sets as the question shows them."""
    keys = [key for key in (pair.first_id, pair.second_id) if key is not None]
    if question.set_order is not None:
        keys += further[pair.id]
        return [keys[place] for place in question.set_order]
    return keys[::-1] if question.swapped else keys


def read_further_sets(session: Session, study: Study) -> dict[int, list[int]]:
    """Read the sets of questions about more than two, from the third on, by the pair's key."""
    keys: dict[int, list[int]] = defaultdict(list)
    rows = session.execute(
        select(FurtherSet.pair_id, FurtherSet.set_id)
        .join(Pair, FurtherSet.pair_id == Pair.id)
        .where(Pair.study_id == study.id)
        .order_by(FurtherSet.pair_id, FurtherSet.place)
    )
    for pair, retrieved in rows:
        keys[pair].append(retrieved)
    return keys


def read_forms(session: Session, study: Study) -> list[FormRow]:
    """Read all assigned forms, by participant and position."""
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
        FormRow(participant, cast("str", name), category, n_questions)
        for participant, name, category, n_questions in rows
    ]


def read_queries(session: Session, study: Study) -> dict[int, QueryRow]:
    """Read the queries of the study's pairs, by database key."""
    reference, target = aliased(Image), aliased(Image)
    rows = session.execute(
        select(Query, Triplet, Dataset.name, reference.name, target.name)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .join(Dataset, Triplet.dataset_id == Dataset.id)
        .outerjoin(reference, Triplet.reference_id == reference.id)
        .outerjoin(target, Triplet.target_id == target.id)
        .where(Query.id.in_(queries_of(study)))
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
            text_shown=shown(query.text),
            captions=triplet.captions,
        )
        for query, triplet, dataset, reference_name, target_name in rows
    }


def read_sets(session: Session, study: Study) -> dict[int, RetrievedSetRow]:
    """Read the retrieved sets of the study's queries, by database key."""
    images: dict[int, list[str]] = defaultdict(list)
    rows = session.execute(
        select(RetrievedImage.set_id, Image.name)
        .join(Image, RetrievedImage.image_id == Image.id)
        .join(RetrievedSet, RetrievedImage.set_id == RetrievedSet.id)
        .where(RetrievedSet.query_id.in_(queries_of(study)))
        .order_by(RetrievedImage.set_id, RetrievedImage.rank)
    )
    for key, name in rows:
        images[key].append(name)
    systems = session.execute(
        select(RetrievedSet.id, System.name)
        .outerjoin(System, RetrievedSet.system_id == System.id)
        .where(RetrievedSet.query_id.in_(queries_of(study)))
    )
    return {key: RetrievedSetRow(system, images[key]) for key, system in systems}


def queries_of(study: Study) -> Select[int]:
    """Select the database keys of the queries of the study's pairs."""
    return select(Pair.query_id).where(Pair.study_id == study.id)


def read_pair_ids(session: Session, study: Study, queries: dict[int, QueryRow]) -> dict[int, str]:
    """Return each pair's outside id: its query's id and its number among the query's pairs."""
    numbers: dict[int, int] = defaultdict(int)
    ids = {}
    rows = session.execute(
        select(Pair.id, Pair.query_id).where(Pair.study_id == study.id).order_by(Pair.id)
    )
    for pair, query in rows:
        ids[pair] = f"{queries[query].query_id}/{numbers[query]}"
        numbers[query] += 1
    return ids
