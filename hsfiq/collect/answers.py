"""Storing answers from pages, after checks against the question and the study."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, func, insert, select, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningInsert

from hsfiq import answer_rules
from hsfiq.collect.asked_questions import AskedQuestion, Steps, require_reached
from hsfiq.collect.checks import apply_check_rule, is_latest
from hsfiq.collect.leases import IS_CHECK, extend_lease
from hsfiq.collect.participant_row import ANSWER_COUNTS, ParticipantRow, StudyRow
from hsfiq.collect.participants import require_active
from hsfiq.collect.protocol import (
    AnswerPayload,
    ImagesPayload,
    SkipPayload,
    SubmitPayload,
)
from hsfiq.collect.stages import asks_reason
from hsfiq.db.rows import execute
from hsfiq.db.tables import Check, Form, Participant, Question, Response, Study
from hsfiq.errors import Conflict, Refused, SetBack
from hsfiq.kinds import KINDS, Kind, Rules
from hsfiq.study.config import StudyConfig, rules_of
from hsfiq.study.instrument import read_answers
from hsfiq.text import is_storable_text

# How many questions participants have answered, kept in their rows.
#
# A study may have millions of answers, so its progress is the sum of these counts. An answer locks
# and writes its participant's row anyhow: counting it takes no further statement, and nobody else
# waits.


def count_answer(
    participant: ParticipantRow, before: Response | None, stored: Mapping[str, Any]
) -> None:
    """Count the columns of a new revision instead of the revision `before` it."""
    if before is not None:
        add(participant, count_of(before.skipped, before.images), -1)
        participant.n_revisions -= before.revision
    add(participant, count_of(stored["skipped"], stored["images"]), 1)
    participant.n_revisions += stored["revision"]


def add(participant: ParticipantRow, name: str, number: int) -> None:
    setattr(participant, name, getattr(participant, name) + number)


def count_of(skipped: str | None, letters: str | None) -> str:
    """The count that an answer belongs to; `letters` are the states of its images."""
    if skipped is not None:
        return "n_skipped"
    names = {True: "n_painted", False: "n_not_painted", None: "n_painting_unknown"}
    return names[answer_rules.are_painted(letters)]


def count_stored_answers(session: Session, study: Study) -> None:
    """Count the answers of a study that were stored all at once, such as those of an import."""
    groups = session.execute(
        select(
            Form.participant_id,
            Response.skipped,
            Response.images,
            func.count(),
            func.sum(Response.revision),
        )
        .join(Question, Question.form_id == Form.id)
        .join(Response, Response.question_id == Question.id)
        .where(Form.study_id == study.id, is_latest(Response), ~IS_CHECK)
        .group_by(Form.participant_id, Response.skipped, Response.images)
    )
    counts: dict[int | None, Counter[str]] = defaultdict(Counter)
    for participant, skipped, letters, number, revisions in groups:
        counts[participant].update({count_of(skipped, letters): number, "n_revisions": revisions})
    names = (*ANSWER_COUNTS, "n_revisions")
    rows = [{"id": key, **{name: own[name] for name in names}} for key, own in counts.items()]
    if rows:
        session.execute(update(Participant), rows)


# Storing answers: each is a new revision of the question's response; earlier ones remain.
#
# The caller's `Database.writing` block is the transaction.

JUDGEMENT_COLUMNS = (
    *("score_1", "score_2", "preferred", "confirmed", "judgement", "extra"),
    *("irrelevant", "reason", "skipped"),
)
"""Columns that must be equal when a submit is repeated; times and views may differ."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A question left without scores because one of its images is missing or does not load."""

    images: answer_rules.ImageStates
    served_at: datetime | None = None
    submitted_at: datetime | None = None

    def __post_init__(self) -> None:
        if not {"missing", "unloaded"} & set(self.images):
            raise Refused("only a question with a missing image can be skipped")

    @property
    def reason(self) -> str:
        return "missing-image" if "missing" in self.images else "unloaded-image"


@dataclass(frozen=True, slots=True)
class Submitted:
    """The revision that was stored, the question's number, and the steps after the answer."""

    revision: int
    number: int
    steps: Steps


