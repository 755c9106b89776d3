"""Look up a dataset's queries by id or text; new ones are created from their triplets."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.engine import added
from hsfiq.db.tables import Dataset, Query, Triplet
from hsfiq.errors import UnreadableInput
from hsfiq.ids import REVERSED, query_suffix, split_query_id
from hsfiq.text import joined, shown


class QueryFinder:
    def __init__(self, session: Session, dataset: Dataset) -> None:
        self.session = session
        self.triplets = {
            triplet.external_id: triplet
            for triplet in session.scalars(
                select(Triplet).where(Triplet.dataset_id == dataset.id).order_by(Triplet.id)
            )
        }
        self._queries: dict[int, dict[str, Query]] = {}
        rows = select(Query).join(Query.triplet).where(Triplet.dataset_id == dataset.id)
        for query in session.scalars(rows.order_by(Query.id)):
            self._queries.setdefault(query.triplet_id, {})[query.suffix] = query

    def by_id(self, query_id: str, where: str) -> int:
        """The key of the query with this outside id; `UnreadableInput` if there is none."""
        # Own data may have ids that end like a suffix.
        parted = (query_id, "") if query_id in self.triplets else split_query_id(query_id)
        triplet_id, suffix = parted
        triplet = self.triplets.get(triplet_id)
        if triplet is None:
            raise UnreadableInput(where, f"query {query_id!r} is unknown", self._known_ids())
        known = self._queries.setdefault(triplet.id, {})
        if suffix in known:
            return known[suffix].id
        if suffix not in ("", REVERSED) or not triplet.captions:
            raise UnreadableInput(where, f"query {query_id!r} is unknown")
        captions = triplet.captions if suffix == "" else triplet.captions[::-1]
        return self._make(triplet, suffix, joined(captions))

    def _known_ids(self) -> str:
        example = next(iter(self.triplets), None)
        return f"ids are like {example}" if example else "import the dataset's captions first"

    def by_text(self, triplet: Triplet, text: str) -> Query:
        """The triplet's query with this text; escapes and runs of blanks make no difference."""
        known = self._queries.setdefault(triplet.id, {})
        for query in known.values():
            if shown(query.text) == shown(text):
                return query
        suffix = query_suffix(triplet.captions, text, known)
        self._make(triplet, suffix, text)
        return known[suffix]

    def _make(self, triplet: Triplet, suffix: str, text: str) -> int:
        query = added(self.session, Query(triplet_id=triplet.id, suffix=suffix, text=text))
        self._queries[triplet.id][suffix] = query
        return query.id
