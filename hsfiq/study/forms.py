"""Write a participant's forms: sides, orders of images, and attention checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from hsfiq.db.rows import NEW_QUESTIONS, execute
from hsfiq.db.tables import Check, Form, Question, Study
from hsfiq.study.config import StudyConfig, n_sets_of
from hsfiq.study.drawing.gold import GoldQuestions
from hsfiq.study.drawing.questions import DrawnQuestion, QueryFacts
from hsfiq.study.drawing.repeats import asked_again

REPEAT_DISTANCE = 3
"""The fewest questions between a question and its repetition, if the form is long enough."""


# Made once, and rows rather than objects: a study has many forms.
NEW_FORM = insert(Form).returning(Form.id)
NEW_CHECKS = insert(Check)


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
        first_number: int = 0,
    ) -> None:
        self.session, self.study, self.config = session, study, config
        self.rng = rng
        self._next_number = first_number
        self._by_category: dict[str, list[QueryFacts]] = defaultdict(list)
        for query in facts.values():
            self._by_category[query.category].append(query)
            if query.category:
                self._by_category[""].append(query)
        self._gold = GoldQuestions(
            session, study, config, self._by_category, lists, rng, self._order
        )

    def write(self, batch: int, category: str, pairs: Sequence[tuple[int, int]]) -> None:
        """Write one participant's forms of these (pair, triplet) keys."""
        triplets = {triplet for _, triplet in pairs}
        size = self.config.design.questions_per_form
        for start in range(0, len(pairs), size):
            own = [pair_id for pair_id, _ in pairs[start : start + size]]
            form = {
                "study_id": self.study.id,
                "number": self._next_number,
                "portion": batch,  # the column's name
                "category": category,
                "n_questions": len(own),
            }
            self._next_number += 1
            form_id = int(execute(self.session, NEW_FORM, form).scalar_one())
            asked = self._with_repeats(self._with_gold(self._plain(own), category, triplets))
            self._store(form_id, asked)

    def _plain(self, pair_ids: Sequence[int]) -> list[DrawnQuestion]:
        """The form's own questions, with the sets and their images in the order drawn."""
        n_sets = n_sets_of(self.config.design)
        if n_sets == 2:
            return self._pairs(pair_ids)
        return [self._question(pair_id, n_sets) for pair_id in pair_ids]

    def _question(self, pair_id: int, n_sets: int) -> DrawnQuestion:
        if n_sets < 2:
            return DrawnQuestion(pair_id, order_1=self._order() if n_sets else None)
        orders = [order for _ in range(n_sets) if (order := self._order()) is not None]
        set_order = self.rng.sample(range(n_sets), n_sets)
        return DrawnQuestion(pair_id, set_order=set_order, image_orders=orders or None)

    def _pairs(self, pair_ids: Sequence[int]) -> list[DrawnQuestion]:
        """Pairs, half of them swapped at random (of an odd number, one more)."""
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
            gold = self._gold.draw(category, triplets)
            asked.insert(self.rng.randint(0, len(asked)), gold)
        return asked

    def _with_repeats(self, asked: list[DrawnQuestion]) -> list[DrawnQuestion]:
        """Repeat some of the form's own questions later with their sets in another order."""
        asked = list(asked)
        plain = [question for question in asked if question.expected is None]
        early = plain[: max(self.config.checks.repeated, len(plain) // 2)]
        for first in self.rng.sample(early, min(self.config.checks.repeated, len(early))):
            again = asked_again(first, n_sets_of(self.config.design), self.rng)
            earliest = min(asked.index(first) + 1 + REPEAT_DISTANCE, len(asked))
            asked.insert(self.rng.randint(earliest, len(asked)), again)
        return asked

    def _store(self, form_id: int, asked: Sequence[DrawnQuestion]) -> None:
        rows = [question_row(form_id, place, question) for place, question in enumerate(asked)]
        keys = execute(self.session, NEW_QUESTIONS, rows).scalars().all()
        checks: list[dict[str, Any]] = []
        if self.config.checks.arithmetic:
            checks.append(sum_before(form_id, self.rng))
        for place, (key, question) in enumerate(zip(keys, asked, strict=True)):
            check = UNCHECKED | {"form_id": form_id, "place": place, "question_id": key}
            if question.expected is not None:
                checks.append(check | {"kind": "gold", "expected": question.expected})
            elif question.repeats is not None:
                repeats = keys[asked.index(question.repeats)]
                checks.append(check | {"kind": "repeat", "repeats_id": repeats})
        if checks:
            execute(self.session, NEW_CHECKS, checks)


def question_row(form_id: int, place: int, question: DrawnQuestion | Question) -> dict[str, Any]:
    """The row of a new question, at this place of a form, that shows what the given one shows."""
    return {
        "form_id": form_id,
        "place": place,
        "pair_id": question.pair_id,
        "swapped": question.swapped,
        "order_1": question.order_1,
        "order_2": question.order_2,
        "set_order": question.set_order,
        "image_orders": question.image_orders,
    }


UNCHECKED = dict.fromkeys(("prompt", "expected", "question_id", "repeats_id"))
"""What not every kind of check has; rows that are stored together name the same columns."""


def sum_before(form_id: int, rng: Random) -> dict[str, Any]:
    """The sum before a form, as a row; the page skips it before a participant's first form."""
    left, right = rng.randint(3, 9), rng.randint(3, 9)
    return UNCHECKED | {
        "form_id": form_id,
        "place": 0,
        "kind": "arithmetic",
        "prompt": f"{left} + {right}",
        "expected": str(left + right),
    }
