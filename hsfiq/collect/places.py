"""Places in a study: eligibility, quotas, and places without activity."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from pathlib import Path

from sqlalchemy import ColumnElement, Select, delete, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from hsfiq.collect import leases
from hsfiq.collect.studies import lock_study, require_unfinished
from hsfiq.db.engine import Database
from hsfiq.db.tables import AllowedPerson, EnrolmentByAddress, Form, Participant, Question, Study
from hsfiq.db.types import digest_of
from hsfiq.errors import FileErrors, Forbidden, Refused, Unavailable, UnreadableInput
from hsfiq.readers.files import read_text
from hsfiq.signals import repeated
from hsfiq.study.capacity import require_enough_forms
from hsfiq.study.config import StudyConfig, config_of, stored_recruitment
from hsfiq.study.recruiting import PLATFORM_ID, PLATFORMS

# A limit on how many enrol from one address in an hour: a script cannot take all places.
#
# The enrolments are counted in the database, in the transaction that enrols, because several
# processes may serve one study and a restart must not lift the limit. Nothing of them is kept
# longer than the limit needs.

PERIOD = timedelta(hours=1)

FORGETTING_SECONDS = 5.0
"""The interval at which a server deletes enrolments that no longer count."""


class TooManyEnrolments(Refused):
    """The limit of enrolments from an address is reached."""

    status = 429

    def __init__(self, study: Study, seconds: int) -> None:
        """`seconds` is the time to wait."""
        super().__init__(f"study {study.name}: too many enrolments from this address in an hour")
        self.study_id, self.seconds = study.id, seconds


def counts_enrolments(config: StudyConfig, origin: str) -> bool:
    """Whether the study limits enrolments from one address.

    Simulated annotators share an address, so their study has no limit.
    """
    return config.recruitment.enrolments_per_address > 0 and origin != "simulated"


def count_enrolment(session: Session, study: Study, client: str, now: datetime) -> None:
    """Count an enrolment in a locked study; `TooManyEnrolments` if that is more than allowed.

    `client` is a digest of the address.
    """
    config = config_of(study)
    if not counts_enrolments(config, study.origin):
        return
    limit = config.recruitment.enrolments_per_address
    of_client = select(EnrolmentByAddress.enrolled_at).where(
        EnrolmentByAddress.study_id == study.id,
        EnrolmentByAddress.client == client,
        still_counts(now),
    )
    times = session.scalars(of_client.order_by(EnrolmentByAddress.enrolled_at)).all()
    if len(times) >= limit:
        free_again = times[-limit] + PERIOD
        raise TooManyEnrolments(study, max(1, ceil((free_again - now).total_seconds())))
    session.add(EnrolmentByAddress(study_id=study.id, client=client, enrolled_at=now))


def still_counts(now: datetime) -> ColumnElement[bool]:
    """Times in the future, from before a clock was set back, do not count either."""
    return EnrolmentByAddress.enrolled_at.between(now - PERIOD, now + PERIOD)


def forget_old_enrolments(database: Database) -> None:
    """Delete the enrolments that no longer count, if the database allows it."""
    outdated = ~still_counts(datetime.now(UTC))
    # A user who may only read the database cannot delete; the server, or a later command, will.
    with suppress(SQLAlchemyError, Unavailable):
        with database.reading() as session:
            if session.scalar(select(EnrolmentByAddress.id).where(outdated).limit(1)) is None:
                return
        with database.writing() as session:
            session.execute(delete(EnrolmentByAddress).where(outdated))


def regular_forgetting(
    database: Database, seconds: float = FORGETTING_SECONDS
) -> AbstractContextManager[None]:
    """Within the block, delete the enrolments that no longer count soon after their hour."""
    return repeated(partial(forget_old_enrolments, database), seconds, "old enrolments")


# Which people of a recruitment platform may enrol: those on the owner's list, if there is one.


class NotInvited(Forbidden):
    """The platform's id is not on the study's list, or its link is not signed."""


def require_on_list(session: Session, study: Study, person: str) -> None:
    """`NotInvited` if the study has a list of people, and this one is not on it."""
    if count_allowed(session, study) and session.get(AllowedPerson, key_of(study, person)) is None:
        raise NotInvited("this id is not on the study's list")


def count_allowed(session: Session, study: Study) -> int:
    """The number of people on the study's list; an empty list admits everybody."""
    on_list = select(func.count()).where(AllowedPerson.study_id == study.id)
    return session.scalar(on_list) or 0


def allow_people(session: Session, study: Study, people: Collection[str]) -> int:
    """Add people to the list, in a writing transaction; the number who were not on it."""
    locked = lock_study(session, study.id)
    require_platform(locked)
    known = set(
        session.scalars(
            select(AllowedPerson.person_hash).where(AllowedPerson.study_id == locked.id)
        )
    )
    hashes = [digest for digest in dict.fromkeys(map(digest_of, people)) if digest not in known]
    rows = [{"study_id": locked.id, "person_hash": digest} for digest in hashes]
    if rows:
        session.execute(insert(AllowedPerson), rows)
    return len(rows)


def allow_everybody(session: Session, study: Study) -> None:
    """Delete the study's list, in a writing transaction."""
    locked = lock_study(session, study.id)
    require_platform(locked)
    session.execute(delete(AllowedPerson).where(AllowedPerson.study_id == locked.id))


def require_platform(study: Study) -> None:
    require_unfinished(study)
    if config_of(study).recruitment.mode not in PLATFORMS:
        raise Refused(
            f"study {study.name} does not recruit on a platform, so it has no platform ids"
        )


def key_of(study: Study, person: str) -> tuple[int, str]:
    return study.id, digest_of(person)


