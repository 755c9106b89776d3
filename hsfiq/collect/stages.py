"""The stage of a participant between consent and thanks, derived only from the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect import participants
from hsfiq.collect.asked_questions import Step, Steps, mark_served, steps_of
from hsfiq.collect.checks import question_checks
from hsfiq.collect.leases import DEPARTED_STATUSES, extend_lease
from hsfiq.collect.participant_row import ParticipantRow, StudyRow, read_row
from hsfiq.collect.participants import changes_of, stopped_by_checks
from hsfiq.collect.places import release_place
from hsfiq.collect.protocol import Completion, FarewellKind, HitForm
from hsfiq.collect.studies import lock_study
from hsfiq.db.tables import Participant, QuestionnaireAnswers, Study, WorkedHit
from hsfiq.errors import Conflict, Forbidden, Refused
from hsfiq.kinds import KINDS
from hsfiq.study import recruiting
from hsfiq.study.config import StudyConfig
from hsfiq.study.instrument import read_answers

# What a participant's page sends to Mechanical Turk at the end.


def hit_form(
    session: Session, participant: ParticipantRow, outcome: recruiting.Outcome, code: str
) -> HitForm | None:
    """The form of the participant's HIT; None without a HIT.

    `outcome` is always among its fields, because an assignment without any answer may be refused.
    """
    if participant.source != "mturk":
        return None
    hit = session.scalars(
        select(WorkedHit).where(WorkedHit.participant_id == participant.id)
    ).one_or_none()
    if hit is None:
        return None
    fields = {"assignmentId": hit.assignment_id, "outcome": outcome}
    if code:
        fields["completionCode"] = code
    return {"action": f"{hit.submit_to}{recruiting.SUBMIT_PATH}", "fields": fields}


# The questions at the end: who still has to answer them, and storing the answers once.


def asks_at_end(study: StudyRow) -> bool:
    """Whether participants must answer questions at the end; false in a closed study."""
    return study.status != "closed" and bool(study.config.questionnaire.at_end)


def questionnaire_is_due(session: Session, participant: ParticipantRow) -> bool:
    """Whether this participant must still answer the study's questions at the end."""
    return asks_at_end(participant.study) and answers_at_end(session, participant.id) is None


def have_answered_at_end(session: Session, study: Study) -> set[int]:
    """The participants who have answered the questions at the end, by database key."""
    rows = (
        select(Participant.id)
        .join(QuestionnaireAnswers, QuestionnaireAnswers.participant_id == Participant.id)
        .where(Participant.study_id == study.id)
    )
    return set(session.scalars(rows))


def answers_at_end(session: Session, participant: int) -> dict[str, Any] | None:
    """The answers by the question's name; None before they are given."""
    return session.scalars(
        select(QuestionnaireAnswers.answers).where(
            QuestionnaireAnswers.participant_id == participant
        )
    ).one_or_none()


def store_answers(
    session: Session, participant: ParticipantRow, given: Mapping[str, Any], now: datetime
) -> None:
    """Store the answers; `Refused` if one is not valid or a required one is missing."""
    questions = participant.study.config.questionnaire.at_end
    session.add(
        QuestionnaireAnswers(
            participant_id=participant.id,
            submitted_at=now,
            answers=read_answers(questions, given),
        )
    )
    session.flush()


def answers_by_participant(session: Session, study: Study) -> dict[str, dict[str, Any]]:
    """The answers of all participants of a study, by the participant's name."""
    rows = session.execute(
        select(Participant.name, QuestionnaireAnswers.answers)
        .join(Participant, QuestionnaireAnswers.participant_id == Participant.id)
        .where(Participant.study_id == study.id)
    )
    return dict(row for row in rows)


Stage = Literal["consent", "practice", "asking", "questionnaire", "done"] | FarewellKind
"""`asking` is a question or a check; a farewell explains why there is nothing to answer."""

STAGES_TO_CONTINUE: tuple[Stage, ...] = ("consent", "practice", "asking", "questionnaire")
"""The stages at which the page asks something."""

UNFINISHED_STAGES: tuple[Stage, ...] = (*STAGES_TO_CONTINUE, "paused", "checks-paused")
"""The stages of participants who may still answer."""

STAGES_WITH_QUESTIONS: tuple[Stage, ...] = ("asking", "questionnaire", "done")
"""The stages from which a participant may go back to a question."""


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a participant's page: a stage and, at the stage `asking`, the step."""

    stage: Stage
    progress: Steps
    step: Step | None = None

    def question_step(self, number: int) -> Step | None:
        steps = self.progress.steps
        return next((s for s in steps if s.number == number and s.check_id is None), None)


def current_position(session: Session, participant: ParticipantRow, now: datetime) -> Position:
    """The first step that is not done; a question is recorded as served, and the row stored."""
    position = current_of(session, participant, steps_of(session, participant.id), now)
    participant.store(session)
    return position


def current_of(
    session: Session, participant: ParticipantRow, progress: Steps, now: datetime
) -> Position:
    """The same for the participant's steps; the caller stores the row."""
    stage = stage_of(session, participant, progress)
    step = progress.current if stage == "asking" else None
    return served(session, participant, Position(stage, progress, step), now)


