"""The history of a question: the shown sets, the participant, and all revisions of the answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Row, func, literal, select
from sqlalchemy.orm import Session

from hsfiq.collect.answers import revisions_of
from hsfiq.collect.asked_questions import load_question, shown_images, shown_sets
from hsfiq.collect.participant_row import ANSWER_COUNTS
from hsfiq.collect.progress import IS_LATEST, judgement_of, summary_of
from hsfiq.db.search_tables import SearchUpload
from hsfiq.db.tables import (
    Check,
    CheckAnswer,
    ExportedForm,
    ExportedRelease,
    Form,
    Participant,
    Question,
    Response,
    RetrievedSet,
    Study,
)
from hsfiq.ids import question_id
from hsfiq.kinds import KINDS
from hsfiq.kinds.rows import Run
from hsfiq.study.config import config_of
from hsfiq.study.instrument import in_words
from hsfiq.text import count_text

# Answers of a form as `exported_forms` has them: runs of places with the same revision.


def revision_at(runs: Sequence[Run], place: int) -> int | None:
    """The revision of the answer at a place; None if no run has the place."""
    return next((revision for first, last, revision in runs if first <= place <= last), None)


# The releases that are recorded of a study, and how many answers have arrived since.


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """A recorded release.

    Attributes:
        n_answers: the number of answers in the release.
        n_forgotten: the number of participants in it whose data have been deleted since.
        n_new: the number of questions of the study that were answered for the first time since.
        n_changes: the number of later revisions of answers that were given since.
    """

    study: str
    name: str
    kind: str
    version: str
    content_sha256: str
    filters: list[dict[str, Any]]
    options: dict[str, Any]
    hsfiq_version: str
    first_exported_at: datetime
    last_exported_at: datetime
    n_answers: int
    n_forgotten: int
    n_new: int
    n_changes: int

    def facts(self) -> dict[str, Any]:
        times = {
            name: getattr(self, name).isoformat()
            for name in ("first_exported_at", "last_exported_at")
        }
        return asdict(self) | times

    @property
    def since(self) -> str:
        """`4 new answers and 1 change`."""
        return f"{count_text(self.n_new, 'new answer')} and {count_text(self.n_changes, 'change')}"


class Totals(NamedTuple):
    """The number of answered questions without attention checks, and the sum of the revisions."""

    answered: int
    revisions: int


def records_of(
    session: Session, study: Study, only: Collection[int] | None = None
) -> list[ReleaseRecord]:
    """The study's releases, oldest first; `only` those with these database keys."""
    statement = select(ExportedRelease).where(ExportedRelease.study_id == study.id)
    if only is not None:
        statement = statement.where(ExportedRelease.id.in_(only))
    releases = session.scalars(statement.order_by(ExportedRelease.id)).all()
    if not releases:
        return []
    now = totals_now(session, study)
    return [record_of(session, study, release, now) for release in releases]


def record_of(
    session: Session, study: Study, release: ExportedRelease, now: Totals
) -> ReleaseRecord:
    then = totals_then(session, release)
    n_new = now.answered - then.answered
    return ReleaseRecord(
        study=study.name,
        name=release.name,
        kind=release.kind,
        version=release.version,
        content_sha256=release.content_sha256,
        filters=release.filters,
        options=release.options,
        hsfiq_version=release.hsfiq_version,
        first_exported_at=release.first_exported_at,
        last_exported_at=release.last_exported_at,
        n_answers=release.n_answers,
        n_forgotten=release.n_forgotten,
        n_new=n_new,
        n_changes=now.revisions - then.revisions - n_new,
    )


def totals_now(session: Session, study: Study) -> Totals:
    answered = sum((getattr(Participant, name) for name in ANSWER_COUNTS), literal(0))
    sums = select(func.sum(answered), func.sum(Participant.n_revisions))
    row = session.execute(sums.where(Participant.study_id == study.id)).one()
    return Totals(*(int(number or 0) for number in row))


def totals_then(session: Session, release: ExportedRelease) -> Totals:
    """The counts of the database state from which the release was made."""
    answered = revisions = 0
    rows = session.execute(
        select(ExportedForm.kept, ExportedForm.dropped)
        .where(ExportedForm.release_id == release.id)
        .execution_options(yield_per=1000)
    )
    for kept, dropped in rows:
        for first, last, revision in (*kept, *dropped):
            if revision:
                answered += last - first + 1
                revisions += (last - first + 1) * revision
    return Totals(answered, revisions)


class AnswerInRelease(NamedTuple):
    """The revision of an answer that a release contains, or that its rules dropped."""

    revision: int
    is_kept: bool


def releases_of_answer(session: Session, key: int) -> dict[int, AnswerInRelease]:
    """The releases in which the answer to a question is, by database keys; oldest first."""
    question = session.get_one(Question, key)
    rows = session.execute(
        select(ExportedForm.release_id, ExportedForm.kept, ExportedForm.dropped)
        .where(ExportedForm.form_id == question.form_id)
        .order_by(ExportedForm.release_id)
    )
    return {
        release: AnswerInRelease(revision, is_kept)
        for release, kept, dropped in rows
        for runs, is_kept in ((kept, True), (dropped, False))
        if (revision := revision_at(runs, question.place)) is not None
    }


SumTry = Row[str | None, str, bool, datetime]
"""An attempt at the sum before a question: `prompt`, `given`, `passed`, `answered_at`."""


