"""A study's counterpart on Prolific: its draft, its publication, and the submissions to it.

The commands and the studio call these functions; `hsfiq.prolific_payments` has the payments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from logging import getLogger
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from hsfiq import prolific_api
from hsfiq.actors import Action, Actor
from hsfiq.atomic_files import locked
from hsfiq.audit import record
from hsfiq.collect.owner import perform, prepare
from hsfiq.collect.participants import by_name, lock_participant
from hsfiq.collect.progress import participants_of
from hsfiq.collect.studies import bind_platform_study, list_studies, lock_study, study_called
from hsfiq.db.engine import Database
from hsfiq.db.failures import unavailable
from hsfiq.db.sqlite import file_of
from hsfiq.db.tables import Participant, Study
from hsfiq.errors import Busy, Conflict, HsfiqError, Refused
from hsfiq.signals import repeated
from hsfiq.study.capacity import budget_of
from hsfiq.study.config import config_of
from hsfiq.study.recruiting import PROLIFIC, Outcome, completion_code, panel_link

logger = getLogger(__name__)

SYNC_SECONDS = 30.0
"""The interval at which a server reads the submissions to its open studies."""

SERVER_TIMEOUT = 10.0
"""Seconds that a server waits for an answer. It sends nothing twice: it soon asks again."""

LEFT = {"RETURNED": "returned on Prolific", "TIMED OUT": "timed out on Prolific"}
"""The statuses of submissions that end without the study's end, each with the recorded reason."""

NEVER_CAME = {"RESERVED", *LEFT}
"""The statuses of people who may not have opened the study's link."""

ALONE = 0x687366
"""The number of the lock in PostgreSQL."""


def money(cents: float, currency: str) -> str:
    """An amount in hundredths in the usual notation, such as `4.50 GBP`."""
    return f"{Decimal(round(cents)) / 100:,.2f} {currency}".strip()


def bound_id(study: Study) -> str:
    """The id on Prolific of the study that this one is bound to; `Refused` if it is not bound."""
    if study.platform_study_id is None or config_of(study).recruitment.mode != "prolific":
        remedy = "create one with hsfiq prolific draft, or bind one with hsfiq study bind"
        raise Refused(
            "is not bound to a study on Prolific", where=f"study {study.name}", remedy=remedy
        )
    return study.platform_study_id


@dataclass(frozen=True, slots=True)
class Counterpart:
    """A study by its name, a client of Prolific's API, and the actor.

    With `only`, only these participants are paid, and only if the owner has decided on them.
    """

    database: Database
    client: prolific_api.Prolific
    name: str
    actor: Actor
    only: Sequence[str] | None = None

    def bound_id(self) -> str:
        with self.database.reading() as session:
            return bound_id(study_called(session, self.name))

    def record(self, action: Action) -> None:
        with self.database.writing() as session:
            record(session, self.actor, action, study=self.name)


@contextmanager
def alone(database: Database) -> Iterator[None]:
    """Within the block, no other process is in a block of this database; `Busy` if one is.

    The lock ends with the process at the latest.
    """
    engine, busy = (
        database.engine,
        Busy("another process is drafting or paying on Prolific; wait until it has finished"),
    )
    if engine.dialect.name == "sqlite":
        file = file_of(engine.url)
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(file.resolve().parent) if file else nullcontext())
            except BlockingIOError as error:
                raise busy from error
            yield
        return
    # No transaction is open meanwhile: the database would end one that waits for long.
    with unavailable(), engine.execution_options(isolation_level="AUTOCOMMIT").connect() as held:
        if not held.scalar(select(func.pg_try_advisory_lock(ALONE))):
            raise busy
        try:
            yield
        finally:
            held.scalar(select(func.pg_advisory_unlock(ALONE)))


# Drafts.

REVIEW = {"action": "MANUALLY_REVIEW"}
RETURN = {"action": "REQUEST_RETURN", "return_reason": "You did not take part in this study."}

CODES: Mapping[Outcome, tuple[str, dict[str, str]]] = {
    "done": ("COMPLETED", REVIEW),
    "failed-checks": ("FAILED_ATTENTION_CHECK", REVIEW),
    "full": ("OTHER", RETURN),
    "declined": ("NO_CONSENT", RETURN),
}
"""The type of each outcome's completion code, and what Prolific does with its submissions."""


