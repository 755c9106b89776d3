"""What a page sends as an answer, checked against its question and the study."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from hsfiq.answer_rules import SHORTEST_REASON, WHITE_SPACE, Answer, ImageStates, Times
from hsfiq.collect.protocol import (
    AnswerPayload,
    ImagesPayload,
    JudgedSubmitPayload,
    JudgementPayload,
    SkipPayload,
    SubmitPayload,
)
from hsfiq.collect.responses import Skip
from hsfiq.collect.stages import asks_reason
from hsfiq.collect.steps import AskedQuestion
from hsfiq.db.rows import AnyStudy
from hsfiq.errors import Refused
from hsfiq.kinds import KINDS, Judgement, Rules
from hsfiq.study.config import StudyConfig, config_of, rules_of
from hsfiq.study.instrument.extra_questions import read_answers

LONGEST_SECONDS = 24 * 3600.0
"""What a page may report at most where the time at which the question was served is unknown."""


def given_answer(
    question: AskedQuestion,
    study: AnyStudy,
    payload: SubmitPayload | JudgedSubmitPayload | SkipPayload,
    now: datetime,
) -> Answer | Judgement | Skip:
    """What the page sends, if it fits the question and the study; else `Refused`."""
    config = config_of(study)
    images = image_states(question, payload["images"], rules_of(config))
    if "skip" in payload:
        return Skip(images, served_at=known_served_at(question, now), submitted_at=now)
    return answer_of(question, config, payload["answer"], images, now)


def image_states(question: AskedQuestion, payload: ImagesPayload, rules: Rules) -> ImageStates:
    """The states of the images; `Refused` unless they are of the question's images."""
    sets = tuple(tuple(states) for states in payload["sets"])
    if [len(states) for states in sets] != [rules.k] * rules.n_sets:
        numbers = f"{rules.n_sets} set{'s' * (rules.n_sets != 1)} of {rules.k} images"
        raise Refused(f"images: must be of {numbers}")
    if (payload["reference"] is not None) != question.has_reference:
        raise Refused("images: the reference must have a state if the question has one")
    return ImageStates(payload["reference"], sets)


def answer_of(
    question: AskedQuestion,
    config: StudyConfig,
    payload: AnswerPayload | JudgementPayload,
    images: ImageStates,
    now: datetime,
) -> Answer | Judgement:
    """The answer with the states of its images, and its times by the server's clock."""
    reason = (payload["reason"] or "").strip(WHITE_SPACE)
    is_asked = asks_reason(config, question.form_position, question.place)
    if is_asked and len(reason) < SHORTEST_REASON:
        raise Refused(f"this question asks for a reason of {SHORTEST_REASON} characters or more")
    given_reason = None if payload["reason"] is None else reason
    times = times_of(question, payload, now)
    extra, text_in_view = extra_answers(config, payload), payload.get("text_in_view")
    if "score_1" in payload:
        scores = payload["score_1"], payload["score_2"], payload["preferred"]
        confirmed = payload["confirmed"] or None
        return Answer(
            *scores,
            payload["irrelevant"],
            given_reason,
            times,
            images,
            confirmed,
            extra,
            text_in_view,
        )
    kind = KINDS[config.design.kind]
    if kind.read is None:
        raise Refused(f"questions of this study are of kind {config.design.kind}")
    values = kind.read(payload["judgement"], rules_of(config))
    irrelevant = None if kind.is_live else payload["irrelevant"]  # the page of a search has no flag
    return Judgement(values, irrelevant, given_reason, times, images, extra, text_in_view)


def extra_answers(
    config: StudyConfig, payload: AnswerPayload | JudgementPayload
) -> dict[str, Any] | None:
    """The answers to the extra questions; None if the study has none."""
    questions = config.questionnaire.after_each
    answers = read_answers(questions, payload.get("extra", {}))
    return answers if questions else None


def times_of(
    question: AskedQuestion, payload: AnswerPayload | JudgementPayload, now: datetime
) -> Times:
    """The times of an answer by the server's clock.

    The page reports durations. None can be longer than the time since the question was served, so
    a longer one (the computer slept, its clock was changed) is cut to that.
    """
    served_at, since = known_served_at(question, now), payload["seconds_since_first_interaction"]
    elapsed = (now - served_at).total_seconds() if served_at else LONGEST_SECONDS
    return Times(
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
