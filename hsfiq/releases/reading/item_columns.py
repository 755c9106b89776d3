"""What a study of pairs asks about, by columns: each pair and each set has a place."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hsfiq.arrow_columns import Array, ByPlace, Values, distinct
from hsfiq.releases.reading.items import PairRow
from hsfiq.releases.rows import RetrievedSetRow
from hsfiq.releases.schemas import TEXT, TEXTS


class ItemColumns:
    """Pairs in the order of their database keys, with the places of their two sets.

    `of_pairs` has the columns of pairs by name, `of_sets` those of sets. `query_places` has the
    place in `queries` of each pair's query.
    """

    def __init__(self, pairs: Mapping[int, PairRow]) -> None:
        self.rows = list(pairs.values())
        self.keys = pa.array(list(pairs), pa.int64())
        sets: dict[int, RetrievedSetRow] = {}
        places: dict[int, int] = {}
        for pair in self.rows:
            for retrieved in pair.sets:
                places.setdefault(id(retrieved), len(places))
                sets[id(retrieved)] = retrieved
        self.sets: tuple[Array, Array] = (
            pa.array([places[id(pair.sets[0])] for pair in self.rows], pa.int32()),
            pa.array([places[id(pair.sets[1])] for pair in self.rows], pa.int32()),
        )
        queries = {pair.query.key: pair.query for pair in self.rows}
        self.queries = list(queries.values())
        query_places = {key: place for place, key in enumerate(queries)}
        self.query_places: Array = pa.array(
            [query_places[pair.query.key] for pair in self.rows], pa.int32()
        )
        self.of_pairs = {
            "pair_id": texts([pair.pair_id for pair in self.rows]),
            "query_id": texts([query.query_id for query in self.queries]).taken(self.query_places),
            "text": texts([query.text for query in self.queries]).taken(self.query_places),
        }
        self.of_sets = {
            "system": texts([retrieved.system for retrieved in sets.values()]),
            "image_ids": ByPlace(
                Values(pa.array([retrieved.image_ids for retrieved in sets.values()], TEXTS)),
                pa.array(range(len(sets)), pa.int32()),
            ),
        }


def texts(values: list[str] | list[str | None]) -> ByPlace:
    return distinct(pa.array(values, TEXT))