def submit(
    session: Session,
    participant: ParticipantRow,
    question_id: int,
    answer: answer_rules.Answer | Skip,
    *,
    expected_revision: int,
    submit_key: str,
    text_version: int | None = None,
    language: str | None = None,
) -> Submitted:
    """Store an answer as the next revision, unless the same submit has been stored before.

    The caller has locked the participant, then the question (`lock_question`), and stores the
    participant's row afterwards.
    `expected_revision` is the revision that the page shows, 0 for an unanswered question;
    `submit_key` is the browser's random key of this press of Next; `text_version` is the version of
    the study's texts that the page shows, None if it is unknown.
    `language` is that of the page.

    Raises:
        Forbidden: the participant cannot answer the question now; `SetBack` if they could before a
            backup was restored.
        NotOpen: the study does not accept answers.
        Conflict: another tab has answered since the page was loaded, or the submit key was used
            for another answer.
        Refused: the judgement does not fit the study, or the reason is too long or cannot be
            stored.
    """
    own, step = require_reached(session, participant, question_id)
    revisions = revisions_of(session, question_id) if step.done else []
    require_storable(answer, participant.study)
    values = values_of(answer, KINDS[participant.study.kind])
    earlier = next((row for row in revisions if row.submit_key == submit_key), None)
    if earlier is not None:
        if any(getattr(earlier, name) != values[name] for name in JUDGEMENT_COLUMNS):
            raise Conflict("this submit was used for another answer")
        return Submitted(earlier.revision, step.number, own)
    require_active(participant)
    latest = revisions[-1] if revisions else None
    revision = latest.revision if latest else 0
    if revision < expected_revision:
        raise SetBack("the answer shown on the page is no longer stored")
    if revision != expected_revision:
        raise Conflict("this question was answered in another window after the page was loaded")
    stored = values | {
        "question_id": question_id,
        "revision": revision + 1,
        "submit_key": submit_key,
        "language": language,
        "images": images_seen(answer.images, latest),
        "text_in_view": text_seen(values["text_in_view"], latest),
        "text_version": text_version,
    }
    is_check = execute(session, _new_response(), {"question": question_id, **stored}).scalar_one()
    if not is_check:
        count_answer(participant, latest, stored)
    submitted_at = values["submitted_at"]
    if submitted_at is not None:
        extend_lease(participant, submitted_at)
    apply_check_rule(session, participant, submitted_at or datetime.now(UTC))
    steps = own.with_answer(step, values["active_seconds"])
    return Submitted(revision + 1, step.number, steps)


@cache
def _new_response() -> ReturningInsert[bool]:
    """Store an answer; return whether its question is a check."""
    check = select(Check.id).where(Check.question_id == bindparam("question")).exists()
    return insert(Response).returning(check)


def revisions_of(session: Session, question_id: int) -> Sequence[Response]:
    """Every revision of the answer to a question, the first one first."""
    return session.scalars(_revisions(), {"question": question_id}).all()


@cache  # building the statements below takes as long as running them
def _revisions() -> Select[Response]:
    own = select(Response).where(Response.question_id == bindparam("question"))
    return own.order_by(Response.revision)


def latest_response(session: Session, question_id: int) -> Response | None:
    return session.scalars(_latest_response(), {"question": question_id}).one_or_none()


@cache
def _latest_response() -> Select[Response]:
    return (
        select(Response)
        .where(Response.question_id == bindparam("question"))
        .order_by(Response.revision.desc())
        .limit(1)
    )


def require_storable(answer: answer_rules.Answer | Skip, study: StudyRow) -> None:
    if isinstance(answer, Skip):
        return
    KINDS[study.kind].read(answer.values, rules_of(study.config))
    reason = answer.reason or ""
    if len(reason) > answer_rules.LONGEST_REASON:
        raise Refused(f"the reason is longer than {answer_rules.LONGEST_REASON:,} characters")
    if not is_storable_text(reason):
        raise Refused("the reason has characters that cannot be stored")


def images_seen(images: answer_rules.ImageStates | None, latest: Response | None) -> str | None:
    """The states of the images as letters, including views for earlier revisions.

    If earlier views are unknown, the state of an image that is not painted now is unknown, too.
    """
    if images is None:
        return None
    if latest is None:
        return images.letters
    if latest.images is None:
        return images.letters if images.are_painted else None
    return images.including(answer_rules.ImageStates.from_letters(latest.images)).letters


def text_seen(now: bool | None, latest: Response | None) -> bool | None:
    """Whether the whole text was in view before this or an earlier revision; None if unknown."""
    if now is None or latest is None or now:
        return now
    return latest.text_in_view


def response_of(answer: answer_rules.Answer | Skip, kind: Kind) -> Response:
    """The row of an answer, not yet added to a session; its key and revision are not set."""
    return Response(**values_of(answer, kind))


UNANSWERED = dict.fromkeys(
    (*JUDGEMENT_COLUMNS, "served_at", "first_interaction_at", "submitted_at", "active_seconds")
)


