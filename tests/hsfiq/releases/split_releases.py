"""Releases of a small study with a split, and what their parts hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.releases.content import Release, build
from hsfiq.releases.filters import Filters
from hsfiq.releases.splits import Split, SplitBy

HALF: dict[SplitBy, Split] = {
    unit: Split(unit, seed=1, test_share=0.5) for unit in ("triplet", "participant", "both")
}


def release_of(
    database: Database, split: Split | None = None, filters: Filters | None = None
) -> Release:
    with database.reading() as session:
        (study,) = list_studies(session)
        return build(session, study, "hp", filters or Filters(), split, schema_revision="test")


@dataclass
class Side:
    """The triplets and participants of a part's questions."""

    triplets: set[str]
    participants: set[str]


def sides(read: Callable[[str], list[dict[str, Any]]]) -> dict[str, Side]:
    """The triplets and participants of each part, computed from the tables alone."""
    triplets = {row["query_id"]: row["triplet_id"] for row in read("queries")}
    answered = {row["question_id"]: row for row in read("preferences")}
    by_part: dict[str, Side] = defaultdict(lambda: Side(set(), set()))
    for row in read("splits"):
        question = answered[row["question_id"]]
        by_part[row["part"]].triplets.add(triplets[question["query_id"]])
        by_part[row["part"]].participants.add(question["participant_id"])
    return by_part
