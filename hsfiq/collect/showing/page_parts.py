"""What a page shows at a position, read from the database in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Row
from sqlalchemy.orm import Session

from hsfiq.collect.responses import latest_response
from hsfiq.collect.running.messages import unread_messages
from hsfiq.collect.showing.shown_questions import ShownQuestion, shown_questions
from hsfiq.collect.stages import Position
from hsfiq.db.rows import AnyParticipant
from hsfiq.db.tables import Response
from hsfiq.kinds import KINDS


@dataclass(frozen=True, slots=True)
class PageParts:
    """The unread messages; the question and the one after it; the answer that is revised."""

    messages: Sequence[Row[int, str]]
    questions: Mapping[int, ShownQuestion]
    latest: Response | None


def page_parts(session: Session, participant: AnyParticipant, position: Position) -> PageParts:
    """The parts of a page; it has no questions at a stage without any, and in a search."""
    messages, step = unread_messages(session, participant), position.step
    if step is None or step.check_id is not None:
        return PageParts(messages, {}, None)
    latest = latest_response(session, step.question_id) if step.done else None
    if KINDS[participant.study.kind].is_live:
        return PageParts(messages, {}, latest)
    following = position.question_step(step.number + 1)
    next_id = following.question_id if following else None
    return PageParts(messages, shown_questions(session, step.question_id, next_id), latest)
