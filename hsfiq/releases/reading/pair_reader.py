"""Reading the questions of a study of pairs as columns, with their latest answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.releases.reading.forms import FormRow
from hsfiq.releases.reading.item_columns import ItemColumns
from hsfiq.releases.reading.pair_questions import PairQuestions, Part
from hsfiq.releases.reading.question_reader import (
    SELECTED,
    QuestionReader,
    Revision,
    time_spent,
)
from hsfiq.releases.schemas import FLAG, NUMBER, POINTS, TEXT, TIME, WHOLE
from hsfiq.releases.writing.json_lines import Array, combined

KEY = pa.int64()
TYPES: dict[str, pa.DataType] = {
    "key": KEY,
    "form_key": KEY,
    "place": WHOLE,
    "pair_key": KEY,
    "swapped": FLAG,
    "order_1": TEXT,
    "order_2": TEXT,
    "reassigned": FLAG,
    "own_text": TEXT,
    "revision": WHOLE,
    "score_1": POINTS,
    "score_2": POINTS,
    "preferred": POINTS,
    "confirmed": FLAG,
    "irrelevant": FLAG,
    "reason": TEXT,
    "skipped": TEXT,
    "served_at": TIME,
    "first_interaction_at": TIME,
    "submitted_at": TIME,
    "active_seconds": NUMBER,
    "images": TEXT,
    "text_version": WHOLE,
    "language": TEXT,
}
"""Of what is selected, that which questions about pairs have."""


class PairReader(QuestionReader):
    """Reads the questions of some forms as columns."""

    def __init__(self, session: Session, study: Study) -> None:
        super().__init__(session, study)
        self.items = ItemColumns(self.pairs)

    def read(self, forms: Sequence[FormRow]) -> PairQuestions:
        """The questions of forms, all forms of each of their participants."""
        keys = [form.key for form in forms]
        rows: list[Revision] = []
        parts = []
        for part in self.rows(forms):
            parts.append(as_batch(part))
            rows += part
        table = pa.Table.from_batches(parts, pa.schema(TYPES))
        data = {name: combined(table[name]) for name in TYPES}
        data["form_place"] = pc.index_in(data.pop("form_key"), value_set=pa.array(keys, KEY))
        if keys != sorted(keys):
            order = pc.array_sort_indices(data["form_place"])  # a form's rows stay in their order
            data = {name: values.take(order) for name, values in data.items()}
            rows = [rows[place] for place in cast("list[int]", order.to_pylist())]
        data["pair_place"] = pc.index_in(data.pop("pair_key"), value_set=self.items.keys)
        data["revision"] = pc.fill_null(data["revision"], 0)
        data["run"] = pa.nulls(len(rows), WHOLE)
        return PairQuestions(Part(self, self.items, forms, rows), of_last_revisions(data))


def as_batch(rows: Sequence[Revision]) -> pa.RecordBatch:
    columns = dict(zip(SELECTED, zip(*rows, strict=True), strict=True)) if rows else {}
    arrays = [as_array(columns.get(name, ()), kind) for name, kind in TYPES.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(TYPES))


def as_array(values: Sequence[Any], kind: pa.DataType) -> Array:
    """Values of the driver, which are numbers for the flags of SQLite, and texts for its times."""
    first = next((value for value in values if value is not None), None)
    if kind == FLAG and type(first) is int:
        return pa.array(values, pa.int8()).cast(FLAG)
    if kind == TIME and isinstance(first, str):
        return pa.array(values, TEXT).cast(pa.timestamp("us")).cast(TIME)
    return pa.array(values, kind)


def of_last_revisions(data: dict[str, Array]) -> pa.RecordBatch:
    """The rows with the last revision of each question; `first` and `end` enclose all of them."""
    keys = data["key"]
    n_rows = len(keys)
    if not n_rows:
        empty = pa.array([], WHOLE)
        return pa.RecordBatch.from_pydict({**data, "first": empty, "end": empty})
    is_last = pa.concat_arrays([pc.not_equal(keys[1:], keys[:-1]), pa.array([True])])
    ends = pc.add(pc.indices_nonzero(is_last), 1).cast(WHOLE)
    firsts = pa.concat_arrays([pa.array([0], WHOLE), ends[:-1]])
    every_spent = data["active_seconds"]
    batch = pa.RecordBatch.from_pydict(data)
    if len(ends) < n_rows:
        batch = batch.filter(is_last)
        spent = seconds_of_all(every_spent, batch.column("active_seconds"), firsts, ends)
        place = batch.schema.get_field_index("active_seconds")
        batch = batch.set_column(place, "active_seconds", spent)
    return batch.append_column("first", firsts).append_column("end", ends)


def seconds_of_all(every_spent: Array, last: Array, firsts: Array, ends: Array) -> Array:
    """The time of the last revision, or of all revisions if there are several."""
    is_revised = pc.greater(pc.subtract(ends, firsts), pa.scalar(1, WHOLE))
    seconds = every_spent.to_pylist()
    revised = (places.filter(is_revised).to_pylist() for places in (firsts, ends))
    sums = [time_spent(seconds[first:end]) for first, end in zip(*revised, strict=True)]
    return pc.replace_with_mask(last, is_revised, pa.array(sums, NUMBER))
