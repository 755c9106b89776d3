"""Write a participant's forms: sides, orders of images, and attention checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from hsfiq.db.engine import added
from hsfiq.db.tables import (
    Check,
    Form,
    Pair,
    Question,
    RankedList,
    RetrievedImage,
    RetrievedSet,
    Study,
)
from hsfiq.errors import ConfigError
from hsfiq.study.config import StudyConfig

REPEAT_DISTANCE = 3
"""The fewest questions between a pair and its repetition, if the form is long enough."""


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """The properties of a query that drawing a study needs; ids are database keys."""

    query_id: int
    triplet_id: int
    category: str
    reference_id: int
    target_id: int | None


@dataclass(frozen=True, slots=True)
class DrawnQuestion:
    """A question before it is stored: its pair as shown, and which check it is, if any.

    `gold` is the winning side of a gold pair; `repeats` is the question that is repeated.
    """

    pair_id: int
    swapped: bool
    order_1: list[int] | None
    order_2: list[int] | None
    gold: int | None = None
    repeats: DrawnQuestion | None = None


class FormWriter:
    """Writes batches into the tables; all draws come from the study's generator."""

    def __init__(
        self,
        session: Session,
        study: Study,
        config: StudyConfig,
        facts: Mapping[int, QueryFacts],
        lists: Mapping[int, Mapping[int, list[int]]],
        rng: Random,
    ) -> None:
        self.session, self.study, self.config = session, study, config
        self.lists, self.rng = lists, rng
        self._next_number = 0
        self._by_category: dict[str, list[QueryFacts]] = defaultdict(list)
        for query in facts.values():
            self._by_category[query.category].append(query)
            if query.category:
                self._by_category[""].append(query)
        self._pools: dict[str, list[int]] = {}

    def write(self, batch: int, category: str, pairs: Sequence[tuple[int, int]]) -> None:
        """Write one participant's forms of these (pair, triplet) keys."""
        triplets = {triplet for _, triplet in pairs}
        size = self.config.design.questions_per_form
        for start in range(0, len(pairs), size):
            form = Form(
                study_id=self.study.id, number=self._next_number, batch=batch, category=category
            )
            self._next_number += 1
            self.session.add(form)
            self.session.flush()
            plain = self._plain([pair_id for pair_id, _ in pairs[start : start + size]])
            asked = self._with_repeats(self._with_gold(plain, category, triplets))
            self._store(form, asked)

    def _plain(self, pair_ids: Sequence[int]) -> list[DrawnQuestion]:
        """The form's own questions, half of them swapped at random (of an odd number, one more)."""
        remainder = self.rng.randrange(2)
        sides = [index % 2 == remainder for index in range(len(pair_ids))]
        self.rng.shuffle(sides)
        return [
            DrawnQuestion(pair_id, swapped, self._order(), self._order())
            for pair_id, swapped in zip(pair_ids, sides, strict=True)
        ]

    def _order(self) -> list[int] | None:
        if self.config.design.image_order == "ranked":
            return None
        return self.rng.sample(range(self.study.k), self.study.k)

    def _with_gold(
        self, asked: list[DrawnQuestion], category: str, triplets: set[int]
    ) -> list[DrawnQuestion]:
        asked = list(asked)
        for _ in range(self.config.checks.gold):
            query = self._gold_query(category, triplets)
            triplets.add(query.triplet_id)
            swapped = self.rng.random() < 0.5
            gold = DrawnQuestion(
                self._gold_pair(query),
                swapped,
                self._order(),
                self._order(),
                gold=2 if swapped else 1,
            )
            asked.insert(self.rng.randint(0, len(asked)), gold)
        return asked

    def _gold_query(self, category: str, triplets: set[int]) -> QueryFacts:
        """A random query of the category whose triplet this participant does not otherwise see."""
        free = [q for q in self._by_category[category] if q.triplet_id not in triplets]
        if not free:
            raise ConfigError(
                "checks.gold",
                f"no query of {category or 'any category'} is left for a gold pair",
                "use more queries, smaller forms or fewer gold pairs",
            )
        return self.rng.choice(free)

    def _gold_pair(self, query: QueryFacts) -> int:
        """Store a pair whose first set, the target and a system's best images, should win."""
        best = next(iter(self.lists[query.query_id].values()))
        wanted = [] if query.target_id is None else [query.target_id]
        winner = [*wanted, *(image for image in best if image not in wanted)][: self.study.k]
        sets = [self._store_set(query, winner), self._store_set(query, self._far_images(query))]
        pair = added(
            self.session,
            Pair(
                study_id=self.study.id, query_id=query.query_id, first_id=sets[0], second_id=sets[1]
            ),
        )
        return pair.id

    def _far_images(self, query: QueryFacts) -> list[int]:
        """Random images that no system returned for the query, of other categories if possible."""
        near = {query.reference_id, query.target_id}
        lists = select(RankedList.image_ids).where(RankedList.query_id == query.query_id)
        for images in self.session.scalars(lists):
            near.update(images)
        pool = [image for image in self._images_outside(query.category) if image not in near]
        if len(pool) < self.study.k:
            raise ConfigError(
                "checks.gold", "there are too few other images for the losing set of a gold pair"
            )
        return self.rng.sample(pool, self.study.k)

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
        planted = added(self.session, RetrievedSet(query_id=query.query_id, system_id=None))
        self.session.execute(
            insert(RetrievedImage),
            [
                {"set_id": planted.id, "rank": rank, "image_id": image}
                for rank, image in enumerate(images)
            ],
        )
        return planted.id

    def _with_repeats(self, asked: list[DrawnQuestion]) -> list[DrawnQuestion]:
        """Repeat some of the form's own questions later with the sides swapped."""
        asked = list(asked)
        plain = [question for question in asked if question.gold is None]
        early = plain[: max(self.config.checks.repeated, len(plain) // 2)]
        for first in self.rng.sample(early, min(self.config.checks.repeated, len(early))):
            again = replace(
                first,
                swapped=not first.swapped,
                order_1=first.order_2,
                order_2=first.order_1,
                repeats=first,
            )
            earliest = min(asked.index(first) + 1 + REPEAT_DISTANCE, len(asked))
            asked.insert(self.rng.randint(earliest, len(asked)), again)
        return asked

    def _store(self, form: Form, asked: Sequence[DrawnQuestion]) -> None:
        keys = self.session.scalars(
            insert(Question).returning(Question.id, sort_by_parameter_order=True),
            [
                {
                    "form_id": form.id,
                    "place": place,
                    "pair_id": question.pair_id,
                    "swapped": question.swapped,
                    "order_1": question.order_1,
                    "order_2": question.order_2,
                }
                for place, question in enumerate(asked)
            ],
        ).all()
        if self.config.checks.arithmetic:
            self.session.add(sum_before(form.id, self.rng))
        for place, (key, question) in enumerate(zip(keys, asked, strict=True)):
            check = Check(form_id=form.id, place=place, question_id=key)
            if question.gold is not None:
                check.kind, check.expected = "gold", str(question.gold)
                self.session.add(check)
            elif question.repeats is not None:
                check.kind, check.repeats_id = "repeat", keys[asked.index(question.repeats)]
                self.session.add(check)
        self.session.flush()


def sum_before(form_id: int, rng: Random) -> Check:
    """The sum before a form; the page skips it before a participant's first form."""
    left, right = rng.randint(3, 9), rng.randint(3, 9)
    return Check(
        form_id=form_id,
        place=0,
        kind="arithmetic",
        prompt=f"{left} + {right}",
        expected=str(left + right),
    )
