"""Participants: enrolment, invitations, consent and changes of their status."""

from __future__ import annotations

import csv
import os
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, func, or_, select, true
from sqlalchemy.orm import InstrumentedAttribute, Session

from hsfiq.actors import Action, Actor
from hsfiq.audit import record
from hsfiq.collect import places, studies
from hsfiq.collect.leases import DEPARTED_STATUSES, assign_forms, has_questions_to_assign
from hsfiq.collect.participant_row import CHANGED_BY_ANSWERS, ParticipantRow
from hsfiq.db.engine import Database, added
from hsfiq.db.tables import Participant, StatusChange, Study
from hsfiq.db.types import digest_of, token_from
from hsfiq.errors import NotOpen, Refused
from hsfiq.study.capacity import capacity_of
from hsfiq.study.config import Presentation, config_of
from hsfiq.text import count_text, is_storable_text

STATUSES = ("active", "paused", *DEPARTED_STATUSES)


def by_token(session: Session, token: str) -> Participant | None:
    """The participant of a link."""
    known = select(Participant).where(Participant.token_hash == digest_of(token))
    return session.scalars(known).one_or_none()


def by_name(session: Session, study: Study, name: str) -> Participant:
    participant = session.scalars(
        select(Participant).where(Participant.study_id == study.id, Participant.name == name)
    ).one_or_none()
    if participant is None:
        raise Refused(f"study {study.name} has no participant {name[:80]!r}")
    return participant


def by_name_or_platform_id(session: Session, study: Study, given: str) -> Participant:
    """The participant with this name or platform id.

    If a name is also another participant's platform id, the prefix `name:` or `id:` decides.

    Raises:
        Refused: the participant does not exist, or there are two.
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
    study = studies.lock_study(session, study_id)
    if platform_study_id is not None:
        studies.require_platform_study(session, study, platform_study_id)
    if external_id is not None:
        known = session.scalars(
            select(Participant).where(
                Participant.study_id == study_id, Participant.external_id == external_id
            )
        ).one_or_none()
        if known is not None:
            return with_place(session, study, known, now)
        places.require_on_list(session, study, external_id)
    if token is not None and (known := by_token(session, token)) is not None:
        return with_place(session, study, known, now)
    studies.require_open(study.status)
    places.release_unbegun(session, study, now)
    require_free_place(session, study, now)
    if client is not None:
        places.count_enrolment(session, study, client, now)
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
    assign_forms(session, study, participant, now, places.closed_categories(session, study, now))
    return participant


def invite(
    session: Session,
    study_id: int,
    count: int,
    *,
    now: datetime,
    language: str | None = None,
    key: str = "",
) -> list[Participant]:
    """Add participants who get their forms when they first follow their links.

    Participants already added with the same random key are returned with the same links.
    """
    study = studies.lock_study(session, study_id)
    known: list[Participant] = []
    while (token := token_from(key, len(known))) and (person := by_token(session, token)):
        person.token = token
        known.append(person)
    count = max(0, count - len(known))
    if language is not None:
        require_language(config_of(study).study, language)
    first = next_number(session, study)
    invited = [
        Participant(
            token=token_from(key, len(known) + number - first),
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
    return known + invited


def enrol_invited(
    session: Session, participant: Participant, *, now: datetime, language: str | None = None
) -> None:
    """Assign forms to an invited participant, unless they already have them; see `enrol`.

    `language` is for an invitation that names none.
    """
    study = studies.lock_study(session, participant.study_id)
    session.refresh(participant)
    if with_place(session, study, participant, now).enrolled_at is not None:
        participant.language = participant.language or language


def with_place(
    session: Session, study: Study, participant: Participant, now: datetime
) -> Participant:
    """Give the participant of a locked study a place, unless they have one or have departed.

    Raises:
        NotOpen: the participant has no place, and none is left.
    """
    if participant.enrolled_at is None and participant.status not in DEPARTED_STATUSES:
        studies.require_open(study.status)
        places.release_unbegun(session, study, now)
        require_free_place(session, study, now)
        assign_forms(
            session, study, participant, now, places.closed_categories(session, study, now)
        )
    return participant


def come_back(session: Session, participant: Participant, now: datetime) -> None:
    """Give a place to somebody on the page whose own was given back, if there is one."""
    if participant.enrolled_at is None and participant.study.status == "open":
        with suppress(NotOpen):
            enrol_invited(session, participant, now=now)


def require_language(study: Presentation, language: str) -> None:
    if language not in study.languages:
        languages = ", ".join(study.languages)
        raise Refused(f"study {study.name} has no texts in {language[:40]!r}: {languages}")


def language_of(participant: ParticipantRow) -> str:
    """The language in which a participant reads the study."""
    study = participant.study.config.study
    return participant.language if participant.language in study.languages else study.language


def consent(participant: Participant, *, now: datetime) -> None:
    participant.consented_at = participant.consented_at or now


def require_free_place(session: Session, study: Study, now: datetime) -> None:
    """Raise `NotOpen` if the study is full."""
    cap = config_of(study).recruitment.participants
    # Most studies have fewer people than places: then nobody's answers need to be read.
    if cap and places.count_enrolled(session, study) >= cap <= places.count_taking_part(
        session, study, now
    ):
        raise NotOpen(f"study {study.name}: all {cap} places are taken")


def has_free_place(session: Session, study: Study, now: datetime) -> bool:
    """Whether an open study has a free place now."""
    try:
        require_free_place(session, study, now)
    except NotOpen:
        return False
    closed = places.closed_categories(session, study, now)
    return has_questions_to_assign(session, study, now, closed)


def next_number(session: Session, study: Study) -> int:
    """The number in the next participant's pseudonym; numbers are never reused."""
    return (session.scalar(_count_participants(), {"study": study.id}) or 0) + 1