def read_people(file: Path) -> list[str]:
    """The platform's ids in a file, one on each line.

    Raises:
        FileErrors: some lines are not ids.
        UnreadableInput: there is none.
    """
    lines = [line.strip() for line in read_text(file).splitlines()]
    wrong = [
        f"{file}: line {number}: {line[:80]!r} is not a platform id; write one id on each line"
        for number, line in enumerate(lines, start=1)
        if line and not PLATFORM_ID.fullmatch(line)
    ]
    if wrong:
        raise FileErrors(wrong)
    people = list(dict.fromkeys(line for line in lines if line))
    if not people:
        raise UnreadableInput(str(file), "holds no id", "write one on each line")
    return people


def require_signable(study: Study) -> None:
    """`Refused` unless the study's platform supports individual links."""
    if config_of(study).recruitment.mode != "prolific":
        raise Refused(
            f"study {study.name} does not recruit on Prolific, so it has no signed links; other "
            f"platforms give everybody the same link"
        )


# The places of a study's participants, in all and by category.


@dataclass(frozen=True, slots=True)
class QuotaCount:
    """The participants with a place of a category, and the most allowed."""

    category: str
    taking_part: int
    quota: int

    @property
    def is_reached(self) -> bool:
        return self.taking_part >= self.quota

    def facts(self) -> dict[str, object]:
        return asdict(self)


def taking_part(study: Study, now: datetime) -> Select[int]:
    """The statement that counts the participants who have a place.

    Departed participants, and participants whose lease expired before they answered everything,
    free their place.
    """
    has_lost_a_question = (
        select(Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(Form.participant_id == Participant.id, Question.reassigned, ~leases.IS_ANSWERED)
        .exists()
    )
    return select(func.count(Participant.id)).where(
        Participant.study_id == study.id,
        Participant.enrolled_at.is_not(None),
        Participant.status.not_in(leases.DEPARTED_STATUSES),
        ~(leases.lease_expired(study, now) & (leases.IS_BEFORE_END | has_lost_a_question)),
    )


def count_enrolled(session: Session, study: Study) -> int:
    """The participants with a place who have not departed."""
    enrolled = select(func.count(Participant.id)).where(
        Participant.study_id == study.id,
        Participant.enrolled_at.is_not(None),
        Participant.status.not_in(leases.DEPARTED_STATUSES),
    )
    return session.scalar(enrolled) or 0


def count_taking_part(session: Session, study: Study, now: datetime) -> int:
    return session.scalar(taking_part(study, now)) or 0


def quotas_of(session: Session, study: Study, now: datetime) -> list[QuotaCount]:
    """The study's quotas by category, in the order of its file."""
    quotas = config_of(study).recruitment.quotas
    if not quotas:
        return []
    counts = taking_part(study, now).add_columns(Participant.category)
    rows = session.execute(counts.group_by(Participant.category))
    taken = {category: number for number, category in rows}
    return [QuotaCount(name, taken.get(name, 0), quota) for name, quota in quotas.items()]


def closed_categories(session: Session, study: Study, now: datetime) -> frozenset[str]:
    """The categories whose quota is reached; their forms are no longer assigned."""
    counts = quotas_of(session, study, now)
    return frozenset(count.category for count in counts if count.is_reached)


def set_quotas(session: Session, study: Study, quotas: Mapping[str, int]) -> None:
    """Set quotas of a locked study; `ConfigError` if its forms cannot meet them."""
    config = config_of(study)
    if config.design.categories == "mixed":
        raise Refused("its forms mix categories, so quotas are not possible", where=study.name)
    recruitment = replace(config.recruitment, quotas={**config.recruitment.quotas, **quotas})
    require_enough_forms(session, study, replace(config, recruitment=recruitment))
    study.design = study.design | {"recruitment": stored_recruitment(recruitment)}
    session.flush()


# Places that nobody began: their forms go back as they were drawn, for the next participants.
#
# They go back when the next participant needs a place, and by `hsfiq participant release`. A
# participant who comes back later gets another place, if there is one.

_is_used = (
    select(Question.id)
    .join(Form, Question.form_id == Form.id)
    .where(Form.participant_id == Participant.id, leases.IS_ANSWERED | Question.reassigned)
    .exists()
)
WITH_UNUSED_PLACES = (
    select(Participant)
    .where(Participant.status == "active", Participant.enrolled_at.is_not(None), ~_is_used)
    .order_by(Participant.id)
    .with_for_update(skip_locked=True)
)
"""The active participants with a place and without answers; locked participants are skipped."""


def release_unbegun(
    session: Session, study: Study, now: datetime, minutes: int | None = None
) -> list[str]:
    """Free the places of a locked study that were taken this many minutes ago and never used.

    Returns the names of the participants, who are kept. The default of `minutes` is the study's
    setting.
    """
    if minutes is None:
        minutes = config_of(study).recruitment.unbegun_minutes
        if minutes == 0:
            return []
    unbegun = WITH_UNUSED_PLACES.where(
        Participant.study_id == study.id, leases.never_begun(now, minutes)
    )
    # Participants who are being changed now, such as by the owner, keep their places this time.
    people = session.scalars(unbegun).all()
    give_back(session, people)
    return [person.name for person in people]


def release_place(session: Session, participant: Participant) -> None:
    """Free the place of an active participant of a locked study without activity."""
    give_back(session, session.scalars(WITH_UNUSED_PLACES.where(Participant.id == participant.id)))


def give_back(session: Session, people: Iterable[Participant]) -> None:
    for person in people:
        session.execute(
            update(Form)
            .where(Form.participant_id == person.id)
            .values(participant_id=None, position=None, name=None)
        )
        person.enrolled_at = person.category = None
    session.flush()
