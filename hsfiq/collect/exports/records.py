"""The releases that are recorded of a study, and how many answers have arrived since."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import func, literal, select
from sqlalchemy.orm import Session

from hsfiq.collect.exports.runs import revision_at
from hsfiq.db.rows import ANSWER_COUNTS
from hsfiq.db.tables import ExportedForm, ExportedRelease, Participant, Question, Study
from hsfiq.text import count_text


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
    """How many questions are answered, without attention checks; and the sum of the revisions."""

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


def last_record(session: Session, study: Study) -> ReleaseRecord | None:
    """The release that was written last."""
    latest = session.scalar(
        select(ExportedRelease.id)
        .where(ExportedRelease.study_id == study.id)
        .order_by(ExportedRelease.last_exported_at.desc(), ExportedRelease.id.desc())
        .limit(1)
    )
    return None if latest is None else records_of(session, study, [latest])[0]


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
    """Those of the state of the database that the release was made of."""
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
    """The revision of an answer that a release has, or that its rules dropped."""

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
