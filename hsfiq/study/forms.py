"""A participant's forms: pairs of sets, sides, orders of images, gold questions and checks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import bindparam, insert, select
from sqlalchemy.orm import Session

from hsfiq.db import rows
from hsfiq.db.source_tables import Query, RankedList, System, Triplet
from hsfiq.db.tables import Check, Form, Question, Study
from hsfiq.errors import ConfigError
from hsfiq.kinds import KINDS, Rules
from hsfiq.study.config import StudyConfig, n_sets_of, rules_of

# Dividing what a study asks about among its participants.


class Placeable(Protocol):
    """The possible items of questions."""

    @property
    def triplet_id(self) -> int: ...

    @property
    def category(self) -> str: ...


P = TypeVar("P", bound=Placeable)


def batches(pairs: Sequence[P], config: StudyConfig, rng: Random) -> list[list[P]]:
    """Divide the pairs into batches of one category each (unless mixed), no triplet twice.

    Each pass covers every pair once, so the copies of a pair are in different batches. The last
    batches may be smaller.
    """
    design = config.design
    size = design.questions_per_form * design.forms_per_participant
    by_category: dict[str, list[P]] = defaultdict(list)
    for pair in pairs:
        by_category["" if design.categories == "mixed" else pair.category].append(pair)
    divided: list[list[P]] = []
    for category in sorted(by_category):
        members = by_category[category]
        shared = rng.sample(members, round(design.overlap_share * len(members)))
        packer: Packer[P] = Packer(size)
        for copy in range(design.annotators_per_query):
            pairs_of_pass = members if copy == 0 else shared
            packer.add(rng.sample(pairs_of_pass, len(pairs_of_pass)))
        divided += packer.batches
    return divided


class Packer(Generic[P]):
    """Fills batches of a given size, with no triplet twice in one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.batches: list[list[P]] = []
        self._triplets: list[set[int]] = []
        self._first_open = 0

    def add(self, pairs: Sequence[P]) -> None:
        for pair in pairs:
            index = self._place_for(pair.triplet_id)
            self.batches[index].append(pair)
            self._triplets[index].add(pair.triplet_id)
            while self._first_open < len(self.batches) and self._is_full(self._first_open):
                self._first_open += 1

    def _place_for(self, triplet_id: int) -> int:
        for index in range(self._first_open, len(self.batches)):
            if not self._is_full(index) and triplet_id not in self._triplets[index]:
                return index
        self.batches.append([])
        self._triplets.append(set())
        return len(self.batches) - 1

    def _is_full(self, index: int) -> bool:
        return len(self.batches[index]) == self.size


# Dividing the edges of a bipartite graph among colours, in equal numbers everywhere.
#
# Such a division always exists (de Werra, 1971), so what is drawn with it is balanced exactly.

Edge = tuple[Hashable, Hashable]


def balanced_colours(edges: Sequence[Edge], n_colours: int, rng: Random) -> list[int]:
    """A colour from 0 for each edge, which joins a left to a right vertex.

    The numbers of edges of two colours differ by at most 1, at each vertex and in all. Of the edges
    at a left vertex, in their order, every `n_colours` have all the colours.
    """
    colouring = Colouring(edges, n_colours)
    for edge in rng.sample(range(len(edges)), len(edges)):
        colouring.add(edge, rng)
    colouring.level()
    return [colouring.colours[edge] for edge in range(len(edges))]