def values_of(answer: answer_rules.Answer | Skip, kind: Kind) -> dict[str, Any]:
    """The columns that an answer decides."""
    letters = answer.images.letters if answer.images else None
    if isinstance(answer, Skip):
        return UNANSWERED | {
            "irrelevant": False,
            "skipped": answer.reason,
            "served_at": answer.served_at,
            "submitted_at": answer.submitted_at,
            "images": letters,
            "text_in_view": None,
        }
    return UNANSWERED | {
        **kind.columns_of(answer.values),
        "irrelevant": answer.irrelevant,
        "reason": answer.reason or None,
        "extra": None if answer.extra is None else dict(answer.extra),
        "served_at": answer.times.served_at,
        "first_interaction_at": answer.times.first_interaction_at,
        "submitted_at": answer.times.submitted_at,
        "active_seconds": answer.times.active_seconds,
        "images": letters,
        "text_in_view": answer.text_in_view,
    }


LONGEST_SECONDS = 24 * 3600.0
"""The longest reported duration if the serving time of the question is unknown."""


def given_answer(
    question: AskedQuestion,
    study: StudyRow,
    payload: SubmitPayload | SkipPayload,
    now: datetime,
) -> answer_rules.Answer | Skip:
    """The page's answer, if valid for the question and the study; else `Refused`."""
    config = study.config
    images = image_states(question, payload["images"], rules_of(config))
    if "skip" in payload:
        return Skip(images, served_at=known_served_at(question, now), submitted_at=now)
    return answer_of(question, config, payload["answer"], images, now)


def image_states(
    question: AskedQuestion, payload: ImagesPayload, rules: Rules
) -> answer_rules.ImageStates:
    """The states of the images; `Refused` unless they are of the question's images."""
    sets = tuple(tuple(states) for states in payload["sets"])
    if [len(states) for states in sets] != [rules.k] * rules.n_sets:
        numbers = f"{rules.n_sets} set{'s' * (rules.n_sets != 1)} of {rules.k} images"
        raise Refused(f"images: must be of {numbers}")
    if (payload["reference"] is not None) != question.has_reference:
        raise Refused(
            "images: the reference must have a state if and only if the question has a reference"
        )
    return answer_rules.ImageStates(payload["reference"], sets)


def answer_of(
    question: AskedQuestion,
    config: StudyConfig,
    payload: AnswerPayload,
    images: answer_rules.ImageStates,
    now: datetime,
) -> answer_rules.Answer:
    """The answer with the states of its images, and its times by the server's clock."""
    reason = (payload["reason"] or "").strip(answer_rules.WHITE_SPACE)
    is_asked = asks_reason(config, question.form_position, question.place)
    if is_asked and len(reason) < answer_rules.SHORTEST_REASON:
        raise Refused(
            f"this question needs a reason of at least {answer_rules.SHORTEST_REASON} characters"
        )
    given_reason = None if payload["reason"] is None else reason
    times = times_of(question, payload, now)
    extra, text_in_view = extra_answers(config, payload), payload.get("text_in_view")
    kind = KINDS[config.design.kind]
    values = kind.read(payload["judgement"], rules_of(config))
    irrelevant = None if kind.is_live else payload["irrelevant"]  # the page of a search has no flag
    return answer_rules.Answer(values, irrelevant, given_reason, times, images, extra, text_in_view)


def extra_answers(config: StudyConfig, payload: AnswerPayload) -> dict[str, Any] | None:
    """The answers to the extra questions; None if the study has none."""
    questions = config.questionnaire.after_each
    answers = read_answers(questions, payload.get("extra", {}))
    return answers if questions else None


def times_of(question: AskedQuestion, payload: AnswerPayload, now: datetime) -> answer_rules.Times:
    """The times of an answer by the server's clock.

    The page reports durations. A duration longer than the time since the question was served (the
    computer slept, or its clock was changed) is reduced to that time.
    """
    served_at, since = known_served_at(question, now), payload["seconds_since_first_interaction"]
    elapsed = (now - served_at).total_seconds() if served_at else LONGEST_SECONDS
    return answer_rules.Times(
        served_at=served_at,
        first_interaction_at=(
            None if since is None else now - timedelta(seconds=min(since, elapsed))
        ),
        submitted_at=now,
        active_seconds=round(min(payload["active_seconds"], elapsed), 3),
    )


def known_served_at(question: AskedQuestion, now: datetime) -> datetime | None:
    """When a question was served; None if the server's clock has been set back since."""
    served_at = question.served_at
    return None if served_at is None or served_at > now else served_at
