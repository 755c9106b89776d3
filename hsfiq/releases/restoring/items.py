"""What the questions of a release are about: queries with images, retrieved sets and pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from hsfiq.db.engine import added
from hsfiq.db.search_tables import StudyRetriever
from hsfiq.db.source_tables import Dataset, Image, Query, System, Triplet
from hsfiq.db.tables import FurtherSet, Pair, RetrievedImage, RetrievedSet, Study
from hsfiq.errors import UnreadableInput
from hsfiq.releases.checking.tables import ReleaseFolder
from hsfiq.releases.restoring.rows import Row, rows_of
from hsfiq.releases.searching.instrument import retriever_of
from hsfiq.study.searches import store_search_items
from hsfiq.text import count_text

IN_PAIR = 2
MOST_PAIRS = 500
"""Of a query, for each question: those that no question is about are stored, too."""


class Items:
    """The queries, sets and pairs of a study that is being restored; pairs have their numbers."""

    def __init__(self, session: Session, study: Study) -> None:
        self.session, self.study = session, study
        self.datasets: dict[str, Dataset] = {}
        self.images: dict[tuple[int, str], int] = {}
        self.systems: dict[str, int] = {}
        self.queries: dict[str, Query] = {}
        self.sets: dict[tuple[int, int | None, tuple[int, ...]], int] = {}
        self.pairs: dict[str, int] = {}
        self.sets_of_pair: dict[int, list[int]] = {}
        self.pairs_with_systems: set[int] = set()

    def add(self, release: ReleaseFolder) -> None:
        """Store the retrievers, queries and pairs of a release.

        Sets, and the systems of searches, come with the questions.
        """
        for entry in release.manifest.get("retrievers", ()):
            self._add_retriever(entry)
        for row in rows_of(release, "queries"):
            if row["query_id"] not in self.queries:
                self.queries[row["query_id"]] = self._query(row)
        self._add_pairs(release)

    # ------------------------------------------------------------------------------------- queries

    def _query(self, row: Row) -> Query:
        """The query, made unless the database has it.

        Raises:
            UnreadableInput: it has one with this id and another text.
        """
        dataset = self._dataset(row["dataset"])
        triplet = self.session.scalars(
            select(Triplet).where(
                Triplet.dataset_id == dataset.id, Triplet.external_id == row["triplet_id"]
            )
        ).one_or_none()
        if triplet is None:
            triplet = added(self.session, Triplet(
                dataset_id=dataset.id, external_id=row["triplet_id"], category=row["category"],
                split=row["split"], reference_id=self._image(dataset.id, row["reference_id"]),
                target_id=self._image(dataset.id, row["target_id"]), captions=row["captions"],
            ))  # fmt: skip
        suffix = row["query_id"].removeprefix(row["triplet_id"])
        query = self.session.scalars(
            select(Query).where(Query.triplet_id == triplet.id, Query.suffix == suffix)
        ).one_or_none()
        if query is None:
            query = Query(triplet_id=triplet.id, suffix=suffix, text=row["text"])
            return added(self.session, query)
        images = (self._image(dataset.id, row[name]) for name in ("reference_id", "target_id"))
        if (query.text, triplet.reference_id, triplet.target_id) != (row["text"], *images):
            raise UnreadableInput(
                f"query {row['query_id']} of dataset {dataset.name}",
                "is in the database with another text or other images",
                "import the release into a database of its own",
            )
        return query

    def _dataset(self, name: str) -> Dataset:
        if name not in self.datasets:
            known = self.session.scalars(select(Dataset).where(Dataset.name == name)).one_or_none()
            self.datasets[name] = known or added(self.session, Dataset(name=name, image_root=None))
        return self.datasets[name]

    def _image(self, dataset: int, name: str | None) -> int | None:
        return None if name is None else self.image(dataset, name)

    def image(self, dataset: int, name: str) -> int:
        key = (dataset, name)
        if key not in self.images:
            own = self.session.scalars(
                select(Image.id).where(Image.dataset_id == dataset, Image.name == name)
            ).one_or_none()
            if own is None:
                own = added(self.session, Image(dataset_id=dataset, name=name)).id
            self.images[key] = own
        return self.images[key]

    def dataset_of(self, query: str) -> int:
        """The key of the dataset whose images the query's searches list."""
        return self.session.get_one(Triplet, self.queries[query].triplet_id).dataset_id

    # ------------------------------------------------------------------------------- sets and pairs

    def _add_pairs(self, release: ReleaseFolder) -> None:
        """Store the pairs by their outside ids; those that no question is about have no sets.

        An outside id is the query's with the number among its pairs, so none may be left out.
        """
        main = release.kind.main
        column = "pair_id" if main == "preferences" else "item_id"
        highest: dict[str, int] = defaultdict(int)
        for batch in release.batches(main, column):
            for item in batch.column(column) or ():
                query, _, number = item.rpartition("/")
                highest[query] = max(highest[query], int(number))
        n_pairs = sum(highest.values()) + len(highest)
        if n_pairs > MOST_PAIRS * release.n_rows(main) + MOST_PAIRS:
            rows = count_text(release.n_rows(main), "row")
            what = f"numbers {count_text(n_pairs, 'item')}, and has {rows}"
            raise UnreadableInput(str(release.path / f"{main}.parquet"), what)
        for query, last in highest.items():
            for number in range(last + 1):
                if f"{query}/{number}" not in self.pairs:
                    pair = Pair(study_id=self.study.id, query_id=self.queries[query].id)
                    self.pairs[f"{query}/{number}"] = added(self.session, pair).id

    def order_in_pair(
        self, item: str, query: str, sets: Sequence[Row], *, swapped: bool
    ) -> list[int]:
        """The place in the pair of each set as shown; the first question makes the pair's sets."""
        pair = self.pairs[item]
        keys = [self._set(query, row) for row in sets]
        if pair not in self.sets_of_pair:
            own = keys[::-1] if swapped else keys
            self.sets_of_pair[pair] = own
            self._fill(pair, self.queries[query].id, own)
        own = self.sets_of_pair[pair]
        order: list[int] = []
        for key in keys:
            places = (n for n, each in enumerate(own) if each == key and n not in order)
            place = next(places, None)
            if place is None:
                raise ValueError(f"{item} has other sets in another question")
            order.append(place)
        return order

    def _fill(self, pair: int, query: int, keys: Sequence[int]) -> None:
        row = self.session.get_one(Pair, pair)
        row.first_id = keys[0] if keys else None
        row.second_id = keys[1] if len(keys) > 1 else None
        self.session.flush()
        further = [
            {"pair_id": pair, "place": place, "query_id": query, "set_id": key}
            for place, key in enumerate(keys[IN_PAIR:], start=IN_PAIR)
        ]
        if further:
            self.session.execute(insert(FurtherSet), further)

    def _set(self, query: str, row: Row) -> int:
        owner, dataset = self.queries[query], self.dataset_of(query)
        images = tuple(self.image(dataset, name) for name in row["image_ids"])
        if not images:
            raise ValueError(f"set {row['set_id']} has no image")
        key = (owner.id, self._system(row["system"]), images)
        if key not in self.sets:
            own = added(self.session, RetrievedSet(query_id=key[0], system_id=key[1]))
            self.sets[key] = own.id
            self.session.execute(insert(RetrievedImage), [
                {"set_id": own.id, "rank": rank, "image_id": image}
                for rank, image in enumerate(images)
            ])  # fmt: skip
        return self.sets[key]

    def _system(self, name: str | None) -> int | None:
        if name is None:
            return None
        if name not in self.systems:
            known = self.session.scalars(select(System).where(System.name == name)).one_or_none()
            self.systems[name] = (known or added(self.session, System(name=name))).id
        return self.systems[name]

    # ----------------------------------------------------------------------------------- retrievers

    def _add_retriever(self, entry: Row) -> None:
        system = self._system(entry["system"])
        if system is not None and not self.session.get(StudyRetriever, (self.study.id, system)):
            row = retriever_of(entry, study=self.study.id, system=system)
            self.session.add(row)
            self.session.flush()

    def search_with(self, item: str, systems: Sequence[str]) -> None:
        """Store the systems with which a pair's query is searched for, that of side 1 first."""
        pair = self.pairs[item]
        if pair in self.pairs_with_systems:
            return
        self.pairs_with_systems.add(pair)
        keys = [key for name in systems if (key := self._system(name)) is not None]
        store_search_items(self.session, {pair: keys})


def categories(queries: Iterable[str]) -> str:
    """The category of a form: that of all its queries, or empty if they have several."""
    named = set(queries)
    return named.pop() if len(named) == 1 else ""
