"""A study's questions as columns, which take far fewer objects than rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby
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
from hsfiq.collect.participants import latest_changes, rule_text
from hsfiq.db.tables import Study
from hsfiq.ids import question_id
from hsfiq.kinds import KINDS, rows
from hsfiq.releases.questions import (
    KEY,
    TYPES,
    FormRow,
    PairRow,
    forms_together,
    from_json,
    read_checks,
    read_failed_checks,
    read_forms,
    read_pairs,
    read_questions,
    read_repeated,
    shown_sets,
    time_spent,
)
from hsfiq.releases.searches import SearchReader

# What a study asks about, by columns: each item and each set has a place.


class ItemColumns:
    """Items in the order of their database keys; `sets` are those of pairs.

    `of_pairs` has the columns of pairs by name, `of_sets` those of sets. `query_places` has the
    place in `queries` of each pair's query.
    """

    def __init__(self, pairs: Mapping[int, PairRow]) -> None:
        self.rows = list(pairs.values())
        self.keys = pa.array(list(pairs), pa.int64())
        sets: dict[int, rows.RetrievedSetRow] = {}
        places: dict[int, int] = {}
        for pair in self.rows:
            for retrieved in pair.sets:
                places.setdefault(id(retrieved), len(places))
                sets[id(retrieved)] = retrieved
        self._set_places = places
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

    @cached_property
    def sets(self) -> tuple[Array, Array]:
        """The places of the two sets of each pair."""
        first, second = (
            pa.array([self._set_places[id(pair.sets[side])] for pair in self.rows], pa.int32())
            for side in (0, 1)
        )
        return first, second


def texts(values: list[str] | list[str | None]) -> ByPlace:
    return distinct(pa.array(values, TEXT))


# Some questions, with what they refer to.

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
STORED = tuple(name for name in TYPES if name != "form_key")
Stored = Sequence[Any]
"""Values of the columns `STORED` of a question."""


class Part:
    """A batch of forms with their questions."""

    def __init__(
        self, reader: QuestionReader, forms: Sequence[FormRow], questions: pa.RecordBatch
    ) -> None:
        self.reader, self.forms = reader, forms
        self.searches = reader.searches.read(forms) if reader.searches else {}
        self._keys = questions.select(["key", "form_place", "place"])
        self.of_forms = {
            name: distinct(pa.array([self._value(form, name) for form in forms], kind))
            for name, kind in OF_FORMS.items()
        }
        self.id_beginnings = pa.array([id_of(form, "") for form in forms], TEXT)

    def _value(self, form: FormRow, name: str) -> Any:
        if name == "failed_checks":
            return self.reader.failed_checks.get(form.key)
        return getattr(form, name)

    def question(self, form: FormRow, stored: Stored, run: int | None) -> rows.QuestionRow:
        """The row of a question, from the values of `STORED`."""
        (
            key, place, pair_key, swapped, order_1, order_2, set_order, image_orders, reassigned,
            text, revision, score_1, score_2, preferred, confirmed, judgement, extra, irrelevant,
            reason, skipped, served_at, first_interaction_at, submitted_at, active_seconds, images,
            text_version, language,
        ) = stored  # fmt: skip
        reader = self.reader
        pair = reader.pairs[pair_key]
        order = from_json(set_order)
        orders: Sequence[list[int] | None]
        if order is None:
            orders = from_json(order_1), from_json(order_2)
        else:
            orders = from_json(image_orders) or [None] * len(order)
        first = reader.repeated.get(key)
        return rows.QuestionRow(
            question_id=id_of(form, place),
            participant_id=form.participant_id,
            form=form.form,
            category=form.category,
            place=place,
            pair_id=pair.pair_id,
            swapped=swapped,
            query=pair.query,
            text=pair.query.text if text is None else text,
            sets=shown_sets(pair, swapped=swapped, set_order=order),
            orders=tuple(orders),
            participant_status=form.participant_status,
            reassigned=reassigned,
            check=reader.checks.get(key),
            repeats=None if first is None else self._ids.get(first),
            failed_checks=reader.failed_checks.get(form.key),
            skipped=skipped,
            score_1=score_1,
            score_2=score_2,
            preferred=preferred,
            irrelevant=irrelevant,
            reason=reason,
            revision=revision,
            served_at=served_at,
            first_interaction_at=first_interaction_at,
            submitted_at=submitted_at,
            active_seconds=active_seconds,
            images=None if images is None else ImageStates.from_letters(images),
            text_version=text_version,
            judgement=None if judgement is None else json.loads(judgement),
            excluded_by_rule=reader.excluded_by_rule.get(form.participant_key),
            confirmed=confirmed,
            language=language,
            extra=None if extra is None else json.loads(extra),
            search=self.searches.get(key),
            run=run,
        )

    @cached_property
    def _ids(self) -> dict[int, str]:
        """The ids of the questions by their database keys."""
        keys: Iterator[Any] = zip(
            *(column.to_pylist() for column in self._keys.columns), strict=True
        )
        return {key: id_of(self.forms[form], place) for key, form, place in keys}


def id_of(form: FormRow, place: int | str) -> str:
    return question_id(form.participant_id, form.form, place)


class QuestionColumns(rows.Questions):
    """Some questions of a part.

    `data` has the stored values of each question, with the places of its form in the part and of
    its pair in `ItemColumns`. The row of a question is built on access.
    """

    def __init__(self, part: Part, data: pa.RecordBatch) -> None:
        self.part, self.data = part, data
        self.items = part.reader.items

    def __len__(self) -> int:
        return self.data.num_rows

    @overload
    def __getitem__(self, place: int) -> rows.QuestionRow: ...
    @overload
    def __getitem__(self, place: slice) -> list[rows.QuestionRow]: ...
    def __getitem__(self, place: int | slice) -> rows.QuestionRow | list[rows.QuestionRow]:
        if isinstance(place, slice):
            return [self._row(*stored) for stored in self._stored[place]]
        return self._row(*self._stored[place])

    def __iter__(self) -> Iterator[rows.QuestionRow]:
        return (self._row(*stored) for stored in self._stored)

    @cached_property
    def _stored(self) -> list[tuple[int, int | None, Stored]]:
        """For each question the place of its form, its run, and what is stored of it."""
        columns: list[list[Any]] = [self.data.column(name).to_pylist() for name in STORED]
        forms: list[Any] = self.data.column("form_place").to_pylist()
        runs: list[Any] = self.data.column("run").to_pylist()
        return list(zip(forms, runs, zip(*columns, strict=True), strict=True))

    def _row(self, form: int, run: int | None, stored: Stored) -> rows.QuestionRow:
        return self.part.question(self.part.forms[form], stored, run)

    def filter(self, mask: Array) -> QuestionColumns:
        return self if pc.all(mask).as_py() else QuestionColumns(self.part, self.data.filter(mask))

    def having(self, name: str) -> QuestionColumns:
        return self.filter(self.data.column(name).is_valid())

    def knows(self, name: str) -> bool:
        if name == "search":
            keys: list[Any] = self.data.column("key").to_pylist() if self.part.searches else []
            return any(key in self.part.searches for key in keys)
        column = self.of_forms(name).array if name in OF_FORMS else self.data.column(name)
        return bool(column.null_count < len(self))

    def queries(self) -> dict[int, rows.QueryRow]:
        of_questions: Array = pc.take(self.items.query_places, self.data.column("pair_place"))
        queries = [self.items.queries[place] for place in of_questions.unique().to_pylist()]
        return {query.key: query for query in queries}

    def participants(self) -> set[str]:
        places: list[Any] = self.data.column("form_place").unique().to_pylist()
        return {self.part.forms[place].participant_id for place in places}

    def given(self) -> list[Any]:
        names = ("participant_id", "score_1", "score_2", "preferred", "judgement")
        return [
            None if preferred is None and judgement is None else (*answer, preferred, judgement)
            for *answer, preferred, judgement in zip(*map(self.values, names), strict=True)
        ]

    def revisions(self) -> Iterator[tuple[rows.FormName, list[rows.Run]]]:
        # One step in Python for each run of places, not for each question.
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
        of_forms: Iterator[Any] = zip(
            form, first, places.take(lasts).to_pylist(), revision, strict=True
        )
        for place, runs in groupby(of_forms, key=itemgetter(0)):
            of_form = self.part.forms[place]
            yield (of_form.participant_id, of_form.form), [list(run[1:]) for run in runs]

    def with_runs(self, runs: Sequence[int | None]) -> QuestionColumns:
        place = self.data.schema.get_field_index("run")
        data = self.data.set_column(place, "run", pa.array(runs, WHOLE))
        return QuestionColumns(self.part, data)

    def values(self, name: str) -> Sequence[Any]:
        if name == "query":
            places: list[Any] = self.data.column("pair_place").to_pylist()
            return [self.items.rows[place].query for place in places]
        column = self.column(name)
        values: list[Any] = column.to_pylist()
        return values if name != "judgement" else [from_json(text) for text in values]

    def column(self, name: str) -> Array | ByPlace:
        made: dict[str, Callable[[], Array | ByPlace]] = {
            "check": self._checks,
            "is_left_search": self._left_searches,
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

    def _left_searches(self) -> Array:
        if not self.part.searches:
            return pa.repeat(pa.scalar(value=False), len(self))
        return pa.array([question.is_left_search for question in self], FLAG)

    def _checks(self) -> Array:
        kinds = self.part.reader.checks
        keys, names = pa.array(list(kinds), KEY), pa.array(list(kinds.values()), TEXT)
        return names.take(pc.index_in(self.data["key"], value_set=keys))

    def _few(self, name: str) -> ByPlace:
        return distinct(self.data.column(name))

    def _texts(self) -> Array | ByPlace:
        own, of_pairs = self.data.column("own_text"), self.of_pairs("text")
        return of_pairs if own.null_count == len(self) else pc.coalesce(own, of_pairs.array)

    def scored_sets(self) -> rows.Columns:
        return set_columns(self)

    def of_images(self, name: str) -> ByPlace:
        attribute, kind = OF_IMAGES[name]
        letters, places = encoded(self.data.column("images"))
        values = [getattr(ImageStates.from_letters(text), attribute) for text in letters]
        return distinct(pa.array(values, kind)).taken(places)


# Reading the questions, with their latest answers.


class QuestionReader:
    """Reads the questions of some forms; it holds what questions of all forms refer to."""

    def __init__(self, session: Session, study: Study) -> None:
        self.session = session
        self.pairs = read_pairs(session, study)
        self.items = ItemColumns(self.pairs)
        self.checks = read_checks(session, study)
        self.failed_checks = read_failed_checks(session, study)
        self.repeated = read_repeated(session, study)
        self.searches = SearchReader(session, study) if KINDS[study.kind].is_live else None
        of_any_kind = {name for kind in KINDS.values() for name in kind.stored_in}
        self.lacking = of_any_kind - set(KINDS[study.kind].stored_in)
        self.excluded_by_rule = {
            key: rule_text(change) for key, change in latest_changes(session, study).items()
        }

    def read(self, forms: Sequence[FormRow]) -> QuestionColumns:
        """The questions of forms, all forms of each of their participants."""
        keys = [form.key for form in forms]
        table = read_questions(self.session, keys, self.lacking)
        data = {name: combined(table[name]) for name in table.column_names}
        data["form_place"] = pc.index_in(data["form_key"], value_set=pa.array(keys, KEY))
        if keys != sorted(keys):
            order = pc.array_sort_indices(data["form_place"])  # a form's rows stay in their order
            data = {name: values.take(order) for name, values in data.items()}
        data["pair_place"] = pc.index_in(data["pair_key"], value_set=self.items.keys)
        data["revision"] = pc.fill_null(data["revision"], 0)
        data["run"] = pa.nulls(table.num_rows, WHOLE)
        questions = of_last_revisions(data)
        return QuestionColumns(Part(self, forms, questions), questions)


def read_batches(session: Session, study: Study) -> Iterator[QuestionColumns]:
    """Read all assigned questions, by participant, form and place, in parts.

    A part has about `QUESTIONS_AT_ONCE` questions, all of each participant. Only one part is in
    memory at a time, but all items are.
    """
    reader = QuestionReader(session, study)
    for together in forms_together(read_forms(session, study)):
        yield reader.read(together)


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


def set_columns(questions: QuestionColumns) -> rows.Columns:
    """The columns of `sets`."""
    numbers = pa.arange(0, 2 * len(questions))  # type: ignore[attr-defined] # not in its types
    places_of_sets = numbers.cast(WHOLE)
    of_question = pc.shift_right(places_of_sets, 1)
    side = pc.bit_wise_and(places_of_sets, 1)
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
        states.append(rows.by_rank(sets[rest % 2], by_order[rest // 2]))
    return ByPlace(Values(pa.array(states, TEXTS)), places)