@cache
def _count_participants() -> Select[int]:
    return select(func.count(Participant.id)).where(Participant.study_id == bindparam("study"))


def require_active(participant: ParticipantRow) -> None:
    """Raise `NotOpen` unless the study is open and the participant is active."""
    studies.require_open(participant.study.status)
    if participant.status != "active":
        raise NotOpen(f"your participation in this study is {participant.status}")


def lock_participant(session: Session, participant: Participant) -> None:
    """Lock and reload the participant's row. Always do this before locking questions."""
    session.refresh(participant, CHANGED_BY_ANSWERS, with_for_update=True)


def set_status(participant: Participant, status: str) -> None:
    if status not in STATUSES:
        raise Refused(f"{status!r} is not a status: {', '.join(STATUSES)}")
    participant.status = status


# Personal invitation links, written to a CSV file that only its owner can read.


def write_invitations(
    database: Database,
    actor: Actor,
    study: str,
    count: int,
    url: str,
    path: Path,
    *,
    language: str | None = None,
) -> None:
    """Add participants to a study and write their links to a new CSV file: participant, link.

    The file is written within the transaction, so no invitation lacks its link. `actor` is who
    invites them, `url` the app's public address, `language` that of the invited, if it is known.
    """
    with ExitStack() as undo:
        with database.writing() as session:
            row = studies.study_called(session, study)
            studies.require_unfinished(row)
            invited = invite(session, row.id, count, now=datetime.now(UTC), language=language)
            about = count_text(count, "invitation")
            record(session, actor, Action.STUDY_INVITE, study=study, about=about)
            # Anybody with a link can answer as that participant.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            undo.callback(path.unlink)
            with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["participant", "link"])
                writer.writerows([p.name, f"{url.rstrip('/')}/start/{p.token}"] for p in invited)
        undo.pop_all()


@dataclass(frozen=True, slots=True)
class InvitationPlaces:
    """The number of free places, and the number of unused invitations."""

    study: str
    free: int
    waiting: int

    def warnings(self) -> list[str]:
        if self.waiting <= self.free:
            return []
        warning = (
            f"study {self.study} has places for {self.free:,} more participants, and "
            f"{self.waiting:,} invitations are unused: the last invited people will find the "
            f"study full"
        )
        return [warning]


def places_for_invitations(session: Session, study: Study, now: datetime) -> InvitationPlaces:
    """Count the current places; unfinished participants may free theirs later."""
    waiting = session.scalar(
        select(func.count(Participant.id)).where(
            Participant.study_id == study.id,
            Participant.source == "invitation",
            Participant.enrolled_at.is_(None),
            Participant.status.not_in(DEPARTED_STATUSES),
        )
    )
    unassigned = capacity_of(session, study).unassigned
    for count in places.quotas_of(session, study, now):
        left = max(0, count.quota - count.taking_part)
        unassigned[count.category] = min(left, unassigned[count.category])
    free, cap = unassigned.total(), config_of(study).recruitment.participants
    if cap:
        free = min(free, max(0, cap - places.count_taking_part(session, study, now)))
    return InvitationPlaces(study.name, free, waiting or 0)


# Of a large study, the figures on Watch are of the participants who were seen last.
#
# A table of participants has pages.

Shown = Collection[int] | Select[int] | Select[int | None]
"""The keys of participants."""

MOST_ANSWERS = 10_000
"""The number of questions whose answers are read and plotted in about a second."""

PER_PAGE = 50
"""Participants on a page of the table."""

MOST_COMPARED = 200_000
"""Questions of which the studio computes the preferences between systems: some seconds."""


def people_shown(session: Session, study: Study) -> Sequence[int] | None:
    """The keys of those seen last, who have about `MOST_ANSWERS` questions; None for everybody.

    With keys, PostgreSQL reads the rows of these people only; with a subquery, it expects many.
    """
    most = people_with(study, MOST_ANSWERS)
    if count_people(session, study) <= most:
        return None
    return session.scalars(
        select(Participant.id)
        .where(Participant.study_id == study.id)
        .order_by(Participant.seen_at.is_(None), Participant.seen_at.desc(), Participant.id.desc())
        .limit(most)
    ).all()