def position_at(
    session: Session, participant: ParticipantRow, number: int, now: datetime
) -> Position:
    """The question with this number, or the stage before or instead of all questions.

    `Forbidden` if there is no such question, or it comes after the current step.
    """
    progress = steps_of(session, participant.id)
    position = Position(stage_of(session, participant, progress), progress)
    if position.stage not in STAGES_WITH_QUESTIONS or not may_answer(participant):
        return position
    step = position.question_step(number)
    if step is None or not (step.done or step == progress.current):
        raise Forbidden(f"question {number} cannot be shown now")
    position = served(session, participant, Position(position.stage, progress, step), now)
    participant.store(session)
    return position


def position_after(
    session: Session, participant: ParticipantRow, progress: Steps, number: int, now: datetime
) -> Position:
    """The question after this number if it has been answered already, else the current step.

    `progress` has the participant's steps after the answer. The caller stores the row.
    """
    current = current_of(session, participant, progress, now)
    if current.step is None:
        return current
    following = current.question_step(number + 1)
    if following is None or not following.done:
        return current
    return served(session, participant, Position(current.stage, progress, following), now)


def served(
    session: Session, participant: ParticipantRow, position: Position, now: datetime
) -> Position:
    if position.step and position.step.check_id is None:
        mark_served(session, position.step.question_id, now)
        extend_lease(participant, now)
    return position


def stage_of(session: Session, participant: ParticipantRow, progress: Steps) -> Stage:
    if participant.status in DEPARTED_STATUSES:
        return departed_stage(session, participant)
    if progress.current is None:
        return final_stage(session, participant) if progress.total else "reassigned"
    if not may_answer(participant):
        return waiting_stage(session, participant)
    if participant.consented_at is None:
        return "consent"
    if participant.practised_at is not None or progress.answered:
        return "asking"
    return "practice" if has_practice(participant.study) else "asking"


def has_practice(study: StudyRow) -> bool:
    """Searches have no practice question: retrievers answer only in a served study."""
    return not KINDS[study.kind].is_live


def final_stage(session: Session, participant: ParticipantRow) -> Stage:
    """The stage of a participant who has answered every question."""
    if not questionnaire_is_due(session, participant):
        return "done"
    return "questionnaire" if may_answer(participant) else waiting_stage(session, participant)


def departed_stage(session: Session, participant: ParticipantRow) -> Stage:
    if has_declined(session, participant):
        return "declined"
    if participant.status != "excluded":
        return "ended"
    return "checks-excluded" if stopped_by_checks(session, participant) else "excluded"


def has_declined(session: Session, participant: ParticipantRow) -> bool:
    """Whether the participant, not the owner, ended the participation."""
    is_out = participant.status == "screened-out" and participant.consented_at is None
    return is_out and not changes_of(session, participant.id)


def may_reconsider(session: Session, participant: ParticipantRow, now: datetime) -> bool:
    """Whether a participant who declined could take part now."""
    if participant.study.status != "open":
        return False
    return participants.has_free_place(session, session.get_one(Study, participant.study.id), now)


def reconsider(session: Session, participant: ParticipantRow, now: datetime) -> None:
    """Let a participant who declined decide again; `NotOpen` if no place is free."""
    study = lock_study(session, participant.study.id)
    person = session.get_one(Participant, participant.id, with_for_update=True)
    if not has_declined(session, read_row(session, participant.token_hash)):
        return
    participants.set_status(person, "active")
    participants.with_place(session, study, person, now)


def waiting_stage(session: Session, participant: ParticipantRow) -> Stage:
    """The stage of a participant who cannot answer now, but may later."""
    if participant.study.status == "closed":
        return "closed"
    return "checks-paused" if stopped_by_checks(session, participant) else "paused"


def may_answer(participant: ParticipantRow) -> bool:
    """Whether the participant's answers and revisions are accepted now."""
    return participant.study.status == "open" and participant.status == "active"


def decide(session: Session, participant: ParticipantRow, *, agrees: bool, now: datetime) -> None:
    """Store the first decision on the consent page; a refusal after consent is a `Conflict`.

    A participant who declines gives the place back, and may `reconsider`. A participant who agrees
    after the place was freed gets another place, if available.
    """
    lock_study(session, participant.study.id)  # as enrolments, which give places back
    # The row lock puts decisions in two windows in order.
    person = session.get_one(Participant, participant.id, with_for_update=True)
    if person.status != "active":
        return
    if agrees:
        participants.come_back(session, person, now)
        participants.consent(person, now=now)
    elif person.consented_at is None:
        release_place(session, person)
        participants.set_status(person, "screened-out")
    else:
        raise Conflict("you have already agreed, in another window")