@dataclass(frozen=True, slots=True)
class QuestionHistory:
    """A question as shown to its participant; `systems` and `images` are those of sets 1, 2, ...

    `reference_token` and `tokens` are those of the images' files. `summaries` has each revision's
    answer in words, None for skipped questions; `extras` has the extra questions with
    their answers. `has_upload`: the participant has uploaded a picture for this search.
    """

    study: str
    question_id: str
    participant: str
    status: str
    query_id: str
    text: str
    reference: str | None
    target: str | None
    systems: tuple[str | None, ...]
    images: tuple[tuple[str, ...], ...]
    reference_token: str | None
    tokens: tuple[tuple[str, ...], ...]
    served_at: datetime | None
    reassigned: bool
    check: str | None
    expected: str | None
    revisions: tuple[Response, ...]
    summaries: tuple[str | None, ...]
    extras: tuple[list[tuple[str, str]], ...]
    sum_tries: Sequence[SumTry]
    has_upload: bool


def question_history(session: Session, study: Study, outside_id: str) -> QuestionHistory | None:
    key = find_question(session, study, outside_id)
    if key is None:
        return None
    question = load_question(session, key)
    check = session.scalars(select(Check).where(Check.question_id == key)).one_or_none()
    query, participant = question.pair.query, question.form.participant
    sets, asked = shown_sets(question), config_of(study).questionnaire.after_each
    reference = query.triplet.reference
    shown = [shown_images(question, side) for side in range(1, len(sets) + 1)]
    revisions = tuple(revisions_of(session, key))
    return QuestionHistory(
        study=study.name,
        question_id=outside_id,
        participant=participant.name if participant else "",
        status=participant.status if participant else "",
        query_id=query.triplet.external_id + query.suffix,
        text=question.text or query.text,
        reference=reference.name if reference else None,
        target=query.triplet.target.name if query.triplet.target else None,
        systems=tuple(map(system_name, sets)),
        images=tuple(tuple(member.image.name for member in images) for images in shown),
        reference_token=reference.token if reference else None,
        tokens=tuple(tuple(member.image.token for member in images) for images in shown),
        served_at=question.served_at,
        reassigned=question.reassigned,
        check=check.kind if check else None,
        expected=right_answer(study, check),
        revisions=revisions,
        summaries=tuple(summary_of(study, judgement_of(study, each)) for each in revisions),
        extras=tuple(in_words(asked, response.extra) for response in revisions),
        sum_tries=sum_tries(session, question),
        has_upload=session.get(SearchUpload, key) is not None,
    )


def right_answer(study: Study, check: Check | None) -> str | None:
    """The correct answer to a gold question, in words."""
    gold = KINDS[study.kind].gold
    if check is None or check.expected is None or gold is None:
        return None
    return gold.words(check.expected)


def find_question(session: Session, study: Study, outside_id: str) -> int | None:
    """The key of the question with this outside id; the names in it may contain dots."""
    owner, _, place = outside_id.strip().rpartition(".")
    if not (place.isascii() and place.isdigit()) or len(place) > 9:
        return None
    names = [owner[:at] for at, character in enumerate(owner) if character == "."]
    rows = session.execute(
        select(Question.id, Participant.name, Form.name)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .where(
            Participant.study_id == study.id,
            Participant.name.in_(names),
            Question.place == int(place),
            Participant.name + "." + Form.name == owner,
        )
    )
    wanted = outside_id.strip()
    return next(
        (key for key, name, form in rows if question_id(name, form or "", int(place)) == wanted),
        None,
    )


def system_name(retrieved: RetrievedSet) -> str | None:
    return retrieved.system.name if retrieved.system else None


def sum_tries(session: Session, question: Question) -> Sequence[SumTry]:
    return session.execute(
        select(Check.prompt, CheckAnswer.given, CheckAnswer.passed, CheckAnswer.answered_at)
        .join(CheckAnswer, CheckAnswer.check_id == Check.id)
        .where(
            Check.form_id == question.form_id,
            Check.place == question.place,
            Check.kind == "arithmetic",
        )
        .order_by(CheckAnswer.id)
    ).all()


# Every participant's answer about the same retrieved sets.


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """The latest answer to one question about an item.

    `summary` is the answer in words, of pairs about the sets that the question asked for shows as 1
    and 2. `extra` has the extra questions with their answers.
    """

    question_id: str
    participant: str
    status: str
    summary: str | None
    irrelevant: bool | None
    skipped: str | None
    reason: str | None
    check: str | None
    active_seconds: float | None
    submitted_at: datetime | None
    extra: list[tuple[str, str]]


def item_answers(session: Session, study: Study, outside_id: str) -> list[ItemAnswer]:
    """The answers about the sets of this question, by participant; none if it does not exist."""
    key = find_question(session, study, outside_id)
    if key is None:
        return []
    question = session.get_one(Question, key)
    asked_besides = config_of(study).questionnaire.after_each
    rows = session.execute(
        select(Question, Form, Participant, Response, Check.kind)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .join(Response, Response.question_id == Question.id)
        .outerjoin(Check, Check.question_id == Question.id)
        .where(Question.pair_id == question.pair_id, IS_LATEST)
        .order_by(Participant.id, Form.position, Question.place)
    )
    return [
        ItemAnswer(
            question_id=question_id(person.name, form.name or "", asked.place),
            participant=person.name,
            status=person.status,
            summary=summary_of(
                study,
                as_seen(study, response, is_mirrored=asked.swapped != question.swapped),
            ),
            irrelevant=response.irrelevant,
            skipped=response.skipped,
            reason=response.reason,
            check=kind,
            active_seconds=response.active_seconds,
            submitted_at=response.submitted_at,
            extra=in_words(asked_besides, response.extra),
        )
        for asked, form, person, response, kind in rows
    ]


def as_seen(study: Study, response: Response, *, is_mirrored: bool) -> dict[str, Any] | None:
    """The judgement, with its sides swapped if `is_mirrored`."""
    judgement = judgement_of(study, response)
    if judgement is None or not is_mirrored:
        return judgement
    return KINDS[study.kind].mirrored(judgement)
