"""What the queries of a study consist of, which decides the wording of its pages."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.source_tables import Query, Triplet
from hsfiq.db.tables import Pair, Study

QueryForm = Literal["composed", "text", "image"]
"""Texts alone, images alone, or both: in each query, or in different ones."""


def query_form(session: Session, study: Study) -> QueryForm:
    """The form of a stored study's queries."""
    queries = (
        select(Query.id)
        .join(Pair, Pair.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .where(Pair.study_id == study.id)
        .limit(1)
    )
    if session.scalar(queries.where(Triplet.reference_id.is_not(None))) is None:
        return "text"
    return "image" if session.scalar(queries.where(Query.text != "")) is None else "composed"
