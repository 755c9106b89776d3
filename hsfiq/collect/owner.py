"""The owner's actions: changing the status of a study or a participant, and deleting data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, case, delete, func, or_, select, update
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.answer_rules import contradicts
from hsfiq.audit import record as record_action
from hsfiq.collect import participants
from hsfiq.collect.checks import is_judgement, question_checks
from hsfiq.collect.leases import IS_CHECK, end_lease
from hsfiq.collect.messages import forget_messages
from hsfiq.collect.participant_row import ANSWER_COUNTS, StudyRow
from hsfiq.collect.places import release_unbegun, require_signable, set_quotas
from hsfiq.collect.progress import medians_of
from hsfiq.collect.studies import lock_study, require_unfinished, study_called
from hsfiq.db.engine import Database
from hsfiq.db.search_tables import (
    ImportedSearch,
    PublishedLeaderboard,
    SearchEnding,
    SearchFeedback,
    SearchList,
    SearchTurn,
    SearchUpload,
    StruckText,
)
from hsfiq.db.studio_tables import AnswerNote, ReviewedAnswer
from hsfiq.db.tables import (
    Check,
    CheckAnswer,
    ExportedForm,
    ExportedRelease,
    Form,
    Message,
    MessageRecipient,
    Participant,
    Payment,
    Question,
    QuestionnaireAnswers,
    Response,
    StatusChange,
    Study,
    TextVersion,
    WorkedHit,
)
from hsfiq.db.types import digest_of, new_token
from hsfiq.errors import ConfigError, Conflict, Refused
from hsfiq.images.check import Track
from hsfiq.study import texts
from hsfiq.study.config import StudyConfig, config_of, stored_recruitment
from hsfiq.study.extension import Added, MoreAnnotators, NewQueries, extend_in_parts, extend_study
from hsfiq.study.filters import Limits, described
from hsfiq.study.publication import record_opening, without_answers_of

# Deleting what is recorded of a person in releases.


def exports_with(session: Session, participant: int) -> Sequence[ExportedRelease]:
    """The recorded releases that have answers of a participant, kept or dropped; oldest first."""
    forms = select(Form.id).where(Form.participant_id == participant)
    releases = select(ExportedForm.release_id).where(ExportedForm.form_id.in_(forms))
    return session.scalars(
        select(ExportedRelease).where(ExportedRelease.id.in_(releases)).order_by(ExportedRelease.id)
    ).all()


def forget_exports(session: Session, participant: Participant) -> Sequence[ExportedRelease]:
    """Delete the records of a participant's answers in releases; return these releases."""
    releases = exports_with(session, participant.id)
    forms = select(Form.id).where(Form.participant_id == participant.id)
    session.execute(delete(ExportedForm).where(ExportedForm.form_id.in_(forms)))
    for release in releases:
        release.n_forgotten += 1
    return releases


# Editing a study's texts and codes: prepared from what the owner saw, performed under a lock.