def draft_of(
    session: Session, study: Study, root: str, pay_per_hour: Decimal, description: str
) -> dict[str, Any]:
    """The study as it would be drafted; `root` is the address at which people reach the server.

    The reward is for the minutes that participants are told, rounded up to a cent.

    Raises:
        Refused: the study does not recruit on Prolific, or takes nobody by links from there.
    """
    config = config_of(study)
    recruitment, where = config.recruitment, f"study {study.name}"
    if recruitment.mode != "prolific" or study.origin != "collected":
        raise Refused("does not recruit on Prolific", where=where)
    if not recruitment.completion_code:
        remedy = "set recruitment.completion_code with hsfiq study edit"
        raise Refused("has no completion code", where=where, remedy=remedy)
    if recruitment.signed_links:
        remedy = f"hsfiq study enrolment {study.name} --any-links"
        what = "accepts only signed links, which Prolific cannot create"
        raise Refused(what, where=where, remedy=remedy)
    budget = budget_of(session, study, config, None)
    minutes = budget.duration.minutes
    usual = f"{config.study.title}\n\n{budget.questions} questions, about {minutes} minutes."
    codes: dict[str, dict[str, Any]] = {}
    for outcome, (kind, action) in CODES.items():
        if code := completion_code(recruitment, outcome):
            of_code = {"code": code, "code_type": kind, "actor": "participant", "actions": [action]}
            codes.setdefault(code, of_code)
    return {
        "name": config.study.title,
        "internal_name": f"hsfiq: {study.name}",
        "description": description or usual,
        "external_study_url": panel_link(PROLIFIC, root, study.name),
        "prolific_id_option": "url_parameters",
        "completion_codes": list(codes.values()),
        "total_available_places": budget.participants,
        "estimated_completion_time": minutes,
        "reward": int((pay_per_hour * minutes * 100 / 60).quantize(Decimal(1), ROUND_UP)),
        "device_compatibility": [],  # any device
        "filters": [],  # anybody
    }


def drafted(at: Counterpart) -> prolific_api.StudyReply | None:
    """The study on Prolific that a study is bound to, None if it is bound to none."""
    with at.database.reading() as session:
        bound = study_called(session, at.name).platform_study_id
    return None if bound is None else at.client.study(bound)


def make_draft(at: Counterpart, draft: Mapping[str, Any]) -> prolific_api.StudyReply:
    """Create a draft and bind the study to it.

    A draft whose creation was not answered, or that was not bound since then, is taken instead.
    """
    with alone(at.database):
        if (made := drafted(at)) is not None:
            return made
        same = ("internal_name", "external_study_url")
        for each in at.client.drafts():
            if all(getattr(each, key) == draft[key] for key in same):
                made = each
        made = made or at.client.create_study(draft)
        with at.database.writing() as session:
            study = lock_study(session, study_called(session, at.name).id)
            bind_platform_study(session, study, made.id)
            record(session, at.actor, Action.PROLIFIC_DRAFT, study=at.name)
        return made


# Publishing and pausing.

PUBLISHED = ("ACTIVE", "PUBLISHING", "SCHEDULED")


def cost_of(reply: prolific_api.StudyReply) -> tuple[str, str]:
    """The cost of all places of a study, and its composition in words."""
    if (places := reply.total_available_places) is None:
        raise prolific_api.ProlificError("answered with a study that has no places")
    parts = f"{places:,} places of {money(reply.reward, reply.currency)}"
    if reply.total_cost is not None:
        return money(reply.total_cost, reply.currency), f"{parts}, with Prolific's fees"
    return money(reply.reward * places, reply.currency), f"{parts}, without Prolific's fees"


def publish(at: Counterpart, confirm: Callable[[prolific_api.StudyReply], bool]) -> bool:
    """Publish a draft, or start a paused study again; return whether that was done.

    Nothing is done if the study is already active, or if `confirm` rejects the cost.
    """
    with at.database.reading() as session:
        status = study_called(session, at.name).status
    if status != "open":
        what, remedy = f"is {status}: participants could not begin", f"hsfiq study open {at.name}"
        raise Refused(what, where=f"study {at.name}", remedy=remedy)
    changes: dict[str, prolific_api.StudyAction] = {"UNPUBLISHED": "PUBLISH", "PAUSED": "START"}
    is_changed = change_status(at, changes, PUBLISHED, confirm)
    if is_changed:
        at.record(Action.PROLIFIC_PUBLISH)
    return is_changed


def pause(at: Counterpart) -> bool:
    """Let no further people begin; return False if the study is paused already."""
    changes: dict[str, prolific_api.StudyAction] = dict.fromkeys(PUBLISHED, "PAUSE")
    is_changed = change_status(at, changes, ("PAUSED",), lambda _: True)
    if is_changed:
        at.record(Action.PROLIFIC_PAUSE)
    return is_changed


