"""What a study asks about already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from hsfiq.db.source_tables import Query, Triplet
from hsfiq.db.tables import FurtherSet, Pair, PracticeQuestion, RetrievedSet, Study
from hsfiq.study.design import DrawnPair


def pairs_of(session: Session, pair_ids: Mapping[int, int]) -> list[DrawnPair]:
    """What the study's questions are about, without gold questions, in the order of the keys."""
    rows = session.execute(
        select(Pair.id, Pair.query_id, Query.triplet_id, Triplet.category)
        .join(Query, Pair.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .order_by(Pair.id)
    )
    return [DrawnPair(*row) for row in rows if row[0] in pair_ids]


def systems_of_pairs(session: Session, study: Study) -> dict[int, set[int]]:
    """The keys of the systems whose sets each pair shows; sets without a system are left out."""
    in_pair = select(Pair.id, RetrievedSet.system_id).join(
        RetrievedSet, or_(RetrievedSet.id == Pair.first_id, RetrievedSet.id == Pair.second_id)
    )
    further = (
        select(Pair.id, RetrievedSet.system_id)
        .join(FurtherSet, FurtherSet.pair_id == Pair.id)
        .join(RetrievedSet, RetrievedSet.id == FurtherSet.set_id)
    )
    systems: dict[int, set[int]] = defaultdict(set)
    for rows in (in_pair, further):
        of_study = rows.where(
            Pair.study_id == study.id,
            Pair.id.not_in(select(PracticeQuestion.pair_id)),
            RetrievedSet.system_id.is_not(None),
        )
        for pair_id, system_id in session.execute(of_study):
            if system_id is not None:
                systems[pair_id].add(system_id)
    return systems
