"""Participants: enrolment, invitations, consent, status, and deleting their data."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from sqlalchemy import Select, bindparam, delete, func, or_, select, update
from sqlalchemy.orm import Session, joinedload

from hsfiq.collect.exports.forgetting import forget_exports
from hsfiq.collect.leases import DEPARTED_STATUSES, assign_forms, has_questions_to_assign
from hsfiq.collect.outcomes.status_changes import WITHDREW
from hsfiq.collect.recruiting.addresses import count_enrolment
from hsfiq.collect.recruiting.people import require_on_list
from hsfiq.collect.recruiting.places import closed_categories, count_enrolled, count_taking_part
from hsfiq.collect.recruiting.unbegun import release_unbegun
from hsfiq.collect.running.messages import forget_messages
from hsfiq.collect.searching.forgetting import SEARCH_TABLES, forget_searches
from hsfiq.collect.studies import lock_study, require_open, require_platform_study
from hsfiq.db.engine import added
from hsfiq.db.rows import ANSWER_COUNTS, CHANGED_BY_ANSWERS, AnyParticipant
from hsfiq.db.tables import (
    Check,
    CheckAnswer,
    ExportedForm,
    ExportedRelease,
    Form,
    Message,
    MessageRecipient,
    Participant,
    Question,
    QuestionnaireAnswers,
    Response,
    StatusChange,
    Study,
    WorkedHit,
)
from hsfiq.db.types import digest_of, new_token
from hsfiq.errors import NotOpen, Refused
from hsfiq.study.config import config_of
from hsfiq.study.publishing.earlier_release import without_answers_of

STATUSES = ("active", "paused", *DEPARTED_STATUSES)

PERSONAL_TABLES = (
    *(Participant, Question, Response, QuestionnaireAnswers, CheckAnswer, StatusChange),
    *(Message, MessageRecipient, Study, WorkedHit, *SEARCH_TABLES, ExportedForm),
)
"""The tables in which `forget` deletes or empties rows."""


def by_token(session: Session, token: str, *, lock: bool = False) -> Participant | None:
    """The participant of a link; see `by_token_hash`."""
    return by_token_hash(session, digest_of(token), lock=lock)


def by_token_hash(session: Session, digest: str, *, lock: bool = False) -> Participant | None:
    """The participant with their study; with `lock`, their row is locked before it is read."""
    statement = _by_token_hash()
    if lock:
        statement = statement.with_for_update(of=Participant)
    return session.scalars(statement, {"digest": digest}).one_or_none()


@cache  # building it takes as long as running it, and every request needs it
def _by_token_hash() -> Select[Participant]:
    study = joinedload(Participant.study, innerjoin=True)
    return select(Participant).options(study).where(Participant.token_hash == bindparam("digest"))


def by_name(session: Session, study: Study, name: str) -> Participant:
    participant = session.scalars(
        select(Participant).where(Participant.study_id == study.id, Participant.name == name)
    ).one_or_none()
    if participant is None:
        raise Refused(f"study {study.name} has no participant {name[:80]!r}")
    return participant


def by_name_or_platform_id(session: Session, study: Study, given: str) -> Participant:
    """The participant with this name or platform id.

    Where a name is also the platform id of somebody else, `name:` or `id:` before it decides.

    Raises:
        Refused: there is no such participant, or there are two.
    """
    by_prefix = {"name": Participant.name, "id": Participant.external_id}
    is_called = or_(*(column == given for column in by_prefix.values()))
    of_study = select(Participant).where(Participant.study_id == study.id)
    called = session.scalars(of_study.where(is_called).order_by(Participant.id)).all()
    prefix, _, rest = given.partition(":")
    if not called and prefix in by_prefix:
        called = session.scalars(of_study.where(by_prefix[prefix] == rest)).all()
    if not called:
        raise Refused(f"study {study.name} has no participant {given[:80]!r}")
    if len(called) > 1:
        owner = next(person for person in called if person.external_id == given)
        raise Refused(
            f"{given!r} is a participant's name and the platform id of {owner.name}",
            where=f"study {study.name}",
            remedy=f"write name:{given} or id:{given}",
        )
    return called[0]


def enrol(
    session: Session,
    study_id: int,
    *,
    now: datetime,
    source: str = "open",
    external_id: str | None = None,
    platform_study_id: str | None = None,
    language: str | None = None,
    token: str | None = None,
    client: str | None = None,
) -> Participant:
    """Add a participant and assign their forms; return the existing one for a known external id.

    `external_id` is the recruitment platform's id of the person, `platform_study_id` that of the
    platform's study through which they came. `language` is one of
    the study's, None for the first. `token` is that of their link, random if None; for a known one,
    the existing participant is returned. `client` is a digest of the address that they come from.

    Raises:
        OtherPlatformStudy: the study is bound to another study of the platform.
        NotOpen: the study is not open, is full, or has no form left to assign.
        TooManyEnrolments: too many have enrolled from the address.
        NotInvited: the external id is not on the study's list.
    """
    study = lock_study(session, study_id)
    if platform_study_id is not None:
        require_platform_study(session, study, platform_study_id)
    if external_id is not None:
        known = session.scalars(
            select(Participant).where(
                Participant.study_id == study_id, Participant.external_id == external_id
            )
        ).one_or_none()
        if known is not None:
            return with_place(session, study, known, now)
        require_on_list(session, study, external_id)
    if token is not None and (known := by_token(session, token)) is not None:
        return with_place(session, study, known, now)
    require_open(study)
    release_unbegun(session, study, now)
    require_free_place(session, study, now)
    if client is not None:
        count_enrolment(session, study, client, now)
    participant = added(
        session,
        Participant(
            token=token,
            study_id=study_id,
            name=f"p{next_number(session, study)}",
            source=source,
            external_id=external_id,
            platform_study_id=platform_study_id,
            language=language,
            created_at=now,
        ),
    )
    assign_forms(session, study, participant, now, closed_categories(session, study, now))
    return participant


def invite(
    session: Session, study_id: int, count: int, *, now: datetime, language: str | None = None
) -> list[Participant]:
    """Add participants who get their forms when they first follow their links."""
    study = lock_study(session, study_id)
    if language is not None:
        require_language(study, language)
    first = next_number(session, study)
    invited = [
        Participant(
            study_id=study_id,
            name=f"p{number}",
            source="invitation",
            language=language,
            created_at=now,
        )
        for number in range(first, first + count)
    ]
    session.add_all(invited)
    session.flush()
    return invited


def enrol_invited(
    session: Session, participant: Participant, *, now: datetime, language: str | None = None
) -> None:
    """Assign forms to an invited participant, unless they already have them; see `enrol`.

    `language` is for an invitation that names none.
    """
    study = lock_study(session, participant.study_id)
    session.refresh(participant)
    if with_place(session, study, participant, now).enrolled_at is not None:
        participant.language = participant.language or language


def with_place(
    session: Session, study: Study, participant: Participant, now: datetime
) -> Participant:
    """The participant of a locked study, who gets a place unless they have one or have departed.

    Raises:
        NotOpen: they have none, and there is none left.
    """
    if participant.enrolled_at is None and participant.status not in DEPARTED_STATUSES:
        require_open(study)
        release_unbegun(session, study, now)
        require_free_place(session, study, now)
        assign_forms(session, study, participant, now, closed_categories(session, study, now))
    return participant


def come_back(session: Session, participant: Participant, now: datetime) -> None:
    """Give a place to somebody on the page whose own was given back, if there is one."""
    if participant.enrolled_at is None and participant.study.status == "open":
        with suppress(NotOpen):
            enrol_invited(session, participant, now=now)


def require_language(study: Study, language: str) -> None:
    languages = config_of(study).study.languages
    if language not in languages:
        raise Refused(
            f"study {study.name} has no texts in {language[:40]!r}: {', '.join(languages)}"
        )


def choose_language(participant: Participant, language: str) -> None:
    """Show a participant's page in another of the study's languages from now on."""
    require_language(participant.study, language)
    participant.language = language


def language_of(participant: AnyParticipant) -> str:
    """The language in which a participant reads the study."""
    study = config_of(participant.study).study
    return participant.language if participant.language in study.languages else study.language


def consent(participant: Participant, *, now: datetime) -> None:
    participant.consented_at = participant.consented_at or now


def finish_practice(participant: Participant, *, now: datetime) -> None:
    participant.practised_at = participant.practised_at or now


def require_free_place(session: Session, study: Study, now: datetime) -> None:
    """Raise `NotOpen` if the study has as many participants as it wants."""
    cap = config_of(study).recruitment.participants
    # Most studies have fewer people than places: then nobody's answers need to be read.
    if cap and count_enrolled(session, study) >= cap <= count_taking_part(session, study, now):
        raise NotOpen(f"study {study.name}: all {cap} places are taken")


def has_free_place(session: Session, study: Study, now: datetime) -> bool:
    """Whether somebody could enrol in an open study now."""
    try:
        require_free_place(session, study, now)
    except NotOpen:
        return False
    closed = closed_categories(session, study, now)
    return has_questions_to_assign(session, study, now, closed)


def next_number(session: Session, study: Study) -> int:
    """The number in the next participant's pseudonym; none is used twice."""
    return (session.scalar(_count_participants(), {"study": study.id}) or 0) + 1