def completion_of(
    session: Session, participant: ParticipantRow, stage: Stage, answered: int
) -> Completion:
    """The completion code and address of the outcome, at the stages at which they are due.

    The code is also due to participants whose questions were reassigned or who were excluded after
    answering: platforms require the code, and the work was done. Participants paused by the rule
    about checks get only a code of that outcome. On Mechanical Turk, a form sends the HIT instead.
    """
    recruitment = participant.study.config.recruitment
    is_out = participant.status == "screened-out"
    is_due = (
        stage in ("done", "closed")
        or (stage == "reassigned" and answered > 0)
        or (stage == "checks-paused" and any(recruiting.own_end(recruitment, "failed-checks")))
        or (
            stage in ("ended", "excluded", "checks-excluded")
            and answered > 0
            and participant.status != "returned"
        )
        or (is_out and any(recruiting.own_end(recruitment, "declined")))
    )
    works_on_hit = participant.source == "mturk" and stage not in UNFINISHED_STAGES
    if not is_due:
        return {"hit": None} if works_on_hit else {}
    outcome: recruiting.Outcome = (
        "declined" if is_out and any(recruiting.own_end(recruitment, "declined")) else "done"
    )
    if outcome == "done" and recruitment.max_failed_checks >= 0:
        checks = question_checks(session, participant.study, Participant.id == participant.id)
        if recruiting.has_failed(recruitment, sum(not check.passed for check in checks)):
            outcome = "failed-checks"
    code = recruiting.completion_code(recruitment, outcome)
    if form := hit_form(session, participant, outcome, code):
        return {"hit": form}
    return {
        "code": code,
        "url": recruiting.completion_url(recruitment, outcome, participant.platform_ids()),
    }


def asks_reason(config: StudyConfig, form_position: int | None, place: int) -> bool:
    """Whether the study asks for a reason at this place of a participant's form.

    Questions are counted as drawn, so the reassignment of earlier questions has no effect.
    """
    every = config.design.reason_every
    if every == 0 or form_position is None:
        return False
    size = config.design.questions_per_form + config.checks.gold + config.checks.repeated
    return ((form_position - 1) * size + place + 1) % every == 0


def keep_visit(
    session: Session, participant: Participant, panel: recruiting.Panel, ids: Mapping[str, str]
) -> None:
    """Store the ids of somebody's link from a panel with which they will return to it.

    Finished participants return with the ids of their last visit: a panel may pay for each visit.
    """
    if has_ended(session, read_row(session, participant.token_hash)):
        return
    kept = {name: ids[name] for name in panel.kept_ids()}
    participant.platform_study_id = kept.get("study")
    participant.platform_session_id = kept.get("session")


# Which HIT of Mechanical Turk a participant works on.


class HitRefused(Refused):
    """The participant has finished with another HIT, or another person works on this one."""

    status = 409


class HitChanged(HitRefused):
    """The participant began with another HIT, in an unknown browser."""


def works_on(session: Session, study_id: int, worker: str, hit: recruiting.Hit) -> bool:
    """Whether a link names the worker and the HIT with which they take part.

    A worker's id is public; only the worker and the requester know the id of an assignment.
    """
    statement = (
        select(WorkedHit.participant_id)
        .join(Participant, WorkedHit.participant_id == Participant.id)
        .where(
            Participant.study_id == study_id,
            Participant.external_id == worker,
            WorkedHit.assignment_id == hit.assignment_id,
        )
    )
    return session.scalar(statement) is not None


def work_on(
    session: Session, participant: ParticipantRow, hit: recruiting.Hit, *, has_ticket: bool = False
) -> None:
    """Record the HIT of a participant of a locked study.

    A participant who has not finished may change it, with the ticket of their page once they have
    agreed to take part: before that, nothing is theirs that somebody else could see or change.

    Raises:
        HitRefused: the participant has finished with another HIT, or somebody else has this one.
        HitChanged: the participant has begun with another HIT, and this may be somebody else.
    """
    if is_of_another(session, participant, hit):
        raise HitRefused("another person works on this HIT")
    current = session.get(WorkedHit, participant.id)
    if current is not None and current.assignment_id == hit.assignment_id:
        return
    if has_ended(session, participant):
        raise HitRefused("you have taken part with another HIT")
    if participant.consented_at is not None and not has_ticket:
        raise HitChanged("you have begun with another HIT")
    current = current or WorkedHit(participant_id=participant.id)
    current.assignment_id, current.hit_id = hit.assignment_id, hit.hit_id
    current.submit_to = hit.submit_to
    session.add(current)
    session.flush()


def has_ended(session: Session, participant: ParticipantRow) -> bool:
    """Whether nothing is left to answer, or the recorded HIT may have been sent."""
    progress = steps_of(session, participant.id)
    stage = stage_of(session, participant, progress)
    completion = completion_of(session, participant, stage, progress.answered)
    return stage not in UNFINISHED_STAGES or bool(completion.get("hit"))


def is_of_another(session: Session, participant: ParticipantRow, hit: recruiting.Hit) -> bool:
    """Whether somebody else in the study works on this HIT, or has sent it."""
    others = (
        select(WorkedHit.participant_id)
        .join(Participant, WorkedHit.participant_id == Participant.id)
        .where(
            Participant.study_id == participant.study.id,
            Participant.id != participant.id,
            WorkedHit.assignment_id == hit.assignment_id,
        )
    )
    return session.scalar(others.limit(1)) is not None
