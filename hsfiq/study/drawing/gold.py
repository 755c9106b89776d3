"""Gold questions: planted ones with an obvious answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from hsfiq.db.rows import NEW_FURTHER_SETS, NEW_IMAGES, NEW_PAIRS, NEW_SETS, execute, rows_of
from hsfiq.db.source_tables import RankedList
from hsfiq.db.tables import Study
from hsfiq.errors import ConfigError
from hsfiq.study.config import StudyConfig, n_sets_of, rules_of
from hsfiq.study.drawing.questions import DrawnQuestion, QueryFacts

Order = Callable[[], list[int] | None]
"""Draws the order in which a set's images are shown; None is best first."""


LISTS_OF_QUERY = select(RankedList.image_ids).where(RankedList.query_id == bindparam("query"))


class GoldQuestions:
    """Draws and stores gold questions; `hsfiq.kinds` says which answers are right."""

    def __init__(
        self,
        session: Session,
        study: Study,
        config: StudyConfig,
        by_category: Mapping[str, Sequence[QueryFacts]],
        lists: Mapping[int, Mapping[int, list[int]]],
        rng: Random,
        order: Order,
    ) -> None:
        self.session, self.study, self.config = session, study, config
        self.lists, self.rng, self._order = lists, rng, order
        self._by_category = by_category
        self._pools: dict[str, list[int]] = {}

    def draw(self, category: str, triplets: set[int]) -> DrawnQuestion:
        """A gold question about a triplet of the category that is not in `triplets` yet."""
        query = self._query(category, triplets)
        triplets.add(query.triplet_id)
        makers = {
            "pair": self._pair,
            "single": self._single,
            "images": self._images,
            "ranking": self._ranking,
        }
        return makers[self.config.design.kind](query)

    def _pair(self, query: QueryFacts) -> DrawnQuestion:
        """The target with a system's best images should win against random images."""
        swapped = self.rng.random() < 0.5
        return DrawnQuestion(
            self._item(query, [self._winner(query), self._far_images(query, self.study.k)]),
            swapped,
            self._order(),
            self._order(),
            expected="2" if swapped else "1",
        )

    def _single(self, query: QueryFacts) -> DrawnQuestion:
        """Random images should have a score below the middle of the scale."""
        item = self._item(query, [self._far_images(query, self.study.k)])
        highest = rules_of(self.config).points // 2
        return DrawnQuestion(item, order_1=self._order(), expected=str(highest))

    def _images(self, query: QueryFacts) -> DrawnQuestion:
        """The target among random images should be the one that fits."""
        images = self._far_images(query, self.study.k - 1)
        place = self.rng.randrange(self.study.k)
        images.insert(place, query.target_id or 0)
        order = self._order()
        shown = place if order is None else order.index(place)
        return DrawnQuestion(self._item(query, [images]), order_1=order, expected=str(shown + 1))

    def _ranking(self, query: QueryFacts) -> DrawnQuestion:
        """Random images should come after the sets of the systems."""
        n_sets = n_sets_of(self.config.design)
        of_systems = self.lists[query.query_id]
        systems = self.rng.sample(sorted(of_systems), n_sets - 1)
        sets = [of_systems[system] for system in systems]
        item = self._item(query, [*sets, self._far_images(query, self.study.k)])
        set_order = self.rng.sample(range(n_sets), n_sets)
        orders = [order for _ in range(n_sets) if (order := self._order()) is not None]
        return DrawnQuestion(
            item,
            set_order=set_order,
            image_orders=orders or None,
            expected=str(set_order.index(n_sets - 1) + 1),
        )

    def _query(self, category: str, triplets: set[int]) -> QueryFacts:
        """A random query of the category whose triplet this participant does not otherwise see."""
        needs_target = self.config.design.kind == "images"
        free = [
            query
            for query in self._by_category[category]
            if query.triplet_id not in triplets and not (needs_target and query.target_id is None)
        ]
        if not free:
            with_target = " with a target" if needs_target else ""
            raise ConfigError(
                "checks.gold",
                f"no query of {category or 'any category'}{with_target} is left for a gold one",
                "use more queries, smaller forms or fewer gold questions",
            )
        return self.rng.choice(free)

    def _winner(self, query: QueryFacts) -> list[int]:
        """The target and a system's best images."""
        best = next(iter(self.lists[query.query_id].values()))
        wanted = [] if query.target_id is None else [query.target_id]
        return [*wanted, *(image for image in best if image not in wanted)][: self.study.k]

    def _item(self, query: QueryFacts, sets: Sequence[Sequence[int]]) -> int:
        """Store what the question is about; its key."""
        stored = [self._store_set(query, images) for images in sets]
        first, second = (*stored, None)[:2]
        pair = {
            "study_id": self.study.id,
            "query_id": query.query_id,
            "first_id": first,
            "second_id": second,
        }
        pair_id = int(execute(self.session, NEW_PAIRS, pair).scalar_one())
        further = [
            {"pair_id": pair_id, "place": place, "query_id": query.query_id, "set_id": set_id}
            for place, set_id in enumerate(stored[2:], start=2)
        ]
        if further:
            execute(self.session, NEW_FURTHER_SETS, further)
        return pair_id

    def _far_images(self, query: QueryFacts, number: int) -> list[int]:
        """Random images that no system returned for the query, of other categories if possible."""
        near = {query.reference_id, query.target_id}
        for (images,) in rows_of(self.session, LISTS_OF_QUERY, {"query": query.query_id}):
            near.update(images)
        pool = [image for image in self._images_outside(query.category) if image not in near]
        if len(pool) < number:
            raise ConfigError(
                "checks.gold",
                "there are too few other images for a gold question",
                "use more queries or no gold questions",
            )
        return self.rng.sample(pool, number)

    def _images_outside(self, category: str) -> list[int]:
        """The images in the other categories' sets; in all sets if there is only one category."""
        if category not in self._pools:
            everything = self._by_category[""]
            others = [facts for facts in everything if facts.category != category]
            images = {
                image
                for facts in others or everything
                for retrieved in self.lists[facts.query_id].values()
                for image in retrieved
            }
            self._pools[category] = sorted(images)
        return self._pools[category]

    def _store_set(self, query: QueryFacts, images: Sequence[int]) -> int:
        row = {"query_id": query.query_id, "system_id": None}
        planted = int(execute(self.session, NEW_SETS, row).scalar_one())
        members = [
            {"set_id": planted, "rank": rank, "image_id": image}
            for rank, image in enumerate(images)
        ]
        execute(self.session, NEW_IMAGES, members)
        return planted
