"""Reading the questions of some forms from the database, with their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Executable, Text, bindparam, cast, select, type_coerce
from sqlalchemy.orm import Session
from sqlalchemy.types import NullType

from hsfiq.answer_rules import ImageStates
from hsfiq.collect.participants import latest_changes, rule_text
from hsfiq.db.tables import Question, Response, Study
from hsfiq.ids import question_id
from hsfiq.releases.question_checks import read_checks, read_failed_checks, read_repeated
from hsfiq.releases.reading.forms import FormRow
from hsfiq.releases.reading.items import ROWS_AT_ONCE, read_pairs, shown_sets
from hsfiq.releases.rows import QuestionRow

Revision = Any
"""A row of `questions_and_revisions`."""
SELECTED = (
    "key", "form_key", "place", "pair_key", "swapped", "order_1", "order_2", "set_order",
    "image_orders", "reassigned", "own_text",
    "revision", "score_1", "score_2", "preferred", "confirmed", "judgement", "extra", "irrelevant",
    "reason", "skipped", "served_at", "first_interaction_at", "submitted_at", "active_seconds",
    "images", "text_version", "language",
)  # fmt: skip
"""The columns of `questions_and_revisions`."""
SPENT = SELECTED.index("active_seconds")


class QuestionReader:
    """Reads questions; it holds what questions of all forms refer to."""

    def __init__(self, session: Session, study: Study) -> None:
        self.session = session
        self.pairs = read_pairs(session, study)
        self.checks = read_checks(session, study)
        self.failed_checks = read_failed_checks(session, study)
        self.repeated = read_repeated(session, study)
        self.excluded_by_rule = {
            key: rule_text(change) for key, change in latest_changes(session, study).items()
        }

    def rows(self, forms: Sequence[FormRow]) -> Iterator[Sequence[Revision]]:
        """The rows of each question, in parts: one without an answer, else one a revision."""
        rows = self.session.connection().execute(
            questions_and_revisions(),
            {"forms": [form.key for form in forms]},
            execution_options={"yield_per": ROWS_AT_ONCE},
        )
        return rows.partitions()

    def question(
        self, form: FormRow, revisions: Sequence[Revision], repeats: str | None
    ) -> QuestionRow:
        """A question with its last revision, and the id of the question that it repeats."""
        (
            key, _, place, pair_key, swapped, order_1, order_2, set_order, image_orders,
            reassigned, text,
            revision, score_1, score_2, preferred, confirmed, judgement, extra, irrelevant, reason,
            skipped, served_at, first_interaction_at, submitted_at, active_seconds, images,
            text_version, language,
        ) = revisions[-1]  # fmt: skip
        if len(revisions) > 1:
            active_seconds = time_spent([row[SPENT] for row in revisions])
        pair = self.pairs[pair_key]
        order = from_json(set_order)
        orders: Sequence[list[int] | None]
        if order is None:
            orders = from_json(order_1), from_json(order_2)
        else:
            orders = from_json(image_orders) or [None] * len(order)
        return QuestionRow(
            question_id=question_id(form.participant_id, form.form, place),
            participant_id=form.participant_id,
            form=form.form,
            category=form.category,
            place=place,
            pair_id=pair.pair_id,
            swapped=bool(swapped),
            query=pair.query,
            text=pair.query.text if text is None else text,
            sets=shown_sets(pair, swapped=swapped, set_order=order),
            orders=tuple(orders),
            participant_status=form.participant_status,
            reassigned=bool(reassigned),
            check=self.checks.get(key),
            repeats=repeats,
            failed_checks=self.failed_checks.get(form.key),
            skipped=skipped,
            score_1=score_1,
            score_2=score_2,
            preferred=preferred,
            irrelevant=flag_of(irrelevant),
            reason=reason,
            revision=revision or 0,
            served_at=time_of(served_at),
            first_interaction_at=time_of(first_interaction_at),
            submitted_at=time_of(submitted_at),
            active_seconds=active_seconds,
            images=None if images is None else ImageStates.from_letters(images),
            text_version=text_version,
            judgement=None if judgement is None else json.loads(judgement),
            excluded_by_rule=self.excluded_by_rule.get(form.participant_key),
            confirmed=flag_of(confirmed),
            language=language,
            extra=None if extra is None else json.loads(extra),
        )


def time_spent(seconds: Sequence[float | None]) -> float | None:
    """All revisions count, so that changing an answer does not make it faster."""
    known = [each for each in seconds if each is not None]
    return sum(known) if known else None


@cache
def questions_and_revisions() -> Executable:
    """Select the questions of `forms`, by form and place, each with its revisions in order.

    The columns are `SELECTED`, with flags and times as the driver gives them: rows of SQLAlchemy's
    ORM, and values that it converts, take twice as long.
    """
    question, response = Question.__table__.c, Response.__table__.c
    columns = (
        question.id, question.form_id, question.place, question.pair_id,
        as_stored(question.swapped), json_text(question.order_1), json_text(question.order_2),
        json_text(question.set_order), json_text(question.image_orders),
        as_stored(question.handed_on), question.text,
        response.revision, response.score_1, response.score_2, response.preferred,
        as_stored(response.confirmed), json_text(response.judgement), json_text(response.extra),
        as_stored(response.irrelevant), response.reason, response.skipped,
        as_stored(response.served_at), as_stored(response.first_interaction_at),
        as_stored(response.submitted_at), response.active_seconds,
        response.images, response.text_version, response.language,
    )  # fmt: skip
    return (
        select(*columns)
        .select_from(
            Question.__table__.outerjoin(Response.__table__, response.question_id == question.id)
        )
        .where(question.form_id.in_(bindparam("forms", expanding=True)))
        .order_by(question.form_id, question.place, response.revision)
    )


def as_stored(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A column whose values SQLAlchemy leaves as the driver gives them."""
    return type_coerce(column, NullType)


def flag_of(stored: int | None) -> bool | None:
    """A flag as the driver gives it: 0 or 1 of SQLite."""
    return None if stored is None else bool(stored)


def time_of(stored: str | datetime | None) -> datetime | None:
    """A time as the driver gives it: a text of SQLite, which is UTC, or an aware time."""
    if stored is None:
        return None
    if isinstance(stored, str):
        return datetime.fromisoformat(f"{stored}+00:00")
    return stored.astimezone(UTC)


def json_text(column: ColumnElement[Any]) -> ColumnElement[str]:
    """A JSON column as it is stored, to parse equal texts once."""
    return cast(column, Text)


@lru_cache(maxsize=10_000)
def parsed_order(text: str) -> Any:
    return json.loads(text)


def from_json(text: str | None) -> Any:
    """The order that a JSON text has; the lists of equal texts are the same objects."""
    return None if text is None else parsed_order(text)