@dataclass(frozen=True, slots=True)
class PeoplePage:
    """A page of the participants who are looked for, from 1: their keys, the newest first."""

    keys: Sequence[int]
    number: int
    n_pages: int
    n_found: int


def people_page(session: Session, study: Study, looked_for: str, number: int) -> PeoplePage:
    """The participants whose name or platform id contains a text; at most the last page."""
    found = select(Participant.id).where(Participant.study_id == study.id)
    if looked_for:
        columns = (Participant.name, Participant.external_id)
        contain = (column.icontains(looked_for, autoescape=True) for column in columns)
        found = found.where(or_(*contain))
    n_found = session.scalar(select(func.count()).select_from(found.subquery())) or 0
    n_pages = max(1, -(-n_found // PER_PAGE))
    number = min(max(number, 1), n_pages)
    newest = found.order_by(Participant.id.desc()).limit(PER_PAGE).offset((number - 1) * PER_PAGE)
    return PeoplePage(session.scalars(newest).all(), number, n_pages, n_found)


def may_compare_systems(session: Session, study: Study) -> bool:
    """Whether a study has few enough answers to compute its preferences at each view."""
    return count_people(session, study) <= people_with(study, MOST_COMPARED)


def people_with(study: Study, n_questions: int) -> int:
    """How many participants have about so many questions."""
    design = config_of(study).design
    return max(1, n_questions // (design.questions_per_form * design.forms_per_participant))


def count_people(session: Session, study: Study) -> int:
    people = select(func.count(Participant.id)).where(Participant.study_id == study.id)
    return session.scalar(people) or 0


def among(
    column: InstrumentedAttribute[int] | InstrumentedAttribute[int | None],
    people: Shown | None,
) -> ColumnElement[bool]:
    """Whether a participant's key is one of `people`; None means everybody."""
    return true() if people is None else column.in_(people)


# The recorded changes of participants' status: by the owner, or by the rule about checks.

LONGEST_REASON = 1000

WITHDREW = "withdrew on the page, and all data were deleted"
"""The recorded reason of a participant who has withdrawn."""


def record_status_change(
    session: Session,
    participant: int,
    before: str,
    after: str,
    now: datetime,
    *,
    reason: str = "",
    rule: dict[str, Any] | None = None,
) -> None:
    """Record a change of a locked participant's status; `rule` is that of `StatusChange`."""
    if len(reason) > LONGEST_REASON or not is_storable_text(reason):
        what = f"the reason must be text of {LONGEST_REASON:,} characters or fewer"
        raise Refused(what)
    session.add(
        StatusChange(
            participant_id=participant,
            changed_at=now,
            before=before,
            after=after,
            reason=reason or None,
            rule=rule,
        )
    )
    session.flush()


def changes_of(session: Session, participant: int) -> Sequence[StatusChange]:
    """A participant's changes, oldest first."""
    return session.scalars(
        select(StatusChange)
        .where(StatusChange.participant_id == participant)
        .order_by(StatusChange.id)
    ).all()


def latest_changes(
    session: Session, study: Study, shown: Shown | None = None
) -> dict[int, StatusChange]:
    """The latest change of each of the participants who have any, by database key.

    Of all participants of the study, or of those whose keys are `shown`.
    """
    rows = session.scalars(
        select(StatusChange)
        .join(Participant, StatusChange.participant_id == Participant.id)
        .where(Participant.study_id == study.id, among(Participant.id, shown))
        .order_by(StatusChange.id)
    )
    return {change.participant_id: change for change in rows}


def withdrawn_participants() -> Select[int]:
    """The database keys of participants whose latest change is that they withdrew."""
    latest = select(func.max(StatusChange.id)).group_by(StatusChange.participant_id)
    return select(StatusChange.participant_id).where(
        StatusChange.reason == WITHDREW, StatusChange.id.in_(latest)
    )


def stopped_by_checks(session: Session, participant: ParticipantRow) -> bool:
    """Whether the rule about checks set the participant's current status."""
    changes = changes_of(session, participant.id)
    if not changes:
        return False
    rule = changes[-1].rule
    return rule is not None and "failed" in rule and changes[-1].after == participant.status


def rule_text(change: StatusChange | None) -> str | None:
    """The counts of the rule about checks, or the owner's rule; None without a rule."""
    if change is None or change.rule is None:
        return None
    if "people" in change.rule:
        is_early = change.rule["declared"]
        when = "fixed before the launch" if is_early else "made after the first answers"
        return f"rule {when}: {change.rule['people']}"
    return f"failed checks: {change.rule['failed']}, limit {change.rule['limit']}"


def cause_of(change: StatusChange | None, status: str) -> str | None:
    """The reason of a participant's status, for the owner; None if nothing is recorded."""
    if change is None or change.after != status:
        return None
    return rule_text(change) or change.reason