class ForbiddenEdit(Refused):
    """An edit changes fixed keys; `errors` has one entry for each."""

    def __init__(self, errors: list[ConfigError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit that has not been performed yet; `version_seen` is the version that it replaces."""

    study: str
    version_seen: int | None
    wanted: StudyConfig
    changes: tuple[texts.Change, ...]


def prepare_edit(study: Study, wanted: StudyConfig, version_seen: int | None) -> Edit:
    """Compare the wanted config with the stored one.

    Raises:
        ForbiddenEdit: it changes more than texts and codes.
        Refused: the study was imported, or its simulation has ended.
    """
    require_unfinished(study)
    stored = config_of(study)
    errors = texts.forbidden_changes(stored, wanted)
    if errors:
        raise ForbiddenEdit(errors)
    changes = texts.changes_between(texts.texts_of(stored), texts.texts_of(wanted))
    return Edit(study.name, version_seen, wanted, tuple(changes))


def perform_edit(session: Session, edit: Edit, now: datetime) -> TextVersion:
    """Store an edit in a writing transaction, as a new version.

    Raises:
        Conflict: the texts have changed since the owner saw them.
    """
    study = lock_study(session, study_called(session, edit.study).id)
    if study.text_version != edit.version_seen:
        raise Conflict(
            f"the texts of study {study.name} have changed to version {study.text_version}",
            remedy="review the new version, then try again",
        )
    prepare_edit(study, edit.wanted, edit.version_seen)  # the rest may have changed since
    return texts.record_next_version(session, study, edit.wanted, now)


# Deleting the searches of a person who is forgotten.

OF_QUESTIONS = (SearchTurn, SearchEnding, SearchUpload, ImportedSearch)
OF_TURNS = (StruckText, SearchFeedback, SearchList)
SEARCH_TABLES = (*OF_QUESTIONS, *OF_TURNS)


def forget_searches(session: Session, questions: Select[int]) -> None:
    """Delete the turns, endings and pictures of these questions (database keys).

    Call it after their responses are deleted. SQLite then reuses the highest keys of responses, so
    `last_response` of leaderboards is lowered: searches that end later must count as new.
    """
    turns = select(SearchTurn.id).where(SearchTurn.question_id.in_(questions))
    for table in OF_TURNS:
        session.execute(delete(table).where(table.turn_id.in_(turns)))
    for keyed in OF_QUESTIONS:
        session.execute(delete(keyed).where(keyed.question_id.in_(questions)))
    newest = select(func.coalesce(func.max(Response.id), 0)).scalar_subquery()
    later = update(PublishedLeaderboard).where(PublishedLeaderboard.last_response > newest)
    session.execute(later.values(last_response=newest))


PERSONAL_TABLES = (
    *(Participant, Question, Response, QuestionnaireAnswers, CheckAnswer, StatusChange),
    *(Message, MessageRecipient, Study, WorkedHit, *SEARCH_TABLES, ExportedForm, Payment),
    *(AnswerNote, ReviewedAnswer),
)
"""The tables whose rows `forget` deletes or empties."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The number of deleted answers, and the recorded releases with answers of the person."""

    n_answers: int = 0
    releases: Sequence[ExportedRelease] = ()


def forget(session: Session, participant: Participant) -> Deleted:
    """Delete a person's answers and checks, and free the person's questions.

    Searches, notes, messages to this person alone, and the records of releases with the person's
    answers are deleted, too. An imported study's data about earlier dropped answers are also
    deleted.

    An empty row remains so that the pseudonym is never reused. The row still records a withdrawal.
    Payments are kept, too, without the platform's id.
    """
    participants.lock_participant(session, participant)
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
    session.execute(delete(ReviewedAnswer).where(ReviewedAnswer.question_id.in_(own_questions)))
    for table in (QuestionnaireAnswers, WorkedHit, AnswerNote):
        session.execute(delete(table).where(table.participant_id == participant.id))
    payments = update(Payment).where(Payment.participant_id == participant.id)
    session.execute(payments.values(submission_id=None))
    is_withdrawal = func.coalesce(StatusChange.reason, "") == participants.WITHDREW
    changes = delete(StatusChange).where(StatusChange.participant_id == participant.id)
    session.execute(changes.where(~is_withdrawal))
    session.execute(update(Question).where(Question.id.in_(own_questions)).values(served_at=None))
    forget_messages(session, participant)
    study = participant.study
    study.design = without_answers_of(study.design, participant.name)
    releases = forget_exports(session, participant)
    participant.status = "returned"
    participant.external_id = participant.language = None
    participant.platform_study_id = participant.platform_session_id = None
    participant.token_hash = digest_of(new_token())
    participant.consented_at = participant.practised_at = None
    participant.created_at = participant.enrolled_at = participant.seen_at = None
    for name in (*ANSWER_COUNTS, "n_revisions"):
        setattr(participant, name, 0)
    session.flush()
    return Deleted(n_answers or 0, releases)


# The actions, and the statuses that they change.
#
# The studio and the command line both `prepare` an action, which records the status that the
# owner saw, and perform it in a later transaction, which locks the row and refuses if the status
# has changed since.

STUDY_ACTIONS = {"open": "open", "pause": "paused", "close": "closed"}
"""The study's status after each action."""

PARTICIPANT_ACTIONS = {
    "pause": "paused",
    "resume": "active",
    "exclude": "excluded",
    "return": "returned",
    "screen-out": "screened-out",
    "forget": "returned",
    "reassign": None,
}
"""The participant's status after each action; None does not change the status."""


@dataclass(frozen=True, slots=True)
class OwnerAction:
    """An action on a study, or on one of its participants, that has not been performed yet.

    `participant` is None for an action on the study itself; `name` is a key of `STUDY_ACTIONS` or
    `PARTICIPANT_ACTIONS`; `status_seen` is the status when the action was prepared. `reason` and
    `rule` are kept with the change of a participant's status.
    """

    study: str
    participant: str | None
    name: str
    status_seen: str
    reason: str = ""
    rule: dict[str, Any] | None = None

    @property
    def status_after(self) -> str | None:
        return (STUDY_ACTIONS if self.participant is None else PARTICIPANT_ACTIONS)[self.name]

    @property
    def target(self) -> str:
        return self.participant or f"study {self.study}"

    @property
    def audit_name(self) -> Action:
        return Action(f"{'study' if self.participant is None else 'participant'}.{self.name}")


def prepare(
    study: Study, action: str, participant: Participant | None = None, reason: str = ""
) -> OwnerAction:
    """Describe an action with the current status; `Refused` if the study does not allow it."""
    row = participant or study
    prepared = OwnerAction(
        study.name, participant.name if participant else None, action, row.status, reason
    )
    require_allowed(study, prepared)
    return prepared


def perform(session: Session, action: OwnerAction, actor: Actor) -> Deleted:
    """Perform and record an action in a writing transaction; return the deletions.

    Raises:
        Conflict: the status is no longer the one that the owner saw.
        Refused: the study or the participant does not exist, or the study accepts no more answers.
    """
    study = study_called(session, action.study)
    require_allowed(study, action)
    if action.participant is None:
        lock_as_seen(session, study, action)
        if study.status == "draft" and action.name == "open":
            record_opening(study, datetime.now(UTC))
        study.status = STUDY_ACTIONS[action.name]
        deleted = Deleted()
    else:
        deleted = perform_on_participant(session, study, action.participant, action)
    record_action(
        session, actor, action.audit_name, study=study.name, about=action.participant or ""
    )
    return deleted


def perform_on_participant(
    session: Session, study: Study, name: str, action: OwnerAction
) -> Deleted:
    if action.name == "forget":
        lock_study(session, study.id)  # a release of it may be about to be recorded
    participant = participants.by_name(session, study, name)
    lock_as_seen(session, participant, action)
    if action.name == "forget":
        return forget(session, participant)
    if action.status_after is None:
        end_lease(participant)
    else:
        change = participant.id, participant.status, action.status_after
        why: dict[str, Any] = {"reason": action.reason, "rule": action.rule}
        participants.record_status_change(session, *change, datetime.now(UTC), **why)
        participant.status = action.status_after
    return Deleted()


def extend(
    session: Session, study: Study, wanted: MoreAnnotators | NewQueries, now: datetime
) -> Added:
    """Add forms to a study in a writing transaction; its lock also puts enrolments in order.

    Raises:
        Refused: the study accepts no more answers, or there is nothing to add.
    """
    locked = lock_study(session, study.id)
    require_unfinished(locked)
    return extend_study(session, locked, wanted, now)


def extend_while_running(
    database: Database,
    actor: Actor,
    study_of: Callable[[Session], Study],
    wanted: MoreAnnotators | NewQueries,
    now: datetime,
    track: Track = iter,
) -> Added:
    """Add forms to a study as `extend` does, in short transactions; `study_of` finds the study.

    The images of new pairs are checked; `track` iterates over them, for a progress bar.
    """

    def unfinished(session: Session) -> Study:
        study = study_of(session)
        require_unfinished(study)
        return study

    def lock(session: Session) -> Study:
        return lock_study(session, unfinished(session).id)

    return extend_in_parts(
        database, actor, wanted, now, study_of=unfinished, lock=lock, track=track
    )


def change_quotas(session: Session, study: Study, quotas: Mapping[str, int]) -> None:
    """Set quotas in a writing transaction; the lock puts enrolments in order.

    Raises:
        ConfigError: the study has no such category, or too few forms of it.
    """
    locked = lock_study(session, study.id)
    require_unfinished(locked)
    set_quotas(session, locked, quotas)


def change_enrolment(session: Session, study: Study, changes: Mapping[str, Any]) -> None:
    """Change rules of `[recruitment]` for who may begin; the lock puts enrolments in order."""
    locked = lock_study(session, study.id)
    require_unfinished(locked)
    recruitment = replace(config_of(locked).recruitment, **changes)
    if recruitment.signed_links and "signed_links" in changes:
        require_signable(locked)
    locked.design = locked.design | {"recruitment": stored_recruitment(recruitment)}
    session.flush()


def release_places(
    session: Session, study: Study, now: datetime, minutes: int | None = None
) -> list[str]:
    """Free places without activity; see `release_unbegun`."""
    locked = lock_study(session, study.id)
    require_unfinished(locked)
    return release_unbegun(session, locked, now, minutes)


def require_allowed(study: Study, action: OwnerAction) -> None:
    if action.participant is None or action.name == "reassign":
        require_unfinished(study)


def lock_as_seen(session: Session, row: Study | Participant, action: OwnerAction) -> None:
    """Lock the row that an action changes; raise `Conflict` unless its status is the one seen."""
    session.refresh(row, ["status"], with_for_update=True)
    if row.status != action.status_seen:
        raise Conflict(
            f"{action.target} is now {row.status}, no longer {action.status_seen}",
            remedy="try again",
        )


def bring_back(session: Session, person: Participant, status: str, actor: Actor) -> None:
    """Give a participant a status that they had before."""
    back = {status: name for name, status in PARTICIPANT_ACTIONS.items() if name != "forget"}
    perform(session, prepare(person.study, back[status], person), actor)


# Rules for leaving people out: whom one would leave out, and applying it.

FEWEST_ANSWERS = 5
"""The fewest answers for a meaningful percentage."""


class LeftOut(NamedTuple):
    """A participant excluded by a rule; `beyond` has the values beyond the rule's limits."""

    person: Participant
    n_answers: int
    beyond: dict[str, float]


def left_out_by(session: Session, study: Study, limits: Limits) -> list[LeftOut]:
    """The participants with counted answers whom a rule would exclude."""
    checks = question_checks(session, StudyRow.of(study))
    failed = Counter(check.participant_id for check in checks if not check.passed)
    medians = medians_of(session, study)
    found = []
    for person, n_answers, n_first, n_second, n_doubtful in session.execute(counted(study)):
        values: dict[str, float] = {"checks": failed[person.id]}
        if person.id in medians:
            values["seconds"] = medians[person.id]
        if n_answers >= FEWEST_ANSWERS:
            values["side"] = 100 * max(n_first, n_second) / n_answers
            values["doubtful"] = 100 * n_doubtful / n_answers
        beyond = {
            name: values[name]
            for name, limit in limits.items()
            if name in values
            and (values[name] < limit if name == "seconds" else values[name] > limit)
        }
        if beyond:
            found.append(LeftOut(person, n_answers, beyond))
    return found


def counted(study: Study) -> Select[*tuple[Any, ...]]:
    """The participants whose answers count, each with their number of answers.

    Then how many of these prefer the first set shown and the second, and how many are flagged or
    contradict themselves.
    """
    prefers: Any = Response.preferred
    is_contradiction = contradicts(prefers, Response.score_1, Response.score_2)
    conditions = (prefers == 1, prefers == 2, or_(Response.irrelevant.is_(True), is_contradiction))
    own = (
        select(
            *(Form.participant_id, func.count().label("answers")),
            *(func.sum(case((condition, 1), else_=0)) for condition in conditions),
        )
        .join(Question, Question.form_id == Form.id)
        .join(Response, Response.question_id == Question.id)
        .where(Form.study_id == study.id, Question.reassigned.is_(False), ~IS_CHECK)
        .where(is_judgement(Response))
        .group_by(Form.participant_id)
        .subquery()
    )
    people = select(Participant, *list(own.c)[1:]).join(own, own.c.participant_id == Participant.id)
    return people.where(Participant.status != "excluded").order_by(Participant.id)


def apply_rule(
    session: Session, study: Study, limits: Limits, people: Sequence[LeftOut], actor: Actor
) -> list[str]:
    """Exclude the people selected by a rule, if their status has not changed.

    The rule may be that of the study's file. Returns their names.
    """
    declared = {"checks": config_of(study).recruitment.max_failed_checks}
    rule = {"people": described(limits), "declared": dict(limits) == declared}
    names = []
    for each in people:
        person = session.get(Participant, each.person.id)
        if person is not None and person.status == each.person.status:
            perform(session, replace(prepare(study, "exclude", person), rule=rule), actor)
            names.append(person.name)
    return names


def applied_rules(session: Session, study: Study) -> dict[str, dict[Participant, str]]:
    """For each applied rule in words: the people it excludes now, and their previous status."""
    found: dict[str, dict[Participant, str]] = {}
    by_rules = select(StatusChange.participant_id).where(StatusChange.rule.is_not(None))
    for key, change in participants.latest_changes(session, study, by_rules).items():
        if change.after == "excluded" and (rule := (change.rule or {}).get("people")):
            found.setdefault(rule, {})[session.get_one(Participant, key)] = change.before
    return found


def undo_rule(session: Session, study: Study, rule: str, actor: Actor) -> list[str]:
    """Include the people excluded by a rule again, and return their names."""
    people = applied_rules(session, study).get(rule, {})
    for person, before in people.items():
        bring_back(session, person, before, actor)
    return [person.name for person in people]
