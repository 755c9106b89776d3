"""Questions about pairs as columns, and their rows in the table `sets`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy.orm import Session

from hsfiq.answer_rules import ImageStates
from hsfiq.arrow_columns import (
    FLAG,
    NUMBER,
    POINTS,
    TEXT,
    TEXTS,
    WHOLE,
    WHOLES,
    Array,
    ByPlace,
    Column,
    Values,
    combined,
    distinct,
    encoded,
    joined,
)
from hsfiq.db.tables import Study
from hsfiq.ids import question_id
from hsfiq.kinds.rows import (
    Columns,
    FormName,
    QueryRow,
    QuestionRow,
    Questions,
    RetrievedSetRow,
    Run,
    by_rank,
)
from hsfiq.releases.questions import (
    KEY,
    SELECTED,
    FormRow,
    PairRow,
    QuestionReader,
    Revision,
    read_questions,
    time_spent,
)

# What a study of pairs asks about, by columns: each pair and each set has a place.


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


# The questions of a study of pairs, by columns: far fewer objects than one for each question.

OF_FORMS = {
    "participant_id": TEXT,
    "form": TEXT,
    "participant_status": TEXT,
    "failed_checks": WHOLE,
}
OF_IMAGES = {
    "images_painted": ("are_painted", FLAG),
    "images_enlarged": ("n_enlarged", WHOLE),
    "reference_state": ("reference", TEXT),
}
"""For each column the attribute of `ImageStates`, and the type."""
FEW = ("revision", "text_version", "language")
"""Columns of the answers with few values."""


class Part:
    """What was read together: forms, and their questions."""

    def __init__(
        self,
        source: QuestionReader,
        items: ItemColumns,
        forms: Sequence[FormRow],
        questions: pa.RecordBatch,
    ) -> None:
        self.source, self.items, self.forms = source, items, forms
        self._keys = questions.select(["key", "form_place", "place"])
        self.of_forms = {
            name: distinct(pa.array([self._value(form, name) for form in forms], kind))
            for name, kind in OF_FORMS.items()
        }
        self.id_beginnings = pa.array([id_of(form, "") for form in forms], TEXT)

    def _value(self, form: FormRow, name: str) -> Any:
        if name == "failed_checks":
            return self.source.failed_checks.get(form.key)
        return getattr(form, name)

    def question(self, form: FormRow, revision: Revision) -> QuestionRow:
        first = self.source.repeated.get(revision[0])
        repeats = None if first is None else self._ids.get(first)
        return self.source.question(form, [revision], repeats)

    @cached_property
    def _ids(self) -> dict[int, str]:
        """The ids of the questions by their database keys."""
        rows: Iterator[Any] = zip(
            *(column.to_pylist() for column in self._keys.columns), strict=True
        )
        return {key: id_of(self.forms[form], place) for key, form, place in rows}


def id_of(form: FormRow, place: int | str) -> str:
    return question_id(form.participant_id, form.form, place)


class PairQuestions(Questions):
    """Some questions of a part.

    `data` has what the database has of each question, with the places of its form in the part and
    of its pair in `ItemColumns`. The row of a question is made when it is asked for.
    """

    def __init__(self, part: Part, data: pa.RecordBatch) -> None:
        self.part, self.data = part, data
        self.items = part.items

    def __len__(self) -> int:
        return self.data.num_rows

    @overload
    def __getitem__(self, place: int) -> QuestionRow: ...
    @overload
    def __getitem__(self, place: slice) -> list[QuestionRow]: ...
    def __getitem__(self, place: int | slice) -> QuestionRow | list[QuestionRow]:
        if isinstance(place, slice):
            return [self._row(*stored) for stored in self._stored[place]]
        return self._row(*self._stored[place])

    def __iter__(self) -> Iterator[QuestionRow]:
        return (self._row(*stored) for stored in self._stored)

    @cached_property
    def _stored(self) -> list[tuple[int, int | None, Revision]]:
        """For each question the place of its form, its run, and its row as the database has it."""
        present = set(self.data.schema.names)
        columns: list[Iterable[Any]] = [
            self.data.column(name).to_pylist() if name in present else repeat(None)
            for name in SELECTED
        ]
        forms: list[Any] = self.data.column("form_place").to_pylist()
        runs = self.data.column("run").to_pylist()
        return list(zip(forms, runs, zip(*columns, strict=False), strict=True))

    def _row(self, form: int, run: int | None, revision: Revision) -> QuestionRow:
        row = self.part.question(self.part.forms[form], revision)
        row.run = run
        return row

    def filter(self, mask: Array) -> PairQuestions:
        return self if pc.all(mask).as_py() else PairQuestions(self.part, self.data.filter(mask))

    def having(self, name: str) -> PairQuestions:
        return self.filter(self.data.column(name).is_valid())

    def knows(self, name: str) -> bool:
        if name in OF_FORMS:
            return bool(self.of_forms(name).array.null_count < len(self))
        return name in self.data.schema.names and self.data.column(name).null_count < len(self)

    def queries(self) -> dict[int, QueryRow]:
        of_questions: Array = pc.take(self.items.query_places, self.data.column("pair_place"))
        queries = [self.items.queries[place] for place in of_questions.unique().to_pylist()]
        return {query.key: query for query in queries}

    def participants(self) -> set[str]:
        places: list[Any] = self.data.column("form_place").unique().to_pylist()
        return {self.part.forms[place].participant_id for place in places}

    def given(self) -> list[Any]:
        columns = ("participant_id", "score_1", "score_2", "preferred")
        rows = zip(*map(self.values, columns), strict=True)
        return [None if row[-1] is None else row for row in rows]

    def revisions(self) -> Iterator[tuple[FormName, list[Run]]]:
        """The same by columns, with a step in Python for each run rather than for each question."""
        if not len(self):
            return
        names = ("form_place", "place", "revision")
        forms, places, revisions = columns = [self.data.column(name) for name in names]
        is_next = pc.equal(places[1:], pc.add(places[:-1], 1))
        for values in (forms, revisions):
            is_next = pc.and_(is_next, pc.equal(values[1:], values[:-1]))
        firsts = pc.indices_nonzero(pa.concat_arrays([pa.array([True]), pc.invert(is_next)]))
        last = pa.array([len(self) - 1], firsts.type)
        lasts = pa.concat_arrays([pc.subtract(firsts[1:], 1).cast(firsts.type), last])
        form, first, revision = (values.take(firsts).to_pylist() for values in columns)
        rows: Iterator[Any] = zip(
            form, first, places.take(lasts).to_pylist(), revision, strict=True
        )
        for place, runs in groupby(rows, key=itemgetter(0)):
            of_form = self.part.forms[place]
            yield (of_form.participant_id, of_form.form), [list(run[1:]) for run in runs]

    def with_runs(self, runs: Sequence[int | None]) -> PairQuestions:
        place = self.data.schema.get_field_index("run")
        data = self.data.set_column(place, "run", pa.array(runs, WHOLE))
        return PairQuestions(self.part, data)

    def values(self, name: str) -> Sequence[Any]:
        if name == "query":
            places: list[Any] = self.data.column("pair_place").to_pylist()
            return [self.items.rows[place].query for place in places]
        values: list[Any] = self.column(name).to_pylist()
        return values

    def column(self, name: str) -> Array | ByPlace:
        made: dict[str, Callable[[], Array | ByPlace]] = {
            "check": self._checks,
            "is_left_search": lambda: pa.repeat(pa.scalar(value=False), len(self)),
            "question_id": lambda: self.ids,
            "set_1": lambda: joined(self.ids, ".1"),
            "set_2": lambda: joined(self.ids, ".2"),
            "system_1": lambda: self.of_sets("system", 1),
            "system_2": lambda: self.of_sets("system", 2),
            "pair_id": lambda: self.of_pairs("pair_id"),
            "query_id": lambda: self.of_pairs("query_id"),
            "text": self._texts,
            **{each: partial(self._few, each) for each in FEW},
            **{each: partial(self.of_forms, each) for each in OF_FORMS},
            **{each: partial(self.of_images, each) for each in OF_IMAGES},
        }
        return made[name]() if name in made else self.data.column(name)

    @cached_property
    def ids(self) -> Array:
        beginnings = pc.take(self.part.id_beginnings, self.data.column("form_place"))
        return joined(beginnings, self.data.column("place").cast(TEXT))

    def of_forms(self, name: str) -> ByPlace:
        return self.part.of_forms[name].taken(self.data.column("form_place"))

    def of_pairs(self, name: str) -> ByPlace:
        return self.items.of_pairs[name].taken(self.data.column("pair_place"))

    def of_sets(self, name: str, side: int) -> ByPlace:
        return self.items.of_sets[name].taken(self.set_places(side))

    def set_places(self, side: int) -> Array:
        """The places of set 1 or 2, as shown, in `ItemColumns`."""
        first, second = (
            pc.take(places, self.data.column("pair_place")) for places in self.items.sets
        )
        straight, swapped = (first, second) if side == 1 else (second, first)
        return pc.if_else(self.data.column("swapped"), swapped, straight)

    def _checks(self) -> Array:
        kinds = self.part.source.checks
        keys, names = pa.array(list(kinds), KEY), pa.array(list(kinds.values()), TEXT)
        return names.take(pc.index_in(self.data["key"], value_set=keys))

    def _few(self, name: str) -> ByPlace:
        return distinct(self.data.column(name))

    def _texts(self) -> Array | ByPlace:
        own, of_pairs = self.data.column("own_text"), self.of_pairs("text")
        return of_pairs if own.null_count == len(self) else pc.coalesce(own, of_pairs.array)

    def scored_sets(self) -> Columns:
        return set_columns(self)

    def of_images(self, name: str) -> ByPlace:
        attribute, kind = OF_IMAGES[name]
        letters, places = encoded(self.data.column("images"))
        values = [getattr(ImageStates.from_letters(text), attribute) for text in letters]
        return distinct(pa.array(values, kind)).taken(places)


# Reading the questions of a study of pairs as columns, with their latest answers.


class PairReader(QuestionReader):
    """Reads the questions of some forms as columns."""

    def __init__(self, session: Session, study: Study) -> None:
        super().__init__(session, study)
        self.items = ItemColumns(self.pairs)

    def read(self, forms: Sequence[FormRow]) -> PairQuestions:
        """The questions of forms, all forms of each of their participants."""
        keys = [form.key for form in forms]
        table = read_questions(self.session, keys)
        data = {name: combined(table[name]) for name in table.column_names}
        data["form_place"] = pc.index_in(data["form_key"], value_set=pa.array(keys, KEY))
        if keys != sorted(keys):
            order = pc.array_sort_indices(data["form_place"])  # a form's rows stay in their order
            data = {name: values.take(order) for name, values in data.items()}
        data["pair_place"] = pc.index_in(data["pair_key"], value_set=self.items.keys)
        data["revision"] = pc.fill_null(data["revision"], 0)
        data["run"] = pa.nulls(table.num_rows, WHOLE)
        questions = of_last_revisions(data)
        return PairQuestions(Part(self, self.items, forms, questions), questions)


def of_last_revisions(data: dict[str, Array]) -> pa.RecordBatch:
    """The rows with the last revision of each question, and the time of all of its revisions."""
    keys, batch = data["key"], pa.RecordBatch.from_pydict(data)
    n_rows = len(keys)
    if not n_rows:
        return batch
    is_last = pa.concat_arrays([pc.not_equal(keys[1:], keys[:-1]), pa.array([True])])
    ends = pc.add(pc.indices_nonzero(is_last), 1).cast(WHOLE)
    if len(ends) == n_rows:
        return batch
    firsts = pa.concat_arrays([pa.array([0], WHOLE), ends[:-1]])
    batch = batch.filter(is_last)
    last = batch.column("active_seconds")
    spent = seconds_of_all(data["active_seconds"], last, firsts, ends)
    return batch.set_column(batch.schema.get_field_index("active_seconds"), "active_seconds", spent)


def seconds_of_all(every_spent: Array, last: Array, firsts: Array, ends: Array) -> Array:
    """The time of the last revision, or of all revisions if there are several."""
    is_revised = pc.greater(pc.subtract(ends, firsts), pa.scalar(1, WHOLE))
    seconds = every_spent.to_pylist()
    revised = (places.filter(is_revised).to_pylist() for places in (firsts, ends))
    sums = [time_spent(seconds[first:end]) for first, end in zip(*revised, strict=True)]
    return pc.replace_with_mask(last, is_revised, pa.array(sums, NUMBER))


def set_columns(questions: PairQuestions) -> Columns:
    """The columns of `sets`."""
    numbers = pa.arange(0, 2 * len(questions))  # type: ignore[attr-defined] # not in its types
    rows = numbers.cast(WHOLE)
    of_question, side = pc.shift_right(rows, 1), pc.bit_wise_and(rows, 1)
    places = pc.add(of_question, pc.multiply(side, len(questions)))

    def by_turns(first: Array, second: Array) -> Array:
        return pc.take(pa.concat_arrays([first, second]), places)

    def twice(name: str) -> Column:
        column = questions.column(name)
        return (
            column.taken(of_question) if isinstance(column, ByPlace) else column.take(of_question)
        )

    data = questions.data
    sets = by_turns(questions.set_places(1), questions.set_places(2))
    orders = by_turns(data["order_1"], data["order_2"])
    return {
        "set_id": by_turns(questions.column("set_1"), questions.column("set_2")),
        "question_id": twice("question_id"),
        "side": pc.add(side, 1).cast(POINTS),
        "participant_id": twice("participant_id"),
        "query_id": twice("query_id"),
        "system": questions.items.of_sets["system"].taken(sets),
        "image_ids": questions.items.of_sets["image_ids"].taken(sets),
        "shown_order": shown_orders(orders),
        "image_states": image_states(data["images"].take(of_question), side, orders),
        "score": by_turns(data["score_1"], data["score_2"]),
    }


def shown_orders(orders: Array) -> ByPlace:
    texts, places = encoded(orders)
    return ByPlace(Values(pa.array(list(map(json.loads, texts)), WHOLES)), places)


def image_states(images: Array, side: Array, orders: Array) -> ByPlace:
    """The states by rank; they are the same for the same letters, side and order."""
    letters, of_letters = encoded(images)
    texts, of_orders = encoded(orders)
    of_orders = pc.fill_null(of_orders, len(texts))
    code = pc.add(pc.multiply(pc.add(pc.multiply(of_letters, len(texts) + 1), of_orders), 2), side)
    codes, places = encoded(code)
    by_order = [*map(json.loads, texts), None]
    states = []
    for each in codes:
        of_letter, rest = divmod(each, 2 * len(by_order))
        sets = ImageStates.from_letters(letters[of_letter]).sets
        states.append(by_rank(sets[rest % 2], by_order[rest // 2]))
    return ByPlace(Values(pa.array(states, TEXTS)), places)
