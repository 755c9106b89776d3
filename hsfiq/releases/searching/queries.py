"""The queries of a release of searches, for simulated users to search for them, too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.sessions.play import Query

OWN_WISH = "own-wish"


def queries_to_play(release: Path) -> tuple[Query, ...]:
    """Those that people searched for a target of.

    Raises:
        UnreadableInput: the folder is no release of searches, people searched for wishes of their
            own, or a query lacks a reference, a target or a text.
    """
    from hsfiq.releases.folder import read_queries, read_rows
    from hsfiq.sessions.play import Query

    tasks = {row["task"] for row in read_rows(release / "sessions.parquet", ("task",))}
    if tasks == {OWN_WISH}:
        what = "has searches for wishes of the participants' own, which no simulator knows"
        raise UnreadableInput(str(release), what, "name one with targets")
    queries = []
    for query in read_queries(release).values():
        if query.reference is None or query.target is None or not query.text:
            where = f"{release}: query {query.query_id}"
            raise UnreadableInput(where, "lacks a reference, a target or a text")
        queries.append(
            Query(
                query_id=query.query_id,
                reference=query.reference,
                text=query.text,
                targets=(query.target,),
            )
        )
    return tuple(queries)