@cache
def _count_participants() -> Select[int]:
    return select(func.count(Participant.id)).where(Participant.study_id == bindparam("study"))


def require_active(participant: AnyParticipant) -> None:
    """Raise `NotOpen` unless the study is open and the participant is active."""
    require_open(participant.study)
    if participant.status != "active":
        raise NotOpen(f"your part in this study is {participant.status}")


def lock_participant(session: Session, participant: Participant) -> None:
    """Lock and reload the participant's row. Always do this before locking questions."""
    session.refresh(participant, CHANGED_BY_ANSWERS, with_for_update=True)


def set_status(participant: Participant, status: str) -> None:
    if status not in STATUSES:
        raise Refused(f"{status!r} is not a status: {', '.join(STATUSES)}")
    participant.status = status


@dataclass(frozen=True, slots=True)
class Deleted:
    """How many answers were deleted, and the recorded releases that have answers of the person."""

    n_answers: int = 0
    releases: Sequence[ExportedRelease] = ()


def forget(session: Session, participant: Participant) -> Deleted:
    """Delete a person's answers and checks, and free their questions.

    Searches, messages to this person alone, and what is recorded of them in releases are deleted,
    too. So is what an imported study keeps of answers that were dropped before.

    An empty row under the pseudonym remains, so that nobody else is ever given it. It still says
    that somebody has withdrawn.
    """
    lock_participant(session, participant)
    own_questions = select(Question.id).join(Form).where(Form.participant_id == participant.id)
    own_checks = select(Check.id).join(Form).where(Form.participant_id == participant.id)
    n_answers = session.scalar(
        select(func.count(func.distinct(Response.question_id))).where(
            Response.question_id.in_(own_questions)
        )
    )
    session.execute(delete(Response).where(Response.question_id.in_(own_questions)))
    forget_searches(session, own_questions)
    session.execute(delete(CheckAnswer).where(CheckAnswer.check_id.in_(own_checks)))
    for table in (QuestionnaireAnswers, WorkedHit):
        session.execute(delete(table).where(table.participant_id == participant.id))
    is_withdrawal = func.coalesce(StatusChange.reason, "") == WITHDREW
    changes = delete(StatusChange).where(StatusChange.participant_id == participant.id)
    session.execute(changes.where(~is_withdrawal))
    session.execute(update(Question).where(Question.id.in_(own_questions)).values(served_at=None))
    forget_messages(session, participant)
    study = participant.study
    study.design = without_answers_of(study.design, participant.name)
    releases = forget_exports(session, participant)
    participant.status = "returned"
    participant.external_id = participant.platform_study_id = participant.language = None
    participant.token_hash = digest_of(new_token())
    participant.consented_at = participant.practised_at = None
    participant.created_at = participant.enrolled_at = participant.seen_at = None
    for name in (*ANSWER_COUNTS, "n_revisions"):
        setattr(participant, name, 0)
    session.flush()
    return Deleted(n_answers or 0, releases)
