"""Matching a system's runs to judged queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.lists.collect import lists_by_query, require_one_system
from hsfiq.readers.judged.judged_set import JudgedQuery, JudgedSet
from hsfiq.readers.runs import PlacedList
from hsfiq.readers.submissions import Run
from hsfiq.text import first_few

Lists = Mapping[str, tuple[str, ...]]
"""Ranked images, best first, by query id."""


def match_lists(judged: JudgedSet, runs: Sequence[Run], *, allow_missing: bool) -> Lists:
    """The lists of one system, whose runs may be several files.

    Raises:
        UnreadableInput: an unknown query or one without a list, an image outside of the query's
            database, or lists of several systems.
    """
    placed = collect(runs)
    files = ", ".join(str(run.path) for run in runs)
    known = {query.query_id: query for query in judged.queries}
    unknown = [query_id for query_id in placed if query_id not in known]
    if unknown:
        raise UnreadableInput(
            placed[unknown[0]].where,
            f"{len(unknown):,} of {len(placed):,} queries are not in {judged.name} "
            f"({first_few(unknown)})",
            f"its ids look like {judged.queries[0].query_id}",
        )
    missing = [query_id for query_id in known if query_id not in placed]
    if missing and not allow_missing:
        raise UnreadableInput(
            files,
            f"{len(missing):,} of {len(known):,} queries have no list ({first_few(missing)})",
            "--allow-missing counts them as misses",
        )
    for query_id, each in placed.items():
        require_candidates(judged, known[query_id], each)
    return {query_id: each.ranked.images for query_id, each in placed.items()}


def collect(runs: Sequence[Run]) -> dict[str, PlacedList]:
    """The lists by query id; raises as `match_lists`."""
    for run in runs:
        if run.metric is not None:
            raise UnreadableInput(str(run.path), "is a file for CIRR's server")
    placed = [each for run in runs for each in run.lists]
    require_one_system(placed)
    return lists_by_query(placed)


def require_candidates(judged: JudgedSet, query: JudgedQuery, each: PlacedList) -> None:
    database = judged.database_of(query)
    if database is None:
        return
    outside = [image for image in each.ranked.images if image not in database]
    if outside:
        whose = f" of group {query.group}" if query.group else ""
        raise UnreadableInput(
            each.where,
            f"image {outside[0]!r} of query {query.query_id} is not among the "
            f"{len(database):,} images of its database{whose}",
            "rank that database alone",
        )