class Colouring:
    """Each vertex is split into parts of `n_colours` edges or fewer; no part has a colour twice."""

    def __init__(self, edges: Sequence[Edge], n_colours: int) -> None:
        self.n_colours = n_colours
        degrees: Counter[Hashable] = Counter()
        self.parts: list[tuple[Hashable, Hashable]] = []
        for edge in edges:
            ends = tuple(enumerate(edge))
            left, right = ((end, degrees[end] // n_colours) for end in ends)
            self.parts.append((left, right))
            degrees.update(ends)
        self.colours: dict[int, int] = {}
        self._at: dict[Hashable, dict[int, int]] = defaultdict(dict)

    def add(self, edge: int, rng: Random) -> None:
        """Colour an edge, and recolour others if its ends have no free colour in common."""
        left, right = self.parts[edge]
        free_left, free_right = self._free(left), self._free(right)
        both = [colour for colour in free_left if colour in free_right]
        if both:
            self._set(edge, rng.choice(both))
            return
        colour = rng.choice(free_left)
        # In a bipartite graph, this path does not end at `left`.
        self._swap_path(right, colour, rng.choice(free_right))
        self._set(edge, colour)

    def level(self) -> None:
        """Recolour paths until the colours have as many edges as each other, or one more."""
        while True:
            counts = Counter(dict.fromkeys(range(self.n_colours), 0))
            counts.update(self.colours.values())
            most, fewest = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
            if counts[most] - counts[fewest] <= 1:
                return
            self._swap_path(self._start_of_more(most, fewest), most, fewest)

    def _free(self, part: Hashable) -> list[int]:
        return [colour for colour in range(self.n_colours) if colour not in self._at[part]]

    def _set(self, edge: int, colour: int) -> None:
        self.colours[edge] = colour
        for part in self.parts[edge]:
            self._at[part][colour] = edge

    def _path(self, part: Hashable, first: int, second: int) -> list[int]:
        """The edges from a part on, of two colours in turn."""
        path: list[int] = []
        while (edge := self._at[part].get(first)) is not None:
            path.append(edge)
            left, right = self.parts[edge]
            part = right if part == left else left
            first, second = second, first
        return path

    def _swap_path(self, part: Hashable, first: int, second: int) -> None:
        """Exchange the two colours of the path from a part on."""
        path = self._path(part, first, second)
        for edge in path:
            for end in self.parts[edge]:
                del self._at[end][self.colours[edge]]
        for edge in path:
            self._set(edge, second if self.colours[edge] == first else first)

    def _start_of_more(self, most: int, fewest: int) -> Hashable:
        """Where a path begins that begins and ends with the colour that has more edges."""
        return next(
            part
            for part, by_colour in self._at.items()
            if most in by_colour
            and fewest not in by_colour
            and len(self._path(part, most, fewest)) % 2
        )


# Queries and questions as they are drawn, before they are stored.


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """The properties of a query that drawing a study needs; ids are database keys."""

    query_id: int
    triplet_id: int
    category: str
    reference_id: int | None
    target_id: int | None


@dataclass(frozen=True, slots=True)
class DrawnQuestion:
    """A question before storing: its sets as shown, and its kind of check, if any.

    `expected` is the correct answer to a gold question, in its kind's format (`hsfiq.kinds`);
    `repeats` is the question that is repeated.
    """

    pair_id: int
    swapped: bool = False
    order_1: list[int] | None = None
    order_2: list[int] | None = None
    set_order: list[int] | None = None
    image_orders: list[list[int]] | None = None
    expected: str | None = None
    repeats: DrawnQuestion | None = None


# Gold questions: planted ones with an obvious answer.

Order = Callable[[], list[int] | None]
"""Draws the order in which a set's images are shown; None is best first."""


LISTS_OF_QUERY = select(RankedList.image_ids).where(RankedList.query_id == bindparam("query"))


class GoldQuestions:
    """Draws and stores gold questions; `hsfiq.kinds` defines the correct answers."""

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
        self.lists, self.rng, self.order = lists, rng, order
        self._by_category = by_category
        self._pools: dict[str, list[int]] = {}

    def draw(self, category: str, triplets: set[int]) -> DrawnQuestion:
        """A gold question about a triplet of the category that is not in `triplets` yet."""
        query = self._query(category, triplets)
        triplets.add(query.triplet_id)
        gold = KINDS[self.config.design.kind].gold
        if gold is None:  # what reads study.toml refuses `checks.gold` then
            raise ValueError(f"{self.config.design.kind} has no gold questions")
        drawn = gold.draw(GoldOfQuery(self, query))
        orders = [order for order in drawn.orders if order is not None]
        has_sides = drawn.set_order is None
        order_1, order_2 = (*drawn.orders, None)[:2] if has_sides else (None, None)
        return DrawnQuestion(
            self._item(query, drawn.sets),
            drawn.swapped,
            order_1,
            order_2,
            set_order=drawn.set_order,
            image_orders=None if has_sides else orders or None,
            expected=drawn.expected,
        )

    def _query(self, category: str, triplets: set[int]) -> QueryFacts:
        """A random query of the category whose triplet this participant does not otherwise see."""
        gold = KINDS[self.config.design.kind].gold
        needs_target = gold is not None and gold.needs_target
        free = [
            query
            for query in self._by_category[category]
            if query.triplet_id not in triplets and not (needs_target and query.target_id is None)
        ]
        if not free:
            with_target = " with a target" if needs_target else ""
            raise ConfigError(
                "checks.gold",
                f"no query of {category or 'any category'}{with_target} is left for a gold "
                f"question",
                "use more queries, smaller forms or fewer gold questions",
            )
        return self.rng.choice(free)

    def winner(self, query: QueryFacts) -> list[int]:
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
        pair_id = int(rows.execute(self.session, rows.NEW_PAIRS, pair).scalar_one())
        further = [
            {"pair_id": pair_id, "place": place, "query_id": query.query_id, "set_id": set_id}
            for place, set_id in enumerate(stored[2:], start=2)
        ]
        if further:
            rows.execute(self.session, rows.NEW_FURTHER_SETS, further)
        return pair_id

    def far_images(self, query: QueryFacts, number: int) -> list[int]:
        """Random images that no system returned for the query, of other categories if possible."""
        near = {query.reference_id, query.target_id}
        for (images,) in rows.rows_of(self.session, LISTS_OF_QUERY, {"query": query.query_id}):
            near.update(images)
        pool = [image for image in self._images_outside(query.category) if image not in near]
        if len(pool) < number:
            raise ConfigError(
                "checks.gold",
                "too few other images are available for a gold question",
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
        planted = int(rows.execute(self.session, rows.NEW_SETS, row).scalar_one())
        members = [
            {"set_id": planted, "rank": rank, "image_id": image}
            for rank, image in enumerate(images)
        ]
        rows.execute(self.session, rows.NEW_IMAGES, members)
        return planted


@dataclass(frozen=True, slots=True)
class GoldOfQuery:
    """The material of a gold question about a query (`hsfiq.kinds.kind.GoldDraw`)."""

    source: GoldQuestions
    query: QueryFacts

    @property
    def rules(self) -> Rules:
        return rules_of(self.source.config)

    @property
    def rng(self) -> Random:
        return self.source.rng

    def target(self) -> int:
        return self.query.target_id or 0

    def winner(self) -> list[int]:
        return self.source.winner(self.query)

    def lists(self, number: int) -> list[list[int]]:
        of_systems = self.source.lists[self.query.query_id]
        return [of_systems[system] for system in self.rng.sample(sorted(of_systems), number)]

    def far_images(self, number: int) -> list[int]:
        return self.source.far_images(self.query, number)

    def order(self) -> list[int] | None:
        return self.source.order()


# Reading what a study is drawn from: its queries with their systems' ranked lists.

Lists = Mapping[int, Mapping[int, list[int]]]
"""Top-k image keys by query key and system key."""


@dataclass(frozen=True, slots=True)
class Material:
    """The input of drawing a study: its queries' ranked lists and properties."""

    lists: Lists
    facts: Mapping[int, QueryFacts]


def material_for(session: Session, config: StudyConfig, query_ids: Sequence[int]) -> Material:
    """Read the input of drawing a study; `ConfigError` if lists are missing."""
    if not query_ids:
        raise ConfigError("queries", "there is no query", "import runs first")
    design, lists = config.design, {}
    if KINDS[design.kind].needs_lists:
        n_sets = n_sets_of(design)
        lists = ranked_lists(session, query_ids, design.k, config.queries.systems, n_sets)
    return Material(lists, query_facts(session, query_ids))


def query_facts(session: Session, query_ids: Sequence[int]) -> dict[int, QueryFacts]:
    wanted = set(query_ids)
    facts = session.execute(
        select(
            Query.id, Query.triplet_id, Triplet.category, Triplet.reference_id, Triplet.target_id
        ).join(Query.triplet)
    )
    return {row[0]: QueryFacts(*row) for row in facts if row[0] in wanted}


def ranked_lists(
    session: Session,
    query_ids: Sequence[int],
    k: int,
    systems: Sequence[str] = (),
    n_systems: int = 2,
) -> dict[int, dict[int, list[int]]]:
    """The keys of each system's top-k images, {query: {system: [image]}}, of so many or more."""
    lists: dict[int, dict[int, list[int]]] = {query: {} for query in query_ids}
    stored = select(RankedList.query_id, RankedList.system_id, RankedList.image_ids).order_by(
        RankedList.query_id, RankedList.system_id
    )
    if systems:
        stored = stored.join(System, RankedList.system_id == System.id).where(
            System.name.in_(systems)
        )
    for query_id, system_id, image_ids in session.execute(stored):
        if query_id in lists and len(image_ids) >= k:
            lists[query_id][system_id] = image_ids[:k]
    n_lacking = sum(len(by_system) < n_systems for by_system in lists.values())
    if n_lacking:
        raise ConfigError(
            "queries",
            f"{n_lacking} queries have lists of at least {k} images from fewer than "
            f"{n_systems} systems",
            "import the runs of more systems with `hsfiq import runs`",
        )
    return lists


# Questions that are asked again.

T = TypeVar("T")


def asked_again(first: DrawnQuestion, n_sets: int, rng: Random) -> DrawnQuestion:
    """A repetition of the question: the sets of a pair swap sides; more sets change places.

    Images keep their order within their set.
    """
    if n_sets < 2:
        return replace(first, repeats=first)
    if first.set_order is None:
        return replace(
            first,
            swapped=not first.swapped,
            order_1=first.order_2,
            order_2=first.order_1,
            repeats=first,
        )
    start = rng.randrange(1, n_sets)
    return replace(
        first,
        set_order=rotated(first.set_order, start),
        image_orders=first.image_orders and rotated(first.image_orders, start),
        repeats=first,
    )


def rotated(values: Sequence[T], start: int) -> list[T]:
    return [*values[start:], *values[:start]]


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
            form_id = int(rows.execute(self.session, NEW_FORM, form).scalar_one())
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
        to_store = [question_row(form_id, place, question) for place, question in enumerate(asked)]
        keys = rows.execute(self.session, rows.NEW_QUESTIONS, to_store).scalars().all()
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
            rows.execute(self.session, NEW_CHECKS, checks)


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
"""Defaults of columns that some kinds of checks lack, since bulk inserts need equal columns."""


def sum_before(form_id: int, rng: Random) -> dict[str, Any]:
    """The row of the sum before a form; the page skips it before a participant's first form."""
    left, right = rng.randint(3, 9), rng.randint(3, 9)
    return UNCHECKED | {
        "form_id": form_id,
        "place": 0,
        "kind": "arithmetic",
        "prompt": f"{left} + {right}",
        "expected": str(left + right),
    }