def change_status(
    at: Counterpart,
    changes: Mapping[str, prolific_api.StudyAction],
    wanted: Sequence[str],
    confirm: Callable[[prolific_api.StudyReply], bool],
) -> bool:
    """Send the change from the study's status to one of those wanted, unless it has one."""
    platform_id = at.bound_id()
    reply = at.client.study(platform_id)
    if reply.status not in wanted and reply.status not in changes:
        what = f"has study {platform_id} as {reply.status}"
        raise prolific_api.ProlificError(f"{what}, which cannot become {wanted[0]}")
    if reply.status in wanted or not confirm(reply):
        return False
    try:
        at.client.transition_study(platform_id, changes[reply.status])
    except prolific_api.Unanswered:
        if at.client.study(platform_id).status not in wanted:
            raise
    return True


# Submissions and the participants that they belong to.


@dataclass(frozen=True, slots=True)
class Synced:
    """The result of a comparison.

    `by_status` counts the submissions. `unknown_here` are the platform's ids of people who work on
    a submission, or have ended one, and who never enrolled; `unknown_there` the participants from
    Prolific without a submission. `given_back` have lost their place by the comparison.
    """

    study: str
    by_status: Mapping[str, int]
    unknown_here: Sequence[str]
    unknown_there: Sequence[str]
    given_back: Sequence[str]


def latest(submissions: Sequence[prolific_api.Submission]) -> dict[str, prolific_api.Submission]:
    """Each person's last submission, by the platform's id of the person."""

    def begun(each: prolific_api.Submission) -> float:
        return each.started_at.timestamp() if each.started_at else 0.0

    return {each.participant_id: each for each in sorted(submissions, key=begun)}


def people_of(session: Session, study: Study) -> dict[str, Participant]:
    """The participants who came from Prolific, by the platform's id, in order of enrolment."""
    people = (
        select(Participant)
        .where(Participant.study_id == study.id, Participant.source == "prolific")
        .order_by(Participant.id)
    )
    return {each.external_id: each for each in session.scalars(people) if each.external_id}


def sync(at: Counterpart) -> Synced:
    """Read the submissions, and give back the places of those who returned theirs or timed out.

    Participants who have answered all their questions keep their place and their answers.
    """
    submissions = at.client.submissions(at.bound_id())
    last = latest(submissions)
    with at.database.reading() as session:
        people = people_of(session, study_called(session, at.name))
    return Synced(
        study=at.name,
        by_status=dict(sorted(Counter(each.status for each in submissions).items())),
        unknown_here=[
            key
            for key, each in sorted(last.items())
            if key not in people and each.status not in NEVER_CAME
        ],
        unknown_there=[person.name for key, person in people.items() if key not in last],
        given_back=[
            person.name
            for key, person in people.items()
            if key in last
            and last[key].status in LEFT
            and person.status in ("active", "paused")
            and give_back(at, person.name, LEFT[last[key].status])
        ],
    )


def give_back(at: Counterpart, name: str, reason: str) -> bool:
    """Record that a participant gave up, which frees their place, unless they have finished."""
    with suppress(Conflict), at.database.writing() as session:
        row = study_called(session, at.name)
        person = by_name(session, row, name)
        lock_participant(session, person)
        (progress,) = participants_of(session, row, [person.id])
        is_finished = 0 < progress.questions <= progress.answered
        if person.status in ("active", "paused") and not is_finished:
            perform(session, prepare(row, "return", person, reason), at.actor)
            return True
    return False


# The same while a server runs.

SERVER = Actor("server: Prolific")


class RegularSync:
    """Compares the open studies that are bound; a problem is logged once until it has ended."""

    def __init__(self, database: Database, access: prolific_api.Access) -> None:
        self._database, self._access = database, access
        self._failing: set[str] = set()

    def __call__(self) -> None:
        with suppress(SQLAlchemyError, HsfiqError):
            with self._database.reading() as session:
                bound = [each for each in list_studies(session) if each.platform_study_id]
            names = [each.name for each in bound if each.status == "open"]
            if names:
                with prolific_api.Prolific(
                    self._access, attempts=1, timeout=SERVER_TIMEOUT
                ) as client:
                    for name in names:
                        self._compare(client, name)

    def _compare(self, client: prolific_api.Prolific, name: str) -> None:
        try:
            synced = sync(Counterpart(self._database, client, name, SERVER))
        except (HsfiqError, SQLAlchemyError) as error:
            if name not in self._failing:
                logger.warning("study %s: its submissions were not read: %s", name, error)
            self._failing.add(name)
            return
        if name in self._failing:
            self._failing.remove(name)
            logger.warning("study %s: its submissions on Prolific are read again", name)
        if synced.given_back:
            people = ", ".join(synced.given_back)
            logger.warning("study %s: %s left on Prolific; their places are free", name, people)


def regular_sync(
    database: Database, access: prolific_api.Access, seconds: float = SYNC_SECONDS
) -> AbstractContextManager[None]:
    """Within the block, give back places every few seconds."""
    return repeated(RegularSync(database, access), seconds, "prolific")
